//go:build amd64 || arm64

package collect

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"
	kernelbtf "github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"backfeed/sample"
)

// mapSizes are in entries, but for calls, in bytes.
type mapSizes struct{ counts, calls uint32 }

// sizes makes room for twice the samples that all processors can take between
// two drains: no more places than samples. trace is the size of what each of them
// sends through the ring, in bytes, or 0.
func sizes(opt SystemOptions, cpus, trace int, faults bool) mapSizes {
	events := max(1, len(opt.Events))
	if faults {
		events += faultRate
	}
	samples := 2 * float64(events) * float64(opt.Frequency) * float64(cpus) * max(opt.Drain.Seconds(), 0.1)
	n := uint32(min(max(samples, 4096), 1<<22))
	s := mapSizes{counts: n, calls: uint32(os.Getpagesize())}
	for trace > 0 && s.calls < 1<<28 && uint64(s.calls) < uint64(n)*(8+uint64(trace)) {
		s.calls *= 2
	}
	return s
}

// execsKept is how many processes the sampler remembers the last exec of: those
// that run, and beyond them the latest.
const execsKept = 16384

// filledAsUsed is the flag of a hash map that takes memory for an entry when there is one. Maps without it take all of theirs as they are made, 11 MB
// for one of counts. Before Linux 6.1 the kernel refuses it to programs on perf events (commit 34dd3bad1a6f).
func filledAsUsed() uint32 {
	if r, err := ParseRelease(ThisHost().Release); err != nil || r.Before(Release{6, 1}) {
		return 0
	}
	return unix.BPF_F_NO_PREALLOC
}

// load puts maps and programs into the kernel, for those processors.
func (s *sampler) load(cpu sample.CPU, online []int, tickHandler uint64) error {
	s.cpu, s.cpus = cpu, online
	if s.opt.Origins {
		s.epoch = epoch()
	}
	spec, err := loadSampler()
	if err != nil {
		return err
	}
	if s.kinds, err = s.choose(); err != nil {
		return err
	}
	if s.opt.Frames > 0 {
		s.leaveBranches()
	}
	s.opt.Frequency = s.rate(s.opt.Frequency) // before room is made for that many samples
	for i := range s.kinds {
		s.mhz = max(s.mhz, s.kinds[i].clock(s.cpu))
	}
	s.withFaults = s.watchesFaults()
	size := sizes(s.opt, len(s.cpus), s.traceSize(), s.withFaults)
	spec.Maps[samplerMapCounts0].MaxEntries = size.counts
	spec.Maps[samplerMapCounts1].MaxEntries = size.counts
	spec.Maps[samplerMapCalls].MaxEntries = size.calls
	spec.Maps[samplerMapExecs].MaxEntries = execsKept
	unwindingSizes(spec, s.opt.Frames > 0)
	possible, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	spec.Maps[samplerMapWorths].MaxEntries = uint32(possible) * maxEvents
	if len(s.opt.PIDs) > 0 {
		spec.Maps[samplerMapPids].MaxEntries = execsKept
	}
	spec.Maps[samplerMapCgroups].MaxEntries = uint32(max(1, len(s.opt.Cgroups)))
	asUsed := filledAsUsed()
	for _, name := range []string{samplerMapCounts0, samplerMapCounts1, samplerMapPids} {
		spec.Maps[name].Flags |= asUsed
	}
	s.entries = int(size.counts)
	s.batch = batch{keys: make([]sampledPC, size.counts), counts: make([]uint64, size.counts)}

	if s.opt.Probes { // what is loaded later needs them too
		s.types = kernelbtf.NewCache()
	}
	for {
		err := s.loadPrograms(spec, tickHandler)
		if err == nil {
			if s.opt.Frames > 0 {
				s.unwind = newUnwinder(s.opt.Unwind, s.opt.Frequency, &s.bpf.samplerMaps)
			}
			return s.filter()
		}
		if !s.goWithout(err) {
			return err
		}
	}
}

