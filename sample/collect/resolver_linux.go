//go:build amd64 || arm64

package collect

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"backfeed/sample"
	"backfeed/sample/kernel"
	"backfeed/sample/probe"
)

// A resolver puts samples down to images: it knows what all processes have mapped, and when, and
// where the kernel's own code is. Mappings come from the kernel's records, read after the
// counts: whatever was sampled was mapped before.
type resolver struct {
	records    *processLog
	vdso       vdso
	files      fileIDs
	jits       jitMaps
	moduleList string // file
	callersOf  CallersOf
	origins    bool           // samples have one
	unwind     *unwinder      // is told of new mappings; nil is nobody
	frames     []sample.Frame // of addStack, kept for its memory

	kernel      kernel.Map
	symbols     kernel.Symbols
	modules     []byte // what the list of them last said
	modulesRead time.Time
	procs       processes
	dying       map[int]bool // processes whose first thread has ended
	pending     []pending    // samples that had no mapping yet
	moments     []countedPC  // of windows, whose numbers are in Event
	waited      int          // of moments, those that a drain left for the next one
	faults      []countedPC  // page faults that a drain left for the next one
	carried     [maxEvents]uint64
	stored      [maxEvents]map[int]uint64 // by event and processor: samples stored whose processors no counts have yet
	lost        uint64                    // records that the kernel dropped
	unresolved  map[sample.Loss]uint64
	told        sample.OriginBound
}

func newResolver() *resolver {
	r := &resolver{dying: map[int]bool{}, moduleList: kernel.ModuleList, unresolved: map[sample.Loss]uint64{}}
	r.records = &processLog{identify: r.identify, made: r.jits.made}
	return r
}

// readModulesEvery is the time between two readings of the list of modules. A new
// module may lie where an old one was.
const readModulesEvery = 10 * time.Second

// begin takes in the kernel that runs.
func (r *resolver) begin(symbols kernel.Symbols) {
	r.symbols = symbols
	r.refresh(time.Now())
	r.vdso = readVDSO()
}

// count fills in what a resolver knows.
func (r *resolver) count(c *Counters) {
	c.LostRecords, c.Unresolved = r.lost, maps.Clone(r.unresolved)
}

// catchUp takes in what became of processes since the last time.
func (r *resolver) catchUp() (err error) {
	r.procs.next()
	if r.lost, err = r.records.drain(r.apply); err != nil {
		return err
	}
	r.bury()
	return nil
}

// apply takes in what has become of processes.
func (r *resolver) apply(c *change) {
	switch c.typ {
	case typeFork:
		if c.pid != c.parent {
			r.procs.fork(c.pid, c.parent, c.time, c.cgroup)
		}
	case typeComm:
		if c.exec {
			r.procs.exec(c.pid, c.time, c.name)
		} else {
			r.procs.at(c.pid, c.time).name = c.name
		}
	case typeMmap2:
		r.procs.mapped(c.pid, c.time, c.m)
		r.unwind.remapped(c.pid)
	case typeExit:
		r.dying[c.pid] = true
	}
}

// bury forgets processes that have ended. One whose first thread has ended may
// still have others.
func (r *resolver) bury() {
	for pid := range r.dying {
		if unix.Kill(pid, 0) == unix.ESRCH {
			r.procs.gone(pid)
			delete(r.dying, pid)
		}
	}
}

