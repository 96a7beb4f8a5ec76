package store

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/store/s3"
)

var duration = flag.Duration("duration", 4*time.Second, "how long TestBucketKill kills writers and jobs that merge")

// The test binary is one of a fleet if this is set: "serve", "write N" or "merge I", with its directory or
// the bucket's address as arguments.
const fleetEnv = "BACKFEED_TEST_FLEET"

// fleet runs what the test binary is to be.
func fleet(role string) error {
	kind, number, _ := strings.Cut(role, " ")
	n, _ := strconv.Atoi(number)
	switch kind {
	case "serve":
		backend := s3mem.New()
		if err := backend.CreateBucket("fleet"); err != nil {
			return err
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Printf("s3://fleet/x?endpoint=http://%s\n", l.Addr())
		return http.Serve(l, gofakes3.New(backend, gofakes3.WithoutVersioning()).Server())
	case "write":
		return fleetWriter(n, os.Args[1], os.Args[2])
	}
	b, err := OpenBucket(os.Args[1], Options{Warn: func(err error) { fmt.Fprintln(os.Stderr, err) }})
	if err != nil {
		return err
	}
	for {
		how := Compaction{Shard: n, Of: 4}
		if rand.IntN(2) == 0 {
			how = Compaction{}
		}
		if rand.IntN(4) == 0 {
			how.Into = 24 * time.Hour
		}
		if _, err := b.CompactAs(time.Time{}, how); err != nil {
			return err
		}
		if rand.IntN(8) == 0 {
			if _, err := b.Fsck(true); err != nil {
				return err
			}
		}
	}
}

// fleetWriter puts one segment after the other into its own store, and sends it as an agent does. The i-th has the offset i of
// its own image; once it has arrived, i is printed. It ends when the file "stop" is there and nothing is left.
func fleetWriter(n int, dir, address string) error {
	spool, err := CreateDir(dir, Options{})
	if err != nil {
		return err
	}
	b, err := OpenBucket(address, Options{})
	if err != nil {
		return err
	}
	next := filepath.Join(dir, "next")
	text, _ := os.ReadFile(next)
	i, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	for {
		_, err := os.Stat(filepath.Join(dir, "stop"))
		stop := err == nil
		if !stop {
			// No number is used twice, whenever the writer is killed.
			if err := errors.Join(os.WriteFile(next+".new", fmt.Append(nil, i+1), 0o600), os.Rename(next+".new", next)); err != nil {
				return err
			}
			e := hour
			e.Start += int64(rand.IntN(3)) * e.Length
			if err := spool.Put(e, fleetRecording(n, i), map[string]string{"role": []string{"a", "b"}[i%2]}); err != nil {
				return err
			}
			i++
		}
		if rand.IntN(3) == 0 || stop {
			if _, err := spool.Compact(time.Time{}); err != nil {
				return err
			}
			if _, err := spool.Ship(time.Time{}); err != nil {
				return err
			}
		}
		all, err := spool.Outbox()
		if err != nil {
			return err
		}
		for _, p := range all {
			data, _, err := p.Open()
			if err != nil {
				return err
			}
			if err := b.PutSegment(b.ctx, data); err != nil {
				return err
			}
			_, dir, err := b.segmentOf(data)
			if err != nil {
				return err
			}
			for _, off := range dir {
				fmt.Println(off)
			}
			if err := p.Remove(); err != nil {
				return err
			}
		}
		if stop {
			return nil
		}
		time.Sleep(rand.N(30 * time.Millisecond))
	}
}

// segmentOf returns the offsets that have samples in a segment of a fleetWriter.
func (b *Bucket) segmentOf(data []byte) (rec *sample.Recording, offs []sample.Offset, err error) {
	dir, err := checkSegment(data)
	if err != nil {
		return nil, nil, err
	}
	rec, err = toRecording(raw{}.source(data, dir), nil, true)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range rec.Counts {
		for off := range c.Images[0].At {
			offs = append(offs, off)
		}
	}
	return rec, offs, nil
}

func fleetImage(n int) sample.ImageID {
	return sample.ImageID{Build: sample.BuildID{byte(1 + n)}, Path: fmt.Sprint("/bin/", n)}
}

// fleetCount is how many samples the i-th segment of a writer has.
func fleetCount(i int) uint64 { return uint64(1 + i%7) }

func fleetRecording(n, i int) *sample.Recording {
	rec := &sample.Recording{}
	c := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cycles", Unit: "cycles"})
	c.AddSample(c.Image(fleetImage(n)), sample.Offset(i), fleetCount(i))
	rec.Add(c)
	return rec
}

// A member is a process of the fleet that is killed and begun again.
func member(role string, args []string, line func(string), until <-chan struct{}, kills *int, mu *sync.Mutex) error {
	for {
		cmd := exec.Command("/proc/self/exe", args...)
		cmd.Env = append(os.Environ(), fleetEnv+"="+role)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			for lines := bufio.NewScanner(out); lines.Scan(); {
				line(lines.Text())
			}
		}()
		over := false
		select {
		case <-until:
			over = true
		case <-time.After(300*time.Millisecond + rand.N(3*time.Second)):
		case <-read: // it ended by itself
			cmd.Wait()
			return fmt.Errorf("%s ended: %v: %s", role, cmd.ProcessState, errs.String())
		}
		cmd.Process.Kill()
		<-read
		cmd.Wait()
		mu.Lock()
		*kills++
		mu.Unlock()
		if over {
			return nil
		}
	}
}

