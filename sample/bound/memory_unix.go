//go:build unix

package bound

import (
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// addressSpace is what is left of the limit of the address space (ulimit -v), of which
// the runtime reserves a gigabyte at the start.
func addressSpace() int64 {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_AS, &r); err != nil || uint64(r.Cur) > math.MaxInt64/2 {
		return math.MaxInt64
	}
	b, _ := os.ReadFile("/proc/self/statm")
	size, _, _ := strings.Cut(string(b), " ")
	pages, _ := strconv.ParseInt(size, 10, 64)
	return max(0, int64(r.Cur)-pages*int64(os.Getpagesize()))
}