// resolve adds samples to counts, by event.
func (r *resolver) resolve(counts []*sample.Counts, t taken) (*sample.Recording, error) {
	r.refresh(time.Now())
	var before, waiting [maxEvents]uint64 // samples
	for i := range r.pending {
		before[r.pending[i].Event] += r.pending[i].n
		r.place(counts, &r.pending[i], true, r.unresolved)
	}
	// What waited now is placed or lost; what had its weight is carried with it.
	var next []pending
	var fresh [maxEvents]uint64
	for i := range t.samples {
		p := &t.samples[i]
		if int(p.Event) >= len(counts) {
			return nil, fmt.Errorf("event %d: %w", p.Event, errRecord)
		}
		fresh[p.Event] += p.n
		if !r.place(counts, p, false, r.unresolved) {
			waiting[p.Event] += p.n
			next = append(next, *p)
		}
	}
	r.pending = next
	r.placeFaults(counts[0], t.faults)
	counts[0].Lose(sample.LostDropped, t.failed)
	r.procs.spaces.TellProcesses(counts...)
	out := &sample.Recording{}
	for e, c := range counts {
		later := uint64(0)
		if waiting[e] > 0 {
			later = uint64(float64(t.weights[e]) * float64(waiting[e]) / float64(fresh[e]))
		}
		c.Weight, r.carried[e] = weigh(c.Delivered(), r.carried[e]+t.weights[e], later)
		r.processors(c, e, t.stored[e])
		if c.Total > 0 {
			out.Add(c)
		}
	}
	return out, nil
}

// placeFaults adds page faults to the counts of the timer that they are beside. Those in code whose mapping is not known yet wait for the next time.
func (r *resolver) placeFaults(c *sample.Counts, fresh []countedPC) {
	waited, i := len(r.faults), 0
	all := sample.NewCounts(c.CPU, sample.Event{})
	r.faults = slices.DeleteFunc(append(r.faults, fresh...), func(p countedPC) bool {
		i++
		return r.placeMoment(all, &p) != sample.LostUnmapped || i <= waited
	})
	addFaults(c, all, float64(all.Delivered()))
}

// processors adds on which processors the samples of an event were taken. It is known of all that were stored, of which
// some are not taken out yet, or wait for their mappings: what is more than the samples of c is of later ones.
func (r *resolver) processors(c *sample.Counts, event int, stored map[int]uint64) {
	if r.stored[event] == nil {
		r.stored[event] = map[int]uint64{}
	}
	waiting := r.stored[event]
	sum := uint64(0)
	for cpu, n := range stored {
		waiting[cpu] += n
	}
	for _, n := range waiting {
		sum += n
	}
	most := c.Total - c.Lost[sample.LostDropped] // which no processor has stored
	for cpu, n := range waiting {
		if sum > most {
			n = uint64(float64(n) * (float64(most) / float64(sum)))
		}
		c.AddProcessor(cpu, n)
		if waiting[cpu] -= n; waiting[cpu] == 0 {
			delete(waiting, cpu)
		}
	}
}

// placeMoments attributes samples of windows. It leaves those of windows with samples in code whose mapping is not known yet for
// the next time.
func (r *resolver) placeMoments() (all []probe.Moments) {
	at := map[uint32]int{}
	late := map[uint32]bool{}
	for i, p := range r.moments {
		w, ok := at[p.Event]
		if !ok {
			w = len(all)
			at[p.Event] = w
			all = append(all, probe.Moments{Number: p.Event, Counts: sample.NewCounts(sample.CPU{}, sample.Event{})})
		}
		switch why := r.placeMoment(all[w].Counts, &p); {
		case why == sample.LostUnmapped && i >= r.waited:
			late[p.Event] = true
		case why != "":
			all[w].Counts.Lose(why, p.n)
		}
	}
	r.moments = slices.DeleteFunc(r.moments, func(p countedPC) bool { return !late[p.Event] })
	r.waited = len(r.moments)
	return slices.DeleteFunc(all, func(m probe.Moments) bool { return late[m.Number] })
}

// placeMoment adds samples to those of their window, or returns why they are in no image.
func (r *resolver) placeMoment(c *sample.Counts, p *countedPC) sample.Loss {
	if p.IP == 0 {
		return sample.LostKernel
	}
	v := r.procs.born(int(p.PID), p.Born)
	if v == nil {
		return sample.LostUnmapped
	}
	f, why := r.frame(c, v, int(p.PID), p.IP)
	if why == "" {
		c.AddSample(f.Image, f.Off, p.n)
	}
	return why
}

