//go:build amd64 || arm64

package collect

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"backfeed/sample"
)

// A tracer samples by ptrace, where perf events are refused. At random moments it looks which threads run,
// interrupts those, reads their registers, and lets them go on.
//
// Moments at random, by the clock of the wall, find a thread at each of its instructions in proportion to the
// time that it spends there. But a thread that waits for a processor looks as if it ran; so each thread gets
// no more samples than its processor time is worth.
//
// Threads that sleep are never touched: epoll_wait, semop and others would return EINTR to the program
// (signal(7)). One that falls asleep while it is being interrupted has its call made again. What no tracer can help
// is that the kernel sends a tracee the signals that its program ignores: of one to the whole process, a thread may be
// woken and another take it. The first then returns from its call without a stop.
//
// Whatever happens to this process, its tracees run on: PTRACE_SEIZE stops none, a thread that stops for us
// is left as it is found until it is let go, and the end of the tracing thread lets go of all.
type tracer struct {
	jits     jitMaps
	opt      Options
	tally    tally
	stats    *Traced
	period   time.Duration // between two samples, as asked for
	interval time.Duration // between two looks: longer, if they cost too much
	rand     *rand.Rand
	alarm    alarm

	threads map[int]*tracee
	order   []*tracee // the same
	procs   map[int]*tracedProcess
	cmd     *exec.Cmd
	ended   bool // cmd, or all of opt.PIDs

	began, next time.Time // of the recording, of the next look
	wake        time.Time // when to see whether the recording is over: no later than that
	missed      int       // looks that are to be made up for
	row         int       // looks that were missed since the last one
	budget      traceBudget
	before      time.Duration // processor time of this thread when the recording began: it has done other work
	other       time.Duration // likewise, for signals, new threads and the like
	regs        registers
	stack       [stackWords]uint64
	chain       []uint64

	follow  *follower // nil: threads are sampled, no more
	passing bool      // threads are held when they are to stop, and no longer
}

// A tracee is a thread.
type tracee struct {
	tid, pid  int
	dir       string     // of it in /proc
	sched     procFile   // schedstat
	stat      procFile   // stat
	seen      schedState // at the last look
	stopped   schedState // at the last stop; zero before
	base      uint64     // processor time when it was first seen, in ns
	taken     uint64     // processor time that its samples stand for, in ns
	blocked   bool       // it slept at the last look
	asked     time.Time  // when it was interrupted; zero if it was not, or has stopped since
	listening bool       // it is stopped, as by SIGSTOP
	held      bool       // it was stopped by SIGSTOP to be seized, and SIGCONT was sent to it
	again     *registers // of a call that it is to make again; nil if it got on since
	calls     callLog
	stretch   *pendingStretch // that is being timed; nil is none
	named     time.Time       // when its name was read last
	seized    bool            // it is held, by a tracer that passes
}

// A tracedProcess is a process with at least one tracee.
type tracedProcess struct {
	threads  int
	mapsRead time.Time // when its mappings were read last
	size     uint64    // of its address space then, in pages
	dirty    bool      // it has executed a program since
	stack    uint64    // where the stack of its program began, of a tracer that passes; 0 is unknown
}

// A schedState is what /proc/PID/task/TID/schedstat tells.
type schedState struct {
	run    uint64 // ns on processors; while it runs, as of the last tick
	slices uint64 // times that it got a processor
}

// recordTraced is Record by ptrace; why is the reason that nothing better can be had.
func recordTraced(ctx context.Context, opt Options, tried []Attempt, why *Unavailable) (*sample.Recording, *Stats, error) {
	t, err := newTracer(opt, tried)
	if err != nil {
		return nil, nil, err
	}
	if why != nil {
		t.stats.Why, t.stats.Fix = why.Why, why.Fix
	}
	defer t.jits.close()
	return t.record(ctx)
}

// newTracer returns one that has not begun.
func newTracer(opt Options, tried []Attempt) (*tracer, error) {
	cpu, err := thisCPU()
	if err != nil {
		return nil, err
	}
	t := &tracer{
		opt:     opt,
		jits:    jitMaps{keep: opt.Maps},
		stats:   &Traced{},
		period:  max(time.Second/time.Duration(opt.Frequency), minTracePeriod),
		rand:    rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
		threads: map[int]*tracee{},
		procs:   map[int]*tracedProcess{},
	}
	if len(opt.Events) > 0 && opt.Period > 0 {
		t.period = max(time.Duration(opt.Period), minTracePeriod)
	}
	t.period = wholeSteps(t.period, timerStep())
	t.interval = t.period
	t.tally = tally{
		counts:   sample.NewCounts(cpu, sample.Event{Name: ptraceClock, Period: uint64(t.period), Unit: "ns"}),
		stats:    &Stats{Tried: tried, Chosen: len(opt.Events) > 0, Traced: t.stats},
		identify: (&fileIDs{opened: opt.Opened}).identify,
		jit:      t.jits.since(monotonic()),
		epoch:    epoch(),
	}
	return t, nil
}

