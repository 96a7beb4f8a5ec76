package emit

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/prose"
	"backfeed/layout"
)

// TestOffers: what can be made of testdata/mix has commands that write it, of the same recording with the same flags; what cannot
// says why.
func TestOffers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a recording.bfr")
	b, err := os.ReadFile(filepath.Join(mixDir, "samples.bfr"))
	if err == nil {
		err = os.WriteFile(file, b, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	opt := input.Options{Symfs: []string{mixDir}}
	opt.Infer.Model = "intel-icelake"
	src, err := input.Infer(context.Background(), []string{file}, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	ip, err := src.Image("mix")
	if err != nil {
		t.Fatal(err)
	}
	var steps []int
	order := Order(ip, nil, func(done, total int) { steps = append(steps, 1000*done/total) })
	if !slices.IsSorted(steps) || len(steps) < 3 || steps[0] > 100 || steps[len(steps)-1] != 1000 {
		t.Errorf("its progress is %d", steps)
	}
	offers := MakeOffers(src, ip, order)
	reads := prose.ShellWord(file) + " --symfs " + mixDir + " --model intel-icelake"
	made := map[string]bool{}
	for _, o := range offers.Files {
		made[o.Reader] = o.Err == nil
		switch {
		case o.Err != nil && (len(o.Commands) > 0 || strings.HasPrefix(o.Why(), "gcc: ")):
			t.Errorf("%s: commands %q beside %q", o.Reader, o.Commands, o.Why())
		case o.Err == nil && o.Worth == "":
			t.Errorf("%s: it does not say what it is worth", o.Reader)
		case o.Err == nil && len(o.Commands) > 0 && !strings.Contains(o.Commands[0], reads):
			t.Errorf("%s: %q does not read %q", o.Reader, o.Commands[0], reads)
		}
		for _, c := range o.Commands {
			if strings.Contains(c, " with the same") {
				t.Errorf("%s: %q is no command", o.Reader, c)
			}
		}
	}
	if !made["gcc"] || !made["llvm-bolt"] || made["Propeller (clang and lld)"] || offers.Files[0].Reader != "gcc" {
		t.Errorf("made are %v, the first of them %s", made, offers.Files[0].Reader)
	}
	if offers.For != "llvm" || offers.Decisions == nil || len(offers.Compilers) == 0 || !strings.HasPrefix(offers.Compilers[0].Name, "GNU C") {
		t.Errorf("decisions of %q; made by %v", offers.For, offers.Compilers)
	}
}

// TestOrderWorth: an order is said to gain only what is clear.
func TestOrderWorth(t *testing.T) {
	for _, tt := range []struct {
		gain layout.Gain
		want string
	}{
		{layout.Gain{Pages: 25, PagesLinked: 52, Misses: 7.17, MissesLinked: 10.13, Error: 0.41}, "25 pages of 4 KB hold 99 % of what runs, of 52 now. What"},
		{layout.Gain{Pages: 25, PagesLinked: 52, Misses: 2, MissesLinked: 10, Error: 0.41}, "of 52 now; 48 to 92 % fewer lines"},
		{layout.Gain{Pages: 4, PagesLinked: 4, Misses: 1, MissesLinked: 1.1, Error: 0.2}, "Not expected to gain: as it is linked, the program is as good."},
		{layout.Gain{Pages: 5, PagesLinked: 4, Misses: 1, MissesLinked: 1.1, Error: 0.2}, "the program is better."},
		{layout.Gain{Pages: 3, PagesLinked: 4, Misses: 1.1, MissesLinked: 1, Error: 0.2}, "3 pages of 4 KB hold 99 % of what runs, of 4 now. What"},
	} {
		if got := (&Worked{Gain: tt.gain}).worth(); !strings.Contains(got, tt.want) {
			t.Errorf("%+v: %s, want %s", tt.gain, got, tt.want)
		}
	}
}