// weigh divides the weight that is there between what was delivered and what comes later, of which so much is known
// to be. A sample may be read a moment before its weight, which then comes later, too: its counts weigh the least that is
// a weight, since 0 would say of all that they are added to that it is not known.
func weigh(delivered, all, later uint64) (now, carried uint64) {
	switch {
	case delivered == 0:
		return 0, all
	case all <= later:
		return 1, all
	}
	return all - later, later
}

// place adds a sample to the counts of its event, and those that have no place to unresolved, too. It returns false for one
// whose mapping is not known, unless this is its last chance.
func (r *resolver) place(counts []*sample.Counts, p *pending, last bool, unresolved map[sample.Loss]uint64) bool {
	c := counts[p.Event]
	lose := func(why sample.Loss) bool {
		if why == sample.LostUnmapped && !last {
			return false
		}
		c.Lose(why, p.n)
		if p.Slice > 0 {
			c.LoseAt(p.sliceIn(c), why, p.n)
		}
		unresolved[why] += p.n
		return true
	}
	// AddSample, where no stack follows.
	bare := func(f sample.Frame) {
		c.AddSample(f.Image, f.Off, p.n)
		if p.Slice > 0 {
			c.AddMoment(f.Image, f.Off, p.sliceIn(c), p.n)
		}
	}
	if p.kernel {
		if p.PID != 0 {
			v := r.procs.born(int(p.PID), p.Born)
			if v == nil && !last {
				return false
			}
			if v != nil {
				r.tell(c, v, p)
			}
		}
		id, off, ok := r.kernel.Find(p.IP)
		if !ok {
			return lose(sample.LostKernel)
		}
		bare(sample.Frame{Image: c.Image(id), Off: off})
		return true
	}
	v := r.procs.born(int(p.PID), p.Born)
	if v == nil {
		return lose(sample.LostUnmapped)
	}
	f, why := r.frame(c, v, int(p.PID), p.IP)
	if why == sample.LostUnmapped && !last {
		return false
	}
	if r.origins {
		r.tell(c, v, p)
	}
	if why != "" {
		return lose(why)
	}
	if p.unwound {
		c.AddSample(f.Image, f.Off, p.n)
		r.addStack(c, v, f, p)
		return true
	}
	if p.caller && (r.callersOf == CallersOfAll || r.files.isGo(c.Images[f.Image].ID)) {
		frames := []sample.Frame{f}
		if caller, why := r.frame(c, v, int(p.PID), p.frame); why == "" {
			frames = append(frames, caller)
		}
		c.AddSample(f.Image, f.Off, p.n)
		p.stack(c, frames, r.topOf(c, v, p))
	} else {
		bare(f)
	}
	addBranches(c, p.branches, func(pc uint64) sample.Frame {
		f, _ := r.frame(c, v, int(p.PID), pc)
		return f
	})
	return true
}

// tell adds which thread of a version ran.
func (r *resolver) tell(c *sample.Counts, v *version, p *pending) {
	o := r.origin(v, int(p.PID))
	o.Thread = p.thread()
	c.AddOrigin(r.told.Of(o), p.n)
}

// addStack adds a stack that was unwound to c. What is of no image at its outer end tells nothing.
func (r *resolver) addStack(c *sample.Counts, v *version, f sample.Frame, p *pending) {
	r.frames = append(r.frames[:0], f)
	for _, pc := range p.pcs {
		caller, _ := r.frame(c, v, int(p.PID), pc)
		r.frames = append(r.frames, caller)
	}
	for len(r.frames) > 1 && r.frames[len(r.frames)-1].Image == sample.Unknown {
		r.frames = r.frames[:len(r.frames)-1]
	}
	p.stack(c, r.frames, r.topOf(c, v, p))
}

// topOf returns the place of the first word at the stack pointer that names code.
func (r *resolver) topOf(c *sample.Counts, v *version, p *pending) sample.Frame {
	for _, word := range p.top {
		if f, _ := r.frame(c, v, int(p.PID), word); f.Image != sample.Unknown {
			return f
		}
	}
	return sample.Frame{Image: sample.Unknown}
}

