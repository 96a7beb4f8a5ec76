package report

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/layout"
)

// code is a procedure of one block of 16 instructions.
type code struct {
	name  string
	start image.Addr
	size  uint64
	n     float64 // executions
}

// heatMap draws procedures as they lie, and one after the other in the given order.
func heatMap(procs []code, order ...int) *HeatMap {
	ip := &infer.ImageProfile{Image: &image.Image{}}
	for _, c := range procs {
		b := image.Block{Start: c.start, End: c.start + image.Addr(c.size), Insts: 16}
		ip.Procs = append(ip.Procs, &infer.Result{
			Proc:  &image.Proc{Symbol: image.Symbol{Name: c.name, Addr: c.start, Size: c.size}, Blocks: []image.Block{b}},
			Block: []infer.Freq{{N: c.n}},
		})
	}
	var parts []layout.Part
	for _, i := range order {
		parts = append(parts, layout.Part{Proc: i, Blocks: []int{0}})
	}
	scores := NewTable(Left("score"), Right("as linked"), Right("as suggested"))
	scores.Row("pages", "3", "1")
	return &HeatMap{
		Image: "program", Lead: "A test.", Scores: scores,
		Before: Layout{"As linked", layout.LinkedHeat(ip)},
		After:  Layout{"As suggested", layout.PlacedHeat(ip, layout.Place(ip.Procs, parts, procs[0].start, 16))},
	}
}

func page(t *testing.T, m *HeatMap) string {
	t.Helper()
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	selfContained(t, b.String())
	return b.String()
}

// selfContained checks that a page is well-formed, leads to nothing but parts of itself, and has nothing
// that its policy forbids.
func selfContained(t *testing.T, page string) {
	t.Helper()
	for _, e := range testtool.WellFormed(t, page) {
		for _, a := range e.Attr {
			switch a.Name.Local {
			case "href":
				if !strings.HasPrefix(a.Value, "#") {
					t.Errorf("link to %q leads out of the page", a.Value)
				}
			case "style", "src", "onclick":
				t.Errorf("<%s> has %s, which the page's policy forbids", e.Name.Local, a.Name.Local)
			}
		}
	}
}

// inlined are the parts of a page that have files of their own.
var inlined = regexp.MustCompile(`(?s)(<style>|<script>|Content-Security-Policy" content=").*?(</style>|</script>|"/>)`)

// TestHeatMap shows a small map as it is written: code that ran in three pages, one
// beyond a huge page without code, comes to lie in one.
func TestHeatMap(t *testing.T) {
	m := heatMap([]code{
		{"main", 0x401000, 0x60, 1},
		{"unused", 0x401100, 0x1f00, 0},
		{"work<int>", 0x403000, 0x80, 1e6},
		{"evil\x1b[2J\"><script>alert(1)</script>", 0x903fe0, 0x40, 1e3},
	}, 2, 3, 0)
	text := page(t, m)
	if again := page(t, m); again != text {
		t.Error("the same map gave other bytes")
	}
	got := inlined.ReplaceAllString(text, "$1…$2")
	testtool.Golden(t, "testdata/heatmap.html", got)
}

// TestHeatMapNothing: a map of nothing is a page too.
func TestHeatMapNothing(t *testing.T) {
	text := page(t, &HeatMap{Image: "x", Scores: NewTable(Left("score")), Before: Layout{Heat: &layout.Heat{}}, After: Layout{Heat: &layout.Heat{}}})
	if !strings.Contains(text, "0 of 0 pages that ran, with - of execution") {
		t.Error(text)
	}
}

// TestHeatMapSize: the page of a large image is bounded, whatever its names; all of
// its code is drawn.
func TestHeatMapSize(t *testing.T) {
	for _, tt := range []struct {
		text     uint64 // bytes
		perCell  int    // pages
		maxBytes int
	}{
		{30 << 20, 1, 3 << 20},
		{62 << 20, 1, 3 << 20},
		{120 << 20, 2, 3 << 20},
	} {
		size := tt.text >> 13 &^ 15 // 8192 procedures
		var procs []code
		for at := uint64(0x1000); at < 0x1000+tt.text; at += size {
			name := fmt.Sprintf("_ZN%d%s%x", at%7, strings.Repeat("<\"größe\x00", 300), at)
			procs = append(procs, code{name, image.Addr(at), size, float64(at % 1009 * (at / size % 5))})
		}
		text := page(t, heatMap(procs))
		if len(text) > tt.maxBytes {
			t.Errorf("%d MB of code: %d bytes, want at most %d", tt.text>>20, len(text), tt.maxBytes)
		}
		cells := 0
		for _, p := range pathsOf(text) {
			if p.cell == uint64(tt.perCell*layout.PageBytes) {
				cells += p.squares
			}
		}
		if want := 2 * int(tt.text) / layout.PageBytes / tt.perCell; cells < want || cells > want+2 {
			t.Errorf("%d MB of code: %d cells of %d pages, want %d for both layouts", tt.text>>20, cells, tt.perCell, want)
		}
	}
}

type drawn struct {
	cell    uint64 // bytes of a cell
	class   int
	squares int
}

var pictured = regexp.MustCompile(`data-cell="(\d+)"|<path class="h(\d)" [^>]*d="([^"]*)"`)

// pathsOf returns the paths of all pictures of a page.
func pathsOf(text string) []drawn {
	var all []drawn
	var cell uint64
	for _, m := range pictured.FindAllStringSubmatch(text, -1) {
		if m[1] != "" {
			cell, _ = strconv.ParseUint(m[1], 10, 64)
			continue
		}
		class, _ := strconv.Atoi(m[2])
		all = append(all, drawn{cell, class, strings.Count(m[3], "M")})
	}
	return all
}

// TestHeatMapFar: code at both ends of the address space is drawn.
func TestHeatMapFar(t *testing.T) {
	m := heatMap([]code{{"low", 0, 16, 1}, {"high", math.MaxUint64 - 0xfff, 16, 1}})
	cells := 0
	for _, p := range pathsOf(page(t, m)) {
		if p.cell == layout.PageBytes && p.class > 0 {
			cells += p.squares
		}
	}
	if cells != 3 { // two pages as linked, one when laid out
		t.Errorf("%d pages that ran are drawn, want 3", cells)
	}
}

func TestScale(t *testing.T) {
	sides := []*side{{Heat: &layout.Heat{Pages: []layout.Spot{{Addr: 0, N: 999}, {Addr: 4096, N: 1000}}}}}
	sc := newScale(sides, (*side).pages)
	for _, tt := range []struct {
		n    float64
		want int
		name string
	}{
		{0, 0, "none seen"}, {1e-9, 1, "below 0.01"}, {0.01, 2, "0.01 to 0.1"}, {9.99, 4, "1 to 10"}, {10, 5, "10 to 100"},
		{999, 6, "100 to 1k"}, {1000, 7, "1k or more"}, {math.NaN(), 0, "none seen"},
	} {
		if got := sc.class(tt.n); got != tt.want || sc.Name(got) != tt.name {
			t.Errorf("%v: class %d, %s; want %d, %s", tt.n, got, sc.Name(got), tt.want, tt.name)
		}
	}
}
