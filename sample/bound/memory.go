package bound

import (
	"context"
	"fmt"
	"math"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// lookEvery is how many bytes readers draw between two looks at the heap, which take
// a microsecond. Larger requests are looked at each.
const lookEvery = 16 << 20

var drawn atomic.Int64 // since the last look

// Memory reports whether the process has n more bytes, which it is about to allocate.
//
// The heap is measured rather than counted, so that what readers and all that comes
// after them hold is in it. GOMEMLIMIT alone does not do it: the runtime collects more
// often near that limit, and goes on beyond it.
func Memory(n int64) error {
	if n < lookEvery {
		if drawn.Add(n) < lookEvery {
			return nil
		}
		drawn.Store(0)
	}
	return within(n, limit())
}

// within reports whether the heap and n bytes more are no more than limit.
func within(n, limit int64) error {
	if n <= limit-heap() {
		return nil
	}
	runtime.GC() // garbage may be half of it
	if used := heap(); n > limit-used {
		return fmt.Errorf("%s of memory are used, and %s more are too much for this machine or its limits (%s): %w", Bytes(used), Bytes(n), Bytes(limit), ErrBeyond)
	}
	return nil
}

// Used is the memory that the runtime has of the system and uses, in bytes: its objects, dead ones
// included, stacks, and what it needs for itself.
func Used() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64() - s[2].Value.Uint64())
}

// Most is what Memory gives out in all, in bytes.
func Most() int64 { return limit() }

// watchEvery is how often Watch looks, which takes microseconds.
const watchEvery, watchAgain = 100 * time.Millisecond, time.Second // the second after garbage was collected for it

// Watch returns a context that ends with ctx, and when this process uses more than most bytes, or
// more than Memory gives out. Its cause wraps ErrBeyond then. The function ends it, too.
func Watch(ctx context.Context, most int64) (context.Context, context.CancelFunc) {
	most = min(most, Most())
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if Used() <= most {
				continue
			}
			runtime.GC() // garbage may be most of it
			if used := Used(); used > most {
				cancel(fmt.Errorf("%s of memory are used, which is more than %s: %w", Bytes(used), Bytes(most), ErrBeyond))
			}
			tick.Reset(watchAgain) // collecting is not free
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// heap is the memory of objects, dead ones included until they are swept.
func heap() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// limit is what the heap may grow to: 3/4 of the least of what the machine has
// available, the limit of the control group, that of the address space, and
// GOMEMLIMIT. The rest is for stacks, pages of files, and other processes. As dead
// objects may be as much again, the runtime is told to collect early enough.
var limit = sync.OnceValue(func() int64 {
	most := min(available("/proc/meminfo"), controlGroup("/proc/self/cgroup", "/sys/fs/cgroup"), addressSpace())
	most = min(most-most/4, debug.SetMemoryLimit(-1))
	debug.SetMemoryLimit(most)
	return most
})

// available is the memory that can be had without swapping (proc(5)).
func available(meminfo string) int64 {
	b, _ := os.ReadFile(meminfo)
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "MemAvailable:" {
			if kib, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				return kib << 10
			}
		}
	}
	return math.MaxInt64
}

// controlGroup is the least limit of our control group and those that it is in, of
// version 2 (Documentation/admin-guide/cgroup-v2.rst) or 1 (cgroup-v1/memory.rst).
func controlGroup(own, root string) int64 {
	least := int64(math.MaxInt64)
	b, _ := os.ReadFile(own)
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3) // ID, controllers, path
		if len(f) < 3 {
			continue
		}
		dir, mount, file := f[2], root, "memory.max"
		if slices.Contains(strings.Split(f[1], ","), "memory") {
			mount, file = path.Join(root, "memory"), "memory.limit_in_bytes"
		} else if f[0] != "0" {
			continue
		}
		for ; strings.HasPrefix(dir, "/"); dir = path.Dir(dir) {
			text, _ := os.ReadFile(path.Join(mount, dir, file))
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
				least = min(least, n)
			}
			if dir == "/" {
				break
			}
		}
	}
	return least
}
