package testtool

import (
	"bufio"
	"bytes"
	"cmp"
	_ "embed" // axe.min.js
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long a browser may take over anything on a machine that is busy.
const patience = time.Minute

// A Browser is a chromium without a window that a test drives through the DevTools protocol,
// over a pair of pipes: no port is open. The test is skipped where there is none.
type Browser struct {
	*chromium
	profile string // what pages keep, and the cache, are this one's alone
}

// A chromium is the process of a Browser, or of all of a package.
type chromium struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	dir    string
	pipes  []*os.File
	done   chan struct{} // closed when all that it said is read

	mu      sync.Mutex
	to      io.Writer
	last    int // of the numbers of commands
	answers map[int]chan answer
	tabs    map[string]*Tab // by session
	ended   error           // nil while it runs
}

type answer struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// common is the process of all Browsers of a package that says so by Browsers: to start one takes 1.5 s of processor time.
var common struct {
	sync.Mutex
	is      bool
	browser *chromium
}

// Browsers runs the tests of a package, whose Browsers are one process. It is for TestMain of packages that have many.
func Browsers(m *testing.M) (code int) {
	common.is = true
	code = m.Run()
	if c := common.browser; c != nil {
		c.end()
		if code != 0 && c.stderr.Len() > 0 {
			fmt.Fprintf(os.Stderr, "the browser wrote:\n%.3000s\n", c.stderr.String())
		}
	}
	return code
}

// NewBrowser returns a browser, which ends with the test.
func NewBrowser(t testing.TB) *Browser {
	t.Helper()
	program := Path(t, "chromium")
	common.Lock()
	c := common.browser
	if c != nil && c.over() != nil {
		c.end()
		c = nil
	}
	if c == nil {
		var err error
		if c, err = start(program); err != nil {
			common.Unlock()
			t.Fatalf("%s: %v", program, err)
		}
		if common.is {
			common.browser = c
		}
	}
	own := !common.is
	common.Unlock()
	b := &Browser{chromium: c}
	if own {
		t.Cleanup(func() {
			c.end()
			if t.Failed() && c.stderr.Len() > 0 {
				t.Logf("the browser wrote:\n%.3000s", c.stderr.String())
			}
		})
	}
	var made struct{ BrowserContextID string }
	if err := c.call("", "Target.createBrowserContext", nil, &made); err != nil {
		t.Fatal(err)
	}
	b.profile = made.BrowserContextID
	t.Cleanup(func() { c.call("", "Target.disposeBrowserContext", map[string]any{"browserContextId": b.profile}, nil) })
	return b
}

// start starts a process.
func start(program string) (*chromium, error) {
	dir, err := os.MkdirTemp("", "chromium-")
	if err != nil {
		return nil, err
	}
	fromUs, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, toUs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c := &chromium{dir: dir, pipes: []*os.File{to, from}, done: make(chan struct{}), to: to, answers: map[int]chan answer{}, tabs: map[string]*Tab{}}
	c.cmd = exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-default-apps", "--hide-scrollbars", "--force-device-scale-factor=1", "--force-color-profile=srgb",
		"--remote-debugging-pipe", "--user-data-dir="+dir, "about:blank")
	c.cmd.ExtraFiles = []*os.File{fromUs, toUs} // 3 and 4
	c.cmd.Stderr = &c.stderr
	if err := c.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	fromUs.Close()
	toUs.Close()
	go func() {
		defer close(c.done)
		c.read(from)
	}()
	return c, nil
}

// end closes the browser, and removes what it kept.
func (c *chromium) end() {
	c.send("", "Browser.close", nil) // which may end it before it answers
	done := make(chan error, 1)
	go func() { done <- c.cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(patience):
		c.cmd.Process.Kill()
		<-done
	}
	for _, p := range c.pipes {
		p.Close()
	}
	<-c.done
	os.RemoveAll(c.dir)
}

// over says why it no longer runs, nil while it does.
func (c *chromium) over() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// read takes what the browser says, each message with a zero byte behind it.
func (c *chromium) read(from io.Reader) {
	in := bufio.NewReader(from)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			c.mu.Lock()
			c.ended = fmt.Errorf("the browser has ended: %w", err)
			for _, to := range c.answers {
				close(to)
			}
			clear(c.answers)
			c.mu.Unlock()
			return
		}
		var m struct {
			ID        int
			SessionID string
			Method    string
			Params    json.RawMessage
			answer
		}
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			continue // it is in no message that was asked for
		}
		c.mu.Lock()
		to, tab := c.answers[m.ID], c.tabs[m.SessionID]
		delete(c.answers, m.ID)
		c.mu.Unlock()
		switch {
		case to != nil:
			to <- m.answer
		case tab != nil && m.Method != "":
			tab.event(m.Method, m.Params)
		}
	}
}

