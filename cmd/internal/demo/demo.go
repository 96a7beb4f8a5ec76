package demo

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/optimize"
	"backfeed/cmd/internal/output"
	"backfeed/cmd/internal/report"
	"backfeed/feedback"
	"backfeed/infer"
	"backfeed/sample"
	"backfeed/sample/collect"
)

//go:embed testdata/demo/main.go
var demoSource []byte

// demoHz is higher than what one would bear in production: the demo is short.
const demoHz = 4000

// demoMaxCPU is more than what one would bear in production, likewise.
const demoMaxCPU = 0.25

// demoWidth is how long lines are where a file or a pipe has no width of its own, in characters.
const demoWidth = 110

// A demoSize says how much the demo does. One round takes about 3 ms.
type demoSize struct {
	perf, pprof int // rounds of the recorded run
	compare     int // rounds of the runs that are compared
	blocks      int // of four runs that are compared: two pairs
}

// fullDemo takes 12,000 samples with perf, and 900 with runtime/pprof, whose
// rate is 100 Hz.
var fullDemo = demoSize{perf: 1000, pprof: 3000, compare: 130, blocks: 8}

// Options say how the demo goes, and where.
type Options struct {
	Dir      string    // the source, the builds and the profile stay there; "" is a directory that goes in the end
	Recorder string    // "perf", "ptrace", "pprof", or "auto": the first of these that works
	Out      io.Writer // what is told
	Style    report.Style
	Notify   report.Notify
}

// Run does the whole job on a sample program, and tells of each step. Its error is of the kind
// fail.Machine where the demo or its recorder cannot run.
func Run(opt Options) error {
	if runtime.GOOS != "linux" {
		return fail.Errorf(fail.Machine, "the demo needs Linux: on %s, programs are no ELF files", runtime.GOOS)
	}
	d, err := newDemo(opt, fullDemo)
	if err != nil {
		return err
	}
	defer d.close()
	return d.run()
}

func (d *demo) run() error {
	for _, stage := range []func() error{
		d.buildBase,
		func() error { return d.record(d.opt.Recorder) },
		d.infer,
		d.count,
		d.tellProcedures,
		d.buildBetter,
		d.tellDecisions,
		d.compare,
	} {
		if err := stage(); err != nil {
			return err
		}
	}
	return nil
}

// A demo is one run of the demo command. Each stage leaves its results for those
// that follow.
type demo struct {
	opt  Options
	size demoSize
	dir  string // with everything below
	temp bool   // dir goes in the end
	env  []string

	base, better               string // the two builds
	baseRemarks, betterRemarks []remark

	rounds    int // of the recorded run
	recording *sample.Recording
	source    *input.Session
	exact     map[string]uint64 // calls of the functions that are nowhere inlined in base
}

func newDemo(opt Options, size demoSize) (*demo, error) {
	if _, err := exec.LookPath("go"); err != nil {
		return nil, fail.Errorf(fail.Machine, "the demo builds a Go program, but there is no go command: %w", err)
	}
	d := &demo{opt: opt, size: size, dir: opt.Dir}
	var err error
	if d.dir == "" {
		d.dir, err = os.MkdirTemp("", "backfeed-demo-")
		d.temp = true
	} else {
		err = os.MkdirAll(d.dir, 0o777)
	}
	if err == nil {
		d.dir, err = filepath.Abs(d.dir)
	}
	if err != nil {
		return nil, err
	}
	d.env = goEnv(os.Environ(), d.dir)
	for name, text := range map[string][]byte{"main.go": demoSource, "go.mod": []byte("module demo\n\ngo 1.22\n")} {
		if err := output.WriteFile(filepath.Join(d.dir, name), opt.Out, text); err != nil {
			d.close()
			return nil, err
		}
	}
	return d, nil
}

