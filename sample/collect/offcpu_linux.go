//go:build amd64 || arm64

package collect

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	kernelbtf "github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"

	"backfeed/sample"
)

// An offCPU is the kernel's side of time off the processor (bpf/offcpu.c): programs at each switch of threads, which add
// that time up by place and reason, and stacks of a part of it. How much there is of each place is exact; how that divides among
// the stacks of a place is known of those that were unwound, which are all unless threads switch very often.
type offCPU struct {
	bpf     offcpuObjects
	links   []link.Link
	ring    *ringbuf.Reader
	begun   uint64
	epoch   uint64      // as of the sampler
	origins bool        // names of threads are kept
	cost    *switchCost // set by start

	detached uint64 // when they were, by CLOCK_MONOTONIC; 0: they are attached. Under System.switches
	settled  bool

	// Of takes, under System.mu.
	active  uint32
	batch   batchOf[offTotal]
	waiting []offStack // whose totals are not taken yet
	former  offShares  // of the take before
	rest    offTaken   // what goes on when all ends
	pending []pending  // samples that had no mapping yet
	failed  uint64     // ns of which a take has told
}

// Reasons: indices in sample.OffReasons, and the event of a key in bpf/offcpu.c.
const (
	_ = iota // interruptible
	_        // uninterruptible
	_        // stopped
	offRunnable
	offUnknown
	offReasons // how many there are
)

// The layouts of bpf/offcpu.c.
type (
	offOutcome struct{ Waited, Queued, Counts uint64 }
	offWait    struct {
		Left, Last, Gap, Woken uint64
		Key                    sampledPC
		N, Shift               uint32
	}
	offTotal    struct{ NS, Times, Squares uint64 }
	offSwitches struct{ Times, Failed, FailedNS, Unknown, Bare, Unwound, Began, InIt, Bar uint64 }
)

const (
	offSquared = 15                                                       // as SQUARED
	offNoStack = 1<<32 - 1                                                // as NO_STACK
	offHeader  = int(unsafe.Sizeof(offOutcome{}) + unsafe.Sizeof(call{})) // of a stack in the ring
)

// An offStack is what became of a thread, and its stack.
type offStack struct {
	offOutcome
	call
	pcs  []uint64
	late bool // it was taken before
}

// offTaken is what a take takes out.
type offTaken struct {
	totals map[sampledPC]offTotal
	stacks []offStack
	failed uint64 // ns
}

// An offShare is what a stack stands for of the time of a key.
type offShare struct {
	stack *offStack
	ns    float64
}

type offShares map[sampledPC][]offShare

// A batchOf is the buffers of a drain.
type batchOf[V any] struct {
	keys   []sampledPC
	values []V
}

const (
	// offUnwinds is how many stacks of a processor are unwound in a second, about: at 5 us each, half a percent of it.
	offUnwinds   = 1000
	offInterval  = 1 << 27  // ns, as INTERVAL
	offThreads   = 1 << 15  // that are known at a time
	offSleepers  = 1 << 12  // threads whose stack is known while they are off: 4.6 MB
	offPlaces    = 1 << 16  // that a take has room for, each for every reason, name of a thread and slice of time: 16 MB
	kernelStack  = 16 << 10 // of a thread, before Linux 5.15; with larger pages it is one of them
	taskPtRegs   = 15       // minor of the first 5.x that has bpf_task_pt_regs
	offRingBytes = 320      // of a stack, as is usual
)

