package web

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// frames moves the graph of a page for a second, and returns how many frames were drawn, and how
// long they took at most, in ms.
const frames = `new Promise((done) => {
	const canvas = document.querySelector(".graph canvas");
	let n = 0, last = 0, longest = 0, start = 0;
	const step = (now) => {
		if (start === 0) { start = now; } else { longest = Math.max(longest, now - last); n++; }
		last = now;
		if (now - start > 1000) { done({n, longest}); return; }
		canvas.dispatchEvent(new KeyboardEvent("keydown", {key: n % 40 < 20 ? "ArrowDown" : "ArrowUp"}));
		requestAnimationFrame(step);
	};
	requestAnimationFrame(step);
})`

// TestProcInBrowser: source, code, list and graph of a procedure lead to each other, by pointer and
// by keys; without scripts all of them are there.
func TestProcInBrowser(t *testing.T) {
	b := testtool.NewBrowser(t)
	v := viewOf(t, sourceOf(t, "mix", "samples.bfr"))
	for _, p := range v.procs[2:] {
		p.row.Name, p.r.Proc.Name = `<img src=x onerror=alert(1)>`, `<img src=x onerror=alert(1)>`
	}
	server := httptest.NewServer(NewSite(v, "127.0.0.1", nil))
	t.Cleanup(server.Close)
	url := server.URL + "/proc/" + v.procs[0].id
	bare := b.Open(t, url, testtool.Screen{Width: 400, NoScripts: true})
	if bare.Count(".flow svg a[data-block]") < 5 || bare.Count(".hot tr[data-block] a") < 5 || bare.Count(".listing tbody[data-block]") < 5 {
		t.Error("without scripts, a part is not there")
	}
	for _, s := range []testtool.Screen{{Width: 1400}, {Width: 400, Dark: true}} {
		tab := b.Open(t, url, s)
		tab.Wait(`Number(document.querySelector(".graph canvas")?.dataset.blocks) > 0`)
		var ground []string // of the columns, which have names that colours of a legend have, too
		tab.Eval(`[...new Set([...document.querySelectorAll("main col, .panes td")].map((e) => getComputedStyle(e).backgroundColor))]`, &ground)
		if len(ground) != 1 || ground[0] != "rgba(0, 0, 0, 0)" {
			t.Errorf("%d wide: columns and cells of source and code are coloured %q", s.Width, ground)
		}
		tab.Key("j")
		tab.Key("j")
		tab.Wait(`document.querySelectorAll(".hot tr.chosen").length === 1`)
		first := `document.querySelectorAll(".hot tbody tr")`
		tab.Wait(first + `[1].matches(".chosen") && document.getElementById(` + first + `[1].dataset.block).matches(".chosen")`)
		tab.Key("k")
		tab.Wait(first + `[0].matches(".chosen")`)
		tab.Hover(".listing:not(.source) details[open] tr[data-line], .listing:not(.source) > .code:not(.heads) tr[data-line]")
		tab.Wait(`document.querySelectorAll(".source tr.linked").length === 1 && document.querySelectorAll(".code tr.linked").length > 0`)
		tab.Hover(".source tr[data-line] .text")
		tab.Wait(`document.querySelectorAll(".source tr.linked").length === 1 && document.querySelectorAll(".code tr.linked").length > 0`)
		tab.Key("/")
		tab.Type("MOV")
		tab.Wait(`document.querySelector(".find output").innerText.startsWith("1 of ")`)
		tab.Key("Enter")
		tab.Wait(`document.querySelector(".find output").innerText.startsWith("2 of ")`)
		tab.Eval("document.activeElement.blur()", nil)

		var before string
		tab.Eval(`document.querySelector(".graph canvas").dataset.at`, &before)
		tab.Drag(".graph canvas", 40, 30)
		tab.Wait(`document.querySelector(".graph canvas").dataset.at !== "` + before + `"`)
		tab.Eval(`document.querySelector(".graph canvas").dataset.scale`, &before)
		tab.ClickText("+")
		tab.Wait(`document.querySelector(".graph canvas").dataset.scale !== "` + before + `"`)
		tab.ClickText("fit")
		tab.Wait(`document.querySelector(".graph canvas").dataset.blocks === "` + strconv.Itoa(len(v.procs[0].r.Proc.Blocks)) + `"`)
		tab.ClickText("hottest")
		var seen struct{ N, Longest float64 }
		tab.Eval(frames, &seen)
		t.Logf("%d wide: %.0f frames in a second, the longest %.0f ms", s.Width, seen.N, seen.Longest)
		tab.ClickText("hottest")
		tab.Key("?")
		if text := tab.Text("#keys"); !strings.Contains(text, "hottest block") {
			t.Errorf("the keys: %s", text)
		}
		tab.Key("Escape")
		if n := tab.Wide(); n > 0 {
			t.Errorf("%d wide: the page is %d too wide", s.Width, n)
		}
		for _, v := range tab.Axe() {
			t.Errorf("%d wide: %s", s.Width, v)
		}
		for _, c := range tab.Complaints() {
			t.Errorf("%d wide: the browser complains: %s", s.Width, c)
		}
		tab.Shot("proc" + map[bool]string{false: "", true: "-dark"}[s.Dark])
	}
}

