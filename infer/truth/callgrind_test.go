package truth

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"backfeed/infer/document"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
)

// smallTruth is what every file of TestRead says.
var smallTruth = &Counts{Images: map[string]*Image{
	"/bin/app": {
		Insts: map[image.Addr]uint64{0x1100: 10, 0x1103: 10, 0x1105: 7, 0x1109: 10},
		Jumps: map[Transfer]uint64{{0x1103, 0x1109}: 3, {0x1109, 0x1100}: 9},
		Calls: map[Transfer]uint64{{0x1105, 0x1200}: 7},
	},
	"/lib/libc.so.6": {
		Insts: map[image.Addr]uint64{0x9000: 5},
		Jumps: map[Transfer]uint64{},
		Calls: map[Transfer]uint64{},
	},
}}

// callgrindFiles say the same in all the ways that callgrind has.
var callgrindFiles = []struct{ name, text string }{
	{"addresses", `# callgrind format
version: 1
creator: callgrind-3.19.0
pid: 1
cmd:  ./app
part: 1


desc: I1 cache: 
desc: Trigger: Program termination

positions: instr
events: Ir
summary: 42

ob=/bin/app
fl=???
fn=main
0x1100 10
0x1103 10
jcnd=3/10 0x1109 
0x1103 
0x1105 7
cfn=f
calls=7 0x1200 
0x1105 70
cob=/lib/libc.so.6
cfi=puts.c
cfn=puts
calls=2 0x9000 
0x1105 10
0x1109 10
jump=9 0x1100 
0x1109 

ob=/lib/libc.so.6
fl=puts.c
fn=puts
0x9000 5

totals: 42
`},
	{"compressed, with lines", `# callgrind format
positions: instr line
events: Ir

ob=(1) /bin/app
fl=(1) app.c
fn=(1) main
0x1100 7 10
+3 * 10
jfi=(1)
jcnd=3/10 +6 +2
* *
+2 -1 7
cob=(1)
cfi=(1)
cfn=(2) f
calls=7 0x1200 50
* * 70
cob=(2) /lib/libc.so.6
cfi=(2) puts.c
cfn=(3) puts
calls=2 0x9000 3
* * 10
fi=(2)
+4 9 10
fe=(1)
jump=9 -9 7
* *

ob=(2)
fl=(2)
fn=(3)
0x9000 3 5

totals: 42
`},
	{"two parts, Ir second", `positions: instr
events: Bc Ir

ob=(1) /bin/app
fn=(1)
0x1100 0 4
+3 4 4
jcnd=1/4 0x1109
*
+2 0 3
calls=3 0x1200
* 1 30
+4 0 4
jump=4 0x1100
*

totals: 4 15

part: 2
positions: instr
events: Ir Bc

fn=(1)
0x1100 6
+3 6
jcnd=2/6 0x1109
*
+2 2
+0 2 0
calls=4 0x1200
* 40
+4 6
jump=5 0x1100
*
ob=/lib/libc.so.6
0x9000 5

totals: 27 9
`},
	{"JSON", `{"/bin/app": {"insn": {"0x1100": 10, "0x1103": 10, "0x1105": 7, "0x1109": 10, "0x110b": 0},
	"jump": [["0x1103", "0x1109", 3], ["0x1109", "0x1100", 9], ["0x1109", "0x1105", 0]], "call": [["0x1105", "0x1200", 7]]},
	"/lib/libc.so.6": {"insn": {"0x9000": 5}, "jump": [], "call": []}}`},
}

