package web

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
)

// A walk counts what is pressed on the way to an answer. Scrolling is free.
type walk struct {
	*testtool.Tab
	n int
}

func (w *walk) Click(selector string) { w.n++; w.Tab.Click(selector) }

func (w *walk) ClickText(text string) { w.n++; w.Tab.ClickText(text) }

// sees waits until an element is on the screen and has such text.
func (w *walk) sees(element, text string) {
	w.Wait(`(() => {
		const e = ` + element + `;
		if (!e || !e.innerText.includes(` + strconv.Quote(text) + `)) { return false; }
		const r = e.getBoundingClientRect();
		return r.height > 0 && r.top < innerHeight && r.bottom > 0;
	})()`)
}

// inLoop reports whether a block can be followed by itself.
func inLoop(p *image.Proc, block int) bool {
	seen := map[int]bool{}
	next := []int{block}
	for len(next) > 0 {
		b := next[0]
		next = next[1:]
		for _, e := range p.Edges {
			if e.From != b || e.To < 0 || seen[e.To] {
				continue
			}
			if e.To == block {
				return true
			}
			seen[e.To] = true
			next = append(next, e.To)
		}
	}
	return false
}

// TestTasksInBrowser: five questions are answered from the first page, with so many clicks at most.
// README.md has the numbers. The program is testdata/stalls, whose source has the answers: main calls
// chase, whose loop waits for memory. Last week another procedure had more of the time. What PGO would change is
// asked of testdata/mix, which has lines that a compiler knows again.
func TestTasksInBrowser(t *testing.T) {
	b := testtool.NewBrowser(t)
	rec, path := recordingOf(t, "stalls", "chase.bfr")
	im, err := image.Open(path, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, _, stack := callOf(t, im, "chase") // the recording has no stacks
	im.Close()
	rec.Counts[0].AddSample(0, stack[0].Off, 9)
	rec.Counts[0].AddStack(stack, 9)
	v := viewOf(t, inferred(t, rec, path))
	chase := v.byID[procID(t, v, "chase")]
	block, most := 0, uint64(0)
	for i, n := range chase.r.BlockSamples {
		if n > most {
			block, most = i, n
		}
	}
	if !inLoop(chase.r.Proc, block) {
		t.Fatalf("block %d of chase, which has most samples, is in no loop", block)
	}
	loop := report.BlockIDOf(chase.r.Proc.Blocks[block].Start)
	i := slices.IndexFunc(v.procs, func(p *viewed) bool { return p != chase })
	if i < 0 {
		t.Fatal("no procedure but chase has samples")
	}
	other := v.procs[i]
	v.Against(inferred(t, withMore(t, v, "stalls", "chase.bfr", other.r.Proc.Name, chase.r.Samples/other.r.Samples), path))
	t.Setenv("HOME", t.TempDir()) // where pprof has its settings
	pprof, err := v.Pprof()
	if err != nil {
		t.Fatal(err)
	}
	s := NewSite(v, "127.0.0.1", pprof)
	s.patience = -1
	server := httptest.NewServer(s)
	defer server.Close()
	mix := served(t, NewSite(viewOf(t, sourceOf(t, "mix", "samples.bfr")), "", nil))

	const hash = "document.getElementById(location.hash.slice(1))"
	toChase := func(w *walk) {
		w.Click("#finding-hottest p a")
		w.Wait("location.pathname === '/proc/" + chase.id + "' && document.readyState === 'complete'")
	}
	pprofTop := func(w *walk, then string) {
		w.Click("#view .menu-name")
		w.Click("#topbtn")
		w.Wait("location.pathname === '/pprof/top' && document.querySelector('#rows tr')")
		w.Click("#rows tr")
		w.Click("#view .menu-name")
		w.Click(then)
	}
	for _, tt := range []struct {
		name   string
		url    string
		clicks int
		do     func(w *walk)
		pprof  func(w *walk) // nil where its pages cannot
		theirs int
	}{
		{"find the hottest loop", server.URL, 2, func(w *walk) {
			toChase(w)
			w.Click(".hot tbody a")
			w.Wait("location.hash === '#" + loop + "'")
			w.sees(hash, "mov")
		}, func(w *walk) {
			pprofTop(w, "#disasm")
			w.Wait("location.pathname === '/pprof/disasm' && document.body.innerText.includes('chase')")
		}, 5},
		{"why is it slow", server.URL, 1, func(w *walk) {
			w.Click("#finding-stalls p a")
			w.Wait("location.hash === '#" + loop + "'")
			w.sees(hash, "dcache-miss")
		}, nil, 0},
		{"who calls it", server.URL, 2, func(w *walk) {
			toChase(w)
			w.ClickText("Callers and callees")
			w.sees("document.querySelector('table.calls tbody tr a, table.calls tbody tr th')", "main")
		}, func(w *walk) {
			pprofTop(w, "#peek")
			w.Wait("location.pathname === '/pprof/peek' && document.body.innerText.includes('chase')")
		}, 5},
		{"what would PGO change", mix, 1, func(w *walk) {
			w.Click("#finding-profile h3 a")
			w.sees("document.querySelector('#files')", "What it is worth")
			w.Eval("document.querySelector('#functions').scrollIntoView()", nil) // which is free
			w.sees("document.querySelector('#functions h2')", "Functions")
			w.sees("document.querySelector('#functions tbody tr')", "interpret") // its hottest, as the source has it
			w.sees("[...document.querySelectorAll('#functions tbody tr')].find((r) => r.innerText.includes('inlined again'))", "rnd")
		}, nil, 0},
		{"what changed since last week", server.URL, 2, func(w *walk) {
			w.ClickText("Compare")
			w.Wait("location.pathname === '/compare' && document.readyState === 'complete'")
			w.Click(fmt.Sprintf(`#procedures tbody tr:nth-child(-n+2) a[href="/compare?proc=%s"]`, other.id))
			w.sees("document.querySelector('.blockpairs article')", "more than chance")
		}, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &walk{Tab: b.Open(t, tt.url+"/", testtool.Screen{})}
			w.Wait("document.documentElement.dataset.script === 'on'")
			tt.do(w)
			theirs := "cannot"
			if tt.pprof != nil {
				p := &walk{Tab: b.Open(t, server.URL+"/pprof/", testtool.Screen{})}
				tt.pprof(p)
				theirs = strconv.Itoa(p.n)
				if p.n != tt.theirs {
					t.Errorf("pprof's pages took %d clicks, and %d are written down", p.n, tt.theirs)
				}
			}
			t.Logf("%s: %d clicks; pprof: %s", tt.name, w.n, theirs)
			if w.n > tt.clicks {
				t.Errorf("%d clicks, want %d at most", w.n, tt.clicks)
			}
			if row := fmt.Sprintf("| %s | %d | %s", tt.name, tt.clicks, theirs); !strings.Contains(testtool.Read(t, "README.md"), row) {
				t.Errorf("README.md has no row %s", row)
			}
		})
	}
}