// record samples on a thread of its own.
func (t *tracer) record(ctx context.Context) (*sample.Recording, *Stats, error) {
	failed := make(chan error)
	tid := 0
	onOwnThread(func() {
		tid = unix.Gettid()
		err := t.begin()
		if t.follow != nil {
			t.follow.haste.begin()
		}
		if err == nil {
			t.opt.own.attached()
			err = t.collect(ctx)
		}
		t.finish()
		failed <- err
	})
	err := <-failed
	awaitEnd(tid)
	if err != nil {
		return nil, nil, err
	}
	return t.tally.recording(), t.tally.stats, nil
}

// minTracePeriod is short enough for whoever accepts the cost: a stop takes some 10 us.
const minTracePeriod = 20 * time.Microsecond

// onOwnThread runs f on a thread that ends with it. The main thread of a Go program does not end.
func onOwnThread(f func()) {
	go func() {
		runtime.LockOSThread() // for good
		if unix.Gettid() != os.Getpid() {
			f()
			return
		}
		begun := make(chan struct{})
		onOwnThread(func() {
			close(begun)
			f()
		})
		<-begun
		runtime.UnlockOSThread()
	}()
}

// awaitEnd waits until a thread of this process is gone, and with it all that it traced.
func awaitEnd(tid int) {
	for range 1000 {
		if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid)); err != nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// seizeOptions have the kernel tell of new threads and processes, which are traced from their first
// instruction on, and of new programs. There is no PTRACE_O_EXITKILL: programs survive their tracer.
const seizeOptions = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC

// begin starts the command, or takes hold of the processes.
func (t *tracer) begin() error {
	t.began = time.Now()
	t.before = threadTime()
	t.budget = traceBudget{share: cmp.Or(t.opt.MaxCPU, DefaultMaxCPU), at: t.began, own: t.before}
	if f := t.follow; f != nil {
		if !f.opt.Untimed {
			f.begin()
		}
		t.budget.differ, t.budget.most = true, mostFollowPeriod
		if f.opt.Share > 0 {
			t.budget.share += f.opt.Share
		} else {
			t.budget.idle = f.opt.Idle
			if f.opt.Pace != nil {
				t.budget.share = max(f.opt.Pace(), stopsRarely)
			}
			t.interval = max(t.period, min(mostFollowPeriod, time.Duration(float64(f.opt.Longest)/t.budget.share)))
		}
	}
	if err := t.alarm.open(); err != nil {
		return err
	}
	if t.passing {
		return t.beginPassing()
	}
	if len(t.opt.Command) > 0 {
		return t.start()
	}
	if h := t.opt.Held; h != nil {
		if err := h.handOver(); err != nil {
			return err
		}
		if err := ptraceCall(unix.PTRACE_SEIZE, h.PID(), 0, seizeOptions); err != nil {
			unix.Kill(h.PID(), unix.SIGCONT)
			if why := traceRefusal(h.PID()); why != nil {
				return why
			}
			return fmt.Errorf("process %d: seize: %w", h.PID(), err)
		}
		return t.letGo(h.PID())
	}
	for _, pid := range t.opt.PIDs {
		if err := t.seizeProcess(pid); err != nil {
			return err
		}
	}
	return nil
}

// start runs the command. It cannot be seized before it executes its program, and must not get on after that:
// it is traced in the older way until then, which has no PTRACE_INTERRUPT, and left stopped.
func (t *tracer) start() error {
	t.cmd = t.opt.command()
	t.cmd.SysProcAttr.Ptrace = true
	if err := t.cmd.Start(); err != nil {
		if why := traceRefusal(0); why != nil && errnoOf(err) == unix.EPERM {
			return why
		}
		return err
	}
	pid := t.cmd.Process.Pid
	fail := func(what string, err error) error {
		t.cmd.Process.Kill()
		t.cmd.Wait()
		return fmt.Errorf("%s: %s: %w", t.opt.Command[0], what, err)
	}
	var status unix.WaitStatus
	if _, err := wait4(pid, &status, 0); err != nil || !status.Stopped() {
		return fail("did not stop at its start", cmp.Or(err, error(unix.ECHILD)))
	}
	if err := ptraceCall(unix.PTRACE_DETACH, pid, 0, uintptr(unix.SIGSTOP)); err != nil {
		return fail("detach", err)
	}
	if _, err := wait4(pid, &status, unix.WUNTRACED); err != nil || !status.Stopped() {
		return fail("did not stop at its start", cmp.Or(err, error(unix.ECHILD)))
	}
	if err := ptraceCall(unix.PTRACE_SEIZE, pid, 0, seizeOptions); err != nil {
		if why := traceRefusal(pid); why != nil {
			t.cmd.Process.Kill()
			t.cmd.Wait()
			return why
		}
		return fail("seize", err)
	}
	t.noteSetuid(pid, t.opt.Command[0])
	return t.letGo(pid)
}

