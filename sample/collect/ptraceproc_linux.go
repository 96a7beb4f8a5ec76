//go:build amd64 || arm64

package collect

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A procFile is one below /proc that is read again and again.
type procFile struct {
	fd   int // plus 1; 0 is none
	path string
	buf  [512]byte
}

func (f *procFile) open(path string) {
	f.path = path
	if fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		f.fd = fd + 1
	}
}

func (f *procFile) close() {
	if f.fd > 0 {
		unix.Close(f.fd - 1)
	}
	f.fd = 0
}

// read returns its start, which the next read changes. A process may have more threads than this one may open
// files.
func (f *procFile) read() []byte {
	if f.fd == 0 {
		b, _ := os.ReadFile(f.path)
		return b
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_PREAD64, uintptr(f.fd-1), uintptr(unsafe.Pointer(&f.buf)), uintptr(len(f.buf)), 0, 0, 0)
	if errno != 0 {
		return nil
	}
	return f.buf[:n]
}

// schedule reads "RUN WAITED SLICES".
func (th *tracee) schedule() (s schedState, ok bool) {
	var field [3]uint64
	i := 0
	for _, c := range th.sched.read() {
		switch {
		case c >= '0' && c <= '9':
			field[i] = 10*field[i] + uint64(c-'0')
		case c == ' ' && i < 2:
			i++
		}
	}
	return schedState{field[0], field[2]}, i == 2
}

// state reads a thread's state: 'R' if it runs or waits for a processor.
func (th *tracee) state() byte {
	b := th.stat.read()
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] == ')' && i+2 < len(b) { // the name before it may hold anything
			return b[i+2]
		}
	}
	return 'X'
}

// processOf reads which process a thread is of, and that one's parent.
func processOf(tid int) (pid, parent int) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	return cmp.Or(statusField(string(b), "Tgid"), tid), statusField(string(b), "PPid")
}

// tracerOf reads which thread traces another; 0 is none.
func tracerOf(tid int) int {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	return statusField(string(b), "TracerPid")
}

// statusField reads a number of a /proc/PID/status: the first of several.
func statusField(status, name string) int {
	_, rest, _ := strings.Cut(status, "\n"+name+":\t")
	line, _, _ := strings.Cut(rest, "\n")
	first, _, _ := strings.Cut(line, "\t")
	n, _ := strconv.Atoi(first)
	return n
}
