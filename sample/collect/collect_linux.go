package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"backfeed/sample"
)

const (
	// drainEvery is how often the rings are read, if none is half full before.
	drainEvery = 100 * time.Millisecond
	// killAfter is how long a command that was told to end may take.
	killAfter = 10 * time.Second
)

// Record samples a command or running processes until they end, the time is up
// or ctx is done. A command that still runs then is told to end by SIGTERM.
//
// Recording and Stats are valid with an error that comes from the command; all
// other errors come without them.
func Record(ctx context.Context, opt Options) (*sample.Recording, *Stats, error) {
	if opt.Frequency == 0 {
		opt.Frequency = DefaultFrequency
	}
	if (len(opt.Command) == 0) == (len(opt.PIDs) == 0) {
		return nil, nil, errors.New("want either a command or processes to record")
	}
	if opt.Frequency < 0 || opt.Frequency > maxFrequency {
		return nil, nil, fmt.Errorf("%d Hz: want 1 to %d", opt.Frequency, maxFrequency)
	}
	if slices.Equal(opt.Events, []string{ptraceClock}) {
		return recordTraced(ctx, opt, []Attempt{{Name: ptraceClock}}, nil)
	}
	perf, tried, err := eventsOf(opt)
	if tried, why := tracingInstead(opt, tried, err); why != nil {
		if tried[len(tried)-1].Err != nil {
			return nil, nil, &Unavailable{Tried: tried, Why: why.Why, Fix: why.Fix + goFix(firstOf(opt.PIDs))}
		}
		return recordTraced(ctx, opt, tried, why)
	}
	if err != nil {
		return nil, nil, err
	}
	s, err := newSession(perf, tried, opt)
	if err != nil {
		return nil, nil, err
	}
	defer s.close()
	if err := s.attach(); err != nil {
		return nil, nil, err
	}
	opt.own.attached()
	defer s.jits.close()
	if err := s.collect(ctx); err != nil {
		return nil, nil, err
	}
	return s.tally.recording(), s.tally.stats, nil
}

func firstOf(pids []int) int {
	if len(pids) == 0 {
		return 0
	}
	return pids[0]
}

// eventsOf returns the events to sample that opt asks for, or the best there is.
func eventsOf(opt Options) (events []*perfEvent, tried []Attempt, err error) {
	if len(opt.Events) == 0 {
		w, tried, err := bestOwnEvent()
		events = append(events, w)
		if err == nil && w.unit == "ns" && dearFaults() && try(samplerAttr(&faultsBeside, 1, true), 0, -1) == nil {
			events = append(events, &faultsBeside)
		}
		return events, tried, err
	}
	if len(opt.Events) > mostEvents {
		return nil, nil, fmt.Errorf("%d events: want at most %d", len(opt.Events), mostEvents)
	}
	for i, name := range opt.Events {
		if slices.Contains(opt.Events[:i], name) {
			return nil, nil, fmt.Errorf("%w: %q is named twice", ErrEvent, name)
		}
		if name == ptraceClock {
			return nil, nil, fmt.Errorf("%w beside others: ptrace samples alone", ErrEvent)
		}
		w, err := eventNamed(name)
		if err != nil {
			return nil, nil, err
		}
		if err := try(samplerAttr(w, 1_000_000, false), 0, -1); err != nil {
			tried := []Attempt{{Name: w.name, Err: err}}
			why, fix := explain(errnoOf(err), host())
			if e := errnoOf(err); w.typ != unix.PERF_TYPE_SOFTWARE && (e == unix.ENOENT || e == unix.EOPNOTSUPP || e == unix.EINVAL) {
				why, fix = "this machine has no counter for it", "Virtual machines often hide the counters: use one whose host lends them"
			}
			return nil, nil, &Unavailable{Tried: tried, Why: why, Fix: fix}
		}
		events, tried = append(events, w), append(tried, Attempt{Name: w.name})
	}
	return events, tried, nil
}

