package feedback

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"backfeed/infer"
)

// A GoWorth says how much there is that Go's compiler could do by a profile, and where the time is otherwise.
//
// All that the compiler does by a profile, it does to hot calls. Without a profile of its own, the program makes so many
// of them, and so many instructions run beside. For 16 programs, the instructions that the profile
// saved are 1.9 to 11.4 for each such call (testdata/goldmark/README.md): some of the call itself, the rest of what
// the compiler then knows of arguments and results.
type GoWorth struct {
	Executed float64 // instructions that the image ran
	Calls    float64 // of them, calls that the profile makes hot, of functions which the compiler can inline
	Time     []GoTime
}

// A GoTime is the time in one kind of code.
type GoTime struct {
	Kind    GoKind
	Samples uint64
	Hottest string // procedure
	most    uint64 // its samples
}

// A GoKind is whose code something is.
type GoKind int

const (
	GoOwn      GoKind = iota // of Go's compiler, but the runtime
	GoRuntime                // the runtime, and its maps
	GoAssembly               // of Go's assembler
	GoForeign                // of other compilers, by cgo
	goKinds
)

const (
	LeastPerCall, MostPerCall = 1.5, 12.0 // instructions that a call was worth in other programs
	littleGain                = 0.01      // of the instructions
	// leastWorth is how many samples it takes to know what has a hundredth of the time: of that, n samples
	// show nothing once in exp(n/100) times, 300 once in twenty.
	leastWorth = 300
)

// Most returns the share of the instructions that the profile is expected to save at most; 1 if too little ran to know.
func (w *GoWorth) Most() float64 {
	var samples uint64
	for _, t := range w.Time {
		samples += t.Samples
	}
	if samples < leastWorth || !(w.Executed > 0) {
		return 1
	}
	return min(1, MostPerCall*w.Calls/w.Executed)
}

// Saves returns the shares of the instructions that the profile is expected to save at least and at most, against a build without
// one, to two digits, so that all who say so say the same; false if too little ran to know.
func (w *GoWorth) Saves() (least, most float64, known bool) {
	if most = w.Most(); most == 1 {
		return 0, 1, false
	}
	return twoDigits(LeastPerCall * w.Calls / w.Executed), twoDigits(most), true
}

// twoDigits rounds to two significant digits.
func twoDigits(x float64) float64 {
	y, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 2, 64), 64) // which reads what it has written
	return y
}

// Little reports whether the profile is not expected to save a hundredth of the instructions.
func (w *GoWorth) Little() bool { return w.Most() < littleGain }

// worth sums up what the edges and samples of the image say.
func (g *goWriter) worth() *GoWorth {
	w := &GoWorth{Executed: executed(g.Procs)}
	for _, e := range g.hot() {
		if !strings.HasSuffix(e.callee.file, ".s") {
			w.Calls += g.edges[e].made
		}
	}
	var kinds [goKinds]GoTime
	for _, r := range g.Procs {
		t := &kinds[g.kind(r)]
		if t.Samples += r.Samples; r.Samples > t.most || r.Samples == t.most && r.Proc.Name < t.Hottest {
			t.Hottest, t.most = r.Proc.Name, r.Samples
		}
	}
	for k, t := range kinds {
		if t.Kind = GoKind(k); t.Samples > 0 {
			w.Time = append(w.Time, t)
		}
	}
	slices.SortStableFunc(w.Time, func(a, b GoTime) int { return cmp.Compare(b.Samples, a.Samples) })
	return w
}

// kind returns whose code a procedure is.
func (g *goWriter) kind(r *infer.Result) GoKind {
	switch lang := g.lines.Unit(r.Proc.Addr).Lang; {
	case lang == "asm":
		return GoAssembly
	case lang != "" && lang != "go":
		return GoForeign
	case inRuntime(r.Proc.Name):
		return GoRuntime
	}
	return GoOwn
}

// inRuntime reports whether a function is of Go's runtime.
func inRuntime(name string) bool {
	return strings.HasPrefix(name, "runtime.") || strings.HasPrefix(name, "internal/runtime/")
}
