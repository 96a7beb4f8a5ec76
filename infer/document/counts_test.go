package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// small is a document with something of everything; the test of infer.NewDocument writes
// it.
func small(t testing.TB) *Counts {
	t.Helper()
	f, err := os.Open("testdata/small.counts.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// empty is the document of a profile of nothing.
func empty() *Counts {
	return &Counts{Header{Schema: Schema, Samples: Samples{Lost: map[sample.Loss]uint64{}}}, []Image{}}
}

// written returns a document as bytes.
func written(t testing.TB, d *Counts) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := d.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestWriter holds what is written without reflection to encoding/json.
func TestWriter(t *testing.T) {
	d := small(t)
	d.Images[0].Procs[0].Calls[0].Targets = []CallTarget{{0x401000, 0.25}, {0x402000, 0.625}}
	if again, err := Read(bytes.NewReader(written(t, d))); err != nil || !reflect.DeepEqual(again, d) {
		t.Errorf("targets of a call: %v", err)
	}
	d.Images[0].Procs[0].Edges[0].Kind = "of \"another\" kind"
	var want, got bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(d); err != nil {
		t.Fatal(err)
	}
	if err := json.Compact(&got, written(t, d)); err != nil {
		t.Fatal(err)
	}
	if got.String() != strings.TrimSpace(want.String()) {
		t.Errorf("written:\n%s\nencoding/json:\n%s", &got, &want)
	}
}

func TestRound(t *testing.T) {
	for n, want := range map[float64]Count{
		-1: 0, 0: 0, 0.4: 0, 0.5: 1, 1e15 + 0.5: 1e15 + 1, 1e30: math.MaxUint64, math.Inf(1): math.MaxUint64,
	} {
		if got := Round(n); got != want {
			t.Errorf("%g: %d, want %d", n, got, want)
		}
	}
	if got := Round(math.NaN()); got != 0 {
		t.Errorf("NaN: %d, want 0", got)
	}
}

func TestRoundTrip(t *testing.T) {
	for _, want := range []*Counts{small(t), empty()} {
		b := written(t, want)
		if golden, err := os.ReadFile("testdata/small.counts.json"); len(want.Images) > 0 && (err != nil || !bytes.Equal(b, golden)) {
			t.Errorf("%v: read and written again\n%s\nwas\n%s", err, b, golden)
		}
		got, err := Read(bytes.NewReader(b))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v\ngot  %+v\nwant %+v", err, got, want)
		}
		var whole bytes.Buffer // as encoding/json writes it, the pieces make the same document
		if err := json.Compact(&whole, b); err != nil {
			t.Error(err)
		}
		if again, err := json.Marshal(want); err != nil || !equalJSON(again, whole.Bytes()) {
			t.Errorf("%v: in pieces\n%s\nat once\n%s", err, whole.Bytes(), again)
		}
	}
}

// TestReadOld: a document of version 1 reads as the same one of this version.
func TestReadOld(t *testing.T) {
	b, err := os.ReadFile("testdata/small.counts1.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(b, []byte(schema1)) {
		t.Fatalf("the file is not of %s", schema1)
	}
	got, err := Read(bytes.NewReader(b))
	want := small(t)
	want.Clock = nil // which that version did not have
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, got, want)
	}
}

func equalJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func TestSchema(t *testing.T) {
	check := testtool.Schema(t, string(JSONSchema))
	good := string(written(t, small(t)))
	for _, tt := range []struct {
		name, old, new string
		valid          bool
	}{
		{"as written", "", "", true},
		{"with what a later version computes", `"confidence_within":"medium"}`,
			`"confidence_within":"medium","cycles_per_execution":1.9,"least_cycles":1.0,` +
				`"culprits":[{"cause":"dcache-miss","at":"0x1108","least":0,"most":5.2,"from":"0x1100"}]}`, true},
		{"another version", "counts/2", "counts/3", false},
		{"address as a number", `"from":"0x1100"`, `"from":4352`, false},
		{"address without 0x", `"from":"0x1100"`, `"from":"1100"`, false},
		{"negative count", `"count":123456789012`, `"count":-1`, false},
		{"half a count", `"count":123456789012`, `"count":0.5`, false},
		{"unknown kind of edge", `"kind":"taken"`, `"kind":"call"`, false},
		{"unknown confidence", `"confidence":"none"`, `"confidence":"zero"`, false},
		{"misspelt field", `"entries"`, `"entrys"`, false},
		{"empty block", `"size":8,"insns":3`, `"size":0,"insns":3`, false},
		{"period of 0", `"period":100000`, `"period":0`, false},
		{"no images", `"images"`, `"pictures"`, false},
		{"short build ID", `"build_id":"b1d`, `"build_id":"b1`, false},
	} {
		if !strings.Contains(good, tt.old) {
			t.Fatalf("%s: no %s in the document", tt.name, tt.old)
		}
		text := strings.Replace(good, tt.old, tt.new, 1)
		if !json.Valid([]byte(text)) {
			t.Fatalf("%s: not JSON", tt.name)
		}
		if err := check(text); (err == nil) != tt.valid {
			t.Errorf("%s: valid %v, want %v: %v", tt.name, err == nil, tt.valid, err)
		}
	}
}

// TestSchemaOfEmpty: a profile of nothing makes a valid document too.
func TestSchemaOfEmpty(t *testing.T) {
	if err := testtool.Schema(t, string(JSONSchema))(string(written(t, empty()))); err != nil {
		t.Error(err)
	}
}

func TestRead(t *testing.T) {
	const doc = `{"schema":"backfeed.counts/1","event":{"name":"x"},"samples":{"total":0,"used":0,"lost":{"unmapped":1}},"images":[{"path":"/a","samples":0,"procs":[{` +
		`"name":"f","addr":"0x10","size":4,"samples":0,"entries":0,"complete":true,"blocks":[{"addr":"0x10","size":4,"insns":1,"samples":0,"count":1.2e6,"confidence":"low","later":[1]}],"edges":[],"calls":[]}]}]}`
	const block = "images[0].procs[0].blocks[0]"
	for _, tt := range []struct {
		name, old, new string
		want           string // beginning of the error
	}{
		{"nothing", doc, "", "cut short: write it again"},
		{"cut short", `"calls":[]}]}]}`, "", "cut short: write it again"},
		{"not JSON", doc, "# callgrind format", "offset 0x1: not JSON: malformed"},
		{"another document", doc, `{"schema":"sarif"}`, `schema "sarif", want "backfeed.counts/2" or "backfeed.counts/1"`},
		{"a list", doc, "[]", "offset 0x0: an array, want an object"},
		{"nothing in it", doc, "{}", `schema "", want`},
		{"size of another type", `"size":4,"insns"`, `"size":"4","insns"`, "offset 0xff: " + block + ".size: a string, want a whole number"},
		{"address of another type", `[{"addr":"0x10"`, `[{"addr":8`, "offset 0xf1: " + block + ".addr: a number, want a string"},
		{"complete of another type", `"complete":true`, `"complete":null`, "offset 0xda: images[0].procs[0].complete: null, want true or false"},
		{"fraction of an instruction", `"insns":1`, `"insns":1.5`, "offset 0x109: " + block + ".insns: 1.5, want a whole number"},
		{"more instructions than an int holds", `"insns":1`, `"insns":1e30`, "offset 0x10d: images.procs.blocks.insns: number 1e30"},
		{"bad address", `[{"addr":"0x10"`, `[{"addr":"8"`, "offset 0xf1: " + block + `.addr: "8", want what matches ^0x`},
		{"address too large", `[{"addr":"0x10"`, `[{"addr":"0x12345678123456789"`, "offset 0xf1: " + block + `.addr: "0x12345678123456789"`},
		{"bad count", `1.2e6`, "-4", "offset 0x11f: " + block + ".count: -4, want 0 or more"},
		{"bad confidence", `"low"`, `"sure"`, "offset 0x132: " + block + `.confidence: "sure", want none, low, medium or high`},
		{"bad loss", `"unmapped":1`, `"\u001b\n":-1`, `offset 0x64: samples.lost["\x1b\n"]: -1, want 0 or more`},
		{"a part is missing", `"edges":[],`, "", "offset 0x94: images[0].procs[0].edges: missing"},
		{"a part in other letters", `"edges"`, `"Edges"`, `offset 0x146: images[0].procs[0].Edges: want "edges", in these letters`},
		{"two documents", `]}]}]}`, `]}]}]} {}`, "offset 0x162: more than one value"},
	} {
		if !strings.Contains(doc, tt.old) {
			t.Fatalf("%s: no %s in the document", tt.name, tt.old)
		}
		_, err := Read(strings.NewReader(strings.Replace(doc, tt.old, tt.new, 1)))
		if !errors.Is(err, ErrFormat) || !strings.HasPrefix(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: got error %q, want %q", tt.name, err, tt.want)
		}
	}
	d, err := Read(strings.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	want := Block{Addr: 0x10, Size: 4, Insns: 1, Count: 1200000, Confidence: Low}
	if got := d.Images[0].Procs[0].Blocks[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("block of another writer: got %+v, want %+v", got, want)
	}
}

// FuzzRead: any bytes give an error, or a document that survives a round
// trip.
func FuzzRead(f *testing.F) {
	f.Add(written(f, small(f)))
	f.Add(written(f, empty()))
	if b, err := os.ReadFile("testdata/small.counts1.json"); err == nil {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		first := written(t, d)
		again, err := Read(bytes.NewReader(first))
		if err != nil || !bytes.Equal(written(t, again), first) {
			t.Fatalf("round trip: %v\n%s", err, first)
		}
	})
}

