package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/prose"
	"backfeed/cmd/internal/report"
	"backfeed/cmd/internal/web"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/store"
)

// hostile is what people who write recordings and images would like a terminal, a browser, a forge or
// a spreadsheet to read: a window's title, colours by C1, marks of direction, bytes that are not
// UTF-8, a line of its own, a formula, a table's end, HTML, a link and a mention.
const hostile = "\x1b]0;title\x07\u009b31m\u202e\u2066\u200b\u0085\u2028\xff\xc2\x00=1+1|`<script>" + injected + "[l](http:x)@all"

// injected must not begin a line.
const injected = "\nINJECTED\r"

// named returns a hostile name that says what it names, without what files and symbols cannot have in
// their names.
func hostileName(begin, what string) string {
	return begin + what + strings.NewReplacer("\x00", "", "/", "").Replace(hostile)
}

// A hostileCase has hostile names in all that a recording and an image name.
type hostileCase struct {
	image, gone string // paths: of the image, of one that is not there
	proc        string // a symbol
	rec, other  string // recordings, the second of another event, with images that are not there
	counts      string // what infer makes of rec
	truth       string // exact counts with hostile images
	store       string // of segments with hostile labels and names
	pprof       string // a profile that DecideGo reads
	config      string // a configuration of refresh
	optimize    string // a configuration of optimize
	out         string // a file to write
}

const hostileC = `
volatile int v;
__attribute__((noinline)) int WORK(int n) { int s = 0; while (n-- > 0) if (n & v) s += n; else s ^= n; return s; }
__attribute__((noinline)) int DRIVE(int n) { int s = 0; while (n-- > 0) s += WORK(n); return s; }
int main(int argc, char **argv) { return DRIVE(1000); }
`