func zipped(t testing.TB, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRead(t *testing.T) {
	for _, tt := range callgrindFiles {
		for _, b := range [][]byte{[]byte(tt.text), zipped(t, tt.text)} {
			got, err := Read(bytes.NewReader(b))
			if err == nil && strings.Contains(tt.text, "events: Ir Bc") { // one file has another event
				app := got.Images["/bin/app"]
				if want := map[string]map[image.Addr]uint64{"Bc": {0x1103: 4}}; !reflect.DeepEqual(app.Events, want) {
					t.Errorf("%s: events %v, want %v", tt.name, app.Events, want)
				}
				app.Events = nil
			}
			if err != nil || !reflect.DeepEqual(got, smallTruth) {
				t.Errorf("%s: %v\ngot  %v\nwant %v", tt.name, err, show(got), show(smallTruth))
			}
		}
	}
}

// TestReadFile reads what callgrind wrote of testdata/loop.c, which calls
// work 100 times; work skips its store 75 times. (callgrind leaves out the last
// block, which ends in the system call exit.)
func TestReadFile(t *testing.T) {
	got := load(t, "testdata/loop.callgrind")
	want := &Counts{Images: map[string]*Image{"/tmp/loop/loop": {
		Insts: map[image.Addr]uint64{
			0x401000: 100, 0x401004: 100, 0x401006: 25, 0x40100c: 100, // work
			0x40100d: 1, 0x40100e: 1, 0x401013: 100, 0x401015: 100, 0x40101a: 100, 0x40101d: 100, 0x401020: 100, // _start
		},
		Jumps: map[Transfer]uint64{{0x401004, 0x40100c}: 75, {0x401020, 0x401013}: 99},
		Calls: map[Transfer]uint64{{0x401015, 0x401000}: 100},
	}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %s\nwant %s", show(got), show(want))
	}
}

func show(t *Counts) string {
	var b strings.Builder
	if t != nil {
		for path, it := range t.Images { // a failure's message need not be sorted
			fmt.Fprintf(&b, "%s: %x; ", path, *it)
		}
	}
	return b.String()
}

func TestReadRefuses(t *testing.T) {
	const head = "positions: instr\nevents: Ir\nob=/bin/app\n"
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "empty file: valgrind stopped before it counted"},
		{"headers alone", "positions: instr\nevents: Ir\n", "line 2: no instruction ran"},
		{"text", "hello\n", `line 1: "hello" is neither`},
		{"lines of source", "events: Ir\nfn=main\n16 20\n", "line 3: no line \"positions: instr\""},
		{"lines of source, said so", "positions: line\nevents: Ir\n", "line 1: positions: no addresses"},
		{"no executions", "positions: instr\nevents: Dr Dw\n", "line 2: events: no Ir"},
		{"no events", "positions: instr\n0x10 1\n", "line 2: costs without"},
		{"bad address", head + "0xzz 1\n", `line 4: address "0xzz": want a number`},
		{"address too large", head + "0x10000000000000000 1\n", `line 4: address "0x10000000000000000": want a number`},
		{"bad costs", head + "0x10 -1\n", `line 4: executions "-1": want a whole number`},
		{"undefined name", head + "ob=(7)\n", "line 4: ob: (7) is not defined"},
		{"call without target", head + "calls=3\n", "line 4: calls: no number and target"},
		{"call of half", head + "calls=3/4 0x10\n", "line 4: calls: 3/4 is not"},
		{"call and no source", head + "0x10 1\ncalls=3 0x10\n", "line 5: cut short"},
		{"call and no cost line", head + "0x10 1\ncalls=3 0x10\nfn=x\n", `line 6: "fn=x" between`},
		{"bad number of jumps", head + "jump=x 0x10\n", "line 4: jump: "},
		{"more jumps than executions", head + "jcnd=4/3 0x10\n0x10\n", "line 4: jcnd: taken 4 times of 3"},
		{"lines missing", head + "0x10 1\ntotals: 3\n", "line 5: totals: 3 executions, but the lines before have 1"},
		{"long line", head + strings.Repeat("x", maxCallgrindLine+1), "line 4: longer than 1048576 bytes"},
		{"JSON of another kind", `{"schema": "backfeed.counts/1"}`, "offset 0x1e: a string, want an object"},
		{"JSON, empty", `{}`, "no image in it"},
		{"JSON, cut short", `{"/bin/app": {"insn": {"0x1`, "cut short: write it again"},
		{"JSON, jump without number", `{"a": {"jump": [["0x1", "0x2"]]}}`, `["0x1", "0x2"]: want source, target and number`},
		{"JSON, negative", `{"a": {"insn": {"0x1": -1}}}`, "offset 0x19: insn: number -1, want a whole number of 0 or more"},
	} {
		_, err := Read(strings.NewReader(tt.text))
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want %q", tt.name, err, tt.want)
		} else if !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v does not wrap ErrFormat", tt.name, err)
		}
	}
	if _, err := Read(bytes.NewReader(zipped(t, callgrindFiles[0].text)[:60])); err == nil {
		t.Error("half of a compressed file: no error")
	}
}

