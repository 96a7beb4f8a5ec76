package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"backfeed/sample"
)

// A shown is a command with what its terminal is to show.
type shown struct {
	args []string
	main []string // heads of main columns
	cell []string // what they show
}

// TestTables: on terminals of 80 and of 120 columns, no table and no sentence that commands print of recordings
// is wider, and none lacks the column that it is about.
func TestTables(t *testing.T) {
	dir := t.TempDir()
	mix := func(args ...string) []string {
		return append(args, filepath.Join(mixDir, "samples.bfr"), "--symfs", mixDir)
	}
	samples, program := filepath.Join(mixDir, "samples.bfr"), filepath.Join(mixDir, "mix")
	counts, profile := filepath.Join(dir, "counts.json"), filepath.Join(dir, "mix.prof")
	must(t, mix("infer", "--format", "json", "-o", counts)...)
	must(t, mix("emit", "llvm", "--image", program, "-o", profile)...)
	truth := filepath.Join(mixDir, "truth.json.gz")
	im, faults := openSampled(t, program)
	faults.Event = sample.Event{Name: "sigfpe:intdiv", Period: 1, Unit: "events"}
	at, ok := im.OffsetOf(proc(t, im, "lookup").Addr)
	if !ok {
		t.Fatal("lookup is not in the file")
	}
	faults.AddSample(0, at, 7)
	_, starts := openSampled(t, program)
	starts.AddSample(0, at, 50)
	starts.Touch(0, at, 300_000)
	calls, itself := programRecording(t)

	checkScreens(t, []shown{
		{mix("prof"), []string{"procedure"}, []string{"lookup"}},
		{mix("prof", "--by", "line"), []string{"line"}, []string{"mix.c:"}},
		{mix("prof", "--by", "file"), []string{"file"}, []string{"mix.c"}},
		{mix("prof", "--by", "image"), []string{"image"}, []string{"mix"}},
		{mix("prof", "--all-events"), []string{"procedure"}, []string{"lookup"}},
		{mix("prof", "--experiment", "ideal"), []string{"ideal", "ratio", "procedure"}, []string{"lookup", "(all procedures)"}},
		{mix("prof", "--experiment", "mix"), []string{"executions", "share", "kind"}, []string{"integer", "branch"}},
		{mix("prof", "--experiment", "usertime"), []string{"inclusive", "procedure"}, []string{"lookup"}},
		{mix("prof", "--experiment", "usertime", "--proc", "lookup"), []string{"procedure"}, []string{"lookup"}},
		{mix("list", "lookup"), []string{"instruction"}, []string{"imul $0x9e3779b1,%edi,%edx", "lea 0x273203(%rip),%rsi", "mov (%rsi,%rdx,8),%rcx"}},
		{mix("topstalls"), []string{"instruction", "procedure"}, []string{"cmp %edi,0x8(%rax)"}},
		{append([]string{"topstalls"}, alone(t, "stalls/chase.bfr", "stalls/stalls")...), []string{"instruction"}, []string{"chase"}},
		{mix("whatcg"), []string{"cause"}, []string{"d dcache-miss"}},
		{mix("whatcg", "--cause", "d"), []string{"procedure"}, []string{"lookup"}},
		{mix("images"), []string{"image"}, []string{"mix"}},
		{mix("infer"), []string{"image", "procedure"}, []string{"mix", "lookup"}},
		{mix("infer", "--places", "5"), []string{"procedure"}, nil},
		{[]string{"stats", samples, samples, "--symfs", mixDir}, []string{"procedure", "source"}, []string{"lookup", "samples.bfr"}},
		{[]string{"verify", counts, "--truth", truth}, []string{"value"}, []string{"overlap"}},
		{mix("check"), []string{"check", "verdict"}, nil},
		{[]string{"verdict", samples, samples, "--symfs", mixDir}, []string{"change", "procedure"}, []string{"lookup"}},
		{[]string{"diff", samples, samples, "--symfs", mixDir}, []string{"procedure"}, []string{"lookup"}},
		{[]string{"diff", samples, samples, "--symfs", mixDir, "--by", "block"}, []string{"procedure"}, []string{"ackermann"}},
		{[]string{"diff", os.DevNull, profile, "--for", "llvm"}, []string{"what"}, []string{"lookup"}},
		{[]string{"layout", program, samples, "--symfs", mixDir, "--for", "text"}, []string{"function", "as linked", "functions ordered", "upper bound"}, []string{"lookup"}},
		{[]string{"layout", program, samples, "--symfs", mixDir, "--for", "text", "--holdout", samples}, []string{"function", "as linked", "functions ordered", "upper bound"}, []string{"lookup"}},
		{[]string{"layout", program, samples, "--symfs", mixDir, "--fluff"}, []string{"code"}, nil},
		{[]string{"layout", program, samples, "--symfs", mixDir, "--align"}, []string{"code"}, nil},
		{[]string{"layout", program, samples, "--symfs", mixDir, "--huge-pages"}, []string{"as linked"}, nil},
		{[]string{"store", "ls", storeOf(t, sample.ImageID{Path: "/bin/a"})}, []string{"samples"}, []string{"host="}},
		{[]string{"store", "stats", storeOf(t, sample.ImageID{Path: "/bin/a"})}, nil, nil},
		{[]string{"doctor"}, []string{"found"}, nil},
		{[]string{"help"}, nil, []string{"topstalls"}},
		{[]string{"prof", save(t, faults), "--symfs", mixDir, "--experiment", "fpe"}, []string{"signals", "because", "procedure", "instruction"}, []string{"integer divided by zero", "lookup", "imul $0x9e3779b1,%edi,%edx"}},
		{[]string{"layout", program, save(t, starts), "--startup", "--for", "text"}, []string{"start", "1 functions were seen"}, []string{"lookup"}},
		{[]string{"layout", itself, calls, "--for", "go"}, []string{"together in packages", "score of calls", "package", "to move"}, []string{"cmd/backfeed"}},
	})
}

