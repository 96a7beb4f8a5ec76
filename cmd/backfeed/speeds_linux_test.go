package main

import (
	"cmp"
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"backfeed/infer/image"
	"backfeed/infer/truth"
	"backfeed/internal/testtool"
	"backfeed/sample/collect"
	"backfeed/sample/trace"
)

// A speedMark is a place that a walk passed through a few times: code, or a byte of memory that was written once.
type speedMark struct {
	op    uint32 // 0: memory
	addr  uint64
	steps []int // instructions before each time
}

const (
	speedMarks = 4 // debug registers
	// A hit takes as long as tens of thousands of instructions, so a mark that is hit once more is worth as much as
	// one that is so far from where it is wanted.
	speedHitWorth = 10_000
	speedTimes    = 3 // that code is passed through at most
	// Between two hits, a thread that waited for longer was not alone with its caches.
	speedWaited = 20 * time.Microsecond
)

// speedCode returns code that the walk passed through a few times, the first operation of each piece.
func speedCode(l *trace.Long) (all []speedMark) {
	type run struct{ from, to uint32 }
	var runs []run
	from := l.Start
	l.Branches(func(_ int, b trace.Branch) bool {
		runs = append(runs, run{from, b.Op})
		from = b.To
		return !b.Guessed
	})
	starts := map[uint32]int{} // index into order
	for _, r := range runs {
		starts[r.from] = 0
	}
	order := slices.Sorted(maps.Keys(starts))
	for i, s := range order {
		starts[s] = i
	}
	steps := make([][]int, len(order))
	step := 0
	for _, r := range runs {
		for i := starts[r.from]; i < len(order) && order[i] <= r.to; i++ {
			if len(steps[i]) <= speedTimes {
				steps[i] = append(steps[i], step+int(order[i]-r.from))
			}
		}
		step += int(r.to-r.from) + 1
	}
	for i, s := range order {
		if len(steps[i]) <= speedTimes {
			all = append(all, speedMark{op: s, steps: steps[i]})
		}
	}
	return all
}

// speedStores returns words of memory that the walk wrote once.
func speedStores(c *trace.Code, l *trace.Long) (all []speedMark) {
	after, from := []int{0}, []uint32{l.Start} // by branches before: instructions, and the operation that ran next
	l.Branches(func(at int, b trace.Branch) bool {
		after, from = append(after, at+1), append(from, b.To)
		return !b.Guessed
	})
	type word struct {
		speedMark
		times int
	}
	words := map[uint64]*word{}
	var order []*word
	l.Accesses(func(a trace.Access) bool {
		if !a.Store || !a.Known {
			return true
		}
		if a.After >= len(after) {
			return false
		}
		const most = 64 // bytes that an instruction writes
		size := uint64(c.Ops[a.Op].Size)
		if size == 0 || size > most {
			size = most
		}
		for at := a.Addr / 8; at <= (a.Addr+size-1)/8; at++ {
			w := words[at]
			if w == nil {
				w = &word{speedMark{addr: max(a.Addr, at*8), steps: []int{after[a.After] + int(a.Op-from[a.After])}}, 0}
				words[at] = w
				order = append(order, w)
			}
			w.times++
		}
		return true
	})
	for _, w := range order {
		if w.times == 1 {
			all = append(all, w.speedMark)
		}
	}
	return all
}

// speedChoice returns marks near some shares of a walk.
func speedChoice(all []speedMark, steps int) (marks []speedMark) {
	for _, share := range [speedMarks]float64{.15, .98, .4, .7} {
		want, best, least := int(share*float64(steps)), -1, math.MaxInt
		for i := range all {
			if slices.ContainsFunc(marks, func(m speedMark) bool { return m.near(&all[i], steps/30) }) {
				continue
			}
			for _, s := range all[i].steps {
				if off := max(s-want, want-s) + speedHitWorth*(len(all[i].steps)-1); off < least {
					best, least = i, off
				}
			}
		}
		if best >= 0 {
			marks = append(marks, all[best])
		}
	}
	return marks
}

