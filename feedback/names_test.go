package feedback

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"backfeed/internal/testtool"
)

// oddNames are names that some reader of profiles takes for something else, and others that only
// look so: true, if LLVM's text form carries it.
var oddNames = map[string]bool{
	"std::vector<int>::push_back(int const&)": true, "operator new": true, "a:5": true, "a:5:6": true,
	"a::": true, "tail ": true, "tab\tin": true, "\ttab": true, "cr\r": true, `back\slash "quotes"`: true,
	"x #5": true, "vtables": true, "\u202eevil": true, "\x1b[31m": true, "-": true, "f/1": true,
	"": false, "a\nevil:9:9\n 1: 5": false, "\n": false, " lead": false, "#comment": false, "!CFGChecksum: 5": false,
	":colon": false, "[main:3 @ f]": false, "7seas": false, "a:5 b": false, "vtables x:5": false,
}

// nameWriter has a function of every name, which inlines and calls that name.
func nameWriter(names []string) *llvmWriter {
	l := newLLVMWriter()
	for i, name := range names {
		f := childOf(l.funcs, name)
		f.total, f.head = 100+uint64(i), 7
		f.body[spot{offset: 1}] = 10
		f.addCall(spot{offset: 1}, name, 3)
		f.addCall(spot{offset: 1}, "other", 2)
		g := childOf(f.inlined, inlinedCall{spot{offset: 2, disc: 1}, name})
		g.total = 5
		g.body[spot{}] = 5
	}
	return l
}