// maxFrequency is what the shortest period of the kernel's timer event allows,
// 10 us (perf_swevent_start_hrtimer in kernel/events/core.c).
const maxFrequency = 100_000

// A session is a recording under way.
type session struct {
	opt    Options
	events []sampledEvent
	cpus   []int

	sides []int   // events that tell of mappings and tasks
	rings []*ring // of the first sides and samplers of each processor: sides first

	tally tally
	queue queue
	jits  jitMaps
	limit uint64 // time by which all earlier records have been read

	cmd    *exec.Cmd
	used   *used         // by opt.PIDs; nil if there are none
	ran    time.Duration // that all threads were on a processor
	ended  chan error    // gets what cmd.Wait returned
	parked chan struct{} // closed: the thread that started cmd may end
}

// A sampledEvent is an event of a session.
type sampledEvent struct {
	perf   *perfEvent
	event  sample.Event
	counts *sample.Counts
	fds    []int // by thread, then processor
	left   bool  // it could not be opened everywhere, and need not be

	ran time.Duration // of the processors' time, pauses left out
}

func newSession(events []*perfEvent, tried []Attempt, opt Options) (*session, error) {
	cpu, err := thisCPU()
	if err != nil {
		return nil, err
	}
	s := &session{opt: opt, parked: make(chan struct{}), jits: jitMaps{keep: opt.Maps}}
	for _, w := range events {
		mhz := w.clock(cpu)
		ev := w.sampled(w.period(opt.Frequency, mhz))
		switch {
		case w.beside:
			ev.Period = 1
		case len(opt.Events) > 0:
			ev.Period = w.stands(cmp.Or(opt.Period, w.eventPeriod(opt.Frequency, mhz)))
		}
		s.events = append(s.events, sampledEvent{perf: w, event: ev, counts: sample.NewCounts(cpu, ev)})
	}
	if s.cpus, err = cpus(); err != nil {
		return nil, err
	}
	layout := func(w *perfEvent) sampleLayout {
		return sampleLayout{branches: w.branches, top: dumpsTop, link: takesLink, bare: w.beside}
	}
	s.tally = tally{
		counts:   s.events[0].counts,
		stats:    &Stats{Tried: tried, Chosen: len(opt.Events) > 0},
		layout:   layout(events[0]),
		identify: (&fileIDs{opened: opt.Opened}).identify,
		jit:      s.jits.since(monotonic()),
		epoch:    epoch(),
	}
	if len(events) > 1 {
		s.tally.ids = map[uint64]int{}
		for i := range s.events {
			s.tally.events = append(s.tally.events, tallied{s.events[i].counts, layout(events[i])})
		}
	}
	return s, nil
}

// samplers are the descriptors of all events that sample.
func (s *session) samplers() (fds []int) {
	for i := range s.events {
		fds = append(fds, s.events[i].fds...)
	}
	return fds
}

// pausable are those of which samples may be missed: where each event is one, none may. Nor are those that come
// with each step of the kernel's timers, which no pause moves.
func (s *session) pausable() (fds []int) {
	for i := range s.events {
		if ev := &s.events[i]; ev.event.Period > 1 && !ev.perf.stepped(ev.event.Period) {
			fds = append(fds, s.events[i].fds...)
		}
	}
	return fds
}

func thisCPU() (sample.CPU, error) {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return sample.CPU{}, err
	}
	defer f.Close()
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	base := 0
	for _, name := range []string{"base_frequency", "cpuinfo_max_freq"} {
		b, err := os.ReadFile("/sys/devices/system/cpu/cpu0/cpufreq/" + name)
		if err != nil {
			continue
		}
		if base, err = strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
			break
		}
	}
	return parseCPU(f, arch, base)
}

