package main

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
	"backfeed/testdata/qemu"
)

// A linker makes a program of objects, in the order of a file if there is one.
type linker struct {
	target string   // of --for
	tools  []string // that it needs
	link   func(t *testing.T, dir, compiler, order, program string, objects []string)
	each   bool // it tells procedures of one name apart
}

// linkWith is a linker that a compiler runs: the one that compiled, or another one that
// finds the linker.
func linkWith(flag, option string, other map[string]string) func(*testing.T, string, string, string, string, []string) {
	return func(t *testing.T, dir, compiler, order, program string, objects []string) {
		t.Helper()
		compiler = cmp.Or(other[compiler], compiler)
		testtool.Run(t, dir, slices.Concat(strings.Fields(compiler), []string{flag, "-Wl," + option + order, "-o", program}, objects)...)
	}
}

var linkers = []linker{
	{"lld", []string{"ld.lld-19", "clang-19", "clang++-19"}, linkWith("-fuse-ld=lld", "--symbol-ordering-file=", map[string]string{
		"gcc": "clang-19", "g++": "clang++-19",
		"aarch64-linux-gnu-gcc": "clang-19 --target=aarch64-linux-gnu", "aarch64-linux-gnu-g++": "clang++-19 --target=aarch64-linux-gnu",
	}), false},
	{"gold", []string{"ld.gold"}, linkWith("-fuse-ld=gold", "--section-ordering-file=", nil), false},
	{"ld", []string{"ld.bfd"}, linkWith("-fuse-ld=bfd", "--section-ordering-file=", nil), true},
	{"ld-script", []string{"ld.bfd"}, linkWith("-fuse-ld=bfd", "-T,", nil), true},
	{"bolt", []string{"llvm-bolt-19"}, linkBOLT, true},
}

// linkBOLT links, and lets llvm-bolt order the result.
func linkBOLT(t *testing.T, dir, compiler, order, program string, objects []string) {
	t.Helper()
	testtool.Run(t, dir, slices.Concat(strings.Fields(compiler), []string{"-Wl,--emit-relocs", "-o", program + ".linked"}, objects)...)
	testtool.Run(t, dir, "llvm-bolt-19", program+".linked", "-o", program, "--reorder-functions=user", "--function-order="+order)
}

// TestLinkers links programs in the order that layout gives, by each linker: their
// functions lie as it says, and they do what they did.
func TestLinkers(t *testing.T) {
	for _, p := range []struct {
		compiler string
		sources  []string
		want     []string // to be in the order
	}{
		{"gcc", []string{"parts.c", "twins.c"}, []string{"report.part.0", "scale.isra.0", "step.constprop.0", "work.cold", "quick", "oops", "start", "twin", "main"}},
		{"clang-19", []string{"parts.c", "twins.c"}, []string{"step", "twin", "quick", "oops", "main"}},
		{"g++", []string{"shapes.cc"}, []string{"_Z3sumIiET_RKSt6vectorIS0_SaIS0_EE", "_ZNK6Square4areaEv", "_GLOBAL__sub_I__Z3runi", "main"}},
		{"aarch64-linux-gnu-gcc", []string{"parts.c", "twins.c"}, []string{"report.part.0", "scale.isra.0", "step.constprop.0", "quick", "oops", "start", "twin", "main"}},
		{"clang-19 --target=aarch64-linux-gnu -fuse-ld=lld", []string{"parts.c", "twins.c"}, []string{"step", "twin", "quick", "oops", "main"}},
		{"aarch64-linux-gnu-g++", []string{"shapes.cc"}, []string{"_Z3sumIiET_RKSt6vectorIS0_SaIS0_EE", "_ZNK6Square4areaEv", "_GLOBAL__sub_I__Z3runi", "main"}},
	} {
		t.Run(p.compiler, func(t *testing.T) {
			cross := strings.Contains(p.compiler, "aarch64")
			testtool.Need(t, strings.Fields(p.compiler)[0])
			if cross {
				testtool.Need(t, "ld.lld-19")
				qemu.Need(t, elf.EM_AARCH64)
			}
			dir := t.TempDir()
			run := func(program string) string { return testtool.Run(t, dir, "./"+program) }
			if cross {
				run = func(program string) string { return qemu.Run(t, dir, program) }
			}
			objects := compileOrdered(t, dir, p.compiler, p.sources)
			testtool.Run(t, dir, slices.Concat(strings.Fields(p.compiler), []string{"-Wl,--build-id", "-o", "plain"}, objects)...)
			plain := filepath.Join(dir, "plain")
			rec := recordUnits(t, plain, p.sources)
			want := orderOf(t, plain, rec)
			for _, name := range p.want {
				if !slices.ContainsFunc(want, func(key string) bool { return bare(key) == name }) {
					t.Errorf("%s is not in the order %s", name, want)
				}
			}
			if before := laidOut(t, plain, want); slices.Equal(before, want) {
				t.Error("the program lies in this order already: nothing would be shown")
			}
			for _, l := range linkers {
				t.Run(l.target, func(t *testing.T) {
					testtool.Need(t, l.tools...)
					if cross && (l.target == "gold" || strings.HasPrefix(l.target, "ld")) && !strings.Contains(p.compiler, "gnu-g") {
						t.Skip("clang finds GNU's linkers for this machine only")
					}
					if help, _ := testtool.Command(t, "ld.bfd", "--help").Output(); l.target == "ld" && !bytes.Contains(help, []byte("--section-ordering-file")) {
						t.Skip("needs GNU ld 2.43 or later, which has --section-ordering-file")
					}
					order := filepath.Join(dir, l.target+".order")
					if code, _, stderr := runCLI(t, "layout", plain, rec, "--for", l.target, "--always", "-o", order); code != exitDone || strings.Contains(stderr, "shared a section with others") {
						t.Fatalf("exit code %d: %s", code, stderr)
					}
					l.link(t, dir, p.compiler, order, l.target, objects)
					want := want
					if !l.each {
						want = twinsTogether(want, laidOut(t, plain, want))
					}
					if got := laidOut(t, filepath.Join(dir, l.target), want); !slices.Equal(got, want) {
						file, _ := os.ReadFile(order)
						t.Errorf("the program has the order\n%s\nwant\n%s\nby\n%s", got, want, file)
					}
					if got, want := run(l.target), run("plain"); got != want {
						t.Errorf("the ordered program prints %q, the other one %q", got, want)
					}
				})
			}
		})
	}
}

