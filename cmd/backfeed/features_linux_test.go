package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/collect"
	"backfeed/sample/probe"
	"backfeed/sample/trace"
)

// designed begins the reasons of tests that skip because the table of features has it so; testdata/kernels
// looks for it.
const designed = "refused as designed: "

// needed names, in the environment, hardware that a guest of testdata/kernels is known to have.
const needed = "BACKFEED_TEST_NEEDS"

// TestFeatures holds the table of features to the kernel that runs: what the table says works here has to
// work, and what it says is refused has to be refused, by exit code 6 and the one reason that the table has.
func TestFeatures(t *testing.T) {
	testtool.Live(t, "records")
	var doc report.Checkup
	if err := json.Unmarshal([]byte(must(t, "doctor", "--format", "json")), &doc); err != nil {
		t.Fatal(err)
	}
	host := collect.ThisHost()
	for _, f := range collect.Features {
		t.Run(strings.ReplaceAll(f.Name, " ", "-"), func(t *testing.T) {
			try := liveTries[f]
			if try == nil {
				t.Fatal("there is no test of it")
			}
			refusal := f.Refusal(host)
			if i := slices.IndexFunc(doc.Findings, func(d report.Finding) bool { return d.Group == "sampling" && d.Name == f.Name }); i >= 0 {
				d := doc.Findings[i]
				if d.OK != (refusal == nil) || refusal != nil && d.Detail != refusal.Why {
					t.Errorf("doctor says %+v; the table of features says %v", d, refusal)
				}
			}
			code, errs := try(t)
			switch {
			case code == exitDone && refusal != nil:
				t.Errorf("it works, though the table of features has it that %s", refusal.Why)
			case code == exitDone:
			case code != exitMachine || strings.Count(strings.TrimSpace(errs), "\n") > 0:
				t.Errorf("exit code %d: %s", code, errs)
			case refusal == nil && f.Hardware != "" && strings.Contains(errs, "this machine has no ") && !slices.Contains(strings.Split(os.Getenv(needed), ","), f.Name):
				t.Skip(designed + "needs " + f.Hardware)
			case refusal == nil || !strings.Contains(errs, refusal.Why):
				t.Errorf("exit code %d: %s; the table of features says %v", code, errs, refusal)
			case !t.Failed():
				t.Skip(designed + refusal.Why)
			}
		})
	}
}