// attach opens events for what is to be recorded, and starts them.
func (s *session) attach() error {
	if len(s.opt.Command) > 0 {
		return s.start()
	}
	seen := map[int]bool{}
	for _, pid := range s.opt.PIDs {
		if err := s.attachProcess(pid, seen); err != nil {
			return err
		}
	}
	// From here on, mappings are told; what was mapped before is read now. What
	// changes meanwhile is in both, with the same result.
	if err := ioctlAll(s.sides, unix.PERF_EVENT_IOC_ENABLE); err != nil {
		return err
	}
	for _, pid := range s.opt.PIDs {
		if err := s.snapshot(pid); err != nil {
			return err
		}
	}
	s.used = newUsed(s.opt.PIDs, ranOf)
	return ioctlAll(s.samplers(), unix.PERF_EVENT_IOC_ENABLE)
}

// threadsOf lists the threads of a process.
func threadsOf(pid int) ([]int, error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no process %d", pid)
	}
	var tids []int
	for _, t := range tasks {
		if tid, err := strconv.Atoi(t.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids, err
}

// attachProcess opens events for all threads of a process. Threads made from
// now on inherit them; those made by a thread not reached yet show in the next
// listing.
func (s *session) attachProcess(pid int, seen map[int]bool) error {
	for again := true; again; {
		again = false
		tids, err := threadsOf(pid)
		if err != nil {
			return err
		}
		for _, tid := range tids {
			if seen[tid] {
				continue
			}
			seen[tid], again = true, true
			err = s.openThread(tid, 0)
			switch errnoOf(err) {
			case 0:
			case unix.ESRCH: // it has ended meanwhile
			case unix.EPERM, unix.EACCES:
				return outOfReach(pid, err)
			default:
				return fmt.Errorf("process %d: %w", pid, err)
			}
		}
	}
	return nil
}

// outOfReach is the error where this user may not look into a process.
func outOfReach(pid int, err error) error {
	own, _ := os.ReadFile("/proc/self/status")
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	more, fix := reach(string(status), string(own), os.Geteuid() == 0)
	return &Unavailable{Why: fmt.Sprintf("process %d is out of reach%s: %v", pid, more, err), Fix: fix}
}

// reach says why a process of that /proc/PID/status may be out of reach of this one, as far as that is seen, and what helps.
func reach(status, own string, root bool) (why, fix string) {
	const caps = "CAP_PERFMON and CAP_SYS_PTRACE"
	has := statusSet(own, "CapEff")
	switch {
	case has&(1<<capSysPtrace) == 0:
		return "", runAs(root, caps)
	case statusSet(status, "CapPrm")&^statusSet(own, "CapPrm") != 0:
		return ", as it has capabilities that this one lacks, as an init outside of a container has", "Record it from outside of this container, or give this program all of its capabilities"
	}
	return "", "This program has CAP_SYS_PTRACE already: the process is in another user namespace, or a security module protects it; record it from where that runs"
}

// runAs says who may look into the processes of another user: root, where this is not it without the capabilities of root.
func runAs(root bool, caps string) string {
	if root {
		return "Root without capabilities is not enough: run as its user, or give this program " + caps
	}
	return "Run as its user or as root, or give this program " + caps
}

// openThread opens the events of a thread on each processor: an event that
// is inherited can be mapped only if it is bound to one. All events of a
// processor share the rings of the first: those that sample have one, that of mappings has the other.
func (s *session) openThread(tid int, bits uint64) error {
	first := len(s.rings) == 0
	for i, cpu := range s.cpus {
		side := sideband()
		side.Bits |= bits
		fd, err := s.openEvent(side, tid, cpu, &s.sides)
		if err == nil {
			err = s.share(fd, sidePages, cpu, first, s.sides[i], true)
		}
		for e := 0; e < len(s.events) && err == nil; e++ {
			ev := &s.events[e]
			if ev.left {
				continue
			}
			attr := samplerAttr(ev.perf, ev.perf.asked(ev.event.Period), len(s.events) > 1)
			attr.Bits |= bits
			if fd, err = s.openEvent(attr, tid, cpu, &ev.fds); err == nil {
				err = s.share(fd, samplePages, cpu, first && e == 0, s.events[0].fds[i], false)
			}
			if err == nil && len(s.events) > 1 {
				err = s.number(fd, e)
			}
			if err != nil && ev.perf.beside { // as there may be too many files
				ev.leave()
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leave closes the event for good.
func (ev *sampledEvent) leave() {
	for _, fd := range ev.fds {
		unix.Close(fd)
	}
	ev.fds, ev.left = nil, true
}

// openEvent opens an event, and adds it to fds.
func (s *session) openEvent(attr *unix.PerfEventAttr, tid, cpu int, fds *[]int) (fd int, err error) {
	if fd, err = open(attr, tid, cpu); err == nil {
		*fds = append(*fds, fd)
	}
	return fd, err
}

// share has the records of an event go to a ring of its own, or to that of another one.
func (s *session) share(fd, pages, cpu int, own bool, with int, side bool) error {
	if !own {
		return os.NewSyscallError("PERF_EVENT_IOC_SET_OUTPUT", unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, with))
	}
	r, err := newRing(fd, pages, side, cpu)
	if err != nil {
		return mapError(err)
	}
	r.ids = !side && len(s.events) > 1
	s.rings = append(s.rings, r)
	return nil
}

// number notes the number that records of an event, and of those that threads inherit of it, have.
func (s *session) number(fd, event int) error {
	var id uint64
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.PERF_EVENT_IOC_ID, uintptr(unsafe.Pointer(&id))); errno != 0 {
		return os.NewSyscallError("PERF_EVENT_IOC_ID", errno)
	}
	s.tally.ids[id] = event
	return nil
}

// mapError explains why a ring cannot be mapped.
func mapError(err error) error {
	if errnoOf(err) == unix.EPERM {
		return &Unavailable{
			Why: "the buffers exceed what this user may lock in memory: " + err.Error(),
			Fix: "End other recordings, or raise kernel.perf_event_mlock_kb",
		}
	}
	return err
}

// snapshot takes in what a process has mapped already.
func (s *session) snapshot(pid int) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has ended meanwhile
	} else if errors.Is(err, fs.ErrPermission) {
		return outOfReach(pid, err)
	} else if err != nil {
		return err
	}
	defer f.Close()
	maps, err := parseMaps(f, pid)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	for i := range maps {
		s.tally.mapped(&maps[i])
	}
	tids, err := threadsOf(pid)
	for i, tid := range tids {
		if i > 0 {
			s.tally.spaces.Fork(pid, pid)
		}
		if name, ok := threadName(pid, tid); ok {
			s.tally.threads.Name(tid, name)
		}
	}
	return err
}

// threadName returns the name that a thread has now.
func threadName(pid, tid int) (name string, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", pid, tid))
	return strings.TrimSuffix(string(b), "\n"), err == nil
}

// epoch returns when CLOCK_MONOTONIC began, in ns since 1970, as the clock is set now; 0 if that is unknown.
func epoch() uint64 {
	now := time.Now().UnixNano()
	if began := now - int64(monotonic()); began > 0 && began < now {
		return uint64(began)
	}
	return 0
}

// start runs the command. The events belong to the thread that starts it, where
// they stay off; the child inherits them, and its exec switches them on there.
// So not one sample is of backfeed itself, none of the command is missed, and
// nothing stands between the two.
func (s *session) start() error {
	started := make(chan error)
	go func() {
		// The thread keeps its events and must never run anything again: it
		// waits, and ends with this goroutine.
		runtime.LockOSThread()
		err := s.openThread(0, unix.PerfBitEnableOnExec)
		if err == nil {
			err = s.startCommand()
		}
		started <- err
		<-s.parked
	}()
	return <-started
}

func (s *session) startCommand() error {
	s.cmd = s.opt.command()
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.ended = make(chan error, 1)
	go func() { s.ended <- s.cmd.Wait() }()
	return nil
}

// command makes the command that opt asks for.
func (opt *Options) command() *exec.Cmd {
	cmd := exec.Command(opt.Command[0], opt.Command[1:]...)
	cmd.Dir, cmd.Env = opt.Dir, opt.Env
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: opt.Group}
	// A nil *os.File is no nil interface.
	if opt.Stdin != nil {
		cmd.Stdin = opt.Stdin
	}
	if opt.Stdout != nil {
		cmd.Stdout = opt.Stdout
	}
	if opt.Stderr != nil {
		cmd.Stderr = opt.Stderr
	}
	return cmd
}