// goEnv is the environment in which the go command builds the demo: what the
// user set for builds of his own does not count, and caches are in dir if there
// is no home to have them.
func goEnv(env []string, dir string) []string {
	set := map[string]string{}
	for _, kv := range env {
		key, value, _ := strings.Cut(kv, "=")
		set[key] = value
	}
	if set["GOCACHE"] == "" && set["XDG_CACHE_HOME"] == "" && set["HOME"] == "" {
		set["GOCACHE"] = filepath.Join(dir, "cache")
	}
	if set["GOPATH"] == "" && set["HOME"] == "" {
		set["GOPATH"] = filepath.Join(dir, "gopath")
	}
	maps.Copy(set, map[string]string{
		"GOOS": runtime.GOOS, "GOARCH": runtime.GOARCH, "CGO_ENABLED": "0", "GO111MODULE": "on",
		"GOFLAGS": "", "GOWORK": "off", "GOTOOLCHAIN": "local", "GODEBUG": "",
	})
	var out []string
	for _, key := range slices.Sorted(maps.Keys(set)) {
		out = append(out, key+"="+set[key])
	}
	return out
}

func (d *demo) close() {
	if d.source != nil {
		d.source.Close()
	}
	if d.temp {
		os.RemoveAll(d.dir)
	}
}

// say prints lines of the result, broken where they are too long.
func (d *demo) say(format string, args ...any) {
	d.opt.Notify.Done()
	w := report.Wrap(d.opt.Out, cmp.Or(d.opt.Style.Width, demoWidth))
	fmt.Fprintf(w, format+"\n", args...)
}

// tool runs a command in d.dir and returns what it printed on standard error. If
// it fails, that is in the error.
func (d *demo) tool(name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = d.dir, d.env
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Run(); err != nil {
		return nil, fail.Lines(fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err), strings.Split(strings.TrimSpace(errs.String()), "\n")...)
	}
	return errs.Bytes(), nil
}

// build builds the demo and returns the compiler's remarks.
func (d *demo) build(name string, flags ...string) (exe string, remarks []remark, err error) {
	exe = filepath.Join(d.dir, name)
	args := append([]string{"build", "-gcflags=-m", "-buildvcs=false", "-o", exe}, flags...)
	text, err := d.tool("go", append(args, ".")...)
	if err != nil {
		return "", nil, err
	}
	remarks, err = readRemarks(bytes.NewReader(text))
	return exe, remarks, err
}

func (d *demo) buildBase() (err error) {
	d.opt.Notify.Progress("building without a profile")
	start := time.Now()
	d.base, d.baseRemarks, err = d.build("base", "-pgo=off")
	if err != nil {
		return err
	}
	d.say("1. Built a Go program that answers a query about a log, without a profile, in %s.", seconds(time.Since(start)))
	return nil
}

func seconds(t time.Duration) string { return fmt.Sprintf("%.0f s", t.Seconds()) }

// record samples the program in the best way that the user and the kernel allow.
func (d *demo) record(how string) error {
	if how != "pprof" {
		err := d.recordSampled(how)
		unavailable := (*collect.Unavailable)(nil)
		switch {
		case err == nil:
			return nil
		case !errors.As(err, &unavailable):
			return err
		case how != "auto":
			return fail.Wrap(fail.Machine, err)
		}
		d.say("\nThe kernel does not let this user sample: %s.\n%s.\nGoing on with the program's own runtime/pprof profile, which has fewer samples.", unavailable.Why, unavailable.Fix)
	}
	return d.recordPprof()
}

// recordSampled records by perf events, or by ptrace: "perf", "ptrace" or "auto".
func (d *demo) recordSampled(how string) error {
	d.opt.Notify.Progress("recording")
	d.rounds = d.size.perf
	opt := collect.Options{
		Command: []string{d.base, "-n", strconv.Itoa(d.rounds)}, Dir: d.dir, Env: d.env, Frequency: demoHz,
		MaxCPU: demoMaxCPU,
	}
	switch how {
	case "perf":
		if err := perfRefused(); err != nil {
			return err
		}
	case "ptrace":
		opt.Events = []string{"ptrace-clock"}
	}
	rec, stats, err := collect.Record(context.Background(), opt)
	if err != nil {
		return err
	}
	d.recording = rec
	if err := output.WriteFile(filepath.Join(d.dir, "backfeed.bfr"), d.opt.Out, rec.Encode()); err != nil {
		return err
	}
	hz := collect.TimerRate(demoHz)
	if t := stats.Traced; t != nil {
		hz = int(time.Second / t.Period) // lower, if it would have cost too much
		if t.Why != "" {
			d.say("   Perf events are refused here: %s. The program is sampled by ptrace instead.", t.Why)
		}
	}
	return d.tellRecording(stats.Event(), hz)
}

