package truth

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"backfeed/infer/document"
	"backfeed/internal/testtool"
	"backfeed/sample/bound"
)

// packed compresses head, and a text so many times.
func packed(head, text string, times int) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	z.Write([]byte(head))
	chunk := strings.Repeat(text, 1000)
	for range times / 1000 {
		z.Write([]byte(chunk))
	}
	z.Close()
	return out.Bytes()
}

// TestBombs are exact counts that are little when compressed.
func TestBombs(t *testing.T) {
	const head = "positions: instr\nevents: Ir Dr\nob=a\n0x1000 1 1\n"
	for _, tt := range []struct {
		name  string
		b     []byte
		field string // no field: it is read
	}{
		{"comments", packed(head, "#\n", 14<<20), "line "},
		{"instructions", packed(head, "+1 1 1\n", 3<<18), "of memory"},
		{"calls", packed(head, "calls=1 0x2000\n+1 1\n", 100_000), ""},
		{"names", packed(head+"ob=(1) "+strings.Repeat("x", 1<<16)+"\n", "ob=(1)\n", 1<<17), ""},
		{"spaces", packed(`{"a": {"insn": {"0x1": 1}`, " ", 18<<20), "unpacked"},
		{"images", packed(`{"a": {"insn": {"0x1": 1}}`, `,"a":{}`, 1<<19), "of memory"},
		{"some spaces", packed(`{"a": {"insn": {"0x1": 1}}}`, " ", 4<<20), ""},
	} {
		var err error
		used := testtool.Allocated(func() { _, err = Read(bytes.NewReader(tt.b)) }) >> 20
		t.Logf("%s: %d bytes: %d MiB allocated: %v", tt.name, len(tt.b), used, err)
		switch {
		case used > 300:
			t.Errorf("%s: %d MiB allocated for %d bytes", tt.name, used, len(tt.b))
		case tt.field == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.field != "" && (!errors.Is(err, bound.ErrBeyond) || !errors.Is(err, ErrFormat)):
			t.Errorf("%s: error %v, want one about proportions that says %q", tt.name, err, tt.field)
		}
	}
}

// TestSums: executions that a sum of 64 bits cannot hold are an error, or stay at the most.
func TestSums(t *testing.T) {
	const most = math.MaxUint64
	text := fmt.Sprintf("positions: instr\nevents: Ir\nob=a\n0x1000 %d\n0x1000 1\n", uint64(most))
	if _, err := Read(strings.NewReader(text)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "line 5") {
		t.Errorf("one instruction: %v", err)
	}
	json := fmt.Sprintf(`{"a": {"insn": {"0x1": %d, "0x2": 1}, "jump": [["0x1", "0x2", %d], ["0x1", "0x2", 1]]}}`, uint64(most), uint64(most))
	if _, err := Read(strings.NewReader(json)); !errors.Is(err, ErrFormat) {
		t.Errorf("one jump: %v", err)
	}
	truth, err := Read(strings.NewReader(fmt.Sprintf(`{"a": {"insn": {"0x1": %d, "0x2": 1}}}`, uint64(most))))
	if err != nil {
		t.Fatal(err)
	}
	if n := truth.Images["a"].Total(); n != most {
		t.Errorf("%d executions in all, want %d", n, uint64(most))
	}
	doc := &document.Counts{Images: []document.Image{{ImageHeader: document.ImageHeader{Path: "a"}, Procs: []document.Proc{{
		Blocks: []document.Block{{Addr: 1, Size: 8, Insns: 2, Samples: 1, Count: most, Confidence: document.High, Within: document.High}},
	}}}}}
	if got := Compare(doc, truth, nil).BlockOverlap; !(math.Abs(got-1) < 1e-9) {
		t.Errorf("block overlap %v, want 1", got)
	}
}
