package report

import (
	"bytes"
	"fmt"
	"html/template"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/explain"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
)

// chase explains the procedure of testdata/stalls that follows pointers, with made-up
// figures: what is inferred may change without a change of every page.
func chase(t *testing.T) (*infer.ImageProfile, *explain.Explanation) {
	t.Helper()
	im, err := image.Open("../../../testdata/stalls/stalls", image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Close() })
	p, err := im.Proc(im.Lookup("chase"))
	if err != nil {
		t.Fatal(err)
	}
	r := &infer.Result{Proc: p, Entries: infer.Freq{N: 12, Conf: infer.Low}}
	e := &explain.Explanation{Result: r}
	for b := range p.Blocks {
		n := 1000 / float64(1+(b+2)%len(p.Blocks))
		r.Block = append(r.Block, infer.Freq{N: n, Conf: infer.Low, Among: infer.Low, Within: infer.Confidence(b % 4)})
		r.BlockSamples = append(r.BlockSamples, 0)
		for i, in := range im.Insts(&p.Blocks[b]) {
			v := explain.InstTime{Inst: in, Block: b, N: n, Samples: uint64(n) / 100 * uint64(i), Least: 0.25, Time: 0.25}
			if in.Class&image.Load != 0 {
				v.Time = 40
				v.Stall = explain.Stall{Cycles: 39.75, Unexplained: 1, Culprits: []explain.Culprit{
					{Cause: explain.DCache, From: in.Addr, Least: 8.75, Most: 38.75}, {Cause: explain.DTLB, From: p.Addr, Most: 30},
				}}
				e.Causes[explain.DCache] = explain.Range{Least: e.Causes[explain.DCache].Least + 8.75*n, Most: e.Causes[explain.DCache].Most + 38.75*n}
				e.Causes[explain.DTLB].Most += 30 * n
				e.Likeliest[explain.DCache] += 38.75 * n
				e.Unexplained += n
			}
			v.Total = v.Time * n
			e.Insts = append(e.Insts, v)
			e.Cycles += v.Total
			e.Dynamic += v.Stall.Cycles * n
			e.Static[1] += v.Least * n
			r.BlockSamples[b] += v.Samples
		}
		r.Samples += r.BlockSamples[b]
	}
	e.Dispatched = explain.Range{Least: e.Static[1], Most: e.Static[1]}
	for _, e := range p.Edges {
		r.Edge = append(r.Edge, infer.Freq{N: r.Block[e.From].N / float64(len(p.Blocks[e.From].Out))})
	}
	return &infer.ImageProfile{Image: im}, e
}

// fakeLines have a new line every 8 bytes, and every fourth of them is of an inlined function.
type fakeLines struct{ start image.Addr }

func (l fakeLines) Frames(a image.Addr) []image.Frame {
	n := int(a-l.start) / 8
	frames := []image.Frame{{Func: "chase", File: "/src/chase.c", Line: 10 + n + n/3*20}}
	if n%4 == 1 {
		frames = slices.Insert(frames, 0, image.Frame{Func: "next<node>", File: "/src/<node>.h", Line: 7})
	}
	return frames
}