// letGo has a process begin its first instruction that was stopped by SIGSTOP before it was seized.
func (t *tracer) letGo(pid int) error {
	th := t.add(pid, pid, 0)
	th.held = true
	t.tally.spaces.Began(pid, monotonic())
	return unix.Kill(pid, unix.SIGCONT)
}

// seizeProcess takes hold of all threads of a process. Threads made from now on are traced with those that
// make them; those made by a thread not reached yet show in the next listing.
func (t *tracer) seizeProcess(pid int) error {
	for again := true; again; {
		again = false
		tids, err := threadsOf(pid)
		if err != nil {
			return err
		}
		for _, tid := range tids {
			if t.threads[tid] != nil {
				continue
			}
			err = ptraceCall(unix.PTRACE_SEIZE, tid, 0, seizeOptions)
			switch {
			case err == nil:
				t.add(tid, pid, 0)
				again = true
			case err == unix.ESRCH || hasEnded(pid, tid):
			case err == unix.EPERM || err == unix.EACCES || err == unix.ENOSYS:
				if tracerOf(tid) == unix.Gettid() {
					continue // begun by a thread that is traced already, which its event will tell
				}
				if why := traceRefusal(pid); why != nil {
					return why
				}
				return &Unavailable{Why: fmt.Sprintf("process %d cannot be traced: %v", pid, err), Fix: goFix(pid)}
			default:
				return fmt.Errorf("process %d: ptrace: %w", pid, err)
			}
		}
	}
	if t.procs[pid] == nil {
		return fmt.Errorf("process %d has ended", pid)
	}
	return nil
}

// hasEnded reports whether a thread has, though its process may go on and its number be taken.
func hasEnded(pid, tid int) bool {
	th := tracee{pid: pid, tid: tid}
	th.open()
	defer th.sched.close()
	defer th.stat.close()
	return strings.ContainsRune("ZX", rune(th.state()))
}

// add takes in a thread that is traced now. A new process is a copy of its parent.
func (t *tracer) add(tid, pid, parent int) *tracee {
	th := &tracee{tid: tid, pid: pid}
	th.open()
	if s, ok := th.schedule(); ok && parent == 0 {
		th.base, th.seen = s.run, s
	}
	t.threads[tid] = th
	t.order = append(t.order, th)
	p := t.procs[pid]
	switch {
	case p != nil:
		t.tally.spaces.Fork(pid, pid)
	case parent != 0 && t.procs[parent] != nil:
		from := t.procs[parent]
		p = &tracedProcess{mapsRead: from.mapsRead, size: from.size, dirty: from.dirty}
		t.tally.forked(pid, parent)
	default:
		p = &tracedProcess{dirty: true}
	}
	t.procs[pid] = p
	p.threads++
	return th
}

func (th *tracee) open() {
	th.dir = fmt.Sprintf("/proc/%d/task/%d", th.pid, th.tid)
	th.sched.open(th.dir + "/schedstat")
	th.stat.open(th.dir + "/stat")
}

// remove takes in that a thread has ended.
func (t *tracer) remove(th *tracee) {
	if t.follow != nil {
		t.follow.gone(th)
	}
	th.sched.close()
	th.stat.close()
	delete(t.threads, th.tid)
	t.order = slices.DeleteFunc(t.order, func(o *tracee) bool { return o == th })
	p := t.procs[th.pid]
	if p.threads--; p.threads > 0 {
		return
	}
	delete(t.procs, th.pid)
	if t.cmd == nil && t.opt.Held == nil && !slices.ContainsFunc(t.opt.PIDs, func(pid int) bool { return t.procs[pid] != nil }) {
		t.ended = true
	}
}