// load reads the exact counts in a file.
func load(tb testing.TB, path string) *Counts {
	tb.Helper()
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	truth, err := Read(f)
	if err != nil {
		tb.Fatalf("%s: %v", path, err)
	}
	return truth
}

// TestCallgrindItself reads what the installed callgrind writes with different
// options, which is to mean the same. The program and its library do the same in
// each run; the loader and libc need not.
func TestCallgrindItself(t *testing.T) {
	valgrind, gcc := testtool.Path(t, "valgrind"), testtool.Path(t, "gcc")
	dir := t.TempDir()
	library, program := filepath.Join(dir, "libstep.so"), filepath.Join(dir, "walk")
	for name, text := range map[string]string{
		"step.c": "int step(int x) { return x % 3 ? x + 1 : x * 2 + 1; }\n",
		"walk.c": "int step(int);\nint main() { int x = 1; for (int i = 0; i < 5000; i++) if ((x = step(x)) > 1000000) x = i; return x == 0; }\n",
	} {
		testtool.Write(t, dir, name, text)
	}
	for _, args := range [][]string{
		{"-O1", "-shared", "-fPIC", "-o", library, filepath.Join(dir, "step.c")},
		{"-O1", "-o", program, filepath.Join(dir, "walk.c"), library},
	} {
		testtool.Run(t, dir, append([]string{gcc}, args...)...)
	}
	out := filepath.Join(dir, "out")
	var first map[string]*Image
	for _, opts := range []string{
		"--dump-line=no --compress-pos=no --compress-strings=no",
		"--dump-line=yes",
		"--dump-line=no --combine-dumps=yes --dump-every-bb=5000",
	} {
		if err := os.RemoveAll(out); err != nil { // dumps are appended
			t.Fatal(err)
		}
		args := append([]string{"-q", "--tool=callgrind", "--dump-instr=yes", "--collect-jumps=yes", "--callgrind-out-file=" + out},
			strings.Fields(opts)...)
		if b, err := exec.Command(valgrind, append(args, program)...).CombinedOutput(); err != nil {
			t.Skipf("valgrind does not run here: %v\n%s", err, b)
		}
		truth := load(t, out)
		if len(truth.Images) < 4 {
			t.Errorf("%s: %d images, want a program, its library, libc and their loader", opts, len(truth.Images))
		}
		got := map[string]*Image{}
		for _, path := range []string{library, program} {
			if got[path] = truth.Images[path]; got[path] == nil {
				t.Fatalf("%s: no %s", opts, path)
			}
		}
		if first == nil {
			first = got
		}
		if !reflect.DeepEqual(got, first) {
			t.Errorf("%s: counts differ from those of the first run", opts)
		}
	}
}

// FuzzRead: any bytes give an error, or counts above 0.
func FuzzRead(f *testing.F) {
	for _, tt := range callgrindFiles {
		f.Add([]byte(tt.text))
	}
	f.Add(zipped(f, callgrindFiles[1].text))
	real, err := os.ReadFile("testdata/loop.callgrind")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(real)
	f.Fuzz(func(t *testing.T, b []byte) {
		truth, err := Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		for path, it := range truth.Images {
			for a, n := range it.Insts {
				if n == 0 {
					t.Errorf("%s: %#x: 0 executions", path, a)
				}
			}
		}
		Compare(&document.Counts{}, truth, nil)
	})
}