// openOffCPU begins to see switches of what s samples.
func openOffCPU(s *sampler) (*offCPU, error) {
	spec, err := loadOffcpu()
	if err != nil {
		return nil, err
	}
	release, err := ParseRelease(ThisHost().Release)
	if err != nil {
		return nil, err
	}
	byPID, byCgroup := s.filtered()
	for name, v := range map[string]any{
		offcpuVarByPid:       flag(byPID),
		offcpuVarByCgroup:    flag(byCgroup),
		offcpuVarWithHelper:  flag(!release.Before(Release{5, taskPtRegs})),
		offcpuVarWithState:   flag(switchTellsState()),
		offcpuVarWithFrames:  uint32(s.opt.Frames),
		offcpuVarAddressBits: addressBits(),
		offcpuVarStackSize:   uint32(max(kernelStack, os.Getpagesize())),
		offcpuVarUnwinds:     uint32(offUnwinds * offInterval / uint64(time.Second)),
		offcpuVarWithOrigins: flag(s.opt.Origins),
		offcpuVarEpoch:       s.epoch,
	} {
		if err := spec.Variables[name].Set(v); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	ring := uint32(os.Getpagesize())
	for want := float64(offUnwinds*offRingBytes*len(s.cpus)) * s.opt.Drain.Seconds(); ring < 1<<26 && float64(ring) < want; {
		ring *= 2
	}
	for name, n := range map[string]uint32{
		offcpuMapWaits: offThreads, offcpuMapStacks: offSleepers, offcpuMapTotals0: offPlaces, offcpuMapTotals1: offPlaces, offcpuMapWaited: ring,
	} {
		spec.Maps[name].MaxEntries = n
	}
	shared := map[string]*ebpf.Map{offcpuMapPids: s.bpf.Pids, offcpuMapCgroups: s.bpf.Cgroups, offcpuMapWindows: s.bpf.Windows,
		offcpuMapWorths: s.bpf.Worths, offcpuMapExecs: s.bpf.Execs, offcpuMapSpaces: s.bpf.Spaces, offcpuMapWants: s.bpf.Wants, offcpuMapTables: s.bpf.Tables}
	o := &offCPU{epoch: s.epoch, origins: s.opt.Origins, batch: batchOf[offTotal]{make([]sampledPC, offPlaces), make([]offTotal, offPlaces)}}
	of := OffCPU
	if byCgroup {
		of = Cgroups
	}
	if err := loadInto(&o.bpf, spec, shared, s.types, of); err != nil {
		return nil, err
	}
	if o.ring, err = ringbuf.NewReader(o.bpf.Waited); err != nil {
		o.release()
		return nil, err
	}
	return o, nil
}

// switchTellsState reports whether the kernel tells programs on sched_switch the state of the thread that leaves, as from Linux 5.18 on.
func switchTellsState() bool {
	spec, err := kernelbtf.LoadKernelSpec()
	if err != nil {
		return false
	}
	var typ *kernelbtf.Typedef
	if spec.TypeByName("btf_trace_sched_switch", &typ) != nil {
		return false
	}
	ptr, ok := typ.Type.(*kernelbtf.Pointer)
	if !ok {
		return false
	}
	proto, ok := ptr.Target.(*kernelbtf.FuncProto)
	return ok && len(proto.Params) == 5 // the first is the program's own
}

// start attaches the programs.
func (o *offCPU) start() error {
	o.cost = &switchCost{enable: ebpf.EnableStats, proc: os.DirFS("/proc"), ran: o.ran}
	o.cost.begin(time.Now())
	for _, p := range []*ebpf.Program{o.bpf.OffForked, o.bpf.OffWoken, o.bpf.OffSwitched} {
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		o.links = append(o.links, l)
	}
	o.begun = monotonic()
	return o.bpf.Begun.Set(o.begun)
}

// detach detaches them, the first time that it is called. From then on no switch is seen.
func (o *offCPU) detach() (err error) {
	if o == nil || o.detached > 0 {
		return nil
	}
	o.detached = monotonic() // what is off the processor is so until now, however long it takes to detach
	for _, l := range o.links {
		err = errors.Join(err, l.Close())
	}
	o.links = nil
	o.cost.end(time.Now())
	return err
}

// settle takes in what threads are at, once detach has been called, and reports whether it is the first to do so.
func (o *offCPU) settle() bool {
	if o == nil || o.settled {
		return false
	}
	o.settled = true
	now := o.detached
	last := o.sliceAt(now) // to which waits belong that have not ended
	if o.rest.totals == nil {
		o.rest.totals = map[sampledPC]offTotal{}
	}
	var tid uint32
	var w offWait
	for it := o.bpf.Waits.Iterate(); it.Next(&tid, &w); {
		if w.Left == 0 || w.Left >= now {
			continue
		}
		out := offOutcome{Waited: now - w.Left, Counts: 1}
		switch {
		case w.Key.Event == offRunnable:
			out.Waited, out.Queued = 0, out.Waited
		case w.Woken > w.Left && w.Woken < now:
			out.Waited, out.Queued = w.Woken-w.Left, now-w.Woken
		}
		w.Key.Slice = last
		o.rest.add(w.Key, out.Waited)
		queued := w.Key
		queued.Event = offRunnable
		o.rest.add(queued, out.Queued)
		if w.Shift == offNoStack {
			continue
		}
		if b, err := o.bpf.Stacks.LookupBytes(tid); err == nil && len(b) > offHeader {
			if k, err := decodeOff(b[:min(len(b), offHeader+8*int(w.N))]); err == nil {
				k.offOutcome, k.Slice = out, last
				k.Counts = 1 << (w.Shift & 31)
				o.rest.stacks = append(o.rest.stacks, k)
			}
		}
	}
	return true
}

// sliceAt is slice_at of bpf/unwind.h.
func (o *offCPU) sliceAt(ns uint64) uint64 {
	if o.epoch == 0 {
		return 0
	}
	return (ns + o.epoch) / uint64(sample.LeastSlice)
}

// add adds time that a thread was off.
func (t *offTaken) add(key sampledPC, ns uint64) {
	if ns == 0 {
		return
	}
	a := t.totals[key]
	units := ns >> offSquared
	t.totals[key] = offTotal{a.NS + ns, a.Times + 1, a.Squares + units*units}
}

// asleep adds the threads of processes that were off all the time, which no switch told of.
func (o *offCPU) asleep(pids []int) {
	now := o.detached
	for _, pid := range pids {
		tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		for _, task := range tasks {
			tid, err := strconv.Atoi(task.Name())
			var w offWait
			if err != nil || o.bpf.Waits.Lookup(uint32(tid), &w) == nil {
				continue
			}
			if ip, ok := sleepsAt(pid, tid); ok {
				key := sampledPC{IP: ip, PID: uint32(pid), Event: offUnknown, Slice: o.sliceAt(now)}
				if o.origins {
					name, _ := threadName(pid, tid)
					copy(key.Comm[:], name)
				}
				o.rest.add(key, now-o.begun)
			}
		}
	}
}

// sleepsAt returns where in user mode a thread left from that is off the processor (proc_pid_syscall(5)); 0 if that is not known.
func sleepsAt(pid, tid int) (ip uint64, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/syscall", pid, tid))
	if err != nil {
		return 0, false
	}
	f := bytes.Fields(text)
	if len(f) < 3 {
		return 0, false // "running"
	}
	ip, err = strconv.ParseUint(string(f[len(f)-1]), 0, 64)
	return ip, err == nil
}

// flip has the programs use the other totals.
func (o *offCPU) flip() error {
	if o == nil {
		return nil
	}
	o.cost.turn(time.Now())
	o.active ^= 1
	return o.bpf.ActiveTotals.Set(o.active)
}

// take takes out what was counted until flip, which was a while ago.
func (o *offCPU) take() (t offTaken, err error) {
	t, o.rest = o.rest, offTaken{}
	if t.totals == nil {
		t.totals = map[sampledPC]offTotal{}
	}
	m := o.bpf.Totals0
	if o.active == 0 {
		m = o.bpf.Totals1
	}
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookupAndDelete(&cursor, o.batch.keys, o.batch.values, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return t, fmt.Errorf("totals: %w", err)
		}
		for i, k := range o.batch.keys[:n] {
			a, b := t.totals[k], o.batch.values[i]
			t.totals[k] = offTotal{a.NS + b.NS, a.Times + b.Times, a.Squares + b.Squares}
		}
		if err != nil {
			break
		}
	}
	t.stacks = append(t.stacks, o.waiting...)
	o.waiting = nil
	err = readRing(o.ring, "waited", func(b []byte) error {
		k, err := decodeOff(b)
		t.stacks = append(t.stacks, k)
		return err
	})
	if err != nil {
		return t, err
	}
	sum, err := o.switches()
	if err != nil {
		return t, err
	}
	t.failed = sum.FailedNS - o.failed
	o.failed = sum.FailedNS
	return t, nil
}

