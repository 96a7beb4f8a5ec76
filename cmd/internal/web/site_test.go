package web

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/infer/truth"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// testdata is that of the repository, seen from this package.
const testdata = "../../../testdata"

// recordingOf decodes what a recording in testdata has of one program, and returns it with the
// program's path: no other image is looked for.
func recordingOf(t *testing.T, program, recording string) (*sample.Recording, string) {
	t.Helper()
	path := filepath.Join(testdata, program, program)
	b, err := os.ReadFile(filepath.Join(testdata, program, recording))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := sample.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	build, err := image.ReadBuildID(path)
	if err != nil || build.IsZero() {
		t.Fatalf("%s: build ID %s, %v", path, build, err)
	}
	own := &sample.Recording{}
	for _, c := range rec.Counts {
		n := sample.NewCounts(c.CPU, c.Event)
		n.Image(sample.ImageID{Build: build, Path: "/opt/" + program})
		for _, ic := range c.Images {
			if filepath.Base(ic.ID.Path) != program {
				continue
			}
			for off, k := range ic.At {
				n.AddSample(0, off, k)
			}
		}
		own.Add(n)
	}
	return own, path
}

// inferred infers what ran from rec, of which the image is at path.
func inferred(t *testing.T, rec *sample.Recording, path string) *input.Session {
	return inferredOf(t, rec, path, "")
}

