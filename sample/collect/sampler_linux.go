//go:build amd64 || arm64

package collect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	kernelbtf "github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"backfeed/sample"
)

// A sampler is the kernel's side of a System: programs that count samples by place in one of two
// maps, the events that run them, and the ring of what has no fixed size. A take has the
// programs use the other map, waits until none is at work on the first any more, and takes out
// what it holds.
//
// It is one type of many short methods: nearly all of them use the programs and the events, so that parts would have
// the same fields. Those that load and attach are in samplerload_linux.go; its rate is set through paced.
type sampler struct {
	opt   SystemOptions
	cpu   sample.CPU
	mhz   int    // clock, for the periods of events that go by it; 0 is unknown
	epoch uint64 // ns since 1970 when CLOCK_MONOTONIC began; 0 is unknown, or that when samples were taken is not asked for
	kinds []perfEvent

	withFaults bool // page faults are sampled beside

	bpf     samplerObjects
	types   *kernelbtf.Cache // of the kernel: to look them up takes 12 ms
	without []*Unavailable
	links   []link.Link     // of the programs that follow processes, and of the tick's
	calls   *ringbuf.Reader // of traces; nil if there are none
	unwind  *unwinder       // nil if stacks are not unwound

	// Changed by System.tend alone, under System.mu.
	cpus   []int // that are sampled
	events cpuEvents
	pace   *pace       // nil without a timer
	faults faultEvents // none if page faults are not sampled beside

	// Of takes, under System.mu.
	active  uint32
	weights [2][maxEvents]uint64
	stored  [][maxEvents]uint64 // by processor
	failed  uint64              // of which a take has told
	drained uint64
	entries int // places that one map has room for
	used    int // the most of them used at a take
	batch   batch
	user    []uint64 // samples by processor, as of the last take
	clock   clockMeter
}

// tickEvent is the name of the event of SystemOptions.Tick. Its samples are never
// added to those of a timer, being blind to what keeps step with the tick.
const tickEvent = "tick"

// The layouts of bpf/sampler.c. Fields are exported for the sake of package ebpf,
// which then need not look at each.
const maxEvents = 4

// faultEvent is in the event of page faults, each of which stands for as many as there were since the one before.
const faultEvent = maxEvents

// inKernel is in the event of a sample in the kernel whose process is known.
const inKernel = 1 << 31

type sampledPC struct {
	IP, Born   uint64
	PID, Event uint32
	Comm       [16]byte // name of the thread; "": not asked for
	Slice      uint64   // of time, each sample.LeastSlice long; 0 is unknown
}

// thread returns the name of the thread.
func (s *sampledPC) thread() string {
	name, _, _ := bytes.Cut(s.Comm[:], []byte{0})
	return string(name)
}

// sliceIn returns the slice of c that is that of s.
func (s *sampledPC) sliceIn(c *sample.Counts) uint64 {
	return c.SliceAt(s.Slice * uint64(sample.LeastSlice))
}

type call struct {
	sampledPC
	frame uint64
	top   [2]uint64
}

// maxBranches is how many branch records follow a call in the ring at most.
const maxBranches = 32

type processorCounters struct {
	All, User, Kernel, Idle, Filtered, Probed, Failed, Bare uint64

	Weight [2][maxEvents]uint64 // by buffer and event
	Stored [maxEvents]uint64    // samples, by event
}

// countedPC are samples at one place.
type countedPC struct {
	sampledPC
	n uint64
}

// pending are samples that wait for a mapping.
type pending struct {
	call
	n        uint64
	kernel   bool           // it is in the kernel
	caller   bool           // frame and top are known
	branches []branchRecord // newest first
	unwound  bool           // pcs are known
	pcs      []uint64       // return addresses, innermost first
}

// stack adds a stack, and when it was seen if that is known.
func (p *pending) stack(c *sample.Counts, frames []sample.Frame, top sample.Frame) {
	if p.Slice > 0 {
		c.AddStackAt(frames, top, p.sliceIn(c), p.n)
	} else {
		c.AddStackTop(frames, top, p.n)
	}
}

// batch are the buffers of a drain.
type batch struct {
	keys    []sampledPC
	counts  []uint64
	samples []pending
	faults  []countedPC
}

// settle is how long a program may still be at work on a map that is no longer
// in use. It takes 1 us, and up to 2 ms if the processor is a virtual one.
const settle = 2 * time.Millisecond

// tickPeriod is the time between two ticks: the resolution of the clocks that
// the tick moves on.
func tickPeriod() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// follow attaches the programs that follow execs, forks and ends.
func (s *sampler) follow() error {
	programs := []*ebpf.Program{s.bpf.Executed, s.bpf.Exited}
	if len(s.opt.PIDs) > 0 {
		programs = append(programs, s.bpf.Forked)
	}
	for _, p := range programs {
		if err := s.attach(p); err != nil {
			return err
		}
	}
	return nil
}

