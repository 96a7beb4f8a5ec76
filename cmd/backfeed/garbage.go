package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"

	"backfeed/sample/bound"
)

// What an inference allocates it mostly keeps, but a pass over an image of hundreds of MB keeps next to nothing of gigabytes, while
// half a gigabyte is in use: 150 % of that would be dead before it is collected. So the heap may grow by so many bytes at most
// between two collections; where much more than that is in use, by leastGarbage of it, as each costs as much as there is in use.
const (
	mostGarbage  = 192 << 20
	leastGarbage = 25 // percent
)

// The runtime asks for no huge pages (golang/go#61718), and most distributions give them to those alone that ask. So the heap begins with hugeHeap bytes of
// addresses that asked: it takes a fault for each 2 MB of them that it uses, instead of each 4 KB. What faults take is a fourth of an inference where
// a hypervisor has page tables of its own. Nothing of it is touched before.
const hugeHeap = 512 << 20

// garbage is how far the heap may grow between two collections, in percent of what is in use, and what the runtime was told of it.
var garbage struct {
	watch sync.Once
	most  atomic.Int64
	mu    sync.Mutex
	told  int
}

// boundGarbage lets the heap grow by so many percent between two collections, and by mostGarbage, unless the user has said how far.
func boundGarbage(percent int) {
	if os.Getenv("GOGC") != "" {
		return
	}
	garbage.most.Store(int64(percent))
	garbage.watch.Do(func() {
		forHugePages(min(hugeHeap, bound.Most()/4))
		runtime.GC() // of it, which is dead; there is hardly anything else yet
		watchGarbage()
	})
	tellGarbage()
}

// watchGarbage has the runtime told anew after each collection, of which it learns by something that is dead from the beginning.
func watchGarbage() {
	type dead struct{ _ *int }
	runtime.AddCleanup(new(dead), func(struct{}) {
		tellGarbage()
		watchGarbage()
	}, struct{}{})
}

func tellGarbage() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	percent := garbagePercent(int(garbage.most.Load()), live[0].Value.Uint64())
	garbage.mu.Lock()
	defer garbage.mu.Unlock()
	if percent != garbage.told {
		garbage.told = percent
		debug.SetGCPercent(percent)
	}
}

// garbagePercent is how many percent of the live bytes the heap may grow by, at most by so many.
func garbagePercent(most int, live uint64) int {
	return min(most, max(leastGarbage, int(100*mostGarbage/max(live, 1))))
}
