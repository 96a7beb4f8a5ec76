package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"backfeed/sample/store/s3"
)

// faults is a network between a store and a bucket at which a share of the requests goes wrong.
type faults struct {
	t     testing.TB
	mu    sync.Mutex
	rnd   *rand.Rand
	share float64
	done  map[string]int
	late  sync.WaitGroup // requests that come through after they were given up
}

func answer(req *http.Request, code int, header http.Header) *http.Response {
	return &http.Response{StatusCode: code, Status: strconv.Itoa(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body: io.NopCloser(strings.NewReader("")), Request: req}
}

func (f *faults) RoundTrip(req *http.Request) (*http.Response, error) {
	send := func(body []byte) (*http.Response, error) {
		again := req.Clone(context.WithoutCancel(req.Context()))
		again.Body = io.NopCloser(bytes.NewReader(body))
		if len(body) == 0 {
			again.Body = http.NoBody
		}
		return http.DefaultTransport.RoundTrip(again)
	}
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
		req.Body.Close()
	}
	kinds := []string{"lost", "answer lost", "500", "503", "late", "twice"}
	switch req.Method {
	case http.MethodGet:
		kinds = append(kinds, "cut off", "cut off, unseen", "wrong byte", "wrong ETag")
	case http.MethodPut:
		kinds = append(kinds, "half")
	}
	f.mu.Lock()
	kind := ""
	if f.rnd.Float64() < f.share {
		kind = kinds[f.rnd.IntN(len(kinds))]
		f.done[kind]++
	}
	wait := time.Duration(f.rnd.IntN(100)) * time.Millisecond
	f.mu.Unlock()
	switch kind {
	case "lost":
		return nil, errors.New("connection reset")
	case "answer lost":
		if resp, err := send(body); err == nil {
			resp.Body.Close()
		}
		return nil, context.DeadlineExceeded
	case "500":
		return answer(req, 500, http.Header{}), nil
	case "503":
		return answer(req, 503, http.Header{"Retry-After": {"0"}}), nil
	case "late":
		f.late.Go(func() {
			time.Sleep(wait)
			if resp, err := send(body); err == nil {
				resp.Body.Close()
			}
		})
		return nil, context.DeadlineExceeded
	case "twice":
		if resp, err := send(body); err == nil {
			resp.Body.Close()
		}
	case "half":
		// The server sees the length, and half of the body.
		half := req.Clone(context.WithoutCancel(req.Context()))
		half.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body[:len(body)/2]), &failing{}))
		_, err := http.DefaultTransport.RoundTrip(half)
		return nil, fmt.Errorf("half of it was sent: %w", err)
	}
	resp, err := send(body)
	if err != nil || resp.StatusCode >= 300 {
		return resp, err
	}
	change := func(how func([]byte) []byte, header bool) {
		got, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		got = how(got)
		if header {
			resp.ContentLength = int64(len(got))
			resp.Header.Set("Content-Length", strconv.Itoa(len(got)))
		}
		resp.Body = io.NopCloser(bytes.NewReader(got))
	}
	isList := req.URL.Query().Has("list-type") // which has no sum of its own
	switch {
	case kind == "cut off" && !isList:
		change(func(b []byte) []byte { return b[:len(b)/2] }, false)
	case kind == "cut off, unseen" && !isList:
		change(func(b []byte) []byte { return b[:len(b)/2] }, true)
	case kind == "wrong byte" && !isList:
		change(func(b []byte) []byte {
			if len(b) > 0 {
				b[len(b)/3] ^= 0x40
			}
			return b
		}, false)
	case kind == "wrong ETag":
		resp.Header.Set("ETag", `"0123456789abcdef0123456789abcdef"`)
	}
	return resp, nil
}

type failing struct{}

func (*failing) Read([]byte) (int, error) { return 0, errors.New("cut") }

// TestBucketFaults: whatever the network does to requests and answers, what was put counts once.
func TestBucketFaults(t *testing.T) {
	address := serveBucket(t)
	f := &faults{t: t, rnd: rand.New(rand.NewPCG(3, 1)), share: 0.25, done: map[string]int{}}
	opts := s3.Options{Transport: f, Tries: 8, Pause: time.Millisecond}
	var wait sync.WaitGroup
	var mu sync.Mutex
	var want uint64
	for w := range 3 {
		wait.Go(func() {
			b, err := OpenBucket(address, Options{Bucket: opts})
			if err != nil {
				t.Error(err)
				return
			}
			for i := range 10 {
				rec := many(uint64(w), 100)
				data, err := EncodeSegment(hour, rec, nil)
				if err != nil {
					t.Error(err)
				}
				for try := 0; ; try++ {
					if err = b.PutSegment(t.Context(), data); err == nil {
						break
					}
					if try == 20 {
						t.Errorf("segment %d: %v", i, err)
						return
					}
				}
				mu.Lock()
				want += rec.Samples()
				mu.Unlock()
				if i%4 == 3 {
					if _, err := b.CompactAs(time.Time{}, Compaction{}); err != nil {
						t.Logf("compaction, which is tried again: %v", err)
					}
				}
			}
		})
	}
	wait.Wait()
	f.late.Wait()
	b := openBucket(t, address, s3.Options{})
	if got := samplesIn(t, b, Query{}); got != want {
		t.Errorf("%d samples, want %d", got, want)
	}
	for range 2 {
		if _, err := b.Compact(time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := samplesIn(t, b, Query{}); got != want {
		t.Errorf("compacted: %d samples, want %d", got, want)
	}
	if r, err := b.Fsck(false); err != nil || !r.Clean() || r.Samples != want {
		t.Errorf("fsck: %+v, %v", r, err)
	}
	if len(f.done) < 8 {
		t.Errorf("only these faults: %v", f.done)
	}
	t.Logf("faults: %v", f.done)
}

// TestBucketRetryAfter: a server that wants to be left alone is, for as long as it says.
func TestBucketRetryAfter(t *testing.T) {
	n := 0
	b := openBucket(t, serveBucket(t), s3.Options{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if n++; n == 1 {
			return answer(r, 503, http.Header{"Retry-After": {"1"}}), nil
		}
		return http.DefaultTransport.RoundTrip(r)
	})})
	begin := time.Now()
	if err := b.Put(hour, three(), nil); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begin); d < 900*time.Millisecond {
		t.Errorf("asked again after %v of 1 s", d)
	}
}

// TestBucketClock: a server that takes no request for the clock's sake is named as such.
func TestBucketClock(t *testing.T) {
	serveBucket(t)
	backend := s3mem.New()
	backend.CreateBucket("fleet")
	srv := httptest.NewServer(gofakes3.New(backend, gofakes3.WithTimeSource(gofakes3.FixedTimeSource(time.Now().Add(3*time.Hour)))).Server())
	defer srv.Close()
	b := openBucket(t, "s3://fleet/x?endpoint="+srv.URL, s3.Options{})
	if err := b.Put(hour, three(), nil); !errors.Is(err, s3.ErrClock) || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

// TestBucketUnconditional: where a server ignores conditions, nothing is merged, and all is still read.
func TestBucketUnconditional(t *testing.T) {
	b := openBucket(t, serveBucket(t), s3.Options{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		r.Header.Del("If-Match")
		r.Header.Del("If-None-Match")
		return http.DefaultTransport.RoundTrip(r)
	})})
	data, err := EncodeSegment(hour, three(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.PutSegment(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Compact(time.Time{}); !errors.Is(err, ErrUnconditional) {
		t.Errorf("compaction: %v", err)
	}
	if got := samplesIn(t, b, Query{}); got != three().Samples() {
		t.Errorf("%d samples", got)
	}
}