// leaveBranches leaves out branch records, which do not go with stacks.
func (s *sampler) leaveBranches() {
	left := false
	for i := range s.kinds {
		if w := &s.kinds[i]; w.branches {
			w.name, w.branches, left = cycles, false, true
		}
	}
	if left {
		s.without = append(s.without, &Unavailable{Why: "branch records are left out where stacks are unwound", Fix: "Leave out --callers to have them"})
	}
}

// goWithout leaves out the part of what the sampler does that most kernels may refuse, if there is one left.
func (s *sampler) goWithout(err error) bool {
	u := (*Unavailable)(nil)
	if !errors.As(err, &u) || u.err == nil {
		return false
	}
	part := (*Feature)(nil)
	for i := range s.kinds {
		if w := &s.kinds[i]; w.branches {
			w.name, w.branches, part = cycles, false, BranchRecords
		}
	}
	if part == nil && s.opt.Frames > 0 {
		s.opt.Frames, part = 0, unwinding
	}
	if part == nil && s.opt.Callers != CallersOfNone {
		s.opt.Callers, part = CallersOfNone, Callers
	}
	if part == nil {
		return false
	}
	s.without = append(s.without, part.refused(u.err))
	return true
}

// The programs for perf events and for ticks. Those of the other one are not loaded: the kernel may refuse them.
type (
	followers struct {
		Executed *ebpf.Program `ebpf:"executed"`
		Exited   *ebpf.Program `ebpf:"exited"`
		Forked   *ebpf.Program `ebpf:"forked"`
	}
	onEvents struct {
		samplerMaps
		samplerVariables
		followers
		Sample0 *ebpf.Program `ebpf:"sample0"`
		Sample1 *ebpf.Program `ebpf:"sample1"`
		Sample2 *ebpf.Program `ebpf:"sample2"`
		Sample3 *ebpf.Program `ebpf:"sample3"`
		Faulted *ebpf.Program `ebpf:"faulted"`
	}
	oneEvent struct {
		samplerMaps
		samplerVariables
		followers
		Sample0 *ebpf.Program `ebpf:"sample0"`
		Faulted *ebpf.Program `ebpf:"faulted"`
	}
	onTick struct {
		samplerMaps
		samplerVariables
		followers
		Tick *ebpf.Program `ebpf:"tick"`
	}

	// Those that unwind stacks.
	unwoundEvents struct {
		samplerMaps
		samplerVariables
		followers
		Sample0 *ebpf.Program `ebpf:"unwound0"`
		Sample1 *ebpf.Program `ebpf:"unwound1"`
		Sample2 *ebpf.Program `ebpf:"unwound2"`
		Sample3 *ebpf.Program `ebpf:"unwound3"`
		Faulted *ebpf.Program `ebpf:"faulted"`
	}
	unwoundTick struct {
		samplerMaps
		samplerVariables
		followers
		Tick *ebpf.Program `ebpf:"unwoundtick"`
	}
)

// unwinding is a part of Callers.
var unwinding = &Feature{Name: "unwinding", Phrase: "unwinding of stacks", Linux: Release{5, 10}, Arch: bothArch, Config: btf, Rights: BPFRights}

