package web

import (
	"encoding/json"
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/infer/compare"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// changedView is stackedView with more samples below the caller than before; both sides have stacks
// if stacked is set.
func changedView(t *testing.T, stacked bool) (v *View, callee, caller string) {
	t.Helper()
	rec, path, callee, caller, stack := aCall(t)
	if stacked {
		rec.Counts[0].AddSample(0, stack[0].Off, whole/2+cut)
		rec.Counts[0].AddStack(stack, whole/2)
		rec.Counts[0].AddStack([]sample.Frame{stack[0], {Image: sample.Unknown}}, cut)
	}
	v, _, _ = stackedView(t)
	v.Against(inferred(t, rec, path))
	return v, callee, caller
}

// TestFlameDifference: a frame has its samples of both sides, shares are of all of each, and what
// twice as many samples have is more than chance.
func TestFlameDifference(t *testing.T) {
	v, callee, caller := changedView(t, true)
	diff, err, _ := v.flameDifference(-1)
	f := diff.flame
	if err != nil || f == nil {
		t.Fatalf("%v, %v", f, err)
	}
	if err := f.Check(); err != nil {
		t.Error(err)
	}
	if f.Root.Samples != v.src.Profile.Samples.Used || f.Root.Before != v.old.Profile.Samples.Used || f.Root.Change != 0 || f.Root.Real {
		t.Errorf("the root is %+v", *f.Root)
	}
	find := func(n *report.FlameNode, name string) *report.FlameNode {
		for _, c := range n.Children {
			if f.Frames[c.Frame].Procedure == name {
				return c
			}
		}
		return &report.FlameNode{}
	}
	got, want := find(find(f.Root, caller), callee), float64(whole)/float64(f.Root.Samples)-float64(whole/2)/float64(f.Root.Before)
	if got.Samples != whole || got.Before != whole/2 || math.Abs(got.Change-want) > 1e-12 || !got.Real {
		t.Errorf("%s below %s is %+v, want a change of %v", callee, caller, *got, want)
	}
	// The same recording on both sides: nothing changed.
	v.old = v.src
	d := compare.Recordings(sideOf(v.src), sideOf(v.src), compare.What{})
	same := v.newFlameDifference(d, v.callStacks(), v.callStacks(), maxFlameNodes)
	for _, c := range same.Changes {
		if c.Real || c.Difference != 0 || c.Low > 0 || c.High < 0 {
			t.Errorf("%s: %+v of the same recording", same.Frames[c.Frame].Procedure, c)
		}
	}
}

// TestFlameDifferenceLess: what has fewer samples than before is less by more than chance, in the picture and in the
// table, and a stack that is no more is in the table alone.
func TestFlameDifferenceLess(t *testing.T) {
	v, callee, caller := changedView(t, true)
	rec, path, _, _, stack := aCall(t)
	rec.Counts[0].AddSample(0, stack[0].Off, whole/4) // before, it had all of whole, and others of unknown callers
	rec.Counts[0].AddStack(stack, whole/4)
	now := viewOf(t, inferred(t, rec, path))
	now.Against(v.src)
	diff, err, _ := now.flameDifference(-1)
	f := diff.flame
	if err != nil || f == nil {
		t.Fatalf("%v, %v", f, err)
	}
	if err := f.Check(); err != nil {
		t.Error(err)
	}
	less := func(n *report.FlameNode, name string) *report.FlameNode {
		i := slices.IndexFunc(n.Children, func(c *report.FlameNode) bool { return f.Frames[c.Frame].Procedure == name })
		if i < 0 {
			t.Fatalf("no %s below %s", name, f.Frames[n.Frame].Procedure)
		}
		return n.Children[i]
	}
	got := less(less(f.Root, caller), callee)
	want := float64(whole/4)/float64(f.Root.Samples) - float64(whole)/float64(f.Root.Before)
	if got.Samples != whole/4 || got.Before != whole || math.Abs(got.Change-want) > 1e-12 || got.Change >= 0 || !got.Real {
		t.Errorf("%s below %s is %+v, want a change of %v", callee, caller, *got, want)
	}
	var changed, gone bool
	for _, c := range f.Changes {
		switch {
		case f.Frames[c.Frame].Procedure == caller && c.Before == whole:
			changed = c.Real && c.High < 0 && c.Samples == whole/4
		case c.Samples == 0 && c.Before == cut:
			gone = c.High < 0
		}
	}
	if !changed || !gone {
		t.Errorf("less is told: %v; what is gone: %v; of %+v", changed, gone, f.Changes)
	}
}

// TestFlameDifferenceGone: a frame that only the older side has is in the table, and in no node.
func TestFlameDifferenceGone(t *testing.T) {
	v, _, _ := changedView(t, true)
	d, _, _ := v.compared(-1)
	before := newStacks(v.old, func(procKey) *viewed { return nil }, v.causesAt)
	before.all = append(before.all, flameStack{frames: []int{len(before.frames)}, n: 5000})
	before.frames = append(before.frames, report.FlameFrame{Name: report.Name{Procedure: "gone"}, Kind: report.FlameProcedure, Image: -1})
	before.keys = append(before.keys, flameKey{procKey: procKey{name: "gone"}, kind: report.FlameProcedure})
	before.sum.Samples += 5000
	f := v.newFlameDifference(d, before, v.callStacks(), maxFlameNodes)
	if err := f.Check(); err != nil {
		t.Error(err)
	}
	if !slices.ContainsFunc(f.Changes, func(c report.FlameChange) bool {
		return f.Frames[c.Frame].Procedure == "gone" && c.Before == 5000 && c.Samples == 0 && c.Real && c.High < 0
	}) {
		t.Errorf("what is gone is not in %+v", f.Changes)
	}
}

// TestFlameDifferencePage: the page has a table of what changed; a side without stacks is named.
func TestFlameDifferencePage(t *testing.T) {
	v, callee, _ := changedView(t, true)
	s := patient(v)
	body := testtool.Body(t, testtool.Ask(s, "GET", "localhost", "/compare"))
	testtool.WellFormed(t, body)
	for _, want := range []string{`data-flame="flame-difference"`, "Frames that changed most", "/compare?proc=" + procID(t, v, callee)} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in %.3000s", want, sections(body))
		}
	}
	var doc report.Flame
	if err := json.Unmarshal([]byte(testtool.Body(t, testtool.Ask(s, "GET", "localhost", "/data/flame-difference"))), &doc); err != nil || doc.Schema != "backfeed.flame-difference/1" || doc.Before == nil || len(doc.Changes) == 0 {
		t.Errorf("%v: %+v", err, doc)
	}
	v, _, _ = changedView(t, false)
	body = testtool.Body(t, testtool.Ask(patient(v), "GET", "localhost", "/compare"))
	if !strings.Contains(body, "The older recording has no stacks.") || strings.Contains(body, "This recording has no stacks") {
		t.Errorf("what lacks stacks is not named: %.3000s", sections(body))
	}
}

