package optimize

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"backfeed/cmd/internal/emit"
	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/cmd/internal/section"
)

// Section is the key of a configuration that is for this package.
const Section = "optimize"

// A Config is which programs to make faster. Paths in it are below Dir, unless they are absolute.
type Config struct {
	Dir     string // of the configuration's file
	Targets []*Target
}

// A Target is a program: how it is built, run and tested, and what to try. Commands are for a shell.
type Target struct {
	Name      string
	Dir       string      // where commands run, which is what is built
	Build     string      // has placeholders; "" where there is nothing but the program
	Compiler  string      // of Compilers; "" without Build
	Linker    string      // of emit.Linkers: who reads orders of functions
	Binary    string      // the program, below Dir; "" if Build says where it goes
	Run       string      // what the program is to be fast at
	Calibrate float64     // of the processor time of Run, what walks and probes may take when it is recorded; 0 has samples alone
	Count     string      // a shorter one for callgrind; "" counts nothing
	Test      string      // "" leaves it to what Run prints
	Try       []Candidate // in the order in which they are tried
	Output    string      // where the best goes
	Report    string      // where what was done goes, as JSON, and what the next run reads
	Pairs     int         // of runs that decide; 0 is as many as fit some time
	Budget    time.Duration
	Sources   []input.Source // recordings to use in place of one of Run
	Builds    []string       // where sampled builds are found, as --symfs
	Recorded  string         // path or build ID of what Sources have; "" is any of the program's file name
	Since     time.Duration  // of stores

	line int // of the configuration
}

// A Candidate is steps, one on the result of the other: "pgo+bolt".
type Candidate []string

func (c Candidate) String() string { return strings.Join(c, "+") }

// Compilers are those that a build may be by.
var Compilers = []string{"go", "clang", "gcc", "rustc"}

// Placeholders of commands.
const (
	binaryHere  = "{binary}"  // path of the program
	flagsHere   = "{flags}"   // of the compiler
	ldflagsHere = "{ldflags}" // of the compiler where it links
)

// Bounds of pairs. Where a target names none, they are the usual number, or as many as fit
// a time, up to a number.
const (
	leastPairs, mostPairs = report.LeastPairs, 1000
	usualPairs, manyPairs = 12, 40
	comparedFor           = time.Minute
)

// Parse reads the section of the configuration text, which lies in directory dir.
func Parse(text []byte, dir string) (*Config, error) {
	found, err := section.Find(text, Section)
	if err != nil {
		return nil, err
	}
	c := &Config{Dir: filepath.Clean(dir)}
	err = section.Fields(found[0], map[string]func(*yaml.Node) error{
		"targets": func(n *yaml.Node) error {
			return section.Each(n, func(name string, n *yaml.Node) error {
				t, err := targetOf(name, n)
				c.Targets = append(c.Targets, t)
				return err
			})
		},
	})
	if err != nil {
		return nil, err
	}
	if len(c.Targets) == 0 {
		return nil, fmt.Errorf("line %d: %s: no targets", found[0].Line, Section)
	}
	return c, c.check()
}

// check reports what does not go together.
func (c *Config) check() error {
	paths := map[string]string{}
	for _, t := range c.Targets {
		for _, path := range []string{t.Output, t.Report} {
			if other := paths[filepath.Clean(path)]; other != "" {
				return fmt.Errorf("line %d: %s: %s is written by %s, too", t.line, t.Name, path, other)
			}
			paths[filepath.Clean(path)] = t.Name
		}
	}
	return nil
}