// loadPrograms loads what the options and events ask for.
func (s *sampler) loadPrograms(spec *ebpf.CollectionSpec, tickHandler uint64) error {
	var branches uint8
	for e, w := range s.kinds {
		branches |= flag(w.branches) << e
	}
	for name, value := range map[string]any{
		samplerVarWithCalls:    flag(s.opt.Callers != CallersOfNone),
		samplerVarWithBranches: branches,
		samplerVarWithKernel:   flag(s.opt.Kernel && !s.opt.Tick),
		samplerVarWithOrigins:  flag(s.opt.Origins),
		samplerVarEpoch:        s.epoch,
		samplerVarWithProbes:   flag(s.opt.Probes),
		samplerVarByPid:        flag(len(s.opt.PIDs) > 0),
		samplerVarByCgroup:     flag(len(s.opt.Cgroups) > 0),
		samplerVarTickHandler:  tickHandler,
		samplerVarWithFrames:   uint32(s.opt.Frames),
		samplerVarAddressBits:  addressBits(),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	follow := func(f followers) samplerPrograms {
		return samplerPrograms{Executed: f.Executed, Exited: f.Exited, Forked: f.Forked}
	}
	of := func(f *Feature) *Feature {
		if len(s.opt.Cgroups) > 0 && f.Linux.Before(Cgroups.Linux) {
			return Cgroups
		}
		return f
	}
	if s.opt.Frames > 0 && s.opt.Tick {
		var o unwoundTick
		if err := loadInto(&o, spec, nil, s.types, of(Tick)); err != nil {
			return err
		}
		s.bpf = samplerObjects{follow(o.followers), o.samplerMaps, o.samplerVariables}
		s.bpf.Tick = o.Tick
		return nil
	}
	if s.opt.Frames > 0 {
		var o unwoundEvents
		if err := loadInto(&o, spec, nil, s.types, of(WholeMachine)); err != nil {
			return err
		}
		s.bpf = samplerObjects{follow(o.followers), o.samplerMaps, o.samplerVariables}
		s.bpf.Sample0, s.bpf.Sample1, s.bpf.Sample2, s.bpf.Sample3, s.bpf.Faulted = o.Sample0, o.Sample1, o.Sample2, o.Sample3, o.Faulted
		return nil
	}
	if s.opt.Tick {
		var o onTick
		if err := loadInto(&o, spec, nil, s.types, of(Tick)); err != nil {
			return err
		}
		s.bpf = samplerObjects{follow(o.followers), o.samplerMaps, o.samplerVariables}
		s.bpf.Tick = o.Tick
		return nil
	}
	if len(s.kinds) == 1 {
		var o oneEvent
		if err := loadInto(&o, spec, nil, s.types, of(WholeMachine)); err != nil {
			return err
		}
		s.bpf = samplerObjects{follow(o.followers), o.samplerMaps, o.samplerVariables}
		s.bpf.Sample0, s.bpf.Faulted = o.Sample0, o.Faulted
		return nil
	}
	var o onEvents
	if err := loadInto(&o, spec, nil, s.types, of(WholeMachine)); err != nil {
		return err
	}
	s.bpf = samplerObjects{follow(o.followers), o.samplerMaps, o.samplerVariables}
	s.bpf.Sample0, s.bpf.Sample1, s.bpf.Sample2, s.bpf.Sample3, s.bpf.Faulted = o.Sample0, o.Sample1, o.Sample2, o.Sample3, o.Faulted
	return nil
}

// loadInto loads what spec describes, which is for f, where maps of that name are shared with others
// that are loaded already. Types are the kernel's, as far as they were looked up; nil is not at all.
func loadInto(objects any, spec *ebpf.CollectionSpec, shared map[string]*ebpf.Map, types *kernelbtf.Cache, f *Feature) error {
	for as, m := range shared {
		spec.Maps[as].MaxEntries, spec.Maps[as].Flags = m.MaxEntries(), m.Flags()
	}
	restore, err := liftMemlock()
	if err != nil {
		return err
	}
	defer restore()
	if err := spec.LoadAndAssign(objects, &ebpf.CollectionOptions{MapReplacements: shared, Cache: types}); err != nil {
		return f.refused(err)
	}
	return nil
}

// refused is the refusal of f by a kernel that does not take its maps or programs.
func (f *Feature) refused(err error) *Unavailable {
	h := ThisHost()
	u := f.tooOld(h)
	switch v := (*ebpf.VerifierError)(nil); {
	case errors.As(err, &v):
		if u == nil {
			u = &Unavailable{Why: fmt.Sprintf("the kernel's verifier refuses the program for %s, on Linux %s: %v", f.phrase(), h.Release, err),
				Fix: "See what it says with " + VerifierVar + "=1, and report it"}
		}
		u.Log = fmt.Sprintf("%+v", v)
	case u != nil:
	case errors.Is(err, unix.EPERM):
		u = &Unavailable{Why: fmt.Sprintf("the kernel does not permit what is loaded for %s: %v", f.phrase(), err), Fix: needPrivileges}
	default:
		u = &Unavailable{Why: fmt.Sprintf("Linux %s does not take what is loaded for %s: %v", h.Release, f.phrase(), err)}
	}
	u.err = err
	return u
}

// liftMemlock lets this process lock all memory it wants until restore. Before Linux 5.11 that of maps and
// programs counts as locked. The limit is lifted for a moment only, since programs that are recorded inherit it.
func liftMemlock() (restore func(), err error) {
	if r, err := ParseRelease(ThisHost().Release); err != nil || !r.Before(Release{5, 11}) {
		return func() {}, nil
	}
	var old unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, &old); err != nil {
		return nil, &Unavailable{Why: "before Linux 5.11 what BPF programs keep counts against the limit of locked memory, which this process may not lift",
			Fix: "Run `ulimit -l unlimited` as root before, or give this program CAP_SYS_RESOURCE"}
	}
	return func() { unix.Prlimit(0, unix.RLIMIT_MEMLOCK, &old, nil) }, nil
}

