package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/testdata/tiny"
)

// The C program of staleC has, in its newer version, a function more, another
// constant in same, a line more in edited, and renamed under another name.
const staleC = `
volatile int v;
//+ __attribute__((noinline)) int added(int n) { while (n > 9) n = n * 7 / 8 - v; return n; }
__attribute__((noinline)) int same(int n) {
	int s = 0;
	for (int i = 0; i < n; i++)
		if (i % 7 == v)
			s += i * i;
		else
			s ^= i;
	return s + CONSTANT;
}
__attribute__((noinline)) int edited(int n, int *a) {
	int s = 0;
//+	if (n > 1000) return -1;
	for (int i = 0; i < n; i++)
		s += a[i] % 10 * (i & v);
//+	v += s / 3;
	return s;
}
__attribute__((noinline)) int RENAMED(const char *p) {
	int h = 0;
	while (*p) {
		if (*p == '_' || *p == '-')
			h = h * 33 + 1;
		else
			h = h * 31 + *p;
		p++;
	}
	return h;
}
__attribute__((noinline)) int tiny(int n) { return n * 5 ^ v; }
__attribute__((noinline)) int calls(int n, int *a) { int s = 0; while (n-- > 0) s += same(n) + edited(n, a) + tiny(n); return s; }
int main(int argc, char **argv) {
	int a[100] = {argc};
//+	added(argc);
	return calls(argc, a) + RENAMED(argv[0]);
}
`

// staleGo is the same in Go, with closures that are numbered anew.
const staleGo = `package main

import "os"

var v int

//+ //go:noinline
//+ func added(f func(int) int) int { return f(v) + f(v+1) }

//go:noinline
func same(n int) int {
	s := 0
	for i := range n {
		if i%7 == v {
			s += i * i
		} else {
			s ^= i
		}
	}
	return s + CONSTANT
}

//go:noinline
func edited(a []int) int {
	s := 0
//+	if len(a) > 1000 { panic("too many") }
	for i, x := range a {
		s += x % 10 * (i & v)
	}
//+	v += s / 3
	return s
}

//go:noinline
func RENAMED(p string) int {
	h := 0
	for i := range len(p) {
		if p[i] == '_' || p[i] == '-' {
			h = h*33 + 1
		} else {
			h = h*31 + int(p[i])
		}
	}
	return h
}

//go:noinline
func apply(f func(int) int, n int) int { return f(n) }

//go:noinline
func calls(n int) int {
	s := 0
//+	s += added(func(x int) int { return x*3 - s })
	s += apply(func(x int) int {
		for i := range x {
			s += i % 5 * v
		}
		return s
	}, n)
	for n > 0 {
		n--
		s += same(n)
	}
	return s
}

func main() { os.Exit(calls(len(os.Args)) + edited(make([]int, 100)) + RENAMED(os.Args[0])) }
`

// versions returns the older and the newer text of a program above.
func versions(text string) (old, new string) {
	var kept []string
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "//+") {
			kept = append(kept, line)
		}
	}
	old = strings.NewReplacer("CONSTANT", "5", "RENAMED", "renamed").Replace(strings.Join(kept, "\n"))
	new = strings.NewReplacer("CONSTANT", "123456", "RENAMED", "newname").Replace(strings.ReplaceAll(text, "//+", ""))
	return old, new
}