// signal sends a signal to the command, or to its group. An error means that it has just ended.
func (opt *Options) signal(cmd *exec.Cmd, s unix.Signal) {
	if opt.Group {
		unix.Kill(-cmd.Process.Pid, s)
	} else {
		cmd.Process.Signal(s)
	}
}

// sweep ends what a command that has ended left in its group.
func (opt *Options) sweep(cmd *exec.Cmd) {
	if opt.Group {
		opt.signal(cmd, unix.SIGKILL)
	}
}

// collect reads the rings until the recording is over.
func (s *session) collect(ctx context.Context) error {
	if s.opt.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.opt.Duration)
		defer cancel()
	}
	stop := func() {}
	if len(s.pausable()) > 0 {
		stop = s.keepOutOfStep()
	}
	defer stop()
	stopFaults := s.watchFaults()
	defer stopFaults()
	if err := s.watch(ctx); err != nil {
		return err
	}
	stop()
	s.tally.allFaults = stopFaults()
	s.used.look()
	if err := ioctlAll(slices.Concat(s.samplers(), s.sides), unix.PERF_EVENT_IOC_DISABLE); err != nil {
		return err
	}
	s.readTimes()
	if err := s.drain(); err != nil {
		return err
	}
	if err := s.queue.flush(math.MaxUint64, s.tally.record); err != nil {
		return err
	}
	s.tally.measureClock(func() int { return -1 })
	for i := range s.events {
		ev, times := &s.events[i], &s.tally.stats.Times[i]
		if ev.perf.typ == unix.PERF_TYPE_SOFTWARE {
			if ev.event.Unit == "ns" {
				times.Missed = s.weighTimer(ev)
			}
			continue
		}
		times.weigh(ev.counts, len(ev.fds))
		if ev.counts.Total > 0 {
			ev.counts.Enabled, ev.counts.Running = uint64(times.Enabled), uint64(times.Running)
		}
	}
	return nil
}

