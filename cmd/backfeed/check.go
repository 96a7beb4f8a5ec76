package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/feedback"
	"backfeed/feedback/gate"
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
      min-known: 0.1          # of the program's samples are in blocks of medium within-function
                              # confidence or better: known within a factor of 2
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

// configFile is what limits are read from if it is there.
const configFile = "backfeed.yaml"

// readLimits reads the limits at path; for "", those of configFile if there is one.
func readLimits(path string) (gate.Limits, error) {
	name := path
	if name == "" {
		name = configFile
	}
	b, err := os.ReadFile(name)
	if path == "" && errors.Is(err, fs.ErrNotExist) {
		return gate.Usual, nil
	}
	if err != nil {
		return gate.Limits{}, fmt.Errorf("%s: %w", name, fail.Cause(err))
	}
	lim, err := gate.ParseLimits(b)
	if err != nil {
		return lim, fail.Errorf(fail.Usage, "%s: %w", name, err)
	}
	return lim, nil
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
	gates := gate.Recording(src.Profile, ip, src.Recording.Samples(), ofOtherID(src), lim)
	if newest, err := src.Newest(); err != nil {
		return err
	} else if !newest.IsZero() {
		gates = append(gates, gate.Age(time.Since(newest), lim))
	}
	if *binary != "" {
		stale, err := buildGates(ip, *binary, lim)
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

// unlined returns the error of an image without lines its exit code.
func unlined(err error) error {
	if errors.Is(err, image.ErrNoLines) {
		return fail.Errorf(fail.Nothing, "check: %w", err)
	}
	return err
}

// checked returns the image that is checked.
func checked(s *input.Session, want string) (*infer.ImageProfile, error) {
	if want != "" {
		return s.Image(want)
	}
	if ip := feedback.Largest(s.Profile, func(*infer.ImageProfile) bool { return true }); ip != nil {
		return ip, nil
	}
	return nil, fail.Errorf(fail.Nothing, "check: no samples of any image")
}

// ofOtherID returns how many samples are of images of which only other builds were found.
func ofOtherID(src *input.Session) (other uint64) {
	for id, n := range src.Recording.ByImage() {
		if errors.Is(src.Missing(id), input.ErrOtherID) {
			other += n
		}
	}
	return other
}

// buildGates compare the sampled procedures and lines with those of the build at path.
func buildGates(ip *infer.ImageProfile, path string, lim gate.Limits) ([]gate.Gate, error) {
	im, err := image.Open(path, image.Options{})
	if err != nil {
		return nil, err
	}
	defer im.Close()
	return gate.Build(ip, im, lim)
}

// sourceGates compare the sampled functions and lines with those of a source tree.
func sourceGates(src *input.Session, ip *infer.ImageProfile, dir string, lim gate.Limits) ([]gate.Gate, error) {
	t, err := source.OpenTree(dir)
	if err != nil {
		return nil, err
	}
	n, err := t.Fates(ip.Image, ip.ID, src.Recording, src.Profile.Event.Name)
	if err != nil {
		return nil, err
	}
	return gate.Tree(&n, dir, lim), nil
}

// judge prints the gates and fails if one of them does.
func (c *cli) judge(gates []gate.Gate, format *choice) error {
	rows := report.NewVerdicts(gates)
	err := c.print("-", format, itemList[report.Verdict]{"backfeed.check/2", rows}, rows, func(w io.Writer, style report.Style) error { return report.WriteVerdicts(w, rows, style) })
	if err != nil {
		return err
	}
	var failed []string
	for _, r := range rows {
		if !r.OK {
			failed = append(failed, r.Failure())
		}
	}
	if len(failed) > 0 {
		return fail.Errorf(fail.Gate, "check: %s", strings.Join(failed, "; "))
	}
	return nil
}
