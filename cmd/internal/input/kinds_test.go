package input

import (
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/cmd/internal/fail"
	"backfeed/sample"
	"backfeed/testdata/tiny"
)

// TestMistaken: a file of another kind than is wanted is said to be of that, with what makes one of the wanted, and no bytes of it are
// printed. One of the wanted kind, or nothing that is there, keeps its error.
func TestMistaken(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var zipped strings.Builder
	z := gzip.NewWriter(&zipped)
	z.Write([]byte("main:10:1\n 1: 3\n"))
	z.Close()
	rec := string((&sample.Recording{}).Encode())
	files := []struct{ name, text, kind string }{
		{"rec", rec, kindRecording},
		{"perf", "PERFILE2" + strings.Repeat("\x68", 100), kindPerf},
		{"pprof", "\x0a\x04\x08\x01\x10\x02", kindPprof},
		{"counts", `{"schema": "backfeed.counts/2", "images": []}`, kindCounts},
		{"lock", `{"schema": "backfeed.lock/1"}`, "a document of backfeed (schema backfeed.lock)"},
		{"elf", string(tiny.ELF(sample.BuildID{1})), kindELF},
		{"callgrind", "# callgrind format\npositions: instr\n", kindTruth},
		{"cover", "mode: count\n", kindCover},
		{"notes", "oncg*33B\x00\x01", kindNotes},
		{"gcda", "adcg*33B\x00\x01", "counters of gcc (.gcda)"},
		{"afdo", "adcg\x02\x00\x00\x00\x00", "a profile for gcc -fauto-profile (.afdo)"},
		{"profdata", "\xfflprofi\x81\x0c", "an instrumented profile of LLVM"},
		{"llvm", "main:10:1\n 1: 3\n", kindLLVM},
		{"llvm, of backfeed", "# made of 100 samples\nmain:10:1\n 1: 3\n", kindLLVM},
		{"fdata", "0 [unknown] 0 1 compare/1 0 0 4576526\n1 main 3f 1 main 51 0 12\n", "a profile for llvm-bolt (fdata)"},
		{"gzip", zipped.String(), kindGzip},
		{"empty", "", kindEmpty},
		{"text", "hello\nworld\n", kindText},
		{"bytes", "\x92\x08\x85\x90", kindUnknown},
	}
	for _, f := range files {
		path := put(f.name, f.text)
		if got := kindOf([]byte(f.text)); got != f.kind {
			t.Errorf("%s: %s, want %s", f.name, got, f.kind)
		}
		for want, w := range wants {
			inner := fail.Errorf(fail.Nothing, "%s: line 5: %q is no header", path, "\x92\x08")
			got := Mistaken(path, want, inner)
			right := false
			for _, k := range kinds[want] {
				right = right || k == f.kind
			}
			switch text := got.Error(); {
			case fail.KindOf(got) != fail.Nothing || strings.Contains(text, "SRC"):
				t.Errorf("%s for %s: %v", f.name, w.a, got)
			case right && got != inner:
				t.Errorf("%s for %s: %v, want the reader's error", f.name, w.a, got)
			case !right && f.kind == kindText && (!errors.Is(got, inner) || !strings.Contains(text, "want "+w.a)):
				t.Errorf("%s for %s: %v", f.name, w.a, got)
			case !right && f.kind != kindText && (errors.Is(got, inner) || !strings.HasPrefix(text, fmt.Sprintf("%s: %s, not %s: ", path, f.kind, w.a))):
				t.Errorf("%s for %s: %v", f.name, w.a, got)
			}
		}
	}
	if got := Mistaken(dir, WantCounts, errors.New("is a directory")).Error(); !strings.HasPrefix(got, dir+": a directory, not a counts document: ") {
		t.Errorf("a directory: %s", got)
	}
	if got := Mistaken(filepath.Join(dir, "rec"), WantCounts, errors.New("?")).Error(); !strings.Contains(got, "`backfeed infer "+filepath.Join(dir, "rec")+" --format json -o counts.json` makes one of it") {
		t.Errorf("a recording for counts: %s", got)
	}
	gone := errors.New("no such file")
	if got := Mistaken(filepath.Join(dir, "gone"), WantCounts, gone); got != gone {
		t.Errorf("nothing there: %v", got)
	}
	if got := Mistaken(filepath.Join(dir, "rec"), WantTruth, nil); got != nil {
		t.Errorf("no error: %v", got)
	}
}
