//go:build amd64 || arm64

package collect

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"backfeed/sample"
)

// Follow stops threads at random moments of their processor time, has opt.Ahead say where each will be after
// some instructions, and measures how long it takes until there. It does so by ptrace, with no privilege over one's
// own processes, until the command or all processes have ended, the context is done, or opt.Duration has
// passed. Stops are samples, too; these are returned, with what Record returns otherwise.
//
// What stops and breakpoints take, and what this thread uses of a processor, are together kept below opt.MaxCPU.
//
// Stretches are timed by the kernel's events for hardware breakpoints, which go with this process. Where it refuses
// these, debug registers take their part, on x86-64 and in what Follow starts itself: if this process is
// killed meanwhile, they would end a program that runs into them.
func Follow(ctx context.Context, opt FollowOptions) (*sample.Recording, *Stats, error) {
	if opt.Held == nil && (len(opt.Command) == 0) == (len(opt.PIDs) == 0) {
		return nil, nil, errors.New("want either a command or processes to follow")
	}
	if opt.Share > 0 {
		opt.Frequency = cmp.Or(opt.Frequency, DefaultFrequency)
	}
	opt.Frequency = cmp.Or(opt.Frequency, DefaultStops)
	if opt.Frequency < 0 || opt.Frequency > maxFrequency {
		return nil, nil, fmt.Errorf("%d Hz: want 1 to %d", opt.Frequency, maxFrequency)
	}
	if refused := traceRefusal(0); refused != nil {
		return nil, nil, refused
	}
	opt.Longest = cmp.Or(opt.Longest, DefaultStop)
	opt.Events = []string{ptraceClock}
	t, err := newTracer(opt.Options, []Attempt{{Name: ptraceClock}})
	if err != nil {
		return nil, nil, err
	}
	t.passing = opt.Passing && opt.Untimed && opt.Held == nil && len(opt.Command) == 0 && CanPass()
	t.follow = &follower{opt: opt, budget: &t.budget, at: Stopped{spaces: &t.tally.spaces}}
	if opt.Held != nil {
		defer opt.Held.await()
	}
	rec, stats, err := t.record(ctx)
	if stats != nil {
		stats.Followed = t.follow.result()
	}
	return rec, stats, err
}

// mostFollowPeriod is the longest time between two looks of a follower: stops of milliseconds keep a share of
// a thousandth.
const mostFollowPeriod = 10 * time.Second

// A haste has this thread be made to wait for others as little as may be, while a thread stands for it: before all others
// then, if that is allowed, and with more of the processor otherwise. Without this, on two processors with 20 other
// threads that wanted them, 46 of 590 stops for walks of bzip2 took more than 2.5 ms and the longest 39 ms, for nearly all of
// which it waited. What the thread starts meanwhile does not hurry.
type haste struct{ refused, on bool }

const hastyNice = -10

// begin sets how it waits when no thread stands.
func (h *haste) begin() {
	h.on = true
	if h.set(false); h.refused {
		unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), hastyNice)
	}
}

