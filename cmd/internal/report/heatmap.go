package report

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"backfeed/infer/image"
	"backfeed/layout"
)

// A HeatMap shows on one page where an image's executed instructions lie, in two
// layouts beside one another: each page of 4 KB as a cell, then the hottest pages by
// their cache lines.
type HeatMap struct {
	Image         string
	Lead          string // what the counts were made from
	Names         Style
	Scores        *Table // of these layouts, and of others; nil is none
	Before, After Layout // After has no Heat where there is no other layout
	Hottest       int    // pages that are drawn by their cache lines, per layout; 0 is as many as there is room for
}

// A Layout is one side of a HeatMap.
type Layout struct {
	Title string
	Heat  *layout.Heat
}

// Bounds of the page that Write writes, which TestHeatMapSize holds to 3 MB: one with
// all of them reached, of procedures with long names.
const (
	maxBoxes  = 32 // of boxCells cells, per layout; cells grow until they suffice
	maxPages  = 64 // drawn by their cache lines, per layout
	maxNames  = 3  // procedures named per page; a cache line has one
	maxName   = 64 // characters of a name
	boxCells  = 512
	boxWidth  = 64 // cells; half of it where fewBoxes suffice
	fewBoxes  = 2
	cellUnits = 8 // width of a cell in a picture; one of them is the gap to the next
)

const pagesPerHuge = boxCells // 4 KB pages in a huge page of 2 MB: what a box shows at first

// Write writes the map as an HTML page.
func (m *HeatMap) Write(w io.Writer) error {
	p, err := m.Page()
	if err != nil {
		return err
	}
	return p.Write(w)
}

// Page draws the map.
func (m *HeatMap) Page() (*Page, error) {
	page := &Page{Title: "Code layout of " + m.Image, Lead: m.Lead, style: asset("heatmap.css")}
	if m.Scores != nil {
		scores, err := m.Scores.HTML("")
		if err != nil {
			return nil, err
		}
		page.Sections = append(page.Sections, Section{ID: "scores", Title: "Scores", Body: scores})
	}
	data := m.draw()
	data["Linked"] = true
	overview, err := markup("overview.tmpl", data)
	if err != nil {
		return nil, err
	}
	hottest, err := markup("hottest.tmpl", data)
	if err != nil {
		return nil, err
	}
	page.Sections = append(page.Sections, Section{ID: "pages", Title: "Pages", Body: overview}, Section{ID: "lines", Title: "Cache lines of the hottest pages", Body: hottest})
	return page, nil
}

// Picture draws both layouts page by page, for a page of NewPage with Styled.
func (m *HeatMap) Picture() (template.HTML, error) {
	data := m.draw()
	for _, s := range data["Sides"].([]*side) {
		for i := range s.Boxes {
			s.Boxes[i].Links = nil // what they lead to is in Page
		}
	}
	return markup("overview.tmpl", data)
}

// Styled adds the style of pictures of a HeatMap to p.
func (p *Page) Styled() { p.style += asset("heatmap.css") }

// draw returns what templates show of the layouts.
func (m *HeatMap) draw() map[string]any {
	var sides []*side
	for _, l := range []struct {
		Layout
		id string
	}{{m.Before, "b"}, {m.After, "a"}} {
		if l.Heat != nil {
			sides = append(sides, &side{Heat: l.Heat, ID: l.id, Title: l.Title, Names: m.Names})
		}
	}
	pageScale, lineScale := newScale(sides, (*side).pages), newScale(sides, (*side).lines)
	shift := boxShift(sides)
	for _, s := range sides {
		s.draw(shift, cmp.Or(m.Hottest, maxPages), pageScale, lineScale)
	}
	cells := "pages"
	if shift > 0 {
		cells = "cells"
	}
	return map[string]any{
		"Sides": sides, "Cells": cells,
		"Cell": cellName(uint64(layout.PageBytes) << shift), "PerCell": uint64(1) << shift, "Box": cellName(uint64(pagesPerHuge*layout.PageBytes) << shift),
		"Pages": pageScale.legend(sides, (*side).pages, layout.PageBytes),
		"Lines": lineScale.legend(sides, (*side).lines, layout.LineBytes),
	}
}

// A side is one of the two layouts.
type side struct {
	*layout.Heat
	ID, Title string
	Names     Style
	Boxes     []box
	Hottest   []hotPage
	Ran       int     // pages
	Shown     string  // share of executions in Hottest
	total     float64 // executed instructions
}

