package explain

import (
	"bytes"
	"testing"

	"backfeed/infer"
	"backfeed/infer/document"
	"backfeed/internal/testtool"
)

// TestDocumentStalls: with an Explainer the document has the stalls of blocks, by its
// schema, and without one it is what it was.
func TestDocumentStalls(t *testing.T) {
	s := scene{model: "amd-zen5", code: before + "488b07 4883c101 7504 4883c201 4883c201 c3", // mov (%rdi),%rax; add $1,%rcx; jne 1f; add; 1: add; ret
		samples: waited(1, 40_000), runs: func(b int) float64 { return []float64{1000, 0, 1000}[b] }}
	x, _, _ := s.explainer(t)
	var b bytes.Buffer
	if err := infer.WriteDocument(&b, x.prof, x.Document); err != nil {
		t.Fatal(err)
	}
	if err := testtool.Schema(t, string(document.JSONSchema))(b.String()); err != nil {
		t.Error(err)
	}
	d, err := document.Read(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := d.Write(&again); err != nil || !bytes.Equal(again.Bytes(), b.Bytes()) {
		t.Errorf("%v: read and written again:\n%s\nwas\n%s", err, &again, &b)
	}
	blocks := d.Images[0].Procs[0].Blocks
	first := &blocks[0]
	if first.Cycles == nil || *first.Cycles != 40 || first.LeastCycles == nil || !(*first.LeastCycles > 0) || len(first.Culprits) == 0 ||
		first.Culprits[0].Cause != "dcache-miss" || first.Culprits[0].At != codeStart+26 || first.Culprits[0].From != codeStart+26 {
		t.Errorf("first block: %+v", *first)
	}
	if last := &blocks[2]; last.Cycles == nil || *last.Cycles != 0 || last.Culprits == nil || len(last.Culprits) != 0 {
		t.Errorf("a block without time: %+v", *last)
	}
	if never := &blocks[1]; never.Cycles != nil || never.LeastCycles == nil || never.Culprits != nil {
		t.Errorf("a block that did not run: %+v", *never)
	}
	var plain bytes.Buffer
	if err := infer.WriteDocument(&plain, x.prof, nil); err != nil || bytes.Contains(plain.Bytes(), []byte("cycles_per_execution")) {
		t.Errorf("%v: without stalls\n%s", err, &plain)
	}
}
