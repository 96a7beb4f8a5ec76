package web

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// withMore is a recording of a program of testdata in which one procedure has times as many samples more.
func withMore(t *testing.T, v *View, program, recording, name string, times uint64) *sample.Recording {
	t.Helper()
	rec, _ := recordingOf(t, program, recording)
	p := v.byID[procID(t, v, name)]
	for _, c := range rec.Counts {
		for i, ic := range c.Images {
			more := map[sample.Offset]uint64{}
			for off, n := range ic.At {
				if a, ok := p.ip.Image.AddrOf(off); ok && a >= p.r.Proc.Addr && uint64(a) < uint64(p.r.Proc.Addr)+p.r.Proc.Size {
					more[off] = n * times
				}
			}
			for off, n := range more {
				c.AddSample(i, off, n)
			}
		}
	}
	return rec
}

// TestComparePage: what has become more is first, with the range of its difference, and leads to its blocks before and now.
func TestComparePage(t *testing.T) {
	old := sourceOf(t, "mix", "samples.bfr")
	_, path := recordingOf(t, "mix", "samples.bfr")
	v := viewOf(t, inferred(t, withMore(t, viewOf(t, old), "mix", "samples.bfr", "lookup", 1), path))
	s := patient(v)
	if r := testtool.Ask(s, "GET", "localhost", "/compare"); r.StatusCode != http.StatusNotFound || !strings.Contains(testtool.Body(t, r), "--against") {
		t.Errorf("without an older recording: status %d", r.StatusCode)
	}
	v.Against(old)
	body := testtool.Body(t, testtool.Ask(s, "GET", "localhost", "/compare"))
	testtool.Golden(t, "testdata/compare.html", sections(body))
	_, rows, _ := strings.Cut(body, "<tbody>")
	first, _, _ := strings.Cut(rows, "</tr>")
	for _, want := range []string{">lookup</a>", "yes", `/compare?proc=` + procID(t, v, "lookup")} {
		if !strings.Contains(first, want) {
			t.Errorf("no %q in the first row: %s", want, first)
		}
	}
	answered(t, s, allLinks(t, s, "/compare"))
	proc := "/compare?proc=" + procID(t, v, "lookup")
	body = testtool.Body(t, testtool.Ask(s, "GET", "localhost", proc))
	if n := strings.Count(body, "<pre "); n < 4 || n%2 != 0 {
		t.Errorf("%d blocks, want them in pairs", n)
	}
	answered(t, s, allLinks(t, s, proc))
	if r := testtool.Ask(s, "GET", "localhost", "/compare?proc=p9-9"); r.StatusCode != http.StatusNotFound {
		t.Errorf("no such procedure: status %d", r.StatusCode)
	}

	// The document is that of diff.
	var doc report.RecordingDiff
	if err := json.Unmarshal([]byte(testtool.Body(t, testtool.Ask(s, "GET", "localhost", "/data/diff"))), &doc); err != nil || doc.Schema != "backfeed.recordings-diff/2" || len(doc.Rows) == 0 {
		t.Fatalf("%v: %+v", err, doc)
	}
	for _, r := range doc.Rows {
		if !(r.Low <= r.High) || r.Difference < r.Low-0.01 || r.Difference > r.High+0.01 {
			t.Errorf("%s: %v is not within %v to %v", r.Procedure, r.Difference, r.Low, r.High)
		}
	}
}

// TestCompareNames: names of both recordings are text.
func TestCompareNames(t *testing.T) {
	const hostile = "<script>alert(1)</script>\x1b[31m'\"`&"
	old, src := sourceOf(t, "stalls", "chase.bfr"), sourceOf(t, "stalls", "chase.bfr")
	for _, ip := range append(old.Profile.Images, src.Profile.Images...) {
		ip.ID.Path = "/opt/" + hostile
		for _, r := range ip.Procs {
			r.Proc.Name = hostile
		}
	}
	v := viewOf(t, src)
	v.Against(old)
	s := patient(v)
	for _, path := range []string{"/compare", "/compare?proc=" + v.procs[0].id} {
		body := testtool.Body(t, testtool.Ask(s, "GET", "localhost", path))
		testtool.WellFormed(t, body)
		if strings.Contains(body, "<script>alert") || strings.Contains(body, "\x1b") || !strings.Contains(body, "alert(1)") {
			t.Errorf("%s: a name is markup, has what a terminal acts on, or is not there", path)
		}
	}
}
