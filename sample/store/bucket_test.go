package store

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

var gateway = flag.String("gateway", "", "serve buckets by this `program`, versitygw, over a socket instead of in this process; its backend checks and writes without a lock, so no races")

// serveBucket serves an empty bucket, and returns the address of a store in it.
func serveBucket(t testing.TB) string {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "a-secret-that-nobody-sees")
	if *gateway != "" {
		return "s3://fleet/some/prefix?endpoint=" + runGateway(t)
	}
	backend := s3mem.New()
	if err := backend.CreateBucket("fleet"); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(gofakes3.New(backend, gofakes3.WithoutVersioning()).Server())
	t.Cleanup(srv.Close)
	return "s3://fleet/some/prefix?endpoint=" + srv.URL
}

// runGateway starts versitygw on a directory with an empty bucket, and returns where it listens.
func runGateway(t testing.TB) string {
	t.Helper()
	testtool.Live(t, "runs a gateway")
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "fleet"), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	var said bytes.Buffer
	cmd := exec.Command(*gateway, "--access", os.Getenv("AWS_ACCESS_KEY_ID"), "--secret", os.Getenv("AWS_SECRET_ACCESS_KEY"), "--port", at, "posix", dir)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for range 1000 {
		if c, err := net.Dial("tcp", at); err == nil {
			c.Close()
			return "http://" + at
		}
		time.Sleep(10 * time.Millisecond)
	}
	cmd.Process.Kill()
	cmd.Wait()
	t.Fatalf("%s does not listen at %s: %s", *gateway, at, &said)
	return ""
}

