package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"backfeed/cmd/internal/flagset"
	"backfeed/infer/image"
	"backfeed/sample/collect"
	"backfeed/sample/store"
)

// agentFlags are what an agent is told.
type agentFlags struct {
	store      string
	what       systemFlags
	maxCPU     flagset.Share
	calibrate  calibrateFlags
	labels     map[string]string
	epoch      time.Duration
	flush      time.Duration
	spool      string
	keepImages *flagset.Choice // "no", "file", "debug"
	maxImage   flagset.Size    // of what is copied
	hashPaths  bool
	retain     retention
	metrics    string
	public     bool
	level      *flagset.Choice
}

// systemFlags say what of a machine to sample.
type systemFlags struct {
	hz           int
	events       []string
	tick, kernel bool
	callers      callersFlag
	offCPU       bool
	pids         []int
	cgroups      []string
}

func (f *systemFlags) define(fs *flagset.Set, eventHelp string) {
	fs.StringSliceVar(&f.events, "event", nil, eventHelp)
	fs.Alias("events", "event")
	fs.BoolVar(&f.tick, "tick", false, "take samples at the scheduler's tick instead of a timer")
	f.callers = callersFlag("go")
	fs.Var(&f.callers, "callers", "record callers of samples too: go, one of code of Go; no; all, whole stacks; or up to `N` of all")
	fs.Lookup("callers").NoOptDefVal = "all"
	fs.BoolVar(&f.kernel, "kernel", false, "record places in the kernel too")
	fs.StringArrayVar(&f.cgroups, "cgroup", nil, "sample only the cgroup at `path` below /sys/fs/cgroup, and those below it")
}

// A callersFlag is a flag: go, no, all, or how many return addresses of a stack.
type callersFlag string

func (v *callersFlag) String() string { return string(*v) }
func (v *callersFlag) Type() string   { return "callers" }
func (*callersFlag) Words() []string  { return []string{"go", "no", "all"} }
func (v *callersFlag) Set(s string) error {
	if !v.Accepts(s) {
		return fmt.Errorf("want go, no, all or 1 to %d", collect.MaxFrames)
	}
	*v = callersFlag(s)
	return nil
}

// Accepts has a value that may be left out follow the flag.
func (*callersFlag) Accepts(s string) bool { return s == "go" || isCallers(s) }

// Program reports whether a value may as well begin the command that is recorded: record --callers go test.
func (*callersFlag) Program(s string) bool { return s == "go" }

// isCallers reports whether s says how many callers: no, all or a number.
func isCallers(s string) bool {
	n, err := strconv.Atoi(s)
	return s == "no" || s == "all" || err == nil && n >= 1 && n <= collect.MaxFrames
}

// stacks reports whether stacks are to be unwound.
func (v callersFlag) stacks() bool {
	_, frames := v.of()
	return frames > 0
}

// of says of which samples, and how many callers of each where stacks are unwound.
func (v callersFlag) of() (of collect.CallersOf, frames int) {
	switch v {
	case "no", "":
		return collect.CallersOfNone, 0
	case "go":
		return collect.CallersOfGo, 0
	case "all":
		return collect.CallersOfAll, collect.MaxFrames
	}
	n, _ := strconv.Atoi(string(v)) // as Set has seen
	return collect.CallersOfAll, n
}

func (f *systemFlags) options() collect.SystemOptions {
	opt := collect.SystemOptions{Frequency: f.hz, Events: f.events, Tick: f.tick, Kernel: f.kernel, PIDs: f.pids}
	if opt.Callers, opt.Frames = f.callers.of(); opt.Frames == 0 && f.offCPU {
		opt.Callers, opt.Frames = callersFlag("all").of()
	}
	if opt.Frames > 0 {
		opt.Unwind = image.UnwindTable
	}
	if opt.OffCPU = f.offCPU; f.offCPU { // it adds up with a timer's
		opt.Events = []string{"cpu-clock"}
	}
	for _, path := range f.cgroups {
		if !strings.HasPrefix(path, cgroupMount) { // as /proc/PID/cgroup and systemd name them
			path = filepath.Join(cgroupTree(), path)
		}
		opt.Cgroups = append(opt.Cgroups, path)
	}
	return opt
}

const cgroupMount = "/sys/fs/cgroup"

// cgroupTree is where the tree of version 2 is mounted: beside those of version 1,
// or alone.
func cgroupTree() string {
	hybrid := filepath.Join(cgroupMount, "unified")
	if _, err := os.Stat(filepath.Join(hybrid, "cgroup.procs")); err == nil {
		return hybrid
	}
	return cgroupMount
}

// refuse finds what has no effect beside the rest.
func (f *systemFlags) refuse(fs *flagset.Set) error {
	if f.tick {
		return fs.Refuse("the scheduler's tick has a rate of its own", "frequency")
	}
	return nil
}

