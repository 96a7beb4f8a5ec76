package web

import (
	"encoding/json"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// TestRunsShown: the overview, a page of one file and the document have what is known of the runs that were recorded, a hostile name as
// text, and nothing of what is not known.
func TestRunsShown(t *testing.T) {
	rec, path := recordingOf(t, "stalls", "chase.bfr")
	of := func() (overview, one string, doc report.Overview) {
		s := NewSite(viewOf(t, inferred(t, rec, path)), "127.0.0.1", nil)
		s.patience = -1
		page, err := s.Report(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(testtool.Body(t, testtool.Ask(s, "GET", "127.0.0.1", "/data/report?findings=0"))), &doc); err != nil {
			t.Fatal(err)
		}
		return testtool.Body(t, testtool.Ask(s, "GET", "127.0.0.1", "/")), string(page.Sections[0].Body), doc
	}
	facts := []string{"command", "host", "recorded", "processor time", "page faults", "context switches", "most memory of a process"}
	overview, one, doc := of()
	for _, name := range facts {
		if dt := "<dt>" + name + "</dt>"; strings.Contains(overview, dt) || strings.Contains(one, dt) {
			t.Errorf("%s of a recording that has none", name)
		}
	}
	if doc.Runs != nil || doc.Usage != nil {
		t.Errorf("a document of no runs has %v, %v", doc.Runs, doc.Usage)
	}

	rec.AddRun(sample.Run{Began: 1_700_000_000_000, Lasted: 3000, Host: "web1", Command: []string{"<script>alert(1)</script>", "..."},
		Usage: sample.Usage{User: 2e6, System: 1e6, Memory: 1 << 20, Minor: 5, Waited: 3, Preempted: 1}})
	rec.AddRun(sample.Run{Began: 1_700_000_060_000, Lasted: 3000, Host: "web2", Command: []string{"app"}, Usage: sample.Usage{User: 1e6, Major: 2}})
	overview, one, doc = of()
	for where, page := range map[string]string{"the overview": overview, "the page of one file": one} {
		for _, name := range facts {
			if !strings.Contains(page, "<dt>"+name+"</dt>") {
				t.Errorf("%s does not say %s", where, name)
			}
		}
		for _, value := range []string{"web1, web2", "2 runs, begun 2023-11-14T22:13:20Z to 2023-11-14T22:14:20Z, for 6 s in all", "3 s in user code, 1 s in the kernel", "&lt;script&gt;alert"} {
			if !strings.Contains(page, value) {
				t.Errorf("%s does not have %q", where, value)
			}
		}
		if strings.Contains(page, "<script>alert") {
			t.Errorf("%s has a command as markup", where)
		}
	}
	if u := doc.Usage; len(doc.Runs) != 2 || u == nil || u.UserSeconds != 3 || u.MinorFaults != 5 || u.MajorFaults != 2 || u.MemoryBytes != 1<<20 {
		t.Errorf("the document has runs %+v, which used %+v", doc.Runs, doc.Usage)
	}
}
