package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// mixCounted returns what a recording of testdata/mix has counted in it, by address.
func mixCounted(t *testing.T, path string) map[image.Addr]uint64 {
	t.Helper()
	im, _ := openSampled(t, "../../testdata/mix/mix")
	at := map[image.Addr]uint64{}
	for _, c := range decode(t, path).Counts {
		for _, ic := range c.Images {
			if ic.ID.Build != im.Build && len(ic.Counted) > 0 {
				t.Errorf("counts in %v", ic.ID)
			}
			for off, n := range ic.Counted {
				a, _ := im.AddrOf(off)
				at[a] += n
			}
		}
	}
	return at
}

// TestImportCallgrind: exact counts are a source like others, alone or beside samples,
// whatever finds their images.
func TestImportCallgrind(t *testing.T) {
	const mixDir = "../../testdata/mix"
	const truth, samples = mixDir + "/truth.json.gz", mixDir + "/samples.bfr"
	dir := t.TempDir()
	binary, err := os.ReadFile(mixDir + "/mix")
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "root")
	testtool.Put(t, filepath.Join(root, "opt/mix/mix"), binary)
	alone, beside, merged := filepath.Join(dir, "alone"), filepath.Join(dir, "beside"), filepath.Join(dir, "merged")
	must(t, "import", truth, "--symfs", root, "-o", alone)
	// The samples know the image's build ID, which finds it anywhere.
	must(t, "import", truth, samples, "--symfs", mixDir, "-o", beside)
	must(t, "merge", samples, alone, "-o", merged)
	if testtool.Read(t, beside) != testtool.Read(t, merged) {
		t.Error("counts beside samples differ from those merged with them")
	}
	at := mixCounted(t, alone)
	main := at[0x1090] // the first block of main, by the program's symbols
	if len(at) != 128 || main != 1 {
		t.Errorf("%d places counted, main %d times", len(at), main)
	}
	if rec := decode(t, alone); len(rec.Counts) != 1 || rec.Counts[0].Event != sample.Executions || rec.Samples() != 0 {
		t.Errorf("counts without samples: %+v", rec.Counts[0])
	}
	double := filepath.Join(dir, "double")
	must(t, "merge", truth+"@2", samples, "--symfs", root, "-o", double)
	for a, n := range mixCounted(t, double) {
		if n != 2*at[a] {
			t.Errorf("%#x: %d with weight 2, %d without", a, n, at[a])
		}
	}
	if out := must(t, "images", alone, "--symfs", root); !strings.Contains(out, "      128  found") {
		t.Errorf("images:\n%s", out)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"import", truth, "--symfs", t.TempDir(), "-o", alone}, "no exact count"},
		{[]string{"infer", alone, "--symfs", root}, "only exact counts: 128 places counted"},
	} {
		if code, _, errs := runCLI(t, tt.args...); code != exitNothing || !strings.Contains(errs, tt.want) {
			t.Errorf("%v: exit code %d, want %q: %s", tt.args, code, tt.want, errs)
		}
	}
	if _, _, errs := runCLI(t, "infer", samples, alone, "--symfs", mixDir); !strings.Contains(errs, "observed counts: 128 places counted") {
		t.Errorf("nothing is said of exact counts: %s", errs)
	}
}

// coverGo says behind lines how often they run. What is alike in source but not in
// machine code is in it: loops that become one block, a branch that becomes a move, a
// function that is inlined, conditions of several lines.
const coverGo = `package main

import "os"

var sink int

func small(n int) int {
	n *= 3
	return n + 1
}

//go:noinline
func loop(n int) int {
	s := n // 4
	for i := 0; i < n; i++ {
		s += i * s // 40
	}
	return s
}

//go:noinline
func choose(n, limit int) int {
	x := n // 12
	if n > limit {
		x = limit
	}
	sink += x // 12
	return x
}

//go:noinline
func search(xs []int, want int) int { // 5
	i := 0
	for i < len(xs) &&
		xs[i] != want {
		sink++ // 24
		i++    // 24
	}
	if i == len(xs) {
		sink = -1 // 2
		i = -1    // 2
	}
	return i
}

//go:noinline
func pick(n int) {
	switch {
	case n < 3:
		sink += os.Getpid() // 3
		sink++              // 3
	case n == 5 || n == 7:
		sink -= os.Getppid() // 2
		sink--               // 2
	default:
		sink = small(sink) // 5
		sink ^= n          // 5
	}
}

//go:noinline
func each(xs []int, f func(int)) {
	for _, x := range xs {
		f(x) // 6
		sink = small(x) // 6
	}
}

func main() {
	for range 4 {
		sink += loop(10) // 4
	}
	for i := range 12 {
		sink += choose(i, 6) // 12
	}
	xs := []int{1, 2, 3, 4, 5, 6} // 1
	for i := range 5 {
		sink += search(xs, 4+i) // 5
	}
	for i := range 10 {
		pick(i) // 10
	}
	each(xs, func(x int) {
		sink += os.Getpagesize() // 6
		sink += x                // 6
	})
	sink = small(sink)
}
`

