package feedback

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"backfeed/internal/testtool"
)

// TestDecideGoBuild compares what DecideGo predicts by runtime/pprof's profiles of
// real programs with what the compiler says it did with them: with one program and all of the standard library that
// it needs, and with the packages of the modules of others. It runs in parallel with others: what the samples are of does not
// matter to what the compiler does with them.
func TestDecideGoBuild(t *testing.T) {
	t.Parallel()
	testtool.Need(t, "go")
	if testing.Short() {
		t.Skip("samples programs, and builds them with their profiles")
	}
	for _, tt := range []struct {
		name string
		get  []string // modules that it needs
		args []string // of the run, with what stands for the profile and the input
		own  []string // packages that are built with the profile; nil is all
	}{
		{"testdata/shapes", nil, []string{"PROFILE"}, []string{"main"}},
		{"../cmd/internal/demo/testdata/demo", nil, []string{"-n", "500", "-cpuprofile", "PROFILE"}, nil},
		{"../testdata/goldmark", []string{"github.com/yuin/goldmark@v1.8.7"}, []string{"INPUT", "400", "PROFILE"}, []string{"main", "github.com/yuin/goldmark"}},
		{"../testdata/deflate", []string{"github.com/klauspost/compress@v1.20.3"}, []string{"INPUT", "150", "PROFILE"}, []string{"main", "github.com/klauspost/compress"}},
	} {
		t.Run(filepath.Base(tt.name), func(t *testing.T) {
			t.Parallel()
			dir := copyModule(t, tt.name, tt.get)
			testtool.Run(t, dir, "go", "build", "-pgo=off", "-o", "base", ".")
			args := strings.Split(strings.NewReplacer("PROFILE", "cpu.pprof", "INPUT", "input").Replace(strings.Join(tt.args, " ")), " ")
			testtool.Run(t, dir, append([]string{"./base"}, args...)...)
			checkPrediction(t, dir, "cpu.pprof", tt.own)
		})
	}
}

// copyModule makes a module of its own of a program, whose modules come from the
// module cache or proxy.
func copyModule(t *testing.T, src string, get []string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(src)); err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../cmd/backfeed/help/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages of help (%v)", len(pages), err)
	}
	var input strings.Builder
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		input.Write(b)
	}
	testtool.Write(t, dir, "input", input.String())
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		testtool.Run(t, dir, "go", "mod", "init", "example.com/program")
	}
	for _, mod := range get {
		c := testtool.Command(t, "go", "get", mod)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Skipf("needs the module %s: %s", mod, out)
		}
	}
	return dir
}

// A callStat is a call as the compiler tells of it (devirtualize.CallStat).
type callStat struct {
	Pos, Caller, Devirtualized string
	Direct                     bool
	Weight                     int64
}

var (
	hotBudget = regexp.MustCompile(`hot-budget check allows inlining for call .* at ([^ ]+:\d+:\d+) in function `)
	hotBig    = regexp.MustCompile(`hot-big check disallows inlining for call .* at ([^ ]+:\d+:\d+) in big function `)
)

