package feedback

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// What LLVM takes for hot and cold, in millionths of the sum of all counts
// (-profile-summary-cutoff-hot and -cold in ProfileSummaryBuilder.cpp).
const (
	llvmHotCutoff  = 990000
	llvmColdCutoff = 999999
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
	s := p.distribution()
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

// addCounts is a sum that does not overflow: it stays at the largest number.
func addCounts(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry > 0 {
		return 1<<64 - 1
	}
	return sum
}

// A distribution is LLVM's ProfileSummary: the counts of all lines, by falling count.
type distribution struct {
	total     uint64
	counts    []uint64
	before    []uint64 // sum of the counts that are larger
	hot, cold uint64   // counts of at least hot are hot, those of at most cold are cold
}

func (p *sampleCounts) distribution() *distribution {
	s := &distribution{counts: sortedKeys(p.counts, func(a, b uint64) int { return cmp.Compare(b, a) })}
	for _, n := range s.counts {
		s.before = append(s.before, s.total)
		hi, sum := bits.Mul64(n, p.counts[n])
		if hi > 0 {
			sum = 1<<64 - 1
		}
		s.total = addCounts(s.total, sum)
	}
	s.hot, s.cold = s.atCutoff(llvmHotCutoff), s.atCutoff(llvmColdCutoff)
	return s
}

// atCutoff gives the least of the largest counts whose sum reaches a part of
// the total (ProfileSummaryBuilder::computeDetailedSummary).
func (s *distribution) atCutoff(millionths uint64) uint64 {
	hi, lo := bits.Mul64(s.total, millionths)
	want, _ := bits.Div64(hi, lo, 1e6)
	least := uint64(0)
	for i, n := range s.counts {
		if s.before[i] >= want {
			break
		}
		least = n
	}
	return least
}

// decide classifies a count as ProfileSummaryInfo does.
func (s *distribution) decide(n uint64) decided {
	i, _ := slices.BinarySearchFunc(s.counts, n, func(have, n uint64) int { return cmp.Compare(n, have) })
	made := decided{share: s.share(n)}
	if i < len(s.before) {
		made.depth = s.share(s.before[i])
	} else {
		made.depth = 1
	}
	switch {
	case n >= s.hot && n > 0:
		made.what, made.hot = Hot, true
	case n <= s.cold:
		made.what = Cold
	}
	return made
}

func (s *distribution) share(n uint64) float64 {
	if s.total == 0 {
		return 0
	}
	return float64(n) / float64(s.total)
}
