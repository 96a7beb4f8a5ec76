package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/feedback"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/infer/source"
)

var checkCmd = &command{
	name: "check", args: "SRC... [--symfs DIR] [--binary NEW] [--source DIR] [--config FILE]", short: "say whether recordings are good enough to build with",
	reads: symfsHelp,
	long: `Exit code 3 if one of these fails, each with its reason. The limits are those of backfeed.yaml in the
current directory, or of --config FILE, where it has some:

    check:
      min-samples: 1000       # a procedure with 1 % of the time then has 10, known within a third
      min-used: 0.7           # of the samples: what could not be placed looks as if it never ran
      min-own: 0.3            # of the samples are in the program itself, Go's runtime left out: an
                              # idle server's profile is one of its runtime and libraries
      min-shape: 0.1          # of the program's samples are in blocks whose counts are known within
                              # a factor of 2 beside those of their procedure
      max-other-id: 0.05      # of the samples are of images of which another build lies here
      max-age: 720h           # of the newest samples of a store
      min-procedures: 0.9     # of the program's samples are in procedures that --binary has, too
      min-lines: 0.7          # and are of lines, counted from the first of their function, that it has
      min-source: 0.1         # of the samples with lines are of files that lie below --source, or lay
                              # beside these and are gone: the rest is of libraries
      max-files-gone: 0.05    # of those samples are of files that --source lacks,
      max-functions-gone: 0.1 # of functions that their files lack: as for min-procedures,
      max-beyond: 0.2         # of lines beyond the end that their function has now,
      max-moved: 1            # of functions that are whole and stand on other lines: compilers
                              # count lines from the first of the function, and do not mind

--binary is a newer build of the program, --source the source of one: what they lack, no compiler will
apply. A sample counts by all calls inlined around it. Functions of Go are known exactly; those of
other languages by their names and braces, so that one that macros put together may seem gone.`,
	run: runCheck,
}

// limits are the thresholds of check. Shares are of 1.
type limits struct {
	MinSamples    uint64        `yaml:"min-samples"`
	MinUsed       float64       `yaml:"min-used"`
	MinOwn        float64       `yaml:"min-own"`
	MinShape      float64       `yaml:"min-shape"`
	MaxOtherID    float64       `yaml:"max-other-id"`
	MaxAge        time.Duration `yaml:"max-age"`
	MinProcedures float64       `yaml:"min-procedures"`
	MinLines      float64       `yaml:"min-lines"`

	MinSource        float64 `yaml:"min-source"`
	MaxFilesGone     float64 `yaml:"max-files-gone"`
	MaxFunctionsGone float64 `yaml:"max-functions-gone"`
	MaxBeyond        float64 `yaml:"max-beyond"`
	MaxMoved         float64 `yaml:"max-moved"`
}

// usualLimits are the defaults; the command's help explains each.
var usualLimits = limits{
	MinSamples: fewSamples, MinUsed: 0.7, MinOwn: 0.3, MinShape: 0.1, MaxOtherID: 0.05, MaxAge: 30 * 24 * time.Hour,
	MinProcedures: 0.9, MinLines: 0.7,
	MinSource: 0.1, MaxFilesGone: 0.05, MaxFunctionsGone: 0.1, MaxBeyond: 0.2, MaxMoved: 1,
}

// configFile is what limits are read from if it is there.
const configFile = "backfeed.yaml"

// readLimits reads the limits at path; for "", those of configFile if there is one.
func readLimits(path string) (limits, error) {
	name := path
	if name == "" {
		name = configFile
	}
	b, err := os.ReadFile(name)
	if path == "" && errors.Is(err, fs.ErrNotExist) {
		return usualLimits, nil
	}
	if err != nil {
		return limits{}, fmt.Errorf("%s: %w", name, fail.Cause(err))
	}
	return parseLimits(name, b)
}

func parseLimits(name string, b []byte) (limits, error) {
	doc := struct {
		Check limits `yaml:"check"`
	}{usualLimits}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return limits{}, fail.Errorf(fail.Usage, "%s: %w", name, err)
	}
	return doc.Check, nil
}

// A gate is one thing that check looks at.
type gate struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Limit  string `json:"limit"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason"` // what a failure means
}