// decodeOff reads a stack of the ring.
func decodeOff(b []byte) (k offStack, err error) {
	if len(b) < offHeader || (len(b)-offHeader)%8 != 0 || len(b) > offHeader+8*(MaxFrames+1) {
		return k, fmt.Errorf("stack of %d bytes: %w", len(b), errRecord)
	}
	k.offOutcome = *(*offOutcome)(unsafe.Pointer(&b[0]))
	k.call = *(*call)(unsafe.Pointer(&b[unsafe.Sizeof(k.offOutcome)]))
	for b = b[offHeader:]; len(b) > 0; b = b[8:] {
		k.pcs = append(k.pcs, binary.NativeEndian.Uint64(b))
	}
	return k, nil
}

// switches adds up what the processors counted.
func (o *offCPU) switches() (sum offSwitches, err error) {
	var all []offSwitches
	if err := o.bpf.Switches.Lookup(uint32(0), &all); err != nil {
		return sum, err
	}
	for _, s := range all {
		sum.Times += s.Times
		sum.Failed += s.Failed
		sum.FailedNS += s.FailedNS
		sum.Unknown += s.Unknown
		sum.Bare += s.Bare
		sum.Unwound += s.Unwound
	}
	return sum, nil
}

// ran is how long the programs have run while they were timed, and what it took to time that.
func (o *offCPU) ran() (d time.Duration) {
	for _, p := range []*ebpf.Program{o.bpf.OffForked, o.bpf.OffWoken, o.bpf.OffSwitched} {
		if st, err := p.Stats(); err == nil {
			d += st.Runtime + time.Duration(st.RunCount)*timedRun
		}
	}
	return d
}

