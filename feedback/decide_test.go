package feedback

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// goProfile makes a pprof of "caller:line>callee weight" edges; callers start in line 10.
func goProfile(t *testing.T, edges string) []byte {
	t.Helper()
	out := newPprof(sample.ImageID{})
	for _, e := range strings.Split(edges, ", ") {
		var from, to string
		var line int
		var n int64
		if _, err := fmt.Sscanf(strings.NewReplacer(":", " ", ">", " ").Replace(e), "%s %d %s %d", &from, &line, &to, &n); err != nil {
			t.Fatalf("%q: %v", e, err)
		}
		out.edge(goEdge{goFunc{from, 10, "x.go"}, 10 + line, goFunc{to, 10, "x.go"}}, &goWeight{n: n})
	}
	var b bytes.Buffer
	if err := out.write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func decideGo(t *testing.T, edges string) *Decisions {
	t.Helper()
	d, err := DecideGo(bytes.NewReader(goProfile(t, edges)))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// hotIn lists what is hot of a kind.
func hotIn(d *Decisions, kind ChoiceKind) string {
	var hot []string
	for _, c := range sortedKeys(d.made, func(a, b Choice) int { return strings.Compare(a.Site+a.Callee, b.Site+b.Callee) }) {
		if c.Kind == kind && d.made[c].what == Hot {
			hot = append(hot, c.Site+c.Callee)
		}
	}
	return strings.Join(hot, " ")
}

func TestDecideGo(t *testing.T) {
	for _, tt := range []struct{ name, edges, want string }{
		{"the call that crosses 99 % is hot", "a:1>b 900, a:2>c 85, a:3>d 10, a:4>e 5", "a:1b a:2c a:3d"},
		{"99 % sharp is not across", "a:1>b 990, a:2>c 5, a:3>d 5", "a:1b a:2c"},
		{"calls that no source has have weight", "a:1>b 60, a:2>runtime.asyncPreempt 20, a:3>runtime.growslice 20", "a:1b"},
		{"but the runtime calls itself", "runtime.f:1>runtime.growslice 20, a:1>runtime.GC 20", "a:1runtime.GC runtime.f:1runtime.growslice"},
		{"equal weights go by name", "a:9>b 5, a:3>c 5, a:1>z 990", "a:1z a:9b"},
	} {
		if got := hotIn(decideGo(t, tt.edges), Inline); got != tt.want {
			t.Errorf("%s: hot are %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestDecideGoStack: two innermost locations count, with all that is inlined there.
func TestDecideGoStack(t *testing.T) {
	out := newPprof(sample.ImageID{})
	line := func(name string, at int64) profile.Line {
		return profile.Line{Function: out.function(goFunc{name, 10, "x.go"}), Line: at}
	}
	leaf := out.location([]profile.Line{line("leaf", 11), line("mid", 12)})
	caller := out.location([]profile.Line{line("main", 13)})
	outer := out.location([]profile.Line{line("start", 14)})
	out.p.Sample = append(out.p.Sample, &profile.Sample{Location: []*profile.Location{leaf, caller, outer}, Value: []int64{7, 0}})
	var b bytes.Buffer
	if err := out.write(&b); err != nil {
		t.Fatal(err)
	}
	d, err := DecideGo(&b)
	if got := hotIn(d, Inline); err != nil || d.Weight != 14 || got != "main:3mid mid:2leaf" {
		t.Errorf("weight %d, hot %s, %v; want 14, main:3mid mid:2leaf", d.Weight, got, err)
	}
}

func TestDiff(t *testing.T) {
	for _, tt := range []struct{ name, before, after, want string }{
		{"nothing", "a:1>b 900, a:2>c 100", "a:1>b 9, a:2>c 1", ""},
		{"a call grew hot", "a:1>b 1000, a:2>c 1", "a:1>b 900, a:2>c 100", "clear inline a:2 c:->hot"},
		{"a call at the cut moved a little", "a:1>b 986, a:2>c 4, a:3>d 3, a:4>e 4", "a:1>b 986, a:2>c 3, a:3>d 4, a:4>e 4", "noise inline a:2 c:hot->, noise inline a:3 d:->hot"},
		{"another callee leads", "a:1>b 90, a:1>c 10", "a:1>b 10, a:1>c 90", "clear devirtualise a:1 :b->c"},
		{"two callees are alike", "a:1>b 51, a:1>c 49", "a:1>b 49, a:1>c 51", "noise devirtualise a:1 :b->c"},
	} {
		var got []string
		for _, c := range Diff(decideGo(t, tt.before), decideGo(t, tt.after)) {
			clear := map[bool]string{true: "clear", false: "noise"}[c.Clear]
			got = append(got, fmt.Sprintf("%s %s %s %s:%s->%s", clear, c.Kind, c.Site, c.Callee, c.Old, c.New))
		}
		if all := strings.Join(got, ", "); all != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, all, tt.want)
		}
	}
}

// TestLeastClear: what a few samples stand for is not clear.
func TestLeastClear(t *testing.T) {
	for _, tt := range []struct{ samples, want float64 }{{0, 0.005}, {100, 0.32}, {10_000, 0.015}, {1e6, 0.005}} {
		if got := leastClear(tt.samples); got != tt.want {
			t.Errorf("%v samples: %v, want %v", tt.samples, got, tt.want)
		}
	}
}

// TestClearCallee: a callee leads if it is itself seen often enough.
func TestClearCallee(t *testing.T) {
	before, after := decideGo(t, "a:1>b 30, a:1>c 10, a:2>d 60"), decideGo(t, "a:1>b 10, a:1>c 30, a:2>d 60")
	for samples, want := range map[float64]bool{100: false, 110: true} {
		before.Samples, after.Samples = 1000, samples
		changes := Diff(before, after)
		if len(changes) != 1 || changes[0].Kind != Devirtualise || changes[0].Clear != want {
			t.Errorf("%v samples: %+v, want it clear: %v", samples, changes, want)
		}
	}
}

func TestMoved(t *testing.T) {
	if got := Moved(decideGo(t, "a:1>b 1000, a:2>c 9"), decideGo(t, "a:1>b 900, a:2>c 100, a:3>d 1")); math.Abs(got-50.0/1001) > 1e-9 {
		t.Errorf("moved %v, want half of 100/1001", got)
	}
	// What 4 of 100 samples stand for may be chance; what 13 do is not.
	before, after := decideGo(t, "a:1>b 9900, a:2>c 1, a:3>d 1"), decideGo(t, "a:1>b 8300, a:2>c 400, a:3>d 1300")
	before.Samples, after.Samples = 1e6, 100
	if got := Moved(before, after); math.Abs(got-0.065) > 1e-9 {
		t.Errorf("moved %v, want half of 0.13", got)
	}
}

func TestOverlap(t *testing.T) {
	a, b := decideGo(t, "a:1>b 75, a:2>c 25"), decideGo(t, "a:1>b 25, a:3>d 75")
	if got := Overlap(a, b); math.Abs(got-0.25) > 1e-9 {
		t.Errorf("overlap %v, want 0.25", got)
	}
	if got := Overlap(a, a); got != 1 {
		t.Errorf("overlap with itself %v, want 1", got)
	}
}

// twoFuncs has counts of 9900, 90, 9 and 1: the first is 99 % of all.
const twoFuncs = `# a comment
# samples: 300
ns::hot:20000:10
 1: 9900
 2.1: 90 callee:80 ns::other:10
 3: inl:9950
  1: 9 x:9
  2: deep:5
   4: 1
 !CFGChecksum: 7
# samples: 30
# samples: many
idle:1:0
 1: 0
`

func TestDecideLLVM(t *testing.T) {
	d, err := DecideLLVM(strings.NewReader(twoFuncs))
	if err != nil {
		t.Fatal(err)
	}
	got := map[Choice]string{}
	for c, made := range d.made {
		got[c] = made.what
	}
	want := map[Choice]string{
		{Kind: Place, Site: "ns::hot"}:                            Hot,
		{Kind: Place, Site: "idle"}:                               Cold,
		{Kind: Inline, Site: "ns::hot:3", Callee: "inl"}:          Hot,
		{Kind: Inline, Site: "ns::hot @ 3 inl:2", Callee: "deep"}: "",
	}
	if !reflect.DeepEqual(got, want) || d.Weight != 10000 {
		t.Errorf("weight %d, %v\nwant 10000, %v", d.Weight, got, want)
	}
	var all []Decided
	for _, c := range d.All() {
		c.Share = 0
		all = append(all, c)
	}
	if want := []Decided{{Choice{Kind: Place, Site: "ns::hot"}, Hot, 0, true}, {Choice{Inline, "ns::hot:3", "inl"}, Hot, 0, false}, {Choice{Kind: Place, Site: "idle"}, Cold, 0, false}}; !reflect.DeepEqual(all, want) {
		t.Errorf("all are %v, want %v: what is neither is not listed, and of 330 samples a thousandth may be chance", all, want)
	}
	if d.Samples != 330 {
		t.Errorf("%v samples, want those of both comments, 330", d.Samples)
	}
	if share := d.made[Choice{Inline, "ns::hot:3", "inl"}].share; share != 0.001 {
		t.Errorf("the body of inl has a share of %v, want 10 of 10000", share)
	}
	for _, bad := range []string{" 1: 2\n", "f:1:2\n 1 2\n", "f:1:2\n 65536: 2\n", "f:1:2\n 1.x: 2\n", "f:1:2\n 1: 2 g\n", "f:1:2\n 1: x\n", "f:1\n", "\xff\xe5\x04\x08"} {
		if _, err := DecideLLVM(strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestLLVMCutoffs compares with llvm-profdata's own summary of a profile.
func TestLLVMCutoffs(t *testing.T) {
	testtool.Need(t, "llvm-profdata-19")
	const file = "testdata/sieve.sampleprof"
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := readSampleProfile(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[uint64]uint64{}
	for _, f := range p.funcs {
		for _, n := range f.counts(nil) {
			lines[n]++
		}
	}
	s := newDistribution(lines)
	said := testtool.Run(t, ".", "llvm-profdata-19", "show", "--sample", "--detailed-summary", file)
	for _, want := range []string{
		fmt.Sprintf("with count >= %d account for 99 percentage of", s.hot),
		fmt.Sprintf("with count >= %d account for 99.9999 percentage of", s.cold),
	} {
		if !strings.Contains(said, want) {
			t.Errorf("llvm-profdata does not say %q:\n%s", want, said)
		}
	}
}

// FuzzDecideLLVM: any bytes give an error or decisions whose shares are shares.
func FuzzDecideLLVM(f *testing.F) {
	f.Add([]byte(twoFuncs))
	for name := range mergedProfiles {
		b, err := os.ReadFile("testdata/merged/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	if b, err := os.ReadFile("testdata/sieve.sampleprof"); err == nil {
		f.Add(b)
	}
	f.Add([]byte("f:18446744073709551615:0\n 1: 18446744073709551615\n 2: 18446744073709551615\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := DecideLLVM(bytes.NewReader(b))
		if err == nil {
			checkDecisions(t, d)
		}
	})
}

// FuzzDecideGo: any pprof gives an error or decisions whose shares are shares.
func FuzzDecideGo(f *testing.F) {
	p, err := profile.Parse(bytes.NewReader(goProfile(&testing.T{}, "a:1>b 900, a:2>c 85, a:2>d 10")))
	if err != nil {
		f.Fatal(err)
	}
	var raw bytes.Buffer
	if err := p.WriteUncompressed(&raw); err != nil {
		f.Fatal(err)
	}
	f.Add(raw.Bytes())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := DecideGo(bytes.NewReader(b))
		if err == nil {
			checkDecisions(t, d)
		}
	})
}

func checkDecisions(t *testing.T, d *Decisions) {
	t.Helper()
	for c, made := range d.made {
		if !(made.share >= 0) || !(made.depth >= 0 && made.depth <= 1) {
			t.Fatalf("%v: share %v, depth %v", c, made.share, made.depth)
		}
	}
	if n := len(Diff(d, d)); n != 0 {
		t.Fatalf("%d differences from itself", n)
	}
}
