package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A Histogram is drawn with one line per bar, from left to right. Each bar is a
// stack of parts, as many as Legend has words.
type Histogram struct {
	Title  string
	Legend []string // what the parts are, in the order in which they are stacked
	Bars   []Bar
}

// A Bar is one class of a Histogram; its parts are shares of all (1 is all).
type Bar struct {
	Label string
	Parts []float64
}

// inks draw the parts of a bar: they differ without colour too.
var inks = []rune("█▓▒░")

// barWidth is how many characters the longest bar takes: with label and figure
// the line fits a terminal of 80.
const barWidth = 52

// Write draws the histogram; the longest bar fills the width.
func (h *Histogram) Write(w io.Writer) error {
	var b strings.Builder
	b.WriteString(h.Title + "\n")
	longest, label := 0.0, 0
	for _, bar := range h.Bars {
		longest = max(longest, bar.sum())
		label = max(label, utf8.RuneCountInString(bar.Label))
	}
	for _, bar := range h.Bars {
		ink := draw(bar.Parts, longest)
		blank := strings.Repeat(" ", label-utf8.RuneCountInString(bar.Label))
		line := fmt.Sprintf("  %s%s |%s %s", blank, bar.Label, ink, figure(bar.sum()))
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	b.WriteString(strings.TrimRight("  "+h.legend(), " ") + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// Print draws the histogram in a style: in Markdown it is code, for its columns to hold.
func (h *Histogram) Print(w io.Writer, style Style) error {
	if !style.Markdown {
		return h.Write(w)
	}
	if _, err := io.WriteString(w, "```\n"); err != nil {
		return err
	}
	if err := h.Write(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, "```\n")
	return err
}

func (b Bar) sum() float64 {
	var n float64
	for _, p := range b.Parts {
		n += p
	}
	return n
}

// draw stacks the parts. Ends are rounded, not lengths, so that the bar is as
// long as its sum.
func draw(parts []float64, longest float64) string {
	var b strings.Builder
	sum, end := 0.0, 0
	for i, p := range parts {
		sum += p
		if longest > 0 {
			next := int(sum/longest*barWidth + 0.5)
			b.WriteString(strings.Repeat(string(inks[i%len(inks)]), next-end))
			end = next
		}
	}
	return b.String()
}

// figure is the number at the end of a bar; an empty class has none.
func figure(share float64) string {
	if share == 0 {
		return ""
	}
	return Percent(share)
}

// legend explains the inks.
func (h *Histogram) legend() string {
	var words []string
	for i, word := range h.Legend {
		words = append(words, string(inks[i%len(inks)])+" "+word)
	}
	return strings.Join(words, "  ")
}