// checkPrediction builds with the profile, and compares call by call. Those of other packages than own are left out.
func checkPrediction(t *testing.T, dir, prof string, own []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, prof))
	if err != nil {
		t.Fatal(err)
	}
	d, err := DecideGo(strings.NewReader(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	starts := startLines(t, b)
	build := []string{"go", "build", "-pgo=" + prof, "-gcflags=all=-d=pgodebug=3", "-o", "again", "."}
	if own != nil {
		compiled := filepath.Join(t.TempDir(), "profile")
		testtool.Run(t, dir, "go", "tool", "preprofile", "-i", prof, "-o", compiled)
		build = []string{"go", "build", "-pgo=off", "-o", "again"}
		for _, of := range own {
			pattern := of + "/..."
			if of == "main" {
				pattern = "."
			}
			build = append(build, "-gcflags="+pattern+"=-pgoprofile="+compiled+" -d=pgodebug=3")
		}
		build = append(build, ".")
	}
	said := testtool.Run(t, dir, build...)

	sites, told := map[string]bool{}, map[string][]string{} // hot and inlined; sites by position
	weighed := map[string]bool{}                            // calls that the compiler found in the source, with a weight
	var devirtualised, asPredicted, indirect, followed int
	for line := range strings.Lines(said) {
		line = strings.ReplaceAll(line, " ./", " "+dir+"/") // the go command shortens what it takes for remarks
		if m := hotBudget.FindStringSubmatch(line); m != nil {
			told[m[1]] = append(told[m[1]], "")
		} else if m := hotBig.FindStringSubmatch(line); m != nil {
			told[m[1]] = append(told[m[1]], "")
		}
		var c callStat
		if !strings.HasPrefix(line, `{"Pkg"`) || json.Unmarshal([]byte(line), &c) != nil || c.Weight == 0 {
			continue
		}
		site, ok := siteOf(c, starts)
		if !ok {
			continue
		}
		weighed[site] = true
		sites[c.Pos+" "+site] = true
		chosen := d.made[Choice{Kind: Devirtualise, Site: site}].what
		if c.Devirtualized != "" {
			devirtualised++
			if c.Devirtualized == chosen {
				asPredicted++
			} else {
				t.Logf("%s: devirtualised to %s, not to %s", c.Pos, c.Devirtualized, chosen)
			}
		}
		if !c.Direct {
			indirect++
			if c.Devirtualized != "" && c.Devirtualized == chosen {
				followed++
			}
		}
	}
	hot := map[string]bool{}
	for c, made := range d.made {
		if c.Kind == Inline && made.what == Hot && (own == nil || isOf(own, c.Site)) {
			hot[c.Site] = true
		}
	}
	found := 0
	for site := range hot {
		if weighed[site] {
			found++
		} else {
			t.Logf("not a call to the compiler: %s", site)
		}
	}
	acted, predicted := 0, 0
	for at := range told {
		acted++
		for site := range sites {
			if pos, name, _ := strings.Cut(site, " "); pos == at && hot[name] {
				predicted++
				break
			}
		}
	}
	t.Logf("hot call sites: %d predicted, %d of them are calls to the compiler; it acted on the heat of %d, %d of them predicted",
		len(hot), found, acted, predicted)
	t.Logf("indirect calls with a weight: %d; devirtualised %d, %d to the callee predicted, %d of the indirect ones",
		indirect, devirtualised, asPredicted, followed)
	// Each run takes other samples, so two misses are chance in any number of calls.
	few := func(misses, of, percent int) bool { return misses <= max(2, of*percent/100) }
	if !few(acted-predicted, acted, 5) {
		t.Errorf("only %d of %d hot calls were predicted", predicted, acted)
	}
	if !few(len(hot)-found, len(hot), 20) {
		t.Errorf("only %d of %d predicted hot calls are calls to the compiler", found, len(hot))
	}
	// A profile does not tell an indirect call from a direct one on the same line.
	if !few(devirtualised-asPredicted, devirtualised, 15) {
		t.Errorf("only %d of %d devirtualised callees were predicted", asPredicted, devirtualised)
	}
}

// isOf reports whether a call is of one of the packages, or of one below.
func isOf(packages []string, site string) bool {
	return slices.ContainsFunc(packages, func(of string) bool { return strings.HasPrefix(site, of+".") || strings.HasPrefix(site, of+"/") })
}

// startLines returns the first lines of the functions in a profile.
func startLines(t *testing.T, b []byte) map[string]int {
	t.Helper()
	p, err := profile.ParseData(b)
	if err != nil {
		t.Fatal(err)
	}
	starts := map[string]int{}
	for _, f := range p.Function {
		starts[f.Name] = int(f.StartLine)
	}
	return starts
}

// siteOf names a call as Choice.Site does.
func siteOf(c callStat, starts map[string]int) (string, bool) {
	parts := strings.Split(c.Pos, ":")
	start, ok := starts[c.Caller]
	if len(parts) < 3 || !ok {
		return "", false
	}
	line, err := strconv.Atoi(parts[len(parts)-2])
	return fmt.Sprintf("%s:%d", c.Caller, line-start), err == nil
}
