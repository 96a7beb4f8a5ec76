package image

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// compilers are the ways that switch.c is built.
var compilers = []struct{ name, args string }{
	{"gcc", "-O2 -fPIC"},
	{"gcc", "-O0 -fPIC"},
	{"gcc", "-O2 -fno-pic -no-pie"},
	{"gcc", "-Os -fPIC"},
	{"gcc", "-O2 -fPIC -fcf-protection=branch"},
	{"clang-19", "-O2 -fPIC"},
	{"clang-19", "-O2 -fno-pic -no-pie"},
	{"clang-19", "-O3 -fPIC"},
	{"aarch64-linux-gnu-gcc", "-O2 -fPIC"},
	{"aarch64-linux-gnu-gcc", "-O2 -fno-pic -no-pie"},
	{"aarch64-linux-gnu-gcc", "-Os -fPIC -mbranch-protection=standard"},
	{"clang-19", "-O2 -fPIC --target=aarch64-linux-gnu"},
}

// compile builds a source of testdata/code into an image, or skips the test.
func compile(t *testing.T, name, args, source string) *Image {
	t.Helper()
	testtool.Need(t, name)
	out := filepath.Join(t.TempDir(), "switch.elf")
	words := append(strings.Fields(args), "-w", "-nostdlib", "-o", out, filepath.Join("testdata", "code", source))
	if strings.Contains(args, "-no-pie") {
		words = append(words, "-Wl,--unresolved-symbols=ignore-all", "-Wl,-e,dense")
	} else {
		words = append(words, "-shared")
	}
	if strings.Contains(args, "--target") {
		words = append(words, "-fuse-ld=lld")
	}
	if b, err := exec.Command(name, words...).CombinedOutput(); err != nil {
		t.Skipf("%s %s: %v: %s", name, args, err, b)
	}
	return openTest(t, out)
}

func procNamed(t *testing.T, im *Image, name string) *Proc {
	t.Helper()
	i := im.Lookup(name)
	if i < 0 {
		t.Fatalf("no symbol %s", name)
	}
	p, err := im.Proc(i)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	return p
}

// indirect returns the numbers of jumps through tables and of their edges.
func indirect(p *Proc) (jumps, edges int) {
	from := map[int]bool{}
	for _, e := range p.Edges {
		if e.Kind == Indirect {
			from[e.From] = true
			edges++
		}
	}
	return len(from), edges
}

func TestJumpTables(t *testing.T) {
	t.Parallel()
	for _, c := range compilers {
		t.Run(c.name+" "+c.args, func(t *testing.T) {
			im := compile(t, c.name, c.args, "switch.c")
			for _, tt := range []struct {
				name     string
				min, max int // edges of a jump; a hole of the table leads to the default case
			}{
				{"dense", 20, 20}, {"loop", 20, 21}, {"unchecked", 20, 20}, {"computed", 5, 5}, {"threaded", 5, 5},
			} {
				p := procNamed(t, im, tt.name)
				jumps, edges := indirect(p)
				if !p.Complete || jumps == 0 || edges < tt.min*jumps || edges > tt.max*jumps {
					t.Errorf("%s: complete %v (%s), %d edges of %d indirect jumps, want %d to %d of each", tt.name, p.Complete, p.Why, edges, jumps, tt.min, tt.max)
				}
			}
		})
	}
}

// TestARM: tables whose index is compared in another register, or whose address is on the stack,
// zeros between code, and a mark of what is jumped to.
func TestARM(t *testing.T) {
	im := compile(t, "aarch64-linux-gnu-gcc", "-fPIC -Wl,-Bsymbolic", "arm.s")
	for _, tt := range []struct {
		name  string
		edges int
	}{{"copied", 4}, {"spilled", 3}} {
		p := procNamed(t, im, tt.name)
		if jumps, edges := indirect(p); !p.Complete || jumps != 1 || edges != tt.edges {
			t.Errorf("%s: complete %v (%s), %d edges of %d indirect jumps, want %d of one", tt.name, p.Complete, p.Why, edges, jumps, tt.edges)
		}
	}
	if _, edges := indirect(procNamed(t, im, "changed")); edges == 2 {
		t.Error("changed: 2 edges, by a comparison of another number than the index")
	}
	if p := procNamed(t, im, "padded"); !p.Complete || len(p.Blocks) != 3 || p.Blocks[1].Insts != 2 || p.Blocks[2].Insts != 2 {
		t.Errorf("padded: complete %v (%s), %d blocks, want one of an instruction and two of two", p.Complete, p.Why, len(p.Blocks))
	}
	i := im.Lookup("object")
	if i >= 0 {
		t.Fatal("data is a procedure")
	}
	data := im.references().data
	at := slices.IndexFunc(data, func(a Addr) bool { return im.objectEnd(a) > a+4 })
	if at < 0 || slices.Contains(data, data[at]+4) {
		t.Errorf("objects begin at %#x", data)
	}
}