func flag(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// choose finds the events that were asked for, or the best that this machine has.
func (s *sampler) choose() ([]perfEvent, error) {
	if s.opt.Tick {
		return []perfEvent{{name: tickEvent, event: tickEvent, unit: "ns"}}, nil
	}
	if len(s.opt.Events) > maxEvents {
		return nil, fmt.Errorf("%d events: want at most %d", len(s.opt.Events), maxEvents)
	}
	var kinds []perfEvent
	for _, name := range s.opt.Events {
		rungs := eventsFor(name)
		if rungs == nil {
			return nil, fmt.Errorf("%q: %w on all of a machine: want branches, instructions, cycles or cpu-clock", name, ErrEvent)
		}
		w, tried := climb(rungs, func(w *perfEvent) error { return try(s.attr(w), -1, s.cpus[0]) })
		if w == nil {
			return nil, unavailableEvent(name, tried[len(tried)-1].Err)
		}
		kinds = append(kinds, *w)
	}
	if len(kinds) > 0 {
		return kinds, nil
	}
	w, _, err := bestEvent(s.attr, -1, s.cpus[0])
	if err != nil {
		return nil, err
	}
	return []perfEvent{*w}, nil
}

// traceSize is the size of what goes through the ring for each sample, in bytes; 0
// if nothing does.
func (s *sampler) traceSize() int {
	size := 0
	if s.opt.Callers != CallersOfNone {
		size = int(unsafe.Sizeof(call{}))
	}
	if s.opt.Frames > 0 {
		size += 8 * min(s.opt.Frames, usualFrames)
	} else if slices.ContainsFunc(s.kinds, func(w perfEvent) bool { return w.branches }) {
		size = int(unsafe.Sizeof(call{}) + maxBranches*branchSize)
	}
	return size
}

// unavailableEvent is the error where an event does not open.
func unavailableEvent(name string, err error) error {
	if errno := errnoOf(err); errno == unix.ENOENT || errno == unix.EOPNOTSUPP || errno == unix.ENODEV {
		return &Unavailable{Why: "this machine has no event " + name, Fix: "Leave the choice of the event to this program"}
	}
	why, fix := explain(errnoOf(err), host())
	return &Unavailable{Why: name + ": " + why, Fix: fix}
}

func (s *sampler) attr(w *perfEvent) *unix.PerfEventAttr {
	return w.attr(unix.PerfEventAttr{
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample:      w.period(s.opt.Frequency, s.mhz),
		Sample_type: unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_PERIOD,
		Bits:        unix.PerfBitDisabled | unix.PerfBitExcludeHv,
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
	})
}

// filter says which processes and cgroups are asked for.
func (s *sampler) filter() error {
	for _, pid := range s.opt.PIDs {
		if err := s.bpf.Pids.Put(uint32(pid), uint8(1)); err != nil {
			return fmt.Errorf("process %d: %w", pid, err)
		}
	}
	for _, path := range s.opt.Cgroups {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			return fmt.Errorf("cgroup %s: %w", path, err)
		}
		if err := s.bpf.Cgroups.Put(st.Ino, uint8(1)); err != nil { // its ID (kernfs)
			return fmt.Errorf("cgroup %s: %w", path, err)
		}
	}
	return nil
}