func (s *side) pages() []layout.Spot { return s.Heat.Pages }
func (s *side) lines() []layout.Spot { return s.Heat.Lines }

// draw fills in what the templates show, with so many of the hottest pages.
func (s *side) draw(shift, hottest int, pages, lines *scale) {
	for _, p := range s.Pages {
		s.total += p.N
	}
	s.Ran = len(s.Pages)
	byHeat := slices.Clone(s.Pages)
	slices.SortStableFunc(byHeat, func(a, b layout.Spot) int { return cmp.Compare(b.N, a.N) })
	marks := []float64{0.9, 0.99, 0.999}
	sum := 0.0
	for i, p := range byHeat[:min(len(byHeat), hottest, maxPages)] {
		sum += p.N
		h := s.hotPage(p, sum, lines)
		for len(marks) > 0 && sum >= marks[0]*s.total {
			h.Mark = fmt.Sprintf("%s %% of all executed instructions are in the %s", strconv.FormatFloat(100*marks[0], 'g', 4, 64), above(i+1))
			marks = marks[1:]
		}
		s.Hottest = append(s.Hottest, h)
	}
	s.Shown = share(sum, s.total)
	s.drawBoxes(shift, pages)
}

func above(n int) string {
	if n == 1 {
		return "page above"
	}
	return fmt.Sprintf("%d pages above", n)
}

// share is Percent of part in whole; a dash where there is no whole.
func share(part, whole float64) string {
	if !(whole > 0) {
		return "-"
	}
	return Percent(part / whole)
}

// A picture is cells in rows. Each of its paths draws all cells of one heat.
type picture struct {
	Start         string // address of the first cell
	Cell          uint64 // bytes of a cell
	Columns, Rows int
	Width, Height int // without the last gap, in units
	Paths         []heatPath
}

type heatPath struct {
	Class int
	Heat  string // what the class means
	D     string
}

// newPicture draws cells; class returns that of cell i, -1 where no code lies.
func newPicture(start image.Addr, cell uint64, columns, rows int, sc *scale, class func(i int) int) picture {
	p := picture{
		Start: hex(start), Cell: cell, Columns: columns, Rows: rows,
		Width: columns*cellUnits - 1, Height: rows*cellUnits - 1,
	}
	var paths [classes + 1]strings.Builder
	for i := range columns * rows {
		if k := class(i); k >= 0 {
			fmt.Fprintf(&paths[k], "M%d %dh7v7h-7z", i%columns*cellUnits, i/columns*cellUnits)
		}
	}
	for k := range paths {
		if paths[k].Len() > 0 {
			p.Paths = append(p.Paths, heatPath{k, sc.Name(k), paths[k].String()})
		}
	}
	return p
}

func hex(a image.Addr) string { return "0x" + strconv.FormatUint(uint64(a), 16) }

// A box shows a huge page, or more in an image of many.
type box struct {
	picture
	Gap   string // huge pages without code before it
	Ran   int    // cells that ran
	All   int    // cells with code
	Share string // of executions
	Links []link
}

// A link leads from a cell to its page in the list.
type link struct {
	To, Title string
	X, Y      int
}

// boxShift says how often the bytes of a cell must be doubled.
func boxShift(sides []*side) int {
	for shift := 0; ; shift++ {
		fits := true
		for _, s := range sides {
			fits = fits && countPieces(s.Code, boxBits+shift) <= maxBoxes
		}
		if fits {
			return shift
		}
	}
}

// boxBits is the logarithm of the bytes of a box at first, those of a huge page.
var boxBits = bits.TrailingZeros(pagesPerHuge * layout.PageBytes)

// countPieces counts the pieces of memory of 1 << shift bytes with code.
func countPieces(code []layout.Extent, shift int) uint64 {
	var n, next uint64
	for _, e := range code {
		first, last := max(uint64(e.Start)>>shift, next), uint64(e.End-1)>>shift
		if first <= last {
			n += last - first + 1
			next = last + 1
		}
	}
	return n
}

