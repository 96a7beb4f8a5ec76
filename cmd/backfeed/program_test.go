package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/testdata/tiny"
)

// The functions of this program that programRecording puts samples in: one that
// calls and one that is called.
const (
	caller = "backfeed/cmd/backfeed.didYouMean"
	callee = "backfeed/cmd/backfeed.distance"
)

// programRecording writes a recording of the program that runs this test:
// samples in distance, below its call in didYouMean, and a few of the kernel.
func programRecording(t *testing.T) (path, program string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("this system's programs are not ELF files")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return recordOfCall(t, program, caller, callee), program
}

// recordOfCall writes a recording of image: five samples in each block of callee that
// goes on, on a stack with its call in caller, and one in the block of that call.
func recordOfCall(t *testing.T, path, caller, callee string) string {
	t.Helper()
	im, c := openSampled(t, path)
	const i = 0 // its index in c
	frame := func(a image.Addr) sample.Frame {
		off, ok := im.OffsetOf(a)
		if !ok {
			t.Fatalf("%#x is not in the file", a)
		}
		return sample.Frame{Image: i, Off: off}
	}
	above := proc(t, im, caller)
	s := slices.IndexFunc(above.Calls, func(call image.Call) bool { return call.Target == callee })
	if s < 0 {
		t.Fatalf("%s does not call %s", caller, callee)
	}
	call := above.Calls[s]
	start := frame(above.Blocks[call.Block].Start)
	c.AddSample(i, start.Off, 1)
	for _, b := range proc(t, im, callee).Blocks {
		if b.Exit == image.NoReturn || len(b.Calls) > 0 {
			continue
		}
		f := frame(b.Start)
		c.AddSample(i, f.Off, 5)
		c.AddStack([]sample.Frame{f, frame(call.Return)}, 5)
	}
	c.Lose(sample.LostKernel, 7)
	return save(t, c)
}

// openImage opens an image until the test ends.
func openImage(t *testing.T, path string) *image.Image {
	t.Helper()
	im, err := image.Open(path, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Close() })
	return im
}

// openSampled opens an image, and returns counts that have it as their first.
func openSampled(t *testing.T, path string) (*image.Image, *sample.Counts) {
	t.Helper()
	im := openImage(t, path)
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Period: 1000000, Unit: "ns"})
	c.Image(sample.ImageID{Build: im.Build, Path: path})
	return im, c
}

// save writes a recording of c.
func save(t *testing.T, c *sample.Counts) string {
	t.Helper()
	rec := &sample.Recording{}
	rec.Add(c)
	return testtool.Write(t, t.TempDir(), "program.bfr", string(rec.Encode()))
}