// near reports whether two marks are hit within so many instructions.
func (m *speedMark) near(o *speedMark, apart int) bool {
	for _, a := range m.steps {
		for _, b := range o.steps {
			if max(a-b, b-a) < apart {
				return true
			}
		}
	}
	return false
}

// A speedPoint is a perf event for a breakpoint of one thread, as collect has them, but of memory too.
type speedPoint struct {
	fd   int
	ring []byte
	want int
}

const speedBatch = 4096 // bytes of a ring, and of the page before it

func setSpeedPoint(tid int, addr uint64, store bool, want int) (*speedPoint, error) {
	kind, size := uint32(4), uint64(8) // HW_BREAKPOINT_X, sizeof(long)
	if store {
		kind, size = 2, 1 // HW_BREAKPOINT_W
	}
	fd, err := unix.PerfEventOpen(&unix.PerfEventAttr{
		Type: unix.PERF_TYPE_BREAKPOINT, Bp_type: kind, Ext1: addr, Ext2: size,
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Sample: 1,
		Sample_type: unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_READ,
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED,
		Bits:        unix.PerfBitDisabled | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv | unix.PerfBitUseClockID,
		Clockid:     unix.CLOCK_MONOTONIC,
	}, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("perf_event_open", err)
	}
	p := &speedPoint{fd: fd, want: want}
	if p.ring, err = unix.Mmap(fd, 0, 2*speedBatch, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		// The hit at which it is removed takes longer: that is one more than are wanted.
		err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_REFRESH, want+1)
	}
	if err != nil {
		p.remove()
		return nil, err
	}
	return p, nil
}

// A speedHit is one hit, in ns.
type speedHit struct{ mark, step, used, waited int }

// hits returns those of mark i so far.
func (p *speedPoint) hits(i int) (all []speedHit) {
	head := atomic.LoadUint64((*uint64)(unsafe.Pointer(&p.ring[unsafe.Offsetof(unix.PerfEventMmapPage{}.Data_head)])))
	for b := p.ring[speedBatch:][:min(head, speedBatch)]; len(b) >= 8; {
		n := int(binary.NativeEndian.Uint16(b[6:]))
		if n < 8 || n > len(b) {
			break
		}
		if binary.NativeEndian.Uint32(b) == unix.PERF_RECORD_SAMPLE && n >= 8+3*8 {
			at, used := int(binary.NativeEndian.Uint64(b[8:])), int(binary.NativeEndian.Uint64(b[24:]))
			all = append(all, speedHit{mark: i, used: used, waited: at - used})
		}
		b = b[n:]
	}
	return all
}

// speedHitCost returns what a hit takes: the time between two of this thread, which does nothing in between.
func speedHitCost(t *testing.T) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const times = 64
	p, err := setSpeedPoint(0, uint64(reflect.ValueOf(speedHere).Pointer()), false, times)
	if err != nil {
		t.Skip(err)
	}
	defer p.remove()
	for range times {
		speedHere()
	}
	hits := p.hits(0)
	var took []int
	for i := 1; i < len(hits); i++ {
		took = append(took, hits[i].used-hits[i-1].used)
	}
	if len(took) == 0 {
		t.Skip("breakpoints are not hit here")
	}
	slices.Sort(took)
	return time.Duration(took[len(took)/2])
}

//go:noinline
func speedHere() {}

func (p *speedPoint) remove() {
	if p.ring != nil {
		unix.Munmap(p.ring)
	}
	unix.Close(p.fd)
}

// A speedWalk is a walk and when its thread passed through marks.
type speedWalk struct {
	start  speedProc
	steps  int
	passed map[uint32]float64 // executions of branches, by operation
	first  []speedPrefix      // of its first instructions, by speedProgram.lengths
	marks  []speedMark
	points []*speedPoint
	hits   []speedHit // where they are those that the walk said
	differ bool       // they are not
}

// A speedPrefix is the beginning of a walk.
type speedPrefix struct {
	steps  int
	passed map[uint32]float64
}

// prefixes returns the beginnings of a walk of such lengths, which are by size.
func prefixes(l *trace.Long, lengths []int) (all []speedPrefix) {
	for _, n := range lengths {
		of := speedPrefix{min(n, l.Steps), map[uint32]float64{}}
		l.Branches(func(at int, b trace.Branch) bool {
			if b.Guessed || at >= n {
				return false
			}
			of.passed[b.Op]++
			return true
		})
		all = append(all, of)
	}
	return all
}

