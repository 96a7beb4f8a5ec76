//go:build amd64 || arm64

package collect

import (
	"debug/elf"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"backfeed/sample"
	"backfeed/sample/probe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// A Prober arms probes for short windows. It is a process of its own, which does
// nothing else: while probes are armed, what they lie in runs up to hundreds of times
// slower, so that whoever holds them must not wait for a garbage collector, and must
// let go of them when the program that wants them is stopped or killed. It ends with
// that program; the kernel disarms what an ended process armed.
type Prober struct {
	mu      sync.Mutex
	cmd     *exec.Cmd
	conn    net.Conn
	windows *ebpf.Map // of the System, which the prober shares
	moments *ebpf.Map // samples while windows were open
	keys    []moment  // of takeMoments
	counts  []uint64  // likewise
	sys     *System
	link    link.Link // of the program that follows processors
	enc     *gob.Encoder
	dec     *gob.Decoder
	costs   []probe.Cost
	used    atomic.Int64 // what its process used of processors so far, in ns
}

// proberName is argument 0 of the process that a Prober starts, which is this program
// once more.
const proberName = "backfeed-prober"

// becomes reports whether BecomeProber was called: started otherwise, the program would do
// once more whatever it does.
var becomes bool

// BecomeProber is what a program that opens probers has to call first of all. In the
// process of a Prober it does not return.
func BecomeProber() {
	if os.Args[0] == proberName {
		os.Exit(serveProber())
	}
	becomes = true
}

const (
	// patience is how long a window may take beyond its length. The kernel's own waits
	// are 40 to 100 ms of it.
	patience = 3 * time.Second
	// longWait is how long it takes at most where nothing is amiss.
	longWait = 500 * time.Millisecond
	// lateness is how long a window stays open beyond its length where nothing is amiss:
	// a thread of a real-time policy is late by less than 1 ms.
	lateness = 50 * time.Millisecond
	// tooLate is how long it may stay open in any case.
	tooLate = 200 * time.Millisecond
)

type proberHello struct {
	Error       string
	Unavailable bool
	Fix         string
	Costs       []probe.Cost
	Used        time.Duration // of processors, by the prober and what it ran
}

type proberRequest struct {
	File   string
	Offs   []uint64
	Conds  []int8
	PID    uint32 // to arm in alone; 0 is wherever the file is mapped
	Length time.Duration
}

type proberAnswer struct {
	Error  string
	Window probe.Window
	Used   time.Duration // as of proberHello
}

// OpenProber starts a prober of the processes that s samples. The error is an
// *Unavailable where this machine does not allow it.
func OpenProber(s *System) (*Prober, error) {
	if !becomes {
		return nil, errors.New("this program did not call BecomeProber at its start")
	}
	of := s.sampler
	if !of.opt.Probes {
		return nil, errors.New("the system was not opened for probes")
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	mine, theirs := os.NewFile(uintptr(fds[0]), "prober"), os.NewFile(uintptr(fds[1]), "prober")
	defer mine.Close()
	defer theirs.Close()
	conn, err := net.FileConn(mine)
	if err != nil {
		return nil, err
	}
	bpf, err := loadForProber(of)
	if err != nil {
		conn.Close()
		return nil, err
	}
	defer bpf.Close() // the process keeps what it needs
	moments, err := bpf.Moments.Clone()
	if err != nil {
		conn.Close()
		return nil, err
	}
	p := &Prober{conn: conn, windows: of.bpf.Windows, moments: moments, sys: s, enc: gob.NewEncoder(conn), dec: gob.NewDecoder(conn)}
	if p.link, err = link.AttachTracing(link.TracingOptions{Program: bpf.Switched}); err != nil {
		moments.Close()
		conn.Close()
		return nil, err
	}
	p.cmd = exec.Command("/proc/self/exe")
	p.cmd.Args = []string{proberName}
	p.cmd.Stderr = os.Stderr
	// Keys that a terminal turns into signals are not for it: stopped with this program, it
	// would leave armed what it armed.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.cmd.ExtraFiles = []*os.File{theirs}
	for _, fd := range []int{bpf.Windows.FD(), bpf.Sites.FD(), bpf.Processors.FD(), bpf.Hit.FD(), bpf.Meanwhile.FD()} { // as armer.open has them
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			p.abandon()
			return nil, os.NewSyscallError("fcntl", err)
		}
		f := os.NewFile(uintptr(own), "bpf")
		defer f.Close()
		p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, f)
	}
	if err := p.cmd.Start(); err != nil {
		p.abandon()
		return nil, err
	}
	var hello proberHello
	conn.SetDeadline(time.Now().Add(selfTestPatience))
	if err := p.dec.Decode(&hello); err != nil {
		p.Close()
		return nil, fmt.Errorf("the prober does not answer: %w", err)
	}
	if hello.Error != "" {
		p.Close()
		if hello.Unavailable {
			return nil, &Unavailable{Why: hello.Error, Fix: hello.Fix}
		}
		return nil, errors.New(hello.Error)
	}
	p.costs = hello.Costs
	p.used.Store(int64(hello.Used))
	return p, nil
}

