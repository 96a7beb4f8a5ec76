package report

import (
	"io"
	"strings"
	"time"

	"backfeed/infer/compare"
)

// Hosts is what stats prints of hosts as JSON.
type Hosts struct {
	Schema string    `json:"schema"`
	Odd    int       `json:"odd"` // hosts
	Rows   []HostRow `json:"items"`
}

// A HostRow is one host.
type HostRow struct {
	Host     string   `json:"host"`
	Samples  uint64   `json:"samples"`
	Distance float64  `json:"distance"` // share of its samples that lie elsewhere than the middle host's
	Chance   float64  `json:"chance"`   // the distance that chance alone gives
	Rate     float64  `json:"rate"`     // samples per time, as a multiple of the middle host's
	Behind   float64  `json:"behind"`   // s, of its newest epoch to the middle host's
	Odd      []string `json:"odd"`      // why it is an outlier
}

// NewHosts returns at most so many hosts as stats prints them; 0 is all.
func NewHosts(hosts []compare.Host, lines int) *Hosts {
	doc := &Hosts{Schema: "backfeed.hosts/1", Rows: []HostRow{}}
	for i, h := range hosts {
		if len(h.Odd) > 0 {
			doc.Odd++
		}
		if lines == 0 || i < lines {
			doc.Rows = append(doc.Rows, HostRow{h.Name, h.Samples, h.Distance, h.Chance, h.Faster, h.Behind.Seconds(), append([]string{}, h.Odd...)})
		}
	}
	return doc
}

// Text prints the hosts as a table.
func (doc *Hosts) Text(w io.Writer, style Style) error {
	t := NewTable(Left("host").Main(), Right("samples"), Right("distance"), Right("by chance"), Right("rate"), Right("behind"), Left("odd"))
	for _, r := range doc.Rows {
		name := r.Host
		if name == "" {
			name = "(none)"
		}
		t.Row(Clean(name), Integer(r.Samples), Percent(r.Distance), Percent(r.Chance), Count(r.Rate),
			(time.Duration(r.Behind) * time.Second).String(), strings.Join(r.Odd, ", "))
	}
	return t.Print(w, style)
}