// A speedProc is a procedure.
type speedProc struct{ image, symbol int }

// take takes in the hits of a walk, and removes its breakpoints.
func (w *speedWalk) take() {
	var want, got []speedHit
	for i, p := range w.points {
		got = append(got, p.hits(i)...)
		for _, s := range w.marks[i].steps {
			want = append(want, speedHit{mark: i, step: s})
		}
		p.remove()
	}
	w.points = nil
	slices.SortFunc(want, func(a, b speedHit) int { return cmp.Compare(a.step, b.step) })
	slices.SortFunc(got, func(a, b speedHit) int { return cmp.Compare(a.used, b.used) })
	for i := range want {
		if i >= len(got) || got[i].mark != want[i].mark {
			w.differ = len(got) > 0
			return
		}
		want[i].used, want[i].waited = got[i].used, got[i].waited
	}
	w.hits = want
}

// A speedPart is what a thread ran between two hits.
type speedPart struct {
	from, steps int
	ns          float64
}

// parts returns them, less what a hit takes.
func (w *speedWalk) parts(hit time.Duration) (all []speedPart) {
	for i := 1; i < len(w.hits); i++ {
		a, b := w.hits[i-1], w.hits[i]
		if waited := time.Duration(b.waited - a.waited); max(waited, -waited) > speedWaited {
			continue
		}
		const least = .02 // ns that an instruction takes: more than ten in a cycle of 5 GHz
		all = append(all, speedPart{a.step, b.step - a.step, max(float64(b.used-a.used)-float64(hit), least*float64(b.step-a.step))})
	}
	return all
}

// speedOf returns the instructions in a ns of parts that begin after first; 0 where they are fewer than least.
func speedOf(parts []speedPart, first, least int) float64 {
	steps, ns := 0, 0.0
	for _, p := range parts {
		if p.from >= first {
			steps, ns = steps+p.steps, ns+p.ns
		}
	}
	if steps < least {
		return 0
	}
	return float64(steps) / ns
}

// A speedProgram is a program that is walked.
type speedProgram struct {
	t       *testing.T
	command []string
	exact   map[uint32]float64 // executions of branches, by operation
	insts   float64            // that it runs
	images  []*image.Image
	code    *trace.Code
	machine *trace.Machine
	space   trace.Space
	walks   []*speedWalk
	lengths []int // of beginnings of walks that are looked at by themselves
	least   int   // instructions of a walk
	hit     time.Duration
	refused error
}

// newSpeedProgram counts a program exactly, unless there are counts.
func newSpeedProgram(t *testing.T, command []string, counted string) *speedProgram {
	if counted == "" {
		testtool.Need(t, "valgrind")
		counted = filepath.Join(t.TempDir(), "counts")
		testtool.Output(t, "", append([]string{"valgrind", "-q", "--tool=callgrind", "--dump-instr=yes", "--collect-jumps=yes", "--dump-line=no", "--callgrind-out-file=" + counted}, command...)...)
	}
	return readSpeedProgram(t, command, counted)
}

// readSpeedProgram reads the exact counts of a program.
func readSpeedProgram(t *testing.T, command []string, from string) *speedProgram {
	f, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	counts, err := truth.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	p := &speedProgram{t: t, command: command, exact: map[uint32]float64{}}
	for _, it := range counts.Images {
		p.insts += float64(it.Total())
	}
	var code []trace.Image
	var counted []*truth.Image
	for _, path := range slices.Sorted(maps.Keys(counts.Images)) {
		it := counts.Images[path]
		const little = 0.002 // of all instructions
		if _, err := os.Stat(path); err != nil || float64(it.Total()) < little*p.insts {
			continue
		}
		im := openImage(t, path)
		p.images = append(p.images, im)
		code, counted = append(code, walkImage(path, im)), append(counted, it)
	}
	p.code = trace.NewCode(code)
	p.machine = trace.NewMachine(p.code)
	for op := range p.code.Ops {
		if !p.code.Ops[op].Kind.Branch() {
			continue
		}
		if i, off, ok := p.code.Offset(uint32(op)); ok {
			if a, ok := p.images[i].AddrOf(off); ok && counted[i].Insts[a] > 0 {
				p.exact[uint32(op)] = float64(counted[i].Insts[a])
			}
		}
	}
	return p
}