// abandon lets go of what a prober has that did not start.
func (p *Prober) abandon() {
	p.moments.Close()
	p.conn.Close()
	p.link.Close()
}

// loadForProber loads what a prober has in the kernel, in this process, which knows the kernel's types already.
func loadForProber(of *sampler) (*proberObjects, error) {
	if u := TryProbes(); u != nil {
		return nil, u
	}
	spec, err := loadProber()
	if err != nil {
		return nil, err
	}
	byPID, byCgroup := of.filtered()
	for name, v := range map[string]bool{proberVarByPid: byPID, proberVarByCgroup: byCgroup} {
		if err := spec.Variables[name].Set(flag(v)); err != nil {
			return nil, err
		}
	}
	var bpf proberObjects
	maps := map[string]*ebpf.Map{proberMapWindows: of.bpf.Windows, proberMapPids: of.bpf.Pids, proberMapCgroups: of.bpf.Cgroups,
		proberMapExecs: of.bpf.Execs, proberMapWorths: of.bpf.Worths}
	if err := loadInto(&bpf, spec, maps, of.types, Probes); err != nil {
		return nil, err
	}
	return &bpf, nil
}

// Used is the processor time of the prober's process so far, or until its last window.
func (p *Prober) Used() time.Duration {
	if p == nil {
		return 0
	}
	return time.Duration(p.used.Load())
}

// selfTestPatience is how long a prober may take to try what it can do.
const selfTestPatience = time.Minute

// Costs are what hits cost here, by kind of instruction, as tried at the start. A nil Prober, which probes
// nothing, has none.
func (p *Prober) Costs() []probe.Cost {
	if p == nil {
		return nil
	}
	return p.costs
}

// HitCost is what a hit costs here: the mean of all kinds that may be probed.
func (p *Prober) HitCost() time.Duration {
	var sum, n time.Duration
	for _, c := range p.Costs() {
		if c.Emulated {
			sum, n = sum+c.Cost, n+1
		}
	}
	return sum / max(n, 1)
}

// Allows reports whether the instruction that code begins with, with the condition of a
// probe.Site, may be probed here.
func (p *Prober) Allows(code []byte, cond int8) error {
	return probe.Host.Check(code, cond, p.Costs())
}

// Window arms sites of one file for a time, in the process pid, or in all that map
// the file if pid is 0. The file is opened by the prober, which looks at the bytes of
// each site.
func (p *Prober) Window(file string, sites []probe.Site, pid int, length time.Duration) (*probe.Window, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	req := proberRequest{File: file, PID: uint32(pid), Length: length}
	for _, s := range sites {
		req.Offs, req.Conds = append(req.Offs, uint64(s.Off)), append(req.Conds, s.Cond)
	}
	var a proberAnswer
	p.conn.SetDeadline(time.Now().Add(length + patience))
	done, watched := make(chan struct{}), make(chan struct{})
	go func() {
		p.watch(length, done)
		close(watched)
	}()
	err := errors.Join(p.enc.Encode(req), p.dec.Decode(&a))
	close(done)
	<-watched // which looks into a map that may be closed after this
	if err != nil {
		// Whatever keeps it: with its end the probes are gone.
		p.cmd.Process.Kill()
		return nil, fmt.Errorf("the prober is lost: %w", err)
	}
	before := p.used.Swap(int64(a.Used))
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	a.Window.Own = a.Used - time.Duration(before)
	return &a.Window, p.takeMoments()
}