// largeProc is a procedure of a thousand blocks, in a loop, as interpreters have them.
func largeProc(t *testing.T) (v *View, p *viewed) {
	t.Helper()
	const ifs = 500
	var c strings.Builder
	fmt.Fprintf(&c, "volatile int a[%d], b[%d];\n__attribute__((noinline)) int steps(int n) {\n\tfor (int i = 0; i < n; i++) {\n", ifs, ifs)
	for i := range ifs {
		fmt.Fprintf(&c, "\t\tif (a[%d] > i) b[%d] += %d;\n", i, i, i+3)
	}
	c.WriteString("\t}\n\treturn b[0];\n}\nint main(int n, char **v) { (void)v; return steps(n); }\n")
	dir := t.TempDir()
	source, path := testtool.Write(t, dir, "steps.c", c.String()), filepath.Join(dir, "steps")
	testtool.Run(t, dir, testtool.Path(t, "gcc"), "-O1", "-g", "-Wl,--build-id", "-o", path, source)
	im, err := image.Open(path, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	proc, err := im.Proc(im.Lookup("steps"))
	if err != nil {
		t.Fatal(err)
	}
	counts := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cpu-clock", Period: 1_000_000, Unit: "ns"})
	counts.Image(sample.ImageID{Build: im.Build, Path: path})
	for i := range proc.Blocks {
		for _, in := range im.Insts(&proc.Blocks[i]) {
			if off, ok := im.OffsetOf(in.Addr); ok {
				counts.AddSample(0, off, uint64(1+i%17))
			}
		}
	}
	rec := &sample.Recording{}
	rec.Add(counts)
	v = viewOf(t, inferred(t, rec, path))
	return v, v.byID[procID(t, v, "steps")]
}

// TestLargeGraphInBrowser: a graph of a thousand blocks fits, pans by pointer and by keys, zooms, and leads to the code.
func TestLargeGraphInBrowser(t *testing.T) {
	b := testtool.NewBrowser(t)
	v, p := largeProc(t)
	n := len(p.r.Proc.Blocks)
	if n < 1000 {
		t.Fatalf("%d blocks", n)
	}
	url := served(t, NewSite(v, "", nil)) + "/proc/" + p.id
	for _, s := range []testtool.Screen{{Width: 1400}, {Width: 400, Dark: true}} {
		tab := b.Open(t, url, s)
		const canvas = `document.querySelector(".graph canvas")`
		tab.Wait("Number(" + canvas + "?.dataset.blocks) > 0")
		at := func() (x string) { tab.Eval(canvas+".dataset.at", &x); return x }
		blocks := func() (n int) { tab.Eval("Number("+canvas+".dataset.blocks)", &n); return n }
		if k := blocks(); k > 200 {
			t.Errorf("%d wide: %d blocks are drawn where some are in sight", s.Width, k)
		}
		before := at()
		tab.Drag(".graph canvas", -50, -40)
		tab.Wait(canvas + `.dataset.at !== "` + before + `"`)
		before = at()
		tab.Eval(canvas+".focus()", nil)
		tab.Key("ArrowDown")
		tab.Key("ArrowRight")
		tab.Wait(canvas + `.dataset.at !== "` + before + `"`)
		tab.ClickText("fit")
		tab.Wait("Number(" + canvas + ".dataset.blocks) === " + strconv.Itoa(n))
		tab.ClickText("+")
		tab.ClickText("−")
		tab.Wait("Number(" + canvas + ".dataset.blocks) === " + strconv.Itoa(n))
		tab.ClickText("hottest")
		tab.Wait("Number(" + canvas + ".dataset.blocks) < " + strconv.Itoa(n))
		used := tab.Spent()
		var moved struct{ N, Longest float64 }
		tab.Eval(frames, &moved)
		t.Logf("%d wide: %d blocks; %.0f frames in a second, the longest %.0f ms; each %.1f ms of the main thread", s.Width, n, moved.N, moved.Longest, 1e3*(tab.Spent().All-used.All)/max(1, moved.N))
		tab.ClickText("hottest")
		tab.Click(".graph canvas")
		tab.Wait("location.hash !== '' && document.getElementById(location.hash.slice(1))?.matches('.chosen')")
		if w := tab.Wide(); w > 0 {
			t.Errorf("%d wide: the page is %d too wide", s.Width, w)
		}
		for _, c := range tab.Complaints() {
			t.Errorf("%d wide: the browser complains: %s", s.Width, c)
		}
		tab.Shot("large-graph" + map[bool]string{false: "", true: "-dark"}[s.Dark])
	}
}