// openBucket opens a store whose warnings fail the test.
func openBucket(t testing.TB, address string, opts s3.Options) *Bucket {
	t.Helper()
	if opts.Pause == 0 {
		opts.Pause = time.Millisecond
	}
	b, err := OpenBucket(address, Options{Warn: func(err error) { t.Errorf("warning: %v", err) }, Bucket: opts, Cache: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// queries are of all and of each image, by labels and by time.
func queries() (all []Query) {
	images := [][]sample.ImageID{nil}
	for i := range 2 {
		images = append(images, []sample.ImageID{{Build: sample.BuildID{byte(1 + i)}}})
	}
	images = append(images, []sample.ImageID{{Path: "/lib/2"}, {Build: sample.BuildID{2}}})
	for _, ids := range images {
		all = append(all, Query{Images: ids}, Query{Images: ids, Labels: map[string]string{"role": "a"}, From: hour.From().Add(30 * time.Minute), To: hour.To().Add(time.Hour)})
	}
	return all
}

// TestBucketIsDir: a bucket answers as a directory does that the same was put into, to the byte, before, between and after
// compactions, whichever jobs do what of it.
func TestBucketIsDir(t *testing.T) {
	for seed := range uint64(2) {
		b := openBucket(t, serveBucket(t), s3.Options{})
		d := open(t)
		rnd := rand.New(rand.NewPCG(seed, 7))
		put := func(n int) {
			for range n {
				e := hour
				e.Start += int64(rnd.IntN(3)) * e.Length
				rec, labels := random(rnd), map[string]string{"role": []string{"a", "b"}[rnd.IntN(2)]}
				if err := errors.Join(d.Put(e, rec, labels), b.Put(e, rec, labels)); err != nil {
					t.Fatal(err)
				}
			}
		}
		same := func(when string) {
			t.Helper()
			for i, q := range queries() {
				want, err := d.Read(q)
				if err != nil {
					t.Fatal(err)
				}
				var got *sample.Recording
				if err := b.ReadEach([]Query{q}, func(_ int, rec *sample.Recording) error { got = rec; return nil }); err != nil {
					t.Fatalf("seed %d, %s: query %d: %v", seed, when, i, err)
				}
				if !bytes.Equal(got.Encode(), want.Encode()) {
					t.Errorf("seed %d, %s: query %d: %d samples, the directory has %d", seed, when, i, got.Samples(), want.Samples())
				}
				w, err := b.Window(q, "role")
				of, _ := d.Window(q, "role")
				if err != nil || !w.From.Equal(of.From) || !w.To.Equal(of.To) || len(w.Values) != len(of.Values) {
					t.Errorf("seed %d, %s: query %d: window %v, want %v: %v", seed, when, i, w, of, err)
				}
			}
			if r, err := b.Fsck(false); err != nil || !r.Clean() || len(r.Unfinished)+len(r.Superseded) > 0 || r.Samples != samplesIn(t, d, Query{}) {
				t.Errorf("seed %d, %s: fsck: %+v, %v", seed, when, r, err)
			}
		}
		put(20)
		same("as put")
		compact := func(by time.Time, how Compaction) {
			if _, err := b.CompactAs(by, how); err != nil {
				t.Fatal(err)
			}
		}
		compact(hour.To(), Compaction{})
		same("one epoch merged")
		put(10)
		same("more came")
		for i := range 3 {
			compact(time.Time{}, Compaction{Shard: i, Of: 3})
		}
		same("merged by three jobs")
		put(10)
		compact(time.Time{}, Compaction{})
		compact(time.Time{}, Compaction{})
		same("merged again")
		if segments, err := b.Segments(); err != nil || len(segments) != 6 {
			t.Errorf("seed %d: %d groups, want three epochs of two roles: %v", seed, len(segments), err)
		}
		stats, err := b.Stats()
		of, _ := d.Stats()
		if err != nil || stats.Samples != of.Samples || stats.Images != of.Images || stats.Epochs != of.Epochs {
			t.Errorf("stats %+v, the directory has %+v: %v", stats, of, err)
		}
		// Of segments that were merged already, those that become one with others count as merged, too, once.
		for _, tt := range []struct {
			how    Compaction
			merged int
		}{{Compaction{Into: 24 * time.Hour, Forget: []string{"role"}}, 6}, {Compaction{Into: 24 * time.Hour, Forget: []string{"role"}}, 0}, {Compaction{}, 0}} {
			if n, err := b.CompactAs(time.Time{}, tt.how); err != nil || n != tt.merged {
				t.Errorf("seed %d: %+v merged %d segments, %v; want %d", seed, tt.how, n, err, tt.merged)
			}
		}
		want, _ := d.Read(Query{})
		if got, err := b.Read(Query{From: hour.From()}); err != nil || !bytes.Equal(got.Encode(), want.Encode()) {
			t.Errorf("seed %d: merged into a day: not the same: %v", seed, err)
		}
		segments, err := b.Segments()
		if err != nil || len(segments) != 1 || segments[0].Epoch.Length != dayLength || segments[0].Puts != 40 {
			t.Errorf("seed %d: %+v: %v", seed, segments, err)
		}
	}
}

// TestBucketSplit: a large group is divided by image, of which one is read without the others.
func TestBucketSplit(t *testing.T) {
	address := serveBucket(t)
	b := openBucket(t, address, s3.Options{})
	d := open(t)
	for i := range 4 {
		rec := &sample.Recording{}
		c := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cycles", Unit: "cycles"})
		for im := range 100 {
			at := c.Image(sample.ImageID{Build: sample.BuildID{byte(im), 9}, Path: fmt.Sprint("/bin/", im)})
			for k := range 10_000 {
				c.AddSample(at, sample.Offset(k*(1+i)*(1+im)), uint64(1+k%300))
			}
		}
		rec.Counts = append(rec.Counts, c)
		if err := errors.Join(d.Put(hour, rec, nil), b.Put(hour, rec, nil)); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Compact(time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	q := Query{Images: []sample.ImageID{{Build: sample.BuildID{42, 9}}}}
	reader := openBucket(t, address, s3.Options{})
	got, err := reader.Read(q)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := d.Read(q)
	if !bytes.Equal(got.Encode(), want.Encode()) {
		t.Errorf("%d samples, want %d", got.Samples(), want.Samples())
	}
	tr := reader.Traffic()
	if st, _ := b.Stats(); tr.Gets > 4 || tr.Read > uint64(st.Bytes)/10 {
		t.Errorf("%+v to read an image of 100, of %d bytes", tr, st.Bytes)
	}
	if r, err := b.Fsck(false); err != nil || !r.Clean() || len(r.Unfinished) > 0 {
		t.Errorf("fsck: %+v, %v", r, err)
	}
}

// TestBucketAgain: what is put again, however late, does not count again.
func TestBucketAgain(t *testing.T) {
	b := openBucket(t, serveBucket(t), s3.Options{})
	data, err := EncodeSegment(hour, three(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := three().Samples()
	for i := range 6 {
		if err := b.PutSegment(t.Context(), data); err != nil {
			t.Fatal(err)
		}
		if got := samplesIn(t, b, Query{}); got != want {
			t.Errorf("put %d times: %d samples, want %d", i+1, got, want)
		}
		if i%2 == 1 {
			if _, err := b.Compact(time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if r, err := b.Fsck(true); err != nil || !r.Clean() || r.Samples != want {
		t.Errorf("fsck: %+v, %v", r, err)
	}
}

// TestBucketGC drops days, and keeps the newest three.
func TestBucketGC(t *testing.T) {
	b := openBucket(t, serveBucket(t), s3.Options{})
	for i := range 10 {
		e := hour
		e.Start += int64(i) * dayLength
		if err := b.Put(e, three(), nil); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			if _, err := b.Compact(time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	now := hour.To().Add(9 * 24 * time.Hour)
	if _, err := b.GC(Retention{MaxAge: 48 * time.Hour}, now); !errors.Is(err, ErrMost) {
		t.Errorf("most would go: %v", err)
	}
	done, err := b.GC(Retention{MaxAge: 6 * 24 * time.Hour}, now)
	if err != nil || done.Epochs != 3 {
		t.Errorf("%+v, %v; want the first three days dropped", done, err)
	}
	if got, want := samplesIn(t, b, Query{}), 7*three().Samples(); got != want {
		t.Errorf("%d samples, want %d", got, want)
	}
	if _, err := b.GC(Retention{MaxBytes: 1}, now); err != nil {
		t.Error(err)
	}
	if got, want := samplesIn(t, b, Query{}), 3*three().Samples(); got != want {
		t.Errorf("%d samples, want %d: the newest three days stay", got, want)
	}
	if r, err := b.Fsck(false); err != nil || !r.Clean() || len(r.Unfinished) > 0 {
		t.Errorf("fsck: %+v, %v", r, err)
	}
}

// TestBucketImages: copies are made once, got once, and checked.
func TestBucketImages(t *testing.T) {
	address := serveBucket(t)
	b := openBucket(t, address, s3.Options{})
	id := sample.ImageID{Build: sample.BuildID{1, 2, 3}, Path: "/bin/x"}
	text := strings.Repeat("machine code ", 2_000_000)
	for range 2 {
		if err := b.KeepImage(t.Context(), id, strings.NewReader(text), KindFile); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.Traffic().Puts; n != 1 {
		t.Errorf("%d puts of one copy", n)
	}
	for range 2 {
		path, err := b.OpenImage(id, KindFile)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%d bytes, want %d: %v", len(got), len(text), err)
		}
	}
	if _, err := b.OpenImage(id, KindDebug); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no copy of its debug file: %v", err)
	}
	if r, err := b.Fsck(false); err != nil || !r.Clean() || r.Copies != 1 {
		t.Errorf("fsck: %+v, %v", r, err)
	}
}

// TestBucketRace: writers, jobs that merge and readers at the same time lose nothing and count nothing
// twice. Under the race detector, it is a test of this package's own state, too.
func TestBucketRace(t *testing.T) {
	address := serveBucket(t)
	const writers, each = 4, 6
	var mu sync.Mutex
	var want uint64
	var done, wait sync.WaitGroup
	stop := make(chan struct{})
	for w := range writers {
		done.Go(func() {
			b := openBucket(t, address, s3.Options{})
			for i := range each {
				rec := many(uint64(w), 300)
				e := hour
				e.Start += int64(i%3) * e.Length
				if err := b.Put(e, rec, nil); err != nil {
					t.Error(err)
				}
				mu.Lock()
				want += rec.Samples()
				mu.Unlock()
			}
		})
	}
	for i := range 3 {
		wait.Go(func() {
			b := openBucket(t, address, s3.Options{})
			for {
				if _, err := b.CompactAs(time.Time{}, Compaction{Shard: i % 2, Of: 2}); err != nil {
					t.Error(err)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	wait.Go(func() {
		b := openBucket(t, address, s3.Options{})
		var last uint64
		for {
			got := samplesIn(t, b, Query{})
			if got < last {
				t.Errorf("%d samples, after %d", got, last)
			}
			last = got
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	done.Wait()
	close(stop)
	wait.Wait()
	b := openBucket(t, address, s3.Options{})
	for range 2 {
		if _, err := b.Compact(time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := samplesIn(t, b, Query{}); got != want {
		t.Errorf("%d samples, the writers put %d", got, want)
	}
	if r, err := b.Fsck(false); err != nil || !r.Clean() || r.Samples != want || r.Segments != 3 {
		t.Errorf("fsck: %+v, %v", r, err)
	}
}

// TestDaylistDecode: what is cut off or changed is refused.
func TestDaylistDecode(t *testing.T) {
	l := &daylist{}
	g := l.group(hour, map[string]string{"role": "a"})
	g.puts, g.pieces = 3, []piece{{whole, 10, "all-00-11.bfp"}, {5, 20, "05-22-33.bfp"}}
	g.images = []sample.ImageID{{Path: "/a"}, {Build: sample.BuildID{1}}}
	l.gone = []gone{{hour, 2, "aa-bb"}}
	b := l.encode()
	again, err := decodeList(b)
	if err != nil || !bytes.Equal(again.encode(), b) || again.groups[0].pieces[1] != (piece{whole, 10, "all-00-11.bfp"}) {
		t.Fatalf("round trip: %+v, %v", again, err)
	}
	for i := range b {
		if _, err := decodeList(b[:i]); !errors.Is(err, ErrFormat) {
			t.Errorf("%d bytes of %d: %v", i, len(b), err)
		}
		wrong := slices.Clone(b)
		wrong[i] ^= 1
		if _, err := decodeList(wrong); !errors.Is(err, ErrFormat) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
}

// FuzzDaylist: any bytes give an error, or a list that survives a round trip.
func FuzzDaylist(f *testing.F) {
	l := &daylist{gone: []gone{{hour, 2, "aa-bb"}}}
	g := l.group(hour, map[string]string{"role": "a"})
	g.pieces = []piece{{5, 20, "05-22-33.bfp"}}
	g.images = []sample.ImageID{{Path: "/a"}}
	f.Add(l.encode()[8:])
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := decodeList(sealHead(listMagic, b))
		if err != nil {
			return
		}
		again, err := decodeList(l.encode())
		if err != nil || !bytes.Equal(again.encode(), l.encode()) {
			t.Fatalf("round trip: %v", err)
		}
	})
}

// A roundTripper answers requests.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