// inferredOf is inferred of an event; "" is that with most samples.
func inferredOf(t *testing.T, rec *sample.Recording, path, event string) *input.Session {
	t.Helper()
	file := filepath.Join(t.TempDir(), "alone.bfr")
	if err := os.WriteFile(file, rec.Encode(), 0o666); err != nil {
		t.Fatal(err)
	}
	src, err := input.Infer(context.Background(), []string{file}, input.Options{Symfs: []string{filepath.Dir(path)}, Notify: report.Quiet{}, Infer: infer.Options{Event: event}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(src.Close)
	return src
}

// sourceOf infers a recording of one of the programs of testdata.
func sourceOf(t *testing.T, program, recording string) *input.Session {
	t.Helper()
	rec, path := recordingOf(t, program, recording)
	return inferred(t, rec, path)
}

// viewOf explains src.
func viewOf(t *testing.T, src *input.Session) *View {
	t.Helper()
	v, err := NewView(src, report.Style{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// testSite serves what is known of testdata/stalls.
func testSite(t *testing.T) *Site {
	t.Helper()
	v := viewOf(t, sourceOf(t, "stalls", "chase.bfr"))
	t.Setenv("HOME", t.TempDir()) // where pprof has its settings
	pprof, err := v.Pprof()
	if err != nil {
		t.Fatal(err)
	}
	return NewSite(v, "127.0.0.1", pprof)
}

// procID returns the page of a procedure.
func procID(t *testing.T, v *View, name string) string {
	t.Helper()
	for _, p := range v.procs {
		if p.r.Proc.Name == name {
			return p.id
		}
	}
	t.Fatalf("no samples in %s", name)
	return ""
}

// TestSite: each page has its status, type and content.
func TestSite(t *testing.T) {
	s := testSite(t)
	chase := procID(t, s.View, "chase")
	const here = "127.0.0.1:7000"
	for _, tt := range []struct {
		path   string
		status int
		kind   string
		want   string // in the body
	}{
		{"/", 200, "text/html", `<a href="/proc/` + chase + `">chase</a> has `},
		{"/?sort=cpi", 301, "", ""}, // the list was there
		{"/procedures", 200, "text/html", `<a href="/proc/` + chase + `">chase</a>`},
		{"/procedures", 200, "text/html", `<a href="/procedures?up=1">lost</a> ▾`},
		{"/procedures?sort=cpi", 200, "text/html", `aria-sort="descending" title="cycles per instruction"`},
		{"/procedures?sort=cpi&up=1", 200, "text/html", `aria-sort="ascending" title="cycles per instruction"`},
		{"/procedures?sort=nonsense&from=-7&min=x&image=9", 200, "text/html", ">chase</a>"},
		{"/procedures?find=CHAS", 200, "text/html", "1 to 1 of 1 procedures"},
		{"/procedures?min=1000000", 200, "text/html", "have fewer than 1000000 samples"},
		{"/procedures?find=%3Cscript%3E", 200, "text/html", `value="&lt;script&gt;"`},
		{"/data/report", 200, "application/json", `"schema":"backfeed.report/1"`},
		{"/proc/" + chase, 200, "text/html", "dcache-miss up to"},
		{"/proc/" + chase, 200, "text/html", "Hottest blocks of chase"},
		{"/proc/" + chase, 200, "text/html", "Callers and callees"},
		{"/proc/p0-0", 404, "text/plain", "no such procedure"},
		{"/proc/..%2f..%2fetc%2fpasswd", 404, "text/plain", "no such procedure"},
		{"/causes", 200, "text/html", "dcache-miss"},
		{"/causes?cause=%3Cscript%3E", 404, "text/plain", "no such cause"},
		{"/build", 200, "text/html", "What a build would do"},
		{"/build?image=99", 404, "text/plain", "no such image"},
		{"/confidence", 200, "text/html", "within a factor 2"},
		{"/layout", 200, "text/html", "Code layout of stalls"},
		{"/layout?image=99", 404, "text/plain", "no such image"},
		{"/data/prof", 200, "application/json", `"procedure":"chase"`},
		{"/data/topstalls", 200, "application/json", `"schema":"backfeed.topstalls/2"`},
		{"/data/infer", 200, "application/json", `"schema":"backfeed.counts/2"`},
		{"/data/nothing", 404, "text/plain", "no such document"},
		{"/etc/passwd", 404, "text/plain", ""},
		{"/pprof/", 301, "", ""},
		{"/pprof/flamegraph", 200, "text/html", `chase`},
		{"/pprof/flamegraph", 200, "text/html", `<a href="/flamegraph">back`},
		{"/pprof/top", 200, "text/html", `chase`},
		{"/pprof/source?f=chase", 200, "text/html", "chase"},
		{"/pprof/disasm?f=chase", 200, "text/html", "mov (%"},
		{"/pprof/disasm?f=(", 400, "text/plain", "error parsing regexp"},
		{"/pprof/saveconfig?config=x", 404, "text/plain", ""},
		{"/pprof/deleteconfig?config=x", 404, "text/plain", ""},
	} {
		t.Run(tt.path, func(t *testing.T) {
			r := testtool.Ask(s, "GET", here, tt.path)
			body := testtool.Body(t, r)
			if r.StatusCode != tt.status || !strings.HasPrefix(r.Header.Get("Content-Type"), tt.kind) || !strings.Contains(body, tt.want) {
				t.Errorf("status %d, %q, want %d, %s with %q; body:\n%.3000s", r.StatusCode, r.Header.Get("Content-Type"), tt.status, tt.kind, tt.want, body)
			}
			if strings.Contains(body, "<script>alert") || r.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(r.Header.Get("Content-Security-Policy"), "default-src 'none'") {
				t.Errorf("not safe: headers %v", r.Header)
			}
			if r.StatusCode == 200 && !strings.HasPrefix(tt.path, "/pprof") {
				testtool.WellFormed(t, body)
			}
		})
	}
}

// TestSiteRefuses: what another site may have a browser ask gets no answer, and nothing
// can be sent.
func TestSiteRefuses(t *testing.T) {
	s := testSite(t)
	for _, tt := range []struct {
		method, host string
		headers      []string
		status       int
	}{
		{"GET", "127.0.0.1:7000", nil, 200},
		{"GET", "localhost:7000", nil, 200},
		{"GET", "LOCALHOST", nil, 200},
		{"GET", "[::1]:7000", nil, 200},
		{"HEAD", "localhost", nil, 200},
		{"GET", "evil.example", nil, 403},
		{"GET", "evil.example:7000", nil, 403},
		{"GET", "127.0.0.1.evil.example:7000", nil, 403},
		{"GET", "192.0.2.7:7000", nil, 403},
		{"POST", "127.0.0.1:7000", nil, 405},
		{"PUT", "127.0.0.1:7000", nil, 405},
		{"GET", "127.0.0.1:7000", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, 403},
		{"GET", "127.0.0.1:7000", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, 200},
		{"GET", "127.0.0.1:7000", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"}, 403},
		{"GET", "127.0.0.1:7000", []string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors"}, 200},
		{"GET", "127.0.0.1:7000", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"}, 200},
	} {
		for _, path := range []string{"/", "/pprof/top", "/data/prof"} {
			if r := testtool.Ask(s, tt.method, tt.host, path, tt.headers...); r.StatusCode != tt.status {
				t.Errorf("%s %s%s %v: status %d, want %d", tt.method, tt.host, path, tt.headers, r.StatusCode, tt.status)
			}
		}
	}
}

// TestLoading: another site's requests are refused before the pages are there, too, and then the pages answer.
func TestLoading(t *testing.T) {
	l := NewLoading("127.0.0.1")
	if r := testtool.Ask(l, "GET", "evil.example", "/"); r.StatusCode != http.StatusForbidden {
		t.Errorf("a request to another host: status %d", r.StatusCode)
	}
	r := testtool.Ask(l, "GET", "localhost", "/proc/p0-1")
	body := testtool.Body(t, r)
	testtool.WellFormed(t, body)
	if r.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "reading the recording") || r.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("status %d, %v: %s", r.StatusCode, r.Header, body)
	}
	l.Ready(testSite(t))
	if r := testtool.Ask(l, "GET", "localhost", "/"); r.StatusCode != http.StatusOK || r.Header.Get("Refresh") != "" {
		t.Errorf("once it is there: status %d, %v", r.StatusCode, r.Header)
	}
}

// TestLoadingInBrowser: a page that is opened while the recording is read becomes the one that was asked for.
func TestLoadingInBrowser(t *testing.T) {
	b := testtool.NewBrowser(t)
	s := testSite(t)
	for name, screen := range map[string]testtool.Screen{"1400": {Width: 1400}, "400-dark-no-scripts": {Width: 400, Dark: true, NoScripts: true}} {
		l := NewLoading("127.0.0.1")
		server := httptest.NewServer(l)
		defer server.Close()
		page := testtool.Write(t, t.TempDir(), "loading.html", testtool.Body(t, testtool.Ask(l, "GET", "localhost", "/")))
		tab := b.Open(t, "file://"+filepath.ToSlash(page), screen) // which stays as it is
		checkLook(t, tab)
		tab.Shot("loading-" + name)
		tab.Go(server.URL + "/causes")
		tab.Complaints() // of a browser about status 503
		l.Ready(s)
		tab.Wait("document.querySelector('#causes') !== null")
	}
}

// TestSiteHostileName: a name from a symbol table is text, wherever it comes.
func TestSiteHostileName(t *testing.T) {
	src := sourceOf(t, "stalls", "chase.bfr")
	const hostile = `"><script>alert(1)</script><a b='`
	for _, ip := range src.Profile.Images {
		ip.ID.Path = "/" + hostile
		for _, r := range ip.Procs {
			r.Proc.Name = hostile
		}
	}
	v := viewOf(t, src)
	s := NewSite(v, "localhost", nil)
	for _, path := range []string{"/", "/procedures", "/layout", "/proc/" + v.procs[0].id} {
		body := testtool.Body(t, testtool.Ask(s, "GET", "localhost", path))
		if strings.Contains(body, "<script>alert") || !strings.Contains(body, "&lt;script&gt;alert") {
			t.Errorf("%s: the name is not escaped, or not there", path)
		}
		testtool.WellFormed(t, body)
	}
	_, text := reportOf(t, v, 3)
	if strings.Contains(text, "<script>alert") {
		t.Error("the report has the name as it is")
	}
	testtool.WellFormed(t, text)
}

// reportOf is the page of one file, with the code of n procedures, and its text.
func reportOf(t *testing.T, v *View, n int) (page *report.Page, text string) {
	t.Helper()
	page, err := v.Report(n, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := page.Write(&b); err != nil {
		t.Fatal(err)
	}
	return page, b.String()
}

// TestPprofProfile: pprof sees all samples, where they were.
func TestPprofProfile(t *testing.T) {
	src := sourceOf(t, "stalls", "chase.bfr")
	v := viewOf(t, src)
	tool := &pprofImages{}
	p := v.pprofProfile(tool)
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	var all, chase int64
	for _, s := range p.Sample {
		all += s.Value[0]
		if len(s.Location[0].Line) > 0 && s.Location[0].Line[len(s.Location[0].Line)-1].Function.Name == "chase" {
			chase += s.Value[0]
			if s.Value[1] != s.Value[0]*int64(src.Profile.Event.Period) {
				t.Errorf("%d samples are %d ns", s.Value[0], s.Value[1])
			}
		}
	}
	if all != int64(src.Profile.Samples.Total) {
		t.Errorf("%d samples, want %d", all, src.Profile.Samples.Total)
	}
	r := v.byID[procID(t, v, "chase")].r
	if chase != int64(r.Samples) {
		t.Errorf("%d samples in chase, want %d", chase, r.Samples)
	}
	if _, err := tool.Open("/etc/passwd", 0, 0, 0, ""); !errors.Is(err, errNotOurs) {
		t.Errorf("another file can be opened: %v", err)
	}
	if _, err := tool.Disasm("/bin/true", 0, 100, false); !errors.Is(err, errNotOurs) {
		t.Errorf("another file can be disassembled: %v", err)
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	if _, err := profile.Parse(&b); err != nil {
		t.Error(err)
	}
}

// TestPprofStacks: samples with and without a stack add up.
func TestPprofStacks(t *testing.T) {
	rec, path, callee, caller, stack := aCall(t)
	c := rec.Counts[0]
	c.AddSample(0, stack[0].Off, 9)
	c.AddStack(stack, 5)
	src := inferred(t, rec, path)
	v := viewOf(t, src)
	p := v.pprofProfile(&pprofImages{})
	var all, called int64
	for _, s := range p.Sample {
		all += s.Value[0]
		if n := len(s.Location); n > 1 {
			name := func(i int) string {
				l := s.Location[i].Line
				return l[len(l)-1].Function.SystemName
			}
			if name(0) == callee && name(1) == caller {
				called += s.Value[0]
			}
		}
	}
	if all != int64(src.Profile.Samples.Total) || called != 5 {
		t.Errorf("%d samples, want %d; %d of %s called by %s, want 5", all, src.Profile.Samples.Total, called, callee, caller)
	}
}

// aCall is the recording of testdata/stalls and its image, of which it finds a procedure that another one calls: their names, and
// the stack of a sample of its first instruction.
func aCall(t *testing.T) (rec *sample.Recording, path, callee, caller string, stack []sample.Frame) {
	t.Helper()
	rec, path = recordingOf(t, "stalls", "chase.bfr")
	im, err := image.Open(path, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	callee, caller, stack = callOf(t, im, "")
	return rec, path, callee, caller, stack
}

// callOf finds the same of a procedure by its name; "" is any.
func callOf(t *testing.T, im *image.Image, name string) (callee, caller string, stack []sample.Frame) {
	t.Helper()
	for i := range im.Symbols() {
		p, err := im.Proc(i)
		if err != nil {
			continue
		}
		for k := range p.Calls {
			call := &p.Calls[k]
			to := im.Find(call.To)
			if call.To == 0 || call.Tail || to < 0 || to == i || im.Symbols()[to].Source == image.FromPLT || name != "" && im.Symbols()[to].Name != name {
				continue
			}
			for _, in := range im.Insts(&p.Blocks[call.Block]) {
				leaf, ok := im.OffsetOf(call.To)
				ret, ok2 := im.OffsetOf(in.Addr + image.Addr(in.Len))
				if in.Addr == call.Site && ok && ok2 {
					return im.Symbols()[to].Name, p.Name, []sample.Frame{{Image: 0, Off: leaf}, {Image: 0, Off: ret}}
				}
			}
		}
	}
	t.Fatal("no procedure calls another")
	return "", "", nil
}

// TestReport: the page of testdata/mix with its truth has all parts, is the same each
// time, and is bounded.
func TestReport(t *testing.T) {
	src := sourceOf(t, "mix", "samples.bfr")
	v := viewOf(t, src)
	exact, err := input.File(filepath.Join(testdata, "mix/truth.json.gz"), truth.Read)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Compare(exact); err != nil {
		t.Fatal(err)
	}
	write := func(n int) string {
		_, text := reportOf(t, v, n)
		return text
	}
	text := write(3)
	testtool.WellFormed(t, text)
	if write(3) != text {
		t.Error("another page the second time")
	}
	for _, want := range []string{`id="procedures"`, `id="topdown"`, `id="causes"`, `id="confidence"`, `id="lost"`, `id="accuracy"`, "block overlap", "Code layout of mix", `class="node"`, `class="listing"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	if nav, _, _ := strings.Cut(text, "</nav>"); strings.Contains(nav, "#"+v.procs[0].id) || !strings.Contains(nav, `href="#reading"`) {
		t.Error("the links at the top are of each procedure, or not of how to read their code")
	}
	if got := strings.Count(text, `class="listing"`); got != 3 {
		t.Errorf("the code of %d procedures, want 3", got)
	}
	if regexp.MustCompile(`(?:src|href)="(?:https?:|//|/)`).MatchString(text) {
		t.Error("the page leads out of itself")
	}
	if len(write(0)) >= len(text) || len(text) > 2<<20 {
		t.Errorf("%d bytes with the code of 3 procedures, %d without", len(text), len(write(0)))
	}
}

// TestSiteInBrowser: pages work with and without scripts, and the browser has nothing to
// complain of; pprof's flame graph is drawn by its own script.
func TestSiteInBrowser(t *testing.T) {
	b := testtool.NewBrowser(t)
	s := testSite(t)
	server := httptest.NewServer(s)
	defer server.Close()
	for _, tt := range []struct{ path, want string }{
		{"/", ".findings a"},
		{"/procedures", "th a"},
		{"/proc/" + procID(t, s.View, "chase"), ".graph canvas"},
		{"/causes", ".most"},
		{"/layout", "#under"},
		{"/pprof/flamegraph", ".boxbg"},
	} {
		t.Run(tt.path, func(t *testing.T) {
			tab := b.Open(t, server.URL+tt.path, testtool.Screen{})
			tab.Wait("document.querySelector(" + strconv.Quote(tt.want) + ")")
			if !strings.HasPrefix(tt.path, "/pprof") {
				tab.Wait("document.documentElement.dataset.script === 'on'")
			}
			if all := tab.Complaints(); len(all) > 0 {
				t.Errorf("the browser complains: %q", all)
			}
		})
	}
	t.Run("keys", func(t *testing.T) {
		tab := b.Open(t, server.URL+"/causes", testtool.Screen{Width: 400, Dark: true})
		tab.Key("?")
		if text := tab.Text("#keys"); !strings.Contains(text, "these keys") {
			t.Errorf("the list of keys is %q", text)
		}
		if all := tab.Axe(); len(all) > 0 {
			t.Errorf("axe-core: %q", all)
		}
		tab.Shot("keys-400-dark")
		tab.Key("Escape")
		tab.Wait("!document.querySelector('#keys').open")
	})
	t.Run("documents", func(t *testing.T) {
		tab := b.Open(t, server.URL+"/", testtool.Screen{})
		var schema string
		tab.Eval("fetch('/data/prof').then((r) => r.json()).then((d) => d.schema)", &schema)
		if schema != "backfeed.prof/2" {
			t.Errorf("a page cannot read its documents: %q", schema)
		}
	})
}