// takeMoments passes on what was sampled while windows were open.
func (p *Prober) takeMoments() error {
	if p.keys == nil {
		p.keys, p.counts = make([]moment, p.moments.MaxEntries()), make([]uint64, p.moments.MaxEntries())
	}
	var cursor ebpf.MapBatchCursor
	for {
		n, err := p.moments.BatchLookupAndDelete(&cursor, p.keys, p.counts, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("samples of windows: %w", err)
		}
		p.sys.addMoments(p.keys[:n], p.counts[:n])
		if err != nil {
			return nil
		}
	}
}

// watch sees to it that a stopped prober does not leave a window open: it is continued,
// which does nothing to one that merely waits for a processor, and then killed.
func (p *Prober) watch(length time.Duration, done chan struct{}) {
	for start := monotonic(); ; {
		select {
		case <-done:
			return
		case <-time.After(lateness / 2):
		}
		var w probeWindow
		if p.windows.Lookup(uint32(0), &w) != nil {
			return
		}
		now := monotonic()
		open := w.Open != 0
		if now > start+uint64(length+longWait) || open && now > w.Opened+uint64(length+lateness) {
			p.cmd.Process.Signal(unix.SIGCONT)
		}
		if open && now > w.Opened+uint64(length+tooLate) {
			p.cmd.Process.Kill()
		}
	}
}

// Close ends the prober. Nothing is armed any more when it returns.
func (p *Prober) Close() error {
	if p == nil {
		return nil
	}
	p.abandon()
	done := make(chan struct{})
	go func() {
		select {
		case <-done:
		case <-time.After(patience):
			p.cmd.Process.Kill()
		}
	}()
	err := p.cmd.Wait()
	close(done)
	if s := p.cmd.ProcessState; s != nil {
		p.used.Store(int64(s.UserTime() + s.SystemTime()))
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil // as good as any end
	}
	return err
}

// serveProber is the process of a Prober, from the start of its main function to the
// exit code.
func serveProber() int {
	// Memory that windows take is given back between them.
	debug.SetGCPercent(-1)
	// With a second P that has nothing to do, Go's sysmon wakes up dozens of times in each
	// wait of the kernel's, before it takes the P of the thread that waits: windows took the
	// program that was probed 0.43 ms instead of 0.23 (1 site), and 0.78 instead of 0.46 (40).
	runtime.GOMAXPROCS(1)
	runtime.LockOSThread()
	socket := os.NewFile(3, "prober")
	conn, err := net.FileConn(socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, "backfeed-prober: want to be started by backfeed:", err)
		return 2
	}
	socket.Close()
	requests, answer := make(chan proberRequest), gob.NewEncoder(conn)
	dec := gob.NewDecoder(conn)
	a := armer{}
	var hello proberHello
	if err := a.open(); err != nil {
		hello.Error = err.Error()
		if u := (*Unavailable)(nil); errors.As(err, &u) {
			hello.Error, hello.Fix, hello.Unavailable = u.Why, u.Fix, true
		}
	}
	hurry()
	hello.Costs, hello.Used = a.costs, usedAll()
	if err := answer.Encode(hello); err != nil || hello.Error != "" {
		return 1
	}
	go func() {
		for {
			var r proberRequest
			if err := dec.Decode(&r); err != nil {
				os.Exit(0) // with it go the probes, even in the middle of a window
			}
			requests <- r
		}
	}()
	for r := range requests {
		var out proberAnswer
		w, err := a.window(r)
		if err != nil {
			out.Error = err.Error()
		} else {
			out.Window = *w
		}
		out.Used = usedAll()
		if err := answer.Encode(out); err != nil {
			return 1
		}
		if a.number%windowsOfGarbage == 0 {
			runtime.GC()
		}
	}
	return 0
}

// usedAll is the processor time of this process and of those that it ran.
func usedAll() time.Duration {
	sum := time.Duration(0)
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var ru unix.Rusage
		if unix.Getrusage(who, &ru) == nil {
			sum += time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
		}
	}
	return sum
}

// windowsOfGarbage is how many windows there are before their memory is given back: some
// 50 kB each. To do so takes milliseconds.
const windowsOfGarbage = 64

// hurry sees to it that whatever else runs does not keep this process from disarming.
// That goes for all of its threads, and those that they start: the kernel lets go of
// what a killed process armed when the last of them has ended. Without the privilege
// it goes without.
func hurry() {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, t := range threads {
		if tid, err := strconv.Atoi(t.Name()); err == nil {
			unix.SchedSetAttr(tid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0)
		}
	}
}