// weighTimer makes the samples of a timer stand for the time that was used, as far as is known, and returns the share that was missed, where it is much.
func (s *session) weighTimer(ev *sampledEvent) (missed float64) {
	used := s.used.sum()
	if state := s.tally.stats.Command; state != nil {
		used = ran{state.UserTime(), state.SystemTime()}
	}
	if ev.perf.stepped(ev.event.Period) {
		weighUsed(ev.counts, used.user, used.user) // that of steps is said beforehand
		return 0
	}
	c := ev.counts
	before := c.Weight
	c.Weight = weighPauses(before, ev.ran, s.ran)
	if s.tally.stats.Throttled > 0 || c.Delivered() > enoughSamples {
		begun := time.Duration(s.tally.stats.Began * c.Event.Period) // of each thread, what has no sample for that it ends is less
		weighUsed(c, used.user-begun, used.clearlyUser()-begun)
	}
	if float64(before) < (1-missedShare)*float64(c.Weight) {
		missed = 1 - float64(before)/float64(c.Weight)
	}
	return missed
}

// enoughSamples are as many as tell of a timer that some were left out, as where an interrupt, or the host of a virtual machine, takes
// longer than the time to the next: the time that a command or a process used is known by ticks.
const enoughSamples = 1000

// weighPauses has what samples stand for be of all the time that threads were on a processor, of which the event ran for a part: a pause
// lasts until the recorder has a processor again. On two of them and ten threads that ran, pauses took 14 % of the time and not 1.
func weighPauses(weight uint64, ran, all time.Duration) uint64 {
	if ran <= 0 || all <= ran {
		return weight
	}
	return uint64(float64(weight) * float64(all) / float64(ran))
}