// time returns what the program takes of a processor when nothing stops it.
func (p *speedProgram) time() (ns float64) {
	cmd := exec.Command(p.command[0], p.command[1:]...)
	if err := cmd.Run(); err != nil {
		p.t.Fatal(err)
	}
	return float64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())
}

// A speedMemory is that of a stopped thread.
type speedMemory struct{ *collect.Stopped }

func (m speedMemory) Read(addr uint64, p []byte) bool { return m.Stopped.Read(addr, p) == len(p) }

// findSpace finds where the process has images mapped.
func (p *speedProgram) findSpace(s *collect.Stopped) {
	p.space = p.space[:0]
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", s.PID))
	for line := range strings.Lines(string(text)) {
		var lo, hi uint64
		var may string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &lo, &hi, &may); n != 3 || !strings.Contains(may, "x") {
			continue
		}
		m, ok := s.Mapping(lo)
		if !ok || m.Loss != "" {
			continue
		}
		for i, im := range p.images {
			if im.Build == m.Image.Build && p.code.Ranges[i].Hi != 0 {
				p.space = append(p.space, trace.Place{Lo: m.Start, Hi: m.End, Bias: m.Start - uint64(m.Off) - p.code.Ranges[i].Delta, Image: i})
			}
		}
	}
}

// ahead walks so many steps, and sets breakpoints.
func (p *speedProgram) ahead(s *collect.Stopped, steps int) {
	p.takeAll()
	st, err := s.State()
	if err != nil {
		return
	}
	p.findSpace(s)
	l, err := p.machine.Run(st, p.space, speedMemory{s}, trace.Limits{Steps: steps, Guesses: 16, Accesses: true})
	if err != nil || l.Steps < p.least {
		return
	}
	i, off, ok := p.code.Offset(l.Start)
	if !ok {
		return
	}
	a, _ := p.images[i].AddrOf(off)
	w := &speedWalk{start: speedProc{i, p.images[i].Find(a)}, steps: l.Steps, passed: map[uint32]float64{}, first: prefixes(l, p.lengths)}
	l.Branches(func(_ int, b trace.Branch) bool {
		if !b.Guessed {
			w.passed[b.Op]++
		}
		return !b.Guessed
	})
	w.marks = speedChoice(append(speedCode(l), speedStores(p.code, l)...), l.Steps)
	p.walks = append(p.walks, w)
	for _, m := range w.marks {
		addr := m.addr
		if m.op != 0 {
			addr = p.space.PC(p.code, m.op)
		}
		point, err := setSpeedPoint(s.TID, addr, m.op == 0, len(m.steps))
		if err != nil {
			p.refused = err
			return
		}
		w.points = append(w.points, point)
	}
}

// takeAll takes in the hits of walks before.
func (p *speedProgram) takeAll() {
	for i := len(p.walks) - 1; i >= 0 && p.walks[i].points != nil; i-- {
		p.walks[i].take()
	}
}

// walk walks the program until there are so many walks.
func (p *speedProgram) walk(many, steps int) {
	const runs = 200
	var costs []time.Duration // at one time, hits took 9 us, at another 13
	for run := 0; run < runs && len(p.walks) < many; run++ {
		costs = append(costs, speedHitCost(p.t))
		_, _, err := collect.Follow(p.t.Context(), collect.FollowOptions{
			Options: collect.Options{Command: p.command, MaxCPU: .4}, Longest: time.Second, Untimed: true,
			Ahead: func(s *collect.Stopped) collect.Ahead { p.ahead(s, steps); return collect.Ahead{} },
		})
		p.takeAll()
		if err != nil {
			p.t.Fatal(err)
		}
		if p.refused != nil {
			p.t.Skip(p.refused)
		}
	}
	slices.Sort(costs)
	p.hit = costs[len(costs)/2]
}