// newHostileCase compiles a program and returns its symbols and source file names of as many bytes.
func newHostileCase(t *testing.T) *hostileCase {
	t.Helper()
	dir := t.TempDir()
	drive := hostileName("", "drive")
	h := &hostileCase{proc: hostileName("@", "work"), image: filepath.Join(dir, hostileName("=", "image")), out: filepath.Join(dir, "out")}
	unit := hostileName("-", "unit")
	standIns := map[string]string{h.proc: "WORK", drive: "DRIVE", unit: "unit"}
	for to, name := range standIns {
		standIns[to] = name + strings.Repeat("_", len(to)-len(name))
	}
	src := testtool.Write(t, dir, standIns[unit], hostileC)
	program := filepath.Join(dir, "program")
	testtool.Run(t, dir, "gcc", "-x", "c", "-O1", "-g", "-ffunction-sections", "-Wl,--emit-relocs,--build-id", "-DWORK="+standIns[h.proc], "-DDRIVE="+standIns[drive], "-o", program, filepath.Base(src))
	b := []byte(testtool.Read(t, program))
	for to, name := range standIns {
		if !bytes.Contains(b, []byte(name+"\x00")) {
			t.Fatalf("no %s in the program", name)
		}
		b = bytes.ReplaceAll(b, []byte(name+"\x00"), []byte(to+"\x00"))
	}
	testtool.Put(t, h.image, b)

	rec, err := sample.Decode([]byte(testtool.Read(t, recordOfCall(t, h.image, drive, h.proc))))
	if err != nil {
		t.Fatal(err)
	}
	h.gone = "/nowhere/" + hostileName("+", "gone")
	c := rec.Counts[0]
	var walked []sample.Frame
	for _, off := range slices.Sorted(maps.Keys(c.Images[0].At)) {
		walked = append(walked, sample.Frame{Image: 0, Off: off})
	}
	c.AddPaths([]sample.Path{{Rank: 1, Insts: 9, Branches: []sample.Branch{{From: walked[0], To: walked[1]}, {From: walked[1], To: walked[0]}}}})
	c.Lose(sample.Loss(hostile), 5)
	c.AddSample(c.Image(sample.ImageID{Path: h.gone, Build: sample.BuildID{1}}), 0x1000, 3)
	c.AddSample(c.Image(sample.ImageID{Path: hostileName("[", "kernel") + "]"}), 0x1000, 3)
	c.AddSample(c.Image(sample.ImageID{Path: h.gone + "/perf-1.map"}), 0x1000, 3)
	c.AddOrigin(sample.Origin{Process: hostileName("=", "process"), Thread: hostileName("-", "thread"), Cgroup: hostileName("+", "cgroup")}, 3)
	c.AddProcessor(1, 3)
	c.LoseAt(c.SliceAt(1_700_000_000_000_000_000), sample.Loss(hostile), 5)
	c.Event.Name = hostileName("", "event")
	rec.AddRun(sample.Run{Host: hostile, Command: []string{h.image, hostile}})
	h.rec = testtool.Write(t, dir, hostileName("=", "rec"), string(rec.Encode()))

	more := sample.NewCounts(sample.CPU{Arch: hostile, Vendor: hostile}, sample.Event{Name: hostileName("", "more"), Period: 1000, Unit: "ns"})
	more.AddSample(more.Image(sample.ImageID{Path: h.gone, Build: sample.BuildID{2}}), 0x1000, 2)
	other := &sample.Recording{}
	other.Add(more)
	h.other = testtool.Write(t, dir, hostileName("=", "other"), string(other.Encode()))

	h.counts = filepath.Join(dir, hostileName("", "counts"))
	must(t, "infer", h.rec, "--format", "json", "-o", h.counts)
	truth := map[string]map[string]any{h.image: {"insn": map[string]int{"0x1000": 5}, "jump": []int{}, "call": []int{}}, h.gone: {"insn": map[string]int{"0x1000": 5}, "jump": []int{}, "call": []int{}}}
	j, err := json.Marshal(truth)
	if err != nil {
		t.Fatal(err)
	}
	h.truth = testtool.Write(t, dir, hostileName("", "truth")+".json", string(j))

	h.store = filepath.Join(dir, hostileName("", "store"))
	s, err := store.Create(h.store, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for hour := range 2 {
		at := time.Date(2026, 1, 2, hour, 30, 0, 0, time.UTC)
		labels := map[string]string{"host": hostile, "=key" + strconv.Itoa(hour): hostile}
		if err := s.Put(sample.EpochAt(at, time.Hour), rec, labels); err != nil {
			t.Fatal(err)
		}
	}
	testtool.Write(t, filepath.Join(h.store, "segments"), hostileName("", "foreign")+".bfs", "nothing of ours"+hostile)
	testtool.Write(t, filepath.Join(h.store, "segments"), hostileName("", "foreign")+".bfs.0123.tmp", "nothing of ours"+hostile)
	h.pprof = testtool.Write(t, dir, hostileName("", "pprof"), hostile)
	outputs := []map[string]string{{"llvm": hostileName("", "llvm")}, {"bolt": hostileName("", "bolt")}}
	targets := map[string]any{}
	for _, name := range []string{h.rec, h.gone, h.pprof} {
		targets[hostile+name] = map[string]any{"sources": name, "image": h.image, "limits": map[string]any{"min-used": 0, "max-other-id": 1}, "outputs": outputs}
		outputs = []map[string]string{{"go": hostileName(strconv.Itoa(len(targets)), "go")}}
	}
	config, err := json.Marshal(map[string]any{"refresh": map[string]any{"targets": targets}})
	if err != nil {
		t.Fatal(err)
	}
	h.config = testtool.Write(t, filepath.Join(dir), hostileName("", "config"), string(config))
	yaml := func(what string) string { return filepath.Join(dir, strings.ToValidUTF8(hostileName("", what), "")) } // which has no other text
	testtool.Put(t, yaml("program"), testtool.Read(t, h.image))
	testtool.Put(t, yaml("says"), hostile)
	target := func(name string, more map[string]any) map[string]any {
		all := map[string]any{"binary": yaml("program"), "run": "{binary}", "output": yaml(name), "report": yaml(name + ".json")}
		maps.Copy(all, more)
		return all
	}
	config, err = json.Marshal(map[string]any{"optimize": map[string]any{"targets": map[string]any{
		"a": target("a", map[string]any{"run": "cat " + prose.ShellWord(yaml("says")) + " >&2; exit 1; # {binary}"}),
		"b": target("b", map[string]any{"binary": yaml("nowhere")}),
		"c": target("c", map[string]any{"run": "{binary}; i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done", "try": []string{"bolt"}, "pairs": 6}),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	var ascii strings.Builder // YAML takes few other characters as they are
	for _, r := range string(config) {
		if r < 0x7f {
			ascii.WriteRune(r)
		} else {
			fmt.Fprintf(&ascii, "\\u%04x", r)
		}
	}
	h.optimize = testtool.Write(t, filepath.Join(dir), hostileName("", "optimize"), ascii.String())
	return h
}

// readers are the commands that read recordings, each with command lines: all of them.
// Words are {} for a member of hostileCase.
var hostileLines = map[string][]string{
	"import":    {"import {rec} -o {out}", "import {pprof} -o {out}"},
	"merge":     {"merge {rec} {other} -o {out}", "merge {rec} --onto {image} -o {out}", "merge {rec} {pprof} --failure-mode all -o {out}"},
	"images":    {"images {rec} {other}", "images {rec} --symfs {gone}", "images {store}"},
	"prof":      {"prof {rec}", "prof {rec} {other}", "prof {other}", "prof {rec} --event {gone}", "prof {store}", "prof {gone}", "prof {rec} --by image", "prof {rec} --by file", "prof {rec} --by line", "prof {rec} --by process", "prof {rec} --by thread", "prof {rec} --by cpu", "prof {rec} --by cgroup", "prof {rec} --by time", "prof {rec} --by run", "prof {rec} --experiment usertime", "prof {rec} --experiment usertime --butterfly {proc}", "prof {rec} --experiment ideal", "prof {rec} --experiment ideal --inclusive", "prof {rec} --experiment fpe"},
	"list":      {"list {proc} {rec}", "list {gone} {rec}", "list {image}:{proc} {rec}", "list e {rec}"},
	"topstalls": {"topstalls {rec}", "topstalls {other}", "topstalls {rec} --cause {gone}"},
	"whatcg":    {"whatcg {rec}", "whatcg {rec} --image {image}", "whatcg {rec} --image {gone}", "whatcg {rec} --proc {proc}", "whatcg {rec} --cause d"},
	"stats":     {"stats {store} --by host", "stats {rec} {rec}", "stats {rec} {rec} --by image", "stats {rec} {other}"},
	"infer":     {"infer {rec}", "infer {rec} --places 2", "infer {rec} --machine {gone}"},
	"verify":    {"verify {counts} --truth {truth}", "verify {counts} --truth {truth} --samples {rec}", "verify {truth} --truth {counts}"},
	"check":     {"check {rec}", "check {rec} --binary {image}", "check {rec} --config {pprof}", "check {rec} --binary {gone}"},
	"diff":      {"diff {rec} {rec}", "diff {rec} {rec} --by block", "diff {rec} {other}", "diff {rec} {rec} --proc {proc}", "diff {pprof} {pprof}", "diff {pprof} {pprof} --for llvm"},
	"refresh":   {"refresh --config {config}", "refresh --config {config} --dry-run --target {gone}", "refresh --config {pprof}", "refresh --config {config} --markdown -"},
	"optimize":  {"optimize --config {optimize}", "optimize --config {optimize} --dry-run --target {gone}", "optimize --config {pprof}", "optimize --config {config}", "optimize --binary {gone} -o {out} -- {binary} {proc}"},
	"fetch":     {"fetch --lock {config}", "fetch --lock {gone}", "fetch --lock {pprof} {gone}"},
	"verdict": {"verdict {rec} {rec}", "verdict {rec} {other}", "verdict {rec} vs {rec} {rec} --same-load", "verdict {rec} {rec} --per {proc}", "verdict {rec} {rec} --image {image}", "verdict {rec} {rec} --image {gone}",
		"verdict {store} --old-build 0 --new-build 1", "verdict {store} --deploy 2026-01-02T01:00:00Z", "verdict {rec} {rec} --units {pprof} --counter {proc}", "verdict {pprof} {pprof}", "verdict {pprof} {pprof} --kind-label {proc}"},
	"report": {"report --html - {rec}", "report --html - {rec} --source {gone}", "report --html - {rec} --against {rec}", "report --html - {rec} --against {gone}", "report --html - {rec} --against {pprof}"},
	"emit":   {"emit go {rec} -o {out}", "emit llvm {rec} -o {out}", "emit gcc {rec} -o {out}", "emit gcda {rec} --notes {gone} -o {out}", "emit gcda {rec} --notes {pprof} -o {out}", "emit bolt {rec} -o {out}", "emit propeller {rec} --ld {out} -o {out}", "emit llvm --image {gone} {rec}"},
	"layout": {"layout {image} {rec} --for text", "layout {image} {rec} --for json", "layout {image} {rec} --for go", "layout {image} {rec} --for lld -o {out}", "layout {image} {rec} --for gold -o {out}", "layout {image} {rec} --for ld -o {out}",
		"layout {image} {rec} --for ld-script -o {out}", "layout {image} {rec} --for bolt -o {out}", "layout {image} {rec} --for propeller --ld {out} -o {out}", "layout {gone} {rec}", "layout {image} {rec} --fluff", "layout {image} {rec} --fluff --for json",
		"layout {image} {rec} --align", "layout {image} {rec} --align --for json", "layout {image} {rec} --huge-pages", "layout {image} {rec} --huge-pages --for json", "layout {image} {rec} --startup", "layout {image} {rec} --html -",
		"layout {image} {rec} --for text --holdout {rec} --relinked {image}"},
	"export": {"export {rec} -o {out}", "export {rec} --format perf-script", "export {rec} --format perf-script --call-chains -o {out}", "export {rec} --image {gone} -o {out}", "export {rec} --format lcov", "export {rec} --format sarif", "export {rec} --format sarif --source {gone}"},
	"store":  {"store ls {store}", "store stats {store}", "store fsck {store}", "store gc {store} --retain 1h", "store compact {store}", "store ls {gone}", "store {gone} {store}"},
	"serve":  {"serve {gone}", "serve {pprof}", "serve {rec} --against {gone}", "serve {rec} --against {pprof}"}, // what it serves, TestHostilePages asks for
}

// recordless are the commands that read no recording, and why nothing hostile comes to them.
var recordless = map[string]string{
	"demo": "makes its own", "doctor": "asks the machine", "pgo": "records", "record": "records", "agent": "records; its log is log/slog's, which quotes", "receive": "prints nothing but log/slog's log, which quotes",
	"help": "", "completion": "", "version": "",
}

// commandOf returns the command of a command line.
func commandOf(line string) *command {
	words := strings.Fields(line)
	if cmd := find(commands, strings.Join(words[:min(2, len(words))], " ")); cmd != nil {
		return cmd
	}
	return find(commands, words[0])
}

// TestHostile: no command prints what a recording, an image or a file's name would like it to, in any
// format.
func TestHostile(t *testing.T) {
	h := newHostileCase(t)
	words := map[string]string{"{image}": h.image, "{gone}": h.gone, "{proc}": h.proc, "{rec}": h.rec, "{other}": h.other, "{counts}": h.counts,
		"{truth}": h.truth, "{store}": h.store, "{pprof}": h.pprof, "{config}": h.config, "{optimize}": h.optimize, "{out}": h.out}
	var pairs []string
	for word, is := range words {
		pairs = append(pairs, word, is)
	}
	fill := strings.NewReplacer(pairs...)
	done := map[int]int{}
	for _, cmd := range commands {
		lines := hostileLines[cmd.name]
		if why, ok := recordless[cmd.name]; ok == (len(lines) > 0) {
			t.Errorf("%s: it has to be either in hostileLines or, with a reason, in recordless: %s", cmd.name, why)
		}
		for _, line := range lines {
			formats := formatsOf(t, commandOf(line).name)
			var args []string
			for _, word := range strings.Fields(line) {
				args = append(args, fill.Replace(word))
			}
			for _, format := range formats {
				with := args
				if format != "" {
					with = append(slices.Clone(args), "--format", format)
				}
				t.Run(line+" "+format, func(t *testing.T) {
					os.Remove(h.out)
					code, stdout, stderr := runCLI(t, with...)
					if strings.Contains(stderr, "internal error") {
						t.Errorf("it panics: %s", stderr)
					}
					done[code]++
					harmless(t, "standard error", stderr)
					harmless(t, "standard output", stdout)
					if code != exitDone && code != exitGate {
						return
					}
					switch {
					case format == "json" || strings.HasSuffix(line, "--for json"):
						if !json.Valid([]byte(stdout)) {
							t.Errorf("the JSON is none: %s", stdout)
						}
					case format == "csv":
						noFormulas(t, stdout)
					case format == "markdown":
						noMarkup(t, stdout)
					}
				})
			}
		}
	}
	t.Logf("exit codes: %v", done)
	if done[exitDone] < 60 {
		t.Errorf("%d of the command lines were done, want 60: it is not much that was printed", done[exitDone])
	}
}

// TestHostileArguments: no command prints what a word of its command line would like it to, be it the value of a flag or an
// operand: scripts take them from elsewhere. Nothing is called by these names, so that nothing begins.
func TestHostileArguments(t *testing.T) {
	t.Chdir(t.TempDir())
	word := hostileName("", "word")
	tried := 0
	try := func(args ...string) {
		t.Helper()
		code, stdout, stderr := runCLI(t, args...)
		tried++
		if code == exitDone && args[0] != "help" || strings.Contains(stderr, "internal error") {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
		harmless(t, args[0]+"'s standard error", stderr)
		harmless(t, args[0]+"'s standard output", stdout)
	}
	try(word)
	try("--" + word)
	var each func(all []*command)
	each = func(all []*command) {
		for _, cmd := range all {
			each(cmd.sub)
			name := strings.Fields(cmd.name)
			try(append(name, word, word, word, word)...)
			try(append(name, "--"+word)...)
			flagsOf(cmd).VisitAll(func(f *pflag.Flag) {
				if f.Name != "help" {
					try(append(name, "--"+f.Name+"="+word, word)...)
				}
			})
		}
	}
	each(commands)
	if tried < 400 {
		t.Errorf("%d command lines, want more", tried)
	}
	t.Logf("%d command lines", tried)
}

// formatsOf returns the words that --format of a command takes, "" being none.
func formatsOf(t *testing.T, name string) []string {
	t.Helper()
	f := flagsOf(find(commands, name)).Lookup("format")
	if f == nil || !strings.HasPrefix(f.Usage, "how to print") {
		return []string{""}
	}
	return f.Value.(*flagset.Choice).Of
}

// harmless fails the test if text has what a terminal acts on, or shows as what it is not.
func harmless(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s is not UTF-8: %q", what, text)
	}
	for i, r := range text {
		if r == '\n' || r == '\t' || strconv.IsPrint(r) {
			continue
		}
		t.Errorf("%s has %q: %q", what, r, text[max(0, i-60):min(len(text), i+60)])
		return
	}
	if i := strings.Index("\n"+text, "\nINJECTED"); i >= 0 {
		t.Errorf("a name begins a line of %s: %q", what, text[max(0, i-60):min(len(text), i+60)])
	}
}

// noFormulas fails the test if a spreadsheet would compute a cell that is no number.
func noFormulas(t *testing.T, text string) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Errorf("the CSV is none: %v", err)
	}
	for _, row := range rows {
		for _, cell := range row {
			if _, err := strconv.ParseFloat(cell, 64); err != nil && cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
				t.Errorf("a cell is a formula: %q", cell)
			}
		}
	}
}

// noMarkup fails the test if there is HTML, a link or a mention outside of code.
func noMarkup(t *testing.T, text string) {
	t.Helper()
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimLeft(line, " "), "```") { // a name that has as much would end the code, and what follows it be told
			fenced = !fenced
			continue
		}
		if fenced {
			continue
		}
		plain := codeSpan.ReplaceAllString(strings.ReplaceAll(line, `\|`, ""), "")
		for _, mark := range []string{"<script>", "[l](", "http:", "@all"} {
			if strings.Contains(plain, mark) {
				t.Errorf("Markdown has %q: %s", mark, line)
			}
		}
	}
}

