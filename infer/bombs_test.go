package infer

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"backfeed/infer/image"
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

// TestTruthBombs are exact counts that are little when compressed.
func TestTruthBombs(t *testing.T) {
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
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ReadCallgrind(bytes.NewReader(tt.b))
		runtime.ReadMemStats(&after)
		used := (after.TotalAlloc - before.TotalAlloc) >> 20
		t.Logf("%s: %d bytes: %d MiB allocated: %v", tt.name, len(tt.b), used, err)
		switch {
		case used > 300:
			t.Errorf("%s: %d MiB allocated for %d bytes", tt.name, used, len(tt.b))
		case tt.field == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.field != "" && (!errors.Is(err, bound.ErrBeyond) || !errors.Is(err, ErrTruth)):
			t.Errorf("%s: error %v, want one about proportions that says %q", tt.name, err, tt.field)
		}
	}
}

// TestTruthSums: executions that a sum of 64 bits cannot hold are an error, or stay at the most.
func TestTruthSums(t *testing.T) {
	const most = math.MaxUint64
	text := fmt.Sprintf("positions: instr\nevents: Ir\nob=a\n0x1000 %d\n0x1000 1\n", uint64(most))
	if _, err := ReadCallgrind(strings.NewReader(text)); !errors.Is(err, ErrTruth) || !strings.Contains(err.Error(), "line 5") {
		t.Errorf("one instruction: %v", err)
	}
	json := fmt.Sprintf(`{"a": {"insn": {"0x1": %d, "0x2": 1}, "jump": [["0x1", "0x2", %d], ["0x1", "0x2", 1]]}}`, uint64(most), uint64(most))
	if _, err := ReadCallgrind(strings.NewReader(json)); !errors.Is(err, ErrTruth) {
		t.Errorf("one jump: %v", err)
	}
	truth, err := ReadCallgrind(strings.NewReader(fmt.Sprintf(`{"a": {"insn": {"0x1": %d, "0x2": 1}}}`, uint64(most))))
	if err != nil {
		t.Fatal(err)
	}
	if n := truth.Images["a"].Total(); n != most {
		t.Errorf("%d executions in all, want %d", n, uint64(most))
	}
}

// TestReadDocumentChecks: a document that breaks its promises is refused where it is read,
// before it is compared with anything.
func TestReadDocumentChecks(t *testing.T) {
	const proc = `{"schema": "backfeed.counts/1", "event": {"name": "cycles"}, "samples": {"total": 1, "used": 1, "lost": {}}, "images": [{"path": "/bin/a", "samples": 1,
		"procs": [{"name": "f", "addr": "0x1000", "size": %s, "samples": 1, "entries": 1, "complete": true, "blocks": [%s], "edges": [%s], "calls": []}]}]}`
	block := func(addr, size, insns string) string {
		return fmt.Sprintf(`{"addr": "%s", "size": %s, "insns": %s, "samples": 1, "count": 1, "confidence": "high"}`, addr, size, insns)
	}
	good := block("0x1000", "8", "2")
	for _, tt := range []struct{ name, size, blocks, edges, want string }{
		{"good", "16", good + "," + block("0x1008", "8", "8"), `{"from": "0x1000", "to": "0x1008", "kind": "taken", "count": 1, "confidence": "high"}`, ""},
		{"empty block", "16", block("0x1000", "0", "0"), "", "images[0].procs[0].blocks[0].size: 0 bytes"},
		{"block beyond the last address", "16", good + "," + block("0xfffffffffffffff0", "17", "1"), "", "blocks[1].size: 17 bytes"},
		{"blocks overlap", "16", good + "," + block("0x1007", "8", "1"), "", "blocks[1].addr: 0x1007"},
		{"out of order", "16", good + "," + block("0xfff", "1", "1"), "", "blocks[1].addr: 0xfff"},
		{"more instructions than bytes", "16", block("0x1000", "8", "9"), "", "blocks[0].insns: 9 in 8 bytes"},
		{"fewer than none", "16", block("0x1000", "8", "-1"), "", "blocks[0].insns: -1"},
		{"procedure beyond the last address", "18446744073709551615", good, "", "procs[0].size"},
		{"unknown edge", "16", good, `{"from": "0x1000", "to": "0x1000", "kind": "magic", "count": 1, "confidence": "high"}`, `edges[0].kind: "magic"`},
	} {
		doc, err := ReadDocument(strings.NewReader(fmt.Sprintf(proc, tt.size, tt.blocks, tt.edges)))
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want == "":
			Compare(doc, &Truth{Images: map[string]*ImageTruth{"/bin/a": {Insts: map[image.Addr]uint64{0x1000: math.MaxUint64}}}}, nil)
		case !errors.Is(err, ErrDocument) || !strings.Contains(err.Error(), tt.want):
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}
