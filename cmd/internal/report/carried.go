package report

import (
	"io"

	"backfeed/infer/stale"
)

// mostLostProcs bounds the procedures that are told of one by one.
const mostLostProcs = 10

// WriteCarried prints what became of the samples of older builds: two tables, of how they were
// carried over and of the procedures that lost most, named as style has it. Nothing is printed of no samples.
func WriteCarried(w io.Writer, carried *stale.Carried, style Style) error {
	total := carried.Total()
	if total == 0 {
		return nil
	}
	t := NewTable(Right("samples"), Right("share"), Left("carried over by"))
	for tie := stale.NumTies; tie > 0; tie-- {
		n := carried.Samples[tie-1]
		t.Row(Integer(n), Share(n, total), (tie - 1).String())
	}
	if err := t.Write(w, false); err != nil {
		return err
	}
	if len(carried.Procs) == 0 {
		return nil
	}
	t = NewTable(Right("lost"), Right("of"), Left("because"), Procedures("procedure").Main())
	for _, p := range carried.Procs[:min(len(carried.Procs), mostLostProcs)] {
		name, why := style.NameOf(p.Name), "its code changed"
		switch {
		case name == "":
			name, why = p.Image.String(), "in no known procedure"
		case p.Gone:
			why = "it is gone, or inlined everywhere"
		}
		t.Row(Integer(p.Lost), Integer(p.Samples), why, name)
	}
	return t.Write(w, false)
}