// TestLLVMNames: names come back from LLVM's text as they went in, or are left out and counted.
func TestLLVMNames(t *testing.T) {
	var names []string
	for name := range oddNames {
		names = append(names, name)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		b := make([]byte, 1+r.IntN(6))
		for i := range b {
			b[i] = " :0a#![\n\r\t\\/\"."[r.IntN(14)]
		}
		names = append(names, string(b))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	var fit []string
	for _, name := range names {
		if want, odd := oddNames[name]; odd && fitsLLVMText(name) != want {
			t.Errorf("LLVM's text carries %q: %v, want %v", name, !want, want)
		}
		if fitsLLVMText(name) {
			fit = append(fit, name)
		}
	}
	for _, format := range []LLVMFormat{LLVMText, LLVMExtBinary} {
		carried := fit
		if format == LLVMExtBinary {
			carried = slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == "" })
		}
		l := nameWriter(names)
		var out bytes.Buffer
		if err := l.write(&out, format); err != nil {
			t.Fatal(err)
		}
		if got, want := l.stats.Skipped[SkipName], len(names)-len(carried); got != want {
			t.Errorf("format %d: %d names left out, want %d", format, got, want)
		}
		p, err := readSampleProfile(bytes.NewReader(out.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if got := sortedKeys(p.funcs, cmp.Compare); !slices.Equal(got, carried) {
			t.Errorf("format %d: our reader has %d functions, want %d", format, len(got), len(carried))
		}
		for name, f := range p.funcs {
			g := f.inlined[inlinedCall{spot{offset: 2, disc: 1}, name}]
			if f.calls[spot{offset: 1}][name] != 3 || f.calls[spot{offset: 1}]["other"] != 2 || len(f.inlined) != 1 || g == nil || g.total != 5 {
				t.Errorf("format %d: of %q our reader has %+v", format, name, f)
			}
		}
		if !testtool.Has("llvm-profdata-19") {
			t.Log("without llvm-profdata-19 to read it")
			continue
		}
		dir := t.TempDir()
		testtool.Write(t, dir, "odd.prof", out.String())
		funcs, err := profdata(t, dir, "odd.prof")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range funcs {
			if got = append(got, f.Name); !f.whole() {
				t.Errorf("format %d: of %q llvm-profdata has %+v", format, f.Name, f)
			}
		}
		if slices.Sort(got); !slices.Equal(got, carried) {
			t.Errorf("format %d: llvm-profdata has %d names, want %d", format, len(got), len(carried))
		}
	}
}

// A shownFunc is a function as llvm-profdata shows it.
type shownFunc struct {
	Name      string
	Body      []struct{ Calls []shownCall }
	Callsites []struct{ Samples []struct{ Name string } } // each with the functions that are inlined there
}

type shownCall struct{ Function string }

// whole reports whether f has itself, and another, as targets, and itself inlined.
func (f *shownFunc) whole() bool {
	return len(f.Body) == 1 && len(f.Body[0].Calls) == 2 && slices.Contains(f.Body[0].Calls, shownCall{f.Name}) &&
		slices.Contains(f.Body[0].Calls, shownCall{"other"}) && len(f.Callsites) == 1 && f.Callsites[0].Samples[0].Name == f.Name
}

// profdata returns the functions that llvm-profdata finds in a sample profile.
func profdata(t *testing.T, dir, file string) (funcs []shownFunc, err error) {
	cmd := testtool.Command(t, "llvm-profdata-19", "show", "--sample", "--show-format=json", file)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	return funcs, json.Unmarshal(out, &funcs)
}

// TestUnfitForLLVM: llvm-profdata reads none of the names that are left out of text as they are.
// Those of our own metadata and of types are for other readers.
func TestUnfitForLLVM(t *testing.T) {
	testtool.Need(t, "llvm-profdata-19")
	dir := t.TempDir()
	for name, fits := range oddNames {
		testtool.Write(t, dir, "raw", fmt.Sprintf("%s:100:7\n 1: 10 other:2 %s:3\n 2.1: %s:5\n  0: 5\n", name, name, name))
		funcs, err := profdata(t, dir, "raw")
		reads := err == nil && len(funcs) == 1 && funcs[0].Name == name && funcs[0].whole()
		if other := strings.HasPrefix(name, "!") || strings.HasPrefix(name, "vtables "); reads != fits && !other {
			t.Errorf("llvm-profdata reads %q: %v, want %v: %v, %+v", name, reads, fits, err, funcs)
		}
	}
}

// rename returns functions and symbols other names: the notation of a program splits at spaces.
func (p *program) rename(names map[string]string) {
	to := func(s *string) {
		if n, ok := names[*s]; ok {
			*s = n
		}
	}
	for _, fs := range p.frames {
		for i := range fs {
			to(&fs[i].Func)
		}
	}
	for i := range p.syms {
		to(&p.syms[i].Name)
	}
	for _, r := range p.Procs {
		to(&r.Proc.Name)
		for i := range r.Proc.Calls {
			to(&r.Proc.Calls[i].Target)
		}
	}
}

// TestHostileNames: a symbol whose name has lines of the format in it adds none to a profile. It is
// left out, and counted; what calls it stays.
func TestHostileNames(t *testing.T) {
	for _, tt := range []struct {
		format, name, mark string
		write              func(p *program, out *bytes.Buffer) (Skipped, error)
	}{
		{"llvm", "last\nevil:999999:999999\n 1: 999999", "evil", func(p *program, out *bytes.Buffer) (Skipped, error) {
			l := newLLVMWriter()
			l.image(p.view)
			return l.stats.Skipped, l.write(out, LLVMText)
		}},
		{"bolt", "last 0 1 work 0 0 1\n1 evil", "evil", func(p *program, out *bytes.Buffer) (Skipped, error) {
			st, err := writeBOLT(out, p.view)
			return st.Skipped, err
		}},
		{"go", "last\n0 5\nevil\nmain", "evil", func(p *program, out *bytes.Buffer) (Skipped, error) {
			var packed bytes.Buffer
			st, err := writeGo(&packed, p.ofGo(), GoOptions{})
			if err != nil {
				return nil, err
			}
			if testtool.Has("go") {
				dir := t.TempDir()
				testtool.Write(t, dir, "go.pgo", packed.String())
				fmt.Fprint(out, testtool.Run(t, dir, "go", "tool", "preprofile", "-i", "go.pgo"))
			}
			prof, err := profile.Parse(&packed)
			fmt.Fprint(out, prof)
			return st.Skipped, err
		}},
	} {
		t.Run(tt.format, func(t *testing.T) {
			p := newSieve(t)
			p.rename(map[string]string{"last": tt.name})
			var out bytes.Buffer
			skipped, err := tt.write(p, &out)
			if err != nil {
				t.Fatal(err)
			}
			if skipped[SkipName] != 1 || strings.Contains(out.String(), tt.mark) || !strings.Contains(out.String(), "work") {
				t.Errorf("%d names left out, want 1; written:\n%s", skipped[SkipName], out.String())
			}
		})
	}
}

// TestBOLTHostile: llvm-bolt and merge-fdata read the fdata of an image whose symbols have spaces,
// backslashes and lines in their names.
func TestBOLTHostile(t *testing.T) {
	testtool.Need(t, "clang-19", "ld.lld-19", "valgrind", "llvm-bolt-19", "merge-fdata-19")
	dir := t.TempDir()
	odd := map[string]string{"byPrice": `w k\ x`, "byKind": "w\n1 e 0 1 f 0 0 99", "compare": "tab\t\"q"}
	flags := []string{"-fuse-ld=lld", "-Wl,-q"}
	for name, to := range odd {
		flags = append(flags, "-D"+name+"="+standIn(name, len(to)))
	}
	build(t, dir, "shop.q", flags...)
	testtool.Run(t, dir, "strip", "-g", "-o", "shop", "shop.q")
	unchecked(t, dir, "shop") // valgrind's output has lines, too: it is run before
	for name, to := range odd {
		renameELF(t, dir, "shop.q", standIn(name, len(to)), to)
		renameELF(t, dir, "shop", standIn(name, len(to)), to)
	}
	p, rec := counts(t, dir, "shop")
	var out bytes.Buffer
	stats, err := WriteBOLT(&out, p, rec, BOLTOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if stats.Skipped[SkipName] != 1 {
		t.Errorf("%d names left out, want the one of two lines", stats.Skipped[SkipName])
	}
	testtool.Write(t, dir, "shop.fdata", out.String())
	log := testtool.Run(t, dir, "llvm-bolt-19", "shop.q", "-o", "shop.bolt", "--data=shop.fdata", "--print-profile")
	if strings.Contains(log, "stale") {
		t.Errorf("llvm-bolt could not use the profile of some function:\n%s", log)
	}
	for name, to := range odd {
		_, rest, found := strings.Cut(log, `Binary Function "`+to+`"`)
		rest, _, _ = strings.Cut(rest, "}")
		has := found && regexp.MustCompile(`Exec Count +: [1-9]`).MatchString(rest)
		if want := name != "byKind"; has != want {
			t.Errorf("llvm-bolt has a profile of %q: %v, want %v:\n%s", to, has, want, rest)
		}
	}
	merged := testtool.Run(t, dir, "merge-fdata-19", "shop.fdata")
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		if !strings.Contains(merged, line+"\n") {
			t.Errorf("merge-fdata lost %q:\n%s", line, merged)
		}
	}
}

// standIn is an identifier of n bytes, to compile by the name of.
func standIn(name string, n int) string { return ("S" + name + strings.Repeat("_", n))[:n] }

// renameELF returns a symbol another name of as many bytes.
func renameELF(t *testing.T, dir, file, from, to string) {
	t.Helper()
	path := filepath.Join(dir, file)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(from) != len(to) || !bytes.Contains(b, []byte("\x00"+from+"\x00")) {
		t.Fatalf("%s: no name %q that could be %q", file, from, to)
	}
	b = bytes.ReplaceAll(b, []byte("\x00"+from+"\x00"), []byte("\x00"+to+"\x00"))
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
}
