package feedback

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"backfeed/internal/testtool"
)

// shapes is a Go program with a call through an interface, whose table has a
// method and a wrapper of one, a small function inlined in a loop, and calls of
// which nothing is known but samples.
const shapes = `
func main.small@40
func main.inner@50
proc main.drive@10 x10
block x10
	main.drive:10
	main.drive:12
block x1000
	loop=main.drive:13 s3
	main.small:41<main.drive:14 s5
	main.inner:51<main.small:42<main.drive:14 s2
	main.small:43<main.drive:14
	iface=main.drive:15 call ? x1000
	direct=main.drive:15 call main.leaf x1000
	main.drive:16
block x10
	unsure=main.drive:17 call main.slow x0 none
	main.drive:18 call main.never x0
	main.drive:18 call main.unseen x30 low
	guess=main.drive:19 call main.quick x90 low
edge 0>1 fallthrough x10
edge 1>1 taken x990
edge 1>2 fallthrough x10
proc main.Sq.Area@60 x600
block x600
	sq=main.Sq.Area:61 s6
proc main.(*Ci).Area@1 x400 wrapper
block x400
	ci=main.Ci.Area:71<main.(*Ci).Area:1 s8
proc main.leaf@80 x1000
block x1000
	leaf=main.leaf:81 s10
proc main.slow@90 x0 none
block x0 none
	slow=main.slow:91 s4
proc main.never@100 x0
block x0
	main.never:101
proc main.quick@110 x90 low
block x90 low
	main.quick:110 s1
	main.quick:110 call main.quick x5
proc main.unseen@120 x30 low
block x30 low
	main.small:41<main.unseen:121
	main.unseen:122 call main.never x3 low
func main.Ci.Area@70
`

func newShapes(t *testing.T) *program {
	p := newProgram(t, shapes)
	p.stack(6, "sq", "iface")
	p.stack(8, "ci", "iface")
	p.stack(10, "leaf", "direct")
	p.stack(4, "slow", "unsure")
	return p
}

// edgesOf lists what the Go compiler reads: a weight for caller, line and callee.
func edgesOf(t *testing.T, b []byte) map[string]int64 {
	t.Helper()
	p, err := profile.ParseData(b)
	if err != nil {
		t.Fatal(err)
	}
	edges := map[string]int64{}
	for _, s := range p.Sample {
		if s.Value[0] == 0 || isCopy(s) {
			continue
		}
		callee, caller := s.Location[0].Line[0], s.Location[1].Line[0]
		edges[fmt.Sprintf("%s %d %s", caller.Function.Name, caller.Line-caller.Function.StartLine, callee.Function.Name)] += s.Value[0]
	}
	return edges
}