func runCheck(c *cli, args []string) error {
	fs := c.flags()
	opt, format := c.inputs(), c.format()
	c.inference(opt)
	want := fs.String("image", "", "check the image with that `path` or build ID (default: the one with the most samples)")
	binary := fs.String("binary", "", "compare with the `file` of a newer build")
	tree := fs.String("source", "", "compare with the source below `dir`")
	config := fs.String("config", "", "read limits from `file` (default: "+configFile+", if there is one)")
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	lim, err := readLimits(*config)
	if err != nil {
		return err
	}
	opt.Images = []string{*want}
	src, err := c.inferred(fs.Args(), opt)
	if err != nil {
		return err
	}
	defer src.Close()
	ip, err := checked(src, *want)
	if err != nil {
		return err
	}
	gates := qualityGates(src, ip, lim)
	if newest, err := src.Newest(); err != nil {
		return err
	} else if !newest.IsZero() {
		gates = append(gates, ageGate(time.Since(newest), lim))
	}
	if *binary != "" {
		stale, err := staleGates(ip, *binary, lim)
		if err != nil {
			return unlined(err)
		}
		gates = append(gates, stale...)
	}
	if *tree != "" {
		stale, err := sourceGates(src, ip, *tree, lim)
		if err != nil {
			return unlined(err)
		}
		gates = append(gates, stale...)
	}
	return c.judge(gates, format)
}

// unlined gives the error of an image without lines its exit code.
func unlined(err error) error {
	if errors.Is(err, image.ErrNoLines) {
		return fail.Errorf(fail.Nothing, "check: %w", err)
	}
	return err
}

// checked gives the image that is checked.
func checked(s *input.Session, want string) (*infer.ImageProfile, error) {
	if want != "" {
		return s.Image(want)
	}
	if ip := feedback.Largest(s.Profile, func(*infer.ImageProfile) bool { return true }); ip != nil {
		return ip, nil
	}
	return nil, fail.Errorf(fail.Nothing, "check: no samples of any image")
}

// judge prints the gates and fails if one of them does.
func (c *cli) judge(gates []gate, format *choice) error {
	err := c.print("-", format, gates, gates, func(w io.Writer, style report.Style) error { return writeGates(w, gates, style) })
	if err != nil {
		return err
	}
	var failed []string
	for _, g := range gates {
		if !g.OK {
			failed = append(failed, fmt.Sprintf("%s %s, want %s: %s", g.Name, g.Value, g.Limit, g.Reason))
		}
	}
	if len(failed) > 0 {
		return fail.Errorf(fail.Gate, "check: %s", strings.Join(failed, "; "))
	}
	return nil
}

func writeGates(w io.Writer, gates []gate, style report.Style) error {
	t := report.NewTable(report.Left("check"), report.Right("value"), report.Right("limit"), report.Left("verdict"))
	for _, g := range gates {
		verdict := "ok"
		if !g.OK {
			verdict = "FAILS"
		}
		t.Row(g.Name, g.Value, g.Limit, verdict)
	}
	return t.Print(w, style)
}

// atLeast is a gate for a share that must not be small.
func atLeast(name string, share, least float64, reason string) gate {
	return gate{name, report.Percent(share), "at least " + report.Percent(least), share >= least, reason}
}

// atMost is a gate for a share that must not be large.
func atMost(name string, share, most float64, reason string) gate {
	return gate{name, report.Percent(share), "at most " + report.Percent(most), share <= most, reason}
}

// part is a/b; nothing of nothing is 0.
func part(a, b uint64) float64 { return float64(a) / float64(max(b, 1)) }

