package web

import (
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// Samples of stacks that stackedView adds.
const (
	whole = 2000 // from main
	cut   = 1000 // of which no caller is known
)

// stackedView is a view of testdata/stalls with samples of a procedure below one that calls
// it, and with others of it below a frame in no image; and the names of both.
func stackedView(t *testing.T) (v *View, callee, caller string) {
	t.Helper()
	rec, path, callee, caller, stack := aCall(t)
	rec.Counts[0].AddSample(0, stack[0].Off, whole+cut+9)
	rec.Counts[0].AddStack(stack, whole)
	rec.Counts[0].AddStack([]sample.Frame{stack[0], {Image: sample.Unknown}}, cut)
	return viewOf(t, inferred(t, rec, path)), callee, caller
}

// leads reports whether frames lead from a node to one of so many samples.
func leads(f *report.Flame, n *report.FlameNode, samples uint64, procedures ...string) bool {
	if len(procedures) == 0 {
		return n.Samples == samples
	}
	return slices.ContainsFunc(n.Children, func(c *report.FlameNode) bool {
		return f.Frames[c.Frame].Procedure == procedures[0] && leads(f, c, samples, procedures[1:]...)
	})
}

// TestFlame: each sample is on one path from the root, by caller and inverted; what stacks lack is
// marked; and the stacks through a procedure are those that have it.
func TestFlame(t *testing.T) {
	v, callee, caller := stackedView(t)
	all := v.src.Profile.Samples.Used
	p := v.byID[procID(t, v, callee)]
	for _, tt := range []struct {
		name    string
		want    flameWanted
		samples uint64
		path    []string
	}{
		{"all", flameWanted{}, all, []string{"(callers not recorded)", "(not known)", callee}},
		{"inverted", flameWanted{inverted: true}, all, []string{callee, "(not known)", "(callers not recorded)"}},
		{"what it calls", flameWanted{proc: p}, p.r.Samples, []string{callee}},
		{"its callers", flameWanted{proc: p, inverted: true}, p.r.Samples, []string{callee, "(not known)", "(callers not recorded)"}},
	} {
		f := v.flame(tt.want)
		if err := f.Check(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		n := uint64(cut)
		if tt.name == "what it calls" {
			n = p.r.Samples
		}
		if !tt.want.inverted && tt.want.proc == nil && !leads(f, f.Root, whole, caller, callee) {
			t.Errorf("%s: no %s below %s", tt.name, callee, caller)
		}
		if f.Root.Samples != tt.samples || !leads(f, f.Root, n, tt.path...) {
			text, _ := json.Marshal(f)
			t.Errorf("%s: %d samples, want %d; no path %q with %d in %.2000s", tt.name, f.Root.Samples, tt.samples, tt.path, n, text)
		}
		if s := f.Stacks; s.Samples != all || s.Bare != all-whole-cut || s.Cut != cut || s.Complete != whole {
			t.Errorf("%s: stacks %+v of %d", tt.name, s, all)
		}
	}
}

// TestFlamePrune: what is put together keeps its samples.
func TestFlamePrune(t *testing.T) {
	v, _, _ := stackedView(t)
	for most := range 12 {
		f := v.flame(flameWanted{})
		before := f.Root.Samples
		f.Prune(most + 1)
		if err := f.Check(); err != nil || f.Root.Samples != before {
			t.Errorf("%d nodes: %d samples, were %d; %v", most+1, f.Root.Samples, before, err)
		}
		if rest := f.Frames[len(f.Frames)-1]; f.Left > 0 != (rest.Kind == report.FlameRest) {
			t.Errorf("%d nodes: %d left out, the last frame is %+v", most+1, f.Left, rest)
		}
	}
}

// TestFlamePages: the pages say what they lack, and refuse what is not there.
func TestFlamePages(t *testing.T) {
	v, callee, _ := stackedView(t)
	bare := viewOf(t, sourceOf(t, "stalls", "chase.bfr"))
	for _, tt := range []struct {
		of     *View
		path   string
		status int
		want   string
	}{
		{v, "/flamegraph", 200, `<li class="cut">`},
		{v, "/flamegraph?inverted=1", 200, `data-flame="flame?inverted=1"`},
		{v, "/flamegraph?proc=" + procID(t, v, callee), 200, callee + " and what it calls"},
		{v, "/flamegraph?inverted=1&proc=" + procID(t, v, callee), 200, "Callers of " + callee},
		{v, "/flamegraph?proc=p0-0", 404, "no such procedure"},
		{v, "/data/flame?proc=p0-0", 404, "no such procedure"},
		{v, "/data/flow?proc=p0-0", 404, "no such procedure"},
		{v, "/data/flow?proc=" + procID(t, v, callee), 200, `"schema":"backfeed.flow/1"`},
		{v, "/data/flame", 200, `"schema":"backfeed.flame/1"`},
		{bare, "/flamegraph", 200, "No call stacks were recorded"},
	} {
		r := testtool.Ask(NewSite(tt.of, "localhost", nil), "GET", "localhost", tt.path)
		body := testtool.Body(t, r)
		if r.StatusCode != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%s: status %d, want %d with %q:\n%.2000s", tt.path, r.StatusCode, tt.status, tt.want, body[max(0, strings.Index(body, "<body")):])
		}
		if tt.status == 200 && strings.HasPrefix(tt.path, "/flame") {
			testtool.WellFormed(t, body)
		}
	}
}

// TestFlameInBrowser: frames are drawn, found and widened, and lead on; without scripts the list is
// there.
func TestFlameInBrowser(t *testing.T) {
	b := testtool.NewBrowser(t)
	v, callee, caller := stackedView(t)
	for _, p := range v.procs {
		if name := p.r.Proc.Name; name != callee && name != caller {
			p.r.Proc.Name = `<img src=x onerror=alert(1)>`
		}
	}
	server := httptest.NewServer(NewSite(v, "127.0.0.1", nil))
	t.Cleanup(server.Close)
	for _, s := range []testtool.Screen{{Width: 1400}, {Width: 400, Dark: true}, {Width: 400, NoScripts: true}} {
		tab := b.Open(t, server.URL+"/flamegraph", s)
		if s.NoScripts {
			if tab.Count(".aslist[open] .tree a") == 0 || tab.Count(".frame") != 0 {
				t.Error("without scripts there is no list, or a picture")
			}
			continue
		}
		tab.Wait("document.querySelectorAll('.frame rect[fill]').length > 2")
		tab.Key("/")
		tab.Type(strings.ToUpper(callee))
		tab.Wait(`document.querySelector("output").innerText.includes("samples below or in them")`)
		tab.Eval(`document.activeElement.blur()`, nil)
		tab.ClickText("by image")
		tab.Wait(`document.querySelector("[aria-pressed=true]").innerText === "by image"`)
		tab.Eval(`document.querySelector('.frame[name="(no stack recorded)"] rect').dispatchEvent(new MouseEvent("click", {bubbles: true}))`, nil)
		tab.Wait(`!document.querySelector(".flame button[disabled]")`)
		tab.Key("w")
		tab.Wait(`document.querySelector(".flame button[disabled]")`)
		if n := tab.Wide(); n > 0 {
			t.Errorf("%d wide: the page is %d too wide", s.Width, n)
		}
		for _, v := range tab.Axe() {
			t.Errorf("%d wide: %s", s.Width, v)
		}
		for _, c := range tab.Complaints() {
			t.Errorf("%d wide: the browser complains: %s", s.Width, c)
		}
		tab.Shot("flame" + map[bool]string{false: "", true: "-dark"}[s.Dark])
	}
}

// waitingView is a view of 3 s off the processor, half of it below one call.
func waitingView(t *testing.T) (v *View, callee string) {
	t.Helper()
	rec, path, callee, _, stack := aCall(t)
	off := sample.NewCounts(rec.Counts[0].CPU, sample.OffEvent("interruptible"))
	i := off.Image(rec.Counts[0].Images[stack[0].Image].ID)
	frames := slices.Clone(stack)
	for k := range frames {
		frames[k].Image = i
	}
	off.AddSample(i, frames[0].Off, 3_000_000)
	off.AddStack(frames, 1_500_000)
	off.Weight = off.Delivered() * sample.OffPeriod
	rec.AddOff(off)
	return viewOf(t, inferredOf(t, rec, path, sample.OffCPU)), callee
}

// TestFlameOfWaits: of time off the processor, the page says times, and nothing of samples or stalls.
func TestFlameOfWaits(t *testing.T) {
	v, _ := waitingView(t)
	w := httptest.NewRecorder()
	NewSite(v, "127.0.0.1", nil).ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1/flamegraph", nil))
	page := w.Body.String()
	_, page, _ = strings.Cut(page, "<h2") // behind what all pages begin with
	page, _, _ = strings.Cut(page, "</main>")
	for text, want := range map[string]bool{
		"Time by stack": true, "3 s: 50.0%": true, "a hundredth of the time": true, "1.50 s": true,
		" samples": false, "stalls": false, "3000000": false,
	} {
		if strings.Contains(page, text) != want {
			t.Errorf("%q in the page: %v, want %v:\n%s", text, !want, want, page)
		}
	}
}

// TestFlameOfWaitsInBrowser: so does the picture.
func TestFlameOfWaitsInBrowser(t *testing.T) {
	b := testtool.NewBrowser(t)
	v, callee := waitingView(t)
	server := httptest.NewServer(NewSite(v, "127.0.0.1", nil))
	t.Cleanup(server.Close)
	tab := b.Open(t, server.URL+"/flamegraph", testtool.Screen{Width: 1400})
	tab.Wait("document.querySelectorAll('.frame rect[fill]').length > 2")
	tab.Key("/")
	tab.Type(callee)
	tab.Wait(`/^3 s below or in them/.test(document.querySelector("output").innerText)`)
	tab.Wait(`[...document.querySelectorAll(".frame title")].some((t) => t.textContent.endsWith(": 1.50 s"))`)
	tab.Eval(`document.querySelector('.frame[name="`+callee+`"] rect').dispatchEvent(new MouseEvent("click", {bubbles: true}))`, nil)
	tab.Wait(`/: [0-9.]+ s, [0-9.]+ % of all/.test(document.querySelector(".about").innerText)`)
	for _, c := range tab.Complaints() {
		t.Errorf("the browser complains: %s", c)
	}
}

// TestStacksKept: pages say that no stacks were recorded only where none were; where another event
// has them, they say which.
func TestStacksKept(t *testing.T) {
	stacked, _, _ := stackedView(t)
	other := func() *View {
		rec, path, _, _, stack := aCall(t)
		of := rec.Counts[0]
		event := of.Event
		event.Name = "faults"
		c := sample.NewCounts(of.CPU, event)
		c.Image(of.Images[0].ID)
		c.AddSample(0, stack[0].Off, 3)
		c.AddStack(stack, 3)
		rec.Add(c)
		return viewOf(t, inferred(t, rec, path))
	}()
	const none = "No call stacks were recorded"
	for _, tt := range []struct {
		name      string
		of        *View
		want, not string
	}{
		{"stacks", stacked, "", "stacks were recorded"},
		{"stacks of another event", other, "Call stacks were recorded of faults", none},
		{"no stacks", viewOf(t, sourceOf(t, "stalls", "chase.bfr")), none, "Call stacks were recorded"},
	} {
		for _, path := range []string{"/", "/flamegraph"} {
			body := testtool.Body(t, testtool.Ask(patient(tt.of), "GET", "localhost", path))
			if !strings.Contains(body, tt.want) || strings.Contains(body, tt.not) {
				t.Errorf("%s, %s: want %q and not %q:\n%.2000s", tt.name, path, tt.want, tt.not, sections(body))
			}
		}
	}
}
