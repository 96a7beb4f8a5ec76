package report

import "html/template"

// HTML draws h as stacked bars with their figures. Parts are told apart by lightness.
func (h *Histogram) HTML() (template.HTML, error) {
	type part struct {
		Class    int
		X, Width float64 // units
		Title    string
	}
	type bar struct {
		Label, Sum string
		Parts      []part
	}
	longest := 0.0
	for _, b := range h.Bars {
		longest = max(longest, b.sum())
	}
	var bars []bar
	for _, b := range h.Bars {
		out, at := bar{Label: b.Label, Sum: figure(b.sum())}, 0.0
		for i, p := range b.Parts {
			if p > 0 {
				out.Parts = append(out.Parts, part{partClass(i), units(at / longest), units((at+p)/longest) - units(at/longest), Percent(p)})
			}
			at += p
		}
		bars = append(bars, out)
	}
	type key struct {
		Class int
		Name  string
	}
	var keys []key
	for i, name := range h.Legend {
		keys = append(keys, key{partClass(i), name})
	}
	return markup("bars.tmpl", map[string]any{"Title": h.Title, "Bars": bars, "Keys": keys, "Units": barUnits})
}

// partClass assigns part i of a bar its class of the scale: the first is the darkest.
func partClass(i int) int { return max(1, classes-2*i) }
