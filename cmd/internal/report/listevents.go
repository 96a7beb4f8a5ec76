package report

import (
	"cmp"
	"fmt"
	"slices"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// A ListEvent is an event beside that of time, as far as it has samples in a procedure.
type ListEvent struct {
	Event       string  `json:"event"`
	Samples     uint64  `json:"samples"`               // in the procedure
	Share       float64 `json:"share"`                 // of all samples of the event
	Events      float64 `json:"count,omitempty"`       // of the event that they stand for, in all of the time; absent where the period is not known
	Reliability float64 `json:"reliability,omitempty"` // the part of the time in which it was counted; absent where that is not known

	at      map[image.Addr]uint64
	untimed bool // it needs a counter, and for how long it had one is not known
}

// listEvents is how many events have a column of their own, unless all are asked for.
const listEvents = 2

// eventHead is how many characters the name of an event has in the head of a column.
const eventHead = 14

// EventsIn returns the other events of a recording with samples in a procedure, the one with most samples in it first.
func EventsIn(rec *sample.Recording, time string, of Subject) []ListEvent {
	var all []ListEvent
	counts := map[string][]*sample.Counts{}
	for _, c := range rec.Counts {
		if c.Event.Name != time {
			counts[c.Event.Name] = append(counts[c.Event.Name], c)
		}
	}
	for name, cs := range counts {
		e := ListEvent{Event: name, at: map[image.Addr]uint64{}}
		var total uint64
		for _, c := range cs {
			total += c.Total
			n := samplesIn(c, of, e.at)
			e.Samples += n
			e.Events += float64(n) * c.MeanPeriod()
		}
		if e.Samples == 0 {
			continue
		}
		e.Share = float64(e.Samples) / float64(total)
		var known bool
		if e.Reliability, known = sample.Reliability(cs); e.Reliability > 0 {
			e.Events /= e.Reliability
		}
		e.untimed = !known && infer.NeedsCounter(cs[0].Event)
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b ListEvent) int {
		return cmp.Or(cmp.Compare(b.Samples, a.Samples), cmp.Compare(a.Event, b.Event))
	})
	return all
}

// samplesIn adds the samples of c in a procedure to at, and returns how many there are.
func samplesIn(c *sample.Counts, of Subject, at map[image.Addr]uint64) (n uint64) {
	p := of.Result.Proc
	for _, ic := range c.Images {
		if ic.ID.Key() != of.Image.ID.Key() {
			continue
		}
		for off, k := range ic.At {
			if a, ok := of.Image.Image.AddrOf(off); ok && a >= p.Addr && uint64(a-p.Addr) < p.Size {
				at[a] += k
				n += k
			}
		}
	}
	return n
}

// AddEvents adds the samples of the other events of the recording that doc was inferred from.
func (doc *List) AddEvents(rec *sample.Recording, of Subject) {
	doc.Events = EventsIn(rec, doc.Event, of)
	rows := map[string]*ListRow{}
	for i := range doc.Insts {
		rows[doc.Insts[i].Addr] = &doc.Insts[i]
	}
	for _, e := range doc.Events {
		for a, n := range e.at {
			r := rows[Hex(a)]
			if r == nil { // within an instruction: some events have places that are imprecise
				continue
			}
			if r.Events == nil {
				r.Events = map[string]uint64{}
			}
			r.Events[e.Event] = n
		}
	}
}

// shownEvents are those with a column.
func (doc *List) shownEvents(v *ListView) []ListEvent {
	if v.Events {
		return doc.Events
	}
	return doc.Events[:min(listEvents, len(doc.Events))]
}

// head is the name of a column.
func (e *ListEvent) head() string { return Cut(sample.BareEvent(e.Event), eventHead) }

// line says how much of an event is in the procedure.
func (e *ListEvent) line() string {
	line := fmt.Sprintf("%s: %d samples here, %s of all", e.Event, e.Samples, Percent(e.Share))
	if e.Events > 0 {
		line += fmt.Sprintf(", which stand for %s events", Count(e.Events))
	}
	if e.Reliability > 0 && e.Reliability < sample.AlwaysCounted {
		line += fmt.Sprintf("; counted for %s of the time (multiplexing reliability), and scaled to all of it", Percent(e.Reliability))
	}
	if e.untimed && e.Events > 0 {
		line += ", if it was counted all the time: the recording does not say"
	}
	return line
}