// overlap returns that of the executions of branches with the exact ones, by weights of walks.
func (p *speedProgram) overlap(weight func(i int) float64) (sum float64) {
	got := map[uint32]float64{}
	for i, w := range p.walks {
		for op, n := range w.passed {
			got[op] += weight(i) * n / float64(w.steps)
		}
	}
	all, allExact := 0.0, 0.0
	for _, n := range got {
		all += n
	}
	for _, n := range p.exact {
		allExact += n
	}
	for op, n := range p.exact {
		sum += min(n/allExact, got[op]/all)
	}
	return sum
}

// best returns the weights by procedure with which the walks are likeliest to be the exact counts, by
// expectation and maximization; about where the overlap is largest.
func (p *speedProgram) best() map[speedProc]float64 {
	by := map[speedProc]map[uint32]float64{}
	for _, w := range p.walks {
		if by[w.start] == nil {
			by[w.start] = map[uint32]float64{}
		}
		for op, n := range w.passed {
			by[w.start][op] += n / float64(w.steps)
		}
	}
	weight := map[speedProc]float64{}
	for proc := range by {
		weight[proc] = 1
	}
	for range 60 {
		got, all, allExact := map[uint32]float64{}, 0.0, 0.0
		for proc, passed := range by {
			for op, n := range passed {
				got[op] += weight[proc] * n
				all += weight[proc] * n
			}
		}
		for _, n := range p.exact {
			allExact += n
		}
		for proc, passed := range by {
			own, sum := 0.0, 0.0
			for op, n := range passed {
				own += n
				sum += n * p.exact[op] / allExact / (got[op] / all)
			}
			weight[proc] *= sum / max(own, 1e-300)
		}
	}
	return weight
}

// report says what the speeds of walks are, and what they are worth.
func (p *speedProgram) report(own float64, steps int) {
	t := p.t
	differ, timed, sum, squares := 0, 0, 0.0, 0.0
	const pieces = 4
	var piece [pieces][]float64
	var firsts, lasts []float64 // logs of speeds of two parts of a walk
	speeds := make([]float64, len(p.walks))
	byProc := map[speedProc][]float64{}
	for i, w := range p.walks {
		if w.differ {
			differ++
		}
		parts := w.parts(p.hit)
		for _, part := range parts {
			if part.steps >= steps/12 {
				k := min(pieces-1, part.from*pieces/steps)
				piece[k] = append(piece[k], float64(part.steps)/part.ns)
			}
		}
		warm := slices.DeleteFunc(slices.Clone(parts), func(p speedPart) bool { return p.from < steps/10 || p.steps < steps/8 })
		if n := len(warm); n > 1 {
			firsts, lasts = append(firsts, math.Log(speedOf(warm[:1], 0, 0))), append(lasts, math.Log(speedOf(warm[n-1:], 0, 0)))
		}
		if s := speedOf(parts, steps/10, steps/5); s > 0 {
			speeds[i] = s
			byProc[w.start] = append(byProc[w.start], s)
			timed, sum, squares = timed+1, sum+s, squares+s*s
		}
	}
	if timed < 20 {
		t.Skipf("%d of %d walks were timed, %d differ", timed, len(p.walks), differ)
	}
	n := float64(timed)
	mean := sum / n
	sd := math.Sqrt(max(0, squares/n-mean*mean))
	var told []string
	for _, all := range piece {
		if m, ok := meanOf(all); ok {
			told = append(told, fmt.Sprintf("%.2f", m/own))
		} else {
			told = append(told, "?")
		}
	}
	t.Logf("%d walks, %d timed, %d hit in another order; a hit takes %v; %.2f instructions a ns by exact counts", len(p.walks), timed, differ, p.hit, own)
	t.Logf("(a) of that, walks' mean is %.2f ± %.2f; by quarter of a walk in which a part begins %s", mean/own, sd/math.Sqrt(n)/own, strings.Join(told, ", "))
	t.Logf("(b) standard deviation %.2f of the mean; first and last part of a walk: correlation %.2f of logs (%d walks)", sd/mean, correlationOf(firsts, lasts), len(firsts))

	clamp := func(s float64) float64 { return min(max(s, mean/4), 4*mean) }
	ofProc := func(i int) float64 {
		all := append([]float64{mean}, byProc[p.walks[i].start]...)
		m, _ := meanOf(all)
		return m
	}
	best := p.best()
	t.Logf("(c) overlap: unweighted %.3f; by own speed %.3f; by mean speed of the procedure where it begins %.3f; by the best weights of %d procedures %.3f",
		p.overlap(func(int) float64 { return 1 }),
		p.overlap(func(i int) float64 {
			if speeds[i] == 0 {
				return ofProc(i)
			}
			return clamp(speeds[i])
		}),
		p.overlap(ofProc), len(best), p.overlap(func(i int) float64 { return best[p.walks[i].start] }))
	var powers []string
	for _, power := range []float64{0, .1, .2, .4, .7, 1} {
		powers = append(powers, fmt.Sprintf("%.3f by %g", p.overlap(func(i int) float64 {
			if speeds[i] == 0 {
				return math.Pow(mean, power)
			}
			return math.Pow(clamp(speeds[i]), power)
		}), power))
	}
	t.Logf("(d) overlap by a power of own speed: %s", strings.Join(powers, ", "))
	if differ > timed { // signals and switches of goroutines make a fourth of goldmark's differ
		t.Errorf("%d of %d walks were hit otherwise than they said", differ, timed+differ)
	}
}

