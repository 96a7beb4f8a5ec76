package perfdata

import (
	"flag"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"
)

var large = flag.String("large", "", "recordings of perf for BenchmarkFile to read: `FILE,FILE`")

// BenchmarkFile reads recordings of perf, by one goroutine and by as many as there are processors:
//
//	go test ./sample/perfdata -run '^$' -bench File -large FILE,FILE
func BenchmarkFile(b *testing.B) {
	if *large == "" {
		b.Skip("no -large FILE")
	}
	for file := range strings.SplitSeq(*large, ",") {
		for _, procs := range []int{1, runtime.GOMAXPROCS(0)} {
			b.Run(fmt.Sprintf("%s/%d", filepath.Base(file), procs), func(b *testing.B) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				debug.FreeOSMemory()
				var samples uint64
				before, peak := processorTime(b), uint64(0)
				for b.Loop() {
					rec, err := ReadFile(file, Options{})
					if err != nil {
						b.Fatal(err)
					}
					samples += rec.Samples()
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					peak = max(peak, m.Sys-m.HeapReleased)
				}
				b.ReportMetric(float64(samples)/b.Elapsed().Seconds(), "samples/s")
				b.ReportMetric((processorTime(b)-before).Seconds()/float64(b.N), "cpu-s/op")
				b.ReportMetric(float64(peak)/1e6, "MB")
			})
		}
	}
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
