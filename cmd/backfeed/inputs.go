package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/terminal"
	"backfeed/sample"
)

// srcHelp is a paragraph for the help of commands that read samples.
const srcHelp = `SRC is a recording of backfeed, a perf.data file, a pprof profile, profiles of OpenTelemetry (OTLP) or the exact counts of a callgrind run,
told apart by content, or a store: its directory, or s3://BUCKET/PREFIX; "-" is standard input, and an address (http://, https://) is fetched: a
file, or a profile that net/http/pprof makes (http://localhost:6060). parca://HOST:PORT and pyroscope://HOST:PORT are servers of
profiles (see "recordings"). Several are added up. Of a store, --since, --until and --label choose what to read: whole
epochs; of a server, without them the last hour. callgrind has to run with
--dump-instr=yes; what it counted has no samples, and stands beside those of a recording.`

// symfsHelp is one for those that need the images too.
const symfsHelp = srcHelp + `

Images are looked up by build ID, then by path below the --symfs directories, then among those that a
store has kept, then by path, then as what a process runs, then at the servers that --symfs names. A file with another build ID than the recorded one is never used: its samples are counted as lost.`

// procHelp is a paragraph for the help of commands that take the name of a procedure.
const procHelp = `PROC is a name as the linker or the source has it, with or without scope and parameters, or a regular
expression that one name matches; IMAGE:PROC looks in one image only.`

// inputs defines the flags that say what to read of a store and where images are looked up.
func (c *cli) inputs() *input.Options {
	opt := &input.Options{Stdin: c.stdin, Notify: notices{c}, Advise: true}
	c.fs.Grouped(sourceFlags, func() {
		c.fs.StringArrayVar(&opt.Symfs, "symfs", nil, "look up images below `dir` first, or at the address of a debuginfod server last; may be given several times")
		c.fs.Var((*flagset.Moment)(&opt.Since), "since", "of a store or a server, read what was recorded since `time`, or so long ago")
		c.fs.Var((*flagset.Moment)(&opt.Until), "until", "of a store or a server, read what was recorded until `time`, or so long ago")
		c.fs.Var((*betweenFlag)(&opt.Between), "between", "of each recording, read samples of the time `from,to`: each how long after the first, or a date")
		c.fs.StringToStringVar(&opt.Labels, "label", nil, "of a store or a server, read what is marked with `name=value`")
	})
	return opt
}

// inference defines the flags that say how counts are inferred.
func (c *cli) inference(opt *input.Options) {
	c.fs.Grouped(inferenceFlags, func() {
		c.fs.StringVar(&opt.Infer.Event, "event", "", "use the samples of event `name` (default: those of the timer or counter with the most)")
		c.fs.StringVar(&opt.Infer.Model, "model", "", "use the machine model `name` (default: that of the recording's processor)")
	})
}

// output defines the flag that says where the result goes.
func (c *cli) output() (file *string) {
	c.fs.Grouped(outputFlags, func() { file = c.fs.StringP("output", "o", "-", "write to `file`") })
	return file
}

// selects returns an error if the flags that choose from stores are given, and no path is one.
func (c *cli) selects(paths []string) error {
	if slices.ContainsFunc(paths, input.Selectable) {
		if err := c.fs.Refuse("stores and servers of profiles do not hold when samples were taken; --since and --until choose whole epochs", "between"); err != nil {
			return c.usage(err)
		}
		return nil
	}
	if err := c.fs.Refuse("it chooses from a store or a server of profiles, and "+strings.Join(input.Names(paths), ", ")+" is none", "since", "until", "label"); err != nil {
		return c.usage(err)
	}
	return nil
}

// A betweenFlag is FROM,TO: each a date, or how long after the first sample; what is empty bounds nothing.
type betweenFlag input.Between

func (b *betweenFlag) String() string { return input.Between(*b).String() }
func (b *betweenFlag) Type() string   { return "from,to" }
func (b *betweenFlag) Set(text string) error {
	from, to, ok := strings.Cut(text, ",")
	if !ok || from == "" && to == "" {
		return errors.New("want two times with a comma between them, such as 10s,20s; one may be empty")
	}
	*b = betweenFlag{}
	for _, side := range []struct {
		text string
		to   *input.Bound
	}{{from, &b.From}, {to, &b.To}} {
		if side.text == "" {
			continue
		}
		side.to.Given = true
		var err error
		if side.to.After, err = flagset.ParseTimeSpan(side.text, true); err == nil {
			continue
		}
		if side.to.At, err = flagset.ParseTime(side.text); err != nil {
			return fmt.Errorf("%w, or how long after the first sample, such as 10s", err)
		}
	}
	if f, t := b.From, b.To; f.Given && t.Given && f.At.IsZero() == t.At.IsZero() && (f.After >= t.After && !f.At.Before(t.At)) {
		return fmt.Errorf("%s is not before %s", from, to)
	}
	return nil
}