// collect samples until the recording is over.
func (t *tracer) collect(ctx context.Context) error {
	if t.opt.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.opt.Duration)
		defer cancel()
	}
	t.schedule(time.Now())
	var kill, told time.Time
	for !t.ended {
		tid, code, status, err := t.await()
		event := err == nil && tid != 0
		if event {
			before, stops := threadTime(), t.stats.Stops
			t.event(tid, code, status)
			if t.follow != nil {
				t.follow.next(t)
			}
			if t.stats.Stops == stops { // a lower rate would not have saved it
				t.other += threadTime() - before
			}
		} else if err == unix.ECHILD && t.passing {
			t.idle()
		} else if err == unix.ECHILD {
			return nil // all are gone
		} else if err != nil && err != unix.EINTR {
			return os.NewSyscallError("waitid", err)
		}
		now := time.Now()
		switch {
		case now.Before(t.next) && (event || now.Before(t.wake)):
			continue
		case now.Before(t.next):
		case event && t.row < mostMissed:
			t.missed++ // a look that a stop has delayed would find threads where they stop
			t.row++
		default:
			t.row = 0
			if t.unhindered() {
				t.tally.measureClock(t.ranOn)
			}
			t.look(now)
		}
		if t.follow != nil {
			t.follow.poll()
			t.follow.next(t)
		}
		if t.opt.Progress != nil && now.Sub(told) >= progressEvery {
			told = now
			t.opt.Progress(t.tally.progressed())
		}
		t.opt.own.take(&t.tally)
		t.opt.own.worked(threadTime() - t.before)
		t.schedule(now)
		switch {
		case ctx.Err() == nil:
		case t.cmd == nil:
			return nil
		case kill.IsZero():
			kill = now.Add(killAfter)
			t.opt.signal(t.cmd, unix.SIGTERM)
		case now.After(kill):
			t.opt.signal(t.cmd, unix.SIGKILL)
		}
	}
	return nil
}

// mostMissed looks are left out one after another: where threads stop without end, some samples are better than none.
const mostMissed = 4

// followerWakes is how often a tracer that stops threads a few times in a second sees whether the recording is over. Each time,
// the runtime of Go wakes dozens of times more, until it knows that this thread waits: at every 100 ms, that was a fifth of what
// a recorder used.
const followerWakes = 300 * time.Millisecond

// schedule sets the time of the next look. Times that have passed already are left out.
func (t *tracer) schedule(now time.Time) {
	t.repace(now)
	if t.next.IsZero() {
		t.next = now
	}
	for !t.next.After(now) {
		mean := t.interval
		if t.missed > 0 { // made up for, at random too
			mean /= 2
			t.missed--
		}
		t.next = t.next.Add(t.gap(mean, timerStep()))
	}
	t.wake = t.next
	latest := now.Add(maxTracePeriod)
	if t.follow != nil {
		latest = now.Add(followerWakes)
	}
	if t.wake.After(latest) {
		t.wake = latest
	}
	if f := t.follow; f != nil && f.again != nil && !f.again.asked && f.again.due.Before(t.wake) {
		t.wake = f.again.due
	}
	t.alarm.set(t.wake.Sub(now))
}

// gap draws the time from one look to the next, of that mean. Where timers fire at ticks only, each look is at one of its
// own: of two between the same ticks, the second would be left out.
func (t *tracer) gap(mean, step time.Duration) time.Duration {
	if step == 0 {
		return 1 + time.Duration(t.rand.Int64N(2*int64(mean)))
	}
	steps := max(1, int64((mean+step/2)/step))
	return time.Duration(1+t.rand.Int64N(2*steps-1)) * step
}

// wholeSteps returns d, or where timers fire at ticks only, so many of the times between two as last no less.
func wholeSteps(d, step time.Duration) time.Duration {
	if step == 0 {
		return d
	}
	return (d + step - 1) / step * step
}

// await waits for a tracee to stop or end, or for the timer, and leaves it as it is: were this process killed
// now, a signal that is about to be delivered would be.
func (t *tracer) await() (tid int, code int32, status int, err error) {
	var info [128]byte
	const options = unix.WEXITED | unix.WSTOPPED | unix.WNOWAIT | unix.WALL | unix.WNOTHREAD
	err = unix.Waitid(unix.P_ALL, 0, (*unix.Siginfo)(unsafe.Pointer(&info)), options, nil)
	// 4 signal, 4 error, 4 code, 4 nothing, 4 process, 4 user, 4 status (siginfo_t of 64 bits)
	return int(binary.NativeEndian.Uint32(info[16:])), int32(binary.NativeEndian.Uint32(info[8:])), int(binary.NativeEndian.Uint32(info[24:])), err
}

// Codes of siginfo (include/uapi/asm-generic/siginfo.h).
const (
	cldExited  = 1
	cldKilled  = 2
	cldDumped  = 3
	cldTrapped = 4
	cldStopped = 5
)