// TestImportCover: counts of a program that Go's compiler put counters into, at places
// of one without. Each is what the source says of its line.
func TestImportCover(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system's programs are not ELF files")
	}
	dir := t.TempDir()
	testtool.Put(t, filepath.Join(dir, "main.go"), coverGo)
	testtool.Put(t, filepath.Join(dir, "go.mod"), "module example.com/cover.test/x\n\ngo 1.26\n")
	testtool.Put(t, filepath.Join(dir, "data", "empty"), "")
	testtool.Need(t, "go")
	testtool.Run(t, dir, "go", "build", "-ldflags=-B=gobuildid", "-o", "plain", ".")
	testtool.Run(t, dir, "go", "build", "-cover", "-covermode=count", "-o", "counting", ".")
	t.Setenv("GOCOVERDIR", filepath.Join(dir, "data"))
	testtool.Run(t, dir, filepath.Join(dir, "counting"))
	testtool.Run(t, dir, "go", "tool", "covdata", "textfmt", "-i=data", "-o=profile")
	plain, profile, out := filepath.Join(dir, "plain"), filepath.Join(dir, "profile"), filepath.Join(dir, "out")
	code, _, errs := runCLI(t, "import", profile, "--binary", plain, "-o", out)
	if code != exitDone || !strings.Contains(errs, " blocks of source, ") {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	im, _ := openSampled(t, plain)
	ln, err := im.Lines()
	if err != nil {
		t.Fatal(err)
	}
	source := strings.Split(coverGo, "\n")
	placed := map[string]int{}
	for _, ic := range decode(t, out).Counts[0].Images {
		if ic.ID.Build != im.Build {
			t.Errorf("counts in %v, want build ID %v", ic.ID, im.Build)
		}
		for off, n := range ic.Counted {
			a, _ := im.AddrOf(off)
			p, err := im.Proc(im.Find(a))
			if err != nil {
				t.Fatal(err)
			}
			// Its block has code of a line that says how often.
			want := ""
			for _, in := range im.Insts(&p.Blocks[p.BlockAt(a)]) {
				fs := ln.Frames(in.Addr)
				if _, says, ok := strings.Cut(source[fs[len(fs)-1].Line-1], "// "); ok {
					want = says
				}
			}
			if got := fmt.Sprint(n); got != want {
				t.Errorf("%#x in %s: %s executions, its lines have %q", a, p.Name, got, want)
			}
			placed[p.Name]++
		}
	}
	for _, name := range []string{"main.loop", "main.search", "main.pick", "main.each", "main.main.func1"} {
		if placed[name] == 0 {
			t.Errorf("no count in %s: %v", name, placed)
		}
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"import", profile, "-o", out}, "--binary BINARY"},
		{[]string{"infer", profile}, "--binary BINARY"},
		{[]string{"import", testtool.Write(t, dir, "set", "mode: set\nmain.go:1.1,2.2 1 1\n"), "--binary", plain, "-o", out}, "not how often"},
		{[]string{"import", testtool.Write(t, dir, "other", "mode: count\nother.go:1.1,2.2 1 1\n"), "--binary", plain, "-o", out}, "has no code"},
	} {
		if code, _, errs := runCLI(t, tt.args...); code != exitNothing || !strings.Contains(errs, tt.want) {
			t.Errorf("%v: exit code %d, want %q: %s", tt.args, code, tt.want, errs)
		}
	}
}