// TestThunk: a call that lld leads over a jump to an address beside it gets where that says.
func TestThunk(t *testing.T) {
	im := compile(t, "clang-19", "--target=aarch64-linux-gnu -no-pie -Wl,-Ttext=0x300000 -Wl,--section-start=.far=0x20000000", "thunk.s")
	calls := procNamed(t, im, "dense").Calls
	if len(calls) != 1 {
		t.Fatalf("%d calls, want one", len(calls))
	}
	i := im.Find(calls[0].To)
	if i < 0 || im.Symbols()[i].Name == "far" {
		t.Fatalf("a call to %#x: of no thunk", calls[0].To)
	}
	thunk := procNamed(t, im, im.Symbols()[i].Name)
	if len(thunk.Calls) != 1 || !thunk.Calls[0].Tail || thunk.Calls[0].Target != "far" || !thunk.Complete {
		t.Errorf("%s: complete %v (%s), calls %+v, want one tail call of far", thunk.Name, thunk.Complete, thunk.Why, thunk.Calls)
	}
}

// TestOwnNames: a program's own function that is called like one of the C library returns if its
// code does.
func TestOwnNames(t *testing.T) {
	for _, args := range []string{"-O2 -fPIC", "-O2 -fno-pic -no-pie"} {
		im := compile(t, "gcc", args, "own.c")
		for _, call := range procNamed(t, im, "dense").Calls {
			want := call.Target == "errx"
			if call.NoReturn != want {
				t.Errorf("%s: a call to %s: returns %v, want %v", args, call.Target, !call.NoReturn, !want)
			}
		}
	}
}

func TestUnresolved(t *testing.T) {
	for _, c := range compilers {
		t.Run(c.name+" "+c.args, func(t *testing.T) {
			im := compile(t, c.name, c.args, "switch.c")
			p := procNamed(t, im, "unknown")
			if p.Complete || !strings.Contains(p.Why, "targets of the jump at 0x") {
				t.Errorf("unknown: complete %v, why %q", p.Complete, p.Why)
			}
			n := 0
			for i := range p.Blocks {
				if p.Blocks[i].Exit == Unresolved {
					n++
				}
			}
			if n == 0 {
				t.Errorf("unknown: no block with an unresolved exit")
			}
		})
	}
}

func TestTailAndNoReturn(t *testing.T) {
	for _, c := range compilers {
		t.Run(c.name+" "+c.args, func(t *testing.T) {
			im := compile(t, c.name, c.args, "switch.c")
			p := procNamed(t, im, "tail")
			optimised := !strings.Contains(c.args, "-O0")
			if optimised && (!p.Complete || len(p.Calls) != 1 || !p.Calls[0].Tail || p.Calls[0].To != 0 || p.Blocks[p.Calls[0].Block].Exit != TailCall) {
				t.Errorf("tail: complete %v (%s), calls %+v", p.Complete, p.Why, p.Calls)
			}
			// Nothing but its code says that fail does not return: die is not a known name.
			for _, call := range procNamed(t, im, "fail").Calls {
				if call.Target == "die" && !call.NoReturn {
					t.Errorf("fail: call to die at its end returns: %+v", call)
				}
			}
			found := false
			p = procNamed(t, im, "check")
			for _, call := range p.Calls {
				if call.Target == "fail" {
					found = true
					if !call.NoReturn || p.Blocks[call.Block].Exit != NoReturn {
						t.Errorf("check: call to fail: %+v, exit %d", call, p.Blocks[call.Block].Exit)
					}
				}
			}
			if !found && strings.Contains(c.args, "-no-pie") { // in a shared library it is called by its stub
				t.Errorf("check: no call to fail: %+v", p.Calls)
			}
		})
	}
}

func TestLandingPads(t *testing.T) {
	for _, c := range []struct{ name, args string }{
		{"g++", "-O2 -fPIC"},
		{"g++", "-O2 -fPIC -fno-reorder-functions -fno-reorder-blocks-and-partition"},
		{"clang++-19", "-O2 -fPIC"},
	} {
		t.Run(c.name+" "+c.args, func(t *testing.T) {
			im := compile(t, c.name, c.args, "throw.cc")
			for _, name := range []string{"_Z7cleanupi", "_Z7handleri"} {
				pads := 0
				for i := range im.Symbols() {
					if s := &im.Symbols()[i]; s.Name == name || strings.HasPrefix(s.Name, name+".cold") {
						p := procNamed(t, im, s.Name)
						if !p.Complete {
							t.Errorf("%s: %s", s.Name, p.Why)
						}
						for j := range p.Blocks {
							if p.Blocks[j].Pad {
								pads++
								if !slices.Contains(p.Entries, j) {
									t.Errorf("%s: landing pad %#x is no entry: %v", s.Name, p.Blocks[j].Start, p.Entries)
								}
							}
						}
					}
				}
				if pads == 0 {
					t.Errorf("%s: no landing pads", name)
				}
			}
		})
	}
}