// frame returns the place of a pc in a version of a process.
func (r *resolver) frame(c *sample.Counts, v *version, pid int, pc uint64) (sample.Frame, sample.Loss) {
	id, off, why := r.procs.spaces.Find(v.id, pc)
	if why == sample.LostAnonymous {
		if v.jit == nil && v.looked != r.procs.round {
			v.jit, v.looked = r.jits.find(pid, v.time), r.procs.round
		}
		if v.jit != nil {
			id, off, why = *v.jit, sample.Offset(pc), ""
		}
	}
	if why != "" {
		return sample.Frame{Image: sample.Unknown}, why
	}
	return sample.Frame{Image: c.Image(id), Off: off}, ""
}

// origin says which process a version is. Its control group is looked up when it is first sampled; what has ended since
// is in that of what it was forked from, or was before.
func (r *resolver) origin(v *version, pid int) sample.Origin {
	if !v.placed {
		v.placed = true
		if path := cgroupOfProcess(pid); path != "" {
			v.cgroup = path
		}
	}
	return sample.Origin{Process: v.name, Cgroup: v.cgroup}
}

// cgroupOfProcess returns that of a process; "" if it has ended.
func cgroupOfProcess(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return cgroupOf(string(text))
}

// cgroupOf returns the path of the control group that /proc/PID/cgroup tells (cgroups(7)): that of version 2, or where
// controllers are of version 1 that of systemd's own hierarchy, or any that is not the root.
func cgroupOf(text string) (path string) {
	best := 0
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // ID, controllers, path
		if len(f) < 3 || f[2] == "" {
			continue
		}
		rank := 1
		switch {
		case f[2] == "/":
		case f[0] == "0":
			rank = 4
		case f[1] == "name=systemd":
			rank = 3
		default:
			rank = 2
		}
		if rank > best {
			best, path = rank, f[2]
		}
	}
	return path
}

// snapshot takes in what processes have mapped already: those that are asked for, or all. What the former start is told later.
func (r *resolver) snapshot() error {
	pids := r.procs.asked
	if len(pids) == 0 {
		entries, err := os.ReadDir("/proc")
		if err != nil {
			return err
		}
		for _, e := range entries {
			if pid, err := strconv.Atoi(e.Name()); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	gathered := time.Now()
	for _, pid := range pids {
		if time.Since(gathered) >= tendEvery { // 10,000 processes take seconds, and nobody else reads the rings yet
			r.records.gather()
			gathered = time.Now()
		}
		f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
		if err != nil {
			continue // it has ended, or is out of reach: its samples will be called unmapped
		}
		maps, err := parseMaps(f, pid)
		f.Close()
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
		now := monotonic()
		v := r.procs.add(pid, now, false)
		if r.origins {
			v.name, _ = threadName(pid, pid)
			r.origin(v, pid)
		}
		for i := range maps {
			r.procs.mapped(pid, math.MaxUint64, r.identify(&maps[i]))
		}
	}
	return nil
}

// identify returns a mapping and its image.
func (r *resolver) identify(m *mmapRecord) sample.Mapping {
	if r.vdso.is(m) {
		mapping := m.mapping()
		mapping.Loss, mapping.Off, mapping.Image = "", 0, r.vdso.id
		return mapping
	}
	return m.identified(r.files.identify)
}

// refresh reads the list of the kernel's modules, if that was long ago. What the
// kernel hides is left out.
func (r *resolver) refresh(now time.Time) {
	if now.Sub(r.modulesRead) < readModulesEvery {
		return
	}
	r.modulesRead = now
	list, err := os.ReadFile(r.moduleList)
	if !r.kernel.Empty() && (err != nil || bytes.Equal(list, r.modules)) {
		return
	}
	modules, _ := kernel.ParseModules(bytes.NewReader(list))
	r.modules, r.kernel = list, kernel.NewMap(r.symbols, modules, kernel.BuildID)
}

func monotonic() uint64 {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return 0
	}
	return uint64(now.Nano())
}
