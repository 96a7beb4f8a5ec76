package main

import (
	"context"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/collect"
)

// TestKernelCode samples a machine that makes system calls, in the kernel, too. Its code is an image: nearly all samples are at
// instructions of procedures, whose graphs are whole, and how often it ran is in line with how many calls there were. A
// copy that is kept has the same code.
func TestKernelCode(t *testing.T) {
	testtool.Live(t, "records the kernel")
	if u := collect.KernelSymbols.Refusal(collect.ThisHost()); u != nil {
		t.Skip(designed + u.Why)
	}
	// One recording in ten may have a count that is further off than is said; three in a row do not.
	const draws = 3
	for i := range draws {
		n, call, off := kernelCode(t)
		if call >= n/off && call <= n*off {
			break
		}
		// Of emulated processors no model has the time for each instruction, and their timers strike where they can.
		if testtool.Prebuilt() != "" {
			break
		}
		t.Logf("%.3g is not within a factor of %g of %.3g", call, off, n)
		if i == draws-1 {
			t.Errorf("nor is it in any of %d recordings", draws)
		}
	}
}

// kernelCode records and checks all of TestKernelCode but how many calls of getppid there were, n, of those that are inferred within
// a factor, call. Without a sample of it, they are the same.
func kernelCode(t *testing.T) (n, call, off float64) {
	t.Helper()
	dir := t.TempDir()
	file, copies := filepath.Join(dir, "k.bfr"), filepath.Join(dir, "copies")
	var calls, end atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for end.Load() == 0 {
			for range 100 {
				syscall.Getppid()
			}
			calls.Add(100)
			runtime.Gosched() // signals that preempt find this loop in the system call, where Go does not stop: its collector would wait
		}
	}()
	lasts := "2s"
	if testtool.Prebuilt() != "" { // an emulated processor takes a microsecond and more into the kernel and back
		lasts = "1s"
	}
	must(t, "record", "-a", "--kernel", "-F", "999", "-d", lasts, "-o", file, "--copy-to", copies)
	end.Store(1)
	<-done

	// Whatever else ran on the machine, compilers and browsers, takes longer to infer than the kernel, and is asked for nothing.
	alone := kernelAlone(t, file)
	if testtool.Prebuilt() == "" {
		file = kernelAlone(t, file, self(t))
	} else { // to infer what made the calls takes an emulated processor long, and only tells how many there were
		file = alone
	}
	s, err := input.Read(context.Background(), []string{file}, input.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	checkKernelPlaces(t, s)
	if err := s.Infer(context.Background()); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(s.Profile.Images, func(ip *infer.ImageProfile) bool { return ip.ID.Path == "[kernel]" })
	if i < 0 {
		t.Fatal("the kernel is not among the images of the profile")
	}
	if err := s.Profile.Check(); err != nil {
		t.Error(err)
	}
	ip := s.Profile.Images[i]
	var getppid *infer.Result
	for _, f := range ip.Procs {
		if slices.ContainsFunc(append([]string{f.Proc.Name}, f.Proc.Aliases...), func(name string) bool {
			return name == "__x64_sys_getppid" || name == "__arm64_sys_getppid"
		}) {
			getppid = f
		}
	}
	n = float64(calls.Load())
	call, off = n, 1
	if getppid == nil || getppid.Samples == 0 { // where a timer's interrupts come when the kernel lets them, few are in so little code
		t.Logf("%.3g calls of getppid, without a sample", n)
	} else {
		off, call = s.Profile.EntryFactor(getppid), getppid.Entries.N
		t.Logf("%.3g calls of getppid, %.3g inferred, within a factor of %g, of %d samples", n, call, off, getppid.Samples)
	}

	// The copy is the same code, wherever it is read.
	elsewhere, err := input.New(input.Options{Symfs: []string{copies}})
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	kept, err := elsewhere.Open(ip.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(kept.Path, copies) {
		t.Errorf("%s is no copy below %s", kept.Path, copies)
	}
	if len(kept.Symbols()) != len(ip.Image.Symbols()) {
		t.Errorf("the copy has %d symbols, the kernel %d", len(kept.Symbols()), len(ip.Image.Symbols()))
	}
	if testtool.Prebuilt() != "" {
		return n, call, off // what follows infers again, twice, which takes an emulated processor long
	}
	name := "__x64_sys_getppid"
	if ip.Image.Lookup(name) < 0 {
		name = "__arm64_sys_getppid"
	}
	if out := must(t, "list", name, alone, "--symfs", copies); !strings.Contains(out, "sys_getppid of [kernel]") || strings.Count(out, "\n") < 10 {
		t.Errorf("list:\n%s", out)
	}
	rows := itemsOf[report.ProfRow](t, "backfeed.prof/2", must(t, "prof", alone, "--format", "json"))
	if !slices.ContainsFunc(rows, func(r report.ProfRow) bool { return r.Image == "[kernel]" && r.Executions != nil && *r.Executions > 0 }) {
		t.Errorf("prof has no executions of the kernel: %+v", rows)
	}
	return n, call, off
}

// kernelAlone writes what a recording has of the kernel and its modules, and of other images by path: to infer all else that ran on
// the machine takes longer.
func kernelAlone(t *testing.T, file string, others ...string) string {
	t.Helper()
	rec := &sample.Recording{}
	for _, of := range decode(t, file).Counts {
		c := sample.NewCounts(of.CPU, of.Event)
		c.Weight, c.Clocked, c.Cycles = of.Weight, of.Clocked, of.Cycles
		for _, ic := range of.Images {
			if !ic.ID.OfKernel() && !slices.Contains(others, ic.ID.Path) {
				continue
			}
			i := c.Image(ic.ID)
			for off, n := range ic.At {
				c.AddSample(i, off, n)
			}
		}
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		rec.Add(c)
	}
	return testtool.Write(t, t.TempDir(), "kernel.bfr", rec.Encode())
}

// checkKernelPlaces holds the samples of a kernel and its modules to where the code of their images has instructions.
func checkKernelPlaces(t *testing.T, s *input.Session) {
	t.Helper()
	var all, inProc, atInst, whole uint64
	procs, complete := map[string]bool{}, 0
	for _, c := range s.Recording.Counts {
		for _, ic := range c.Images {
			if !ic.ID.OfKernel() {
				continue
			}
			im, err := s.Open(ic.ID)
			if err != nil {
				t.Fatalf("%v: %v", ic.ID, err)
			}
			for off, n := range ic.At {
				all += n
				p, b := placeOf(t, im, off)
				if p == nil {
					continue
				}
				inProc += n
				a, _ := im.AddrOf(off)
				if b >= 0 && slices.ContainsFunc(im.Insts(&p.Blocks[b]), func(in image.Inst) bool { return in.Addr == a }) {
					atInst += n
				} else {
					t.Logf("%d samples at %#x, in no instruction of %s", n, uint64(a), p.Name)
				}
				if p.Complete {
					whole += n
				}
				if key := ic.ID.Path + p.Name; !procs[key] {
					if procs[key] = true; p.Complete {
						complete++
					} else {
						t.Logf("%s is incomplete: %s", p.Name, p.Why)
					}
				}
			}
		}
	}
	t.Logf("%d samples of the kernel: %d in procedures, %d at instructions, %d in complete ones; of %d procedures, %d are complete", all, inProc, atInst, whole, len(procs), complete)
	if all < 100 {
		t.Skipf("needs a machine that runs the kernel for longer: %d samples of it", all)
	}
	if float64(inProc) < 0.99*float64(all) || float64(atInst) < 0.98*float64(all) || float64(whole) < 0.9*float64(all) {
		t.Errorf("of %d samples of the kernel, %d are in procedures, %d at instructions, %d in procedures whose graph is whole", all, inProc, atInst, whole)
	}
}

// placeOf returns the procedure, and the index of its block, that a sample is in; nil and -1 are none.
func placeOf(t *testing.T, im *image.Image, off sample.Offset) (*image.Proc, int) {
	t.Helper()
	a, ok := im.AddrOf(off)
	i := im.Find(a)
	if !ok || i < 0 {
		return nil, -1
	}
	p, err := im.Proc(i)
	if err != nil {
		t.Fatal(err)
	}
	return p, p.BlockAt(a)
}