// perfRefused returns why nothing but ptrace can sample here, if so.
func perfRefused() error {
	tried, err := collect.Probe()
	if n := len(tried); err == nil && n > 1 && tried[n-1].Name == "ptrace-clock" {
		refused := tried[n-2]
		return &collect.Unavailable{Tried: tried[:n-1], Why: "perf events are refused", Fix: refused.Fix}
	}
	return err
}

func (d *demo) recordPprof() error {
	d.opt.Notify.Progress("recording with runtime/pprof")
	d.rounds = d.size.pprof
	file := filepath.Join(d.dir, "cpu.pprof")
	if _, err := d.tool(d.base, "-n", strconv.Itoa(d.rounds), "-cpuprofile", file); err != nil {
		return err
	}
	src, err := input.Read(context.Background(), []string{file}, input.Options{Notify: d.opt.Notify})
	if err != nil {
		return err
	}
	defer src.Close()
	d.recording = src.Recording
	return d.tellRecording("runtime/pprof", 100)
}

func (d *demo) tellRecording(event string, hz int) error {
	if d.recording.Delivered() == 0 {
		return fail.Errorf(fail.Nothing, "no samples of the demo's program: is the machine very busy? Run it again")
	}
	losses := "none lost"
	if list := report.Losses(d.recording.Lost(), d.recording.Samples()); list != "" {
		losses = "lost: " + list
	}
	d.say("2. Recorded it: %d samples of %s at %d Hz; %s.", d.recording.Samples(), event, hz, losses)
	return nil
}

// infer works out what ran and writes the profile.
func (d *demo) infer() error {
	start := time.Now()
	s, err := input.Of(d.recording, input.Options{Images: []string{d.base}, Notify: d.opt.Notify})
	if err != nil {
		return err
	}
	d.source = s
	if err := s.Infer(context.Background()); err != nil {
		return err
	}
	p := d.source.Profile
	d.say("3. Inferred how often everything ran, in %s: %d of %d samples used (%s).",
		seconds(time.Since(start)), p.Samples.Used, p.Samples.Total, report.Share(p.Samples.Used, p.Samples.Total))
	d.say("   Of these, %s are in blocks of high within-function confidence (within 10 %%, nine blocks in ten), %s of medium (within a factor of 2), %s of less. How often procedures run beside one another, samples of a timer tell less well.",
		report.Percent(confident(p, infer.High)), report.Percent(confident(p, infer.Medium)),
		report.Percent(confident(p, infer.Low)+confident(p, infer.None)))
	var st feedback.GoStats
	err = output.Write(d.profile(), d.opt.Out, func(w io.Writer) (err error) {
		st, err = feedback.WriteGo(w, p, d.recording, feedback.GoOptions{Round: true})
		return err
	})
	if err != nil {
		return fail.Wrap(fail.Nothing, err)
	}
	d.say("   Wrote default.pgo: %d call edges, %d of them inlined, %d indirect.", st.Edges, st.Inlined, st.Indirect)
	return nil
}

func (d *demo) profile() string { return filepath.Join(d.dir, "default.pgo") }

// confident returns the share of the used samples that are in blocks of one
// within-function confidence.
func confident(p *infer.Profile, level infer.Confidence) float64 {
	var n, all uint64
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			for i, samples := range r.BlockSamples {
				all += samples
				if r.Block[i].Within == level {
					n += samples
				}
			}
		}
	}
	return float64(n) / float64(max(all, 1))
}