func (h *haste) set(on bool) {
	if h.refused || h.on == on {
		return
	}
	attr := unix.SchedAttr{Policy: unix.SCHED_NORMAL, Nice: hastyNice, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	if on {
		attr.Policy, attr.Nice, attr.Priority = unix.SCHED_FIFO, 0, 1
	}
	h.on = on
	h.refused = unix.SchedSetAttr(0, &attr, 0) != nil
}

// A follower is what a tracer does for Follow.
type follower struct {
	opt     FollowOptions
	budget  *traceBudget
	stats   Followed
	fixed   fixedCost
	fixing  int           // stretches of 0 steps that are under way
	unhit   int           // of those that ended, without one hit before, how many were never hit
	waiting []*tracee     // to be interrupted, one after another: each is to stand for as short a time as can be
	asked   *tracee       // was interrupted, and has not stopped yet; may be nil
	armed   []*tracee     // with a stretch under way
	spent   time.Duration // what Ahead took, with FollowOptions.Share
	ahead   bool          // it was called at this stop
	held    []time.Duration
	steps   int           // of stretches that were hit
	took    time.Duration // by these
	debugs  bool          // debug registers have been set
	events  int           // of holdEvents, plus 1; 0 is none
	haste   haste
	again   *repeatedStop // that is to come; nil is none
	at      Stopped
}

// A repeatedStop is one of a thread that is to be stopped once more.
type repeatedStop struct {
	th    *tracee
	due   time.Time
	run   uint64 // processor time of the thread when it went on, in ns
	asked bool
	then  func(*Stopped, time.Duration) time.Duration
}

// repeats reports whether a thread stops because it was to be stopped once more.
func (f *follower) repeats(th *tracee) bool {
	return f != nil && f.again != nil && f.again.th == th && f.again.asked
}

// repeat has a thread that is about to go on be stopped once more.
func (f *follower) repeat(t *tracer, th *tracee, after time.Duration, then func(*Stopped, time.Duration) time.Duration) {
	if f.again = nil; after <= 0 {
		return
	}
	f.again = &repeatedStop{th: th, due: time.Now().Add(after), run: th.stopped.run, then: then}
	if f.again.due.Before(t.wake) {
		t.wake = f.again.due
		t.alarm.set(after)
	}
}

// repeated hands over a thread that has been stopped once more; user is whether that is in its own code.
func (f *follower) repeated(t *tracer, th *tracee, knew time.Time, user bool) {
	a := f.again
	if !user {
		f.forgo()
		return
	}
	s := &f.at
	s.PID, s.TID, s.Regs, s.Deadline = th.pid, th.tid, t.regs.general(th.tid), knew.Add(f.opt.Longest)
	f.repeat(t, th, a.then(s, time.Duration(th.stopped.run-a.run)), a.then)
}

// forgo drops a stop that was to come.
func (f *follower) forgo() {
	if a := f.again; a != nil {
		f.again = nil
		a.then(nil, 0)
	}
}

const (
	// repeatAfter is when a thread is looked at again that waits for a processor, repeatFor how long that goes on.
	repeatAfter, repeatFor = time.Millisecond, 100 * time.Millisecond
)

// stopAgain interrupts the thread that is to be stopped once more, if it is time.
func (f *follower) stopAgain(t *tracer) {
	a := f.again
	if a == nil {
		return
	}
	if a.asked && a.th.asked.IsZero() { // it stopped for something else
		a.asked = false
	}
	now := time.Now()
	if a.asked || now.Before(a.due) {
		return
	}
	if t.threads[a.th.tid] != a.th || a.th.state() != 'R' || now.Sub(a.due) > repeatFor {
		f.forgo()
		return
	}
	if s, ok := a.th.schedule(); f.asked != nil || ok && s.slices == a.th.stopped.slices || !t.interruptNow(a.th) {
		a.due = now.Add(repeatAfter)
		return
	}
	a.asked, f.asked = true, a.th
}

// A pendingStretch is one that is under way.
type pendingStretch struct {
	Ahead
	fixes   bool          // it is of 0 steps, to measure fixed costs
	bp      *hwBreakpoint // nil: a debug register
	at      uint64        // that the debug register holds
	run     uint64        // processor time of the thread at its stop, in ns
	resumed uint64        // ns of CLOCK_MONOTONIC
}

// begin makes ready for stretches.
func (f *follower) begin() {
	if fd, err := holdEvents(); err == nil { // or breakpoints are refused too
		f.events = fd + 1
	}
	f.stats.HitCost = hitCost()
}

// stop hands a thread that is stopped in user code to Ahead, and sets the breakpoint. It returns what is to be
// done when the thread has gone on.
func (f *follower) stop(t *tracer, th *tracee, knew time.Time) func() {
	if f.ahead = f.again == nil && f.allowed(max(time.Duration(cmp.Or(f.opt.Idle, 1)*float64(knew.Sub(t.began))), t.program(knew))); !f.ahead {
		return func() {}
	}
	f.stats.Stops++
	s := &f.at
	s.PID, s.TID, s.Regs, s.Deadline = th.pid, th.tid, t.regs.general(th.tid), knew.Add(f.opt.Longest)
	st := &pendingStretch{Ahead: f.opt.Ahead(s), run: th.stopped.run}
	pc := st.PC
	if n := uint64(len(f.fixed.seen) + f.fixing); !f.opt.Untimed && (n < fixedFirst || f.stats.Stops%fixedEvery == 0) {
		st.fixes, pc = true, s.Regs.PC
	}
	resumed := func() {
		if st.Resumed != nil {
			st.Resumed()
		}
	}
	notTimed := func(end StretchEnd) func() {
		return func() {
			resumed()
			f.done(st, Stretch{End: end})
		}
	}
	if pc == 0 || f.opt.Untimed {
		f.repeat(t, th, st.Again, st.Then)
		return notTimed(StretchUnknown)
	}
	err := errNeverHit
	if !f.neverHit() {
		err = f.arm(t, th, st, pc)
	}
	if err != nil {
		f.stats.Refused = err.Error()
		return notTimed(StretchRefused)
	}
	if st.fixes {
		f.fixing++
	}
	th.stretch = st
	f.armed = append(f.armed, th)
	st.resumed = monotonic()
	return resumed
}

// goOn takes in a stop, and does what is to be done when the thread has gone on.
func (f *follower) goOn(knew, went time.Time, resumed func()) {
	f.haste.set(false)
	if f.ahead || f.opt.Share == 0 {
		f.held = append(f.held, went.Sub(knew))
	}
	resumed()
	if f.ahead {
		f.spent += time.Since(knew)
	}
}

// allowed reports whether Ahead may be called after so much processor time.
func (f *follower) allowed(after time.Duration) bool {
	if f.opt.Share == 0 {
		return true
	}
	share := f.opt.Share
	if f.opt.Pace != nil {
		share = f.opt.Pace()
	}
	return share > 0 && f.spent.Seconds() <= share*after.Seconds()
}

// stopsRarely is the share that a follower takes none for: it stops threads every few minutes.
const stopsRarely = 1e-7

// repace has looks keep the share that holds from now on. When it changes much, the time of the next look is chosen anew, by
// that alone.
func (t *tracer) repace(now time.Time) {
	f := t.follow
	if f == nil || f.opt.Pace == nil || f.opt.Share > 0 {
		return
	}
	share, was := max(f.opt.Pace(), stopsRarely), t.budget.share
	t.budget.share = share
	interval := float64(t.interval) * was / share
	if share == stopsRarely {
		t.interval = time.Hour // after each look again
	} else if was == stopsRarely {
		interval = float64(max(t.budget.perLook, f.opt.Longest)) / share
	}
	if share > 0.9*was && share < 1.1*was {
		return
	}
	if share != stopsRarely {
		t.interval = max(t.period, time.Duration(min(interval, float64(mostFollowPeriod))))
	}
	t.next = time.Time{}
}

// errNeverHit is why there is no breakpoint where the machine takes them, and threads that go on right at them do not stop.
var errNeverHit = errors.New("breakpoints are set and never hit, as in virtual machines that have no debug registers, such as those of PVM")

// leastUnhit is the processor time after which a breakpoint where the thread went on is known not to be hit.
const leastUnhit = time.Millisecond

// neverHit reports whether breakpoints do not work.
func (f *follower) neverHit() bool { return f.unhit >= fixedFirst }

// arm sets the breakpoint of a stretch, or a debug register.
func (f *follower) arm(t *tracer, th *tracee, st *pendingStretch, pc uint64) error {
	var err error
	if st.Later = min(max(0, st.Later), mostLater); st.fixes {
		st.Later = 0
	}
	if st.bp, err = setBreakpoint(th.tid, pc, 1+st.Later); err == nil {
		return nil
	}
	if errno := errnoOf(err); t.cmd == nil || errno != unix.EPERM && errno != unix.EACCES && errno != unix.ENOSYS && errno != unix.EOPNOTSUPP {
		return err
	}
	// The kernel would have the program heed SIGTRAP from now on (force_sig_info_to_task).
	status, _ := os.ReadFile(th.dir + "/status")
	if (statusSet(string(status), "SigBlk")|statusSet(string(status), "SigIgn"))&sigtrap != 0 {
		return errors.New("perf events are refused, and the program blocks SIGTRAP")
	}
	if setDebugRegister(th.tid, pc) != nil {
		return err
	}
	st.at, f.debugs = pc, true
	return nil
}

// limit is the processor time for which a stretch may go on.
func (f *follower) limit(st *pendingStretch) time.Duration {
	const times, least = 20, time.Millisecond
	if f.steps == 0 || st.fixes {
		return stretchLimit
	}
	return min(max(time.Duration(times*float64(f.took)/float64(f.steps)*float64(st.Steps)), least), stretchLimit)
}

// poll takes in stretches that have ended, by themselves or because their time is up.
func (f *follower) poll() {
	for _, th := range slices.Clone(f.armed) {
		st := th.stretch
		if st.bp == nil {
			continue // it tells by stopping
		}
		limit := f.limit(st)
		switch {
		case st.bp.poll():
			f.ended(th, StretchHit)
		case time.Duration(monotonic()-st.resumed) > limit:
			if used := st.bp.used(); used > limit {
				f.ended(th, StretchLimit)
			}
		}
	}
}

// ended takes in that a thread with a breakpoint has hit it, or else how its stretch ended.
func (f *follower) ended(th *tracee, otherwise StretchEnd) {
	bp := th.stretch.bp
	if bp.poll(); len(bp.hits) > 0 {
		f.hit(th, bp.hits)
		return
	}
	f.end(th, Stretch{End: otherwise, Time: bp.used()})
}

// overdue reports whether a stretch is to be ended by a stop.
func (f *follower) overdue(st *pendingStretch) bool {
	return st.bp == nil && time.Duration(monotonic()-st.resumed) > f.limit(st)
}

// stopped takes in that a thread with a stretch has stopped. It reports whether that was at its debug register.
func (f *follower) stopped(th *tracee, signal unix.Signal, event int) bool {
	st := th.stretch
	if st.bp != nil {
		f.ended(th, StretchEvent)
		return false
	}
	used := time.Duration(th.stopped.run - st.run)
	overdue := f.overdue(st)
	clearDebugRegister(th.tid)
	switch {
	case event == 0 && signal == unix.SIGTRAP && trapCode(th.tid) == trapHardware:
		f.hit(th, []breakpointHit{{used: used, cpu: -1}})
		return true
	case overdue:
		f.end(th, Stretch{End: StretchLimit, Time: used})
	default:
		f.end(th, Stretch{End: StretchEvent, Time: used})
	}
	return false
}

// late reports whether a thread that has stopped by SIGTRAP did so at a debug register that is set no more: the signal was
// on its way when the thread stopped otherwise. The program is not to see it.
func (f *follower) late(th *tracee) bool {
	if !f.debugs || trapCode(th.tid) != trapHardware {
		return false
	}
	if th.stretch == nil || th.stretch.bp != nil {
		return true
	}
	var r registers
	return r.get(th.tid) == nil && r.pc() != th.stretch.at
}

const (
	trapHardware = 4 // TRAP_HWBKPT
	sigtrap      = 1 << (unix.SIGTRAP - 1)
)

// trapCode returns the si_code of the signal by which a thread stopped.
func trapCode(tid int) int32 {
	var info [128]byte
	if ptraceCall(unix.PTRACE_GETSIGINFO, tid, 0, uintptr(unsafe.Pointer(&info))) != nil {
		return 0
	}
	return int32(binary.NativeEndian.Uint32(info[8:]))
}

// hit takes in that a thread has reached the end of its stretch.
func (f *follower) hit(th *tracee, hits []breakpointHit) {
	st, hit := th.stretch, hits[0]
	if st.fixes {
		f.fixed.add(hit.used)
		f.end(th, Stretch{End: StretchFixed})
		return
	}
	s := Stretch{End: StretchHit, Time: hit.used, CPU: hit.cpu, Waited: -1}
	if hit.at != 0 {
		s.Waited = max(0, time.Duration(hit.at-st.resumed)-hit.used)
	}
	hits = hits[:min(len(hits), 1+st.Later)]
	for i := range hits[1:] {
		s.Later = append(s.Later, hits[i+1].used-hits[i].used-f.stats.HitCost)
	}
	s.Watched = hits[len(hits)-1].used
	if st.bp != nil && len(hits) < st.bp.want {
		s.Watched = max(s.Watched, st.bp.used())
	}
	s.Watched -= time.Duration(len(s.Later)) * f.stats.HitCost
	f.end(th, s)
}

// end ends the stretch of a thread.
func (f *follower) end(th *tracee, s Stretch) {
	st := th.stretch
	th.stretch = nil
	f.armed = slices.DeleteFunc(f.armed, func(o *tracee) bool { return o == th })
	if st.bp != nil {
		st.bp.remove()
	}
	if st.fixes {
		f.fixing--
		if len(f.fixed.seen) == 0 && (s.End == StretchLimit || s.End == StretchEvent && s.Time >= leastUnhit) {
			f.unhit++
		}
		s = Stretch{End: StretchFixed}
	}
	if s.End == StretchHit || s.End == StretchLimit {
		s.Fixed, s.SD = f.fixed.cost()
		if s.End == StretchLimit {
			s.Watched = s.Time
		}
		s.Time -= s.Fixed
		s.Watched -= s.Fixed
		f.budget.took(s.Fixed + time.Duration(len(s.Later))*f.stats.HitCost)
	}
	if s.End == StretchHit {
		f.steps += st.Steps
		f.took += max(0, s.Time)
	}
	f.done(st, s)
}

func (f *follower) done(st *pendingStretch, s Stretch) {
	f.stats.Ends[s.End]++
	s.Steps = st.Steps
	if st.Done != nil {
		st.Done(s)
	}
}

// gone takes in that a thread has ended, or has begun another program.
func (f *follower) gone(th *tracee) {
	if f.again != nil && f.again.th == th {
		f.forgo()
	}
	if f.asked == th {
		f.asked = nil
	}
	if th.stretch == nil {
		return
	}
	if th.stretch.bp != nil {
		f.ended(th, StretchGone)
		return
	}
	f.end(th, Stretch{End: StretchGone})
}

// look lists the threads to be stopped at this moment, in any order.
func (f *follower) look(t *tracer) {
	if len(f.waiting) == 0 {
		f.waiting = append(f.waiting, t.order...)
		t.rand.Shuffle(len(f.waiting), func(i, j int) { f.waiting[i], f.waiting[j] = f.waiting[j], f.waiting[i] })
	}
	f.next(t)
}

// next interrupts the next of them that runs, once the one before has gone on.
func (f *follower) next(t *tracer) {
	defer func() { f.haste.set(f.asked != nil) }()
	if f.asked != nil && !f.asked.asked.IsZero() {
		return
	}
	f.asked = nil
	f.stopAgain(t)
	for len(f.waiting) > 0 && f.asked == nil && (f.again == nil || f.opt.Share > 0) {
		th := f.waiting[0]
		f.waiting = f.waiting[1:]
		if t.threads[th.tid] == th && (th.stretch == nil || f.overdue(th.stretch)) && t.interrupt(th) {
			f.asked = th
		}
	}
}

// finish ends all stretches that are under way.
func (f *follower) finish(t *tracer) {
	if f.events > 0 {
		defer unix.Close(f.events - 1)
	}
	f.forgo()
	f.poll()
	for len(f.armed) > 0 {
		th := f.armed[0]
		if th.stretch.bp != nil {
			f.ended(th, StretchUnfinished)
			continue
		}
		disarm(th)
		f.end(th, Stretch{End: StretchUnfinished})
	}
	if f.debugs {
		for _, th := range t.order {
			takeTraps(th, false)
		}
	}
}

// disarm clears the debug register of a thread, which may be running.
func disarm(th *tracee) {
	if ptraceCall(unix.PTRACE_INTERRUPT, th.tid, 0, 0) == nil { // or it has ended
		takeTraps(th, true)
	}
}

// takeTraps has a thread go on with no debug register, and takes the trap of one that it may be about to stop by: without a
// tracer, that would end the program. Stops: it is about to stop for another reason.
func takeTraps(th *tracee, stops bool) {
	const most = 8 // other signals may come first
	stops = stops || trapPending(th)
	for range most {
		options := unix.WALL
		if !stops {
			options |= unix.WNOHANG
		}
		var status unix.WaitStatus
		if got, err := wait4(th.tid, &status, options); err != nil || got == 0 || !status.Stopped() {
			return
		}
		clearDebugRegister(th.tid)
		signal := status.StopSignal()
		if uint32(status)>>16 != 0 || signal == unix.SIGTRAP && trapCode(th.tid) == trapHardware {
			signal = 0
		}
		stops = trapPending(th)
		resume(th.tid, signal)
	}
}

// trapPending reports whether SIGTRAP is to be delivered to a thread.
func trapPending(th *tracee) bool {
	status, err := os.ReadFile(th.dir + "/status")
	return err == nil && statusSet(string(status), "SigPnd")&^statusSet(string(status), "SigBlk")&sigtrap != 0
}

// result returns how it went.
func (f *follower) result() *Followed {
	s := f.stats
	s.Fixed, s.SD = f.fixed.cost()
	if n := len(f.held); n > 0 {
		slices.Sort(f.held)
		s.Median, s.P99, s.Longest = f.held[n/2], f.held[n*99/100], f.held[n-1]
	}
	return &s
}

// Read reads memory of the process, and returns how many bytes from addr on it got: up to the first page that is not
// there. Pages that the process has mapped and not touched yet, it has touched after that.
func (s *Stopped) Read(addr uint64, to []byte) int { return readMemory(s.TID, addr, to) }