// send sends a command, of which the answer comes later.
func (c *chromium) send(session, method string, params any) (chan answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return nil, c.ended
	}
	c.last++
	to := make(chan answer, 1)
	c.answers[c.last] = to
	text, err := json.Marshal(map[string]any{"id": c.last, "method": method, "params": params, "sessionId": session})
	if session == "" {
		text, err = json.Marshal(map[string]any{"id": c.last, "method": method, "params": params})
	}
	if err == nil {
		_, err = c.to.Write(append(text, 0))
	}
	return to, err
}

// call sends a command and reads its answer.
func (c *chromium) call(session, method string, params, result any) error {
	to, err := c.send(session, method, params)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case a, ok := <-to:
		switch {
		case !ok:
			return fmt.Errorf("%s: the browser has ended", method)
		case a.Error != nil:
			return fmt.Errorf("%s: %s", method, a.Error.Message)
		case result == nil:
			return nil
		}
		return json.Unmarshal(a.Result, result)
	case <-time.After(patience):
		return fmt.Errorf("%s: no answer in %s", method, patience)
	}
}

// A Screen is how a page is shown.
type Screen struct {
	Width, Height int // CSS pixels; 0 is 1400 by 900
	Dark          bool
	NoScripts     bool
}

// A Tab shows one page after another.
type Tab struct {
	Browser *Browser
	session string
	screen  Screen
	t       testing.TB

	mu      sync.Mutex
	console []string
	traced  []Traced
	ended   chan struct{} // closed when a trace is whole
}

// Open opens a tab with a page, whose failures are t's.
func (b *Browser) Open(t testing.TB, url string, s Screen) *Tab {
	t.Helper()
	var target struct{ TargetID string }
	tab := &Tab{Browser: b, t: t, screen: s}
	err := b.call("", "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": b.profile}, &target)
	var attached struct{ SessionID string }
	if err == nil {
		err = b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	}
	if err != nil {
		t.Fatal(err)
	}
	tab.session = attached.SessionID
	b.mu.Lock()
	b.tabs[tab.session] = tab
	b.mu.Unlock()
	t.Cleanup(func() { b.send("", "Target.closeTarget", map[string]any{"targetId": target.TargetID}) })
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		tab.must(domain+".enable", nil, nil)
	}
	scheme := "light"
	if s.Dark {
		scheme = "dark"
	}
	tab.must("Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]string{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	tab.must("Emulation.setScriptExecutionDisabled", map[string]any{"value": s.NoScripts}, nil)
	tab.Size(cmp.Or(s.Width, 1400), cmp.Or(s.Height, 900))
	tab.Go(url)
	return tab
}

func (tab *Tab) must(method string, params, result any) {
	tab.t.Helper()
	if err := tab.Browser.call(tab.session, method, params, result); err != nil {
		tab.t.Fatal(err)
	}
}

// event notes what a page complains of, and what is traced.
func (tab *Tab) event(method string, params json.RawMessage) {
	switch method {
	case "Tracing.dataCollected":
		var p struct{ Value []Traced }
		if json.Unmarshal(params, &p) == nil {
			tab.mu.Lock()
			tab.traced = append(tab.traced, p.Value...)
			tab.mu.Unlock()
		}
		return
	case "Tracing.tracingComplete":
		close(tab.ended)
		return
	}
	var p struct {
		Type  string
		Args  []struct{ Value, Description any }
		Entry struct{ Level, Text, URL string }

		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	text := ""
	switch {
	case method == "Runtime.exceptionThrown":
		text = p.ExceptionDetails.Text + " " + p.ExceptionDetails.Exception.Description
	case method == "Log.entryAdded" && (p.Entry.Level == "error" || p.Entry.Level == "warning"):
		text = p.Entry.Text + " " + p.Entry.URL
	case method == "Runtime.consoleAPICalled" && (p.Type == "error" || p.Type == "warning" || p.Type == "assert"):
		for _, a := range p.Args {
			text += fmt.Sprint(cmp.Or(a.Description, a.Value), " ")
		}
	default:
		return
	}
	tab.mu.Lock()
	tab.console = append(tab.console, text)
	tab.mu.Unlock()
}

// Complaints are what the browser and the scripts had to complain of since they were last asked for.
func (tab *Tab) Complaints() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	all := tab.console
	tab.console = nil
	return all
}