// compileOrdered makes objects of sources in testdata/order.
func compileOrdered(t *testing.T, dir, compiler string, sources []string, flags ...string) (objects []string) {
	t.Helper()
	if flags == nil {
		flags = []string{"-ffunction-sections"}
	}
	for _, source := range sources {
		path, err := filepath.Abs(filepath.Join("testdata", "order", source))
		if err != nil {
			t.Fatal(err)
		}
		object := strings.TrimSuffix(source, filepath.Ext(source)) + ".o"
		testtool.Run(t, dir, slices.Concat(strings.Fields(compiler), []string{"-O2", "-g", "-c", path, "-o", object}, flags)...)
		objects = append(objects, object)
	}
	return objects
}

// recordUnits writes a recording with samples in every function of the sources, the
// more the further behind.
func recordUnits(t *testing.T, path string, sources []string) string {
	t.Helper()
	im, c := openSampled(t, path)
	lines, err := im.Lines()
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range im.Symbols() {
		if !slices.Contains(sources, filepath.Base(lines.Unit(s.Addr).Name)) {
			continue
		}
		p, err := im.Proc(i)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range p.Blocks {
			if off, ok := im.OffsetOf(b.Start); ok {
				c.AddSample(0, off, uint64(100+10*i))
			}
		}
	}
	return save(t, c)
}