// event takes in that a thread has stopped or ended.
func (t *tracer) event(tid int, code int32, status int) {
	switch code {
	case cldExited, cldKilled, cldDumped:
		if t.passing {
			t.endedHeld(tid)
		} else {
			t.exited(tid)
		}
		return
	case cldTrapped:
	default: // what no tracee reports
		reap(tid)
		return
	}
	signal, event := unix.Signal(status&0xff), status>>8
	th := t.threads[tid]
	if th == nil {
		// A new thread or process may come to us before the event of the one that made it.
		pid, parent := processOf(tid)
		th = t.add(tid, pid, parent)
	}
	if s, ok := th.schedule(); ok {
		th.stopped = s
	}
	if event != unix.PTRACE_EVENT_STOP {
		// "Any trap clears pending STOP trap" (ptrace_stop in kernel/signal.c): a thread that was interrupted
		// while it made another stops for that alone, and would be waited for in vain.
		th.asked = time.Time{}
	}
	if event == 0 && signal == unix.SIGTRAP && t.follow != nil && t.follow.late(th) || th.stretch != nil && t.follow.stopped(th, signal, event) {
		t.letRun(th, 0)
		return
	}
	switch event {
	case 0:
		t.signalled(th, signal)
	case unix.PTRACE_EVENT_CLONE, unix.PTRACE_EVENT_FORK, unix.PTRACE_EVENT_VFORK:
		t.born(th)
		t.letRun(th, 0)
	case unix.PTRACE_EVENT_EXEC:
		reap(tid) // until then, ptrace refuses what another thread executed (looks_like_a_spurious_pid)
		t.executed(th)
		t.letRun(th, 0)
	case unix.PTRACE_EVENT_STOP:
		t.haveStopped(th, signal)
	default:
		t.letRun(th, 0)
	}
}

// signalled delivers a signal.
func (t *tracer) signalled(th *tracee, signal unix.Signal) {
	if th.held && signal == unix.SIGCONT {
		th.held = false // ours
		t.letRun(th, 0)
		return
	}
	again := th.again
	th.again = nil
	if r := &t.regs; r.get(th.tid) == nil {
		switch restarted := again != nil && *r == *again; {
		case !restarted && !(r.inCall(th.tid) && r.gaveUp()):
		case ignores(th, signal):
			// Without a tracer, it would not have come, and not have ended the call.
			if restarted {
				th.again = again
			} else {
				t.repair(th, r)
			}
		case restarted:
			// The program may rely on it that a signal ends the call.
			r.notAgain()
			r.set(th.tid)
		}
	}
	t.letRun(th, signal)
}

// ignoredByDefault are the signals that do nothing to a program without a handler for them (signal(7)).
const ignoredByDefault = 1<<(unix.SIGCHLD-1) | 1<<(unix.SIGCONT-1) | 1<<(unix.SIGURG-1) | 1<<(unix.SIGWINCH-1)

// ignores reports whether a signal does nothing to the program.
func ignores(th *tracee, signal unix.Signal) bool {
	b, err := os.ReadFile(th.dir + "/status")
	if err != nil {
		return false
	}
	bit := uint64(1) << (signal - 1)
	return statusSet(string(b), "SigIgn")&bit != 0 || ignoredByDefault&bit != 0 && statusSet(string(b), "SigCgt")&bit == 0
}

// haveStopped takes in a stop that is by no signal to be delivered: because it was asked for, as the first of
// a new thread, or because the process is stopped.
func (t *tracer) haveStopped(th *tracee, signal unix.Signal) {
	asked, knew := th.asked, time.Now()
	th.asked, th.listening = time.Time{}, false
	switch signal {
	case unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU:
		if t.passing {
			t.letRun(th, 0) // which leaves it stopped
			return
		}
		th.listening = true
		ptraceCall(unix.PTRACE_LISTEN, th.tid, 0, 0)
		return
	}
	if asked.IsZero() {
		t.letRun(th, 0)
		return
	}
	resumed, before := func() {}, time.Duration(0)
	if t.follow != nil {
		before, t.follow.ahead = threadTime(), false
	}
	if t.follow.repeats(th) {
		t.follow.repeated(t, th, knew, t.sampled(th, false))
	} else if t.sampled(th, true) && t.follow != nil {
		resumed = t.follow.stop(t, th, knew)
	}
	t.letRun(th, 0)
	went := time.Now()
	if t.follow != nil {
		t.budget.worked(min(threadTime()-before, went.Sub(knew)))
	}
	t.budget.stop(asked, knew, went)
	if t.follow != nil {
		t.follow.goOn(knew, went, resumed)
	}
}