// drawBoxes draws all code.
func (s *side) drawBoxes(shift int, sc *scale) {
	listed := map[image.Addr]*hotPage{}
	for i := range s.Hottest {
		listed[s.Hottest[i].addr] = &s.Hottest[i]
	}
	cellBits := boxBits + shift - bits.TrailingZeros(boxCells)
	width := boxWidth
	if countPieces(s.Code, boxBits+shift) <= fewBoxes {
		width = boxWidth / 2
	}
	code, next := s.Code, uint64(0)
	for len(code) > 0 {
		i := max(uint64(code[0].Start)>>(boxBits+shift), next)
		if i > uint64(code[0].End-1)>>(boxBits+shift) {
			code = code[1:]
			continue
		}
		b := s.box(code, i, cellBits, width, sc, listed)
		if i > next && len(s.Boxes) > 0 {
			b.Gap = fmt.Sprint(i - next)
		}
		s.Boxes = append(s.Boxes, b)
		next = i + 1
	}
}

// box draws number i of the pieces of memory that are a box each.
func (s *side) box(code []layout.Extent, i uint64, cellBits, width int, sc *scale, listed map[image.Addr]*hotPage) box {
	var b box
	start := image.Addr(i * boxCells << cellBits)
	var sum float64
	b.picture = newPicture(start, 1<<cellBits, width, boxCells/width, sc, func(j int) int {
		from := start + image.Addr(j)<<cellBits
		last := from + (1<<cellBits - 1)
		for len(code) > 0 && code[0].End <= from {
			code = code[1:]
		}
		if len(code) == 0 || code[0].Start > last {
			return -1
		}
		b.All++
		hottest := layout.Spot{}
		for _, p := range spotsIn(s.Pages, from, last) {
			sum += p.N
			if p.N > hottest.N {
				hottest = p
			}
		}
		if hottest.N > 0 {
			b.Ran++
		}
		if h := listed[hottest.Addr]; h != nil && hottest.N > 0 {
			b.Links = append(b.Links, link{h.ID, h.title(), j % width * cellUnits, j / width * cellUnits})
		}
		return sc.class(hottest.N)
	})
	b.Share = share(sum, s.total)
	return b
}

// spotsIn returns those of spots that begin in [from, last].
func spotsIn(spots []layout.Spot, from, last image.Addr) []layout.Spot {
	i, _ := slices.BinarySearchFunc(spots, from, func(s layout.Spot, a image.Addr) int { return cmp.Compare(s.Addr, a) })
	j := i
	for j < len(spots) && spots[j].Addr <= last {
		j++
	}
	return spots[i:j]
}

// A hotPage is drawn by its cache lines.
type hotPage struct {
	ID, Addr   string
	N          string // executed instructions
	Share, Sum string // of all; of all in this page and the hotter ones
	Names      string
	Lines      []hotLine
	Mark       string // what is true of this page and the hotter ones together
	picture

	addr image.Addr
}

type hotLine struct {
	Addr, N, Share, Names string
}

func (h *hotPage) title() string {
	return fmt.Sprintf("page %s: %s executed instructions, %s: %s", h.Addr, h.N, h.Share, h.Names)
}

// linesPerPage is how many cache lines a page has.
const linesPerPage = layout.PageBytes / layout.LineBytes

func (s *side) hotPage(p layout.Spot, sum float64, sc *scale) hotPage {
	h := hotPage{
		ID: s.ID + strconv.FormatUint(uint64(p.Addr), 16), Addr: hex(p.Addr),
		N: Count(p.N), Share: share(p.N, s.total), Sum: share(sum, s.total),
		Names: s.names(p.Addr, layout.PageBytes, maxNames),
		addr:  p.Addr,
	}
	var heat [linesPerPage]float64
	for _, l := range spotsIn(s.Heat.Lines, p.Addr, p.Addr+layout.PageBytes-1) {
		heat[(l.Addr-p.Addr)/layout.LineBytes] = l.N
		h.Lines = append(h.Lines, hotLine{hex(l.Addr), Count(l.N), share(l.N, s.total), s.names(l.Addr, layout.LineBytes, 1)})
	}
	h.picture = newPicture(p.Addr, layout.LineBytes, linesPerPage, 1, sc, func(i int) int {
		from := p.Addr + image.Addr(i*layout.LineBytes)
		if heat[i] == 0 && !holdsCode(s.Code, from, from+layout.LineBytes-1) {
			return -1
		}
		return sc.class(heat[i])
	})
	return h
}

