//go:build unix

package terminal

import (
	"os"
	"syscall"
	"unsafe"
)

// terminalWidth asks a terminal how many characters fit its lines; 0 is unknown.
func terminalWidth(f *os.File) int {
	var size struct{ rows, columns, x, y uint16 } // struct winsize of <sys/ioctl.h>
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	if errno != 0 {
		return 0
	}
	return int(size.columns)
}
