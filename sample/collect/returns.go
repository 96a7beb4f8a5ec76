package collect

// A returnsSeen is what was seen of how system calls hold a timer's interrupts up as they return.
type returnsSeen struct {
	calls       int // before each of which there were callLength additions, each of a cycle
	held, added int // samples at the returns and at the additions
}

const (
	callLength = 512
	leastSeen  = 20 // samples that tell anything
)

func (s *returnsSeen) add(o returnsSeen) {
	s.calls, s.held, s.added = s.calls+o.calls, s.held+o.held, s.added+o.added
}

// cycles returns the calls, and the cycles that interrupts were held up for in all of them; 0 if that is not known.
func (s *returnsSeen) cycles() (calls, held uint64) {
	if s.added == 0 || s.added+s.held < leastSeen {
		return 0, 0
	}
	return uint64(s.calls), uint64(callLength * float64(s.calls) * float64(s.held) / float64(s.added))
}