// qualityGates judge what was recorded and inferred.
func qualityGates(src *input.Session, ip *infer.ImageProfile, lim limits) []gate {
	p := src.Profile
	var own, shaped, placed, other uint64
	for _, r := range ip.Procs {
		if ip.Image.Go == "" || !strings.HasPrefix(r.Proc.Name, "runtime.") && !strings.HasPrefix(r.Proc.Name, "internal/runtime/") {
			own += r.Samples
		}
		for i, n := range r.BlockSamples {
			placed += n
			if r.Block[i].Within >= infer.Medium {
				shaped += n
			}
		}
	}
	for id, n := range src.Recording.ByImage() {
		if errors.Is(src.Missing(id), input.ErrOtherID) {
			other += n
		}
	}
	return []gate{
		{"samples", report.Integer(p.Samples.Total), "at least " + report.Integer(lim.MinSamples), p.Samples.Total >= lim.MinSamples,
			"record for longer, or merge recordings"},
		atLeast("used", part(p.Samples.Used, p.Samples.Total), lim.MinUsed, "samples have no place; `backfeed images` says why"),
		atMost("other build ID", part(other, src.Recording.Samples()), lim.MaxOtherID, "the files here are not those that ran"),
		atLeast("own code", part(own, p.Samples.Total), lim.MinOwn, "the program itself hardly ran: was it idle?"),
		atLeast("shape", part(shaped, placed), lim.MinShape, "too little is sure of how often blocks ran; more samples help"),
	}
}

func ageGate(age time.Duration, lim limits) gate {
	age = max(age, 0).Round(time.Minute)
	return gate{"age", age.String(), "at most " + lim.MaxAge.String(), age <= lim.MaxAge, "the program has changed since, and so has its work"}
}

// A sourceLine is a line as profiles name it.
type sourceLine struct {
	function string
	offset   int // relative to the function's first line
}

// staleGates compare the sampled procedures and lines with those of a newer build.
func staleGates(ip *infer.ImageProfile, path string, lim limits) ([]gate, error) {
	im, err := image.Open(path, image.Options{})
	if err != nil {
		return nil, err
	}
	defer im.Close()
	old, err := ip.Image.Lines()
	if err != nil {
		return nil, err
	}
	now, err := im.Lines()
	if err != nil {
		return nil, err
	}
	index := map[string]int{}
	for i, s := range im.Symbols() {
		index[s.Name] = i
	}
	var all, known, placed, same uint64
	for _, r := range ip.Procs {
		if r.Samples == 0 {
			continue
		}
		all += r.Samples
		i, ok := index[r.Proc.Name]
		if !ok {
			continue
		}
		known += r.Samples
		p, err := im.Proc(i)
		if err != nil {
			continue // its lines are unknown, and count as changed
		}
		lines := map[sourceLine]bool{}
		for b := range p.Blocks {
			for _, in := range im.Insts(&p.Blocks[b]) {
				for _, f := range now.Frames(in.Addr) {
					lines[sourceLine{f.Func, f.Line - f.StartLine}] = true
				}
			}
		}
		for b, n := range r.BlockSamples {
			if fs := old.Frames(r.Proc.Blocks[b].Start); n > 0 && len(fs) > 0 {
				placed += n
				if lines[sourceLine{fs[0].Func, fs[0].Line - fs[0].StartLine}] {
					same += n
				}
			}
		}
	}
	return []gate{
		atLeast("procedures", part(known, all), lim.MinProcedures, "the newer build lacks procedures that were hot"),
		atLeast("lines", part(same, placed), lim.MinLines, "hot lines have moved within their functions"),
	}, nil
}

// sourceGates compare the sampled functions and lines with those of a source tree.
func sourceGates(src *input.Session, ip *infer.ImageProfile, dir string, lim limits) ([]gate, error) {
	t, err := source.OpenTree(dir)
	if err != nil {
		return nil, err
	}
	n, err := t.Fates(ip.Image, ip.ID, src.Recording, src.Profile.Event.Name)
	if err != nil {
		return nil, err
	}
	own := n.Own()
	share := func(f source.Fate) float64 { return part(n[f], own) }
	return []gate{
		atLeast("source tree", part(own, own+n[source.Outside]), lim.MinSource, fmt.Sprintf("it ran little that is in %s: is it this program's source?", dir)),
		atMost("files gone", share(source.FileGone), lim.MaxFilesGone, "the tree lacks files that were hot"),
		atMost("functions gone", share(source.FunctionGone), lim.MaxFunctionsGone, "its files lack functions that were hot"),
		atMost("functions moved", share(source.MovedLines), lim.MaxMoved, "its functions stand on other lines"),
		atMost("lines beyond", share(source.BeyondEnd), lim.MaxBeyond, "hot lines are beyond the end of their functions"),
	}, nil
}