// born takes in a thread or a process that th has made.
func (t *tracer) born(th *tracee) {
	var tid uint64
	if ptraceCall(unix.PTRACE_GETEVENTMSG, th.tid, 0, uintptr(unsafe.Pointer(&tid))) != nil || t.threads[int(tid)] != nil {
		return
	}
	pid := int(tid)
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", th.pid, tid)); err == nil {
		pid = th.pid
	}
	t.add(int(tid), pid, th.pid)
}

// executed takes in that a process has begun another program. Its other threads have ended, and the one that
// did it has the number of the process.
func (t *tracer) executed(th *tracee) {
	var former uint64
	if err := ptraceCall(unix.PTRACE_GETEVENTMSG, th.tid, 0, uintptr(unsafe.Pointer(&former))); err == nil && int(former) != th.tid {
		if by := t.threads[int(former)]; by != nil {
			th.base, th.taken, th.seen, th.stopped = by.base, by.taken, by.seen, by.stopped
		}
		th.sched.close()
		th.stat.close()
		th.open()
	}
	for _, o := range slices.Clone(t.order) {
		if o.pid == th.pid && o != th {
			t.remove(o)
		}
	}
	th.blocked, th.again, th.asked, th.named = false, nil, time.Time{}, time.Time{}
	t.procs[th.pid].dirty = true
	t.tally.executed(th.pid, monotonic())
	t.noteSetuid(th.pid, "")
}

// noteSetuid takes in that a program ran without the privileges that its file would have given it, which the
// kernel withholds under a tracer that lacks them.
func (t *tracer) noteSetuid(pid int, name string) {
	var st unix.Stat_t
	exe := fmt.Sprintf("/proc/%d/exe", pid)
	if unix.Stat(exe, &st) != nil || os.Geteuid() == 0 {
		return
	}
	if st.Mode&unix.S_ISUID != 0 && int(st.Uid) != os.Geteuid() || st.Mode&(unix.S_ISGID|unix.S_IXGRP) == unix.S_ISGID|unix.S_IXGRP && int(st.Gid) != os.Getegid() {
		if path, err := os.Readlink(exe); err == nil {
			name = path
		}
		if !slices.Contains(t.stats.Setuid, name) && len(t.stats.Setuid) < 16 {
			t.stats.Setuid = append(t.stats.Setuid, name)
		}
	}
}

// exited takes in that a thread has ended, and lets its parent know.
func (t *tracer) exited(tid int) {
	th := t.threads[tid]
	if th != nil {
		t.account(th)
		pid := th.pid
		t.remove(th)
		t.tally.spaces.Exit(pid)
		t.tally.threads.End(pid, tid)
	}
	if h := t.opt.Held; h != nil && tid == h.PID() {
		h.reaped()
		t.ended = true
		return
	}
	if t.cmd != nil && tid == t.cmd.Process.Pid {
		t.cmd.Wait() // an error is in its state
		t.tally.stats.Command = t.cmd.ProcessState
		t.ended = true
		return
	}
	reap(tid)
}

// reap has the kernel forget what a thread has reported.
func reap(tid int) {
	var status unix.WaitStatus
	wait4(tid, &status, unix.WNOHANG|unix.WUNTRACED|unix.WALL)
}

func wait4(pid int, status *unix.WaitStatus, options int) (int, error) {
	for {
		got, err := unix.Wait4(pid, status, options, nil)
		if err != unix.EINTR {
			return got, err
		}
	}
}

// look interrupts the threads that run.
func (t *tracer) look(now time.Time) {
	t.stats.Looks++
	if t.passing {
		t.list()
	}
	if t.follow != nil {
		t.follow.look(t)
	} else {
		for _, th := range t.order {
			t.interrupt(th)
		}
	}
	if t.budget.due(now) {
		t.interval = wholeSteps(t.budget.spent(now, t.own(), t.program(now), t.period), timerStep())
	}
}

// program is the processor time that the program used so far.
func (t *tracer) program(now time.Time) time.Duration {
	if f := t.follow; f != nil && f.opt.Busy != nil {
		return time.Duration(f.opt.Busy() * float64(now.Sub(t.began)))
	}
	return t.stats.Program
}

// unhindered reports whether no thread stands, or is about to.
func (t *tracer) unhindered() bool {
	return !slices.ContainsFunc(t.order, func(th *tracee) bool { return th.held || !th.asked.IsZero() })
}

// ranOn returns a processor that a traced thread runs on; -1 if none does.
func (t *tracer) ranOn() int {
	for _, th := range t.order {
		if th.state() == 'R' {
			return lastProcessor(th.tid)
		}
	}
	return -1
}

// own is the processor time of this thread that its budget is for.
func (t *tracer) own() time.Duration {
	if t.follow != nil {
		return threadTime() // all of it
	}
	return threadTime() - t.other
}