// liveTries try each feature by the command line, and hold what was recorded to what the feature is for.
var liveTries = map[*collect.Feature]func(t *testing.T) (code int, errs string){
	collect.OwnProcesses: func(t *testing.T) (int, string) {
		exe := program(t, "busy")
		return recordOfBusy(t, exe, hasImage(exe))
	},
	collect.Ptrace: func(t *testing.T) (int, string) {
		exe := program(t, "busy")
		image := hasImage(exe)
		return recordOfBusy(t, exe, func(c *sample.Counts) bool { return c.Event.Name == "ptrace-clock" && image(c) }, "--event", "ptrace-clock")
	},
	collect.WholeMachine: func(t *testing.T) (int, string) {
		return recordOfMachine(t, hasImage(runBusy(t)), 300*time.Millisecond)
	},
	collect.Tick: func(t *testing.T) (int, string) {
		image := hasImage(runBusy(t))
		return recordOfMachine(t, func(c *sample.Counts) bool { return c.Event.Name == input.TickEvent && image(c) }, 500*time.Millisecond, "--tick")
	},
	collect.Callers: func(t *testing.T) (int, string) {
		runBusy(t)
		return recordOfMachine(t, func(c *sample.Counts) bool {
			return slices.ContainsFunc(c.Stacks, func(s sample.Stack) bool { return len(s.Frames) >= 2 })
		}, 300*time.Millisecond, "--callers")
	},
	collect.OffCPU: func(t *testing.T) (int, string) {
		path := filepath.Join(t.TempDir(), "r.bfr")
		code, _, errs := runCLI(t, "record", "-a", "--off-cpu", "-d", "300ms", "-o", path)
		if code == exitDone {
			rec, err := sample.Decode([]byte(testtool.Read(t, path)))
			if err != nil {
				t.Fatal(err)
			}
			if len(rec.Off) == 0 {
				t.Errorf("nothing was off the processor: %s", errs)
			}
		}
		return code, errs
	},
	collect.KernelSymbols: func(t *testing.T) (int, string) {
		read := exec.Command("dd", "if=/dev/zero", "of=/dev/null", "bs=1M")
		if err := read.Start(); err != nil {
			t.Skipf("no program to keep the kernel busy: %v", err)
		}
		t.Cleanup(func() { read.Process.Kill(); read.Wait() })
		return recordOfMachine(t, hasImage("[kernel]"), 300*time.Millisecond, "--kernel")
	},
	collect.Cgroups: func(t *testing.T) (int, string) {
		const root, cgroup2 = "/sys/fs/cgroup", 0x63677270 // CGROUP2_SUPER_MAGIC
		var fs syscall.Statfs_t
		if err := syscall.Statfs(root, &fs); err != nil || fs.Type != cgroup2 {
			t.Skipf("%s is not of cgroups v2: %v", root, err)
		}
		return recordOfMachine(t, hasImage(runBusy(t)), 300*time.Millisecond, "--cgroup", root)
	},
	collect.Walks: tryLiveWalks,
	collect.Probes: func(t *testing.T) (int, string) {
		if collect.Probes.Refusal(collect.ThisHost()) == nil {
			probeLive(t)
			return exitDone, ""
		}
		exe := program(t, "busy")
		code, _, errs := runCLI(t, "record", "--calibrate", "--dry-run", "--", exe, "busy", "60") // otherwise walks alone would do
		return code, errs
	},
	collect.LongWalks: func(t *testing.T) (int, string) {
		exe, expected := program(t, "busy"), collect.LongWalks.Refusal(collect.ThisHost()) == nil
		var code int
		var errs string
		tries := [][]string{{exe, "busy", "600"}, {exe, "busy", "6000"}} // the code has to be read first, on the same processor
		rate := "997"
		switch {
		case !expected:
			tries = [][]string{{exe, "busy", "60"}}
		case testtool.Prebuilt() != "": // there, 6000 takes a minute, and to read Go's runtime some ten seconds; what is small and ends sooner comes first
			small := program(t, "branches")
			tries = [][]string{{"-d", "5s", "--", small, "60"}, {"-d", "15s", "--", small, "60"}, tries[1]}
			if os.Geteuid() != 0 {
				rate = "19" // the stops of long walks are the samples, and take 12 to 30 ms each on an emulated processor
			}
		}
		for _, command := range tries {
			code, _, errs = runCLI(t, append([]string{"record", "--calibrate=100%", "-F", rate, "-o", filepath.Join(t.TempDir(), "r.bfr")}, command...)...)
			if code != exitDone || !expected || longWalked.MatchString(errs) {
				break
			}
		}
		switch {
		case code != exitDone || !expected || longWalked.MatchString(errs):
		case strings.Contains(errs, "the time was too short") || strings.Contains(errs, "long walks ended before the recording"):
			t.Skipf("needs a faster machine, on which the program's own time has room for them: %s", errs) // tests of collect walk without a budget
		default:
			t.Errorf("no long walks: %s", errs)
		}
		// Where there are none, what the kernel does takes their part, for who may use that.
		if u := collect.TryLongWalks(); u != nil && (code == exitDone || code == exitMachine) {
			return exitMachine, u.Why
		}
		return code, errs
	},
	collect.HardwareCounters: func(t *testing.T) (int, string) {
		exe := program(t, "busy")
		return recordOf(t, hasImage(exe), "--event", "cycles", "--period", "1000003", "--", exe, "busy", "60")
	},
	collect.BranchRecords: func(t *testing.T) (int, string) {
		runBusy(t)
		return recordOfMachine(t, func(c *sample.Counts) bool { return len(c.Branches) > 0 }, 300*time.Millisecond, "--event", "branches")
	},
}

// longWalked matches what record says of long walks.
var longWalked = regexp.MustCompile(`[1-9][0-9]* long walks of [0-9]`)

// tryLiveWalks walks on from samples of a busy program. No command walks without probes.
func tryLiveWalks(t *testing.T) (int, string) {
	exe := runBusy(t)
	sys, err := collect.OpenSystem(collect.SystemOptions{Probes: true})
	if err == nil {
		defer sys.Close()
		im := openImage(t, exe)
		id := sample.ImageID{Path: exe}
		insts := im.WalkInsts(proc(t, im, "main.busy"))
		w := collect.NewWalker(sys, collect.WalkOptions{Share: 0.2})
		defer w.Close()
		if err = w.SetImages([]trace.Image{{ID: id, File: exe, Procs: [][]trace.Inst{insts}}}); err == nil {
			for range 100 {
				if w.Totals().Steps > 0 {
					return exitDone, ""
				}
				time.Sleep(100 * time.Millisecond)
			}
			t.Errorf("no walks: %+v", w.Totals())
			return exitDone, ""
		}
	}
	if u := (*collect.Unavailable)(nil); errors.As(err, &u) {
		return exitMachine, err.Error()
	}
	return exitFailed, err.Error()
}