// TestGoWithoutLines: what has no lines is not Go's, such as the linker's stubs in a program with cgo. Its calls are none that
// the compiler could have more of, and calls of it are of another language.
func TestGoWithoutLines(t *testing.T) {
	p := newProgram(t, shapes+`
proc stub@200 x500
block x500
	stub=stub:201 s20
	tail=stub:202 call main.leaf x500
proc main.asks@210 x500
block x500
	main.asks:211 s3
	asks=main.asks:212 call stub x500
`)
	p.stack(10, "leaf", "direct")
	p.stack(20, "stub", "asks")
	v := p.ofGo()
	p.lang = "" // as where a program has no DWARF
	for _, label := range []string{"stub", "tail"} {
		delete(p.frames, p.labels[label])
	}
	var out bytes.Buffer
	stats, err := writeGo(&out, v, GoOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if stats.Skipped[SkipNoLine] != 0 || stats.Skipped[SkipLang] != 1 {
		t.Errorf("left out %v", stats.Skipped)
	}
	for e := range edgesOf(t, out.Bytes()) {
		if strings.Contains(e, "stub") {
			t.Errorf("a call of or from code that is not Go's: %s", e)
		}
	}
}

func TestWriteGo(t *testing.T) {
	var out bytes.Buffer
	stats, err := writeGo(&out, newShapes(t).ofGo(), GoOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The other calls ran 4000 times and have 31 samples: the 4 samples of
	// main.slow stand for 4000/31 executions each.
	want := map[string]int64{
		"main.drive 4 main.small":   1000,
		"main.small 2 main.inner":   1000,
		"main.drive 5 main.Sq.Area": 600,
		"main.drive 5 main.Ci.Area": 400,
		"main.drive 5 main.leaf":    1000,
		"main.drive 7 main.slow":    516,
		"main.drive 9 main.quick":   9,
		"main.drive 8 main.unseen":  3,
		"main.quick 0 main.quick":   5,
	}
	if got := edgesOf(t, out.Bytes()); !maps.Equal(got, want) {
		t.Errorf("edges\n%v, want\n%v", got, want)
	}
	if stats.Edges != 9 || stats.Inlined != 2 || stats.Indirect != 2 || stats.Scale != 1 || stats.Skipped[SkipUnseen] != 2 {
		t.Errorf("stats %+v", stats)
	}
	testtool.Golden(t, "testdata/shapes.pprof.txt", dumpPprof(t, out.Bytes()))

	// What is told of the edges has the names that the compiler's choices have.
	d, err := DecideGo(&out)
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]int{}
	for _, c := range d.All() {
		if c.Kind != Inline {
			continue
		}
		call, ok := stats.Calls[c.Choice]
		if !ok {
			t.Errorf("nothing is told of %v, which is hot", c.Choice)
		}
		if call.Inlined {
			told["inlined"]++
		}
		if call.Indirect {
			told["indirect"]++
		}
	}
	if len(stats.Calls) != stats.Edges || told["inlined"] != 2 || told["indirect"] != 2 {
		t.Errorf("%d calls are told of, %v", len(stats.Calls), told)
	}
}

// dumpPprof returns a profile as text.
func dumpPprof(t *testing.T, b []byte) []byte {
	t.Helper()
	p, err := profile.ParseData(b)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(p.String())
}

// TestGoEvidence: what a call weighs, by what is known of it.
func TestGoEvidence(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		stacks     func(*program)
		want       map[string]int64
	}{
		{
			"executions of the callee, divided as stacks show",
			"proc a@1 x1\nblock x1\none=a:2 call c x1 low\ntwo=a:3 call c x1 low\nproc c@9 x90\nblock x90\nc=c:10",
			func(p *program) { p.stack(2, "c", "one"); p.stack(1, "c", "two") },
			map[string]int64{"a 1 c": 60, "a 2 c": 30},
		},
		{
			"the flow around the call, not the time of the callee",
			"proc a@1 x1\nblock x1\na:1 s1\none=a:2 call c x30 low\ntwo=a:3 call d x60 low\nproc c@9 x30 low\nblock x30 low\nc=c:10\nproc d@9 x60 low\nblock x60 low\nd=d:10",
			func(p *program) { p.stack(20, "c", "one"); p.stack(1, "d", "two") },
			map[string]int64{"a 1 c": 30, "a 2 d": 60},
		},
		{
			"a call of Low confidence that no stack shows, by a tenth of the flow",
			"proc a@1 x1\nblock x1\na:1 s1\na:2 call c x300 low\ntwo=a:3 call d x60 low\nproc c@9 x300 low\nblock x300 low\nc:10\nproc d@9 x60 low\nblock x60 low\nd=d:10",
			func(p *program) { p.stack(1, "d", "two") },
			map[string]int64{"a 1 c": 30, "a 2 d": 60},
		},
		{
			"the same without any stacks, by the flow",
			"proc a@1 x1\nblock x1\na:1 s1\na:2 call c x300 low\nproc c@9 x300 low\nblock x300 low\nc:10",
			func(p *program) {},
			map[string]int64{"a 1 c": 300},
		},
		{
			"nothing but samples",
			"proc a@1 x0 none\nblock x0 none\none=a:2 call c x0 none\nproc c@9 x0 none\nblock x0 none\nc=c:10",
			func(p *program) { p.stack(7, "c", "one") },
			map[string]int64{"a 1 c": 7},
		},
		{
			"an interface call by recorded branches, not by time",
			"proc a@1 x1\nblock x1\none=a:2 call ? x100\nproc c@9 x1\nblock x1\nc=c:10\nproc d@9 x1\nblock x1\nd=d:10",
			func(p *program) { p.stack(7, "c", "one"); p.branch(1, 0, "one", "c"); p.branch(3, 0, "one", "d") },
			map[string]int64{"a 1 c": 25, "a 1 d": 75},
		},
		{
			"a method value, which is called by way of a wrapper",
			"proc a@1 x1\nblock x1\none=a:2 call ? x100\nproc t.m-fm@1 x9 wrapper\nblock x9\ntwo=t.m-fm:1 call t.m x9\nproc t.m@9 x9\nblock x9\nm=t.m:10",
			func(p *program) { p.stack(7, "m", "two", "one") },
			map[string]int64{"a 1 t.m": 100},
		},
		{
			"what the compiler adds has no weight, but the runtime calls itself",
			"proc a@1 x1\nblock x1\na:2 call runtime.grow x5\na:2 call runtime.GC x5\nproc runtime.grow@5 x5\nblock x5\nruntime.grow:6 call runtime.copy x50\nproc runtime.copy@9 x50\nblock x50\nruntime.copy:10\nproc runtime.GC@9 x5\nblock x5\nruntime.GC:10",
			func(p *program) {},
			map[string]int64{"a 1 runtime.GC": 5, "runtime.grow 1 runtime.copy": 50},
		},
		{
			"a callee that keeps no frame: the stack lacks its caller",
			"proc a@1 x1\nblock x1\none=a:2 call b x5\nproc b@5 x5\nblock x5\ntwo=b:6 call ? x50\nproc c@9 x50\nblock x50\nc=c:10",
			func(p *program) { p.stack(9, "c", "one") },
			map[string]int64{"a 1 b": 5, "b 1 c": 50},
		},
		{
			"the same, where what the stack lacks is called from another image",
			"proc a@1 x1\nblock x1\none=a:2 call ? x50\nproc c@9 x50\nblock x50\nc=c:10",
			func(p *program) { p.stack(9, "c", "libc"); p.stack(1, "one", "libc") },
			map[string]int64{"a 1 c": 50},
		},
		{
			"the same, with two indirect calls: the one that was seen to go there",
			"proc a@1 x1\nblock x1\none=a:2 call b x5\nproc b@5 x5\nblock x5\ntwo=b:6 call ? x50\nb:7 call ? x90\nproc c@9 x50\nblock x50\nc=c:10",
			func(p *program) { p.stack(9, "c", "one"); p.stack(1, "c", "two", "one") },
			map[string]int64{"a 1 b": 5, "b 1 c": 50},
		},
	} {
		p := newProgram(t, tt.text)
		tt.stacks(p)
		var out bytes.Buffer
		if _, err := writeGo(&out, p.ofGo(), GoOptions{NoTime: true}); err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := edgesOf(t, out.Bytes()); !maps.Equal(got, tt.want) {
			t.Errorf("%s: edges %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestGoInlinedLoops: a body counts as often as it is entered, not as its loop
// turns, and also where its caller's loop is one block.
func TestGoInlinedLoops(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       int64
	}{
		{"loop in the body", "block x10\na:2\nblock x500\nf:21<a:3\nf:22<a:3\nblock x10\na:4\nedge 0>1 fallthrough x10\nedge 1>1 taken x490\nedge 1>2 fallthrough x10", 10},
		{"loop around the body, which ends the block", "block x10\na:2\nblock x500\na:3\nf:22<a:3\nblock x10\na:4\nedge 0>1 fallthrough x10\nedge 1>1 taken x490\nedge 1>2 fallthrough x10", 500},
		{"loop around the body, which begins the block", "block x10\na:2\nblock x500\nf:21<a:3\na:3\nblock x10\na:4\nedge 0>1 fallthrough x10\nedge 1>1 taken x490\nedge 1>2 fallthrough x10", 500},
		{"instructions mixed with the caller's", "block x10\na:2\nf:21<a:3\na:2\nf:22<a:3\na:4", 10},
		{"a body that the procedure begins with", "block x10\nf:21<a:3\na:4", 10},
	} {
		p := newProgram(t, "func f@20\nproc a@1 x10\n"+tt.text)
		var out bytes.Buffer
		if _, err := writeGo(&out, p.ofGo(), GoOptions{NoTime: true}); err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := edgesOf(t, out.Bytes())["a 2 f"]; got != tt.want {
			t.Errorf("%s: %d calls, want %d", tt.name, got, tt.want)
		}
	}
}

func TestGoOverflow(t *testing.T) {
	p := newProgram(t, "proc a@1 x1\nblock x1\na:2 call c x3e19\na:3 call c x1e19\nproc c@9 x1\nblock x1\nc:10")
	var out bytes.Buffer
	stats, err := writeGo(&out, p.ofGo(), GoOptions{NoTime: true})
	if err != nil {
		t.Fatal(err)
	}
	got := edgesOf(t, out.Bytes())
	if got["a 1 c"] < 0 || got["a 2 c"] < 0 || got["a 1 c"]+got["a 2 c"] > maxWeight || got["a 1 c"]/got["a 2 c"] != 3 {
		t.Errorf("edges %v, scale %g: want a ratio of 3 and a sum below 2^62", got, stats.Scale)
	}
}

func TestGoEmpty(t *testing.T) {
	p := newProgram(t, "proc a@1 x1\nblock x1\na:2")
	if _, err := writeGo(&bytes.Buffer{}, p.ofGo(), GoOptions{}); !errors.Is(err, ErrEmpty) {
		t.Errorf("no calls: %v, want ErrEmpty", err)
	}
	if _, err := writeGo(&bytes.Buffer{}, newShapes(t).view, GoOptions{}); !errors.Is(err, ErrEmpty) {
		t.Errorf("calls in C: %v, want ErrEmpty", err)
	}
}

// TestSameBytes: equal input gives equal bytes, in every format.
func TestSameBytes(t *testing.T) {
	for name, write := range map[string]func(*bytes.Buffer) error{
		"go":   func(b *bytes.Buffer) error { _, err := writeGo(b, newShapes(t).ofGo(), GoOptions{}); return err },
		"bolt": func(b *bytes.Buffer) error { _, err := writeBOLT(b, newShapes(t).view); return err },
		"llvm": func(b *bytes.Buffer) error {
			l := newLLVMWriter()
			l.image(newShapes(t).view)
			return l.write(b, LLVMText)
		},
	} {
		var first bytes.Buffer
		if err := write(&first); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for range 20 {
			var again bytes.Buffer
			if err := write(&again); err != nil || !bytes.Equal(first.Bytes(), again.Bytes()) {
				t.Fatalf("%s: %v, or other bytes the second time", name, err)
			}
		}
	}
}

// TestGoPreprofile: the go command reads from the profile the edges that were
// meant, and no others.
func TestGoPreprofile(t *testing.T) {
	testtool.Need(t, "go")
	var out bytes.Buffer
	if _, err := writeGo(&out, newShapes(t).ofGo(), GoOptions{}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	testtool.Write(t, dir, "p.pprof", out.String())
	testtool.Run(t, dir, "go", "tool", "preprofile", "-i", "p.pprof", "-o", "p.txt")
	lines := strings.Split(strings.TrimSpace(testtool.Read(t, dir, "p.txt")), "\n")[1:] // below "GO PREPROFILE V1"
	got := map[string]int64{}
	for c := range slices.Chunk(lines, 3) {
		var line int
		var n int64
		fmt.Sscan(c[2], &line, &n)
		got[fmt.Sprintf("%s %d %s", c[0], line, c[1])] = n
	}
	want := edgesOf(t, out.Bytes())
	want["main.drive 32 main.inner"] = 1000 // in main.drive's copy of main.small
	if !maps.Equal(got, want) {
		t.Errorf("preprofile has\n%v, want\n%v", got, want)
	}
}

// TestGoBlind: a profile says whether callers were known, which tell where indirect calls lead; without, that they are missing, and with
// them, that they do not show where some lead.
func TestGoBlind(t *testing.T) {
	for _, by := range []string{"", "stacks", "branches"} {
		p := newProgram(t, "proc a@1 x1\nblock x1\none=a:2 call c x100\na:3 call ? x7\nproc c@9 x100\nblock x100\nc=c:10")
		switch by {
		case "stacks":
			p.stack(7, "c", "one")
		case "branches":
			p.branch(7, 0, "call", "c")
		}
		var out bytes.Buffer
		st, err := writeGo(&out, p.ofGo(), GoOptions{})
		if err != nil {
			t.Fatal(err)
		}
		d, err := DecideGo(&out)
		if err != nil {
			t.Fatal(err)
		}
		blind := by == ""
		if d.Blind != blind || st.Blind != blind {
			t.Errorf("%q: the profile is blind: %v, its writer says %v", by, d.Blind, st.Blind)
		}
		if missing, few := st.Skipped[SkipIndirect], st.Skipped[SkipUnshown]; missing+few != 1 || (few == 1) == blind {
			t.Errorf("%q: %d indirect calls for want of callers, %d that they do not show, want one", by, missing, few)
		}
	}
}
