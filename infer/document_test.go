package infer

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"backfeed/infer/image"
	"backfeed/sample"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// smallProfile is two procedures, with something of everything.
func smallProfile() *Profile {
	build, _ := sample.ParseBuildID("b1d0000000000000000000000000000000000001")
	loop := &image.Proc{
		Symbol: image.Symbol{Name: "loop<int&>", Addr: 0x1100, Size: 0x30},
		Blocks: []image.Block{
			{Start: 0x1100, End: 0x1108, Insts: 3},
			{Start: 0x1108, End: 0x1120, Insts: 7},
			{Start: 0x1120, End: 0x1130, Insts: 2},
		},
		Edges: []image.Edge{{From: 0, To: 1}, {From: 1, To: 1, Kind: image.Taken}, {From: 1, To: 2}, {From: 2, To: 0, Kind: image.Indirect}},
		Calls: []image.Call{
			{Block: 1, Site: 0x1110, To: 0x1200},
			{Block: 1, Site: 0x1118},
			{Block: 2, Site: 0x112c, To: 0x1300, Tail: true},
		},
		Complete: true,
	}
	leaf := &image.Proc{
		Symbol: image.Symbol{Name: "leaf", Addr: 0x1200, Size: 4},
		Blocks: []image.Block{{Start: 0x1200, End: 0x1204, Insts: 1}},
		Why:    "0x1200: indirect jump",
	}
	return &Profile{
		Machine: "test-machine",
		Event:   sample.Event{Name: "cpu-clock", Period: 100000, Unit: "ns"},
		Samples: Samples{Total: 50, Used: 45, Lost: map[sample.Loss]uint64{sample.LostUnmapped: 3, LostNoImage: 2}},
		Images: []*ImageProfile{
			{ID: sample.ImageID{Build: build, Path: "/bin/small"}, Samples: 45, Procs: []*Result{
				{
					Proc: loop, Samples: 45, Entries: Freq{1e6 + 0.4, Medium, Medium},
					Block:        []Freq{{1e6 + 0.4, Medium, Medium}, {1e22, High, High}, {2.5, Low, Low}},
					Cold:         []bool{false, false, true},
					BlockSamples: []uint64{4, 41, 0},
					Edge:         []Freq{{1e6, Medium, Medium}, {123456789012, High, High}, {2.5, Low, Low}, {0, None, None}},
					Call:         []Freq{{1e9, High, High}, {7, Low, Low}, {0.4, Low, Low}},
				},
				{
					Proc:  leaf,
					Block: make([]Freq, 1), Cold: make([]bool, 1), BlockSamples: make([]uint64, 1),
				},
			}},
			{ID: sample.ImageID{Path: "/lib/idle.so"}},
		},
	}
}

// written returns the document of p as bytes.
func written(t testing.TB, d *Document) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := d.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestDocumentWriter holds what is written without reflection to encoding/json.
func TestDocumentWriter(t *testing.T) {
	d := NewDocument(smallProfile())
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

func TestDocument(t *testing.T) {
	got, golden := written(t, NewDocument(smallProfile())), "testdata/small.counts.json"
	var b bytes.Buffer
	if err := WriteDocument(&b, smallProfile(), nil); err != nil || !bytes.Equal(b.Bytes(), got) {
		t.Errorf("%v: of the profile\n%s\nof the document\n%s", err, &b, got)
	}
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %v\ngot:\n%s\nwant:\n%s", golden, err, got, want)
	}
}