// count fills in what is known of switches.
func (o *offCPU) count(c *Counters) {
	if o == nil {
		return
	}
	if sum, err := o.switches(); err == nil {
		c.Off = OffCounters{Times: sum.Times, Stacks: sum.Unwound - min(sum.Bare, sum.Unwound), Failed: sum.Failed + sum.Unknown, Bare: sum.Bare}
	}
	for _, p := range []*ebpf.Program{o.bpf.OffForked, o.bpf.OffWoken, o.bpf.OffSwitched} {
		if st, err := p.Stats(); err == nil {
			c.BPF += st.Runtime
		}
	}
	c.Off.Took, c.Off.Untimed = o.cost.total(), o.cost.untimed
	for _, m := range []*ebpf.Map{o.bpf.Waits, o.bpf.Stacks, o.bpf.Totals0, o.bpf.Totals1, o.bpf.Waited, o.bpf.Switches, o.bpf.Unwindings} {
		if info, err := m.Info(); err == nil {
			n, _ := info.Memlock()
			c.MapBytes += n
		}
	}
}

func (o *offCPU) release() {
	if o == nil {
		return
	}
	for _, l := range o.links {
		l.Close()
	}
	if o.cost != nil {
		o.cost.end(time.Now())
	}
	if o.ring != nil {
		o.ring.Close()
	}
	o.bpf.Close()
}

// samples divides what was taken among places and stacks: a place has what was counted of it, and its stacks have that in
// proportion to what they stand for. Where a place was left several times, a stack of what is counted in the other buffer may have been
// taken for one of this: of a total without stacks, those of the take before tell. A sample is a microsecond.
func (o *offCPU) samples(t offTaken) (all []pending, squares [offReasons]float64) {
	stacks := offShares{}
	for i := range t.stacks {
		k := &t.stacks[i]
		queued := k.sampledPC
		queued.Event = offRunnable
		late, waits := *k, false
		late.late = true
		for _, part := range []struct {
			of sampledPC
			ns *uint64
		}{{k.sampledPC, &late.Waited}, {queued, &late.Queued}} {
			if *part.ns == 0 {
				continue
			}
			if _, ok := t.totals[part.of]; !ok {
				waits = true // its total is in the other buffer
				continue
			}
			stacks[part.of] = append(stacks[part.of], offShare{k, float64(*part.ns) * float64(k.Counts)})
			*part.ns = 0
		}
		if waits && !k.late {
			o.waiting = append(o.waiting, late)
		}
	}
	for key, total := range t.totals {
		n := (total.NS + sample.OffPeriod/2) / sample.OffPeriod
		unit := float64(uint64(1)<<offSquared) / sample.OffPeriod
		us := float64(total.NS) / sample.OffPeriod
		squares[key.Event] += max(float64(total.Squares)*unit*unit, us*us/float64(max(1, total.Times)))
		shares := stacks[key]
		if len(shares) == 0 {
			shares = o.former[key]
		}
		var sum float64
		for _, s := range shares {
			sum += s.ns
		}
		var so float64 // far
		given := uint64(0)
		for _, s := range shares {
			so += s.ns
			k := min(uint64(float64(n)*(so/sum)+0.5), n)
			if k > given {
				c := s.stack.call
				c.Event = key.Event
				all = append(all, pending{call: c, n: k - given, unwound: true, pcs: s.stack.pcs})
				given = k
			}
		}
		if n > given {
			all = append(all, pending{call: call{sampledPC: key}, n: n - given, kernel: key.IP == 0})
		}
	}
	o.former = stacks
	slices.SortFunc(all, func(a, b pending) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Born, b.Born), cmp.Compare(a.IP, b.IP), cmp.Compare(a.Event, b.Event),
			bytes.Compare(a.Comm[:], b.Comm[:]), cmp.Compare(a.Slice, b.Slice))
	})
	return all, squares
}

// resolve attributes what was taken to images.
func (o *offCPU) resolve(r *resolver, cpu sample.CPU, t offTaken) ([]*sample.Counts, error) {
	lost := map[sample.Loss]uint64{} // which counts have, too
	counts := make([]*sample.Counts, offReasons)
	for i, why := range sample.OffReasons {
		counts[i] = sample.NewCounts(cpu, sample.OffEvent(why))
	}
	for i := range o.pending {
		r.place(counts, &o.pending[i], true, lost)
	}
	o.pending = nil
	all, squares := o.samples(t)
	for i := range all {
		p := &all[i]
		if int(p.Event) >= len(counts) {
			return nil, fmt.Errorf("reason %d: %w", p.Event, errRecord)
		}
		if !r.place(counts, p, false, lost) {
			o.pending = append(o.pending, *p)
		}
	}
	counts[offUnknown].Lose(sample.LostDropped, t.failed/sample.OffPeriod)
	var out []*sample.Counts
	for i, c := range counts {
		if c.Total > 0 {
			c.Weight = c.Delivered() * sample.OffPeriod
			c.AddWaits(c.Total, squares[i])
			out = append(out, c)
		}
	}
	return out, nil
}
