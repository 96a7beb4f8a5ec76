package web

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
)

// screens are what pages are looked at on.
var screens = map[string]testtool.Screen{
	"1400":           {Width: 1400},
	"400":            {Width: 400},
	"1400-dark":      {Width: 1400, Dark: true},
	"400-dark":       {Width: 400, Dark: true},
	"400-no-scripts": {Width: 400, NoScripts: true},
}

// TestOverviewInBrowser: the overview is whole on every screen, and its findings lead to code.
func TestOverviewInBrowser(t *testing.T) {
	b := testtool.NewBrowser(t)
	v := viewOf(t, sourceOf(t, "mix", "samples.bfr"))
	v.SetFiles([]string{"samples.bfr"})
	s := NewSite(v, "127.0.0.1", nil)
	s.patience = -1
	server := httptest.NewServer(s)
	defer server.Close()
	for name, screen := range screens {
		t.Run(name, func(t *testing.T) {
			tab := b.Open(t, server.URL+"/", screen)
			tab.Shot("overview-" + name)
			if n := tab.Count(".findings > li"); n != 5 {
				t.Errorf("%d findings, want 5", n)
			}
			checkLook(t, tab)
			tab.Click("#finding-hottest p a")
			tab.Wait("location.pathname.startsWith('/proc/')")
		})
	}
}

// checkLook complains of what axe-core and the browser complain of, and of pages that are wider than the screen.
func checkLook(t *testing.T, tab *testtool.Tab) {
	t.Helper()
	if n := tab.Wide(); n > 0 {
		t.Errorf("the page is %d pixels wider than the screen", n)
	}
	var under bool
	tab.Eval(`(() => {
		const title = document.createRange(), button = document.querySelector(".keys")?.getBoundingClientRect();
		title.selectNodeContents(document.querySelector("h1"));
		return button !== undefined && [...title.getClientRects()].some((r) => r.right > button.left && r.top < button.bottom);
	})()`, &under)
	if under {
		t.Error("the title runs under the button of keys")
	}
	for _, all := range [][]string{tab.Axe(), tab.Complaints()} {
		if len(all) > 0 {
			t.Errorf("complaints: %q", all)
		}
	}
}

// TestOverviewLater: findings that take long come when they are there, without the page being loaded again.
func TestOverviewLater(t *testing.T) {
	b := testtool.NewBrowser(t)
	s := NewSite(viewOf(t, sourceOf(t, "mix", "samples.bfr")), "127.0.0.1", nil)
	s.patience = 0
	server := httptest.NewServer(s)
	defer server.Close()
	tab := b.Open(t, server.URL+"/", testtool.Screen{})
	tab.Eval("window.same = true", nil)
	tab.Wait("document.querySelector('[data-later]') === null")
	if text := tab.Text("#finding-layout"); !strings.Contains(text, "of 4 KB") {
		t.Errorf("the finding about layout is %q", text)
	}
	tab.Wait("window.same")
}