// interrupt interrupts a thread if it runs, and reports whether it did.
func (t *tracer) interrupt(th *tracee) bool {
	if th.listening || th.held || !th.asked.IsZero() || !t.runs(th) {
		return false
	}
	return t.interruptNow(th)
}

// interruptNow interrupts a thread.
func (t *tracer) interruptNow(th *tracee) bool {
	if th.listening || th.held || !th.asked.IsZero() || t.passing && !t.hold(th) || ptraceCall(unix.PTRACE_INTERRUPT, th.tid, 0, 0) != nil {
		return false
	}
	th.asked = time.Now()
	return true
}

// slack is the processor time of samples that a thread may have had beyond its own: its own is known as of
// the last tick only, and looks at random come in clusters.
func (t *tracer) slack() uint64 { return uint64(4*t.interval + 4*time.Millisecond) }

// runs reports whether a thread is to be sampled: whether it runs, has run since it stopped last, and its
// samples do not exceed its processor time.
func (t *tracer) runs(th *tracee) bool {
	s, ok := t.account(th)
	if ok && th.blocked && s == th.seen {
		return false
	}
	known := ok && s != schedState{} // a kernel without CONFIG_SCHED_INFO has zeros
	th.seen = s
	if known && s.slices == th.stopped.slices {
		return false // it waits for a processor since then
	}
	state := th.state()
	if th.blocked = state != 'R'; th.blocked {
		if state == 'S' {
			th.calls.note(th.dir)
		}
		return false
	}
	return !known || s.run-th.base+t.slack() > th.taken
}

// account reads a thread's processor time.
func (t *tracer) account(th *tracee) (schedState, bool) {
	s, ok := th.schedule()
	if ok && s.run > th.seen.run {
		t.stats.Program += time.Duration(s.run - th.seen.run)
	}
	return s, ok
}

// sampled takes a sample of a thread that is stopped, if counts, and is about to go on. It reports whether that was in 64-bit
// code of user mode.
func (t *tracer) sampled(th *tracee, counts bool) (user bool) {
	t.stats.Stops++
	r := &t.regs
	if r.get(th.tid) != nil {
		return false // killed meanwhile
	}
	th.again = nil
	waited := th.stopped.slices != th.seen.slices // for a processor, when it was looked at
	if s := th.stopped; s.run > th.seen.run {
		t.stats.Program += time.Duration(s.run - th.seen.run)
		th.seen = s
	}
	calls := r.inCall(th.tid)
	if calls {
		t.repair(th, r)
		if waited {
			return false // it was not at work in the kernel, but had just been woken there
		}
	}
	if !counts {
		return !calls && r.wide()
	}
	th.taken += uint64(t.interval)
	s := &t.tally.sample
	t.name(th)
	*s = sampleRecord{ip: r.pc(), pid: th.pid, tid: th.tid, cpu: -1, period: uint64(t.interval), chain: t.chain[:0], branches: s.branches[:0]}
	misc := uint16(miscUser)
	if calls {
		misc = miscKernel
	} else {
		if t.passing {
			t.renewed(th)
		}
		t.refreshMaps(th.pid, s.ip)
		if r.wide() {
			t.unwind(th.tid, r, s)
		}
	}
	t.tally.add(s, misc, monotonic())
	t.chain = s.chain[:0]
	return !calls && r.wide()
}

// nameEvery is how old the name of a thread may be. Nothing tells a tracer that it changes, and to read it takes some 10 us.
const nameEvery = 100 * time.Millisecond

// name reads the names of a thread and of its process, if it is time to.
func (t *tracer) name(th *tracee) {
	now := time.Now()
	if now.Sub(th.named) < nameEvery {
		return
	}
	th.named = now
	for _, tid := range []int{th.pid, th.tid} {
		if name, ok := threadName(th.pid, tid); ok {
			t.tally.threads.Name(tid, name)
		}
	}
}

// repair has a call made again that would return to the program that it was interrupted.
func (t *tracer) repair(th *tracee, r *registers) {
	if !r.gaveUp() {
		return
	}
	before := *r
	if !r.again(&th.calls) || r.set(th.tid) != nil {
		t.stats.Interrupted++
		*r = before
		return
	}
	t.stats.Restarted++
	again := *r
	th.again = &again
}

const (
	// mapsFor is how long mappings are believed, unless a sample falls outside of them.
	mapsFor = time.Second
	// mapsPause is the least time between two readings of the mappings of a process.
	mapsPause = 10 * time.Millisecond
)

