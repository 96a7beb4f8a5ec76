package feedback

import (
	"path/filepath"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestGoBuild goes all the way: a program's own CPU profile is inferred from,
// and the go command builds with what WriteGo made of it.
func TestGoBuild(t *testing.T) {
	testtool.Need(t, "go")
	if testing.Short() {
		t.Skip("samples a program for two seconds")
	}
	src, err := filepath.Abs("testdata/shapes")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	shapes := filepath.Join(dir, "shapes")
	testtool.Run(t, src, "go", "build", "-pgo=off", "-o", shapes, ".")
	testtool.Run(t, dir, shapes, "cpu.pprof")

	t.Logf("%+v", emitGoProfile(t, dir, "cpu.pprof", "ours.pprof"))

	said := goByProfile(t, src, filepath.Join(dir, "ours.pprof"), filepath.Join(dir, "again"))
	for _, want := range []string{
		"PGO devirtualizing interface call s.area to square.area",
		"PGO devirtualizing function call f to fold",
		"hot-budget check allows inlining for call main.mix",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the compiler does not say %q:\n%s", want, remarks(said))
		}
	}
	edges := edgesOf(t, []byte(testtool.Read(t, dir, "ours.pprof")))
	mix, rare := edges["main.sum 6 main.mix"], edges["main.sum 8 main.rare"]
	if mix <= rare {
		t.Errorf("main.mix weighs %d, main.rare, called 4096 times less, %d", mix, rare)
	}
}

// goByProfile builds the Go program in dir by a profile, "" for none, and returns what the compiler says of it. What go build
// -pgo does for each package is done for the program's own: the standard library, of which no test that calls this asks,
// is not compiled anew. TestGoNames and TestDecideGoBuild do that.
func goByProfile(t *testing.T, dir, prof, out string, env ...string) (said string) {
	t.Helper()
	flags := "-m=2 -d=pgodebug=1"
	if prof != "" {
		compiled := filepath.Join(t.TempDir(), "profile")
		testtool.Run(t, dir, "go", "tool", "preprofile", "-i", prof, "-o", compiled)
		flags = "-pgoprofile=" + compiled + " " + flags
	}
	return testtool.RunWith(t, dir, env, "go", "build", "-pgo=off", "-gcflags="+flags, "-o", out, ".")
}

// remarks keeps what the compiler says of profiles.
func remarks(said string) string {
	var lines []string
	for line := range strings.Lines(said) {
		if strings.Contains(line, "PGO") || strings.Contains(line, "hot") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