// TestColdParts: a jump into a cold part is a tail call, and what it comes back to
// is an entry.
func TestColdParts(t *testing.T) {
	im := compile(t, "g++", "-O2 -fPIC", "throw.cc")
	if im.Lookup("_Z6partlyi.cold") < 0 {
		t.Skip("g++ did not split the procedure")
	}
	hot, cold := procNamed(t, im, "_Z6partlyi"), procNamed(t, im, "_Z6partlyi.cold")
	if !hot.Complete || !cold.Complete {
		t.Fatalf("incomplete: %q, %q", hot.Why, cold.Why)
	}
	back := 0
	for _, c := range cold.Calls {
		if !c.Tail || c.To < hot.Addr || c.To >= hot.Addr+Addr(hot.Size) {
			continue
		}
		back++
		if !slices.ContainsFunc(hot.Entries, func(i int) bool { return hot.Blocks[i].Start == c.To }) {
			t.Errorf("the cold part comes back to %#x, no entry of %v", c.To, hot.Entries)
		}
	}
	if back == 0 {
		t.Errorf("the cold part never comes back: %+v", cold.Calls)
	}
}

// TestRecover: Go resumes behind a recovered panic at a call to runtime.deferreturn
// that no branch leads to.
func TestRecover(t *testing.T) {
	im := openTest(t, goTool(t))
	pads := 0
	for i := range im.Symbols() {
		p, err := im.Proc(i)
		if err != nil {
			t.Fatal(err)
		}
		for j := range p.Blocks {
			if p.Blocks[j].Pad {
				pads++
			}
		}
	}
	if pads == 0 && im.Go != "" {
		t.Errorf("no place to resume in %d procedures", len(im.Symbols()))
	}
	t.Logf("%d places to resume", pads)
}

// TestLabelsOfParts: labels of an interpreter lead into a part that the compiler split off, whose name is lost. Its frame description
// begins with a frame, which those of functions do not.
func TestLabelsOfParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, args string }{
		{"gcc", "-O2 -fPIC"},
		{"gcc", "-O2 -fPIC -s"},
		{"gcc", "-O2 -fPIC -fno-omit-frame-pointer -s"},
		{"aarch64-linux-gnu-gcc", "-O2 -fPIC -s"},
	} {
		t.Run(c.name+" "+c.args, func(t *testing.T) {
			im := compile(t, c.name, c.args, "parts.c")
			parts := 0
			for i := range im.Symbols() {
				if im.isPart(&im.Symbols()[i]) {
					parts++
				}
			}
			if parts == 0 && !strings.Contains(c.name, "aarch64") {
				t.Fatal("the compiler split nothing off")
			}
			if parts > 1 {
				t.Errorf("%d symbols are parts, want 1", parts)
			}
			p := procNamed(t, im, "split")
			jumps, edges := indirect(p)
			rare := 0 // cases in the part
			for _, c := range p.Calls {
				if j := im.Find(c.To); c.Tail && c.Cond && j >= 0 && im.isPart(&im.Symbols()[j]) {
					rare++
				}
			}
			if !p.Complete || jumps == 0 || edges+rare != 7*jumps || rare != 2*parts*jumps {
				t.Errorf("complete %v (%s), %d edges of %d indirect jumps, and %d cases in the part; want 7 of each, 2 of them in the part", p.Complete, p.Why, edges, jumps, rare)
			}
			last := procNamed(t, im, "last")
			if _, edges := indirect(last); edges != 0 || !last.Complete {
				t.Errorf("last: complete %v (%s), %d edges of a table of functions", last.Complete, last.Why, edges)
			}
		})
	}
}