// codeSpan is the one that this test's names need: they have runs of one mark.
var codeSpan = regexp.MustCompile("(?s)``.*?``")

// TestHostilePages: what serve shows of the same is harmless, too.
func TestHostilePages(t *testing.T) {
	h := newHostileCase(t)
	c := &cli{stdin: strings.NewReader(""), stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}, cmd: serveCmd}
	c.flags()
	src, err := c.inferred([]string{h.rec}, &input.Options{Notify: notices{c}})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	v, err := web.NewView(src, report.Style{})
	if err != nil {
		t.Fatal(err)
	}
	v.Against(src)
	s := web.NewSite(v, "127.0.0.1", nil)
	links := regexp.MustCompile(`href="(/[^"]*)"`)
	todo, seen := []string{"/", "/nosuch"}, map[string]bool{}
	for len(todo) > 0 && len(seen) < 60 {
		path := todo[0]
		todo = todo[1:]
		if seen[path] {
			continue
		}
		seen[path] = true
		r := testtool.Ask(s, http.MethodGet, "127.0.0.1", strings.ReplaceAll(path, "&amp;", "&"))
		body := testtool.Body(t, r)
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/octet-stream") {
			continue
		}
		harmless(t, path, body)
		if strings.Contains(body, "<script>"+"\\n") || strings.Contains(body, "`<script>") {
			t.Errorf("%s: a name is markup", path)
		}
		for _, m := range links.FindAllStringSubmatch(body, -1) {
			todo = append(todo, m[1])
		}
	}
	if len(seen) < 4 {
		t.Errorf("%d pages, want more: %v", len(seen), seen)
	}
}
