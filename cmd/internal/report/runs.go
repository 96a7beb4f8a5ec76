package report

import (
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"
	"time"

	"backfeed/sample"
)

// A RunRow is one run of a recorder. What is absent is unknown.
type RunRow struct {
	Began   string    `json:"began,omitempty"`
	Seconds float64   `json:"seconds"`
	Host    string    `json:"host,omitempty"`
	Command []string  `json:"command,omitempty"`
	Usage   *RunUsage `json:"usage,omitempty"`
}

// A RunUsage is what a command used.
type RunUsage struct {
	UserSeconds   float64 `json:"user_seconds"`
	SystemSeconds float64 `json:"system_seconds"`
	MemoryBytes   uint64  `json:"memory_bytes"`
	MemoryUnder   bool    `json:"memory_under,omitempty"` // it had less than MemoryBytes
	MinorFaults   uint64  `json:"minor_faults"`
	MajorFaults   uint64  `json:"major_faults"`
	Waited        uint64  `json:"switches_waiting"`
	Preempted     uint64  `json:"switches_preempted"`
	ReadBlocks    uint64  `json:"blocks_read"` // of 512 bytes
	WrittenBlocks uint64  `json:"blocks_written"`
}

// RunRows lists the runs of a recording, the earliest first.
func RunRows(rec *sample.Recording) []RunRow {
	rows := make([]RunRow, 0, len(rec.Runs))
	for _, r := range rec.Runs {
		row := RunRow{Seconds: float64(r.Lasted) / 1e3, Host: r.Host, Command: r.Command}
		if r.Began > 0 && r.Began < maxDate {
			row.Began = time.UnixMilli(int64(r.Began)).UTC().Format(time.RFC3339)
		}
		if u := r.Usage; u != (sample.Usage{}) {
			row.Usage = &RunUsage{float64(u.User) / 1e6, float64(u.System) / 1e6, u.Memory, u.Under, u.Minor, u.Major, u.Waited, u.Preempted, u.Read, u.Wrote}
		}
		rows = append(rows, row)
	}
	return rows
}

// maxDate is the year 9999, in ms since 1970: what is later has no form.
const maxDate = 253_370_764_800_000

// TotalUsage is what all runs used of which that is known, and how many these are. It is nil if it is known of none.
func TotalUsage(rows []RunRow) (all *RunUsage, known int) {
	for _, r := range rows {
		u := r.Usage
		switch {
		case u == nil:
			continue
		case all == nil:
			sum := *u
			all = &sum
		default:
			all.UserSeconds += u.UserSeconds
			all.SystemSeconds += u.SystemSeconds
			if u.MemoryBytes > all.MemoryBytes || u.MemoryBytes == all.MemoryBytes && !u.MemoryUnder {
				all.MemoryBytes, all.MemoryUnder = u.MemoryBytes, u.MemoryUnder
			}
			for _, n := range [][2]*uint64{
				{&all.MinorFaults, &u.MinorFaults}, {&all.MajorFaults, &u.MajorFaults}, {&all.Waited, &u.Waited}, {&all.Preempted, &u.Preempted},
				{&all.ReadBlocks, &u.ReadBlocks}, {&all.WrittenBlocks, &u.WrittenBlocks},
			} {
				*n[0] = capped(*n[0], *n[1])
			}
		}
		known++
	}
	return all, known
}

// capped is a sum, or the most that there is.
func capped(a, b uint64) uint64 {
	sum, over := bits.Add64(a, b, 0)
	if over > 0 {
		return 1<<64 - 1
	}
	return sum
}

// maxNamed is how many commands and hosts RunFacts names.
const maxNamed = 3

