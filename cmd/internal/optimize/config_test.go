package optimize

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"backfeed/cmd/internal/input"
	"backfeed/internal/testtool"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       *Target
	}{
		{"least", `optimize: {targets: {a: {binary: app, run: "{binary}", output: fast}}}`,
			&Target{Name: "a", Binary: "app", Run: "{binary}", Output: "fast", Report: "fast.json", Try: []Candidate{{"bolt"}}, Calibrate: UsualCalibrate}},
		{"Go", `optimize: {targets: {a: {build: "go build {flags} -o {binary}", compiler: go, run: "{binary}", output: fast}}}`,
			&Target{Name: "a", Build: "go build {flags} -o {binary}", Compiler: "go", Run: "{binary}", Output: "fast", Report: "fast.json", Try: []Candidate{{"pgo"}}, Calibrate: UsualCalibrate}},
		{"all", `
defaults: &d {builds: b, since: 7d, budget: 30m}
optimize:
  targets:
    a:
      <<: *d
      dir: src
      build: make CFLAGS="{flags}" LDFLAGS="{ldflags}"
      compiler: clang
      linker: gold
      binary: bin/app
      run: ./bench {binary}
      test: ./check {binary}
      count: ./few {binary}
      try: [pgo, pgo+bolt, order]
      output: fast
      report: what.json
      pairs: 20
      calibrate: 2.5%
      sources: ["*.bfr", t@0.5]
      recorded: /srv/app
`, &Target{Name: "a", Dir: "src", Build: `make CFLAGS="{flags}" LDFLAGS="{ldflags}"`, Compiler: "clang", Linker: "gold", Binary: "bin/app", Run: "./bench {binary}",
			Test: "./check {binary}", Count: "./few {binary}", Try: []Candidate{{"pgo"}, {"pgo", "bolt"}, {"order"}}, Output: "fast", Report: "what.json", Pairs: 20, Calibrate: 0.025, Budget: 30 * time.Minute,
			Sources: []input.Source{{Path: "*.bfr", Weight: 1}, {Path: "t", Weight: 0.5}}, Builds: []string{"b"}, Recorded: "/srv/app", Since: 7 * 24 * time.Hour}},
	} {
		c, err := Parse([]byte(tt.text), "")
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		got := *c.Targets[0]
		if got.line = 0; !reflect.DeepEqual(&got, tt.want) {
			t.Errorf("%s:\n%+v, want\n%+v", tt.name, &got, tt.want)
		}
	}
}

// TestRealPrograms: the configuration of the programs that are measured is one.
func TestRealPrograms(t *testing.T) {
	c, err := Parse([]byte(testtool.Read(t, "../../../testdata/optimize/backfeed.yaml")), "")
	if err != nil || len(c.Targets) < 4 {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestParseRefuses: an error names the line, and what is wanted there.
func TestParseRefuses(t *testing.T) {
	target := func(keys string) string { return "optimize:\n  targets:\n    a: {" + keys + "}\n" }
	const usual = `run: "{binary}", output: o, `
	const clang = usual + `compiler: clang, build: "make {flags}", binary: b, `
	for _, tt := range []struct{ text, want string }{
		{"", `no section "optimize"`},
		{"refresh: {}", `no section "optimize"`},
		{"a: [", "line 1"},
		{"optimize: {}", "no targets"},
		{"optimize: {targets: [a]}", "want names"},
		{"optimize: {target: {}}", `line 1: "target": want one of targets`},
		{target(`output: o, binary: b`), "line 3: no run"},
		{target(`run: "{binary}", binary: b`), "no output"},
		{target(usual + `binary: b, test: x`), "test has no {binary}"},
		{target(`run: ./bench, output: o, binary: b`), "run has no {binary}"},
		{target(`run: "{binary} {flags}", output: o, binary: b`), "are for build"},
		{target(usual), "want build"},
		{target(usual + `binary: b, compiler: go`), "compiler goes with build"},
		{target(usual + `build: "make {flags}", binary: b`), "build wants a compiler"},
		{target(usual + `build: "make {flags}", binary: b, compiler: tcc`), "go, clang, gcc, rustc"},
		{target(usual + `build: make, binary: b, compiler: go`), "no {flags}"},
		{target(usual + `build: "make {flags}", compiler: go`), "want binary"},
		{target(usual + `build: "make {flags} {binary}", binary: b, compiler: go`), "not both"},
		{target(usual + `build: "make {flags}", binary: ../b, compiler: go`), "below dir"},
		{target(usual + `build: "make {flags}", binary: /b, compiler: go`), "below dir"},
		{target(clang), "no {ldflags}, which order needs"},
		{target(clang + `try: propeller`), "no {ldflags}, which propeller needs"},
		{target(clang + `try: [pgo, pgo]`), "twice"},
		{target(clang + `try: pgo+pgo`), "twice"},
		{target(clang + `try: pgo+afdo`), "gcc reads one profile"},
		{target(clang + `try: afdo`), "afdo is for gcc, not for clang"},
		{target(clang + `try: bolt+pgo`), "nothing follows bolt"},
		{target(clang + `try: fast`), "want one of pgo, afdo, order"},
		{target(clang + `try: pgo+`), "want one of pgo, afdo, order"},
		{target(clang + `try: pgo, linker: mold`), "lld, gold, ld, ld-script"},
		{target(clang + `try: pgo, pairs: 5`), "want 6 to 1000"},
		{target(clang + `try: pgo, pairs: many`), "pairs: want a whole number"},
		{target(clang + `try: pgo, calibrate: yes`), "calibrate: want a percentage"},
		{target(clang + `try: pgo, calibrate: 101%`), "calibrate: want a percentage"},
		{target(clang + `try: pgo, calibrate: -1`), "calibrate: want a percentage"},
		{target(clang + `try: pgo, budget: long`), "want a time"},
		{target(clang + `try: pgo, since: 7d`), "go with sources"},
		{target(clang + `try: pgo, sources: [s@0]`), "weight"},
		{target(clang + `try: pgo, report: o`), "one file"},
		{target(clang + `try: pgo, flags: x`), `"flags": want one of`},
		{target(usual + `binary: b, try: pgo`), "pgo needs a build"},
		{target(usual + `build: "go build {flags} -o {binary}", compiler: go, try: bolt`), "bolt is for clang, gcc, rustc, not for go"},
		{"optimize: {targets: {a b: {binary: b, " + usual + "}}}", "want a name"},
		{"optimize: {targets: {a: &t {binary: b, " + usual + "}, b: *t}}", "is written by a, too"},
		{"x: &x {<<: *x}\noptimize: *x", "deep"},
	} {
		if c, err := Parse([]byte(tt.text), ""); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, %+v; want %q", tt.text, err, c, tt.want)
		}
	}
}

// FuzzParse: any text gives an error, or targets that are whole.
func FuzzParse(f *testing.F) {
	f.Add(`optimize: {targets: {a: {build: "go build {flags} -o {binary}", compiler: go, run: "{binary}", output: fast}}}`)
	f.Add("x: &x {<<: *x}\noptimize: *x")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse([]byte(text), "d")
		if err != nil {
			return
		}
		for _, target := range c.Targets {
			if target.Run == "" || target.Output == "" || target.Report == "" || len(target.Try) == 0 || (target.Build == "") != (target.Compiler == "") {
				t.Errorf("%+v", target)
			}
		}
	})
}
