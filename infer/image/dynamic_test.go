package image

import (
	"encoding/binary"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"backfeed/internal/testtool"
)

// TestMeans: who asks for a version gets it, who asks for none the newest; what has no versions serves all.
func TestMeans(t *testing.T) {
	for _, tt := range []struct {
		asked, version string
		old, want      bool
	}{
		{"", "", false, true},
		{"", "V2", false, true},
		{"", "V1", true, false},
		{"V1", "V1", true, true},
		{"V2", "V1", true, false},
		{"V1", "", false, true},
	} {
		e := Export{Dynamic: Dynamic{"f", tt.version}, Old: tt.old}
		if got := e.Means(Dynamic{"f", tt.asked}); got != tt.want {
			t.Errorf("f of version %q, old: %v, for those who ask for %q: %v", tt.version, tt.old, tt.asked, got)
		}
		if e.Means(Dynamic{"g", tt.asked}) {
			t.Errorf("f of version %q is given to those who ask for g", tt.version)
		}
	}
}

// TestDynamic asks a program and its library, of either kind of call, what they have the dynamic linker look up.
func TestDynamic(t *testing.T) {
	const library = `
int twice(int x) { return x * 2; }
int old_thing(int x) { return x + 1; }
int new_thing(int x) { return x + 2; }
__asm__(".symver old_thing,thing@V1\n.symver new_thing,thing@@V2");
int pointed(int x) { return x - 1; }
static int chosen(int x) { return x; }
static int (*choose(void))(int) { return chosen; }
int indirect(int) __attribute__((ifunc("choose")));
int inside(int x) { return twice(x) + 1; }
`
	const program = `
extern int twice(int), thing(int), pointed(int), indirect(int);
extern int (*sink)(int);
int (*sink)(int);
int main(int argc, char **argv) { sink = pointed; return twice(argc) + thing(argc) + indirect(argc) + pointed(argc); }
`
	for _, flags := range []string{"-fplt", "-fno-plt"} {
		t.Run(flags, func(t *testing.T) {
			dir := t.TempDir()
			testtool.Write(t, dir, "l.c", library)
			testtool.Write(t, dir, "l.map", "V1 { global: twice; pointed; indirect; inside; };\nV2 { } V1;\n")
			testtool.Write(t, dir, "p.c", program)
			testtool.Run(t, dir, "gcc", "-O1", "-fno-inline", "-fPIC", "-shared", "-Wl,--version-script=l.map", flags, "l.c", "-o", "libl.so")
			testtool.Run(t, dir, "gcc", "-O1", "-fPIE", "-pie", flags, "p.c", "-o", "p", "-L.", "-ll")
			lib := mustOpen(t, filepath.Join(dir, "libl.so"), Options{})
			im := mustOpen(t, filepath.Join(dir, "p"), Options{})

			exports := map[Dynamic]Export{}
			for _, e := range lib.Exports() {
				exports[e.Dynamic] = e
			}
			for d, want := range map[Dynamic]Export{
				{"twice", "V1"}: {}, {"thing", "V1"}: {Old: true}, {"thing", "V2"}: {}, {"indirect", "V1"}: {Indirect: true},
			} {
				if e, ok := exports[d]; !ok || e.Old != want.Old || e.Indirect != want.Indirect {
					t.Errorf("export %v: %+v, %v", d, e, ok)
				}
			}
			main, err := im.Proc(im.Lookup("main"))
			if err != nil {
				t.Fatal(err)
			}
			var called []Dynamic
			for i := range main.Calls {
				if d, ok := im.Import(&main.Calls[i]); ok {
					called = append(called, d)
				}
			}
			want := []Dynamic{{"indirect", "V1"}, {"pointed", "V1"}, {"thing", "V2"}, {"twice", "V1"}}
			slices.SortFunc(called, Dynamic.Compare)
			if !slices.Equal(called, want) {
				t.Errorf("main calls %v, want %v", called, want)
			}
			callers := im.ImportCallers()
			for _, d := range want {
				if !slices.Contains(im.Imports(), d) {
					t.Errorf("%v is not among what is looked up", d)
				}
				if got := callers[d]; !slices.Equal(got, []int32{int32(im.Lookup("main"))}) {
					t.Errorf("%v is called by symbols %v, want main, %d", d, got, im.Lookup("main"))
				}
				if got, want := slices.Contains(im.ImportsTaken(), d), d.Name == "pointed"; got != want {
					t.Errorf("the program takes the address of %v: %v, want %v", d, got, want)
				}
			}
			// The library calls its own function as those of others are called.
			for name, resolved := range map[string]bool{"twice": false, "inside": false, "chosen": true} {
				i := lib.Lookup(name)
				if lib.AddressTaken(i) {
					t.Errorf("the library takes the address of %s", name)
				}
				if got := lib.Resolved(i); got != resolved {
					t.Errorf("a resolver returns %s: %v, want %v", name, got, resolved)
				}
				if got := lib.Exported(i); got == resolved {
					t.Errorf("%s is exported: %v", name, got)
				}
			}
			if got, want := lib.Resolves(exports[Dynamic{"indirect", "V1"}].Addr), []int32{int32(lib.Lookup("chosen"))}; !slices.Equal(got, want) {
				t.Errorf("the resolver of indirect returns one of symbols %v, want %v", got, want)
			}
			if got := lib.ImportCallers()[Dynamic{"twice", "V1"}]; !slices.Equal(got, []int32{int32(lib.Lookup("inside"))}) {
				t.Errorf("twice is called by symbols %v of its library, want inside, %d", got, lib.Lookup("inside"))
			}
		})
	}
}

