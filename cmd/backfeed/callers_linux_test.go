package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
	"backfeed/sample/collect"
)

// TestCallers records a Go program with enough of its stack to find the caller of
// every sample by Go's own tables, and holds the callers that profiles are made of
// to these. Of the stack they have but the frame pointers' chain and two words.
func TestCallers(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("elsewhere a procedure without a frame has its return address in a register")
	}
	bin := program(t, "callers")
	im := openImage(t, bin)
	c := &callerCheck{im: im, id: sample.ImageID{Build: im.Build, Path: bin}}
	for _, s := range recordStacks(t, bin, "3") {
		c.add(s)
	}
	all := float64(c.samples)
	t.Logf("%d samples with a known caller, %d without; callers right: by frame pointers %.2f %%, put right %.2f %%, and %.2f %% unknown then; return addresses of known calls %.2f %%",
		c.samples, c.unknown, 100*float64(c.chain)/all, 100*float64(c.corrected)/all, 100*float64(c.none)/all, 100*float64(c.calls)/all)
	if c.samples < 500 {
		t.Fatal("too few samples to tell")
	}
	if c.unknown > c.samples/20 || float64(c.calls) < 0.99*all {
		t.Error("the callers to compare with are themselves in doubt")
	}
	// Where a processor has no instructions for SHA-256, Go's assembly of it has a large frame, and data in the register of the frame
	// pointer: its caller is unknown, and said to be.
	if none := float64(c.none); none > 0.05*all || float64(c.corrected) < 0.99*(all-none) {
		t.Error("want 99 % right of those that are known, and 95 % known")
	}
}

// TestRecordCallers: of a machine, the callers of Go's code are recorded unless all or none are asked for.
func TestRecordCallers(t *testing.T) {
	wholeMachine(t)
	if u := collect.Callers.Refusal(collect.ThisHost()); u != nil {
		t.Skip(u)
	}
	exe := runBusy(t)
	other := exec.Command("sh", "-c", "while :; do :; done")
	if err := other.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { other.Process.Kill(); other.Wait() })
	sh, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", other.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		flag         string
		ofGo, ofElse bool
	}{{"--callers=go", true, false}, {"--callers", true, true}, {"--callers=no", false, false}} {
		ofGo, ofElse := 0, 0
		recordOf(t, func(c *sample.Counts) bool {
			for _, s := range c.Stacks {
				switch c.Images[s.Frames[0].Image].ID.Path {
				case exe:
					ofGo++
				case sh:
					ofElse++
				}
			}
			return hasImage(exe)(c) && hasImage(sh)(c)
		}, "-a", "-d", "1s", tt.flag)
		if (ofGo > 0) != tt.ofGo || (ofElse > 0) != tt.ofElse {
			t.Errorf("%s: %d callers of Go, %d of others", tt.flag, ofGo, ofElse)
		}
	}
}

// A callerCheck compares the callers of samples with those that the stack holds.
type callerCheck struct {
	im *image.Image
	id sample.ImageID

	samples   int // whose caller is known
	unknown   int // the others
	calls     int // samples whose caller is a known call instruction
	chain     int // right by frame pointers
	corrected int // right in the stacks of a Profile
	none      int // unknown there
}

// add takes in a sample. The program lies where it was linked to, so an address is
// a PC.
func (c *callerCheck) add(s stackSample) {
	if c.im.Find(image.Addr(s.ip)) < 0 {
		return // vdso
	}
	at, known := c.im.ReturnAt(image.Addr(s.ip))
	place := at.Off
	if at.Frame {
		place += int64(s.bp - s.sp)
	}
	if !known || place < 0 || max(place+8, 16) > int64(len(s.stack)) {
		c.unknown++
		return
	}
	want := binary.LittleEndian.Uint64(s.stack[place:])
	c.samples++
	if c.isCall(image.Addr(want)) {
		c.calls++
	}
	if len(s.chain) > 1 && s.chain[1] == want {
		c.chain++
	}

	counts := sample.NewCounts(sample.CPU{}, sample.Event{})
	i := counts.Image(c.id)
	frame := func(pc uint64) sample.Frame {
		if off, ok := c.im.OffsetOf(image.Addr(pc)); ok && c.im.Find(image.Addr(pc)) >= 0 {
			return sample.Frame{Image: i, Off: off}
		}
		return sample.Frame{Image: sample.Unknown}
	}
	var frames []sample.Frame
	for _, pc := range s.chain {
		frames = append(frames, frame(pc))
	}
	top := frame(binary.LittleEndian.Uint64(s.stack))
	if top.Image == sample.Unknown {
		top = frame(binary.LittleEndian.Uint64(s.stack[8:]))
	}
	counts.AddStackTop(frames, top, 1)
	p := infer.Profile{Images: []*infer.ImageProfile{{ID: c.id, Image: c.im}}}
	switch got := p.Stacks(counts)[0].Frames; {
	case len(got) < 2 || got[1].Image == sample.Unknown:
		c.none++
	case got[1] == frame(want):
		c.corrected++
	}
}