// holdsCode reports whether code lies in [from, last].
func holdsCode(code []layout.Extent, from, last image.Addr) bool {
	i, _ := slices.BinarySearchFunc(code, from, func(e layout.Extent, a image.Addr) int {
		if e.End <= a {
			return -1
		}
		return 1
	})
	return i < len(code) && code[i].Start <= last
}

// names tells of the procedures that ran in a piece of memory, the first n by name.
func (s *side) names(from image.Addr, size, n int) string {
	tenants := s.Tenants(from, from+image.Addr(size))
	var names []string
	for _, t := range tenants[:min(n, len(tenants))] {
		names = append(names, shorten(s.Names.NameOf(t.Proc.Proc.Name)))
	}
	text := strings.Join(names, ", ")
	if more := len(tenants) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// shorten makes a name safe to show, and cuts off what is too long.
func shorten(name string) string {
	n := 0
	for i := range name {
		if n++; n > maxName { // it may be of any length
			name = name[:i]
			break
		}
	}
	cut := n > maxName
	if r := []rune(Clean(name)); cut || len(r) > maxName {
		return string(r[:maxName-1]) + "…"
	}
	return Clean(name)
}

// classes is how many heats a scale tells apart; class 0 did not run.
const classes = 7

// A scale is logarithmic: each class is ten times as hot as the one before. The
// coldest takes in all that is colder still.
type scale struct {
	least [classes + 1]float64 // executed instructions of each class
}

// newScale makes a scale whose last class has the hottest of the spots.
func newScale(sides []*side, spots func(*side) []layout.Spot) *scale {
	hottest := 1.0
	for _, s := range sides {
		for _, p := range spots(s) {
			hottest = max(hottest, p.N)
		}
	}
	top := int(math.Floor(math.Log10(hottest)))
	switch { // a logarithm is not exact
	case math.Pow10(top) > hottest:
		top--
	case math.Pow10(top+1) <= hottest:
		top++
	}
	sc := &scale{}
	for k := 2; k <= classes; k++ {
		sc.least[k] = math.Pow10(top - classes + k)
	}
	return sc
}

func (sc *scale) class(n float64) int {
	if !(n > 0) {
		return 0
	}
	k := classes
	for k > 1 && n < sc.least[k] {
		k--
	}
	return k
}

// Name says what a class means.
func (sc *scale) Name(k int) string {
	switch k {
	case 0:
		return "none seen"
	case 1:
		return "below " + power(sc.least[2])
	case classes:
		return power(sc.least[k]) + " or more"
	}
	return power(sc.least[k]) + " to " + power(sc.least[k+1])
}

// power prints a power of ten.
func power(n float64) string {
	if n < 1 {
		return strconv.FormatFloat(n, 'g', 1, 64)
	}
	s := Count(n)
	for _, zeros := range []string{".00", ".0"} {
		s = strings.Replace(s, zeros, "", 1)
	}
	return s
}

// A legendRow explains one class and says how much of it each layout has.
type legendRow struct {
	Class int
	Name  string
	Of    []legendCell // by layout
}

type legendCell struct {
	N     string // spots
	Share string // of executions
}

// legend explains the scale, the hottest first. Spots have size bytes.
func (sc *scale) legend(sides []*side, spots func(*side) []layout.Spot, size uint64) []legendRow {
	rows := make([]legendRow, classes+1)
	for i := range rows {
		rows[i].Class = classes - i
		rows[i].Name = sc.Name(classes - i)
	}
	for _, s := range sides {
		var n [classes + 1]uint64
		var sum [classes + 1]float64
		ran := uint64(0)
		for _, p := range spots(s) {
			k := sc.class(p.N)
			n[k]++
			sum[k] += p.N
			ran++
		}
		n[0] = countPieces(s.Code, bits.TrailingZeros64(size)) - ran
		for i := range rows {
			k := rows[i].Class
			rows[i].Of = append(rows[i].Of, legendCell{Integer(n[k]), share(sum[k], s.total)})
		}
	}
	return rows
}

// cellName prints a power of two of bytes.
func cellName(n uint64) string {
	unit := 0
	for n >= 1024 && n%1024 == 0 && unit < 6 {
		n /= 1024
		unit++
	}
	return fmt.Sprintf("%d %s", n, []string{"bytes", "KB", "MB", "GB", "TB", "PB", "EB"}[unit])
}