// explained is a page with all that explains a procedure.
func explained(t *testing.T) string {
	t.Helper()
	ip, e := chase(t)
	p := NewPage("chase", "A test.")
	lines := fakeLines{e.Result.Proc.Addr}
	times := NewLineTimes(e, lines)
	code := &Code{Image: ip, Of: e, Lines: lines, Times: times, Calls: map[image.Addr]string{e.Insts[0].Addr: "#figures"}}
	text := func(_ string, n int) (string, bool) { return fmt.Sprintf("\tline <%d>", n), n%7 > 0 }
	callers := &CallTable{Caption: "Callers", Stacks: true, Whole: 12, Limit: 2, Rows: []CallRow{
		{Href: "#figures", Name: "a<b>", Image: "stalls", Sites: 2, Calls: 12, Conf: infer.Medium}, {Name: "(not known)", Calls: math.NaN(), Samples: 7}, {Name: "left out"}}}
	p.Links = []Link{{Href: "#code", Text: "here", Here: true}, {Href: "#flow", Text: "there"}}
	for _, part := range []struct {
		id, title string
		html      func() (template.HTML, error)
	}{
		{"figures", "Figures", func() (template.HTML, error) { return FactsHTML([]Fact{{"samples", "12"}}) }},
		{"topdown", "Top down", func() (template.HTML, error) { return RangesHTML("", TopDown(e.TopDown())) }},
		{"causes", "Causes", func() (template.HTML, error) { return RangesHTML("of its cycles", Causes(&e.Summary)) }},
		{"flow", "Flow", (&Flow{Of: e}).HTML},
		{"hot", "Hottest blocks", (&HotBlocks{Of: e, Code: code}).HTML},
		{"callers", "Callers", callers.HTML},
		{"callees", "Callees", (&CallTable{None: "It calls nothing."}).HTML},
		{"lines", "Source", (&LinePane{Times: times, Text: text}).HTML},
		{"code", "Code", code.HTML},
	} {
		html, err := part.html()
		if err != nil {
			t.Fatal(err)
		}
		p.Sections = append(p.Sections, Section{ID: part.id, Title: part.title, Body: html})
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	selfContained(t, b.String())
	return b.String()
}

// TestExplainedPage pins a page byte by byte, but for its style and its script.
func TestExplainedPage(t *testing.T) {
	got := explained(t)
	got = regexp.MustCompile(`(?s)<style>.*</style>|style-src [^"]*|<script>.*</script>`).ReplaceAllString(got, "")
	testtool.Golden(t, "testdata/chase.html", got)
}

// TestExplainedInBrowser: the page shows its bars, blocks and stalls without a script and
// without a complaint, on light and dark screens, and a block of the picture leads to its code.
func TestExplainedInBrowser(t *testing.T) {
	text := explained(t)
	_, e := chase(t)
	hot := 0
	for b, n := range e.Result.BlockSamples {
		if n > e.Result.BlockSamples[hot] {
			hot = b
		}
	}
	link := `href="#` + blockID("", e.Result.Proc.Blocks[hot].Start) + `"`
	if strings.Count(text, link) == 0 {
		t.Errorf("no edge leads to the hottest block, %s", link)
	}
	url := "file://" + filepath.ToSlash(testtool.Write(t, t.TempDir(), "page.html", text))
	b := testtool.NewBrowser(t)
	for _, dark := range []bool{false, true} {
		t.Run(fmt.Sprintf("dark %v", dark), func(t *testing.T) {
			colours := [][3]uint32{{0xff, 0xff, 0xff}, {0x5a, 0, 0}, {0xd7, 0x30, 0x1f}} // --ground, --h7, --h5 of style.css
			if dark {
				colours = [][3]uint32{{0x14, 0x17, 0x1b}, {0xff, 0xf0, 0xd6}, {0xf2, 0x8c, 0x38}}
			}
			tab := b.Open(t, url, testtool.Screen{Width: 1280, Height: 1400, Dark: dark})
			if all := tab.Complaints(); len(all) > 0 {
				t.Errorf("the browser complains: %q", all)
			}
			screen := tab.Picture()
			seen := make([]int, len(colours))
			bounds := screen.Bounds()
			for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
				for x := bounds.Min.X; x < bounds.Max.X; x++ {
					r, g, b, _ := screen.At(x, y).RGBA()
					if k := slices.Index(colours, [3]uint32{r >> 8, g >> 8, b >> 8}); k >= 0 {
						seen[k]++
					}
				}
			}
			// The strip of the hottest block alone has some 400 pixels, and so has a bar.
			if seen[0] < bounds.Dx()*bounds.Dy()/2 || seen[1] < 300 || seen[2] < 100 {
				t.Errorf("%d pixels of ground, %d of the hottest code, %d of bars", seen[0], seen[1], seen[2])
			}
		})
	}
}