// isCall reports whether a call instruction returns to a.
func (c *callerCheck) isCall(a image.Addr) bool {
	i := c.im.Find(a - 1)
	if i < 0 {
		return false
	}
	p, err := c.im.Proc(i)
	if err != nil {
		return false
	}
	for _, call := range p.Calls {
		if call.Return == a {
			return true
		}
	}
	return false
}

// A stackSample is a sample with registers and the stack from the stack pointer on.
type stackSample struct {
	ip, sp, bp uint64
	chain      []uint64 // the sampled instruction, then what frame pointers lead to
	stack      []byte
}

// perfAttr is struct perf_event_attr of include/uapi/linux/perf_event.h, up to
// PERF_ATTR_SIZE_VER5.
type perfAttr struct {
	typ, size                            uint32
	config, period, sampleType, read     uint64
	bits                                 uint64
	wakeup, breakpoint                   uint32
	config1, config2, branches, regsUser uint64
	stackUser                            uint32
	clock                                int32
	regsIntr                             uint64
	aux                                  uint32
	maxStack, _                          uint16
}

const (
	ringPages    = 128
	stackBytes   = 4096 // most frames of Go are smaller
	headAt       = 1024 // of struct perf_event_mmap_page: up to where the kernel has written
	tailAt       = 1032 // up to where we have read
	recordSample = 9
	contextUser  = ^uint64(512 - 1)
)

// recordStacks runs a command and samples it.
func recordStacks(t *testing.T, argv ...string) []stackSample {
	t.Helper()
	attr := &perfAttr{
		typ: 1, config: 0, // software, cpu-clock
		period:     1_000_003,                // ns
		sampleType: 1 | 1<<5 | 1<<12 | 1<<13, // IP, CALLCHAIN, REGS_USER, STACK_USER
		// disabled, inherit, exclude_kernel, exclude_hv, enable_on_exec, exclude_callchain_kernel
		bits:      1 | 1<<1 | 1<<5 | 1<<6 | 1<<12 | 1<<21,
		regsUser:  1<<6 | 1<<7, // rbp, rsp
		stackUser: stackBytes,
		maxStack:  8,
	}
	attr.size = uint32(unsafe.Sizeof(*attr))
	runtime.LockOSThread() // the child is this thread's
	defer runtime.UnlockOSThread()
	var rings [][]byte
	for cpu := range runtime.NumCPU() {
		const thisThread, noGroup, closeOnExec = 0, -1, 1 << 3
		group := noGroup
		fd, _, errno := syscall.Syscall6(syscall.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(attr)), thisThread, uintptr(cpu), uintptr(group), closeOnExec, 0)
		if errno != 0 {
			t.Skipf("this machine does not sample: %v", errno)
		}
		defer syscall.Close(int(fd))
		ring, err := syscall.Mmap(int(fd), 0, (1+ringPages)*os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
		if err != nil {
			t.Skipf("no memory for samples: %v", err)
		}
		defer syscall.Munmap(ring)
		rings = append(rings, ring)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var samples []stackSample
	for running := true; running; {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			running = false
		case <-time.After(20 * time.Millisecond):
		}
		for _, ring := range rings {
			samples = readStacks(samples, ring)
		}
	}
	return samples
}

// readStacks takes the samples out of a ring: struct perf_event_mmap_page and
// perf_event_header of include/uapi/linux/perf_event.h.
func readStacks(samples []stackSample, ring []byte) []stackSample {
	head, tail := (*uint64)(unsafe.Pointer(&ring[headAt])), (*uint64)(unsafe.Pointer(&ring[tailAt]))
	data := ring[os.Getpagesize():]
	at := func(pos uint64, n int) []byte {
		out := make([]byte, n)
		k := copy(out, data[pos%uint64(len(data)):])
		copy(out[k:], data)
		return out
	}
	for end := atomic.LoadUint64(head); *tail < end; {
		header := at(*tail, 8)
		size := binary.LittleEndian.Uint16(header[6:])
		b := at(*tail, int(size))[8:]
		atomic.StoreUint64(tail, *tail+uint64(size))
		if binary.LittleEndian.Uint32(header) != recordSample {
			continue
		}
		u64 := func() uint64 {
			v := binary.LittleEndian.Uint64(b)
			b = b[8:]
			return v
		}
		s := stackSample{ip: u64()}
		for n := u64(); n > 0; n-- {
			if pc := u64(); pc != contextUser {
				s.chain = append(s.chain, pc)
			}
		}
		if u64() == 0 { // no registers: the thread had left user mode for good
			continue
		}
		s.bp, s.sp = u64(), u64()
		if n := u64(); n > 0 {
			s.stack = b[:n]
			b = b[n:]
			s.stack = s.stack[:u64()]
		}
		samples = append(samples, s)
	}
	return samples
}
