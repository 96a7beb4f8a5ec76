package explain

import "math"

// An Ideal is what a procedure would cost if nothing held it up: its executions at
// the least cycles that the machine model has for them.
type Ideal struct {
	Instructions float64 // executed, inferred
	Cycles       float64 // of its samples, in code whose executions are known
	Ideal        float64 // cycles: of each instruction its executions times the model's least
	Uncounted    float64 // cycles of its samples in code whose executions are not known
}

// CPI is the cycles per instruction of code whose executions are known; NaN is unknown.
func (i Ideal) CPI() float64 { return ratio(i.Cycles, i.Instructions) }

// Ratio is the cycles of code whose executions are known to the least that the model has for them; NaN is unknown.
func (i Ideal) Ratio() float64 { return ratio(i.Cycles, i.Ideal) }

func ratio(a, b float64) float64 {
	if !(a > 0 && b > 0) {
		return math.NaN()
	}
	return a / b
}

// Ideal returns the ideal time of the procedure that e, which Explain returned, is of.
func (e *Explanation) Ideal() Ideal {
	out := Ideal{Instructions: e.Result.Instructions(), Cycles: e.Cycles - e.Uncounted, Uncounted: e.Uncounted}
	for i := range e.Insts {
		out.Ideal += e.Insts[i].N * e.Insts[i].Least
	}
	return out
}
