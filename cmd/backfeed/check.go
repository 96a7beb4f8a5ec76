package main

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"time"

	"backfeed/cmd/internal/emit"
	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/flagset"
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
	long: `Exit code 3 if a limit is not kept; each that fails is told with its reason. ` + configHelp + ` Without it, backfeed.yaml
in the current directory is read, if it is there:

    check:
      min-samples: 5000
      max-age: 7d
      min-lines: 60%

Column "of" has the samples that a share is of. Without --image, these are all that were recorded, and for "known to a factor
of 2" those of the image with most: it is the share that is in blocks whose executions, beside those of the other blocks of
their function, are within a factor of 2 of the truth, with 90 % confidence. With --image, that image alone is inferred, and limits are of its samples: what else ran is not asked for, the age is
that of its newest samples, and those of other builds are a share of all of the program. Less may then be known
within functions: what other images call tells of it, and they are not looked at.

--binary is a newer build of the program, --source the source of one: what they lack, no compiler will
apply. A sample counts by all calls inlined around it. Functions of Go are known exactly; those of
other languages by their names and braces, so that one that macros put together may seem gone.`,
	examples: `backfeed check app.bfr --binary ./new/app --source .
backfeed check /var/lib/backfeed --since 7d --image ./app --max-age 3d`,
	run: runCheck,
}

// muchLoading is the share of the samples from which time in the dynamic loader is told.
const muchLoading = 0.05

// limits defines the flags of limits.
func limits(fs *flagset.Set) *gate.Limits {
	lim := gate.Usual
	part := func(p *float64, name, usage string) { fs.Var((*flagset.Fraction)(p), name, usage) }
	fs.Grouped(limitFlags, func() {
		fs.Uint64Var(&lim.MinSamples, "min-samples", lim.MinSamples, "at least `N` samples: with 1000, a procedure with 1 % of the time has 10, and its share is known within a third")
		part(&lim.MinUsed, "min-used", "at least this share of the samples has a place, those of a kernel that is not read left out: code whose samples have none looks as if it never ran")
		part(&lim.MinOwn, "min-own", "at least this share is in the program itself, Go's runtime left out: an idle server's profile is one of its runtime and libraries")
		part(&lim.MinKnown, "min-known", "at least this share of the program's samples is in blocks of medium within-function confidence or better: known within a factor of 2")
		fs.Alias("min-shape", "min-known")
		part(&lim.MaxOtherID, "max-other-id", "at most this share is of images of which only other builds lie here")
		fs.DurationVar(&lim.MaxAge, "max-age", lim.MaxAge, "of a store, the newest samples are not older than `duration`")
		part(&lim.MinProcedures, "min-procedures", "at least this share of the program's samples is in procedures that --binary has, too")
		part(&lim.MinLines, "min-lines", "at least this share is of lines, counted from the first of their function, that --binary has")
		part(&lim.MinSource, "min-source", "at least this share of the samples with lines is of files that lie below --source, or lay beside these and are gone: the rest is of libraries")
		part(&lim.MaxFilesGone, "max-files-gone", "at most this share of those samples is of files that --source lacks")
		part(&lim.MaxFunctionsGone, "max-functions-gone", "at most this share is of functions that their files lack")
		part(&lim.MaxBeyond, "max-beyond", "at most this share is of lines beyond the end that their function has now")
		part(&lim.MaxMoved, "max-moved", "at most this share is of functions that are whole and stand on other lines: compilers count lines from the first of the function, and do not mind")
	})
	return &lim
}

// idleLimits refuses limits of the command line that nothing is held to. A configuration may have them for other
// times.
func idleLimits(fs *flagset.Set, binary, tree string, paths []string) (err error) {
	if binary == "" {
		err = fs.Refuse("it goes with --binary", "min-procedures", "min-lines")
	}
	if tree == "" {
		err = cmp.Or(err, fs.Refuse("it goes with --source", "min-source", "max-files-gone", "max-functions-gone", "max-beyond", "max-moved"))
	}
	if !slices.ContainsFunc(paths, input.MayBeStore) {
		err = cmp.Or(err, fs.Refuse("only the samples of a store have an age", "max-age"))
	}
	return err
}