func (s *sampler) attach(p *ebpf.Program) error {
	l, err := link.AttachTracing(link.TracingOptions{Program: p})
	if err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	s.links = append(s.links, l)
	return nil
}

// start switches the samplers on.
func (s *sampler) start() (err error) {
	if s.traceSize() > 0 {
		if s.calls, err = ringbuf.NewReader(s.bpf.Calls); err != nil {
			return err
		}
	}
	if s.opt.Tick {
		for _, cpu := range s.cpus {
			s.setWorth(cpu, 0, uint64(tickPeriod()))
		}
		return s.attach(s.bpf.Tick)
	}
	s.events = newCPUEvents(s.kinds, s.attr, s.bpf.Sample0, s.bpf.Sample1, s.bpf.Sample2, s.bpf.Sample3)
	for _, cpu := range s.cpus {
		if err := s.events.open(cpu); err != nil {
			return err
		}
	}
	s.pace = newPace(s, s.units(), s.opt.Frequency)
	if s.withFaults {
		s.faults.begin(s.bpf.Faulted, s.cpus)
	}
	return s.events.enable(0)
}

// add samples one more processor, and reports whether it could.
func (s *sampler) add(cpu int) bool {
	s.cpus = append(s.cpus, cpu)
	if s.opt.Tick {
		s.setWorth(cpu, 0, uint64(tickPeriod()))
		return true
	}
	if s.events.open(cpu) != nil || s.faults.open(cpu) != nil {
		return false
	}
	s.pace.add()
	last := len(s.cpus) - 1
	return s.events.enable(last) == nil && s.faults.enable(last) == nil
}

// drop lets go the processor of index i.
func (s *sampler) drop(i int) {
	s.cpus = slices.Delete(s.cpus, i, i+1)
	s.events.drop(i)
	s.faults.drop(i)
	if s.pace != nil {
		s.pace.drop(i)
	}
}

// processors returns those that are sampled.
func (s *sampler) processors() []int { return s.cpus }

// rate is what there is of a rate that is asked for.
func (s *sampler) rate(hz int) int {
	if !s.opt.Tick && s.kinds[0].unit == "ns" {
		return TimerRate(hz)
	}
	return hz
}

// units returns how many units of each event pass in a second.
func (s *sampler) units() []float64 {
	units := make([]float64, len(s.kinds))
	for e := range s.kinds {
		units[e] = float64(s.kinds[e].period(1, s.mhz))
	}
	return units
}

// setPeriod changes the period of an event on the processor of index i, and says what a sample of
// it stands for from now on.
func (s *sampler) setPeriod(i, event int, period, worth uint64) {
	if w := &s.kinds[event]; w.stepped(period) {
		period, worth = w.asked(period), w.stands(period)
	}
	s.events.setPeriod(i, event, period)
	s.setWorth(s.cpus[i], event, worth)
}

// setWorth says what a sample stands for from now on, in units of its event. The
// map has room for all processors, so that nothing can go wrong.
func (s *sampler) setWorth(cpu, event int, n uint64) {
	s.bpf.Worths.Put(uint32(cpu*maxEvents+event), n)
}

// stop switches the programs off.
func (s *sampler) stop() error {
	err := errors.Join(s.events.disable(), s.faults.disable())
	for _, l := range s.links {
		err = errors.Join(err, l.Close())
	}
	s.links = nil
	return err
}

// count fills in what the kernel's side knows.
func (s *sampler) count(c *Counters) {
	c.Drained, c.MapEntries, c.MapUsed = s.drained, s.entries, s.used
	if sum, err := s.processorCounters(); err == nil {
		c.All, c.User, c.Kernel, c.Idle = sum.All, sum.User, sum.Kernel, sum.Idle
		c.Filtered, c.Probed, c.Failed, c.Bare = sum.Filtered, sum.Probed, sum.Failed, sum.Bare
	}
	for _, p := range []*ebpf.Program{s.bpf.Sample0, s.bpf.Sample1, s.bpf.Sample2, s.bpf.Sample3, s.bpf.Faulted, s.bpf.Tick, s.bpf.Executed, s.bpf.Exited, s.bpf.Forked} {
		if p == nil {
			continue
		}
		if st, err := p.Stats(); err == nil {
			c.BPF += st.Runtime
		}
	}
	c.Processors = len(s.cpus)
	c.Events = s.events.times()
	s.unwind.count(c)
	for _, m := range []*ebpf.Map{s.bpf.Counts0, s.bpf.Counts1, s.bpf.Stats, s.bpf.Traces, s.bpf.Worths, s.bpf.Execs, s.bpf.Pids, s.bpf.Cgroups, s.bpf.Calls, s.bpf.Spaces, s.bpf.Wants, s.bpf.Tables, s.bpf.Unwindings} {
		if info, err := m.Info(); err == nil {
			n, _ := info.Memlock()
			c.MapBytes += n
		}
	}
}

