// Kernels boots Debian's kernels under qemu, runs the live tests of package collect and of the command on
// each, as root and as an ordinary user, and reports like go test what worked, what was refused as designed,
// and what failed. It needs no root and no KVM, and changes nothing of the machine: see README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

type options struct {
	cache  string
	built  string
	logs   string
	run    *regexp.Regexp
	clock  string
	update bool
	guests int
	names  []string
}

// has reports whether a guest is asked for.
func (o *options) has(g guest) bool {
	return (len(o.names) == 0 || slices.Contains(o.names, g.String())) && (o.clock == "" || o.clock == g.clock())
}

func main() {
	if err := command(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kernels:", err)
		os.Exit(1)
	}
}

func command(args []string, out io.Writer) error {
	var o options
	fs := flag.NewFlagSet("kernels", flag.ContinueOnError)
	cache, _ := os.UserCacheDir()
	fs.StringVar(&o.cache, "cache", filepath.Join(cache, "backfeed", "kernels"), "keep kernels in `dir`")
	fs.StringVar(&o.built, "built", "", "keep what guests run in `dir`, and take from there what a run of the same sources has built")
	fs.StringVar(&o.logs, "logs", "", "write the console of each guest to a file in `dir`")
	fs.BoolVar(&o.update, "update", false, "fetch kernels again, for newer ones")
	fs.IntVar(&o.guests, "j", 2, "boot `n` guests at once, and as many whose clocks go by instructions")
	fs.StringVar(&o.clock, "clock", "", "boot only guests whose clocks go by `what`: time or instructions")
	run := fs.String("run", "", "run only those jobs whose name matches `regexp`")
	fs.Usage = func() {
		fmt.Fprintln(fs.Output(), "usage: go run ./testdata/kernels [flags] [GUEST...]")
		fs.PrintDefaults()
		fmt.Fprintln(fs.Output(), "guests:", guestNames())
	}
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	var err error
	if o.run, err = regexp.Compile(*run); err != nil {
		return err
	}
	if o.clock != "" && o.clock != byTime && o.clock != byInstructions {
		return fmt.Errorf("-clock: clocks go by %s or %s, not by %q", byTime, byInstructions, o.clock)
	}
	o.names = fs.Args()
	for _, name := range o.names {
		if !slices.ContainsFunc(guests, func(g guest) bool { return g.String() == name }) {
			return fmt.Errorf("no guest is named %s: there are %s", name, guestNames())
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return matrix(ctx, o, out)
}

// matrix boots the guests and prints what they report, each as soon as it is done.
func matrix(ctx context.Context, o options, out io.Writer) error {
	start := time.Now()
	dir, err := filepath.Abs(o.built)
	if o.built == "" {
		dir, err = os.MkdirTemp("", "kernels-")
		defer os.RemoveAll(dir)
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	b := &builder{root: root, dir: dir}

	var results []*result
	for _, g := range guests {
		if o.has(g) {
			results = append(results, &result{guest: g})
		}
	}
	var printing sync.Mutex
	atOnce(results, max(o.guests, 1), func(r *result) {
		r.boot(ctx, b, o)
		printing.Lock()
		defer printing.Unlock()
		r.print(out)
	})
	again := tryAgain(results, func(r *result) {
		r.boot(ctx, b, o)
		r.print(out)
	})
	return summarize(out, results, again, time.Since(start))
}

// atOnce boots so many of the guests that go by time at once, in order, and beside them so many of those that go by instructions:
// these take what processors the others leave, and it does not matter to them how much that is.
func atOnce(results []*result, n int, boot func(*result)) {
	var running sync.WaitGroup
	for _, counted := range []bool{false, true} {
		running.Go(func() {
			slots := make(chan struct{}, n)
			for _, r := range results {
				if r.counted() != counted {
					continue
				}
				slots <- struct{}{}
				running.Go(func() {
					defer func() { <-slots }()
					boot(r)
				})
			}
		})
	}
	running.Wait()
}

// tryAgain boots each guest that failed once more, with no other beside it: emulated processors share what
// others leave them, and a second of theirs may be a tenth of one. What fails twice has failed. The names of
// those that did not are returned.
func tryAgain(results []*result, boot func(*result)) (passed []string) {
	for i, r := range results {
		if !r.failed() {
			continue
		}
		second := &result{guest: r.guest}
		if boot(second); second.failed() || second.skip != "" { // skipped: what failed before counts
			continue
		}
		results[i] = second
		passed = append(passed, r.String())
	}
	return passed
}

// boot fetches what the guest needs, and runs its jobs.
func (r *result) boot(ctx context.Context, b *builder, o options) {
	begun := time.Now()
	defer func() { r.took = time.Since(begun) }()
	m := machines[r.arch]
	if _, err := exec.LookPath(m.qemu[0]); err != nil {
		r.skip = fmt.Sprintf("needs %s: %v", m.qemu[0], err)
		return
	}
	kernel, err := r.kernel.fetch(ctx, o.cache, o.update)
	if err != nil {
		r.skip = fmt.Sprintf("cannot fetch the kernel: %s", firstLine(err.Error()))
		return
	}
	r.version = kernel.version
	content, err := b.content(ctx, r.arch)
	if err != nil {
		r.err = err
		return
	}
	var jobs []job
	for _, j := range jobsOf(r.guest) {
		if o.run.MatchString(j.Name) {
			jobs = append(jobs, j)
		}
	}
	content = content.without(jobs).with("bin/busybox", kernel.busybox)
	log := io.Discard
	if o.logs != "" {
		if err := os.MkdirAll(o.logs, 0o755); err != nil {
			r.err = err
			return
		}
		f, err := os.Create(filepath.Join(o.logs, r.String()+".log"))
		if err != nil {
			r.err = err
			return
		}
		defer f.Close()
		log = f
	}
	ran, used, err := kernel.run(ctx, content, jobs, r.guest, log)
	if len(ran) == 0 && ctx.Err() == nil { // it did not boot, for which nothing is to blame that is tested here
		fmt.Fprintf(log, "\n@@ once more: %v\n", err)
		var more time.Duration
		ran, more, err = kernel.run(ctx, content, jobs, r.guest, log)
		used += more
	}
	r.used = used
	r.take(jobs, ran)
	if err != nil {
		r.err = fmt.Errorf("%s: %w", m.qemu[0], err)
	}
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

func guestNames() string {
	var names []string
	for _, g := range guests {
		names = append(names, g.String())
	}
	return strings.Join(names, ", ")
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// crossCompilers by architecture, as Debian names them.
func crossTool(arch, name string) string {
	if arch == runtime.GOARCH {
		return name
	}
	return map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch] + "-linux-gnu-" + name
}
