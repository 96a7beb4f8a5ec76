package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/infer/image"
	"backfeed/sample"
)

// mixCounted gives what a recording of testdata/mix has counted in it, by address.
func mixCounted(t *testing.T, path string) map[image.Addr]uint64 {
	t.Helper()
	im, _ := openSampled(t, "../../testdata/mix/mix")
	at := map[image.Addr]uint64{}
	for _, c := range decode(t, path).Counts {
		for _, ic := range c.Images {
			if ic.ID.Build != im.Build && len(ic.Counted) > 0 {
				t.Errorf("counts in %v", ic.ID)
			}
			for off, n := range ic.Counted {
				a, _ := im.AddrOf(off)
				at[a] += n
			}
		}
	}
	return at
}

// TestImportCallgrind: exact counts are a source like others, alone or beside samples,
// whatever finds their images.
func TestImportCallgrind(t *testing.T) {
	const mixDir = "../../testdata/mix"
	const truth, samples = mixDir + "/truth.json.gz", mixDir + "/samples.bfr"
	dir := t.TempDir()
	binary, err := os.ReadFile(mixDir + "/mix")
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "root")
	put(t, filepath.Join(root, "opt/mix/mix"), binary)
	alone, beside, merged := filepath.Join(dir, "alone"), filepath.Join(dir, "beside"), filepath.Join(dir, "merged")
	must(t, "import", truth, "--symfs", root, "-o", alone)
	// The samples know the image's build ID, which finds it anywhere.
	must(t, "import", truth, samples, "--symfs", mixDir, "-o", beside)
	must(t, "merge", samples, alone, "-o", merged)
	if content(t, beside) != content(t, merged) {
		t.Error("counts beside samples differ from those merged with them")
	}
	at := mixCounted(t, alone)
	main := at[0x1090] // the first block of main, by the program's symbols
	if len(at) != 111 || main != 1 {
		t.Errorf("%d places counted, main %d times", len(at), main)
	}
	if rec := decode(t, alone); len(rec.Counts) != 1 || rec.Counts[0].Event != sample.Executions || rec.Samples() != 0 {
		t.Errorf("counts without samples: %+v", rec.Counts[0])
	}
	double := filepath.Join(dir, "double")
	must(t, "merge", truth+"@2", samples, "--symfs", root, "-o", double)
	for a, n := range mixCounted(t, double) {
		if n != 2*at[a] {
			t.Errorf("%#x: %d with weight 2, %d without", a, n, at[a])
		}
	}
	if out := must(t, "images", alone, "--symfs", root); !strings.Contains(out, "      111  found") {
		t.Errorf("images:\n%s", out)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"import", truth, "--symfs", t.TempDir(), "-o", alone}, "no exact count"},
		{[]string{"infer", alone, "--symfs", root}, "only exact counts: 111 places counted"},
	} {
		if code, _, errs := runCLI(t, tt.args...); code != exitNothing || !strings.Contains(errs, tt.want) {
			t.Errorf("%v: exit code %d, want %q: %s", tt.args, code, tt.want, errs)
		}
	}
	if _, _, errs := runCLI(t, "infer", samples, alone, "--symfs", mixDir); !strings.Contains(errs, "exact counts: 111 places counted") {
		t.Errorf("nothing is said of exact counts: %s", errs)
	}
}
