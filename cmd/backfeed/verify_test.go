package main

import (
	"encoding/json"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// A loop whose counts are right, and a block behind it that is thought to run
// half as often as it does.
const (
	countsJSON = `{"schema": "backfeed.counts/1", "machine": "test", "event": {"name": "cpu-clock"},
"samples": {"total": 10, "used": 10, "lost": {}}, "images": [{"path": "/bin/app", "samples": 10, "procs": [
{"name": "f", "addr": "0x1000", "size": 12, "samples": 10, "entries": 10, "complete": true, "blocks": [
{"addr": "0x1000", "size": 8, "insns": 2, "samples": 9, "count": 1000, "confidence": "high", "shape": "high"},
{"addr": "0x1008", "size": 4, "insns": 1, "samples": 1, "count": 5, "confidence": "low", "shape": "low"}],
"edges": [{"from": "0x1000", "to": "0x1000", "kind": "taken", "count": 990, "confidence": "high", "shape": "high"},
{"from": "0x1000", "to": "0x1008", "kind": "fallthrough", "count": 5, "confidence": "low", "shape": "low"}], "calls": []}]}]}`
	truthJSON = `{"/bin/app": {"insn": {"0x1000": 1000, "0x1004": 1000, "0x1008": 10}, "jump": [["0x1004", "0x1000", 990]], "call": []}}`
)

func TestVerify(t *testing.T) {
	dir := t.TempDir()
	counts, truth := testtool.Write(t, dir, "counts.json", countsJSON), testtool.Write(t, dir, "truth.json", truthJSON)

	var a report.Accuracy
	if err := json.Unmarshal([]byte(must(t, "verify", counts, "--truth", truth, "--format", "json")), &a); err != nil {
		t.Fatal(err)
	}
	if a.Within5 < 0.99 || a.Within5 == 1 || a.BlockOverlap < 0.99 || a.BlockOverlap == 1 || a.EdgeWithin10 != 1 || a.Scale < 1 || a.Scale > 1.01 {
		t.Errorf("accuracy is %+v", a)
	}
	if len(a.InstErrors) != 20 || a.InstErrors[0].Low != nil || *a.InstErrors[0].High != -45 || a.InstErrors[19].High != nil {
		t.Errorf("classes of errors: %+v", a.InstErrors)
	}
	sum := 0.0
	for _, e := range a.InstErrors {
		for _, share := range e.Share {
			sum += share
		}
	}
	if sum < 0.999 || sum > 1.001 {
		t.Errorf("the shares of all errors add up to %v", sum)
	}

	// Processes of one program have a file each.
	rare := testtool.Write(t, dir, "rare.json", `{"/bin/app": {"insn": {"0x1008": 10}, "jump": [], "call": []}}`)
	often := testtool.Write(t, dir, "often.json", `{"/bin/app": {"insn": {"0x1000": 1000, "0x1004": 1000}, "jump": [["0x1004", "0x1000", 990]], "call": []}}`)
	if one, two := must(t, "verify", counts, "--truth", truth), must(t, "verify", counts, "--truth", rare, "--truth", often); one != two {
		t.Errorf("of two files %q, of one %q", two, one)
	}

	if _, _, stderr := runCLI(t, "verify", counts, "--truth", truth); !strings.Contains(stderr, "100.0% of the truth, which are not at hand, string instructions count by their repetitions") {
		t.Errorf("of an image that is not there, this is said: %q", stderr)
	}
	testtool.Golden(t, "testdata/verify.txt", must(t, "verify", counts, "--truth", truth))
}

// TestVerifyRefuses: what cannot be compared is not given figures.
func TestVerifyRefuses(t *testing.T) {
	dir := t.TempDir()
	counts, truth := testtool.Write(t, dir, "counts.json", countsJSON), testtool.Write(t, dir, "truth.json", truthJSON)
	other := testtool.Write(t, dir, "other.json", strings.ReplaceAll(truthJSON, "/bin/app", "/bin/other"))
	text := testtool.Write(t, dir, "notes.txt", "these are not counts\n")
	rec := recording(t, dir, "rec", sample.ImageID{Path: "/nowhere/app"})
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{counts, exitUsage, "want --truth FILE"},
		{"--truth " + truth, exitUsage, "wrong number of arguments"},
		{counts + " " + truth + " --truth " + truth, exitUsage, "wrong number of arguments"},
		{counts + " --truth " + truth + " --format xml", exitUsage, "want text or json"},
		{dir + "/absent --truth " + truth, exitFailed, "/absent: no such file"},
		{counts + " --truth " + dir + "/absent", exitFailed, "/absent: no such file"},
		{counts + " --truth " + dir, exitFailed, dir + ": "},
		{text + " --truth " + truth, exitNothing, "notes.txt: "},
		{truth + " --truth " + counts, exitNothing, "truth.json: "},
		{counts + " --truth " + text, exitNothing, "notes.txt: "},
		{counts + " --truth " + other, exitNothing, "no code in common"},
		{counts + " --truth " + truth + " --samples " + text, exitNothing, "notes.txt: "},
		{counts + " --truth " + truth + " --samples " + rec, exitNothing, "no samples of event"},
	} {
		code, stdout, stderr := runCLI(t, strings.Fields("verify "+tt.args)...)
		if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("verify %s: exit code %d, want %d; printed %q; message %q, want %q in it", tt.args, code, tt.code, stdout, stderr, tt.want)
		}
	}
}