// everywhere is a recording of samples of all instructions of procedures of an
// image, more where they are in a loop, and of all calls of work in caller. It has
// two straight runs as well: through the first block of work, and through all of the
// second procedure.
func everywhere(t *testing.T, path string, procs []string, caller, work string) string {
	t.Helper()
	im, c := openSampled(t, path)
	off := func(a image.Addr) sample.Offset {
		o, ok := im.OffsetOf(a)
		if !ok {
			t.Fatalf("%#x is not in the file", a)
		}
		return o
	}
	for _, name := range procs {
		p := proc(t, im, name)
		for i := range p.Blocks {
			n := uint64(1)
			for _, e := range p.Edges {
				if e.To <= i && i <= e.From {
					n = 50
				}
			}
			for _, in := range im.Insts(&p.Blocks[i]) {
				c.AddSample(0, off(in.Addr), n)
			}
		}
	}
	leaf := sample.Frame{Image: 0, Off: off(proc(t, im, work).Addr)}
	for _, call := range proc(t, im, caller).Calls {
		if call.Target == work {
			c.AddSample(0, leaf.Off, 10)
			c.AddStack([]sample.Frame{leaf, {Image: 0, Off: off(call.Return)}}, 10)
			c.TouchStack(c.Stacks[0].Frames, 700)
			c.AddBranch(sample.Branch{From: sample.Frame{Image: 0, Off: off(call.Site)}, To: leaf}, 10, 0)
		}
	}
	top := proc(t, im, work).Blocks[0]
	c.AddRange(sample.Range{Image: 0, First: leaf.Off, Last: off(top.Last)}, 10)
	for i, name := range []string{work, procs[1]} { // the first block of each, and all that branches
		for k := range proc(t, im, name).Blocks {
			b := &proc(t, im, name).Blocks[k]
			in := im.Insts(b)[b.Insts-1]
			if k == 0 {
				c.AddCounted(0, off(b.Start), uint64(100+i))
			}
			if in.Class&image.CondJump != 0 {
				c.AddProbed(0, off(in.Addr), sample.Probed{Windows: 3, Covered: 1000, Runs: uint64(10 * k), Outcomes: uint64(k + 1), Taken: uint64(k)})
			}
		}
	}
	whole := proc(t, im, procs[1]).Blocks
	c.AddRange(sample.Range{Image: 0, First: off(whole[0].Start), Last: off(whole[len(whole)-1].Last)}, 3)
	return save(t, c)
}

// An oldNew is a program before and after it was changed.
type oldNew struct {
	old, new string
	prefix   string // of the names of its functions
	closure  string // of the older one that has another name in the newer one
	renumber string
}

// built compiles both versions of staleC or staleGo.
func built(t *testing.T, lang string) oldNew {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("this system's programs are not ELF files")
	}
	dir := t.TempDir()
	build := func(version, text string) string {
		program := filepath.Join(dir, version, "program")
		if lang == "c" {
			testtool.Put(t, filepath.Join(dir, version, "program.c"), text)
			testtool.Run(t, filepath.Dir(program), "gcc", "-O2", "-g", "-Wl,--build-id", "-o", program, "program.c")
			return program
		}
		testtool.Put(t, filepath.Join(dir, version, "main.go"), text)
		testtool.Put(t, filepath.Join(dir, version, "go.mod"), "module program\n\ngo 1.26\n")
		testtool.Run(t, filepath.Dir(program), "go", "build", "-ldflags=-B=gobuildid", "-o", program, ".")
		return program
	}
	if lang == "c" {
		old, new := versions(staleC)
		return oldNew{old: build("old", old), new: build("new", new)}
	}
	old, new := versions(staleGo)
	return oldNew{build("old", old), build("new", new), "main.", "main.calls.func1", "main.calls.func2"}
}

// samplesByProc returns the samples of each procedure of the image at path in a recording.
func samplesByProc(t *testing.T, im *image.Image, rec *sample.Recording) map[string]uint64 {
	t.Helper()
	n := map[string]uint64{}
	for _, c := range rec.Counts {
		for _, ic := range c.Images {
			if ic.ID.Build != im.Build {
				continue
			}
			for off, k := range ic.At {
				a, ok := im.AddrOf(off)
				i := im.Find(a)
				if !ok || i < 0 {
					t.Fatalf("a sample at %#x, outside of code", off)
				}
				n[im.Symbols()[i].Name] += k
			}
		}
	}
	return n
}