// TestBucketKill: 16 writers and 4 jobs that merge are killed at random, over and over. Each segment that was said to have arrived counts
// once, and none counts twice.
//
//	go test ./sample/store -run TestBucketKill -duration 10m -timeout 20m
func TestBucketKill(t *testing.T) {
	testtool.Live(t, "kills processes for four seconds")
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	const writers, mergers = 16, 4
	server := exec.Command("/proc/self/exe")
	server.Env = append(os.Environ(), fleetEnv+"=serve")
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { server.Process.Kill(); server.Wait() }()
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address = strings.TrimSpace(address)

	dir := t.TempDir()
	var mu sync.Mutex
	kills := 0
	arrived := make([]map[int]bool, writers)
	until := make(chan struct{})
	time.AfterFunc(*duration, func() { close(until) })
	var members sync.WaitGroup
	for n := range writers {
		arrived[n] = map[int]bool{}
		members.Go(func() {
			err := member(fmt.Sprint("write ", n), []string{filepath.Join(dir, strconv.Itoa(n)), address}, func(line string) {
				i, err := strconv.Atoi(line)
				if err == nil {
					arrived[n][i] = true
				}
			}, until, &kills, &mu)
			if err != nil {
				t.Error(err)
			}
		})
	}
	for n := range mergers {
		members.Go(func() {
			if err := member(fmt.Sprint("merge ", n), []string{address}, func(string) {}, until, &kills, &mu); err != nil {
				t.Error(err)
			}
		})
	}
	members.Wait()

	// What is left in the spools arrives; nobody kills.
	for n := range writers {
		own := filepath.Join(dir, strconv.Itoa(n))
		if err := os.WriteFile(filepath.Join(own, "stop"), nil, 0o600); errors.Is(err, fs.ErrNotExist) {
			continue // it was killed before it began
		}
		cmd := exec.Command("/proc/self/exe", own, address)
		cmd.Env = append(os.Environ(), fmt.Sprint(fleetEnv, "=write ", n))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("writer %d: %v: %s", n, err, out)
		}
	}
	b := openBucket(t, address, s3.Options{})
	check := func(when string) (total uint64, segments int) {
		rec, err := b.Read(Query{})
		if err != nil {
			t.Fatal(err)
		}
		for n := range writers {
			at := map[sample.Offset]uint64{}
			for _, c := range rec.Counts {
				for _, ic := range c.Images {
					if ic.ID == fleetImage(n) {
						at = ic.At
					}
				}
			}
			for i := range arrived[n] {
				if got := at[sample.Offset(i)]; got != fleetCount(i) {
					t.Errorf("%s: writer %d: segment %d arrived, and has %d samples of %d", when, n, i, got, fleetCount(i))
				}
			}
			for off, got := range at {
				if want := fleetCount(int(off)); got != want {
					t.Errorf("%s: writer %d: segment %d has %d samples, want %d", when, n, off, got, want)
				}
				segments++
			}
		}
		return rec.Samples(), segments
	}
	before, n := check("at the end")
	for range 3 {
		if _, err := b.Compact(time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	after, _ := check("compacted")
	r, err := b.Fsck(false)
	if err != nil || !r.Clean() || r.Samples != after || before != after {
		t.Errorf("%d samples, %d compacted; fsck: %+v, %v", before, after, r, err)
	}
	said := 0
	for _, of := range arrived {
		said += len(of)
	}
	if said == 0 {
		t.Skipf("no writer got to send anything in %v: this machine is too busy", *duration)
	}
	t.Logf("%d kills in %v; %d segments, %d said to have arrived while being killed; %d samples, each counted once; %d objects of killed jobs", kills, *duration, n, said, after, len(r.Unfinished))
}
