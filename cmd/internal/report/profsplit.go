package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"backfeed/sample"
)

// ProfSplits are what samples are added up by that is no code, but what ran, where and when.
var ProfSplits = []string{"process", "thread", "cpu", "cgroup", "time"}

// A ProfSplitRow is samples of one event by what ran, where or when. Of unknown samples that is not known.
type ProfSplitRow struct {
	Event   string  `json:"event"`
	Samples uint64  `json:"samples"`
	Share   float64 `json:"share"` // of the samples of the event
	Process string  `json:"process,omitempty"`
	Thread  string  `json:"thread,omitempty"`
	CPU     *int    `json:"cpu,omitempty"`
	Cgroup  string  `json:"cgroup,omitempty"`
	// By time: seconds since the first slice that has samples, length in seconds, and date. It is absent where the recorder had none.
	// Slices without samples between two that have some are one row, of the length of all of them.
	From    *float64 `json:"from,omitempty"`
	Seconds float64  `json:"seconds,omitempty"`
	Date    string   `json:"date,omitempty"`
	Unknown bool     `json:"unknown,omitempty"`
}

// ProfSplit adds samples up by one of ProfSplits, of the event of that name or of all: the event with most samples first, and of it what
// has most, but slices of time as they come. What is unknown is last. known is whether anything is known at all.
func ProfSplit(rec *sample.Recording, event, by string) (rows []ProfSplitRow, known bool) {
	totals := map[string]uint64{}
	for _, c := range rec.Counts {
		if c.Total > 0 && (event == "" || event == c.Event.Name) {
			totals[c.Event.Name] += c.Total
		}
	}
	for _, name := range MostFirst(totals) {
		of := splitOf(rec, name, by)
		sum := uint64(0)
		for _, r := range of {
			sum += r.Samples
		}
		known = known || sum > 0
		if rest := totals[name] - min(sum, totals[name]); rest > 0 {
			of = append(of, ProfSplitRow{Samples: rest, Unknown: true})
		}
		for _, r := range of {
			r.Event, r.Share = name, float64(r.Samples)/float64(totals[name])
			rows = append(rows, r)
		}
	}
	return rows, known
}

// splitOf returns what is known of one event.
func splitOf(rec *sample.Recording, event, by string) []ProfSplitRow {
	counts := slices.DeleteFunc(slices.Clone(rec.Counts), func(c *sample.Counts) bool { return c.Event.Name != event })
	switch by {
	case "time":
		return splitByTime(counts)
	case "cpu":
		n := map[int]uint64{}
		for _, c := range counts {
			for cpu, k := range c.Processors {
				n[cpu] += k
			}
		}
		return splitRows(n, cmp.Compare[int], func(cpu int) ProfSplitRow { return ProfSplitRow{CPU: &cpu} })
	}
	n := map[sample.Origin]uint64{}
	for _, c := range counts {
		for o, k := range c.Origins {
			switch by {
			case "process":
				o = sample.Origin{Process: o.Process}
			case "thread":
				if o.Cgroup = ""; o.Thread == "" {
					continue
				}
			case "cgroup":
				o = sample.Origin{Cgroup: o.Cgroup}
			}
			if o != (sample.Origin{}) {
				n[o] += k
			}
		}
	}
	return splitRows(n, sample.Origin.Compare, func(o sample.Origin) ProfSplitRow {
		return ProfSplitRow{Process: o.Process, Thread: o.Thread, Cgroup: o.Cgroup}
	})
}

// splitRows returns a row of each key, those with most samples first.
func splitRows[K comparable](n map[K]uint64, compare func(a, b K) int, row func(K) ProfSplitRow) []ProfSplitRow {
	var rows []ProfSplitRow
	for _, k := range slices.SortedFunc(maps.Keys(n), func(a, b K) int { return cmp.Or(cmp.Compare(n[b], n[a]), compare(a, b)) }) {
		r := row(k)
		r.Samples = n[k]
		rows = append(rows, r)
	}
	return rows
}

// splitByTime returns a row of each slice of time that has samples, the earliest first, and one of all between two that have none.
func splitByTime(counts []*sample.Counts) []ProfSplitRow {
	length := time.Duration(0)
	for _, c := range counts {
		if len(c.Slices) > 0 {
			length = max(length, c.SliceLength())
		}
	}
	n := map[uint64]uint64{}
	for _, c := range counts {
		for s, k := range c.BySlice() {
			n[s*uint64(c.SliceLength())/uint64(length)] += k
		}
	}
	var rows []ProfSplitRow
	order := slices.Sorted(maps.Keys(n))
	for i, s := range order {
		if i > 0 && s-order[i-1] > 1 {
			gap := order[i-1] + 1
			rows = append(rows, timeRow(0, gap-order[0], s-gap, gap, length))
		}
		rows = append(rows, timeRow(n[s], s-order[0], 1, s, length))
	}
	return rows
}

// timeRow is the row of so many samples in slices of a length, of which the first is the one after so many since the first of all.
func timeRow(samples, after, slices, first uint64, length time.Duration) ProfSplitRow {
	from := float64(after) * length.Seconds()
	row := ProfSplitRow{Samples: samples, From: &from, Seconds: float64(slices) * length.Seconds()}
	if ns := first * uint64(length); ns > sample.EarliestDate && ns < math.MaxInt64 {
		row.Date = time.Unix(0, int64(ns)).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return row
}

// WriteProfSplit writes the table of ProfSplit.
func WriteProfSplit(w io.Writer, by string, rows []ProfSplitRow, style Style) error {
	several := slices.ContainsFunc(rows, func(r ProfSplitRow) bool { return r.Event != rows[0].Event })
	head := "samples"
	if len(rows) > 0 {
		head = AmountHead(rows[0].Event)
	}
	columns := []Column{Right(head), Right("share")}
	if several {
		columns = append([]Column{Left("event")}, columns...)
	}
	switch by {
	case "time":
		columns = append(columns, Right("from"), Right("to"), Left("date").Drop(1), Left("share of the largest").Main())
	case "thread":
		columns = append(columns, Left("process"), Left("thread").Main())
	default:
		columns = append(columns, Left(by).Main())
	}
	most := uint64(1)
	for _, r := range rows {
		if !r.Unknown {
			most = max(most, r.Samples)
		}
	}
	table := NewTable(columns...)
	for _, r := range rows {
		cells := []string{Amount(r.Event, r.Samples), Percent(r.Share)}
		if several {
			cells = append([]string{r.Event}, cells...)
		}
		const unknown = "(unknown)"
		switch {
		case by == "time" && r.From == nil:
			cells = append(cells, "", "", "", unknown)
		case by == "time":
			const width = 40
			bar := strings.Repeat("#", int((r.Samples*width+most-1)/most))
			cells = append(cells, fmt.Sprintf("%.3f s", *r.From), fmt.Sprintf("%.3f s", *r.From+r.Seconds), r.Date, bar)
		case r.Unknown && by == "thread":
			cells = append(cells, "", unknown)
		case r.Unknown:
			cells = append(cells, unknown)
		case by == "cpu":
			cells = append(cells, strconv.Itoa(*r.CPU))
		case by == "thread":
			cells = append(cells, cmp.Or(r.Process, unknown), cmp.Or(r.Thread, unknown))
		default:
			cells = append(cells, r.Process+r.Cgroup)
		}
		table.Row(cells...)
	}
	return table.Print(w, style)
}
