package explain

import (
	"fmt"
	"html"
	"math"
	"strings"
	"testing"
)

// Colours that can be read on a light and on a dark page, as pictures in Markdown lie on both.
const (
	inkColor  = "#7a828e"
	gridColor = "#7a828e55"
)

// A series is what its name and colour stand for in a picture.
type series struct{ name, color string }

// confidences are the series of estimates, as document.Confidence numbers them.
var confidences = []series{{"no estimate", "#9aa3ad"}, {"low", "#d9822b"}, {"medium", "#3b82d6"}, {"high", "#2e9e6b"}}

// A picture is written as SVG.
type picture struct {
	w, h float64
	body strings.Builder
}

// String returns the picture as a file.
func (p *picture) String() string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" font-family="sans-serif" font-size="11" fill="%s">`+"\n%s</svg>\n",
		p.w, p.h, p.w, p.h, inkColor, p.body.String())
}

// text writes s at x, y: start, middle or end of it.
func (p *picture) text(x, y float64, anchor, s string) {
	fmt.Fprintf(&p.body, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(s))
}

// title writes s in bold.
func (p *picture) title(x, y float64, s string) {
	fmt.Fprintf(&p.body, `<text x="%.1f" y="%.1f" font-weight="bold">%s</text>`+"\n", x, y, html.EscapeString(s))
}

// upright writes s from below to above, around the middle x, y.
func (p *picture) upright(x, y float64, s string) {
	fmt.Fprintf(&p.body, `<text x="%.1f" y="%.1f" text-anchor="middle" transform="rotate(-90 %.1f %.1f)">%s</text>`+"\n", x, y, x, y, html.EscapeString(s))
}

func (p *picture) line(x1, y1, x2, y2 float64, color string) {
	fmt.Fprintf(&p.body, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`+"\n", x1, y1, x2, y2, color)
}

// thick draws a line that lies above what was drawn before.
func (p *picture) thick(x1, y1, x2, y2 float64, color string) {
	fmt.Fprintf(&p.body, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="2"/>`+"\n", x1, y1, x2, y2, color)
}

func (p *picture) box(x, y, w, h float64, color string) {
	if h > 0.05 {
		fmt.Fprintf(&p.body, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, y, w, h, color)
	}
}

// dots draws points at pixels, those at the same one once.
func (p *picture) dots(at [][2]float64, color string) {
	seen := map[[2]int]bool{}
	fmt.Fprintf(&p.body, `<path stroke="%s" stroke-opacity="0.75" stroke-width="4.4" stroke-linecap="round" d="`, color)
	for _, xy := range at {
		pixel := [2]int{int(math.Round(xy[0])), int(math.Round(xy[1]))}
		if !seen[pixel] {
			fmt.Fprintf(&p.body, "M%d %dh0", pixel[0], pixel[1])
		}
		seen[pixel] = true
	}
	p.body.WriteString("\"/>\n")
}

// legend names series in a row from x on.
func (p *picture) legend(x, y float64, all []series) {
	for _, s := range all {
		p.box(x, y-9, 10, 10, s.color)
		p.text(x+14, y, "start", s.name)
		x += 34 + 6.2*float64(len(s.name))
	}
}

// An axis maps values to pixels.
type axis struct {
	from, to float64 // pixels
	most     float64 // the value at to; that at from is 0, or least where log is set
	least    float64
	log      bool
}

func (a axis) at(v float64) float64 {
	part := v / a.most
	if a.log {
		part = math.Log(max(v, a.least)/a.least) / math.Log(a.most/a.least)
	}
	return a.from + (a.to-a.from)*min(1, part)
}

// ticks returns round values on the axis, three to six.
func (a axis) ticks() (all []float64) {
	if a.log {
		for v := a.least; v <= a.most*1.001; v *= 10 {
			all = append(all, v)
		}
		return all
	}
	step := math.Pow(10, math.Floor(math.Log10(a.most)))
	for _, part := range []float64{1, 0.5, 0.2} {
		if a.most/(step*part) >= 3 {
			step *= part
			break
		}
	}
	for i := 0; float64(i)*step <= a.most*1.001; i++ {
		all = append(all, float64(i)*step)
	}
	return all
}

// frame draws the axes of a panel with their values and names.
func (p *picture) frame(x, y axis, xName, yName string) {
	for _, v := range y.ticks() {
		p.line(x.from, y.at(v), x.to, y.at(v), gridColor)
		p.text(x.from-5, y.at(v)+4, "end", fmt.Sprintf("%.4g", v))
	}
	free := math.Inf(-1) // from here on no number is
	for _, v := range x.ticks() {
		p.line(x.at(v), y.from, x.at(v), y.from+4, inkColor)
		s := fmt.Sprintf("%.4g", v)
		if half := 3.2*float64(len(s)) + 2; x.at(v)-half >= free {
			p.text(x.at(v), y.from+16, "middle", s)
			free = x.at(v) + half
		}
	}
	p.names(x, y, xName, yName)
}

// names draws the lines of two axes and says what is along them.
func (p *picture) names(x, y axis, xName, yName string) {
	p.line(x.from, y.from, x.to, y.from, inkColor)
	p.line(x.from, y.from, x.from, y.to, inkColor)
	p.text((x.from+x.to)/2, y.from+31, "middle", xName)
	p.upright(x.from-46, (y.from+y.to)/2, yName)
}

func TestAxis(t *testing.T) {
	for _, tt := range []struct {
		axis  axis
		ticks string
		v, at float64
	}{
		{axis{from: 0, to: 100, most: 1}, "[0 0.2 0.4 0.6000000000000001 0.8 1]", 0.5, 50},
		{axis{from: 100, to: 0, most: 42}, "[0 10 20 30 40]", 21, 50},
		{axis{from: 0, to: 100, most: 7}, "[0 1 2 3 4 5 6 7]", 9, 100},
		{axis{from: 0, to: 90, most: 100, least: 0.1, log: true}, "[0.1 1 10 100]", 1, 30},
		{axis{from: 0, to: 90, most: 100, least: 0.1, log: true}, "[0.1 1 10 100]", 0, 0},
	} {
		if got := fmt.Sprint(tt.axis.ticks()); got != tt.ticks || math.Abs(tt.axis.at(tt.v)-tt.at) > 1e-9 {
			t.Errorf("%+v: ticks %s, %g at %g; want %s, %g", tt.axis, got, tt.v, tt.axis.at(tt.v), tt.ticks, tt.at)
		}
	}
}