// count runs the same work in a build that counts, to have the truth about the
// functions that stand in the base build once: those never inlined.
func (d *demo) count() error {
	d.opt.Notify.Progress("counting calls exactly, to compare")
	exe, _, err := d.build("counting", "-pgo=off", "-cover", "-covermode=count")
	if err != nil {
		return err
	}
	dir := filepath.Join(d.dir, "cover")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	cmd := exec.Command(exe, "-n", strconv.Itoa(d.rounds))
	cmd.Dir, cmd.Env = d.dir, append(slices.Clone(d.env), "GOCOVERDIR="+dir)
	if err := cmd.Run(); err != nil {
		return err
	}
	text := filepath.Join(d.dir, "cover.txt")
	if _, err := d.tool("go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+text); err != nil {
		return err
	}
	f, err := os.Open(text)
	if err != nil {
		return err
	}
	defer f.Close()
	if d.exact, err = exactCounts(f, "main.go", demoSource); err != nil {
		return err
	}
	for _, r := range d.baseRemarks {
		delete(d.exact, r.callee) // part of its calls are not calls
	}
	return nil
}

// A demoRow is a procedure of the program, and the truth if it is known.
type demoRow struct {
	name    string
	samples uint64
	freq    infer.Freq
	exact   uint64
	counted bool
}

// rows lists the sampled procedures, those with the most samples first.
func (d *demo) rows() []demoRow {
	var rows []demoRow
	for _, ip := range d.source.Profile.Images {
		for _, r := range ip.Procs {
			if r.Samples == 0 {
				continue
			}
			row := demoRow{name: r.Proc.Name, samples: r.Samples, freq: r.Entries}
			if name, ok := strings.CutPrefix(r.Proc.Name, "main."); ok {
				row.exact, row.counted = d.exact[name]
			}
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b demoRow) int {
		return int(int64(b.samples) - int64(a.samples))
	})
	return rows
}

// tellProcedures prints the hottest procedures beside the truth.
func (d *demo) tellProcedures() error {
	const most = 12
	rows := d.rows()
	t := report.NewTable(report.Right("samples"), report.Right("share").Drop(1), report.Right("calls, inferred"), report.Left("confidence").Drop(2),
		report.Right("calls, counted"), report.Right("inferred/counted"), report.Procedures("procedure").Main())
	used := d.source.Profile.Samples.Used
	for _, r := range rows[:min(most, len(rows))] {
		exact, ratio := "", ""
		if r.counted {
			exact = report.Count(float64(r.exact))
			ratio = quotient(r.freq.N, float64(r.exact))
		}
		inferred := "-"
		if r.freq.Conf != infer.None {
			inferred = report.Count(r.freq.N)
		}
		t.Row(report.Integer(r.samples), report.Share(r.samples, used), inferred, r.freq.Conf.String(), exact, ratio, r.name)
	}
	d.say("\nThe hottest procedures. The counts, from a build with -covermode=count, are there to check the inferred numbers and were not used; they are known for functions that are inlined nowhere.\n")
	if err := t.Print(d.opt.Out, d.opt.Style); err != nil {
		return err
	}
	a := accuracyOf(rows)
	d.say("\nOf the samples in procedures that were counted, %s are in procedures inferred within a factor of 2, %s within 10 %%.\nThe compiler looks at shares: how the inferred calls divide among these procedures overlaps the truth by %s.",
		report.Share(a.within2, a.all), report.Share(a.within10, a.all), report.Percent(a.overlap))
	return nil
}

func quotient(a, b float64) string {
	if b == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", a/b)
}

// An entryAccuracy says how near the inferred calls of procedures are.
type entryAccuracy struct {
	all, within2, within10 uint64  // samples of procedures
	overlap                float64 // of the two distributions of calls over procedures, 1 if they are equal
}

func accuracyOf(rows []demoRow) (a entryAccuracy) {
	var inferred, counted float64
	for _, r := range rows {
		if r.counted {
			inferred += r.freq.N
			counted += float64(r.exact)
		}
	}
	for _, r := range rows {
		if !r.counted {
			continue
		}
		a.all += r.samples
		a.overlap += min(r.freq.N/max(inferred, 1), float64(r.exact)/max(counted, 1))
		off := math.Abs(math.Log(r.freq.N / float64(r.exact))) // infinite or NaN where one is 0
		if off <= math.Ln2 {
			a.within2 += r.samples
		}
		if off <= math.Log(1.1) {
			a.within10 += r.samples
		}
	}
	return a
}

