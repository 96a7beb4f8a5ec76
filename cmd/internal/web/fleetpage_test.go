package web

import (
	"context"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/store"
)

// fleetSite serves a store of six hours of testdata/mix on two hosts; another program has two builds, and more of the time from the
// fourth hour on. host is how the second one is called.
func fleetSite(t *testing.T, host string) *Site {
	t.Helper()
	_, path := recordingOf(t, "mix", "samples.bfr")
	dir := filepath.Join(t.TempDir(), "a store")
	s, err := store.Create(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for hour := range 6 {
		for i, name := range []string{"h0", host} {
			rec, _ := recordingOf(t, "mix", "samples.bfr")
			c := rec.Counts[0]
			build, n := byte(1), uint64(3000)
			if hour >= 3 {
				build, n = 2, 9000
			}
			c.AddSample(c.Image(sample.ImageID{Path: "/opt/" + host + "/other", Build: sample.BuildID{build}}), 0x1000, n)
			at := time.Date(2026, 1, 2, hour, 0, 0, 0, time.UTC)
			if err := s.Put(sample.EpochAt(at, time.Hour), rec, map[string]string{"host": name, "zone": "z" + strconv.Itoa(i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	src, err := input.Infer(context.Background(), []string{dir}, input.Options{Symfs: []string{filepath.Dir(path)}, Notify: report.Quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(src.Close)
	return patient(viewOf(t, src))
}

// TestFleetPage: a store is shown by time; hosts and labels choose, other builds and shares that changed are told, and nothing is
// said of what did not change.
func TestFleetPage(t *testing.T) {
	s := fleetSite(t, "h1")
	body := testtool.Body(t, testtool.Ask(s, "GET", "localhost", "/fleet"))
	page := strings.ReplaceAll(body, filepath.Dir(s.src.Words()[0]), "DIR")
	page = strings.ReplaceAll(page, s.src.Words()[2], ".")
	testtool.Golden(t, "testdata/fleet.html", sections(page))
	for _, want := range []string{
		`<a href="/fleet?label=host%3Dh1">h1</a>`, "6 epochs that have samples", "another build: 0100000000 -&gt; 0200000000", "2026-01-02 03:00:00", "--deploy 2026-01-02T03:00:00Z", "hosts: 2",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q", want)
		}
	}
	_, rows, _ := strings.Cut(body, `id="changes"`)
	rows, _, _ = strings.Cut(rows, "</tbody>")
	if n := strings.Count(rows, "2026-01-02"); n != 2 || strings.Count(rows, "2026-01-02 03:00:00") != 2 {
		t.Errorf("%d changes, want those of both programs in the fourth hour: %s", n, rows)
	}
	answered(t, s, allLinks(t, s, "/fleet"))

	one := testtool.Body(t, testtool.Ask(s, "GET", "localhost", "/fleet?label=host%3Dh1"))
	if !strings.Contains(one, "--label host=h1") || !strings.Contains(one, `<b aria-current="true">h1</b>`) || !strings.Contains(one, "hosts: 1") {
		t.Error("a host that is chosen is not what is shown")
	}
	f, err, _ := s.fleetOf(nil, -1)
	if err != nil {
		t.Fatal(err)
	}
	h, err, _ := s.fleetOf(map[string]string{"host": "h1"}, -1)
	if err != nil {
		t.Fatal(err)
	}
	var sum uint64
	for i := range f.Steps {
		sum += f.Steps[i].Samples
		if f.Steps[i].Samples != 2*h.Steps[i].Samples {
			t.Errorf("hour %d: %d samples of both hosts, %d of one", i, f.Steps[i].Samples, h.Steps[i].Samples)
		}
	}
	if sum != s.src.Profile.Samples.Total {
		t.Errorf("%d samples over time, %d in all", sum, s.src.Profile.Samples.Total)
	}
	none := testtool.Body(t, testtool.Ask(s, "GET", "localhost", "/fleet?label=host%3Dnobody"))
	if !strings.Contains(none, "Nothing in the store has these labels") {
		t.Error("a selection of nothing does not say so")
	}
	plain := patient(viewOf(t, sourceOf(t, "stalls", "chase.bfr")))
	if r := testtool.Ask(plain, "GET", "localhost", "/fleet"); r.StatusCode != http.StatusNotFound {
		t.Errorf("without a store: status %d", r.StatusCode)
	}
}

// TestFleetNames: names of hosts and programs, and what a link asks for, are text.
func TestFleetNames(t *testing.T) {
	const hostile = "<script>alert(1)<!-- \x1b[31m'\"`&"
	s := fleetSite(t, hostile)
	for _, path := range []string{"/fleet", "/fleet?label=host%3D%3Cscript%3Ealert(1)%3C%2Fscript%3E%1b", "/fleet?label=host%3D" + "%3Cscript%3Ealert(1)%3C!--%20%1B%5B31m'%22%60%26"} {
		body := testtool.Body(t, testtool.Ask(s, "GET", "localhost", path))
		testtool.WellFormed(t, body)
		if strings.Contains(body, "<script>alert") || strings.Contains(body, "\x1b") || !strings.Contains(body, "alert(1)") {
			t.Errorf("%s: a name is markup, has what a terminal acts on, or is not there", path)
		}
	}
}