// TestProceduresInBrowser: the list is filtered, sorted and walked, with the keyboard alone too.
func TestProceduresInBrowser(t *testing.T) {
	b := testtool.NewBrowser(t)
	v := viewOf(t, sourceOf(t, "mix", "samples.bfr"))
	server := httptest.NewServer(NewSite(v, "127.0.0.1", nil))
	defer server.Close()
	const first = `.proctable tr[data-row="0"] th`
	for name, screen := range screens {
		t.Run(name, func(t *testing.T) {
			tab := b.Open(t, server.URL+"/procedures", screen)
			if !screen.NoScripts {
				tab.Wait("document.querySelector('.proctable tr[data-row]')")
			}
			tab.Shot("procedures-" + name)
			checkLook(t, tab)
		})
	}
	byLost := slices.Clone(v.procs)
	slices.SortStableFunc(byLost, func(a, b *viewed) int { return int(b.row.Lost - a.row.Lost) })
	t.Run("keys", func(t *testing.T) {
		tab := b.Open(t, server.URL+"/procedures", testtool.Screen{})
		if got := tab.Text(first); got != byLost[0].row.Name {
			t.Errorf("%s is first, want that with most lost cycles, %s", got, byLost[0].row.Name)
		}
		want := v.procs[len(v.procs)/2].row
		typed := strings.ToUpper(want.Name[:1] + want.Name[len(want.Name)-2:]) // with a gap, in the other case
		tab.Key("/")
		tab.Type(typed)
		tab.Wait(fmt.Sprintf("document.activeElement.value === %q && [...document.querySelectorAll('.proctable tr[data-row] th')].some((e) => e.innerText === %q)", typed, want.Name))
		tab.Wait(fmt.Sprintf("location.search.includes('find=%s')", typed))
		tab.Key("Escape")
		tab.Wait(fmt.Sprintf("document.querySelector(%q)?.innerText === %q", first, byLost[0].row.Name))
		tab.Key("j")
		tab.Key("j")
		tab.Wait("document.querySelector('.at')?.dataset.row === '1' && document.activeElement.closest('.at')")
		tab.Key("k")
		tab.Wait("document.querySelector('.at')?.dataset.row === '0' && document.activeElement.closest('.at')")
		tab.Key("Enter")
		tab.Wait(fmt.Sprintf("location.pathname === '/proc/%s'", byLost[0].id))
	})
	t.Run("pointer", func(t *testing.T) {
		tab := b.Open(t, server.URL+"/procedures", testtool.Screen{})
		tab.Wait("document.querySelector('.proctable tr[data-row]')") // the server's table has the same words elsewhere
		tab.ClickText("samples")
		tab.Wait("document.querySelector('[aria-sort=descending]')?.innerText === 'samples ▾'")
		tab.ClickText("samples ▾")
		tab.Wait("document.querySelector('[aria-sort=ascending]')?.innerText === 'samples ▴'")
		tab.Click("input[type=number]")
		tab.Key("Backspace")
		tab.Key("Backspace")
		tab.Type("1")
		tab.Wait(fmt.Sprintf("document.querySelector('[role=status]').innerText.trim() === '%d of %d procedures'", len(v.procs), len(v.procs)))
		tab.Click(first + " a")
		tab.Wait("location.pathname.startsWith('/proc/')")
	})
	t.Run("no scripts", func(t *testing.T) {
		tab := b.Open(t, server.URL+"/procedures", testtool.Screen{NoScripts: true})
		tab.Click("input[type=search]")
		tab.Type(strings.ToUpper(byLost[0].row.Name))
		tab.Key("Enter")
		tab.Wait("location.search.includes('find=')")
		tab.Click("tbody th a")
		tab.Wait("location.pathname.startsWith('/proc/')")
	})
}

// TestReportInBrowser: the list of a page that is one file leads to the code inside.
func TestReportInBrowser(t *testing.T) {
	b := testtool.NewBrowser(t)
	_, text := reportOf(t, viewOf(t, sourceOf(t, "mix", "samples.bfr")), 3)
	file := testtool.Write(t, t.TempDir(), "report.html", text)
	tab := b.Open(t, "file://"+filepath.ToSlash(file), testtool.Screen{})
	tab.Click(`.proctable tr[data-row="0"] th a`)
	tab.Wait("document.querySelector('section:target .listing')")
	checkLook(t, tab)
}