// refreshMaps reads what a process has mapped, if that is not known well enough to place pc.
func (t *tracer) refreshMaps(pid int, pc uint64) {
	p := t.procs[pid]
	_, _, loss := t.tally.spaces.Find(pid, pc)
	since := time.Since(p.mapsRead)
	size := p.size
	switch {
	case p.dirty:
	case loss == sample.LostUnmapped && since > mapsPause:
	case since > mapsFor:
		if size = addressSpace(pid); size == p.size {
			p.mapsRead = time.Now()
			return
		}
	default:
		return
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return
	}
	defer f.Close()
	maps, err := parseMaps(f, pid)
	if err != nil {
		return
	}
	for i := range maps {
		t.tally.mapped(&maps[i])
	}
	p.mapsRead, p.size, p.dirty = time.Now(), addressSpace(pid), false
}

// addressSpace is the size of one in pages, 0 if it is not known. What is mapped rarely changes without it.
func addressSpace(pid int) uint64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(b), " ")
	n, _ := strconv.ParseUint(first, 10, 64)
	return n
}

// stackWords are as many as are read at once from the stack pointer on.
const stackWords = 128

// unwind reads the words at the stack pointer, and the return addresses that frame pointers lead to, as
// perf_callchain_user of the kernel does.
func (t *tracer) unwind(tid int, r *registers, s *sampleRecord) {
	s.chain = append(s.chain, contextUser, s.ip)
	words := t.stack[:readMemory(tid, r.sp(), wordBytes(t.stack[:]))/8]
	if dumpsTop {
		copy(s.top[:], words)
	} else {
		s.top[0] = r.link() & addressBits()
	}
	fp, last := r.fp(), r.sp()
	for range MaxStack - 1 {
		if fp < last || fp%8 != 0 {
			return
		}
		var frame [2]uint64
		if at := (fp - r.sp()) / 8; (fp-r.sp())%8 == 0 && at+1 < uint64(len(words)) {
			copy(frame[:], words[at:])
		} else if readMemory(tid, fp, wordBytes(frame[:])) < 16 {
			return
		}
		s.chain = append(s.chain, frame[1])
		fp, last = frame[0], fp+1
	}
}

func wordBytes(words []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
}

const mostParts = 16

// readMemory reads a thread's memory, page by page, as the next may not be there. It returns how many bytes it got, of
// mostParts pages at most.
func readMemory(tid int, from uint64, to []byte) int {
	page := uint64(os.Getpagesize())
	var parts [mostParts]memoryPart
	n := 0
	for at := uint64(0); at < uint64(len(to)) && n < len(parts); n++ {
		size := min(uint64(len(to))-at, page-(from+at)%page)
		parts[n] = memoryPart{from + at, to[at : at+size]}
		at += size
	}
	return readParts(tid, parts[:n])
}

// readParts reads several parts in one call, and returns how many bytes it got of all. Nothing else runs in its place
// meanwhile, as the thread may stand for it.
func readParts(tid int, parts []memoryPart) int {
	var local [mostParts]unix.Iovec
	var remote [mostParts]unix.RemoteIovec
	n := min(len(parts), mostParts)
	for i, p := range parts[:n] {
		if len(p.to) == 0 {
			n = i
			break
		}
		local[i] = unix.Iovec{Base: &p.to[0], Len: uint64(len(p.to))}
		remote[i] = unix.RemoteIovec{Base: uintptr(p.at), Len: len(p.to)}
	}
	got, _, errno := unix.RawSyscall6(unix.SYS_PROCESS_VM_READV, uintptr(tid), uintptr(unsafe.Pointer(&local)), uintptr(n), uintptr(unsafe.Pointer(&remote)), uintptr(n), 0)
	if errno != 0 {
		return 0
	}
	return int(got)
}

// finish undoes everything but the tracees, which go with this thread.
func (t *tracer) finish() {
	if t.follow != nil {
		t.follow.finish(t)
	}
	for _, th := range t.order {
		t.account(th)
		th.sched.close()
		th.stat.close()
	}
	t.alarm.close()
	t.stats.Own = threadTime() - t.before
	t.stats.Wall = time.Since(t.began)
	t.budget.spent(time.Now(), t.own(), t.program(time.Now()), t.period)
	t.stats.Stopped, t.stats.Worked = t.budget.stopped, t.budget.shared
	t.stats.Period = t.interval
}

// threadTime is the processor time of this thread.
func threadTime() time.Duration {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts)
	return time.Duration(ts.Nano())
}

// ptraceCall is ptrace(2), without the errors of the standard library: it is called a thousand times a second.
func ptraceCall(request, tid int, addr, data uintptr) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), addr, data, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// resume lets a thread go on. It may have been killed meanwhile.
func resume(tid int, signal unix.Signal) {
	ptraceCall(unix.PTRACE_CONT, tid, 0, uintptr(signal))
}