// RunFacts are what is known of the runs of a recording: commands, hosts, dates, and what they used in all. quote makes an
// argument a word; unlisted are further runs, of which nothing is known.
func RunFacts(rows []RunRow, unlisted uint64, quote func(string) string) []Fact {
	var facts []Fact
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, Fact{name, value})
		}
	}
	var commands, hosts, began []string
	seconds := 0.0
	for _, r := range rows {
		commands, hosts, began = append(commands, r.line(quote)), append(hosts, r.Host), append(began, r.Began)
		seconds += r.Seconds
	}
	add("command", named(commands))
	add("host", named(hosts))
	if len(rows) == 0 {
		return facts
	}
	slices.Sort(began)
	lasted := ""
	if seconds > 0 {
		lasted = ", for " + Seconds(seconds)
	}
	switch first, last := began[0], began[len(began)-1]; {
	case len(rows) == 1 && first != "":
		add("recorded", first+lasted)
	case len(rows) > 1:
		when := ""
		if first != "" {
			when = fmt.Sprintf(", begun %s to %s", first, last)
		}
		if lasted != "" {
			lasted += " in all"
		}
		add("recorded", fmt.Sprintf("%d runs%s%s", len(rows), when, lasted))
	case lasted != "":
		add("recorded", strings.TrimPrefix(lasted, ", "))
	}
	if unlisted > 0 {
		add("further runs", Integer(unlisted)+", of which the recording has no more than their samples")
	}
	u, known := TotalUsage(rows)
	if u == nil {
		return facts
	}
	of := ""
	if all := uint64(len(rows)); uint64(known) < all || unlisted > 0 {
		of = fmt.Sprintf(" (of %d of %d runs)", known, capped(all, unlisted))
	}
	add("processor time"+of, fmt.Sprintf("%s in user code, %s in the kernel", Seconds(u.UserSeconds), Seconds(u.SystemSeconds)))
	add("page faults"+of, fmt.Sprintf("%d, %d of them with reading from disk", capped(u.MinorFaults, u.MajorFaults), u.MajorFaults))
	add("context switches"+of, fmt.Sprintf("%d, %d of them while it could have run on", capped(u.Waited, u.Preempted), u.Preempted))
	if u.MemoryBytes > 0 {
		under := ""
		if u.MemoryUnder {
			under = "less than "
		}
		n := Count(float64(u.MemoryBytes))
		digits := strings.TrimRight(n, "kMGTPE")
		add("most memory of a process"+of, under+digits+" "+n[len(digits):]+"B")
	}
	return facts
}

// named lists the first names that are different and not empty, and says how many more there are.
func named(names []string) string {
	names = slices.Clone(names)
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(s string) bool { return s == "" })
	return Few(names, maxNamed)
}

// line is the command as a shell takes it; quote makes an argument a word.
func (r *RunRow) line(quote func(string) string) string {
	words := make([]string, len(r.Command))
	for i, arg := range r.Command {
		words[i] = quote(arg)
	}
	return strings.Join(words, " ")
}

// WriteRuns writes the table of RunRows. quote makes an argument a word.
func WriteRuns(w io.Writer, rows []RunRow, quote func(string) string, style Style) error {
	table := NewTable(Left("began").Drop(1), Right("seconds"), Left("host").Drop(2), Right("user"), Right("system"), Right("memory"),
		Right("faults, major").Drop(3), Right("switches, preempted").Drop(4), Right("blocks read, written").Drop(5), Left("command").Main())
	for _, r := range rows {
		cells := []string{r.Began, fmt.Sprintf("%.1f", r.Seconds), r.Host, "-", "-", "-", "-", "-", "-"}
		if u := r.Usage; u != nil {
			memory := Count(float64(u.MemoryBytes)) + "B"
			if u.MemoryUnder {
				memory = "< " + memory
			}
			cells = append(cells[:3], fmt.Sprintf("%.2f s", u.UserSeconds), fmt.Sprintf("%.2f s", u.SystemSeconds), memory,
				fmt.Sprintf("%d, %d", u.MinorFaults+u.MajorFaults, u.MajorFaults), fmt.Sprintf("%d, %d", u.Waited+u.Preempted, u.Preempted),
				fmt.Sprintf("%d, %d", u.ReadBlocks, u.WrittenBlocks))
		}
		table.Row(append(cells, r.line(quote))...)
	}
	return table.Print(w, style)
}