func (d *demo) buildBetter() (err error) {
	d.opt.Notify.Progress("building with the profile")
	start := time.Now()
	d.better, d.betterRemarks, err = d.build("better", "-pgo="+d.profile())
	if err != nil {
		return err
	}
	d.say("\n4. Built it again with -pgo=default.pgo, in %s.", seconds(time.Since(start)))
	return nil
}

// tellDecisions prints what the profile made the compiler do. A profile that
// changed nothing would be a failure of ours.
func (d *demo) tellDecisions() error {
	more := only(inlined, d.betterRemarks, d.baseRemarks)
	less := only(inlined, d.baseRemarks, d.betterRemarks)
	direct := only(devirtualized, d.betterRemarks, d.baseRemarks)
	if len(more)+len(less)+len(direct) == 0 {
		return fail.Errorf(fail.Other, "the compiler decided nothing differently with %s", d.profile())
	}
	d.say("   The compiler devirtualised %d interface calls and inlined %d more calls in main.go (%d fewer). Among them:\n", len(direct), len(more), len(less))
	const most = 8
	for _, r := range direct[:min(most, len(direct))] {
		d.say("   main.go:%d: %s is %s, called directly", r.line, r.call, r.callee)
	}
	for _, r := range more[:min(most, len(more))] {
		d.say("   main.go:%d: %s is inlined", r.line, r.callee)
	}
	if hidden := max(0, len(direct)-most) + max(0, len(more)-most); hidden > 0 {
		d.say("   and %d others", hidden)
	}
	return nil
}

// compare runs the two builds alternately and prints what the profile brought.
func (d *demo) compare() error {
	if err := d.sameOutput(); err != nil {
		return err
	}
	builds := []string{d.base, d.better}
	times, err := optimize.Alternate(len(builds), 2*d.size.blocks, func(build, round int) (time.Duration, error) {
		d.opt.Notify.Progress("comparing: round %d of %d", round+1, 2*d.size.blocks)
		return d.processorTime(builds[build])
	})
	if err != nil {
		return err
	}
	b := times.Against(1)
	d.say("\n5. Compared %d pairs of runs by their processor time. Both builds print the same.\n", b.Pairs)
	d.say("   with the profile          %s  (95 %% interval of the median: %s to %s)", faster(b.Median), faster(b.Low), faster(b.High))
	if a, ok := times.Noise(); ok {
		d.say("   base against itself       %s  (%d pairs: %s to %s)", faster(a.Median), a.Pairs, faster(a.Low), faster(a.High))
	}
	if b.High >= 1 {
		d.say("\nThe difference does not stand out of the noise: this machine may be too busy. Run the demo again.")
		return nil
	}
	d.say("\nThe profile saves %s of the program's processor time.", report.Percent(1-b.Median))
	if d.temp {
		d.say("`backfeed demo --dir DIR` keeps the files; `backfeed optimize` does all of this for a program of yours.")
	}
	return nil
}

// faster writes a ratio of times as a change: "-20.1 %".
func faster(ratio float64) string { return fmt.Sprintf("%+6.1f %%", 100*(ratio-1)) }

// processorTime runs a build and returns the processor time that it used.
func (d *demo) processorTime(exe string) (time.Duration, error) {
	cmd := exec.Command(exe, "-n", strconv.Itoa(d.size.compare))
	cmd.Dir, cmd.Env = d.dir, d.env
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s: %w", exe, err)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// sameOutput makes sure that both builds give the same answer. It also warms the
// caches before the runs that count.
func (d *demo) sameOutput() error {
	var out [2][]byte
	for i, exe := range []string{d.base, d.better} {
		cmd := exec.Command(exe, "-n", strconv.Itoa(d.size.compare))
		cmd.Dir, cmd.Env = d.dir, d.env
		var err error
		if out[i], err = cmd.Output(); err != nil {
			return fmt.Errorf("%s: %w", exe, err)
		}
	}
	if !bytes.Equal(out[0], out[1]) {
		return fail.Lines(errors.New("the two builds print different answers:"), strings.Split(fmt.Sprintf("%s\n%s", out[0], out[1]), "\n")...)
	}
	return nil
}