// TestMergeOnto: samples of an older build go to the same code of a newer one, in
// C and in Go, whatever was added, edited and renamed; and commands for the newer
// one use them.
func TestMergeOnto(t *testing.T) {
	for _, lang := range []string{"c", "go"} {
		b := built(t, lang)
		name := func(s string) string { return b.prefix + s }
		procs := []string{name("same"), name("edited"), name("renamed"), name("calls")}
		if b.closure != "" {
			procs = append(procs, b.closure)
		}
		path := everywhere(t, b.old, procs, name("calls"), name("same"))
		carried := filepath.Join(t.TempDir(), "carried.bfr")
		code, _, errs := runCLI(t, "merge", path, "--onto", b.new, "-o", carried)
		if code != exitDone {
			t.Fatalf("%s: exit code %d: %s", lang, code, errs)
		}
		rec, before := decode(t, carried), decode(t, path)
		if err := rec.Counts[0].Check(); err != nil {
			t.Error(err)
		}
		if rec.Samples() != before.Samples() {
			t.Errorf("%s: %d samples of %d", lang, rec.Samples(), before.Samples())
		}
		oldImage, _ := openSampled(t, b.old)
		newImage, _ := openSampled(t, b.new)
		was, is := samplesByProc(t, oldImage, before), samplesByProc(t, newImage, rec)
		for _, p := range procs {
			now := strings.NewReplacer("renamed", "newname").Replace(p)
			if p == b.closure {
				now = b.renumber
			}
			if float64(is[now]) < 0.95*float64(was[p]) {
				t.Errorf("%s: %s has %d samples of the %d of %s\n%s", lang, now, is[now], was[p], p, errs)
			}
		}
		hotLine(t, lang, newImage, rec, name("edited"))
		c := rec.Counts[0]
		if len(c.Stacks) != 1 || len(c.Stacks[0].Frames) != 2 || c.Stacks[0].Frames[1].Image == sample.Unknown || len(c.Branches) != 1 {
			t.Errorf("%s: stacks %v, branches %v", lang, c.Stacks, c.Branches)
		}
		exactOnto(t, lang, oldImage, newImage, before, rec, name("same"), name("edited"))
		if !strings.Contains(errs, "places with observed counts, ") {
			t.Errorf("%s: nothing is said of observed counts: %s", lang, errs)
		}
		if len(c.Images[0].First) != 2 {
			t.Errorf("%s: first touches %v, want those of two procedures", lang, c.Images[0].First)
		}
		for r, n := range c.Ranges { // the edited procedure has a block between
			if n != 10 || len(c.Ranges) != 1 {
				t.Errorf("%s: %d times straight through %v", lang, n, r)
			}
		}
		if len(c.Ranges) == 0 {
			t.Errorf("%s: no straight runs", lang)
		}
		emit, want := "llvm", "edited:"
		if lang == "go" {
			emit, want = "go", ""
		}
		if out := must(t, "emit", emit, carried, "--image", b.new); out == "" || !strings.Contains(out, want) {
			t.Errorf("%s: emit %s of the newer build:\n%s", lang, emit, out)
		}
		must(t, "check", carried, "--image", b.new, "--config", testtool.Write(t, t.TempDir(), "limits", "check: {min-samples: 1, min-own: 0, min-known: 0}"))
	}
}

// exactOnto checks that exact counts of a procedure that is the same were all carried
// over, to the same instructions of the newer build, and that of another one only
// those of blocks that are.
func exactOnto(t *testing.T, lang string, old, new *image.Image, before, after *sample.Recording, same, edited string) {
	t.Helper()
	texts := func(im *image.Image, rec *sample.Recording, name string) map[string]sample.Probed {
		p := proc(t, im, name)
		found := map[string]sample.Probed{}
		for _, ic := range rec.Counts[0].Images {
			if ic.ID.Build != im.Build {
				continue
			}
			for off, n := range ic.Probed {
				if a, _ := im.AddrOf(off); p.BlockAt(a) >= 0 {
					mnemonic, _, _ := strings.Cut(im.Text(a), " ")
					found[fmt.Sprintf("%d %s", p.BlockAt(a), mnemonic)] = n
				}
			}
			for off, n := range ic.Counted {
				if a, _ := im.AddrOf(off); p.BlockAt(a) >= 0 {
					found[fmt.Sprintf("%d counted", a-p.Addr)] = sample.Probed{Runs: n}
				}
			}
		}
		return found
	}
	if was, is := texts(old, before, same), texts(new, after, same); len(was) < 2 || !maps.Equal(was, is) {
		t.Errorf("%s: exact counts of %s are %+v, were %+v", lang, same, is, was)
	}
	was, is := texts(old, before, edited), texts(new, after, edited)
	if len(is) > len(was) || len(was) < 2 {
		t.Errorf("%s: exact counts of %s are %+v, were %+v", lang, edited, is, was)
	}
}