// symbolOf finds a symbol by its name.
func symbolOf(t *testing.T, im *image.Image, name string) int {
	t.Helper()
	i := slices.IndexFunc(im.Symbols(), func(s image.Symbol) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("the program has no %s", name)
	}
	return i
}

// probeLive counts what a busy program does in a window.
func probeLive(t *testing.T) {
	exe := runBusy(t)
	im := openImage(t, exe)
	var sites []probe.Site
	p, err := im.Proc(symbolOf(t, im, "main.busy"))
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range im.ProbeSites(p) {
		for _, s := range of {
			sites = append(sites, probe.Site{Off: s.Off, Cond: s.Cond})
		}
	}
	sys, err := collect.OpenSystem(collect.SystemOptions{Probes: true})
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close()
	prober, err := collect.OpenProber(sys)
	if err != nil {
		t.Fatal(err)
	}
	defer prober.Close()
	var refused error // of places that this kernel steps, as nops before Linux 6.16
	for range 10 {
		for _, site := range sites {
			w, err := prober.Window(exe, []probe.Site{site}, 0, 20*time.Millisecond)
			if err != nil {
				refused = err
			} else if w.Hits[0] > 0 {
				return
			}
		}
	}
	t.Errorf("%d places of a program that runs were not hit (%v)", len(sites), refused)
}

// recordOfMachine is recordOf the whole machine for a while, and for ten times as long where that has not what is wanted.
func recordOfMachine(t *testing.T, want func(c *sample.Counts) bool, while time.Duration, args ...string) (code int, errs string) {
	t.Helper()
	in := func(d time.Duration) []string { return append([]string{"-a", "-d", d.String()}, args...) }
	return recordOrLonger(t, want, in(while), in(10*while))
}

// recordOf runs backfeed record, and holds what it wrote to want.
func recordOf(t *testing.T, want func(c *sample.Counts) bool, args ...string) (code int, errs string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a.bfr")
	code, _, errs = runCLI(t, append([]string{"record", "-o", file}, args...)...)
	if code != exitDone {
		return code, errs
	}
	rec := decode(t, file)
	if !slices.ContainsFunc(rec.Counts, want) {
		var images []string
		for _, c := range rec.Counts {
			for _, ic := range c.Images {
				images = append(images, fmt.Sprintf("%s: %d places", ic.ID.Path, len(ic.At)))
			}
		}
		t.Errorf("the recording has not what was asked for: %d samples; %s\n%s", rec.Samples(), errs, strings.Join(images, "\n"))
	}
	return code, errs
}

// recordOfBusy is recordOf a program that is busy for a moment, and for ten times as long where that has not what is wanted.
func recordOfBusy(t *testing.T, exe string, want func(c *sample.Counts) bool, args ...string) (code int, errs string) {
	t.Helper()
	in := func(rounds string) []string { return slices.Concat(args, []string{"--", exe, "busy", rounds}) }
	return recordOrLonger(t, want, in("60"), in("600"))
}

// recordOrLonger is recordOf by the arguments longer, where a recording by short has not what is wanted: an emulated processor
// has the time that others leave, and by ptrace samples are few on a slow one.
func recordOrLonger(t *testing.T, want func(c *sample.Counts) bool, short, longer []string) (code int, errs string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "short.bfr")
	code, _, errs = runCLI(t, append([]string{"record", "-o", file}, short...)...)
	if code == exitNothing || code == exitDone && !slices.ContainsFunc(decode(t, file).Counts, want) {
		return recordOf(t, want, longer...)
	}
	return code, errs
}

// runBusy has a program be busy for a fifth of the time until the test ends: what samples the machine takes longer to start than
// to sample, and an emulated processor has the time of the others.
func runBusy(t *testing.T) (exe string) {
	t.Helper()
	exe = program(t, "busy")
	cmd := exec.Command(exe, "sometimes", "1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return exe
}

// hasImage reports whether there are samples in the image of that path.
func hasImage(path string) func(c *sample.Counts) bool {
	return func(c *sample.Counts) bool {
		return slices.ContainsFunc(c.Images, func(ic *sample.ImageCounts) bool { return ic.ID.Path == path && len(ic.At) > 0 })
	}
}