// perCPU reads the counters of each processor.
func (s *sampler) perCPU() ([]processorCounters, error) {
	var out []processorCounters
	err := s.bpf.Stats.Lookup(uint32(0), &out)
	return out, err
}

func (s *sampler) processorCounters() (sum processorCounters, err error) {
	all, err := s.perCPU()
	return sumCounters(all), err
}

// busiest returns the processor that most samples came from since it was called last; -1 if none did.
func (s *sampler) busiest(all []processorCounters) int {
	most, busiest := uint64(0), -1
	for cpu, c := range all {
		if cpu == len(s.user) {
			s.user = append(s.user, 0)
		}
		if n := c.User - s.user[cpu]; n > most {
			most, busiest = n, cpu
		}
		s.user[cpu] = c.User
	}
	return busiest
}

func sumCounters(all []processorCounters) (sum processorCounters) {
	for _, c := range all {
		sum.All += c.All
		sum.User += c.User
		sum.Kernel += c.Kernel
		sum.Idle += c.Idle
		sum.Filtered += c.Filtered
		sum.Probed += c.Probed
		sum.Failed += c.Failed
		sum.Bare += c.Bare
		for b := range sum.Weight {
			for e := range sum.Weight[b] {
				sum.Weight[b][e] += c.Weight[b][e]
			}
		}
	}
	return sum
}

// release undoes everything.
func (s *sampler) release() {
	for _, l := range s.links {
		l.Close()
	}
	s.events.close()
	s.faults.close()
	if s.calls != nil {
		s.calls.Close()
	}
	s.unwind.close()
	if s.bpf.Stats != nil {
		s.bpf.Close()
		s.bpf = samplerObjects{}
	}
}

// taken is what was counted between two drains. Its samples and faults are good until the next take.
type taken struct {
	samples []pending
	weights [maxEvents]uint64         // of samples, by event
	stored  [maxEvents]map[int]uint64 // by event and processor, samples; nil: not asked for
	failed  uint64                    // samples that were not stored
	faults  []countedPC               // page faults
}

// emptied returns a buffer to fill again, or none where it has grown far beyond what it was last used for.
func emptied[T any](used []T) []T {
	if cap(used) > 4*len(used)+1024 {
		return nil
	}
	clear(used)
	return used[:0]
}

// take takes out what was counted since the last time.
func (s *sampler) take() (t taken, err error) {
	old := s.active
	s.active ^= 1
	if err := s.bpf.Active.Set(s.active); err != nil {
		return t, err
	}
	time.Sleep(settle)
	m := s.bpf.Counts0
	if old == 1 {
		m = s.bpf.Counts1
	}
	t.samples, t.faults = emptied(s.batch.samples), emptied(s.batch.faults)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookupAndDelete(&cursor, s.batch.keys, s.batch.counts, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return t, fmt.Errorf("counts: %w", err)
		}
		for i, k := range s.batch.keys[:n] {
			kernel := k.PID == 0 || k.Event&inKernel != 0
			k.Event &^= inKernel
			if k.Event == faultEvent {
				t.faults = append(t.faults, countedPC{k, s.batch.counts[i]})
				continue
			}
			t.samples = append(t.samples, pending{call: call{sampledPC: k}, n: s.batch.counts[i], kernel: kernel})
		}
		if err != nil {
			break
		}
	}
	s.used = max(s.used, len(t.samples)+len(t.faults))
	if s.calls != nil {
		if t.samples, err = s.takeCalls(t.samples); err != nil {
			return t, err
		}
	}
	s.batch.samples, s.batch.faults = t.samples, t.faults
	for _, p := range t.samples {
		s.drained += p.n
	}
	all, err := s.perCPU()
	if err != nil {
		return t, err
	}
	if cpu := s.busiest(all); cpu >= 0 && s.clock.due() {
		s.clock.measure(cpu)
		s.clock.returns.measure(s.event(&s.kinds[0]))
	}
	sum := sumCounters(all)
	for e := range t.weights {
		t.weights[e] = sum.Weight[old][e] - s.weights[old][e]
	}
	s.weights[old] = sum.Weight[old]
	if s.opt.Origins {
		t.stored = s.takeStored(all)
	}
	t.failed = sum.Failed - s.failed
	s.failed = sum.Failed
	return t, nil
}