// Size is the part of the page that is seen, in CSS pixels.
func (tab *Tab) Size(width, height int) {
	tab.t.Helper()
	tab.must("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
}

// Go loads a page, and waits until it is whole and its scripts have started.
func (tab *Tab) Go(url string) {
	tab.t.Helper()
	var r struct{ ErrorText string }
	tab.must("Page.navigate", map[string]any{"url": url}, &r)
	if r.ErrorText != "" {
		tab.t.Fatalf("%s: %s", url, r.ErrorText)
	}
	tab.Wait("document.readyState === 'complete'")
}

// try evaluates an expression, waits for its promise if it is one, and reads what it is.
func (tab *Tab) try(expression string, value any) error {
	var r struct {
		Result struct {
			Value json.RawMessage
		}
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	if err := tab.Browser.call(tab.session, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true}, &r); err != nil {
		return err
	}
	if e := r.ExceptionDetails; e != nil {
		return errors.New(e.Text + " " + e.Exception.Description)
	}
	if value == nil || len(r.Result.Value) == 0 {
		return nil
	}
	return json.Unmarshal(r.Result.Value, value)
}

// Eval evaluates an expression on the page into value, which may be nil.
func (tab *Tab) Eval(expression string, value any) {
	tab.t.Helper()
	if err := tab.try(expression, value); err != nil {
		tab.t.Fatalf("%s: %v", expression, err)
	}
}

// Wait waits until an expression is true, also across pages.
func (tab *Tab) Wait(condition string) {
	tab.t.Helper()
	end := time.Now().Add(patience)
	for {
		var is bool
		err := tab.try("Boolean("+condition+")", &is)
		switch {
		case is:
			return
		case time.Now().After(end):
			tab.Shot("failed")
			var text string
			tab.try("document.body.innerText", &text)
			tab.t.Fatalf("after %s it is not so that %s (%v); console: %q; the page:\n%.2000s", patience, condition, err, tab.Complaints(), text)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Text is that of the first element of a selector, once there is one, as it is shown.
func (tab *Tab) Text(selector string) (text string) {
	tab.t.Helper()
	tab.Wait("document.querySelector(" + quoted(selector) + ")")
	tab.Eval("document.querySelector("+quoted(selector)+").innerText", &text)
	return text
}

// Count is how many elements a selector has.
func (tab *Tab) Count(selector string) (n int) {
	tab.t.Helper()
	tab.Eval("document.querySelectorAll("+quoted(selector)+").length", &n)
	return n
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // a string always is JSON
	return string(b)
}

// mouse moves the pointer over the middle of an element, and presses and lets go n times.
func (tab *Tab) mouse(element string, n int) {
	tab.t.Helper()
	tab.Wait(element)
	var at struct{ X, Y float64 }
	tab.Eval(`(() => {
		const e = `+element+`;
		e.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
		const r = e.getClientRects()[0];
		return {x: r.left + r.width / 2, y: r.top + r.height / 2};
	})()`, &at)
	tab.must("Input.dispatchMouseEvent", map[string]any{"type": "mouseMoved", "x": at.X, "y": at.Y}, nil)
	for range n {
		for _, kind := range []string{"mousePressed", "mouseReleased"} {
			tab.must("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1}, nil)
		}
	}
}

// Click clicks the first element of a selector, as a hand would: what lies over it is clicked instead.
func (tab *Tab) Click(selector string) {
	tab.t.Helper()
	tab.mouse("document.querySelector("+quoted(selector)+")", 1)
}

// ClickText clicks the first link, button or other thing to press whose text this is.
func (tab *Tab) ClickText(text string) {
	tab.t.Helper()
	tab.mouse(`[...document.querySelectorAll("a, button, summary, label, [role=button], [role=tab], option")].find((e) => e.innerText.trim() === `+quoted(text)+`)`, 1)
}

// Hover moves the pointer over the first element of a selector.
func (tab *Tab) Hover(selector string) {
	tab.t.Helper()
	tab.mouse("document.querySelector("+quoted(selector)+")", 0)
}

// Drag moves the pointer from the middle of an element by pixels, with the button pressed.
func (tab *Tab) Drag(selector string, dx, dy float64) {
	tab.t.Helper()
	tab.Hover(selector)
	var at struct{ X, Y float64 }
	tab.Eval("(() => { const r = document.querySelector("+quoted(selector)+").getClientRects()[0]; return {x: r.left + r.width / 2, y: r.top + r.height / 2}; })()", &at)
	for i, kind := range []string{"mousePressed", "mouseMoved", "mouseMoved", "mouseReleased"} {
		part := float64(i) / 3
		tab.must("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at.X + dx*part, "y": at.Y + dy*part, "button": "left", "buttons": 1, "clickCount": 1}, nil)
	}
}

// Wheel turns the wheel over the middle of an element by pixels.
func (tab *Tab) Wheel(selector string, dx, dy float64) {
	tab.t.Helper()
	tab.Hover(selector)
	var at struct{ X, Y float64 }
	tab.Eval("(() => { const r = document.querySelector("+quoted(selector)+").getClientRects()[0]; return {x: r.left + r.width / 2, y: r.top + r.height / 2}; })()", &at)
	tab.must("Input.dispatchMouseEvent", map[string]any{"type": "mouseWheel", "x": at.X, "y": at.Y, "deltaX": dx, "deltaY": dy}, nil)
}

// Type types text where the focus is.
func (tab *Tab) Type(text string) {
	tab.t.Helper()
	for _, r := range text {
		tab.Key(string(r))
	}
}

// named are keys that write nothing, by KeyboardEvent.key: their codes as Windows has them.
var named = map[string]int{
	"Backspace": 8, "Tab": 9, "Enter": 13, "Escape": 27, "PageUp": 33, "PageDown": 34, "End": 35, "Home": 36,
	"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Delete": 46,
}

// Key presses a key and lets it go: a letter, or a name as KeyboardEvent.key has it. "Shift+Tab" is both.
func (tab *Tab) Key(key string) {
	tab.t.Helper()
	name, shift := strings.CutPrefix(key, "Shift+")
	p := map[string]any{"type": "keyDown", "key": name}
	if shift {
		p["modifiers"] = 8
	}
	if code, ok := named[name]; ok {
		p["windowsVirtualKeyCode"], p["code"] = code, name
		if name == "Enter" {
			p["text"] = "\r"
		}
	} else {
		p["text"] = name
		if c := strings.ToUpper(name)[0]; c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' { // others have codes that are not their characters': 46 is Delete, and '.'
			p["windowsVirtualKeyCode"] = int(c)
		}
	}
	tab.must("Input.dispatchKeyEvent", p, nil)
	delete(p, "text")
	p["type"] = "keyUp"
	tab.must("Input.dispatchKeyEvent", p, nil)
}

// maxShot is how many pixels of a page are in a picture, from its top.
const maxShot = 6000

// Shot writes a picture of the page as NAME.png: into the directory $BACKFEED_SHOTS, if that is
// set, or to the artefacts of the test. Where go test keeps none, there is no picture.
func (tab *Tab) Shot(name string) {
	tab.t.Helper()
	dir := os.Getenv("BACKFEED_SHOTS")
	if dir == "" {
		if kept := flag.Lookup("test.artifacts"); kept == nil || kept.Value.String() != "true" {
			return
		}
		dir = tab.t.ArtifactDir()
	}
	Put(tab.t, filepath.Join(dir, name+".png"), tab.png())
}

// Picture is the page as it is seen, from its top.
func (tab *Tab) Picture() image.Image {
	tab.t.Helper()
	im, err := png.Decode(bytes.NewReader(tab.png()))
	if err != nil {
		tab.t.Fatal(err)
	}
	return im
}

// png is a picture of the page, as a file.
func (tab *Tab) png() []byte {
	tab.t.Helper()
	var size struct {
		CSSContentSize struct{ Width, Height float64 }
	}
	tab.must("Page.getLayoutMetrics", nil, &size)
	var r struct{ Data string }
	tab.must("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true, "clip": map[string]any{
		"x": 0, "y": 0, "width": size.CSSContentSize.Width, "height": min(size.CSSContentSize.Height, maxShot), "scale": 1}}, &r)
	file, err := base64.StdEncoding.DecodeString(r.Data)
	if err != nil {
		tab.t.Fatal(err)
	}
	return file
}

//go:embed testdata/axe/axe.min.js
var axe string

// Axe lists what axe-core finds wrong with the page for those who do not see or point as others do:
// rule, how bad, and the first elements that break it. Where scripts are off, axe-core alone runs.
func (tab *Tab) Axe() (violations []string) {
	tab.t.Helper()
	if tab.screen.NoScripts {
		tab.must("Emulation.setScriptExecutionDisabled", map[string]any{"value": false}, nil)
		defer tab.must("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	}
	var has bool
	tab.Eval("typeof axe !== 'undefined'", &has)
	if !has {
		tab.Eval(axe+"\n;null", nil)
	}
	tab.Eval(`axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations.map((v) => v.id + " (" + v.impact + "): " + v.help + ": " +
		v.nodes.slice(0, 3).map((n) => n.html + " " + n.failureSummary).join("; ")))`, &violations)
	return violations
}

// Wide reports by how many pixels the page is wider than the screen.
func (tab *Tab) Wide() (n int) {
	tab.t.Helper()
	tab.Eval("document.documentElement.scrollWidth - document.documentElement.clientWidth", &n)
	return n
}

// Spent is the processor time that the main thread of a page has taken since it was opened, in seconds.
type Spent struct{ All, Script, Style, Layout float64 }

// Spent asks for it. It grows by what the thread itself does, however busy the machine is.
func (tab *Tab) Spent() Spent {
	tab.t.Helper()
	tab.must("Performance.enable", map[string]any{"timeDomain": "threadTicks"}, nil)
	var r struct {
		Metrics []struct {
			Name  string
			Value float64
		}
	}
	tab.must("Performance.getMetrics", nil, &r)
	var s Spent
	for _, m := range r.Metrics {
		switch m.Name {
		case "TaskDuration":
			s.All = m.Value
		case "ScriptDuration":
			s.Script = m.Value
		case "RecalcStyleDuration":
			s.Style = m.Value
		case "LayoutDuration":
			s.Layout = m.Value
		}
	}
	return s
}

// Traced is an event of the browser's own tracing, in microseconds: when, and of the thread's own time, how long it took.
type Traced struct {
	Name     string
	Ph       string
	PID, TID int
	TS       float64
	Tdur     float64
}

// Traced lists what the browser traces of some categories while do runs.
func (tab *Tab) Traced(categories []string, do func()) []Traced {
	tab.t.Helper()
	tab.mu.Lock()
	tab.traced, tab.ended = nil, make(chan struct{})
	tab.mu.Unlock()
	tab.must("Tracing.start", map[string]any{"transferMode": "ReportEvents", "traceConfig": map[string]any{"includedCategories": categories}}, nil)
	do()
	tab.must("Tracing.end", nil, nil)
	select {
	case <-tab.ended:
	case <-time.After(patience):
		tab.t.Fatalf("the trace is not whole in %s", patience)
	}
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return tab.traced
}

// FirstPaint is how long a page takes until it is first painted with content: of the clock, and of its main thread's processor
// time, in seconds. The latter has what the thread does while others bring the picture to the screen, too: it is an upper bound.
type FirstPaint struct{ Clock, Main float64 }

// FirstPaint loads a page and asks for it.
func (tab *Tab) FirstPaint(url string) FirstPaint {
	tab.t.Helper()
	all := tab.Traced([]string{"toplevel", "loading", "blink.user_timing", "devtools.timeline"}, func() {
		tab.Go(url)
		tab.Wait(`performance.getEntriesByName("first-contentful-paint").length > 0`)
	})
	var painted *Traced
	for i := range all {
		if all[i].Name == "firstContentfulPaint" {
			painted = &all[i]
		}
	}
	var p FirstPaint
	var wall float64
	tab.Eval(`performance.getEntriesByName("first-contentful-paint")[0].startTime`, &wall) // ms
	p.Clock = wall / 1e3
	if painted == nil {
		tab.t.Fatalf("no first paint in %d events", len(all))
	}
	for _, e := range all {
		if e.PID == painted.PID && e.TID == painted.TID && e.Ph == "X" && e.TS > painted.TS-1e3*wall && e.TS < painted.TS && (e.Name == "RunTask" || e.Name == "ThreadControllerImpl::RunTask") {
			p.Main += e.Tdur / 1e6
		}
	}
	return p
}