// weighUsed makes samples of a timer that misses some stand for the time that was used in user mode, if they are clearly too
// few for what was used at the least. One is a timer that fires at ticks only: a thread that runs for less than the
// time between two ticks has its period end between them, and waits for a tick at which it runs. It has half of its samples.
func weighUsed(c *sample.Counts, used, least time.Duration) {
	delivered, dropped := c.Delivered(), c.Lost[sample.LostDropped]
	if delivered == 0 {
		return
	}
	share := float64(delivered) / float64(delivered+dropped)
	if float64(c.Weight) < (1-missedShare)*float64(least)*share {
		c.Weight = uint64(float64(used) * share)
	}
}

// readTimes adds up how long the samplers were to count, and did, and what they counted. Those of children that have ended are in their parents'. An
// event of a thread on one processor is enabled while the thread runs on any, but can
// run on its own alone: of a thread's events, the times running add up to the one
// time enabled. Pauses switch them off and on one after another, so that their times enabled differ: the
// shortest is the one that all had, and the others would pass for a counter that was shared. An event that cannot be read tells nothing, and spoils no recording.
func (s *session) readTimes() {
	for i := range s.events {
		t := EventTime{Name: s.events[i].perf.name}
		for thread := range slices.Chunk(s.events[i].fds, max(1, len(s.cpus))) {
			var enabled, running uint64
			for _, fd := range thread {
				value, e, ran := readCounter(fd)
				t.Counted += value
				s.events[i].ran += time.Duration(ran)
				if enabled == 0 || e > 0 && e < enabled {
					enabled = e
				}
				running += ran
			}
			t.Enabled += time.Duration(enabled)
			t.Running += time.Duration(min(running, enabled))
		}
		s.tally.stats.Times = append(s.tally.stats.Times, t)
	}
	s.ran += ranFor(s.sides)
}

// watch drains the rings until the command or the processes have ended, or, with
// processes, ctx is done.
func (s *session) watch(ctx context.Context) error {
	fds := make([]unix.PollFd, len(s.rings))
	for i, r := range s.rings {
		fds[i] = unix.PollFd{Fd: int32(r.fd), Events: unix.POLLIN}
	}
	done := ctx.Done()
	var kill <-chan time.Time
	var told time.Time
	for {
		if err := s.drain(); err != nil {
			s.killCommand()
			return err
		}
		if now := time.Now(); s.opt.Progress != nil && now.Sub(told) >= progressEvery {
			told = now
			s.opt.Progress(s.tally.progressed())
		}
		s.opt.own.take(&s.tally)
		select {
		case <-s.ended:
			s.tally.stats.Command = s.cmd.ProcessState
			s.opt.sweep(s.cmd)
			return nil
		case <-done:
			if s.cmd == nil {
				return nil
			}
			done, kill = nil, time.After(killAfter)
			s.opt.signal(s.cmd, unix.SIGTERM)
		case <-kill:
			s.opt.signal(s.cmd, unix.SIGKILL)
		default:
		}
		if s.cmd == nil && !slices.ContainsFunc(s.opt.PIDs, Alive) {
			return nil
		}
		s.used.look()
		if err := poll(fds, drainEvery); err != nil {
			s.killCommand()
			return err
		}
	}
}

func (s *session) killCommand() {
	if s.cmd != nil {
		s.opt.signal(s.cmd, unix.SIGKILL)
		<-s.ended
	}
}

// poll waits until a ring is half full or the time is up. A ring whose threads
// have all ended hangs up for good: it is not waited for again.
func poll(fds []unix.PollFd, d time.Duration) error {
	_, err := unix.Poll(fds, int(d.Milliseconds()))
	if err != nil && err != unix.EINTR {
		return os.NewSyscallError("poll", err)
	}
	for i := range fds {
		if fds[i].Revents&(unix.POLLHUP|unix.POLLERR) != 0 {
			fds[i].Fd = -1
		}
	}
	return nil
}

