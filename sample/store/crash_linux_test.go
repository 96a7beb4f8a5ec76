package store

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"backfeed/sample"
)

// The test binary is a writer if this is set: it puts as many recordings as it says
// into the store that its argument names, and compacts now and then.
const writerEnv = "BACKFEED_TEST_WRITER"

func TestMain(m *testing.M) {
	if role := os.Getenv(fleetEnv); role != "" {
		if err := fleet(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if n, err := strconv.Atoi(os.Getenv(writerEnv)); err == nil {
		if err := writer(os.Args[1], n); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// writer prints a line for each recording that is on the disk.
func writer(dir string, n int) error {
	s, err := OpenDir(dir, Options{})
	if err != nil {
		return err
	}
	rec := many(uint64(os.Getpid()), 2000)
	for i := range n {
		e := hour
		e.Start += int64(i%2) * e.Length
		if err := s.Put(e, rec, nil); err != nil {
			return err
		}
		fmt.Println(rec.Samples())
		if i%3 == 2 {
			if _, err := s.Compact(time.Time{}); err != nil && !errors.Is(err, ErrBusy) {
				return err
			}
		}
	}
	return nil
}

// startWriter starts a writer. Its wait gives the samples that it says it has put.
func startWriter(t *testing.T, dir string, n int) (cmd *exec.Cmd, wait func() uint64) {
	t.Helper()
	cmd = exec.Command("/proc/self/exe", dir)
	cmd.Env = append(os.Environ(), fmt.Sprint(writerEnv, "=", n))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, func() (sum uint64) {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n, err := strconv.ParseUint(lines.Text(), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		cmd.Wait() // it is killed, or its errors are on standard error
		return sum
	}
}

// TestKill: a writer that is killed at any time harms nothing that it said was on
// the disk, and at most the recording that it was putting is not there.
func TestKill(t *testing.T) {
	s, _ := quiet(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	var before uint64
	cut := 0
	for i := range 20 {
		cmd, wait := startWriter(t, s.dir, 1<<30)
		time.AfterFunc(time.Duration(5+rnd.IntN(60))*time.Millisecond, func() { cmd.Process.Kill() })
		said := wait()
		r, err := s.Fsck(true)
		if err != nil || !r.Clean() {
			t.Fatalf("kill %d: fsck: %+v, %v", i, r, err)
		}
		cut += r.Removed
		one := many(uint64(cmd.Process.Pid), 2000).Samples()
		got := samplesIn(t, s, Query{})
		if got != before+said && got != before+said+one {
			t.Fatalf("kill %d: %d samples, of which %d from before; the writer said %d, by %d", i, got, before, said, one)
		}
		if got != r.Samples {
			t.Errorf("kill %d: %d samples, fsck says %d", i, got, r.Samples)
		}
		before = got
	}
	t.Logf("%d samples, %d files removed", before, cut)
}

// TestWriters: writers, compaction and readers at the same time lose nothing and
// count nothing twice.
func TestWriters(t *testing.T) {
	s := open(t)
	s.opts.Warn = func(err error) {
		if !errors.Is(err, ErrTorn) { // being written
			t.Errorf("warning: %v", err)
		}
	}
	cmd1, wait1 := startWriter(t, s.dir, 40)
	cmd2, wait2 := startWriter(t, s.dir, 40)
	done := make(chan uint64)
	go func() { done <- wait1() + wait2() }()
	var last, want uint64
	for want == 0 {
		select {
		case want = <-done:
		default:
			got := samplesIn(t, s, Query{})
			if got < last {
				t.Errorf("%d samples, after %d", got, last)
			}
			last = got
		}
	}
	for _, cmd := range []*exec.Cmd{cmd1, cmd2} {
		if !cmd.ProcessState.Success() {
			t.Errorf("writer: %v", cmd.ProcessState)
		}
	}
	if got := samplesIn(t, s, Query{}); got != want {
		t.Errorf("%d samples, the writers put %d", got, want)
	}
	if _, err := s.Compact(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Fsck(false); err != nil || !r.Clean() || r.Segments != 2 || r.Samples != want || len(r.Unfinished) > 0 {
		t.Errorf("fsck: %+v, %v", r, err)
	}
}

// fill puts recordings until that fails, then checks that nothing else is harmed.
func fill(t *testing.T, s *Dir, places int, want error) {
	t.Helper()
	var sum uint64
	var err error
	for i := 0; err == nil; i++ {
		rec := many(uint64(i), places)
		if err = s.Put(hour, rec, nil); err == nil {
			sum += rec.Samples()
		}
		if i == 1000 {
			t.Fatal("it does not end")
		}
	}
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
	r, err := s.Fsck(false)
	if err != nil || !r.Clean() || len(r.Unfinished) > 0 || r.Samples != sum {
		t.Errorf("fsck: %+v, %v; %d samples put", r, err, sum)
	}
	if err := s.KeepImage(t.Context(), sample.ImageID{Build: sample.BuildID{1}}, zeros(1<<22), KindFile); !errors.Is(err, want) {
		t.Errorf("copy of an image: got error %v, want %v", err, want)
	}
	if r, err := s.Fsck(false); err != nil || !r.Clean() || len(r.Unfinished) > 0 {
		t.Errorf("fsck after the copy: %+v, %v", r, err)
	}
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=512k"); err != nil {
		t.Skipf("mounting a small file system needs root: %v", err)
	}
	defer syscall.Unmount(dir, 0)
	s, err := CreateDir(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 20_000, syscall.ENOSPC)
	before := samplesIn(t, s, Query{})
	if _, err := s.Compact(time.Time{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("compaction: got error %v, want %v", err, syscall.ENOSPC)
	}
	if got := samplesIn(t, s, Query{}); got != before {
		t.Errorf("%d samples after a compaction that failed, %d before", got, before)
	}
}

// TestReadOnly: a store that cannot be written to is read and checked, and what would write says why it does not.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mounting a file system needs root: %v", err)
	}
	defer syscall.Unmount(dir, 0)
	s, err := CreateDir(dir, Options{Warn: func(err error) { t.Errorf("warning: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Put(hour, three(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if s, err = OpenDir(dir, s.opts); err != nil {
		t.Fatal(err)
	}
	if got, want := samplesIn(t, s, Query{}), 2*three().Samples(); got != want {
		t.Errorf("%d samples, want %d", got, want)
	}
	if r, err := s.Fsck(false); err != nil || !r.Clean() || r.Segments != 2 {
		t.Errorf("fsck: %+v, %v", r, err)
	}
	_, compacted := s.Compact(hour.To())
	_, collected := s.GC(Retention{MaxBytes: 1}, hour.To())
	_, repaired := s.Fsck(true)
	_, created := CreateDir(filepath.Join(dir, "other"), Options{})
	for what, err := range map[string]error{"a segment": s.Put(hour, three(), nil), "compaction": compacted, "collection": collected, "repair": repaired, "a new store": created} {
		if !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s: got error %v, want %v", what, err, syscall.EROFS)
		}
	}
	if got, want := samplesIn(t, s, Query{}), 2*three().Samples(); got != want {
		t.Errorf("afterwards: %d samples, want %d", got, want)
	}
}

// limitEnv makes of this binary one that may limit itself.
const limitEnv = "BACKFEED_TEST_LIMIT"

// TestFileSizeLimit is TestFullDisk for those who are not root. It runs in a process of
// its own, since go test writes a log in this one.
func TestFileSizeLimit(t *testing.T) {
	if os.Getenv(limitEnv) == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestFileSizeLimit$")
		cmd.Env = append(os.Environ(), limitEnv+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	s := open(t)
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	limit := old
	limit.Cur = 10_000
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old)
	fill(t, s, 20_000, syscall.EFBIG)
	if err := s.Put(hour, three(), nil); err != nil {
		t.Errorf("a small one: %v", err)
	}
}