// TestTablesOnto: merge says on a terminal what of each procedure it carried over.
func TestTablesOnto(t *testing.T) {
	b := built(t, "c")
	path := everywhere(t, b.old, []string{"same", "edited", "renamed", "calls"}, "calls", "same")
	out := filepath.Join(t.TempDir(), "carried.bfr")
	checkScreens(t, []shown{
		{[]string{"merge", path, "--onto", b.new, "-o", out}, []string{"samples", "places with observed counts"}, nil},
	})
}

// TestTablesDryRun: so does a calibration of what it would probe.
func TestTablesDryRun(t *testing.T) {
	exe := busy(t)
	checkScreens(t, []shown{
		{[]string{"record", "--calibrate", "--dry-run", "-d", "3s", "--", exe, "forever", "1"}, []string{"runs"}, []string{"busy"}},
	})
}

// checkScreens runs commands on terminals of 80 and of 120 columns.
func checkScreens(t *testing.T, screens []shown) {
	t.Helper()
	for _, tt := range screens {
		for _, columns := range []int{80, 120} {
			if columns > 80 && testing.Short() {
				continue // the narrow one is the harder one
			}
			name := strings.Join(tt.args[:min(3, len(tt.args))], " ")
			code, lines := onTerminal(t, columns, tt.args...)
			if code != exitDone {
				t.Errorf("%s: exit code %d: %s", name, code, strings.Join(lines, "\n"))
				continue
			}
			text := strings.Join(lines, "\n")
			for _, line := range lines {
				if n := utf8.RuneCountInString(line); n > columns && strings.Contains(strings.TrimSpace(line), " ") {
					t.Errorf("%s: %d characters, of %d: %q", name, n, columns, line)
				}
			}
			for _, want := range slices.Concat(tt.main, tt.cell) {
				if !strings.Contains(text, want) {
					t.Errorf("%s at %d columns: no %q:\n%s", name, columns, want, text)
				}
			}
		}
	}
}