// orderOf returns the order that layout has for a program, as JSON says it: functions as
// laidOut names them.
func orderOf(t *testing.T, path, rec string) []string {
	t.Helper()
	var d report.Order
	text := must(t, "layout", path, rec, "--for", "json")
	if err := checkLayout(t, text); err != nil {
		t.Errorf("against the schema: %v", err)
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	at := map[string][]string{}
	for _, f := range functions(t, path) {
		at[f.addr] = append(at[f.addr], f.key)
	}
	var order []string
	for i, s := range d.Order {
		if s.Position != i+1 || s.Executions == nil && s.Confidence != "none" {
			t.Errorf("place %d: %+v", i+1, s)
		}
		k := slices.IndexFunc(at[s.Addr], func(key string) bool { return bare(key) == s.Linker() })
		if k < 0 {
			t.Fatalf("%s is not at %s", s.Name, s.Addr)
		}
		if s.Linker() != "_start" { // of the C library, whose sections are not of this kind
			order = append(order, at[s.Addr][k])
		}
	}
	return order
}

func checkLayout(t *testing.T, text string) error {
	t.Helper()
	return testtool.Schema(t, testtool.Read(t, "layout.schema.json"))(text)
}

// A placed function is one at its address; local ones are named name@file.
type placed struct {
	key, addr string
	at        uint64
}

// bare returns the name of a key.
func bare(key string) string {
	name, _, _ := strings.Cut(key, "@")
	return name
}

// functions returns all functions of a program by address, by its symbol table.
func functions(t *testing.T, path string) []placed {
	t.Helper()
	var out []placed
	file := ""
	for _, s := range testtool.Symbols(t, path) {
		switch typ, bind := elf.ST_TYPE(s.Info), elf.ST_BIND(s.Info); {
		case typ == elf.STT_FILE:
			file = s.Name
		case typ == elf.STT_FUNC && s.Section != elf.SHN_UNDEF:
			key := s.Name
			if bind == elf.STB_LOCAL {
				key += "@" + file
			}
			out = append(out, placed{key, addrOf(s.Value), s.Value})
		}
	}
	slices.SortStableFunc(out, func(a, b placed) int { return int(int64(a.at) - int64(b.at)) })
	return out
}

func addrOf(a uint64) string { return fmt.Sprintf("%#x", a) }

// laidOut returns those of the functions that are in the program, by address.
func laidOut(t *testing.T, path string, of []string) (order []string) {
	t.Helper()
	for _, f := range functions(t, path) {
		if slices.Contains(of, f.key) {
			order = append(order, f.key)
		}
	}
	return order
}

// twinsTogether is the order of a linker that moves all functions of a name to where
// the first one of them is, in the order that they were linked in.
func twinsTogether(order, linked []string) (out []string) {
	for _, key := range order {
		if slices.Contains(out, key) {
			continue
		}
		for _, other := range linked {
			if bare(other) == bare(key) {
				out = append(out, other)
			}
		}
	}
	return out
}

// TestSharedSections: layout says so where a program was compiled without
// -ffunction-sections.
func TestSharedSections(t *testing.T) {
	for _, compiler := range []string{"gcc", "clang-19"} {
		testtool.Need(t, compiler)
		dir := t.TempDir()
		sources := []string{"parts.c", "twins.c"}
		objects := compileOrdered(t, dir, compiler, sources, "-fno-function-sections")
		testtool.Run(t, dir, slices.Concat([]string{compiler, "-Wl,--build-id", "-o", "plain"}, objects)...)
		plain := filepath.Join(dir, "plain")
		rec := recordUnits(t, plain, sources)
		for target, said := range map[string]bool{"lld": true, "gold": true, "ld": true, "ld-script": true, "bolt": false} {
			code, _, stderr := runCLI(t, "layout", plain, rec, "--for", target, "--always")
			if code != exitDone || strings.Contains(stderr, "shared a section") != said {
				t.Errorf("%s, %s: exit code %d, %q", compiler, target, code, stderr)
			}
		}
	}
}

// TestTextSections: layout says so where the linker kept hot and unlikely functions in
// sections of their own.
func TestTextSections(t *testing.T) {
	testtool.Need(t, "gcc", "ld.gold")
	dir := t.TempDir()
	sources := []string{"parts.c", "twins.c"}
	objects := compileOrdered(t, dir, "gcc", sources)
	for flag, said := range map[string]bool{"keep-text-section-prefix": true, "nokeep-text-section-prefix": false} {
		testtool.Run(t, dir, slices.Concat([]string{"gcc", "-fuse-ld=gold", "-Wl,--build-id,-z," + flag, "-o", "kept"}, objects)...)
		kept := filepath.Join(dir, "kept")
		code, _, stderr := runCLI(t, "layout", kept, recordUnits(t, kept, sources), "--always")
		if code != exitDone || strings.Contains(stderr, "keep-text-section-prefix") != said {
			t.Errorf("%s: exit code %d, %q", flag, code, stderr)
		}
	}
}

// TestLayoutTargets: what cannot be had is refused, with what can.
func TestLayoutTargets(t *testing.T) {
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"x y --for mold", exitMachine, "--for lld"},
		{"x y --for gnu", exitUsage, "ld-script"},
		{"x y --for propeller", exitUsage, "--ld"},
		{"x y --for lld --ld z", exitUsage, "--ld"},
	} {
		code, _, stderr := runCLI(t, append([]string{"layout"}, strings.Fields(tt.args)...)...)
		if code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("layout %s: exit code %d, %q; want %d and %s", tt.args, code, stderr, tt.code, tt.want)
		}
	}
}