func runCheck(c *cli, args []string) error {
	fs := c.flags()
	opt, format := c.inputs(), c.format()
	c.inference(opt)
	want := fs.String("image", "", "check the image with that `path` or build ID (default: the program with the most samples, or else the library)")
	binary := fs.String("binary", "", "compare with the `file` of a newer build")
	tree := fs.String("source", "", "compare with the source below `dir`")
	lim := limits(fs)
	config := c.config("read flags from `file` (default: " + configFile + ", if there is one)")
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	if err := idleLimits(fs, *binary, *tree, fs.Args()); err != nil {
		return c.usage(err)
	}
	if err := c.readConfig(cmp.Or(*config, configFile), *config == ""); err != nil {
		return err
	}
	opt.Images, opt.Only = []string{*want}, *want
	src, err := c.inferred(fs.Args(), opt)
	if err != nil {
		return err
	}
	defer src.Close()
	ip, err := checked(src, *want)
	if err != nil {
		return err
	}
	if n := gate.Loading(src.Profile); float64(n) >= muchLoading*float64(src.Profile.Samples.Used) && n > 0 {
		c.warn("%s of the samples are in the dynamic loader, which runs before main and where functions of libraries are bound: no profile of the program is about them; processes are short, so have each do more", report.Share(n, src.Profile.Samples.Total))
	}
	otherID, of := src.OfOtherID()
	gates := gate.Recording(src.Profile, ip, otherID, of, *lim)
	if newest, err := src.Newest(); err != nil {
		return err
	} else if !newest.IsZero() {
		gates = append(gates, gate.Age(time.Since(newest), *lim))
	}
	if *binary != "" {
		stale, err := buildGates(ip, *binary, *lim)
		if err != nil {
			return unlined(err)
		}
		gates = append(gates, stale...)
	}
	if *tree != "" {
		stale, err := sourceGates(src, ip, *tree, *lim)
		if err != nil {
			return unlined(err)
		}
		gates = append(gates, stale...)
	}
	return c.judge(gates, format)
}

// unlined returns the error of an image without lines, or a tree without files, its exit code.
func unlined(err error) error {
	if errors.Is(err, image.ErrNoLines) || errors.Is(err, source.ErrNoFiles) {
		return fail.Errorf(fail.Nothing, "check: %w", err)
	}
	return err
}

// checked returns the image that is checked.
func checked(s *input.Session, want string) (*infer.ImageProfile, error) {
	if want != "" {
		return s.Image(want)
	}
	isProgram := func(ip *infer.ImageProfile) bool { return !emit.IsSharedName(ip.ID.Path) }
	if ip := feedback.Largest(s.Profile, isProgram); ip != nil {
		return ip, nil
	}
	return nil, fail.Errorf(fail.Nothing, "check: no samples of any image (`backfeed images` says why)")
}

// buildGates compare the sampled procedures and lines with those of the build at path.
func buildGates(ip *infer.ImageProfile, path string, lim gate.Limits) ([]gate.Gate, error) {
	im, err := image.Open(path, image.Options{})
	if err != nil {
		return nil, input.Mistaken(path, input.WantImage, err)
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
func (c *cli) judge(gates []gate.Gate, format *flagset.Choice) error {
	rows := report.NewVerdicts(gates)
	err := c.print("-", format, report.ItemsOf("backfeed.check/2", rows), rows, func(w io.Writer, style report.Style) error { return report.WriteVerdicts(w, rows, style) })
	if err != nil {
		return err
	}
	if failed := report.Failures(rows); failed != "" {
		return fail.Errorf(fail.Gate, "check: %s", failed)
	}
	return nil
}