// takeStored returns the samples that each processor has stored since the last take. They are no fewer than those taken out, as they
// are read later: the others come with the next take.
func (s *sampler) takeStored(all []processorCounters) (stored [maxEvents]map[int]uint64) {
	for cpu := range all {
		if cpu == len(s.stored) {
			s.stored = append(s.stored, [maxEvents]uint64{})
		}
		for e, n := range all[cpu].Stored {
			if n -= s.stored[cpu][e]; n > 0 {
				if stored[e] == nil {
					stored[e] = map[int]uint64{}
				}
				stored[e][cpu] = n
			}
		}
		s.stored[cpu] = all[cpu].Stored
	}
	return stored
}

// takeCalls adds the traces in the ring.
func (s *sampler) takeCalls(samples []pending) ([]pending, error) {
	err := readRing(s.calls, "calls", func(b []byte) error {
		decode := decodeTrace
		if s.unwind != nil {
			decode = decodeStack
		}
		p, err := decode(b)
		if err != nil {
			return err
		}
		p.caller = s.opt.Callers != CallersOfNone
		samples = append(samples, p)
		return nil
	})
	return samples, err
}

// readRing passes take the records that are in a ring now, each good until take returns. name is
// for errors.
func readRing(ring *ringbuf.Reader, name string, take func(b []byte) error) error {
	ring.SetDeadline(time.Unix(1, 0)) // do not wait
	var r ringbuf.Record
	for {
		err := ring.ReadInto(&r)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := take(r.RawSample); err != nil {
			return err
		}
	}
}

// decodeTrace reads a call and the branch records behind it.
func decodeTrace(b []byte) (pending, error) {
	const size = int(unsafe.Sizeof(call{}))
	if len(b) < size || (len(b)-size)%branchSize != 0 {
		return pending{}, fmt.Errorf("trace of %d bytes: %w", len(b), errRecord)
	}
	p := pending{call: *(*call)(unsafe.Pointer(&b[0])), n: 1}
	for b = b[size:]; len(b) >= branchSize; b = b[branchSize:] {
		p.branches = append(p.branches, branchRecord{
			binary.NativeEndian.Uint64(b), binary.NativeEndian.Uint64(b[8:]), binary.NativeEndian.Uint64(b[16:]),
		})
	}
	return p, nil
}

// decodeStack reads a call and the return addresses behind it.
func decodeStack(b []byte) (pending, error) {
	const size = int(unsafe.Sizeof(call{}))
	if len(b) < size || (len(b)-size)%8 != 0 || len(b) > size+8*MaxFrames {
		return pending{}, fmt.Errorf("stack of %d bytes: %w", len(b), errRecord)
	}
	p := pending{call: *(*call)(unsafe.Pointer(&b[0])), n: 1, unwound: true, pcs: make([]uint64, (len(b)-size)/8)}
	for i := range p.pcs {
		p.pcs[i] = binary.NativeEndian.Uint64(b[size+8*i:])
	}
	return p, nil
}

func (s *sampler) event(w *perfEvent) sample.Event {
	if s.opt.Tick {
		return w.sampled(uint64(tickPeriod()))
	}
	return w.sampled(0)
}

// newCounts returns the counts of each event, in which there is nothing yet.
func (s *sampler) newCounts() []*sample.Counts {
	counts := make([]*sample.Counts, len(s.kinds))
	for i := range s.kinds {
		counts[i] = sample.NewCounts(s.cpu, s.event(&s.kinds[i]))
	}
	return counts
}

// nanoseconds is how long a unit of the event of time is.
func (s *sampler) nanoseconds() float64 {
	if s.kinds[0].unit == "ns" {
		return 1
	}
	return 1000 / max(float64(s.cpu.MHz), 1000) // cycles
}

// filtered reports whether processes or cgroups are asked for.
func (s *sampler) filtered() (byPID, byCgroup bool) {
	return len(s.opt.PIDs) > 0, len(s.opt.Cgroups) > 0
}

// kernelTypes are for what is loaded beside s; nil without Probes, as nothing is then.
func (s *sampler) kernelTypes() *kernelbtf.Cache { return s.types }

// shared returns the maps that programs which go on from samples use too, by name.
func (s *sampler) shared() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{samplerMapPids: s.bpf.Pids, samplerMapCgroups: s.bpf.Cgroups, samplerMapWindows: s.bpf.Windows,
		samplerMapWorths: s.bpf.Worths, samplerMapExecs: s.bpf.Execs}
}

// setNext has a program run after each sample of the event of time; nil is none.
func (s *sampler) setNext(p *ebpf.Program) error {
	if p == nil {
		return s.bpf.Next.Delete(uint32(0))
	}
	if err := s.bpf.Next.Put(uint32(0), p); err != nil {
		return fmt.Errorf("walks: %w", err)
	}
	return nil
}