// TestReportStacksInBrowser: a page that is one file has the flame graph, and the flow graphs with all
// blocks, whose blocks lead to their code in it.
func TestReportStacksInBrowser(t *testing.T) {
	b := testtool.NewBrowser(t)
	v, callee, _ := stackedView(t)
	_, text := reportOf(t, v, 3)
	if len(text) > maxFile {
		t.Errorf("%d bytes", len(text))
	}
	url := "file://" + filepath.ToSlash(testtool.Write(t, t.TempDir(), "report.html", text))
	id := procID(t, v, callee)
	for _, s := range []testtool.Screen{{Width: 1400}, {Width: 400, Dark: true}} {
		tab := b.Open(t, url, s)
		tab.Eval("document.querySelector('#flame').scrollIntoView()", nil) // it is drawn when it is about to be seen
		tab.Wait("document.querySelectorAll('.frame rect[fill]').length > 2")
		tab.Eval(`document.querySelector('.frame[name="`+callee+`"] rect').dispatchEvent(new MouseEvent("click", {bubbles: true}))`, nil)
		tab.Wait(`document.querySelector(".flame .about a[href='#` + id + `']") !== null && document.querySelector(".flame .about a[href^='/']") === null`)
		tab.Click(".flame .about a")
		graph := `document.querySelector("#` + id + ` .graph canvas")`
		tab.Wait(`Number(` + graph + `?.dataset.blocks) > 0`)
		tab.Eval(graph+`.scrollIntoView({block: "center"})`, nil)
		tab.Eval(`document.querySelector("#`+id+` .graph .tools button:last-child").click()`, nil)
		tab.Click("#" + id + " .graph canvas") // the hottest block is in its middle
		tab.Wait(`location.hash.startsWith("#` + id + `") && location.hash !== "#` + id + `" && document.getElementById(location.hash.slice(1)) !== null`)
		checkLook(t, tab)
	}
	bare := b.Open(t, url, testtool.Screen{NoScripts: true})
	if bare.Count(".aslist[open] .tree a") == 0 || bare.Count("#"+id+" .flow svg") == 0 {
		t.Error("without scripts, the list of stacks or the flow graph is not there")
	}
}

// TestReportWhole: a page of one file has what a build would do and what differs from an older recording; all that it leads to
// is in it, once.
func TestReportWhole(t *testing.T) {
	v, callee, _ := changedView(t, true)
	id := procID(t, v, callee)
	page, text := reportOf(t, v, 5)
	testtool.WellFormed(t, text)
	ids := map[string]int{}
	for _, m := range regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(text, -1) {
		ids[m[1]]++
	}
	for name, n := range ids {
		if n > 1 {
			t.Errorf("%d things are called %s", n, name)
		}
	}
	for _, want := range []string{"files", "hot", "order", "alignment", "fluff", "compared", "before-" + id, "flame", "flame-difference", "data-flame", "data-flame-difference"} {
		if ids[want] == 0 {
			t.Errorf("no %s", want)
		}
	}
	for _, m := range regexp.MustCompile(` href="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		if name, ok := strings.CutPrefix(m[1], "#"); !ok || ids[name] == 0 {
			t.Errorf("%s is not in the page", m[1])
		}
	}
	if i, k := strings.Index(text, `id="findings"`), strings.Index(text, `id="before-`); i < 0 || k < i {
		t.Error("the blocks come before the findings")
	}
	var doc report.Flame
	for _, d := range page.Data {
		if d.Name != "flame-difference" {
			continue
		}
		if err := json.Unmarshal(d.Of.(json.RawMessage), &doc); err != nil {
			t.Fatal(err)
		}
	}
	if err := doc.Check(); err != nil || len(doc.Changes) == 0 {
		t.Errorf("%v; %d changes", err, len(doc.Changes))
	}
	for _, c := range doc.Changes {
		if c.Frame >= len(doc.Frames) {
			t.Errorf("a change of frame %d of %d", c.Frame, len(doc.Frames))
		}
	}
}

// TestReportComparedInBrowser: of two flame graphs in a page, each is searched and coloured by itself.
func TestReportComparedInBrowser(t *testing.T) {
	b := testtool.NewBrowser(t)
	v, callee, _ := changedView(t, true)
	_, text := reportOf(t, v, 3)
	url := "file://" + filepath.ToSlash(testtool.Write(t, t.TempDir(), "report.html", text))
	for name, s := range map[string]testtool.Screen{"1400": {Width: 1400}, "400-dark": {Width: 400, Dark: true}} {
		tab := b.Open(t, url, s)
		for _, part := range []string{"flame", "flame-difference"} {
			tab.Eval("document.querySelector('#"+part+"').scrollIntoView()", nil)
			tab.Wait("document.querySelectorAll('#" + part + " .frame rect[fill]').length > 2")
		}
		tab.Click("#flame-difference form input")
		tab.Type(callee)
		tab.Wait("document.querySelector('#flame-difference form output').innerText.includes('samples')")
		var other string
		tab.Eval("document.querySelector('#flame form output').innerText", &other)
		if other != "" {
			t.Errorf("the other graph has found %q", other)
		}
		tab.Eval(`document.querySelector('#flame-difference .frame[name^="`+callee+`"] rect').dispatchEvent(new MouseEvent("click", {bubbles: true}))`, nil)
		tab.Wait(`document.querySelector("#flame-difference .about a[href='#` + v.byID[procID(t, v, callee)].id + `']") !== null`)
		checkLook(t, tab)
		tab.Shot("report-compared-" + name)
	}
}

