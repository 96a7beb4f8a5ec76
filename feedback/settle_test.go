package feedback

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"backfeed/infer"
)

// settled writes the profile now in place of old.
func settled(t *testing.T, old, now string, there ...string) string {
	t.Helper()
	l := newLLVMWriter()
	l.funcs = readProfile(t, []byte(now))
	for _, name := range there {
		l.named[name] = true
	}
	l.settle([]byte(old))
	var out bytes.Buffer
	if err := l.write(&out, LLVMText); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// settledText has counts of 28672 and more that are hot.
const settledText = `cold:40:1
 1: 10
hot:100000:1
 1: 5000
 2: 500000 f:400000 g:100000
 3: 5
 4: in:30000
  1: 28672
 5: empty:7
`

func TestSettle(t *testing.T) {
	for _, tt := range []struct {
		name    string
		replace []string // in the old text, for the new one
		want    []string // in it, for what is written
		there   []string
	}{
		{name: "the same"},
		{"a run twice as long", []string{"10\n", "20\n", "5000\n", "10000\n", "500000 f:400000 g:100000", "1000000 f:800000 g:200000", "28672", "57344"}, nil, nil},
		{"hot counts within a factor of 2", []string{"28672", "20000", "f:400000", "f:300000", "g:100000", "g:60000"}, nil, nil},
		{"and beyond", []string{"28672", "60000"}, []string{"28672", "60000"}, nil},
		{"what is not hot moves, goes and comes", []string{" 1: 10\n", " 1: 400\n", " 3: 5\n", " 6: 70\n", " 5: empty:7\n", ""}, nil, nil},
		{"what was not hot is", []string{" 1: 10\n", " 1: 400000\n"}, []string{" 1: 10\n", " 1: 400000\n"}, nil},
		{"a cold function goes and is there", []string{"cold:40:1\n 1: 10\n", ""}, nil, []string{"cold"}},
		{"a cold function goes with its code", []string{"cold:40:1\n 1: 10\n", ""}, []string{"cold:40:1\n 1: 10\n", ""}, nil},
		{"a cold function comes", []string{"cold:", "alas:7:1\n 1: 7\ncold:"}, nil, nil},
		{"a hot function comes", []string{"hot:", "heat:90000:1\n 1: 90000\nhot:"}, []string{"hot:", "heat:90000:1\n 1: 90000\nhot:"}, nil},
		{"an inlined call that was hot goes", []string{" 4: in:30000\n  1: 28672\n", ""}, []string{" 4: in:30000\n  1: 28672\n", ""}, nil},
		{"hot lines moved: all is new", []string{" 2: 500000", " 9: 500000", " 3: 5\n", " 3: 9\n"},
			[]string{" 2: 500000 f:400000 g:100000\n", "", " 3: 5\n", " 3: 9\n 9: 500000 f:400000 g:100000\n"}, nil},
	} {
		now := strings.NewReplacer(tt.replace...).Replace(settledText)
		want := strings.NewReplacer(tt.want...).Replace(settledText)
		if got := settled(t, settledText, now, tt.there...); got != want {
			t.Errorf("%s: got\n%swant\n%s", tt.name, got, want)
		}
	}
	// Without an old profile, or with one of another kind, all is new.
	const other = "f:1000:9\n 1: 999 g:17\n"
	for _, old := range []string{"", "?", "7:1:1\n 1: 1\n"} {
		if got := settled(t, old, other); got != other {
			t.Errorf("in place of %q: %s", old, got)
		}
	}
}

// TestSettleGo: weights of calls stay as they are in an old profile if noise explains
// the new ones, and calls that are decided otherwise are new.
func TestSettleGo(t *testing.T) {
	const before = "a:1>b 896, a:2>c 96, a:3>d 3, a:4>e 5, gone:1>b 1"
	for _, tt := range []struct{ name, now, want string }{
		{"the same", before, "a:1>b 896, a:2>c 96, a:3>d 3, a:4>e 5, gone:1>b 1"},
		{"twice as long", "a:1>b 1792, a:2>c 192, a:3>d 6, a:4>e 10, gone:1>b 2", "a:1>b 896, a:2>c 96, a:3>d 3, a:4>e 5, gone:1>b 1"},
		{"noise", "a:1>b 900, a:2>c 60, a:3>d 4, a:5>e 2", "a:1>b 896, a:2>c 96, a:3>d 3, a:4>e 5"},
		{"a call is hot", "a:1>b 900, a:2>c 100, a:3>d 300", "a:1>b 896, a:2>c 96, a:3>d 320, a:4>e 5"},
		{"another callee", "a:1>b 896, a:2>f 900, a:2>c 60", "a:1>b 896, a:2>c 64, a:2>f 896, a:3>d 3, a:4>e 5"},
	} {
		g := &goWriter{view: &view{ImageProfile: &infer.ImageProfile{Samples: 1e6}, code: newProgram(t, "proc a@10 x1\nproc d@10 x1\nproc e@10 x1")}, edges: map[goEdge]*goWeight{}}
		now, _ := goEdges(goProfile(t, tt.now))
		for e, n := range now {
			g.at(e).n = int64(n)
		}
		g.round(goProfile(t, before))
		want, _ := goEdges(goProfile(t, tt.want))
		got := map[goEdge]uint64{}
		for _, e := range g.kept() {
			got[e] = uint64(g.edges[e].n)
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, want)
		}
	}
	if edges, _ := goEdges([]byte("?")); edges != nil {
		t.Errorf("%v of no profile", edges)
	}
}

// TestGoEdges: weights that WriteGo gives are read, larger ones are not.
func TestGoEdges(t *testing.T) {
	for profile, want := range map[string]int{
		"a:1>b 4611686018427387900, a:2>c 4": 2,
		"a:1>b 4611686018427387900, a:2>c 5": 0,
		"a:1>b 9223372036854775807":          0,
		"a:1>b -1":                           0,
	} {
		if edges, _ := goEdges(goProfile(t, profile)); len(edges) != want {
			t.Errorf("%s: %d edges, want %d", profile, len(edges), want)
		}
	}
}