// TestStates: the states of a machine are set by its own loop, after the jump by the first one was met. clang checks none of them.
func TestStates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, args string }{
		{"clang-19", "-O2 -fPIC"},
		{"clang-19", "-O2 -fno-pic -no-pie -Wl,-e,states"},
		{"gcc", "-O2 -fPIC"},
		{"gcc", "-O1 -fPIC"},
	} {
		t.Run(c.name+" "+c.args, func(t *testing.T) {
			p := procNamed(t, compile(t, c.name, c.args, "states.c"), "states")
			jumps, edges := indirect(p)
			if !p.Complete || jumps == 0 || edges < 7*jumps || edges > 8*jumps { // of the loop, and where there is no such state
				t.Errorf("complete %v (%s), %d edges of %d indirect jumps, want 7 or 8 of each", p.Complete, p.Why, edges, jumps)
			}
			for i := range p.Blocks {
				if i > 0 && len(p.Blocks[i].In) == 0 {
					t.Errorf("nothing leads to block %#x", uint64(p.Blocks[i].Start))
				}
			}
		})
	}
}

// TestJumpsBack: what is rare is split off and jumps back into a loop, which has the addresses of its tables in registers: the loop's own
// paths say what they hold. Neither table is found without the other's targets.
func TestJumpsBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, args string }{
		{"gcc", "-O2 -fPIC"},
		{"gcc", "-O2 -fPIC -s"},
		{"gcc", "-O3 -fPIC -fno-omit-frame-pointer -s"},
		{"gcc", "-Os -fPIC -s"},
	} {
		t.Run(c.name+" "+c.args, func(t *testing.T) {
			im := compile(t, c.name, c.args, "back.c")
			p := procNamed(t, im, "back")
			if jumps, edges := indirect(p); !p.Complete || jumps != 2 || edges != 10 {
				t.Errorf("complete %v (%s), %d edges of %d indirect jumps; want 10 of 2", p.Complete, p.Why, edges, jumps)
			}
			if strings.Contains(c.args, "-O2") && len(p.Entries) < 2 {
				t.Error("nothing jumps back")
			}
		})
	}
}

// TestStackMoves: moves of the stack and the frame pointer are of these two alone: the others of the same low bits are other registers.
func TestStackMoves(t *testing.T) {
	for code, want := range map[string]stackEffect{
		"\x48\x89\xe5":         {frameFromSP, 0},  // mov %rsp,%rbp
		"\x48\x8b\xec":         {frameFromSP, 0},  // the same
		"\x48\x89\xec":         {spFromFrame, 0},  // mov %rbp,%rsp
		"\x48\x8b\xe5":         {spFromFrame, 0},  // the same
		"\x49\x89\xec":         {spStays, 0},      // mov %rbp,%r12
		"\x4c\x89\xe5":         {spStays, 0},      // mov %r12,%rbp
		"\x4c\x89\xed":         {spStays, 0},      // mov %r13,%rbp
		"\x4d\x89\xec":         {spStays, 0},      // mov %r13,%r12
		"\x4d\x8b\xe5":         {spStays, 0},      // mov %r13,%r12
		"\x48\x8b\x6c\x24\x08": {spStays, 0},      // mov 8(%rsp),%rbp
		"\x48\x8d\x64\x24\x10": {spMoves, 16},     // lea 16(%rsp),%rsp
		"\x48\x8d\x6c\x24\x10": {frameFromSP, 16}, // lea 16(%rsp),%rbp
		"\x5d":                 {spPopsFrame, 8},  // pop %rbp
		"\x41\x5d":             {spMoves, 8},      // pop %r13
		"\x41\x5c":             {spMoves, 8},      // pop %r12
		"\x5c":                 {spLost, 0},       // pop %rsp
		"\x48\x83\xec\x18":     {spMoves, -24},    // sub $24,%rsp
		"\x49\x83\xec\x18":     {spStays, 0},      // sub $24,%r12
	} {
		var d x86
		d.decode([]byte(code))
		if got := d.stack(); got != want {
			t.Errorf("% x: %+v, want %+v", code, got, want)
		}
	}
}

// TestStoredLabels: programs of an interpreter hold the labels that its jumps go to, whose table no code reads: they lead to all labels that data
// holds. Of a table, all are.
func TestStoredLabels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, args string }{
		{"gcc", "-O2 -fPIC"},
		{"gcc", "-O2 -fPIC -s"},
		{"gcc", "-O1 -fno-pie -s"},
		{"clang-19", "-O2 -fPIC"},
		{"aarch64-linux-gnu-gcc", "-O2 -fPIC -s"},
	} {
		t.Run(c.name+" "+c.args, func(t *testing.T) {
			im := compile(t, c.name, c.args, "threaded.c")
			p := procNamed(t, im, "thread")
			if jumps, edges := indirect(p); !p.Complete || jumps == 0 || edges != 9*jumps {
				t.Errorf("complete %v (%s), %d edges of %d indirect jumps; want 9 of each", p.Complete, p.Why, edges, jumps)
			}
		})
	}
}