// TestFlameDifferenceInBrowser: frames have the colour, the sign and the figure of their change.
func TestFlameDifferenceInBrowser(t *testing.T) {
	b := testtool.NewBrowser(t)
	v, callee, _ := changedView(t, true)
	server := httptest.NewServer(patientAt(v, "127.0.0.1"))
	t.Cleanup(server.Close)
	for _, s := range []testtool.Screen{{Width: 1400}, {Width: 400, Dark: true}, {Width: 400, NoScripts: true}} {
		tab := b.Open(t, server.URL+"/compare", s)
		if s.NoScripts {
			if tab.Count("#flame-difference tbody tr") < 3 || tab.Count(".frame") != 0 {
				t.Error("without scripts there is no table, or a picture")
			}
			continue
		}
		tab.Wait(`[...document.querySelectorAll('.frame')].some((f) => f.getAttribute("name").startsWith("` + callee + ` ▲ +") && f.querySelector("rect").getAttribute("fill").startsWith("var(--m"))`)
		tab.Wait(`[...document.querySelectorAll('.frame')].some((f) => f.getAttribute("name").includes("▼ −") && f.querySelector("rect").getAttribute("fill").startsWith("var(--l"))`)
		tab.Wait(`document.querySelector(".flame .legend").innerText.includes("within chance")`)
		tab.Eval(`[...document.querySelectorAll('.frame')].find((f) => f.getAttribute("name").startsWith("`+callee+` ▲")).querySelector("rect").dispatchEvent(new MouseEvent("click", {bubbles: true}))`, nil)
		tab.Wait(`document.querySelector(".flame .about a[href^='/compare?proc=']") !== null && document.querySelector(".flame .about").innerText.includes("points")`)
		tab.ClickText("by image")
		tab.Wait(`document.querySelector("[aria-pressed=true]").innerText === "by image"`)
		tab.ClickText("by change")
		checkLook(t, tab)
		tab.Shot("flame-difference" + map[bool]string{false: "", true: "-dark"}[s.Dark])
	}
}

// patientAt is patient for requests to a host.
func patientAt(v *View, host string) *Site {
	s := NewSite(v, host, nil)
	s.patience = -1
	return s
}
