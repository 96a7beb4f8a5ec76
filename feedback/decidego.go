package feedback

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"backfeed/sample"
)

// The rule of hot calls in Go 1.20 to 1.26: calls by falling weight until they
// hold more than 99 % of it, the one that crosses included (hotNodesFromCDF in
// cmd/compile/internal/inline).
const goHotPercent = 99

// goHot reports whether a call is hot before which such a part of the weight comes.
func goHot(depth float64) bool { return 100*depth <= goHotPercent }

// DecideGo predicts what `go build -pgo` would decide by a pprof profile. An
// empty file is a profile of nothing, as it is to the compiler.
func DecideGo(r io.Reader) (*Decisions, error) {
	d := &Decisions{whole: Inline, made: map[Choice]decided{}}
	br := bufio.NewReader(r)
	if _, err := br.Peek(1); err == io.EOF {
		return d, nil
	}
	p, err := sample.ParseProfile(br)
	if err != nil {
		return nil, fmt.Errorf("go: %w", err)
	}
	weights, copies, err := callWeights(p)
	if err != nil {
		return nil, fmt.Errorf("go: %w", err)
	}
	d.Samples = samplesOf(p)
	d.Blind = slices.Contains(p.Comments, withoutCallers)
	d.decideGo(weights, copies)
	return d, nil
}

// samplesOf returns how many samples of CPU time a profile was made of; 0 is unknown.
func samplesOf(p *profile.Profile) float64 {
	cpu := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == "cpu" && t.Unit == "nanoseconds" })
	if cpu < 0 || p.Period <= 0 {
		return 0
	}
	var ns float64
	for _, s := range p.Sample {
		ns += max(0, float64(s.Value[cpu]))
	}
	return ns / float64(p.Period)
}

// A namedCall is what the compiler knows a weight by.
type namedCall struct {
	caller, callee string
	line           int // relative to the caller's first
}

func (c namedCall) site() string { return fmt.Sprintf("%s:%d", c.caller, c.line) }

// added reports whether no source has that call: the compiler adds calls of the
// runtime's own functions when it has inlined, and signals make some of them. They
// have weight, but nothing is to decide.
func (c namedCall) added() bool {
	name, ok := strings.CutPrefix(c.callee, "runtime.")
	if !ok || name == "" {
		return false
	}
	for _, entry := range []string{"asyncPreempt", "gcWriteBarrier", "morestack", "sigpanic"} {
		if strings.HasPrefix(name, entry) {
			return true
		}
	}
	return !inRuntime(c.caller) && name[0] >= 'a' && name[0] <= 'z'
}

// callWeights adds up the weights of calls as cmd/internal/pgo and its
// internal/profile.NewGraph do: of each sample, the two innermost locations, with
// all that is inlined there. Those of calls in copies that WriteGo adds are apart: nothing is decided
// about them that is not about the calls that were copied.
func callWeights(p *profile.Profile) (weights, copies map[namedCall]int64, err error) {
	weights, copies = map[namedCall]int64{}, map[namedCall]int64{}
	if len(p.Sample) == 0 {
		return weights, copies, nil
	}
	value := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool {
		return t.Type == "samples" && t.Unit == "count" || t.Type == "cpu" && t.Unit == "nanoseconds"
	})
	if value < 0 {
		return nil, nil, fmt.Errorf("neither samples/count nor cpu/nanoseconds in the profile: %w", ErrUnfit)
	}
	started := false
	for _, s := range p.Sample {
		if s.Value[value] < 0 {
			return nil, nil, fmt.Errorf("a sample's value is %d: %w", s.Value[value], ErrUnfit)
		}
		if s.Value[value] == 0 {
			continue
		}
		weights := weights
		if isCopy(s) {
			weights = copies
		}
		var parent *graphNode
		seen, joined := map[graphNode]bool{}, map[[2]graphNode]bool{}
		for _, loc := range slices.Backward(s.Location[:min(2, len(s.Location))]) {
			for _, n := range slices.Backward(graphNodes(loc)) {
				started = started || n.start != 0
				if parent != nil && n != *parent && (!seen[n] || !joined[[2]graphNode{n, *parent}]) {
					joined[[2]graphNode{n, *parent}] = true
					weights[namedCall{parent.name, n.name, parent.line - parent.start}] += s.Value[value]
				}
				seen[n] = true
				parent = &n
			}
		}
	}
	if !started {
		return nil, nil, fmt.Errorf("no Function.start_line in the profile: %w", ErrUnfit)
	}
	return weights, copies, nil
}

// A graphNode is what makes two frames the same to internal/profile.
type graphNode struct {
	name        string
	address     uint64
	start, line int
}

// graphNodes returns the frames of a location, innermost first.
func graphNodes(loc *profile.Location) []graphNode {
	if len(loc.Line) == 0 {
		return []graphNode{{address: loc.Address}}
	}
	var nodes []graphNode
	for _, l := range loc.Line {
		n := graphNode{address: loc.Address}
		if l.Function != nil {
			n = graphNode{l.Function.Name, loc.Address, int(l.Function.StartLine), int(l.Line)}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// decideGo makes the choices of the compiler. Copies are of calls in what it inlines; it takes them for others.
func (d *Decisions) decideGo(weights, copies map[namedCall]int64) {
	all := maps.Clone(weights)
	var total, copied, sum int64
	for c, w := range copies {
		all[c] += w
		copied += w
	}
	for _, w := range weights {
		total += w
	}
	calls := sortedKeys(all, func(a, b namedCall) int { // sortByWeight in cmd/internal/pgo
		return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a.caller, b.caller), cmp.Compare(a.callee, b.callee), cmp.Compare(a.line, b.line))
	})
	if total <= 0 {
		return
	}
	d.Weight = uint64(total)
	for _, c := range calls {
		w, ok := weights[c]
		made := decided{share: float64(w) / float64(total), depth: float64(sum) / float64(total+copied)}
		sum += all[c]
		if !ok || c.added() {
			continue
		}
		if goHot(made.depth) {
			made.what, made.hot = Hot, true
			d.Hot++
		}
		d.made[Choice{Inline, c.site(), c.callee}] = made
		d.addCallee(c, made)
	}
}

// addCallee chooses the callee of a site: the one with the most weight, then the
// first by name (findHotConcreteCallee in cmd/compile/internal/devirtualize). Calls
// are in order of falling weight, then of that name.
func (d *Decisions) addCallee(c namedCall, made decided) {
	choice := Choice{Kind: Devirtualise, Site: c.site()}
	site, ok := d.made[choice]
	if !ok {
		site = decided{what: c.callee, hot: made.hot, depth: made.depth, to: map[string]float64{}}
	}
	site.share += made.share
	site.to[c.callee] += made.share
	d.made[choice] = site
}
