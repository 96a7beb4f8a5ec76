package report

import (
	"fmt"
	"html/template"
	"math"
)

// A FleetBar is a stretch of time as pages draw it.
type FleetBar struct {
	Title string
	Parts []uint64 // samples by series; what is in none is not drawn apart
	Total uint64
}

// fleetHeight is the height of the picture, in units.
const fleetHeight = 100

// FleetHTML draws samples over time, as bars of series one above the other: the first is the darkest, what is in none is grey.
// from and to are what the ends of the axis are.
func FleetHTML(series []string, bars []FleetBar, from, to string) (template.HTML, error) {
	type rect struct {
		Class     int
		Y, Height float64
	}
	type bar struct {
		X     int
		Title string
		Parts []rect
	}
	most := uint64(1)
	for _, b := range bars {
		most = max(most, b.Total)
	}
	height := func(n uint64) float64 {
		return math.Round(float64(n)/float64(most)*fleetHeight*100) / 100
	}
	var out []bar
	for i, b := range bars {
		d := bar{X: i * 10, Title: b.Title}
		y, rest := float64(fleetHeight), b.Total
		for k, n := range append(b.Parts, 0) {
			class := partClass(k)
			if k == len(b.Parts) {
				n, class = rest, 0
			} else {
				rest -= min(n, rest)
			}
			if h := height(n); h > 0 {
				y -= h
				d.Parts = append(d.Parts, rect{class, math.Round(max(0, y)*100) / 100, h})
			}
		}
		out = append(out, d)
	}
	type key struct {
		Class int
		Name  string
	}
	var keys []key
	for i, name := range series {
		keys = append(keys, key{partClass(i), name})
	}
	keys = append(keys, key{0, "all else"})
	return markup("fleet.tmpl", map[string]any{"Bars": out, "Width": max(10, 10*len(bars)), "Height": fleetHeight, "Keys": keys, "From": from, "To": to,
		"Label": fmt.Sprintf("%d stretches of time; the most samples in one are %d", len(bars), most), "Most": Integer(most)})
}

// A FleetChoice is a value of a label that may be chosen.
type FleetChoice struct {
	Value, Href string
	Samples     uint64
	Chosen      bool
}

// A FleetLabel is a label with its values.
type FleetLabel struct {
	Name    string
	Any     string // leads to where none is chosen; "" if none is
	Choices []FleetChoice
	More    int
}

// FleetLabelsHTML lists labels, to choose from.
func FleetLabelsHTML(labels []FleetLabel) (template.HTML, error) {
	return markup("fleetlabels.tmpl", labels)
}
