//go:build amd64 || arm64

package collect

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// callChain makes so many system calls (> 0) that do next to nothing, before each of them callLength additions, one after the other.
//
//go:noescape
func callChain(turns int)

// callCode is its code, and what follows.
//
//go:noescape
func callCode() *[callBytes]byte

const (
	callBytes = 2560 // of its code at most
	callTurns = 100  // at a time: as long as this thread lets no other goroutine stop it

	// heldFor is how long is measured at a time, heldPeriod the time between two samples. On a machine whose interrupts take 20 us,
	// calls seem quicker from 50 us on: a timer that is due anew when its interrupt returns is not due at random.
	heldFor    = 10 * time.Millisecond // of processor
	heldWithin = 3 * heldFor
	heldPeriod = 100 * time.Microsecond
	heldPages  = 4 // of the ring, which has room for 400 samples
)

// measureHeld finds out for how many cycles a timer's interrupts are held up where a system call returns: a timer samples a
// thread that makes some, and adds meanwhile, an addition in each cycle. What samples are at the return is to those at the additions as the
// cycles are. It returns what is to be added to what was seen before; nothing if that is not to be measured here.
func measureHeld() (saw returnsSeen) {
	chain, returns := callPlaces()
	if returns == 0 {
		return saw
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd, err := open(&unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample:      uint64(heldPeriod),
		Sample_type: unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CPU,
		Bits:        unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv | unix.PerfBitSampleIDAll | unix.PerfBitUseClockID,
		Clockid:     unix.CLOCK_MONOTONIC,
	}, 0, -1)
	if err != nil {
		return saw
	}
	defer unix.Close(fd)
	ring, err := newRing(fd, heldPages, false, -1)
	if err != nil {
		return saw
	}
	defer ring.close()
	begun := threadTime()
	for start := time.Now(); threadTime()-begun < heldFor && time.Since(start) < heldWithin; {
		callChain(callTurns)
		saw.calls += callTurns
	}
	recs, _ := ring.read() // what is malformed is no sample
	for _, rec := range recs {
		if rec.typ != typeSample {
			continue
		}
		r := reader{b: rec.body}
		switch ip := r.u64("ip"); {
		case r.err != nil:
		case ip == returns:
			saw.held++
		case ip >= chain && ip < returns:
			saw.added++
		}
	}
	return saw
}

// callPlaces finds where callChain begins and where its system call returns; 0 if there is none.
func callPlaces() (begin, returns uint64) {
	code := callCode()
	call := []byte{0x0f, 0x05}
	if runtime.GOARCH == "arm64" {
		call = binary.LittleEndian.AppendUint32(nil, 0xd4000001)
	}
	begin = uint64(uintptr(unsafe.Pointer(code)))
	if i := bytes.Index(code[:], call); i >= 0 {
		return begin, begin + uint64(i+len(call))
	}
	return begin, 0
}
