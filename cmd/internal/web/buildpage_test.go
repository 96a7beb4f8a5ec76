package web

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
)

// allLinks returns where the links of a page lead, all of which must be answered.
func allLinks(t *testing.T, s *Site, path string) []string {
	t.Helper()
	body := testtool.Body(t, testtool.Ask(s, "GET", "localhost", path))
	var all []string
	for _, e := range testtool.WellFormed(t, body) {
		for _, a := range e.Attr {
			if e.Name.Local == "a" && a.Name.Local == "href" {
				all = append(all, a.Value)
			}
		}
	}
	return all
}

// answered checks that links of a page lead to what is there, with the part that they name.
func answered(t *testing.T, s *Site, links []string) {
	t.Helper()
	for _, link := range links {
		if !strings.HasPrefix(link, "/") || strings.HasPrefix(link, "/pprof") {
			continue
		}
		path, part, _ := strings.Cut(link, "#")
		r := testtool.Ask(s, "GET", "localhost", path)
		body := testtool.Body(t, r)
		if r.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", link, r.StatusCode)
		}
		if part != "" && !strings.Contains(body, `id="`+part+`"`) {
			t.Errorf("%s: the page has no such part", link)
		}
	}
}

// patient is a site whose pages wait until all is worked out.
func patient(v *View) *Site {
	s := NewSite(v, "localhost", nil)
	s.patience = -1
	return s
}

// sections returns a page without its style, for golden files.
func sections(body string) string {
	_, body, _ = strings.Cut(body, "<body>")
	body, _, _ = strings.Cut(body, "<footer>")
	return body
}

// TestBuildPage: what a build would do with the recording of testdata/mix: files with their commands, order, alignment, cold
// code. Rows lead to their procedures.
func TestBuildPage(t *testing.T) {
	v := viewOf(t, sourceOf(t, "mix", "samples.bfr"))
	s := patient(v)
	body := testtool.Body(t, testtool.Ask(s, "GET", "localhost", "/build"))
	page := regexp.MustCompile(`\S*/alone\.bfr --symfs \S+`).ReplaceAllString(body, "alone.bfr --symfs .")
	testtool.Golden(t, "testdata/build.html", sections(page))
	for _, want := range []string{`id="files"`, `id="order"`, `id="alignment"`, `id="fluff"`, "backfeed emit ", "<pre class=\"command\"><code>backfeed layout /opt/mix alone.bfr --symfs . --fluff</code>"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s", want)
		}
	}
	links := allLinks(t, s, "/build")
	answered(t, s, links)
	procs := 0
	for _, l := range links {
		if strings.HasPrefix(l, "/proc/") {
			procs++
		}
	}
	if procs < 10 {
		t.Errorf("%d rows lead to procedures", procs)
	}
}

var donePercent = regexp.MustCompile(`; (\d+) % of the work is done`)

// TestBuildPageWaits: a page that is asked for before all is worked out says so, with one progress of all that
// never goes back, and asks again until it has all.
func TestBuildPageWaits(t *testing.T) {
	s := NewSite(viewOf(t, sourceOf(t, "mix", "samples.bfr")), "localhost", nil)
	s.patience = 0
	waited, last := false, 0
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		r := testtool.Ask(s, "GET", "localhost", "/build")
		body := testtool.Body(t, r)
		testtool.WellFormed(t, body)
		again := r.Header.Get("Refresh") != ""
		if again != strings.Contains(body, `id="waiting"`) {
			t.Fatalf("it asks again: %v, which it does not say", again)
		}
		if !again {
			break
		}
		waited = true
		said := donePercent.FindStringSubmatch(body)
		if said == nil {
			t.Fatalf("it does not say how much is done: %.1000s", sections(body))
		}
		if n, _ := strconv.Atoi(said[1]); n < last || n > 100 {
			t.Fatalf("%d %% is done after %d %%", n, last)
		} else {
			last = n
		}
		if time.Since(began) > 5*time.Minute {
			t.Fatal("not worked out in 5 minutes")
		}
	}
	if !waited {
		t.Error("a page without patience waited")
	}
}