func targetOf(name string, n *yaml.Node) (*Target, error) {
	t := &Target{Name: name, Calibrate: UsualCalibrate, line: n.Line}
	err := section.Fields(n, map[string]func(*yaml.Node) error{
		"dir":       section.String(&t.Dir),
		"build":     section.String(&t.Build),
		"compiler":  section.String(&t.Compiler),
		"linker":    section.String(&t.Linker),
		"binary":    section.String(&t.Binary),
		"run":       section.String(&t.Run),
		"calibrate": func(n *yaml.Node) error { return section.Scalar(n, t.setCalibrate) },
		"count":     section.String(&t.Count),
		"test":      section.String(&t.Test),
		"try": section.List(func(n *yaml.Node) error {
			return section.Scalar(n, func(text string) error { return t.AddCandidate(text) })
		}),
		"output": section.String(&t.Output),
		"report": section.String(&t.Report),
		"pairs": func(n *yaml.Node) error {
			return section.Scalar(n, func(text string) (err error) {
				if t.Pairs, err = strconv.Atoi(text); err != nil {
					err = errors.New("pairs: want a whole number")
				}
				return err
			})
		},
		"budget":  section.Span(&t.Budget),
		"sources": section.Sources(&t.Sources),
		"builds": section.List(func(n *yaml.Node) error {
			return section.Scalar(n, func(text string) error { t.Builds = append(t.Builds, text); return nil })
		}),
		"recorded": section.String(&t.Recorded),
		"since":    section.Span(&t.Since),
	})
	if err == nil {
		if err = t.Check(); err != nil {
			err = fmt.Errorf("line %d: %w", n.Line, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// AddCandidate adds steps that are joined by plus signs to what is tried.
func (t *Target) AddCandidate(text string) error {
	c := Candidate(strings.Split(text, "+"))
	for i, name := range c {
		switch {
		case steps[name] == nil:
			return fmt.Errorf("want one of %s, or several joined by +", strings.Join(stepNames, ", "))
		case slices.Contains(c[:i], name):
			return fmt.Errorf("%s is there twice", name)
		case name == "pgo" && slices.Contains(c[:i], "afdo") || name == "afdo" && slices.Contains(c[:i], "pgo"):
			return errors.New("pgo and afdo are two ways to do one thing: gcc reads one profile")
		case i > 0 && steps[c[i-1]].rewrites:
			return fmt.Errorf("nothing follows %s, which rewrites the finished program", c[i-1])
		}
	}
	for _, other := range t.Try {
		if other.String() == text {
			return errors.New("it is there twice")
		}
	}
	t.Try = append(t.Try, c)
	return nil
}

// setCalibrate reads a percentage, such as 10%, or 0 for samples alone.
func (t *Target) setCalibrate(text string) error {
	share, ok := flagset.Percentage(text)
	if !ok {
		return errors.New("calibrate: want a percentage of at most 100, such as 10%, or 0 for samples alone")
	}
	t.Calibrate = share
	return nil
}

// targetName is what a target may be called, as lines and paths have it.
var targetName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// Check reports what is missing or does not go together, and fills in what is usual.
func (t *Target) Check() error {
	switch {
	case !targetName.MatchString(t.Name):
		return errors.New("want a name of letters, digits, _, . and -")
	case t.Run == "":
		return fmt.Errorf("no run: the command that the program is to be fast at, with %s where the program stands", binaryHere)
	case t.Output == "":
		return errors.New("no output: where the best program goes")
	case t.Build == "" && t.Compiler != "":
		return errors.New("compiler goes with build")
	case t.Build == "" && t.Binary == "":
		return errors.New("want build, the command that makes the program, or binary, a program that is there")
	case t.Build != "" && !slices.Contains(Compilers, t.Compiler):
		return fmt.Errorf("build wants a compiler: %s", strings.Join(Compilers, ", "))
	case t.Build != "" && !strings.Contains(t.Build, flagsHere):
		return fmt.Errorf("build has no %s: where the flags of the compiler go", flagsHere)
	case t.Build != "" && strings.Contains(t.Build, binaryHere) == (t.Binary != ""):
		return fmt.Errorf("want binary, the file that build makes, or %s in build, where it puts it, and not both", binaryHere)
	case t.Build != "" && t.Binary != "" && !filepath.IsLocal(t.Binary):
		return fmt.Errorf("binary %s: build makes it below dir", t.Binary)
	case t.Linker != "" && !slices.Contains(emit.Linkers, t.Linker):
		return fmt.Errorf("linker: want one of %s", strings.Join(emit.Linkers, ", "))
	case t.Pairs != 0 && (t.Pairs < leastPairs || t.Pairs > mostPairs):
		return fmt.Errorf("pairs: want %d to %d; fewer have no interval of 95 %%", leastPairs, mostPairs)
	case len(t.Sources) == 0 && (len(t.Builds) > 0 || t.Recorded != "" || t.Since > 0):
		return errors.New("builds, recorded and since go with sources")
	}
	for _, c := range []struct{ key, command string }{{"run", t.Run}, {"test", t.Test}, {"count", t.Count}} {
		if c.command != "" && !strings.Contains(c.command, binaryHere) {
			return fmt.Errorf("%s has no %s: where the program stands", c.key, binaryHere)
		}
		if strings.Contains(c.command, flagsHere) || strings.Contains(c.command, ldflagsHere) {
			return fmt.Errorf("%s: %s and %s are for build", c.key, flagsHere, ldflagsHere)
		}
	}
	if len(t.Try) == 0 {
		for _, name := range usualCandidates[t.Compiler] {
			if err := t.AddCandidate(name); err != nil {
				return err
			}
		}
	}
	for _, c := range t.Try {
		for _, name := range c {
			if s := steps[name]; !slices.Contains(s.compilers, t.Compiler) {
				if t.Compiler == "" {
					return fmt.Errorf("try: %s needs a build", name)
				}
				return fmt.Errorf("try: %s is for %s, not for %s", name, strings.Join(slices.DeleteFunc(slices.Clone(s.compilers), func(c string) bool { return c == "" }), ", "), t.Compiler)
			}
			if t.Compiler != "rustc" && t.Compiler != "" && steps[name].links && !strings.Contains(t.Build, ldflagsHere) {
				return fmt.Errorf("build has no %s, which %s needs: where the flags of the linker go", ldflagsHere, name)
			}
		}
	}
	if t.Report == "" {
		t.Report = t.Output + ".json"
	}
	if filepath.Clean(t.Report) == filepath.Clean(t.Output) {
		return errors.New("report and output are one file")
	}
	return nil
}
