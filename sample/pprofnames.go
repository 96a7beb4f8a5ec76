package sample

import (
	"path"

	"github.com/google/pprof/profile"
)

// A NamedFunc is a function as a profile without addresses has it.
type NamedFunc struct {
	Name, File string
	Start      int // line of its declaration; 0 if the profile does not say
}

// A NamedCall is a call, or one that was inlined, by functions and a line.
type NamedCall struct {
	Caller NamedFunc
	Line   int // of the call; 0 if the profile does not say
	Callee NamedFunc
}

// NamedCalls are what a profile without addresses says: its samples by the calls that they were taken in. A sample counts
// for each call between the functions of its two innermost places, those inlined there too: what Go's compiler takes from
// a profile (cmd/internal/pgo).
type NamedCalls struct {
	Samples uint64 // all
	Go      uint64 // of them, those taken in functions of files of Go or its assembler
	NoCall  uint64 // of them, those of which no caller is known, or no function
	Calls   map[NamedCall]uint64
}

// Add adds o to c.
func (c *NamedCalls) Add(o *NamedCalls) {
	if c.Calls == nil {
		c.Calls = map[NamedCall]uint64{}
	}
	c.Samples, c.Go, c.NoCall = add(c.Samples, o.Samples), add(c.Go, o.Go), add(c.NoCall, o.NoCall)
	for call, n := range o.Calls {
		c.Calls[call] = add(c.Calls[call], n)
	}
}

// A NoAddressError is ErrNoAddresses with what the profile says all the same.
type NoAddressError struct{ Calls *NamedCalls }

func (e *NoAddressError) Error() string { return ErrNoAddresses.Error() }
func (e *NoAddressError) Unwrap() error { return ErrNoAddresses }

// callsByName counts the calls in which samples of an event were taken.
func callsByName(p *profile.Profile, ev pprofEvent) *NamedCalls {
	c := &NamedCalls{Calls: map[NamedCall]uint64{}}
	var count pprofConverter
	for _, s := range p.Sample {
		n := count.number(s.Value[ev.samples], ev.each)
		if n == 0 {
			continue
		}
		c.Samples = add(c.Samples, n)
		locs := s.Location
		if len(locs) > 1 && function(locs[0]) == "runtime.asyncPreempt" {
			locs = locs[1:] // see pprofConverter.add
		}
		const innermost = 2
		var lines []profile.Line // innermost first
		for _, loc := range locs[:min(len(locs), innermost)] {
			if len(loc.Line) == 0 || madeUp(loc) != "" {
				break
			}
			lines = append(lines, loc.Line...)
		}
		if len(lines) > 0 && lines[0].Function != nil {
			switch path.Ext(lines[0].Function.Filename) {
			case ".go", ".s":
				c.Go = add(c.Go, n)
			}
		}
		called := false
		seen := map[namedAt]bool{} // recursion does not count twice
		for i := 1; i < len(lines); i++ {
			callee, caller := lines[i-1].Function, lines[i].Function
			if callee == nil || caller == nil || callee.Name == "" || caller.Name == "" {
				continue
			}
			called = true
			at := namedAt{NamedCall{namedFunc(caller), lineOf(lines[i].Line), namedFunc(callee)}, lineOf(lines[i-1].Line)}
			if seen[at] || callee == caller && lines[i-1].Line == lines[i].Line { // one node of the compiler's graph
				continue
			}
			seen[at] = true
			c.Calls[at.NamedCall] = add(c.Calls[at.NamedCall], n)
		}
		if !called {
			c.NoCall = add(c.NoCall, n)
		}
	}
	return c
}

// A namedAt is a call and the line of the callee that ran.
type namedAt struct {
	NamedCall
	line int
}

func namedFunc(f *profile.Function) NamedFunc {
	return NamedFunc{f.Name, f.Filename, lineOf(f.StartLine)}
}

// lineOf returns a line of a profile; 0 if it is none.
func lineOf(n int64) int {
	const most = 1 << 30
	if n < 0 || n > most {
		return 0
	}
	return int(n)
}