// TestCausesPage: each stall leads to its block, each cause to the stalls that it may explain.
func TestCausesPage(t *testing.T) {
	s := patient(viewOf(t, sourceOf(t, "stalls", "chase.bfr")))
	for _, path := range []string{"/causes", "/causes?n=all", "/causes?cause=dcache-miss"} {
		links := allLinks(t, s, path)
		answered(t, s, links)
		blocks := 0
		for _, l := range links {
			if strings.HasPrefix(l, "/proc/") && strings.Contains(l, "#b") {
				blocks++
			}
		}
		if blocks == 0 {
			t.Errorf("%s: no stall leads to its code", path)
		}
	}
	body := testtool.Body(t, testtool.Ask(s, "GET", "localhost", "/causes"))
	if !strings.Contains(body, `href="/causes?cause=dcache-miss#stalls"`) || strings.Index(body, `id="stalls"`) > strings.Index(body, `id="causes"`) {
		t.Error("no link from a cause to its stalls, or stalls are not first")
	}
	if r := testtool.Ask(s, "GET", "localhost", "/causes?cause=nonsense"); r.StatusCode != http.StatusNotFound {
		t.Errorf("a cause that is none: status %d", r.StatusCode)
	}
}

// TestLayoutPageStripped: where no function can be moved, the page says why and what could be done, and draws what is linked.
func TestLayoutPageStripped(t *testing.T) {
	t.Setenv("HOME", t.TempDir()) // perf may keep the program with its symbols there
	rec, path := recordingOf(t, "stalls", "chase.bfr")
	stripped := filepath.Join(t.TempDir(), "stalls")
	testtool.Put(t, stripped, testtool.Read(t, path))
	testtool.Run(t, ".", "strip", stripped)
	s := patient(viewOf(t, inferred(t, rec, stripped)))
	body := testtool.Body(t, testtool.Ask(s, "GET", "localhost", "/layout"))
	testtool.WellFormed(t, body)
	for _, want := range []string{"it is stripped", "keeps its symbol table", "As linked"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(body, "Functions ordered") {
		t.Error("an order that there is none of is drawn")
	}
	if body := testtool.Body(t, testtool.Ask(s, "GET", "localhost", "/build")); !strings.Contains(body, "no function that a linker could move ran") {
		t.Error("Build does not say that there is no order")
	}
}

// TestBuildNames: names of procedures, of files and of what was asked for are text.
func TestBuildNames(t *testing.T) {
	rec, path := recordingOf(t, "stalls", "chase.bfr")
	const hostile = "<script>alert(1)</script>\x1b[31m'\"`&"
	dir := filepath.Join(t.TempDir(), "<b>\x1b[31m")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Skip(err)
	}
	testtool.Put(t, filepath.Join(dir, "stalls"), testtool.Read(t, path))
	src := inferred(t, rec, filepath.Join(dir, "stalls"))
	for _, ip := range src.Profile.Images {
		ip.ID.Path = "/opt/" + hostile
		for _, r := range ip.Procs {
			r.Proc.Name = hostile
			r.Proc.Symbol.Name = hostile
		}
	}
	s := patient(viewOf(t, src))
	for _, path := range []string{"/build", "/causes", "/layout"} {
		body := testtool.Body(t, testtool.Ask(s, "GET", "localhost", path))
		testtool.WellFormed(t, body)
		if strings.Contains(body, "<script>alert") || strings.Contains(body, "\x1b") || strings.Contains(body, "<b>\\x1b") {
			t.Errorf("%s: a name is markup, or has what a terminal acts on", path)
		}
	}
	_, text := reportOf(t, s.View, 2)
	for _, bad := range []string{"<script>alert", "\x1b"} {
		if i := strings.Index(text, bad); i >= 0 {
			t.Errorf("the report has a name as it is: %.200q", text[max(0, i-100):])
		}
	}
}

// TestWideRanges: what the samples do not tell is words and no bar.
func TestWideRanges(t *testing.T) {
	html, err := report.RangesHTML("", []report.Range{{Name: "a", Least: 0.01, Most: 0.9}, {Name: "b", Least: 0.2, Most: 0.9}, {Name: "c", Most: 0.4}})
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(string(html), "<tr>")[2:]
	if !strings.Contains(rows[0], "not known: 0 to 90.0%") || strings.Contains(rows[0], "<svg") {
		t.Errorf("a range of everything is drawn: %s", rows[0])
	}
	if !strings.Contains(rows[1], `class="most" x="0" y="1" width="40"`) {
		t.Errorf("what is certain is not drawn, or more is: %s", rows[1])
	}
	if !strings.Contains(rows[2], `class="most" x="0" y="1" width="80"`) {
		t.Errorf("a narrow range is not drawn: %s", rows[2])
	}
}