// Alive reports whether a process has not ended yet. A zombie has, unless it is only the
// first thread that has ended and others go on.
func Alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	if fields := StatFields(string(b)); len(fields) == 0 || fields[0] != "Z" && fields[0] != "X" {
		return true
	}
	threads, err := threadsOf(pid)
	return err == nil && len(threads) > 1
}

// drain reads all rings and takes in what happened before the reading before
// this one began: nothing earlier can follow.
func (s *session) drain() error {
	limit := s.limit
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return os.NewSyscallError("clock_gettime", err)
	}
	s.limit = uint64(now.Nano())
	most, busiest := 0, -1
	for i, r := range s.rings {
		recs, err := r.read()
		if err != nil {
			return err
		}
		if i%2 == 1 && len(recs) > most { // samples are in every second ring, see openThread
			most, busiest = len(recs), s.cpus[i/2]
		}
		s.queue.add(recs)
	}
	if err := s.queue.flush(limit, s.tally.record); err != nil {
		return err
	}
	s.tally.measureClock(func() int { return busiest })
	return nil
}

// keepOutOfStep pauses the samplers at random until stop is called, which may be
// done twice.
func (s *session) keepOutOfStep() (stop func()) {
	p := pacer{
		period: time.Second / time.Duration(s.opt.Frequency),
		step:   timerStep(),
		rand:   rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
	}
	quit, done := make(chan struct{}), make(chan struct{})
	fds := s.pausable()
	go func() {
		defer close(done)
		var cost time.Duration
		for {
			run, pause := p.next(cost)
			select {
			case <-quit:
				return
			case <-time.After(run):
			}
			start := time.Now()
			ioctlAll(fds, unix.PERF_EVENT_IOC_DISABLE)
			off := time.Now()
			time.Sleep(pause)
			on := time.Now()
			ioctlAll(fds, unix.PERF_EVENT_IOC_ENABLE)
			cost = time.Since(on) + off.Sub(start)
		}
	}()
	return sync.OnceFunc(func() {
		close(quit)
		<-done
	})
}

// close undoes everything.
func (s *session) close() {
	for _, r := range s.rings {
		r.close()
	}
	for _, fd := range slices.Concat(s.samplers(), s.sides) {
		unix.Close(fd)
	}
	close(s.parked)
}

// ioctlAll does the same to all events. It does it to all even if one fails.
func ioctlAll(fds []int, request uint) error {
	var first error
	for _, fd := range fds {
		if err := unix.IoctlSetInt(fd, request, 0); err != nil && first == nil {
			first = os.NewSyscallError("ioctl", err)
		}
	}
	return first
}

// openMapped opens the file of a mapping, or returns nil. The links in map_files
// lead to the very file, deleted or not, but need a privilege; anything else is
// believed only if it has the inode that was mapped.
func openMapped(m *mmapRecord) *os.File {
	proc := fmt.Sprintf("/proc/%d", m.pid)
	if f, err := sample.OpenRegular(mapFile(m)); err == nil {
		return f
	}
	if f := withInode(m.inode)(sample.OpenRegular(proc + "/exe")); f != nil {
		return f
	}
	for _, root := range []string{proc + "/root", "/"} {
		if f := withInode(m.inode)(OpenBelow(root, m.path)); f != nil {
			return f
		}
	}
	return nil
}

// markReplaced marks a path as the kernel does once a file is gone, if it is
// certain that what lies there now is not what was mapped. Without a build ID,
// nothing else would tell them apart.
func markReplaced(path string, inode uint64) string {
	var st unix.Stat_t
	if unix.Stat(path, &st) == nil && st.Ino != inode && !strings.HasSuffix(path, deleted) {
		return path + deleted
	}
	return path
}

// withInode returns a function that returns an opened file if it has the given inode
// number, and nil if not.
func withInode(inode uint64) func(*os.File, error) *os.File {
	return func(f *os.File, err error) *os.File {
		if err != nil {
			return nil
		}
		var st unix.Stat_t
		if unix.Fstat(int(f.Fd()), &st) != nil || st.Ino != inode {
			f.Close()
			return nil
		}
		return f
	}
}