// read adds up the samples of all paths.
func (c *cli) read(paths []string, opt *input.Options) (*input.Session, error) {
	if err := c.selects(paths); err != nil {
		return nil, err
	}
	return input.Read(context.Background(), paths, *opt)
}

// gcPercent is how far the heap may grow between two collections, as long as that is little (see boundGarbage). Most of what an
// inference allocates it keeps. On gcc's cc1 with 764,779 samples 150 takes 0.1 s of
// 4.4 s less than the usual 100, and 200 another 0.07 s; on clang with libLLVM neither
// helps, and 200 needs more than 1 GB, 150 0.9 GB, 100 0.8 GB.
const gcPercent = 150

// inferred reads the samples of all paths and infers what ran.
func (c *cli) inferred(paths []string, opt *input.Options) (*input.Session, error) {
	if err := c.selects(paths); err != nil {
		return nil, err
	}
	return c.inferredAlso(paths, opt)
}

// inferredAlso is inferred for paths that are not the only ones of the command.
func (c *cli) inferredAlso(paths []string, opt *input.Options) (*input.Session, error) {
	boundGarbage(gcPercent)
	opt.Keep = resultsDir()
	return input.Infer(context.Background(), paths, *opt)
}

// inferredAgainst is inferred, and where older recordings are named, those too, of which it is to be compared with: of either what both have. old is nil
// if none is named.
func (c *cli) inferredAgainst(paths, against []string, opt *input.Options) (src, old *input.Session, err error) {
	if len(against) == 0 {
		src, err = c.inferredAlso(paths, opt)
		return src, nil, err
	}
	boundGarbage(gcPercent)
	opt.Keep = resultsDir()
	ctx := context.Background()
	if src, err = input.Read(ctx, paths, *opt); err != nil {
		return nil, nil, err
	}
	opt.Beside = src
	if old, err = input.Read(ctx, against, *opt); err != nil {
		src.Close()
		return nil, nil, fmt.Errorf("--against: %w", err)
	}
	if err = input.InferAlike(ctx, opt.Infer.Event, src, old); err != nil {
		old.Close()
		src.Close()
		return nil, nil, err
	}
	return src, old, nil
}

// cacheVar names the directory that results are kept in; "off" keeps none.
const cacheVar = "BACKFEED_CACHE"

// resultsDir is where results are kept; "" is nowhere.
func resultsDir() input.Results {
	switch dir := os.Getenv(cacheVar); dir {
	case "off":
		return ""
	case "":
		return input.Results(cacheDir("results"))
	default:
		return input.Results(dir)
	}
}

// cacheDir is where something is kept for this user; "" is nowhere.
func cacheDir(name string) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "backfeed", name)
}

// keptMaps is how long it is remembered what processes of containers told of code that they made: recordings name the files.
const keptMaps = 30 * 24 * time.Hour

// mapsDir is where that is kept; "" is nowhere. What is older is removed.
func mapsDir(now time.Time) string {
	dir := cacheDir("maps")
	if dir == "" || os.Getenv(cacheVar) == "off" {
		return ""
	}
	old, _ := os.ReadDir(dir)
	for _, e := range old {
		if info, err := e.Info(); err == nil && e.IsDir() && now.Sub(info.ModTime()) > keptMaps {
			os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	return dir
}

// inferredOf infers what ran from a recording that was just made; the file at path given,
// if there is one, need not be looked for, nor need what hold holds.
func (c *cli) inferredOf(rec *sample.Recording, given string, hold *input.Running) (*input.Session, error) {
	s, err := input.Of(rec, input.Options{Images: []string{given}, Running: hold, Notify: notices{c}})
	if err != nil {
		return nil, err
	}
	if err := s.Infer(context.Background()); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// notices are what packages below say to the user.
type notices struct{ c *cli }

func (n notices) Warn(format string, args ...any)     { n.c.warn(format, args...) }
func (n notices) Progress(format string, args ...any) { n.c.progress(format, args...) }
func (n notices) Done()                               { n.c.clearProgress() }

// steps are notices of a command that takes minutes: what it does is told by a line for each step where there is no terminal for a line of
// progress, too.
type steps struct {
	notices
	last string
}

func (s *steps) Progress(format string, args ...any) {
	s.notices.Progress(format, args...)
	step := format // what only counts on is the same step
	for _, a := range args {
		switch a.(type) {
		case int, int64, uint64, float64:
		default:
			step += fmt.Sprintf("\x00%v", a)
		}
	}
	if terminal.Is(s.c.stderr) || step == s.last {
		return
	}
	s.last = step
	s.c.warn(format, args...)
}
