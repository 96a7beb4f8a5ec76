package feedback

import (
	"bytes"
	"debug/elf"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/infer/truth"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/testdata/qemu"
)

// goARM has go build make programs for AArch64, of the library as .ci/run has compiled it before.
var goARM = []string{"GOARCH=arm64", "CGO_ENABLED=0", "GOFLAGS=-trimpath"}

// TestGoARM goes all the way on AArch64 with samples of instructions and nothing else: they
// are drawn from exact counts, and what go build makes of their profile runs fewer
// instructions.
func TestGoARM(t *testing.T) {
	t.Parallel() // the counts are exact, and samples are drawn from them
	testtool.Need(t, "go")
	qemu.NeedCount(t, elf.EM_AARCH64)
	if testing.Short() {
		t.Skip("builds Go's runtime for AArch64 and runs it under QEMU")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/rounds")); err != nil {
		t.Fatal(err)
	}
	goByProfile(t, dir, "", "base", goARM...)
	counted := func(program string) (*truth.Image, string) {
		path, output := qemu.Count(t, dir, program, "10000", "cpu.pprof")
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		exact, err := truth.Read(f)
		if err != nil {
			t.Fatal(err)
		}
		it := exact.Images[filepath.Join(dir, program)]
		if it == nil {
			t.Fatalf("%s was not counted", program)
		}
		return it, output
	}
	before, want := counted("base")
	rec := drawn(t, filepath.Join(dir, "base"), before, 20000)
	p, err := infer.Infer(t.Context(), rec, func(id sample.ImageID) (*image.Image, error) { return image.Open(id.Path, image.Options{}) }, infer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	var out bytes.Buffer
	if _, err := WriteGo(&out, p, rec, GoOptions{}); err != nil {
		t.Fatal(err)
	}
	testtool.Write(t, dir, "ours.pprof", out.String())
	said := goByProfile(t, dir, "ours.pprof", "again", goARM...)
	if !strings.Contains(said, "hot-budget check allows inlining for call main.step") {
		t.Errorf("the compiler does not inline step for being hot:\n%s", remarks(said))
	}
	after, got := counted("again")
	if got != want {
		t.Errorf("the program prints %q, was %q", got, want)
	}
	t.Logf("%d instructions, %d with the profile", before.Total(), after.Total())
	if float64(after.Total()) > 0.95*float64(before.Total()) {
		t.Errorf("%d instructions with the profile, %d without: want 5 %% fewer", after.Total(), before.Total())
	}
}

// drawn makes a recording of n samples of instructions, drawn from exact counts.
func drawn(t *testing.T, path string, it *truth.Image, n int) *sample.Recording {
	t.Helper()
	im, err := image.Open(path, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "instructions", Period: it.Total() / uint64(n), Unit: "instructions"})
	i := c.Image(sample.ImageID{Build: im.Build, Path: path})
	addrs := slices.Sorted(maps.Keys(it.Insts))
	var upTo []uint64
	var sum uint64
	for _, a := range addrs {
		sum += it.Insts[a]
		upTo = append(upTo, sum)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range n {
		x := rng.Uint64N(sum)
		off, ok := im.OffsetOf(addrs[sort.Search(len(upTo), func(i int) bool { return upTo[i] > x })])
		if !ok {
			t.Fatal("an instruction that is not in the file")
		}
		c.AddSample(i, off, 1)
	}
	rec := &sample.Recording{}
	rec.Add(c)
	return rec
}

// TestGoExactARM: with exact counts, calls through interfaces and closures become direct on
// AArch64, and hot calls are inlined.
func TestGoExactARM(t *testing.T) {
	t.Parallel() // the counts are exact
	testtool.Need(t, "go")
	qemu.NeedCount(t, elf.EM_AARCH64)
	if testing.Short() {
		t.Skip("builds Go's runtime for AArch64 and runs it under QEMU")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/shapes")); err != nil {
		t.Fatal(err)
	}
	goByProfile(t, dir, "", "base", goARM...)
	p, rec := unchecked(t, dir, "base")
	var out bytes.Buffer
	if _, err := WriteGo(&out, p, rec, GoOptions{NoTime: true}); err != nil {
		t.Fatal(err)
	}
	testtool.Write(t, dir, "exact.pprof", out.String())
	said := goByProfile(t, dir, "exact.pprof", "again", goARM...)
	for _, want := range []string{
		"PGO devirtualizing interface call s.area to square.area",
		"PGO devirtualizing function call f to fold",
		"hot-budget check allows inlining for call main.mix",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the compiler does not say %q:\n%s", want, remarks(said))
		}
	}
	if got := qemu.Run(t, dir, "again"); got != "true\n" {
		t.Errorf("the program prints %q", got)
	}
}
