package store

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"backfeed/sample"
	"backfeed/sample/store/s3"
)

var (
	scale      = flag.Bool("scale", false, "measure what a fleet costs: see testdata/fleet/README.md")
	recordings = flag.String("recordings", "../../testdata/mix/samples.bfr", "of real programs, which TestScale makes a fleet's of: a `pattern`")
)

// perturbed returns what another host would have seen of a program in the same time: each place as often as chance has it, and
// all of them more or less often.
func perturbed(rnd *rand.Rand, rec *sample.Recording, share float64) *sample.Recording {
	out := &sample.Recording{}
	for _, c := range rec.Counts {
		to := sample.NewCounts(c.CPU, c.Event)
		for _, ic := range c.Images {
			at := to.Image(ic.ID)
			for off, n := range ic.At {
				if k := poisson(rnd, share*float64(n)); k > 0 {
					to.AddSample(at, off, k)
				}
			}
		}
		out.Add(to)
	}
	return out
}

// poisson draws a number with that mean.
func poisson(rnd *rand.Rand, mean float64) uint64 {
	if mean > 30 {
		return uint64(max(0, math.Round(mean+math.Sqrt(mean)*rnd.NormFloat64())))
	}
	u, sum, term := rnd.Float64(), math.Exp(-mean), math.Exp(-mean) // by inversion
	var n uint64
	for u > sum && n < 200 {
		n++
		term *= mean / float64(n)
		sum += term
	}
	return n
}

// A spent is what something took.
type spent struct {
	s3.Traffic
	cpu   time.Duration
	alloc uint64 // bytes allocated in all
}

// measure runs f on a store of its own.
func measure(t *testing.T, address string, f func(b *Bucket)) spent {
	b := openBucket(t, address, s3.Options{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu := processorTime()
	f(b)
	runtime.ReadMemStats(&after)
	return spent{b.Traffic(), processorTime() - cpu, after.TotalAlloc - before.TotalAlloc}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// slope returns the exponent b of y = a x^b by least squares of logarithms.
func slope(x, y []float64) float64 {
	var sx, sy, sxx, sxy float64
	for i := range x {
		a, b := math.Log(x[i]), math.Log(max(y[i], 1))
		sx, sy, sxx, sxy = sx+a, sy+b, sxx+a*a, sxy+a*b
	}
	n := float64(len(x))
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}

// TestScale measures what it takes to merge what hosts have sent, and to read one image, as functions of hosts and days. The processor time
// is that of the server, too, which runs in this process.
func TestScale(t *testing.T) {
	if !*scale {
		t.Skip("it takes minutes; -scale asks for it")
	}
	files, err := filepath.Glob(*recordings)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no recordings: %v", *recordings, err)
	}
	var programs []*sample.Recording
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if rec, err := sample.Decode(data); err == nil && rec.Samples() > 0 {
			programs = append(programs, rec)
		}
	}
	var image sample.ImageID // that all hosts run
	for id, n := range programs[0].ByImage() {
		if !id.Build.IsZero() && n > programs[0].Samples()/2 {
			image = id
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%d programs; all hosts run %s\n", len(programs), filepath.Base(image.Path))
	fmt.Fprintln(&table, "| hosts | days | segments | bytes put | read, as put: requests, KB | compact: requests, KB read, KB written, s | read one image: requests, KB, ms, MB allocated | all bytes after |")
	fmt.Fprintln(&table, "| --- | --- | --- | --- | --- | --- | --- | --- |")
	const perDay = 24
	type row struct{ hosts, days, read, requests, ms, mem, compact, puts float64 }
	var rows []row
	for _, of := range [][2]int{{4, 1}, {8, 1}, {16, 1}, {32, 1}, {64, 1}, {8, 2}, {8, 4}, {8, 7}} {
		hosts, days := of[0], of[1]
		address := serveBucket(t)
		rnd := rand.New(rand.NewPCG(uint64(hosts), uint64(days)))
		put := measure(t, address, func(b *Bucket) {
			for day := range days {
				for hour := range perDay {
					for range hosts {
						rec := perturbed(rnd, programs[0], 0.02)
						for range 2 {
							rec = sample.Merge(rec, perturbed(rnd, programs[rnd.IntN(len(programs))], 0.02))
						}
						e := sample.EpochAt(time.Date(2026, 11, 1+day, hour, 0, 0, 0, time.UTC), time.Hour)
						if err := b.Put(e, rec, nil); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
		})
		q := Query{Images: []sample.ImageID{image}}
		var before, after *sample.Recording
		raw := measure(t, address, func(b *Bucket) { before, err = b.Read(q) })
		if err != nil {
			t.Fatal(err)
		}
		compact := measure(t, address, func(b *Bucket) {
			if _, err := b.CompactAs(time.Time{}, Compaction{Into: 24 * time.Hour}); err != nil {
				t.Fatal(err)
			}
		})
		read := measure(t, address, func(b *Bucket) { after, err = b.Read(q) })
		if err != nil || string(before.Encode()) != string(after.Encode()) {
			t.Fatalf("%d hosts, %d days: not the same after compaction: %v", hosts, days, err)
		}
		st, err := openBucket(t, address, s3.Options{}).Stats()
		if err != nil {
			t.Fatal(err)
		}
		ask := func(s spent) uint64 { return s.Gets + s.Puts + s.Lists + s.Deletes }
		fmt.Fprintf(&table, "| %d | %d | %d | %d | %d, %d | %d, %d, %d, %.2f | %d, %d, %.0f, %.1f | %d |\n", hosts, days, put.Puts, put.Written, ask(raw), raw.Read>>10,
			ask(compact), compact.Read>>10, compact.Written>>10, compact.cpu.Seconds(), ask(read), read.Read>>10, 1e3*read.cpu.Seconds(), float64(read.alloc)/(1<<20), st.Bytes)
		rows = append(rows, row{float64(hosts), float64(days), float64(read.Read), float64(ask(read)), 1e3 * read.cpu.Seconds(), float64(read.alloc), compact.cpu.Seconds() * 1e3, float64(put.Written)})
	}
	for _, by := range []string{"hosts", "days"} {
		var x []float64
		var cols [6][]float64
		for _, r := range rows {
			if by == "days" && r.hosts != 8 || by == "hosts" && r.days != 1 {
				continue
			}
			if by == "hosts" {
				x = append(x, r.hosts)
			} else {
				x = append(x, r.days)
			}
			for i, v := range []float64{r.puts, r.compact, r.read, r.requests, r.ms, r.mem} {
				cols[i] = append(cols[i], v)
			}
		}
		fmt.Fprintf(&table, "exponent of %s: bytes put %.2f, time of compaction %.2f; of reading: bytes %.2f, requests %.2f, time %.2f, memory %.2f\n", by,
			slope(x, cols[0]), slope(x, cols[1]), slope(x, cols[2]), slope(x, cols[3]), slope(x, cols[4]), slope(x, cols[5]))
	}
	t.Log("\n" + table.String())
}