// An armer is what the process of a Prober keeps in the kernel.
type armer struct {
	windows, sites, processors *ebpf.Map
	hit, meanwhile             *ebpf.Program
	events                     []int // by processor: those that sample while windows are open
	online                     []int // processors that they are of

	costs  []probe.Cost
	number uint32
	still  *os.File // the program of try, which nobody runs any more
	offset uint64   // of an instruction of it
}

// The layouts of bpf/prober.c.
type probeWindow struct {
	Open, Number        uint32
	Opened, Closed, Hit uint64
}

type moment struct {
	IP, Born    uint64
	PID, Number uint32
}

type siteCounts struct{ Hits, Taken uint64 }

type processorTime struct {
	Hits, Since, Total, Window uint64
	Number, Runs               uint32
}

// haveUprobeMulti reports whether the kernel arms many probes at once (Linux 6.6).
var haveUprobeMulti = features.HaveBPFLinkUprobeMulti

// TryProbes returns why there can be no Prober, as far as that is known without starting one; nil is nothing.
func TryProbes() *Unavailable {
	restore, err := liftMemlock() // else the kernel's look at what it has may fail, which tells nothing
	if err == nil {
		defer restore()
		err = haveUprobeMulti()
	}
	if u := (*Unavailable)(nil); err == nil || errors.As(err, &u) {
		return u
	}
	if errors.Is(err, ebpf.ErrNotSupported) {
		if u := Probes.tooOld(ThisHost()); u != nil {
			return u
		}
		return &Unavailable{Why: "this kernel has no probes that are armed and disarmed together", Fix: "Use one with CONFIG_UPROBES"}
	}
	return &Unavailable{Why: "the kernel does not let this process probe: " + err.Error(), Fix: needPrivileges}
}

// open takes over what OpenProber loaded.
func (a *armer) open() (err error) {
	for i, m := range []**ebpf.Map{&a.windows, &a.sites, &a.processors} {
		if *m, err = ebpf.NewMapFromFD(4 + i); err != nil {
			return fmt.Errorf("map %d: %w", i, err)
		}
	}
	if a.hit, err = ebpf.NewProgramFromFD(7); err != nil {
		return fmt.Errorf("program: %w", err)
	}
	if a.meanwhile, err = ebpf.NewProgramFromFD(8); err != nil {
		return fmt.Errorf("program: %w", err)
	}
	return a.try()
}