// TestReportParts: what has no room in a report is left out from the end, and said.
func TestReportParts(t *testing.T) {
	long := report.ProcItem{}
	long.Procedure = strings.Repeat("x", maxItemBytes/3)
	if n := len(fitItems([]report.ProcItem{long, long, long, long})); n != 2 {
		t.Errorf("%d items of a third of the room each, and their figures, want 2", n)
	}
	code := report.NewPage("", "")
	for i := range 3 {
		code.Sections = append(code.Sections, report.Section{ID: strconv.Itoa(i), Body: template.HTML(strings.Repeat("x", maxFile/2-maxFile/10))})
	}
	page := report.NewPage("", "")
	if err := addCode(page, code); err != nil {
		t.Fatal(err)
	}
	size, err := sizeOf(page)
	if err != nil || size > maxFile-minFlame {
		t.Errorf("%d bytes, %v", size, err)
	}
	for i, s := range page.Sections {
		if has := !strings.Contains(string(s.Body), noRoom); has != (i < 2) {
			t.Errorf("section %d: %.100s", i, s.Body)
		}
	}
}

// TestReportBounds: graphs that have no room are left out, and the hottest procedures have theirs.
func TestReportBounds(t *testing.T) {
	v, _, _ := stackedView(t)
	sh := &sheet{page: report.NewPage("", ""), room: 4000}
	for _, p := range v.procs {
		v.addProc(sh, p, p.id, true, func(*viewed) string { return "" })
	}
	if sh.err != nil || sh.room < 0 || len(sh.page.Data) == len(v.procs) {
		t.Errorf("%v; %d bytes left, %d graphs of %d", sh.err, sh.room, len(sh.page.Data), len(v.procs))
	}
	for i, s := range sh.page.Sections {
		has := slices.ContainsFunc(sh.page.Data, func(d report.Datum) bool { return d.Name == "flow-"+v.procs[i].id })
		if strings.Contains(string(s.Body), `data-flow="flow-`+v.procs[i].id+`"`) != has {
			t.Errorf("%s: its picture and its document do not agree", v.procs[i].row.Name)
		}
	}
}

// TestHostileNamesInBrowser: names are text, whatever is in them.
func TestHostileNamesInBrowser(t *testing.T) {
	b := testtool.NewBrowser(t)
	src := sourceOf(t, "mix", "samples.bfr")
	const hostile = `</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1">\u2028 &lt;'"` + " `<b>` `"
	for _, ip := range src.Profile.Images {
		ip.ID.Path = "/" + hostile
		for i, r := range ip.Procs {
			r.Proc.Name = fmt.Sprint(i, hostile)
		}
	}
	v := viewOf(t, src)
	v.SetFiles([]string{hostile})
	s := NewSite(v, "127.0.0.1", nil)
	s.patience = -1
	server := httptest.NewServer(s)
	defer server.Close()
	check := func(tab *testtool.Tab) {
		t.Helper()
		var hacked bool
		tab.Eval("window.hacked === 1 || document.querySelector('img') !== null", &hacked)
		if all := tab.Complaints(); hacked || len(all) > 0 {
			t.Errorf("a name is markup, or %q", all)
		}
	}
	for _, path := range []string{"/", "/procedures", "/procedures?find=%3C%2Fscript%3E", "/build", "/layout", "/causes"} {
		tab := b.Open(t, server.URL+path, testtool.Screen{})
		if strings.HasPrefix(path, "/procedures") {
			tab.Wait("document.querySelector('.proctable tr[data-row] th').innerText.includes('</script>')")
		}
		check(tab)
	}
	_, text := reportOf(t, v, 3)
	tab := b.Open(t, "file://"+testtool.Write(t, t.TempDir(), "report.html", text), testtool.Screen{})
	tab.Wait("document.querySelector('.proctable tr[data-row] th').innerText.includes('</script>')")
	check(tab)
}