// TestProcListEscapes: names come from files that nobody checked.
func TestProcListEscapes(t *testing.T) {
	const name = "<script>alert(1)</script>\x1b[31m\"&'"
	l := ProcList{Heads: ProcHeads(true), Form: &Choices{Find: name, Images: []string{name, name}}, Rows: []ProcRow{{Href: "/proc/p0-1", Name: name, Image: name, CPI: math.NaN(), Ratio: math.NaN(), Executions: math.NaN()}}}
	l.Heads[0].Href = "/?sort=" + "procedure"
	html, err := l.HTML(1)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(html); strings.Contains(s, "<script") || strings.Contains(s, "\x1b") || strings.Count(s, "&lt;script&gt;alert(1)") != 2+3 {
		t.Errorf("not escaped:\n%s", s)
	}
}

// TestRanges: figures as people read them.
func TestRanges(t *testing.T) {
	html, err := RangesHTML("", []Range{{Name: "a", Least: 0, Most: 0.5, Likeliest: 0.25}, {Name: "b", Least: 0.1, Most: 0.2, Likeliest: math.NaN()}, exactly("c", 2, "")})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"up to 50.0%", "10.0% to 20.0%", `<rect class="mark" x="50"`, `<rect class="least" x="0" y="1" width="200"`, `<td class="right">25.0%</td>`} {
		if !strings.Contains(string(html), want) {
			t.Errorf("no %s in\n%s", want, html)
		}
	}
}

// graphOf makes a flow graph: "ab3" is an edge from a to b, 3 times.
func graphOf(words ...string) (nodes []flowNode, edges []flowEdge) {
	for _, w := range words {
		e := flowEdge{from: int(w[0] - 'a'), to: int(w[1] - 'a'), n: float64(w[2] - '0')}
		for len(nodes) <= max(e.from, e.to) {
			nodes = append(nodes, flowNode{block: len(nodes)})
		}
		edges = append(edges, e)
	}
	return nodes, edges
}

// TestPlace: layers go down along the hot edges, no two nodes overlap, and the same
// graph is the same picture.
func TestPlace(t *testing.T) {
	for _, tt := range []struct {
		name  string
		edges []string
		back  []string // that lead up
	}{
		{"straight", []string{"ab1", "bc1"}, nil},
		{"diamond", []string{"ab7", "ac3", "bd7", "cd3"}, nil},
		{"loop", []string{"ab1", "bc9", "cb8", "cd1"}, []string{"cb"}},
		{"itself", []string{"aa5", "ab1"}, []string{"aa"}},
		{"two entries", []string{"ac1", "bc1"}, nil},
		{"long edge", []string{"ab1", "bc1", "cd1", "ad1"}, nil},
		{"switch", []string{"ab1", "ac1", "ad1", "ae1", "af1", "ag1", "ah1", "ai1", "aj1", "ak1", "al1"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodes, edges := graphOf(tt.edges...)
			width, height := place(nodes, edges)
			for _, e := range edges {
				name := string([]byte{byte('a' + e.from), byte('a' + e.to)})
				if back := slices.Contains(tt.back, name); e.Back != back {
					t.Errorf("%s leads up: %v, want %v", name, e.Back, back)
				}
				if down := nodes[e.from].Y < nodes[e.to].Y; e.from != e.to && down == e.Back {
					t.Errorf("%s: from y %d to %d, up: %v", name, nodes[e.from].Y, nodes[e.to].Y, e.Back)
				}
			}
			perLayer := map[int]int{}
			for i, a := range nodes {
				perLayer[a.Y]++
				if a.X < 0 || a.Y < 0 || a.X+nodeWidth > width || a.Y+nodeHeight > height {
					t.Errorf("node %c at %d,%d is outside of %dx%d", 'a'+i, a.X, a.Y, width, height)
				}
				for k, b := range nodes[:i] {
					if a.Y == b.Y && a.X < b.X+nodeWidth && b.X < a.X+nodeWidth {
						t.Errorf("nodes %c and %c overlap", 'a'+i, 'a'+k)
					}
				}
			}
			for y, n := range perLayer {
				if n > maxAbreast {
					t.Errorf("%d nodes at y %d", n, y)
				}
			}
			again, edges2 := graphOf(tt.edges...)
			place(again, edges2)
			for i := range nodes {
				if nodes[i].X != again[i].X || nodes[i].Y != again[i].Y {
					t.Errorf("node %c is elsewhere the second time", 'a'+i)
				}
			}
		})
	}
}