// hotLine checks that the line with the most samples of a procedure is that of its loop.
func hotLine(t *testing.T, lang string, im *image.Image, rec *sample.Recording, name string) {
	t.Helper()
	ln, err := im.Lines()
	if err != nil {
		t.Fatal(err)
	}
	lines := map[int]uint64{}
	for off, n := range rec.Counts[0].Images[0].At {
		a, _ := im.AddrOf(off)
		if fs := ln.Frames(a); len(fs) > 0 && fs[0].Func == name {
			lines[fs[0].Line-fs[0].StartLine] += n
		}
	}
	if hot := report.MostFirst(lines); hot[0] != 4 && hot[0] != 3 { // the body of the loop, or its head
		t.Errorf("%s: samples of %s by line: %v, want those of the loop first", lang, name, lines)
	}
}

// decode reads a recording.
func decode(t *testing.T, path string) *sample.Recording {
	t.Helper()
	rec, err := sample.Decode([]byte(testtool.Read(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// TestMergeOntoOther: nothing is carried over to a program that has none of the
// code, and nothing without the older build.
func TestMergeOntoOther(t *testing.T) {
	b := built(t, "c")
	path := everywhere(t, b.old, []string{"same", "edited", "renamed", "calls"}, "calls", "same")
	dir := t.TempDir()
	other := compile(t)
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--onto", b.new, "--image", "/no/such"}, exitNothing, "no samples of /no/such"},
		{[]string{"--onto", other, "--image", b.old}, exitNothing, "has none of the sampled code"},
		{[]string{"--onto", b.old}, exitDone, "all samples of"},
		{[]string{"--image", b.old}, exitUsage, "--onto"},
		{[]string{"--onto", b.new, "--symfs", dir}, exitDone, "carried over by"},
	} {
		code, _, errs := runCLI(t, append([]string{"merge", path, "-o", filepath.Join(dir, "out")}, tt.args...)...)
		if code != tt.code || !strings.Contains(errs, tt.want) {
			t.Errorf("%v: exit code %d, want %d and %q: %s", tt.args, code, tt.code, tt.want, errs)
		}
	}
	testtool.Put(t, b.old, tiny.ELF(sample.BuildID{1}))
	if code, _, errs := runCLI(t, "merge", path, "--onto", b.new, "-o", filepath.Join(dir, "out")); code != exitNothing || !strings.Contains(errs, "without this build") || !strings.Contains(errs, "in no known procedure  "+b.old) || !strings.Contains(errs, "no recorded build of "+b.new+" is here") {
		t.Errorf("the older build is gone: exit code %d: %s", code, errs)
	}
}

// TestMergeOntoStripped: without names, code tells procedures, and what calls them
// tells those with little code.
func TestMergeOntoStripped(t *testing.T) {
	b := built(t, "c")
	testtool.Need(t, "strip")
	procs := []string{"same", "edited", "renamed", "calls", "tiny"}
	path := everywhere(t, b.old, procs, "calls", "same")
	oldImage, _ := openSampled(t, b.old)
	newImage, _ := openSampled(t, b.new)
	for _, program := range []string{b.old, b.new} {
		stripped := program + ".stripped"
		testtool.Run(t, "", "strip", "-o", stripped, program)
		if err := os.Rename(stripped, program); err != nil {
			t.Fatal(err)
		}
	}
	carried := filepath.Join(t.TempDir(), "carried.bfr")
	must(t, "merge", path, "--onto", b.new, "-o", carried)
	was, is := samplesByProc(t, oldImage, decode(t, path)), samplesByProc(t, newImage, decode(t, carried))
	for _, p := range procs {
		now := strings.Replace(p, "renamed", "newname", 1)
		if float64(is[now]) < 0.95*float64(was[p]) {
			t.Errorf("%s has %d samples of the %d of %s", now, is[now], was[p], p)
		}
	}
}
