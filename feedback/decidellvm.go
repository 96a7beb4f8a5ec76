package feedback

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// DecideLLVM predicts what clang -fprofile-sample-use would decide by a sample
// profile in text form: which functions are hot or cold, and which of the calls
// that were inlined in the sampled build are hot enough to be inlined again
// (callsiteIsHot in SampleProfile.cpp).
func DecideLLVM(r io.Reader) (*Decisions, error) {
	p, err := readSampleProfile(r)
	if err != nil {
		return nil, fmt.Errorf("llvm: %w", err)
	}
	d := &Decisions{whole: Place, made: map[Choice]decided{}}
	s := newDistribution(p.counts)
	d.Weight = s.total
	for _, name := range slices.Sorted(maps.Keys(p.most)) {
		made := s.decide(p.most[name])
		made.share = s.share(p.sum[name])
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
	return d, nil
}

// sampleCounts is what decides of a sample profile.
type sampleCounts struct {
	counts  map[uint64]uint64 // number of lines by their count
	most    map[string]uint64 // largest count of each function, what is inlined into it included
	sum     map[string]uint64 // sum of its counts
	inlined map[Choice]uint64 // totals of inlined calls
	within  map[Choice]uint64 // sums of the counts of their lines
}

// maxSampleLine bounds a line of a profile, in bytes: C++ names take thousands.
const maxSampleLine = 1 << 20

// readSampleProfile reads the text form:
//
//	NAME:TOTAL:HEAD
//	 OFFSET[.DISCRIMINATOR]: COUNT [CALLEE:COUNT]...
//	 OFFSET[.DISCRIMINATOR]: INLINED:TOTAL
//	  OFFSET...
//
// Lines of an inlined call are indented deeper than it. Lines of # are comments,
// those of ! say something of the function around them. Names may hold colons.
func readSampleProfile(r io.Reader) (*sampleCounts, error) {
	p := &sampleCounts{map[uint64]uint64{}, map[string]uint64{}, map[string]uint64{}, map[Choice]uint64{}, map[Choice]uint64{}}
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxSampleLine)
	var stack []inlinedAt // what the line is in, outermost first
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimRight(sc.Text(), " \r")
		text := strings.TrimLeft(line, " ")
		if text == "" || text[0] == '#' || text[0] == '!' {
			continue
		}
		var err error
		depth := len(line) - len(text)
		if depth == 0 {
			stack, err = p.head(text)
		} else {
			for len(stack) > 1 && stack[len(stack)-1].depth >= depth {
				stack = stack[:len(stack)-1]
			}
			stack, err = p.line(stack, text, depth)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return p, sc.Err()
}

// An inlinedAt is a function, or a call that was inlined, by the depth of its line.
type inlinedAt struct {
	name  string
	depth int
	call  Choice // of an inlined call
}

// head reads the first line of a function.
func (p *sampleCounts) head(text string) ([]inlinedAt, error) {
	rest, _, ok := cutCount(text)
	name, _, ok2 := cutCount(rest)
	if !ok || !ok2 || name == "" {
		return nil, fmt.Errorf("want NAME:TOTAL:HEAD: %w", ErrUnfit)
	}
	p.most[name] = max(p.most[name], 0)
	return []inlinedAt{{name: name}}, nil
}

// line reads a line of a body.
func (p *sampleCounts) line(stack []inlinedAt, text string, depth int) ([]inlinedAt, error) {
	at, rest, ok := strings.Cut(text, ": ")
	if !ok || len(stack) == 0 {
		return nil, fmt.Errorf("want OFFSET: COUNT in a function: %w", ErrUnfit)
	}
	count, _, _ := strings.Cut(rest, " ")
	if n, err := strconv.ParseUint(count, 10, 64); err == nil {
		f := stack[0].name
		p.counts[n]++
		p.most[f] = max(p.most[f], n)
		p.sum[f] = addCounts(p.sum[f], n)
		for _, in := range stack[1:] {
			p.within[in.call] = addCounts(p.within[in.call], n)
		}
		return stack, nil
	}
	callee, total, ok := cutCount(rest)
	if !ok || callee == "" {
		return nil, fmt.Errorf("want a count or CALLEE:TOTAL: %w", ErrUnfit)
	}
	var site strings.Builder
	for i, s := range stack {
		if i > 0 {
			site.WriteString(" @ ")
		}
		site.WriteString(s.name)
	}
	fmt.Fprintf(&site, ":%s", at)
	c := Choice{Inline, site.String(), callee}
	p.inlined[c] = addCounts(p.inlined[c], total)
	return append(stack, inlinedAt{at + " " + callee, depth, c}), nil
}

// cutCount splits "name:count" at the last colon.
func cutCount(s string) (string, uint64, bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(s[i+1:], 10, 64)
	return s[:i], n, err == nil
}
