package report

import (
	"fmt"
	"io"
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
		words := make([]string, len(r.Command))
		for i, arg := range r.Command {
			words[i] = quote(arg)
		}
		table.Row(append(cells, strings.Join(words, " "))...)
	}
	return table.Print(w, style)
}