// TestReadChecks: a document that breaks its promises is refused where it is read.
func TestReadChecks(t *testing.T) {
	const proc = `{"schema": "backfeed.counts/1", "event": {"name": "cycles"}, "samples": {"total": 1, "used": 1, "lost": {}}, "images": [{"path": "/bin/a", "samples": 1,
		"procs": [{"name": "f", "addr": "0x1000", "size": %s, "samples": 1, "entries": 1, "complete": true, "blocks": [%s], "edges": [%s], "calls": []}]}]}`
	block := func(addr, size, insns string) string {
		return fmt.Sprintf(`{"addr": "%s", "size": %s, "insns": %s, "samples": 1, "count": 1, "confidence": "high"}`, addr, size, insns)
	}
	good := block("0x1000", "8", "2")
	for _, tt := range []struct{ name, size, blocks, edges, want string }{
		{"good", "16", good + "," + block("0x1008", "8", "8"), `{"from": "0x1000", "to": "0x1008", "kind": "taken", "count": 1, "confidence": "high"}`, ""},
		{"empty block", "16", block("0x1000", "0", "0"), "", "images[0].procs[0].blocks[0].size: 0, want 1 or more"},
		{"block beyond the last address", "16", good + "," + block("0xfffffffffffffff0", "17", "1"), "", "blocks[1].size: 17 bytes"},
		{"blocks overlap", "16", good + "," + block("0x1007", "8", "1"), "", "blocks[1].addr: 0x1007"},
		{"out of order", "16", good + "," + block("0xfff", "1", "1"), "", "blocks[1].addr: 0xfff"},
		{"more instructions than bytes", "16", block("0x1000", "8", "9"), "", "blocks[0].insns: 9 in 8 bytes"},
		{"fewer than none", "16", block("0x1000", "8", "-1"), "", "blocks[0].insns: -1, want 0 or more"},
		{"procedure beyond the last address", "18446744073709551615", good, "", "procs[0].size"},
		{"unknown edge", "16", good, `{"from": "0x1000", "to": "0x1000", "kind": "magic", "count": 1, "confidence": "high"}`, `edges[0].kind: "magic"`},
	} {
		_, err := Read(strings.NewReader(fmt.Sprintf(proc, tt.size, tt.blocks, tt.edges)))
		switch {
		case tt.want == "":
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
		case !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), tt.want):
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}