// TestPlaceLate: what control comes to from elsewhere stands above what it leads to, not
// beside the entry.
func TestPlaceLate(t *testing.T) {
	nodes, edges := graphOf("ab1", "bc1", "cd1", "ed1")
	place(nodes, edges)
	if nodes[4].Y != nodes[2].Y {
		t.Errorf("e is at y %d, want that of c, %d", nodes[4].Y, nodes[2].Y)
	}
}

// TestFlowLimit: of a procedure with too many blocks the hot ones are drawn, edges through
// others too, and the picture says so.
func TestFlowLimit(t *testing.T) {
	_, e := chase(t)
	blocks := len(e.Result.Proc.Blocks)
	if blocks < 4 {
		t.Fatalf("chase has %d blocks", blocks)
	}
	f := &Flow{Of: e, Blocks: 2}
	html, err := f.HTML()
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("2 of %d blocks are drawn", blocks); !strings.Contains(string(html), want) || strings.Count(string(html), `class="node"`) != 2 {
		t.Errorf("no %q, or not 2 blocks, in\n%s", want, html)
	}
}

// TestCodeLimit: what does not fit is folded away, and counted.
func TestCodeLimit(t *testing.T) {
	ip, e := chase(t)
	html, err := (&Code{Image: ip, Of: e, Rows: 1, Brief: true}).HTML()
	if err != nil {
		t.Fatal(err)
	}
	if s := string(html); !strings.Contains(s, "Left out of this page.") || !strings.Contains(s, `class="fold"`) || len(s) > 20_000 {
		t.Errorf("%d bytes, nothing is left out:\n%.2000s", len(s), s)
	}
	full, err := (&Code{Image: ip, Of: e}).HTML()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(full), `<td class="text">`); got != len(e.Insts) {
		t.Errorf("%d instructions, want %d", got, len(e.Insts))
	}
	if !strings.Contains(string(full), "dcache-miss 8.75 to 38.8") {
		t.Error("the stall of a pointer chase has no dcache-miss")
	}
}

// TestTimeClass: the classes of the scale, each twice the one below.
func TestTimeClass(t *testing.T) {
	for _, tt := range []struct {
		share float64
		want  int
	}{{1, 7}, {0.34, 7}, {0.33, 6}, {0.17, 6}, {0.16, 5}, {0.006, 1}, {0.005, 0}, {0, 0}} {
		if got := timeClass(tt.share); got != tt.want {
			t.Errorf("timeClass(%g) = %d, want %d", tt.share, got, tt.want)
		}
	}
}

// TestHeaderOfFewSamples: what lists stalls says of executions what prof says, of so many samples.
func TestHeaderOfFewSamples(t *testing.T) {
	for _, tt := range []struct {
		used            uint64
		common, counted float64
		want            string
	}{
		{826, infer.TimeFactor, 0, "a factor of 200 in\nprocedures with 3 samples or more, 3000 in others"},
		{infer.FewTotal, infer.TimeFactor, 0, "a factor of 12, in loops\n"},
		{826, infer.TimeFactor, 0.9, "Executions in 90.0% of the samples are as another run counted them"},
		{826, 0, 0.9, "within-function high 0.0%, medium 0.0%, low 0.0%.\nExecutions, and with"},
		{826, 1.6, 0, "one factor of up to 1.6, with 90 % confidence"},
	} {
		var b strings.Builder
		h := TimeHeader{Used: tt.used, CommonFactor: tt.common, counted: tt.counted}
		if err := h.write(&b, Style{}); err != nil || !strings.Contains(b.String(), tt.want) {
			t.Errorf("%d samples, %g: %v\n%s", tt.used, tt.common, err, b.String())
		}
	}
}