// check finds what no sampler can do.
func (f *systemFlags) check() error {
	if f.hz < 1 {
		return fmt.Errorf("-F %d: want a positive number", f.hz)
	}
	if f.tick && len(f.events) > 0 {
		return errors.New("want --event or --tick, not both")
	}
	return nil
}

// keepImages defines the flag of what is copied into stores.
func (c *cli) keepImages() *flagset.Choice {
	v := c.choice("keep-images", "copy the sampled programs and libraries into the store, or with =debug their separate debug files too", "no", "file", "debug")
	c.fs.Lookup("keep-images").NoOptDefVal = "file"
	return v
}

// parseAgent reads the command line, and the file that it names. Without error
// and flags, help was asked for.
func (c *cli) parseAgent(args []string) (*agentFlags, error) {
	f := &agentFlags{maxCPU: 0.01, maxImage: 1 << 30}
	fs := c.flags()
	fs.StringVar(&f.store, "store", defaultStore, "write to the store in `dir`, or in a bucket: s3://BUCKET/PREFIX")
	fs.StringVar(&f.spool, "spool", defaultStore, "keep in `dir` what is not in the bucket yet, at most --retain-size (1G)")
	fs.IntVarP(&f.what.hz, "frequency", "F", collect.DefaultSystemFrequency, "take at most `HZ` samples per second on each processor")
	fs.Var(&f.maxCPU, "max-cpu", "keep the cost below this share of all processor time")
	f.what.define(fs, "take samples of event `name`: branches, instructions, cycles, cpu-clock (default: the best there is); may be given several times")
	fs.BoolVar(&f.what.offCPU, "off-cpu", false, "record the time that threads are off the processor, too, with whole stacks")
	f.calibrate.define(fs, false)
	f.calibrate.definePaths(fs, false)
	fs.IntSliceVarP(&f.what.pids, "pid", "p", nil, "sample only the processes `PID` and what they start")
	fs.StringToStringVar(&f.labels, "label", nil, "mark what is recorded with `name=value`")
	fs.DurationVar(&f.epoch, "epoch", time.Hour, "merge what was recorded in each `duration`")
	fs.DurationVar(&f.flush, "flush", 5*time.Minute, "write a segment every `duration`")
	f.keepImages = c.keepImages()
	fs.Var(&f.maxImage, "max-image-size", "copy no program, library or debug file that is larger")
	fs.BoolVar(&f.hashPaths, "hash-paths", false, "keep hashes in place of the paths of programs and libraries")
	f.retain.define(fs)
	fs.StringVar(&f.metrics, "metrics", "", "tell Prometheus of the agent itself at http://`host:port`/metrics")
	fs.BoolVar(&f.public, "metrics-public", false, "let --metrics listen where other machines can connect")
	f.level = c.choice("log-level", "what to log", "info", "debug", "warn", "error")
	config := c.config("read flags from `file`, again on SIGHUP")
	unit := fs.Bool("systemd-unit", false, "print a unit file for systemd, and do nothing else")
	if err := fs.Parse(args); err != nil || fs.NArg() > 0 {
		return nil, c.usage(err)
	}
	if *unit {
		_, err := io.WriteString(c.stdout, systemdUnit)
		return nil, err
	}
	if *config != "" {
		if err := c.readConfig(*config, false); err != nil {
			return nil, err
		}
	}
	if err := cmp.Or(f.check(), f.refuse(fs)); err != nil {
		return nil, c.usage(err)
	}
	return f, nil
}

// refuse finds what has no effect beside the rest.
func (f *agentFlags) refuse(fs *flagset.Set) error {
	if store.InBucket(f.store) {
		if err := fs.Refuse("a bucket is thinned out by `backfeed store gc`", "retain"); err != nil {
			return err
		}
	} else if err := fs.Refuse("it goes with --store s3://...", "spool"); err != nil {
		return err
	}
	if f.metrics == "" {
		if err := fs.Refuse("it goes with --metrics", "metrics-public"); err != nil {
			return err
		}
	}
	if f.keepImages.Value == "no" {
		if err := fs.Refuse("it goes with --keep-images", "max-image-size"); err != nil {
			return err
		}
	}
	if f.what.offCPU {
		if err := fs.Refuse("--off-cpu samples by the kernel's timer", "event", "tick", "calibrate"); err != nil {
			return err
		}
		if fs.Changed("callers") && !f.what.callers.stacks() {
			return fmt.Errorf("--off-cpu has whole stacks; want --callers or --callers=N, not --callers=%s", &f.what.callers)
		}
	}
	return f.what.refuse(fs)
}

func (f *agentFlags) check() error {
	switch {
	case f.epoch < time.Minute:
		return fmt.Errorf("--epoch %v: want a minute at least", f.epoch)
	case f.flush < time.Second:
		return fmt.Errorf("--flush %v: want a second at least", f.flush)
	}
	return cmp.Or(f.what.check(), f.calibrate.check())
}