// try counts what probes of each kind cost and count, in a program of its own.
func (a *armer) try() error {
	// In memory: directories for temporary files may refuse to run programs, and nobody
	// would remove the file if this process were killed.
	fd, err := unix.MemfdCreate("backfeed-loops", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if err != nil {
		return os.NewSyscallError("memfd_create", err)
	}
	program := os.NewFile(uintptr(fd), "backfeed-loops")
	isa := probe.Host
	code, offs := isa.LoopProgram()
	a.still, a.offset = program, offs[0]
	if _, err := program.Write(code); err != nil {
		return err
	}
	path := fdPath(program)
	// run returns the processor time of one of the loops, the least of some.
	run := func(loop int) (least time.Duration, err error) {
		for range triesOfLoop {
			cmd := exec.Command(path, make([]string, loop)...)
			if err := cmd.Run(); err != nil {
				return 0, fmt.Errorf("the program that tries probes: %w", err)
			}
			if t := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(); least == 0 || t < least {
				least = t
			}
		}
		return least, nil
	}
	var cookies []uint64
	for i, off := range offs {
		cond := int8(probe.NoCond)
		if i < len(isa.Kinds) {
			cond = isa.Kinds[i].Condition(code[off:])
		}
		cookies = append(cookies, probe.Cookie(i, cond, code[off:]))
		if err := a.clear(i); err != nil {
			return err
		}
	}
	l, err := a.attach(path, offs, cookies, 0)
	if err != nil {
		return &Unavailable{Why: "the kernel does not arm probes: " + err.Error(), Fix: needPrivileges}
	}
	defer l.Close()
	a.number++
	if err := a.windows.Put(uint32(0), probeWindow{Open: countEveryones, Number: a.number}); err != nil {
		return err
	}
	defer a.windows.Put(uint32(0), probeWindow{Number: a.number})
	m := costMeter{a: a, isa: isa, run: run}
	if a.costs, err = measured(isa, m.all, m.one); err != nil {
		return err
	}
	if err := isa.Judge(a.costs); err != nil {
		return &Unavailable{Why: err.Error()}
	}
	return nil
}

// measured returns what all returns, once the cost of the last kind, the stepped one, is above 0 in it, or after triesOfAll. What
// a busy machine takes to start a process may exceed what hits take: then none of the costs is right. There, all timings of a kind
// may be slow, too. So what seems to be stepped is timed by one once more, and the lesser cost is taken.
func measured(isa *probe.ISA, all func() ([]probe.Cost, error), one func(kind int) (probe.Cost, error)) (costs []probe.Cost, err error) {
	for range triesOfAll {
		if costs, err = all(); err != nil || costs[len(costs)-1].Cost > 0 {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	stepped := costs[len(costs)-1]
	for i := range costs[:len(costs)-1] {
		c := &costs[i]
		if !c.Exact || stepped.Cost == 0 || isa.Cheap(*c, stepped) {
			continue
		}
		again, err := one(i)
		if err != nil {
			return nil, err
		}
		c.Cost, c.Exact = min(c.Cost, again.Cost), again.Exact
	}
	return costs, nil
}

// A costMeter measures what hits of each kind cost, and whether they were counted, with probes at the sites of their loops.
type costMeter struct {
	a    *armer
	isa  *probe.ISA
	run  func(loop int) (time.Duration, error) // what a loop takes; number 0 has no probe
	none time.Duration                         // what that takes
}

// all measures all kinds, the stepped one last.
func (m *costMeter) all() (costs []probe.Cost, err error) {
	if m.none, err = m.run(0); err != nil {
		return nil, err
	}
	for kind := range len(m.isa.Kinds) + 1 {
		c, err := m.one(kind)
		if err != nil {
			return nil, err
		}
		costs = append(costs, c)
	}
	return costs, nil
}

// one measures a kind.
func (m *costMeter) one(kind int) (probe.Cost, error) {
	c := probe.Cost{Kind: "stepped"}
	if kind < len(m.isa.Kinds) {
		c.Kind = m.isa.Kinds[kind].Name
	}
	before, err := m.a.counted(kind)
	if err != nil {
		return c, err
	}
	took, err := m.run(kind + 1)
	if err != nil {
		return c, err
	}
	n, err := m.a.counted(kind)
	if err != nil {
		return c, err
	}
	runs := m.isa.RunsOf(kind)
	c.Cost = max(0, took-m.none) / time.Duration(runs)
	want := siteCounts{Hits: uint64(runs * triesOfLoop)}
	if kind < len(m.isa.Kinds) && m.isa.Kinds[kind].Goes {
		want.Taken = want.Hits
	}
	c.Exact = n.Hits-before.Hits == want.Hits && n.Taken-before.Taken == want.Taken
	return c, nil
}

// triesOfAll is how often all is measured where the stepped one seems to cost nothing.
const triesOfAll = 5

// triesOfLoop is how often each loop is timed.
const triesOfLoop = 3

// clear sets the counts of a site to 0.
func (a *armer) clear(site int) error {
	n, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	return a.sites.Put(uint32(site), make([]siteCounts, n))
}

// counted returns the counts of a site.
func (a *armer) counted(site int) (sum siteCounts, err error) {
	var each []siteCounts
	if err := a.sites.Lookup(uint32(site), &each); err != nil {
		return sum, err
	}
	for _, c := range each {
		sum.Hits += c.Hits
		sum.Taken += c.Taken
	}
	return sum, nil
}

// fdPath names an open file, whatever has become of its path.
func fdPath(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

func (a *armer) attach(file string, offs, cookies []uint64, pid uint32) (link.Link, error) {
	ex, err := link.OpenExecutable(file)
	if err != nil {
		return nil, err
	}
	return ex.UprobeMulti(nil, a.hit, &link.UprobeMultiOptions{Addresses: offs, Cookies: cookies, PID: pid})
}

// calm waits for what the kernel waits for before it arms anything: until each processor went
// through a quiescent state (RCU's; percpu_down_write of dup_mmap_sem in register_for_each_vma,
// kernel/events/uprobes.c). That ends where programs yield or block, and not at random: of a program
// that goes round in 9 ms, windows of 5 ms that began right after it met one phase three times
// too often. So a probe of a file that nobody runs does the waiting, and then a random time passes, in
// which the next one need not wait. What calm returns is to be closed after that.
func (a *armer) calm() (io.Closer, error) {
	l, err := a.attach(fdPath(a.still), []uint64{a.offset}, []uint64{probe.Cookie(0, probe.NoCond, nil)}, 0)
	if err != nil {
		return nil, err
	}
	sleepUntil(monotonic() + rand.Uint64N(uint64(calmTime)))
	return l, nil
}

// calmTime is for how long a wait of the kernel's serves mostly: the next one of the kind takes
// 5 to 40 ms (Linux 6.18).
const calmTime = 8 * time.Millisecond

// check looks at all that is asked for, and at the bytes of all sites in an open file. It returns their cookies.
func (r *proberRequest) check(f *os.File, costs []probe.Cost) (cookies []uint64, err error) {
	if len(r.Offs) == 0 || len(r.Offs) > probe.MaxSites || len(r.Conds) != len(r.Offs) {
		return nil, fmt.Errorf("%d sites: want 1 to %d", len(r.Offs), probe.MaxSites)
	}
	if r.Length <= 0 || r.Length > maxWindow {
		return nil, fmt.Errorf("a window of %v: want up to %v", r.Length, maxWindow)
	}
	if st, err := f.Stat(); err != nil {
		return nil, err
	} else if !st.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	code, err := codeOf(f)
	if err != nil {
		return nil, err
	}
	seen := map[uint64]bool{}
	for i, off := range r.Offs {
		if seen[off] {
			return nil, fmt.Errorf("offset %#x: twice in one window", off)
		}
		seen[off] = true
		if !slices.ContainsFunc(code, func(p elf.ProgHeader) bool { return off >= p.Off && off-p.Off < p.Filesz }) {
			return nil, fmt.Errorf("offset %#x: not in code", off)
		}
		var b [uprobeBytes]byte
		n, err := f.ReadAt(b[:], int64(off))
		if err != nil && err != io.EOF {
			return nil, err
		}
		if err := probe.Host.Check(b[:min(n, 8)], r.Conds[i], costs); err != nil {
			return nil, fmt.Errorf("offset %#x: %w", off, err)
		}
		cookies = append(cookies, probe.Cookie(i, r.Conds[i], b[:]))
	}
	return cookies, nil
}

// uprobeBytes is what the kernel reads at a site (MAX_UINSN_BYTES of
// arch/x86/include/asm/uprobes.h), across the end of a page too. A page that is not in
// memory then is read without the lock that ext4 wants held, and kernels with
// CONFIG_EXT4_DEBUG from 6.16 on warn of that, or panic with panic_on_warn
// (copy_insn of kernel/events/uprobes.c, ext4_check_map_extents_env of fs/ext4/inode.c).
// What check has read just before is in memory.
const uprobeBytes = 16

// codeOf returns the segments of an ELF file for this processor that processes execute.
func codeOf(f io.ReaderAt) (code []elf.ProgHeader, err error) {
	e, err := sample.ReadELF(f)
	if err != nil {
		return nil, err
	}
	if e.Machine != probe.Host.Machine || e.Class != elf.ELFCLASS64 {
		return nil, fmt.Errorf("code for %v, %v: want %s", e.Machine, e.Class, probe.Host.Name)
	}
	for _, p := range e.Segments {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			code = append(code, p)
		}
	}
	return code, nil
}

// maxWindow bounds a window.
const maxWindow = 100 * time.Millisecond

// window arms, waits and disarms.
func (a *armer) window(r proberRequest) (*probe.Window, error) {
	// What is looked at is what is armed, whatever becomes of the path meanwhile.
	f, err := sample.OpenRegular(r.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cookies, err := r.check(f, a.costs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.File, err)
	}
	for i := range r.Offs {
		if err := a.clear(i); err != nil {
			return nil, err
		}
	}
	a.number++
	state := probeWindow{Number: a.number}
	set := func() error { return a.windows.Put(uint32(0), state) }
	if err := set(); err != nil {
		return nil, err
	}
	hits, _, err := a.ran(0, 0)
	if err != nil {
		return nil, err
	}
	w := &probe.Window{}
	if a.look() == nil { // without samples, a window tells what it did before there were any
		w.Number = a.number
	}
	waited, err := a.calm()
	if err != nil {
		return nil, err
	}
	start := monotonic()
	l, err := a.attach(fdPath(f), r.Offs, cookies, r.PID)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", r.File, err), waited.Close())
	}
	state.Open, state.Opened = countOurs, monotonic()
	if err = set(); err == nil {
		if ioctlAll(a.events, unix.PERF_EVENT_IOC_ENABLE) != nil {
			w.Number = 0
		}
		sleepUntil(state.Opened + uint64(r.Length))
	}
	ioctlAll(a.events, unix.PERF_EVENT_IOC_DISABLE) // one that goes on counts nothing until the next window
	state.Closed = monotonic()
	state.Open, state.Hit = 0, state.Closed
	ended := make(chan error, 1)
	go func() { ended <- waited.Close() }() // which waits too, at the same time
	err = errors.Join(err, set(), l.Close())
	end := monotonic()
	if err = errors.Join(err, <-ended); err != nil {
		return nil, err
	}
	w.Attach, w.Open = time.Duration(state.Opened-start), time.Duration(state.Closed-state.Opened)
	w.Armed, w.Detach = time.Duration(end-start), time.Duration(end-state.Closed)
	for i := range r.Offs {
		n, err := a.counted(i)
		if err != nil {
			return nil, err
		}
		w.Hits, w.Taken = append(w.Hits, n.Hits), append(w.Taken, n.Taken)
	}
	after, sum, err := a.ran(state.Opened, state.Closed)
	w.All, w.Time, w.Total = after-hits, sum[0], sum[1]
	if w.Number != 0 {
		w.Sampling = w.Time * meanwhileCost / meanwhilePeriod
	}
	return w, err
}

// meanwhilePeriod is the time between two samples of a processor while a window is open, and meanwhileCost what each takes there: a
// loop was slower by 0.17 with one every 97 us (Linux 6.18, a virtual machine with two processors).
const meanwhilePeriod, meanwhileCost = 197 * time.Microsecond, 14 * time.Microsecond

// look opens what samples while windows are open, on the processors that there are.
func (a *armer) look() (err error) {
	online, err := cpus()
	if err != nil || slices.Equal(online, a.online) {
		return err
	}
	for _, fd := range a.events {
		unix.Close(fd)
	}
	a.events, a.online = nil, nil
	timer := perfEvent{typ: unix.PERF_TYPE_SOFTWARE, config: unix.PERF_COUNT_SW_CPU_CLOCK}
	for _, cpu := range online {
		fd, err := open(timer.attr(unix.PerfEventAttr{
			Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
			Sample:      uint64(meanwhilePeriod),
			Sample_type: unix.PERF_SAMPLE_IP,
			Bits:        unix.PerfBitDisabled,
		}), -1, cpu)
		if err != nil {
			return err
		}
		a.events = append(a.events, fd)
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, a.meanwhile.FD()); err != nil {
			return os.NewSyscallError("PERF_EVENT_IOC_SET_BPF", err)
		}
	}
	a.online = online
	return nil
}

// ran returns the hits so far, and the time of processes in a window that is
// over and in all.
func (a *armer) ran(opened, closed uint64) (hits uint64, sum [2]time.Duration, err error) {
	var each []processorTime
	now := monotonic()
	if err := a.processors.Lookup(uint32(0), &each); err != nil {
		return 0, sum, err
	}
	for _, p := range each {
		hits += p.Hits
		if p.Number == a.number {
			sum[0] += time.Duration(p.Window)
		}
		sum[1] += time.Duration(p.Total)
		if p.Runs == 0 || p.Since == 0 {
			continue
		}
		if from := max(p.Since, opened); from < closed { // it still runs what it ran in the window
			sum[0] += time.Duration(closed - from)
		}
		if p.Since < now {
			sum[1] += time.Duration(now - p.Since)
		}
	}
	return hits, sum, nil
}

const (
	countOurs      = 1
	countEveryones = 2
)

// sleepUntil does so in the kernel: the scheduler of Go may be late.
func sleepUntil(t uint64) {
	ts := unix.NsecToTimespec(int64(t))
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil) == unix.EINTR {
	}
}
