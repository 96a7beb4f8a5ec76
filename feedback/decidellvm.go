package feedback

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"backfeed/infer/image"
)

// DecideLLVM predicts what clang -fprofile-sample-use would decide by a sample
// profile, text or binary: which functions are hot or cold, and which of the calls
// that were inlined in the sampled build are hot enough to be inlined again
// (callsiteIsHot in SampleProfile.cpp).
func DecideLLVM(r io.Reader) (*Decisions, error) {
	p, err := readSampleProfile(r)
	if err != nil {
		return nil, fmt.Errorf("llvm: %w", err)
	}
	return decideLLVM(p.funcs, p.samples), nil
}

func decideLLVM(funcs map[string]*function, samples float64) *Decisions {
	p := &sampleCounts{map[uint64]uint64{}, map[Choice]uint64{}, map[Choice]uint64{}}
	d := &Decisions{whole: Place, Samples: samples, made: map[Choice]decided{}, funcs: funcs}
	most, sum := map[string]uint64{}, map[string]uint64{}
	for name, f := range funcs {
		most[name], sum[name] = p.add(f, name)
	}
	s := newDistribution(p.lines)
	d.Weight = s.total
	for name := range funcs {
		made := s.decide(most[name])
		made.share = s.share(sum[name])
		if made.hot {
			d.Hot++
		}
		d.made[Choice{Kind: Place, Site: name}] = made
	}
	for c, total := range p.inlined {
		made := s.decide(total)
		made.share = s.share(p.within[c])
		if made.what == Cold {
			made.what = "" // not to be inlined, no more than others
		}
		if made.hot {
			d.Hot++
		}
		d.made[c] = made
	}
	return d
}

// sampleCounts is what decides of a sample profile.
type sampleCounts struct {
	lines   map[uint64]uint64 // number of lines by their count
	inlined map[Choice]uint64 // totals of inlined calls
	within  map[Choice]uint64 // sums of the counts of their lines
}

// add adds the lines of f, those of what is inlined into it included, and returns the
// largest count and the sum of them. Path is how f came to be there:
// "main", or "main @ 3 f @ 4.1 g".
func (p *sampleCounts) add(f *function, path string) (most, sum uint64) {
	for _, n := range f.body {
		p.lines[n]++
		most, sum = max(most, n), addCounts(sum, n)
	}
	for call, g := range f.inlined {
		m, s := p.add(g, fmt.Sprintf("%s @ %v %s", path, call.at, call.callee))
		most, sum = max(most, m), addCounts(sum, s)
		c := Choice{Inline, fmt.Sprintf("%s:%v", path, call.at), call.callee}
		p.inlined[c] = addCounts(p.inlined[c], g.total)
		p.within[c] = addCounts(p.within[c], s)
	}
	return most, sum
}

// SameNames returns two predictions with names of one kind: a sample profile of
// LLVM's may have hashes in their place, by which others are then named too.
func SameNames(a, b *Decisions) (*Decisions, *Decisions) {
	switch hashA, hashB := hasHashes(a.funcs), hasHashes(b.funcs); {
	case hashA && !hashB:
		b = decideLLVM(hashNames(b.funcs), b.Samples)
	case hashB && !hashA:
		a = decideLLVM(hashNames(a.funcs), a.Samples)
	}
	return a, b
}

// hasHashes reports whether all functions are named by hashes, as decimal numbers.
func hasHashes(funcs map[string]*function) bool {
	for name := range funcs {
		if strings.Trim(name, "0123456789") != "" {
			return false
		}
	}
	return len(funcs) > 0
}

// hashNames names functions by hashes, inlined ones too.
func hashNames(funcs map[string]*function) map[string]*function {
	hashed := map[string]*function{}
	for name, f := range funcs {
		childOf(hashed, nameHash(name)).add(f.hashNames())
	}
	return hashed
}

func (f *function) hashNames() *function {
	g := newFunction()
	g.total, g.head, g.body = f.total, f.head, f.body
	for at, calls := range f.calls {
		for callee, n := range calls {
			g.addCall(at, nameHash(callee), n)
		}
	}
	for c, in := range f.inlined {
		childOf(g.inlined, inlinedCall{c.at, nameHash(c.callee)}).add(in.hashNames())
	}
	return g
}

// nameHash is the number by which LLVM knows a name.
func nameHash(name string) string { return strconv.FormatUint(image.GUID(name), 10) }
