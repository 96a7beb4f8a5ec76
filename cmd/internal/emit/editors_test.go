package emit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer/explain"
	"backfeed/internal/testtool"
)

// mixDir is the directory of the program mix.
const mixDir = "../../../testdata/mix"

// mixSession infers the recording of testdata/mix.
func mixSession(t *testing.T) *input.Session {
	t.Helper()
	src, err := input.Infer(context.Background(), []string{filepath.Join(mixDir, "samples.bfr")}, input.Options{Symfs: []string{mixDir}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(src.Close)
	return src
}

// mixSource is a directory with the source of mix alone.
func mixSource(t *testing.T) *Places {
	t.Helper()
	dir := t.TempDir()
	testtool.Put(t, filepath.Join(dir, "mix.c"), testtool.Read(t, mixDir, "mix.c"))
	p, err := NewPlaces([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestLcov: the lines of mix.c have the counts of their blocks, the functions those of their entries; what is not below the
// directory is left out.
func TestLcov(t *testing.T) {
	src := mixSession(t)
	var b bytes.Buffer
	summary, err := Lcov(&b, src, mixSource(t))
	if err != nil {
		t.Fatal(err)
	}
	testtool.Golden(t, "testdata/mix.info", b.Bytes())
	if strings.Count(b.String(), "SF:") != 1 || !strings.HasPrefix(summary[0], "93 lines of 1 files") {
		t.Errorf("%s", summary)
	}
	ip, err := src.Image("mix")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range ip.Procs {
		if fn := "," + r.Proc.Name + "\n"; !r.Seen && strings.Contains(b.String(), fn) {
			t.Errorf("%s has lines, and nothing was seen of it", r.Proc.Name)
		}
		if r.Proc.Name == "lookup" {
			if want := fmt.Sprintf("FNDA:%.0f,lookup\n", r.Entries.N); !strings.Contains(b.String(), want) {
				t.Errorf("no %q", want)
			}
		}
	}
	all, err := NewPlaces(nil)
	if err != nil {
		t.Fatal(err)
	}
	var everything bytes.Buffer
	if _, err := Lcov(&everything, src, all); err != nil || strings.Count(everything.String(), "SF:") < 2 {
		t.Errorf("%v: %d files", err, strings.Count(everything.String(), "SF:"))
	}
}

// TestLcovRan: of a procedure with samples that is thought to be entered less than once, no line is said not to have run but those of cold code.
func TestLcovRan(t *testing.T) {
	src := mixSession(t)
	ip, err := src.Image("mix")
	if err != nil {
		t.Fatal(err)
	}
	lines := func() (out string, zero int) {
		var b bytes.Buffer
		if _, err := Lcov(&b, src, mixSource(t)); err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(b.String(), "\n") {
			if strings.HasPrefix(line, "DA:") && strings.HasSuffix(line, ",0") {
				zero++
			}
		}
		return b.String(), zero
	}
	_, before := lines()
	for _, r := range ip.Procs {
		if r.Proc.Name == "lookup" {
			r.Entries.N = 0
			for b := range r.Block {
				r.Block[b].N, r.Cold[b] = 0, false
			}
		}
	}
	if out, zero := lines(); zero != before || !strings.Contains(out, "FNDA:1,lookup\n") || !strings.Contains(out, "DA:44,1\n") {
		t.Errorf("%d lines that did not run, %d before:\n%s", zero, before, out)
	}
}

// TestLcovRead: lcov reads the file, and counts the lines and functions that it has.
func TestLcovRead(t *testing.T) {
	testtool.Need(t, "lcov", "genhtml")
	dir := t.TempDir()
	testtool.Put(t, filepath.Join(dir, "mix.c"), testtool.Read(t, mixDir, "mix.c"))
	testtool.Put(t, filepath.Join(dir, "mix.info"), testtool.Read(t, "testdata/mix.info"))
	info := testtool.Read(t, "testdata/mix.info")
	hit := 0
	for line := range strings.Lines(info) {
		if at, n, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "DA:"), ","); ok && strings.HasPrefix(line, "DA:") && at != "" && n != "0" {
			hit++
		}
	}
	says := testtool.Run(t, dir, "lcov", "--summary", "mix.info")
	if want := fmt.Sprintf("(%d of %d lines)", hit, strings.Count(info, "\nDA:")); !strings.Contains(says, want) {
		t.Errorf("lcov does not say %q:\n%s", want, says)
	}
	testtool.Run(t, dir, "genhtml", "mix.info", "-o", "html")
}

// sarifRequired are the fields that SARIF 2.1.0 requires of the objects that are written, with the words that it allows.
const sarifRequired = `{
	"type": "object", "required": ["version", "runs"], "properties": {
	"version": {"const": "2.1.0"},
	"runs": {"type": "array", "items": {"type": "object", "required": ["tool"], "properties": {
		"tool": {"type": "object", "required": ["driver"], "properties": {"driver": {"type": "object", "required": ["name"], "properties": {
			"rules": {"type": "array", "uniqueItems": true, "items": {"type": "object", "required": ["id"], "properties": {
				"shortDescription": {"type": "object", "required": ["text"]}, "defaultConfiguration": {"properties": {"level": {"enum": ["none", "note", "warning", "error"]}}}}}}}}}},
		"results": {"type": "array", "items": {"type": "object", "required": ["message", "ruleId", "locations"], "properties": {
			"message": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
			"level": {"const": "note"}, "rank": {"type": "number", "minimum": -1, "maximum": 100}, "ruleIndex": {"type": "integer", "minimum": 0},
			"locations": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["physicalLocation"], "properties": {"physicalLocation": {"type": "object", "required": ["artifactLocation"], "properties": {
				"artifactLocation": {"required": ["uri"], "properties": {"uri": {"type": "string", "minLength": 1}}}, "region": {"required": ["startLine"], "properties": {"startLine": {"type": "integer", "minimum": 1}}}}}}}},
			"properties": {"type": "object"}}}}}}}}}`

// TestSARIF: findings are by line and cause, each cause is a rule, and all that is required is there.
func TestSARIF(t *testing.T) {
	src := mixSession(t)
	var b bytes.Buffer
	if _, err := SARIF(&b, src, mixSource(t), ""); err != nil {
		t.Fatal(err)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, b.Bytes(), "", "  "); err != nil {
		t.Fatal(err)
	}
	testtool.Golden(t, "testdata/mix.sarif", pretty.Bytes())
	if err := testtool.Schema(t, sarifRequired)(b.String()); err != nil {
		t.Error(err)
	}
	var doc struct {
		Runs []struct {
			Tool struct {
				Driver struct{ Rules []sarifRule }
			}
			Results []finding
		}
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	run := doc.Runs[0]
	sum := 0.0
	for i, f := range run.Results {
		share := f.Properties["share"].(float64)
		sum += share
		if share < leastFinding || i > 0 && f.Rank > run.Results[i-1].Rank || run.Tool.Driver.Rules[f.RuleIndex].ID != f.Rule {
			t.Errorf("result %d: share %v, rank %v, rule %s", i, share, f.Rank, f.Rule)
		}
		if at := f.Locations[0].Physical; at.Artifact.URI != "mix.c" || at.Artifact.Base != "%SRCROOT%" || at.Region.Line < 1 {
			t.Errorf("result %d is at %+v", i, at)
		}
	}
	x, err := src.Explain()
	if err != nil {
		t.Fatal(err)
	}
	if all := report.NewTopStalls(src.Profile, x, report.StallFilter{}, 1).Stalled; !(sum > 0.8*all) || sum > all {
		t.Errorf("findings have %v of the time, all stalls %v", sum, all)
	}
}

// TestSARIFBounds: no more is written than readers take, and names are no markup of the file.
func TestSARIFBounds(t *testing.T) {
	doc := &report.TopStalls{}
	long := strings.Repeat("<script>\x1b[31m\"", 300)
	for i := range 7000 {
		doc.Stalls = append(doc.Stalls, report.StallRow{Share: 0.01, Stall: 1, Executions: 1, File: "a b/" + strconv.Itoa(i%100) + "?.c", Line: 1 + i/100, Name: report.NameOf(long), Instruction: "nop",
			Culprits: []report.CulpritRow{{Cause: explain.DCache.String(), Most: 1}}})
	}
	all, rules, left := findings(doc, &Places{})
	if len(all) != 7000 || len(rules) != 1 || left != 0 {
		t.Fatalf("%d findings, %d rules, %v left", len(all), len(rules), left)
	}
	var b bytes.Buffer
	n, err := writeSARIF(&b, all, rules, "1.0")
	if err != nil || b.Len() > 10<<20 || n > maxFindings || n < 1000 {
		t.Errorf("%v: %d results, %d bytes", err, n, b.Len())
	}
	if err := testtool.Schema(t, sarifRequired)(b.String()); err != nil {
		t.Error(err)
	}
	if bytes.Contains(b.Bytes(), []byte{0x1b}) || bytes.Contains(b.Bytes(), []byte(`\u001b`)) || !bytes.Contains(b.Bytes(), []byte(`"a%20b/0%3F.c"`)) {
		t.Errorf("a name is as it is: %.300s", b.String())
	}
	if full := os.Getenv("BACKFEED_SARIF_SCHEMA"); full != "" { // the standard's own, which is not ours to keep
		text := testtool.Read(t, full)
		if err := testtool.Schema(t, text)(b.String()); err != nil {
			t.Error(err)
		}
		if err := testtool.Schema(t, text)(testtool.Read(t, "testdata/mix.sarif")); err != nil {
			t.Error(err)
		}
	}
}
