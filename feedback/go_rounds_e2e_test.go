package feedback

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// TestGoRounds builds, samples and builds again, three times. The call that the
// first profile has inlined takes no time to speak of from then on; it is made as
// often as ever, and must stay inlined. It samples live and compares weights from
// round to round, so it stays serial.
func TestGoRounds(t *testing.T) {
	testtool.Need(t, "go")
	if testing.Short() {
		t.Skip("samples a program for three seconds")
	}
	source, err := os.ReadFile("testdata/rounds/main.go")
	if err != nil {
		t.Fatal(err)
	}
	above, _, _ := strings.Cut(string(source), "step(x, 0)")
	call := fmt.Sprintf("main.go:%d:", 1+strings.Count(above, "\n"))
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/rounds")); err != nil {
		t.Fatal(err)
	}
	prof := ""
	for round := range 3 {
		said := goByProfile(t, dir, prof, "rounds")
		inlined := slices.ContainsFunc(strings.Split(said, "\n"), func(l string) bool {
			return strings.Contains(l, call) && strings.HasSuffix(l, "inlining call to step")
		})
		testtool.Run(t, dir, "./rounds", "1s", "cpu.pprof")
		prof = "ours.pprof"
		emitGoProfile(t, dir, "cpu.pprof", prof)
		made := decisionsOf(t, dir, prof).made[Choice{Inline, "main.count:2", "main.step"}]
		t.Logf("build %d: the call is inlined: %v; its profile: %.2f %% of the weight, hot: %v", round+1, inlined, 100*made.share, made.hot)
		if inlined != (round > 0) || !made.hot {
			t.Errorf("build %d: the call is inlined: %v, hot in its profile: %v", round+1, inlined, made.hot)
		}
	}
}

// emitGoProfile infers from a CPU profile that a program took of itself, and writes
// a profile for the go command.
func emitGoProfile(t *testing.T, dir, from, to string) GoStats {
	t.Helper()
	rec, err := sample.ReadPprof(strings.NewReader(testtool.Read(t, dir, from)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := infer.Infer(t.Context(), rec, func(id sample.ImageID) (*image.Image, error) { return image.Open(id.Path, image.Options{}) }, infer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	var out bytes.Buffer
	stats, err := WriteGo(&out, p, rec, GoOptions{})
	if err != nil {
		t.Fatal(err)
	}
	testtool.Write(t, dir, to, out.String())
	return stats
}