func meanOf(all []float64) (mean float64, ok bool) {
	for _, x := range all {
		mean += x / float64(len(all))
	}
	return mean, len(all) > 0
}

func correlationOf(a, b []float64) float64 {
	ma, _ := meanOf(a)
	mb, _ := meanOf(b)
	var aa, bb, ab float64
	for i := range a {
		aa, bb, ab = aa+(a[i]-ma)*(a[i]-ma), bb+(b[i]-mb)*(b[i]-mb), ab+(a[i]-ma)*(b[i]-mb)
	}
	return ab / math.Sqrt(aa*bb)
}

var (
	speedCommands = flag.String("speeds", "", "time walks of these `commands`, separated by semicolons, instead of Debian's")
	speedSteps    = flag.Int("speed-steps", 200_000, "instructions of a walk that is timed")
	speedWalks    = flag.Int("speed-walks", 400, "walks of a program that is timed")
)

// TestSpeeds measures how fast programs are on walks, by breakpoints at code and at memory that a walk says are passed
// through after so many instructions of one resumption, and what that is worth as a weight of the walk: walks begin
// uniformly in time. It says so, and asserts only that threads go where walks say.
//
//	go test ./cmd/backfeed -run TestSpeeds -measure -v -timeout 30m
func TestSpeeds(t *testing.T) {
	testtool.Live(t, "stops programs and times walks")
	if !*measured {
		t.Skip("measures for minutes; give -measure to run it")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("long walks are of x86-64 only")
	}
	// callgrind knows no AVX-512: both runs are to choose the same routines.
	t.Setenv("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512CD,-AVX512DQ")
	t.Setenv("GODEBUG", "asyncpreemptoff=1,cpu.avx512f=off,cpu.rdtscp=off")
	t.Setenv("GOMAXPROCS", "1")
	var text strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&text, "%d %x the quick brown fox %d\n", i, i*i*i, i%97)
	}
	input := testtool.Write(t, t.TempDir(), "text", text.String())
	commands := []string{"bzip2 -9c " + input, "xz -3c " + input, "zstd -12 -c " + input, "sort " + input}
	if *speedCommands != "" {
		commands = strings.Split(*speedCommands, ";")
	}
	for _, c := range commands {
		command := strings.Fields(c)
		t.Run(filepath.Base(command[0]), func(t *testing.T) {
			testtool.Need(t, command[0])
			p := newSpeedProgram(t, command, "")
			p.least = *speedSteps / 4
			took := 0.0
			const times = 4
			for range times {
				took += p.time()
			}
			p.walk(*speedWalks, *speedSteps)
			for range times {
				took += p.time()
			}
			p.report(p.insts*2*times/took, *speedSteps)
		})
	}
}