// TestResolver: a call through a stub for which no name is looked up tells its resolver, which tells what it may return.
func TestResolver(t *testing.T) {
	const library = `
static int few(int x) { return x + 3; }
static int many(int x) { return x + 4; }
extern int which;
int which;
static int (*count(void))(int) { return which ? few : many; }
int hidden(int) __attribute__((ifunc("count"), visibility("hidden")));
int within(int x) { return hidden(x) + 1; }
int other(int x) { return x + 2; }
int (*pointed)(int) = other;
`
	dir := t.TempDir()
	testtool.Write(t, dir, "l.c", library)
	testtool.Run(t, dir, "gcc", "-O1", "-fno-inline", "-fPIC", "-shared", "l.c", "-o", "libl.so")
	im := mustOpen(t, filepath.Join(dir, "libl.so"), Options{})
	p, err := im.Proc(im.Lookup("within"))
	if err != nil || len(p.Calls) != 1 {
		t.Fatalf("%v: calls %+v", err, p.Calls)
	}
	if d, ok := im.Import(&p.Calls[0]); ok {
		t.Errorf("%v is looked up", d)
	}
	resolver, ok := im.Resolver(&p.Calls[0])
	if at := im.Symbols()[im.Lookup("count")].Addr; !ok || resolver != at {
		t.Fatalf("the call is of what the resolver at %#x returns, %v; want %#x", resolver, ok, at)
	}
	want := []int32{int32(im.Lookup("few")), int32(im.Lookup("many"))}
	slices.Sort(want)
	if got := im.Resolves(resolver); !slices.Equal(got, want) {
		t.Errorf("it returns one of symbols %v, want %v", got, want)
	}
	if got, want := im.ResolverCallers(), []ResolverCall{{resolver, []int32{int32(im.Lookup("within"))}}}; !reflect.DeepEqual(got, want) {
		t.Errorf("what resolvers return is called by %+v, want %+v", got, want)
	}
	for name, taken := range map[string]bool{"few": false, "many": false, "other": true} {
		i := im.Lookup(name)
		if got := im.AddressTaken(i); got != taken || im.Resolved(i) == taken {
			t.Errorf("%s: its address is taken: %v, want %v; a resolver may return it: %v", name, got, taken, im.Resolved(i))
		}
	}
}

// TestProgram tells a program from a library, and what it is linked with.
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	testtool.Write(t, dir, "l.c", "int f(void) { return 1; }\n")
	testtool.Write(t, dir, "p.c", "extern int f(void);\nint main(void) { return f(); }\n")
	testtool.Run(t, dir, "gcc", "-fPIC", "-shared", "-Wl,-soname,libl.so.1", "l.c", "-o", "libl.so")
	for _, tt := range []struct {
		file  string
		flags []string
		want  bool
	}{
		{"pie", []string{"-fPIE", "-pie"}, true},
		{"fixed", []string{"-fno-pie", "-no-pie"}, true},
		{"libl.so", nil, false},
	} {
		if tt.flags != nil {
			testtool.Run(t, dir, append([]string{"gcc", "p.c", "-o", tt.file, "-L.", "-ll"}, tt.flags...)...)
		}
		im := mustOpen(t, filepath.Join(dir, tt.file), Options{})
		if got := im.IsProgram(); got != tt.want {
			t.Errorf("%s is a program: %v", tt.file, got)
		}
		needed := im.Needed()
		if got := slices.Index(needed, "libl.so.1"); tt.want && got != 0 {
			t.Errorf("%s is linked with %v", tt.file, needed)
		}
		if got := im.SoName() == "libl.so.1"; got == tt.want {
			t.Errorf("others need %s as %q", tt.file, im.SoName())
		}
	}
}

// TestVersionChain: entries that lead back, or into each other, end; there are no more than there is room for.
func TestVersionChain(t *testing.T) {
	entries := func(next ...uint32) (b []byte) {
		for _, n := range next {
			b = append(b, make([]byte, versionEntry-4)...)
			b = binary.LittleEndian.AppendUint32(b, n)
		}
		return b
	}
	for _, tt := range []struct {
		name  string
		b     []byte
		at    uint64
		limit int
		want  []uint64
	}{
		{"two", entries(16, 0), 0, 9, []uint64{0, 16}},
		{"a gap", entries(32, 0, 0), 0, 9, []uint64{0, 32}},
		{"into itself", entries(8, 0), 0, 9, []uint64{0}},
		{"out of the section", entries(16, 16), 0, 9, []uint64{0, 16}},
		{"far out", entries(0xffffffff), 0, 9, []uint64{0}},
		{"begins outside", entries(0), 1 << 33, 9, nil},
		{"cut off", entries(0)[:15], 0, 9, nil},
		{"no more than so many", entries(16, 16, 0), 0, 2, []uint64{0, 16}},
	} {
		var got []uint64
		versionChain(tt.b, tt.at, &tt.limit, func(_ []byte, at uint64) { got = append(got, at) })
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
