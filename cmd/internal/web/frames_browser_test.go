package web

import (
	"flag"
	"net/url"
	"slices"
	"testing"

	"backfeed/internal/testtool"
)

var framesOf = flag.String("frames", "", "measure how fast the page at `URL` moves, of procedures or of one procedure's graph, or begins, if it is a file (TestFrames)")

// moves are what TestFrames does in each frame, by what the page holds: t is a share of the way, 0 to 1.
var moves = []struct{ has, move string }{
	{".proctable", `(t) => { const b = document.querySelector(".proctable"); b.scrollTop = 10500 * t; }`},
	{".graph canvas", `(t) => { const c = document.querySelector(".graph canvas"); c.dispatchEvent(new KeyboardEvent("keydown", {key: t < 0.5 ? "ArrowDown" : "ArrowUp"})); c.dispatchEvent(new KeyboardEvent("keydown", {key: t < 0.5 ? "ArrowRight" : "ArrowLeft"})); }`},
}

// TestFrames measures, with a browser that draws without a graphics processor.
func TestFrames(t *testing.T) {
	if *framesOf == "" {
		t.Skip("no -frames")
	}
	b := testtool.NewBrowser(t)
	if u, err := url.Parse(*framesOf); err != nil {
		t.Fatal(err)
	} else if u.Scheme == "file" {
		for range 3 {
			// An empty page first: counting begins there, and goes on or anew with the next page, as the browser likes.
			tab := b.Open(t, "about:blank", testtool.Screen{})
			tab.Spent()
			tab.Go(*framesOf)
			tab.Eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))", nil)
			s := tab.Spent()
			p := b.Open(t, "about:blank", testtool.Screen{}).FirstPaint(*framesOf)
			t.Logf("first painted after %.0f ms, of which the main thread took %.0f; until it is whole, %.0f: scripts %.0f, style %.0f, layout %.0f",
				1e3*p.Clock, 1e3*p.Main, 1e3*s.All, 1e3*s.Script, 1e3*s.Style, 1e3*s.Layout)
		}
	}
	for _, m := range moves {
		tab := b.Open(t, *framesOf, testtool.Screen{})
		tab.Wait("document.documentElement.dataset.script === 'on'")
		tab.Eval("new Promise((done) => setTimeout(done, 2000))", nil)
		if tab.Count(m.has) == 0 {
			continue
		}
		tab.Eval("document.querySelector('"+m.has+"').scrollIntoView()", nil)
		const frames = 200
		before := tab.Spent()
		var gaps []float64
		tab.Eval(`new Promise((done) => {
			const move = `+m.move+`, gaps = [];
			let last;
			requestAnimationFrame(function frame(now) {
				if (last !== undefined) { gaps.push(now - last); }
				last = now;
				if (gaps.length === 200) { done(gaps); return; }
				move((gaps.length + 1) / 200);
				requestAnimationFrame(frame);
			});
		})`, &gaps)
		after := tab.Spent()
		slices.Sort(gaps)
		per := func(a, b float64) float64 { return 1e3 * (b - a) / frames }
		t.Logf("%s: a frame takes %.1f ms of the main thread's processor time: scripts %.1f, style %.1f, layout %.1f; frames are %.1f ms apart (median), 95 %% of them %.1f at most",
			m.has, per(before.All, after.All), per(before.Script, after.Script), per(before.Style, after.Style), per(before.Layout, after.Layout), gaps[len(gaps)/2], gaps[len(gaps)*95/100])
	}
}
