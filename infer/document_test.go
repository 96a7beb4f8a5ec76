package infer

import (
	"bytes"
	"testing"

	"backfeed/infer/document"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

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
		Symbol: image.Symbol{Name: "_ZN3app4leafEv", Addr: 0x1200, Size: 4},
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
					Proc: loop, Samples: 45, Entries: Freq{1e6 + 0.4, Medium, Medium, Medium},
					Block:        []Freq{{1e6 + 0.4, Medium, Medium, Medium}, {1e22, High, High, High}, {2.5, Low, Low, Low}},
					Cold:         []bool{false, false, true},
					BlockSamples: []uint64{4, 41, 0},
					Edge:         []Freq{{1e6, Medium, Medium, Medium}, {123456789012, High, High, High}, {2.5, Low, Low, Low}, {0, None, None, None}},
					Call:         []Freq{{1e9, High, High, High}, {7, Low, Low, Low}, {0.4, Low, Low, Low}},
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

// written returns a document as bytes.
func written(t testing.TB, d *document.Counts) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := d.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestDocument(t *testing.T) {
	got := written(t, NewDocument(smallProfile()))
	var b bytes.Buffer
	if err := WriteDocument(&b, smallProfile(), nil); err != nil || !bytes.Equal(b.Bytes(), got) {
		t.Errorf("%v: of the profile\n%s\nof the document\n%s", err, &b, got)
	}
	testtool.Golden(t, "document/testdata/small.counts.json", got)
}

// TestDocumentWithoutCodeAtTheEntry: a procedure where nothing decodes has a first block of no bytes, which a document has not.
func TestDocumentWithoutCodeAtTheEntry(t *testing.T) {
	p := smallProfile()
	leaf := p.Images[0].Procs[1]
	leaf.Proc.Blocks = []image.Block{{Start: 0x1200, End: 0x1200}, {Start: 0x1202, End: 0x1204, Insts: 1}}
	leaf.Proc.Edges = []image.Edge{{From: 1, To: 0, Kind: image.Taken}}
	leaf.Block, leaf.Cold, leaf.BlockSamples, leaf.Edge = make([]Freq, 2), make([]bool, 2), make([]uint64, 2), make([]Freq, 1)
	d, err := document.Read(bytes.NewReader(written(t, NewDocument(p))))
	if err != nil {
		t.Fatal(err)
	}
	if b, e := d.Images[0].Procs[1].Blocks, d.Images[0].Procs[1].Edges; len(b) != 1 || b[0].Addr != 0x1202 || len(e) != 0 {
		t.Errorf("blocks %+v, edges %+v", b, e)
	}
}

// TestNewDocumentOfNothing: a profile of nothing makes a document with lists that are empty, not missing.
func TestNewDocumentOfNothing(t *testing.T) {
	if d := NewDocument(&Profile{}); d.Images == nil || d.Samples.Lost == nil || d.Schema != document.Schema {
		t.Errorf("%+v", d)
	}
}