func TestDocumentRoundTrip(t *testing.T) {
	for _, p := range []*Profile{smallProfile(), {}} {
		want := NewDocument(p)
		b := written(t, want)
		got, err := ReadDocument(bytes.NewReader(b))
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

func equalJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func TestRounded(t *testing.T) {
	for n, want := range map[float64]DocumentCount{
		-1: 0, 0: 0, 0.4: 0, 0.5: 1, 1e15 + 0.5: 1e15 + 1, 1e30: math.MaxUint64, math.Inf(1): math.MaxUint64,
	} {
		if got := rounded(Freq{N: n}); got != want {
			t.Errorf("%g: %d, want %d", n, got, want)
		}
	}
	if got := rounded(Freq{N: math.NaN()}); got != 0 {
		t.Errorf("NaN: %d, want 0", got)
	}
}

// compiledSchema is the schema that goes with the code.
func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(DocumentJSONSchema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("counts.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("counts.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSchema(t *testing.T) {
	schema := compiledSchema(t)
	good := string(written(t, NewDocument(smallProfile())))
	for _, tt := range []struct {
		name, old, new string
		valid          bool
	}{
		{"as written", "", "", true},
		{"with what a later version computes", `"shape":"medium"}`,
			`"shape":"medium","cpi":1.9,"least_cycles":1.0,` +
				`"culprits":[{"cause":"dcache-miss","at":"0x1108","least":0,"most":5.2,"from":"0x1100"}]}`, true},
		{"another version", "counts/1", "counts/2", false},
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
		inst, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.Replace(good, tt.old, tt.new, 1)))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if err := schema.Validate(inst); (err == nil) != tt.valid {
			t.Errorf("%s: valid %v, want %v: %v", tt.name, err == nil, tt.valid, err)
		}
	}
}

// TestSchemaOfEmpty: a profile of nothing makes a valid document too.
func TestSchemaOfEmpty(t *testing.T) {
	inst, err := jsonschema.UnmarshalJSON(bytes.NewReader(written(t, NewDocument(&Profile{}))))
	if err != nil {
		t.Fatal(err)
	}
	if err := compiledSchema(t).Validate(inst); err != nil {
		t.Error(err)
	}
}

func TestReadDocument(t *testing.T) {
	const head = `{"schema":"backfeed.counts/1","event":{"name":"x"},"samples":{"total":0,"used":0,"lost":{}},"images":[{"path":"/a","procs":[{"blocks":[{`
	const tail = `}]}]}]}`
	for _, tt := range []struct {
		name, doc string
		want      string // beginning of the error
	}{
		{"nothing", ``, "offset 0x0: cut short"},
		{"cut short", head, "offset 0x"},
		{"not JSON", `# callgrind format`, "offset 0x1: invalid character '#'"},
		{"another document", `{"schema":"sarif"}`, `schema "sarif", want "backfeed.counts/1"`},
		{"a list", `[]`, "offset 0x1: : array instead of infer.Document"},
		{"size of another type", head + `"size":"8"` + tail, "offset 0x92: images.procs.blocks.size: string instead of uint64"},
		{"bad address", head + `"addr":"8"` + tail, `address "8": want 0x`},
		{"address too large", head + `"addr":"0x12345678123456789"` + tail, `address "0x12345678123456789": want 0x`},
		{"bad count", head + `"count":-4` + tail, "count -4: want a number that is not negative"},
		{"bad confidence", head + `"confidence":"sure"` + tail, `confidence "sure": want none`},
		{"two documents", `{"schema":"backfeed.counts/1"} {}`, "offset 0x20: more than one value"},
	} {
		_, err := ReadDocument(strings.NewReader(tt.doc))
		if !errors.Is(err, ErrDocument) || !strings.HasPrefix(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: got error %q, want %q", tt.name, err, tt.want)
		}
	}
	d, err := ReadDocument(strings.NewReader(head + `"addr":"0x10","size":4,"count":1.2e6,"confidence":"low","later":[1]` + tail))
	if err != nil {
		t.Fatal(err)
	}
	want := DocumentBlock{Addr: 0x10, Size: 4, Count: 1200000, Confidence: Low}
	if got := d.Images[0].Procs[0].Blocks[0]; !reflect.DeepEqual(got, want) {
		t.Errorf("block of another writer: got %+v, want %+v", got, want)
	}
}

// TestDocumentStalls: with an Explainer the document has the stalls of blocks, by its
// schema, and without one it is what it was.
func TestDocumentStalls(t *testing.T) {
	s := scene{model: "amd-zen5", code: before + "488b07 4883c101 7504 4883c201 4883c201 c3", // mov (%rdi),%rax; add $1,%rcx; jne 1f; add; 1: add; ret
		samples: waited(1, 40_000), runs: func(b int) float64 { return []float64{1000, 0, 1000}[b] }}
	x, _, _ := s.explainer(t)
	var b bytes.Buffer
	if err := WriteDocument(&b, x.prof, x); err != nil {
		t.Fatal(err)
	}
	inst, err := jsonschema.UnmarshalJSON(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := compiledSchema(t).Validate(inst); err != nil {
		t.Error(err)
	}
	d, err := ReadDocument(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if again := written(t, d); !bytes.Equal(again, b.Bytes()) {
		t.Errorf("read and written again:\n%s\nwas\n%s", again, &b)
	}
	blocks := d.Images[0].Procs[0].Blocks
	first := &blocks[0]
	if first.CPI == nil || *first.CPI != 40 || first.LeastCycles == nil || !(*first.LeastCycles > 0) || len(first.Culprits) == 0 ||
		first.Culprits[0].Cause != "dcache-miss" || first.Culprits[0].At != codeStart+26 || first.Culprits[0].From != codeStart+26 {
		t.Errorf("first block: %s", first.appendTo(nil))
	}
	if last := &blocks[2]; last.CPI == nil || *last.CPI != 0 || last.Culprits == nil || len(last.Culprits) != 0 {
		t.Errorf("a block without time: %s", last.appendTo(nil))
	}
	if never := &blocks[1]; never.CPI != nil || never.LeastCycles == nil || never.Culprits != nil {
		t.Errorf("a block that did not run: %s", never.appendTo(nil))
	}
	var plain bytes.Buffer
	if err := WriteDocument(&plain, x.prof, nil); err != nil || bytes.Contains(plain.Bytes(), []byte("cpi")) {
		t.Errorf("%v: without stalls\n%s", err, &plain)
	}
}

// FuzzReadDocument: any bytes give an error, or a document that survives a round
// trip.
func FuzzReadDocument(f *testing.F) {
	f.Add(written(f, NewDocument(smallProfile())))
	f.Add(written(f, NewDocument(&Profile{})))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ReadDocument(bytes.NewReader(b))
		if err != nil {
			return
		}
		first := written(t, d)
		again, err := ReadDocument(bytes.NewReader(first))
		if err != nil || !bytes.Equal(written(t, again), first) {
			t.Fatalf("round trip: %v\n%s", err, first)
		}
	})
}
