package web

import (
	"math"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestCalls: what is said of the calls of a procedure is what was inferred of their
// instructions, and a caller on a stack has its samples, called however it was.
func TestCalls(t *testing.T) {
	rec, path, callee, caller, stack := aCall(t)
	rec.Counts[0].AddSample(0, stack[0].Off, 9)
	rec.Counts[0].AddStack(stack, 5)
	v := viewOf(t, inferred(t, rec, path))
	g := v.callGraph()
	if !g.stacks {
		t.Error("no stacks")
	}
	all, sites := 0, 0
	for _, ip := range v.src.Profile.Images {
		for _, r := range ip.Procs {
			key := procKey{ip: ip, addr: r.Proc.Addr}
			want, got := 0.0, 0.0
			for i := range r.Proc.Calls {
				if n := r.Call[i].N; n > 0 {
					want += n
					all++
				}
			}
			for to, s := range g.callees[key] {
				got += s.calls
				sites += s.sites
				if g.callers[to][key] != s {
					t.Errorf("%s is not a caller of what it calls", r.Proc.Name)
				}
			}
			if math.Abs(got-want) > 1e-9*want {
				t.Errorf("%s: %v calls, want %v", r.Proc.Name, got, want)
			}
		}
	}
	if all == 0 || sites != all {
		t.Errorf("%d call sites, want %d", sites, all)
	}
	p := v.byID[procID(t, v, callee)]
	table := v.callTable(g.callers[p.key()], "%d callers, %s calls", "", procHref)
	found := false
	for _, r := range table.Rows {
		if r.Name == caller && r.Samples == 5 {
			found = true
		}
	}
	if !found {
		t.Errorf("%s is no caller of %s with 5 samples: %+v", caller, callee, table.Rows)
	}
}

// TestProcPageLinks: all links of a procedure's page lead to something, in it or beside it.
func TestProcPageLinks(t *testing.T) {
	v := viewOf(t, sourceOf(t, "mix", "samples.bfr"))
	s := NewSite(v, "localhost", nil)
	for _, p := range v.procs {
		body := testtool.Body(t, testtool.Ask(s, "GET", "localhost", "/proc/"+p.id))
		ids := map[string]bool{}
		for _, part := range strings.Split(body, ` id="`)[1:] {
			id, _, _ := strings.Cut(part, `"`)
			if ids[id] {
				t.Errorf("%s: two elements are %q", p.row.Name, id)
			}
			ids[id] = true
		}
		for _, part := range strings.Split(body, ` href="`)[1:] {
			href, _, _ := strings.Cut(part, `"`)
			if id, ok := strings.CutPrefix(href, "#"); ok && !ids[id] {
				t.Errorf("%s: %s leads nowhere", p.row.Name, href)
			}
			if id, ok := strings.CutPrefix(href, "/proc/"); ok && v.byID[id] == nil {
				t.Errorf("%s: %s leads nowhere", p.row.Name, href)
			}
		}
	}
}