// proc decodes the procedure of that name.
func proc(t *testing.T, im *image.Image, name string) *image.Proc {
	t.Helper()
	s := im.Lookup(name)
	if s < 0 {
		t.Fatalf("%s: no symbol %s", im.Path, name)
	}
	p, err := im.Proc(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// must runs a command that has to succeed and returns its output.
func must(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := runCLI(t, args...)
	if code != exitDone {
		t.Fatalf("backfeed %s: exit code %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// TestProgram runs the commands over samples of the program that runs this test.
func TestProgram(t *testing.T) {
	rec, program := programRecording(t)

	rows := itemsOf[report.ProfRow](t, "backfeed.prof/2", must(t, "prof", rec, "--format", "json"))
	share, total := 0.0, uint64(0)
	for _, r := range rows {
		share += r.Share
		total += r.Samples
	}
	if len(rows) != 3 || rows[0].Procedure != callee || rows[1].Lost != "kernel" || rows[2].Procedure != caller || share < 0.999 || share > 1.001 {
		t.Errorf("prof: %+v, want %s and the kernel, with all samples", rows, callee)
	}
	if text := must(t, "prof", rec); !strings.Contains(text, callee) || !strings.Contains(text, "100.0%") || !strings.Contains(text, "(kernel)") {
		t.Errorf("prof:\n%s", text)
	}

	var doc struct {
		Schema  string
		Samples struct{ Total, Used uint64 }
		Images  []struct {
			Path  string
			Procs []struct{ Procedure string }
		}
	}
	if err := json.Unmarshal([]byte(must(t, "infer", rec, "--format", "json")), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Schema != "backfeed.counts/2" || doc.Samples.Total != total || doc.Samples.Used != total-7 || len(doc.Images) != 1 || doc.Images[0].Path != program {
		t.Errorf("infer: %+v", doc)
	}
	if text := must(t, "infer", rec); !strings.Contains(text, callee) || !strings.Contains(text, program) {
		t.Errorf("infer:\n%s", text)
	}
}

// TestEmitGo: the profile has the sampled call, and equal input gives equal bytes.
func TestEmitGo(t *testing.T) {
	rec, program := programRecording(t)
	out := must(t, "emit", "go", rec)
	p, err := profile.ParseData([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(p.Sample, func(s *profile.Sample) bool {
		return len(s.Location) > 1 && s.Value[0] > 0 && s.Location[0].Line[0].Function.Name == callee && s.Location[1].Line[0].Function.Name == caller
	}) {
		t.Errorf("no call from %s to %s in the profile: %v", caller, callee, p)
	}
	if again := must(t, "emit", "go", rec, "--image", program); again != out {
		t.Error("the same recording gave other bytes")
	}
}

// TestEmitThin: it is told of a profile that it has few samples.
func TestEmitThin(t *testing.T) {
	rec, _ := programRecording(t)
	for weight, want := range map[string]bool{"0.5": true, "1000": false} {
		weighed := filepath.Join(t.TempDir(), "weighed.bfr")
		must(t, "merge", rec+"@"+weight, "-o", weighed)
		code, _, errs := runCLI(t, "emit", "go", weighed)
		if thin := strings.Contains(errs, "samples make a thin profile"); code != exitDone || thin != want {
			t.Errorf("weight %s: exit code %d, %s", weight, code, errs)
		}
	}
}

// TestEmitThinOutside: samples of the kernel, or of what runtime/pprof calls outside Go code, make no profile thicker.
func TestEmitThinOutside(t *testing.T) {
	path, _ := programRecording(t)
	for _, why := range []sample.Loss{sample.LostKernel, sample.LostOutsideGo} {
		rec := decode(t, path)
		n := rec.InUser()
		rec.Counts[0].Lose(why, 100_000)
		mostly := testtool.Write(t, t.TempDir(), "mostly.bfr", rec.Encode())
		if code, _, errs := runCLI(t, "emit", "go", mostly); code != exitDone || !strings.Contains(errs, fmt.Sprintf("%d samples make a thin profile", n)) {
			t.Errorf("%s: exit code %d, %s", why, code, errs)
		}
	}
}

// TestEmitGone: where the program that was recorded is gone, as after go run and go test, no profile is made of another one,
// unless it is named. Of a library that is gone nothing is to be had.
func TestEmitGone(t *testing.T) {
	path, program := programRecording(t)
	for _, tt := range []struct {
		name, gone, image string
		n                 uint64
		code              int
		says              string
	}{
		{"go test", "/tmp/go-build1/b001/a.test", "", 10_000, exitNothing, "record it by pgo, or with --copy-to"},
		{"elsewhere", "/opt/app", "", 10_000, exitNothing, "--symfs"},
		{"named", "/opt/app", program, 10_000, exitDone, "call edges"},
		{"of fewer samples", "/opt/app", "", 10, exitDone, "call edges"},
		{"a library", "/opt/libz.so.1", "", 10_000, exitDone, "/opt/libz.so.1, which was not found"},
	} {
		rec := decode(t, path)
		c := rec.Counts[0]
		c.AddSample(c.Image(sample.ImageID{Path: tt.gone, Build: sample.BuildID{9}}), 16, tt.n)
		both, out := testtool.Write(t, t.TempDir(), "both.bfr", rec.Encode()), filepath.Join(t.TempDir(), "default.pgo")
		args := []string{"emit", "go", both, "-o", out}
		if tt.image != "" {
			args = append(args, "--image", tt.image)
		}
		code, _, errs := runCLI(t, args...)
		if _, err := os.Stat(out); code != tt.code || (err == nil) != (code == exitDone) || !strings.Contains(errs, tt.says) {
			t.Errorf("%s: exit code %d, written: %v, %s", tt.name, code, err, errs)
		}
	}
}

// TestEmitGoTools: the profile of what go run and go test built is of that, though building took longer; nor is it of the tools where that is gone.
func TestEmitGoTools(t *testing.T) {
	im := openImage(t, testtool.Path(t, "go"))
	if im.GoMain() != "cmd/go" || im.Build.IsZero() {
		t.Skipf("%s is a Go program of package %q", im.Path, im.GoMain())
	}
	path, program := programRecording(t)
	off, _ := im.OffsetOf(proc(t, im, "main.main").Blocks[0].Start)
	withTool := func(c *sample.Counts) string {
		c.AddSample(c.Image(sample.ImageID{Path: im.Path, Build: im.Build}), off, 10_000)
		return save(t, c)
	}
	if code, _, errs := runCLI(t, "emit", "go", withTool(decode(t, path).Counts[0]), "-o", filepath.Join(t.TempDir(), "default.pgo")); code != exitDone || !strings.Contains(errs, program+": ") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Period: 1000000, Unit: "ns"})
	c.AddSample(c.Image(sample.ImageID{Path: "/tmp/go-build1/b001/exe/app", Build: sample.BuildID{9}}), 16, 100)
	if code, _, errs := runCLI(t, "emit", "go", withTool(c), "-o", filepath.Join(t.TempDir(), "default.pgo")); code != exitNothing || !strings.Contains(errs, "record it by pgo") {
		t.Errorf("gone: exit code %d: %s", code, errs)
	}
}

// TestEmitRefuses: formats that would be of no use to the image are not written.
func TestEmitRefuses(t *testing.T) {
	rec, program := programRecording(t)
	for _, tt := range []struct {
		args string
		want string
	}{
		{"emit bolt " + rec, ""},
		{"emit gcc --image " + program + " " + rec, "a Go program"},
		{"emit bolt --image " + program + " " + rec, "Go program"},
		{"emit llvm " + rec, ""},
		{"emit go --image /bin/other " + rec, "/bin/other: no samples of such an image"},
		{"layout " + program + " " + rec, "--for go"},
		{"layout " + program + " " + rec + " --for bolt", "a Go program"},
		{"layout /bin/other " + rec, "/bin/other: no samples of"},
	} {
		code, stdout, stderr := runCLI(t, strings.Fields(tt.args)...)
		if code != exitNothing || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("backfeed %s: exit code %d, printed %d bytes, message %q", tt.args, code, len(stdout), stderr)
		}
	}
}

// program is C whose functions stand in the wrong order.
const programC = `
volatile int v;
__attribute__((noinline)) int cold(int n) { while (n-- > 0) v -= n; return v; }
__attribute__((noinline)) int work(int n) { int s = 0; while (n-- > 0) if (n & v) s += n; else s ^= n; return s; }
__attribute__((noinline)) int drive(int n) { int s = 0; while (n-- > 0) s += work(n); return s; }
int main(int argc, char **argv) { return argc > 9 ? cold(argc) : drive(1000); }
`

// compile builds programC as a compiler and linker make it that take feedback.
func compile(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("this system's programs are not ELF files")
	}
	dir := t.TempDir()
	src, program := testtool.Write(t, dir, "program.c", programC), filepath.Join(dir, "program")
	testtool.Run(t, dir, "gcc", "-O1", "-g", "-ffunction-sections", "-Wl,--emit-relocs,--build-id", "-o", program, src)
	return program
}

// TestCompiled runs the commands for compilers and linkers of C.
func TestCompiled(t *testing.T) {
	program := compile(t)
	rec := recordOfCall(t, program, "drive", "work")
	for _, tt := range []struct {
		args string
		want []string // parts of the output
	}{
		{"layout --always " + program + " " + rec, []string{"work\n", "drive\n"}},
		{"layout --always program " + rec, []string{"work\n", "drive\n"}},
		{"layout program --for text " + rec, []string{"score of calls", "work\n", "drive\n"}},
		{"layout program --fluff " + rec, []string{"cold by evidence", "in procedures\n"}},
		{"layout program --fluff --for json " + rec, []string{"backfeed.fluff/2", `"procedure": "cold"`}},
		{"layout program --align " + rec, []string{"fetches of 32-byte windows"}},
		{"layout program --align --for json " + rec, []string{"backfeed.alignment/2"}},
		{"layout program --huge-pages " + rec, []string{"do not fill one huge page"}},
		{"layout program --huge-pages --for json " + rec, []string{"backfeed.hugepages/2"}},
		{"layout program --for text --holdout " + rec + " --relinked " + program + " " + rec, []string{"relinked", "\non the counts of the holdout", "blocks by the holdout", "upper bound\n"}},
		{"emit llvm " + rec, []string{"work:", "drive:"}},
		{"emit llvm --image program " + rec, []string{"work:", "drive:"}},
		{"emit bolt " + rec, []string{"1 drive ", " 1 work 0 "}},
		{"emit bolt --image " + program + " " + rec, []string{"1 drive ", " 1 work 0 "}},
	} {
		out := must(t, strings.Fields(tt.args)...)
		for _, want := range tt.want {
			if !strings.Contains(out, want) {
				t.Errorf("backfeed %s: no %q in\n%s", tt.args, want, out)
			}
		}
	}
	if out := must(t, "layout", program, rec, "--always"); strings.Contains(out, "cold\n") {
		t.Errorf("layout: a function that never ran is in\n%s", out)
	}
}

// TestMoved: an image is found by its build ID after it was moved, and not if it
// was built anew.
func TestMoved(t *testing.T) {
	program := compile(t)
	rec := recordOfCall(t, program, "drive", "work")
	moved := filepath.Join(t.TempDir(), "a.out")
	if err := os.Rename(program, moved); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runCLI(t, "prof", rec); code != exitNothing || !strings.Contains(stderr, "no such file") {
		t.Errorf("prof without its image: exit code %d, message %q", code, stderr)
	}
	if out := must(t, "prof", rec, "--symfs", filepath.Dir(moved)); !strings.Contains(out, "work\n") {
		t.Errorf("prof:\n%s", out)
	}
	testtool.Put(t, program, tiny.ELF(sample.BuildID{1}))
	if code, _, stderr := runCLI(t, "prof", rec); code != exitNothing || !strings.Contains(stderr, "has another build ID") {
		t.Errorf("prof with another image: exit code %d, message %q", code, stderr)
	}
}

// TestProgramMissing: where the program itself was built anew, and a library that it ran was not, report and emit name the program.
func TestProgramMissing(t *testing.T) {
	program := compile(t)
	rec, err := sample.Decode([]byte(testtool.Read(t, recordOfCall(t, program, "drive", "work"))))
	if err != nil {
		t.Fatal(err)
	}
	c := rec.Counts[0]
	gone := sample.ImageID{Path: filepath.Join(filepath.Dir(program), "gone"), Build: sample.BuildID{1}}
	c.Images = append(c.Images, &sample.ImageCounts{ID: gone, At: map[sample.Offset]uint64{16: 100 * c.Total}})
	c.Total *= 101
	path := testtool.Write(t, t.TempDir(), "rec", string(rec.Encode()))
	if out := must(t, "report", path); !strings.Contains(out, "program: gone, 99.0% of the samples, which was not found") {
		t.Errorf("report:\n%s", out)
	}
	if code, _, stderr := runCLI(t, "emit", "go", path, "-o", filepath.Join(t.TempDir(), "default.pgo")); code != exitNothing || !strings.Contains(stderr, "not a Go program; "+gone.Path+", which has 99.0% of the samples, was not found: ") {
		t.Errorf("emit go: exit code %d, message %q", code, stderr)
	}
}

// TestNoBuildID: an image that was recorded without a build ID is taken by its
// path, and the user is told so.
func TestNoBuildID(t *testing.T) {
	program := compile(t)
	b := []byte(testtool.Read(t, recordOfCall(t, program, "drive", "work")))
	rec, err := sample.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	rec.Counts[0].Images[0].ID.Build = sample.BuildID{}
	path := testtool.Write(t, t.TempDir(), "rec", string(rec.Encode()))
	code, out, stderr := runCLI(t, "prof", path)
	if code != exitDone || !strings.Contains(out, "work\n") || !strings.Contains(stderr, program+" is taken by its path alone: see that") {
		t.Errorf("exit code %d, message %q, printed\n%s", code, stderr, out)
	}

	// What was written after the recording is likely another build.
	c := rec.Counts[0]
	slice := c.SliceAt(uint64(time.Now().Add(-time.Hour).UnixNano()))
	for off := range c.Images[0].At {
		c.AddMoment(0, off, slice, 1)
		break
	}
	path = testtool.Write(t, t.TempDir(), "rec", string(rec.Encode()))
	for _, tt := range []struct {
		age  time.Duration
		says string
	}{{0, "written after the recording"}, {2 * time.Hour, "see that it was not rebuilt since"}} {
		at := time.Now().Add(-tt.age)
		if err := os.Chtimes(program, at, at); err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := runCLI(t, "prof", path); code != exitDone || !strings.Contains(stderr, tt.says) {
			t.Errorf("a file %v old, of a recording 1h old: exit code %d, message %q", tt.age, code, stderr)
		}
	}
}

// TestEvents: samples of different events are not mixed, and the user is told.
func TestEvents(t *testing.T) {
	path, _ := programRecording(t)
	rec, err := sample.Decode([]byte(testtool.Read(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	clock := rec.Counts[0]
	n := clock.Total
	rec.Add(clock) // the timer has twice as many
	tick := sample.NewCounts(clock.CPU, sample.Event{Name: input.TickEvent, Period: 4000000, Unit: "ns"})
	for _, ic := range clock.Images {
		for off := range ic.At {
			tick.AddSample(tick.Image(ic.ID), off, 1)
		}
	}
	rec.Add(tick)
	both := testtool.Write(t, t.TempDir(), "both.bfr", string(rec.Encode()))
	seldom := sample.Merge(&sample.Recording{Counts: []*sample.Counts{clock}})
	seldom.Counts[0].Event.Period *= 20
	seldom.Counts[0].Weight *= 20
	rare := testtool.Write(t, t.TempDir(), "rare.bfr", string(sample.Merge(seldom).Encode()))
	for _, tt := range []struct {
		args  []string
		total uint64
		says  []string
	}{
		{[]string{"prof", both}, 2 * n, []string{"samples of event tick are not mixed with those of cpu-clock; --event tick uses them instead"}},
		{[]string{"prof", path, rare}, 3 * n, []string{"samples of cpu-clock stand for", "so that shares are right"}},
		{[]string{"prof", both, "--event", "tick"}, tick.Total, []string{"samples of event cpu-clock are not mixed", "do not see what is in step"}},
	} {
		code, out, errs := runCLI(t, append(tt.args, "--format", "json")...)
		if code != exitDone {
			t.Fatalf("%q: exit code %d: %s", tt.args, code, errs)
		}
		var total uint64
		for _, r := range itemsOf[report.ProfRow](t, "backfeed.prof/2", out) {
			total += r.Samples
		}
		if total != tt.total {
			t.Errorf("%q: %d samples, want %d", tt.args, total, tt.total)
		}
		for _, want := range tt.says {
			if !strings.Contains(errs, want) {
				t.Errorf("%q: no %q in %q", tt.args, want, errs)
			}
		}
	}
}
