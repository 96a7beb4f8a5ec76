package agent

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"backfeed/cmd/internal/listen"
	"backfeed/sample/store"
	"backfeed/sample/store/s3"
)

// uploadingAgent is an agent that sends to a bucket which can be reached while up is set.
func uploadingAgent(t *testing.T, start time.Time) (a *Agent, up *atomic.Bool) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "a-secret-that-nobody-sees")
	backend := s3mem.New()
	if err := backend.CreateBucket("fleet"); err != nil {
		t.Fatal(err)
	}
	up = &atomic.Bool{}
	to := gofakes3.New(backend, gofakes3.WithoutVersioning()).Server()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !up.Load() {
			io.Copy(io.Discard, r.Body)
			http.Error(w, "no network", http.StatusServiceUnavailable)
			return
		}
		to.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	bucket, err := store.OpenBucket("s3://fleet/x?endpoint="+srv.URL, store.Options{Bucket: s3.Options{Tries: 2, Pause: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	a, _ = scriptedAgent(t, start)
	a.up = newUploader(a.into.(*store.Dir), bucket, 0, 1<<20, slog.New(slog.DiscardHandler))
	return a, up
}

// TestUpload: what an agent has closed is kept while the bucket cannot be reached, and is there once it can, each
// sample once.
func TestUpload(t *testing.T) {
	start := time.Date(2026, 1, 1, 11, 50, 0, 0, time.UTC)
	a, up := uploadingAgent(t, start)
	steps := 0
	for d := 5 * time.Minute; d < 50*time.Hour; d += 20 * time.Minute {
		a.step(start.Add(d))
		steps++
	}
	done := make(chan struct{})
	a.chores <- func() { a.tidy(start.Add(50 * time.Hour)); close(done) } // those that are due may have been put off
	<-done
	for end := time.Now().Add(time.Minute); a.up.status().failures == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	s := a.up.status()
	if s.waiting < 40 || s.segments != 0 || s.failures == 0 || s.oldest != time.Date(2026, 1, 1, 11, 0, 0, 0, time.UTC) {
		t.Errorf("without the network: %+v", s)
	}
	up.Store(true)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	s = a.up.status()
	if s.waiting != 0 || s.segments < 40 || s.dropped != 0 {
		t.Errorf("with the network: %+v", s)
	}
	rec, err := a.up.bucket.Read(store.Query{})
	if want := uint64(steps + 1); err != nil || rec.Samples() != want { // Close drains once more
		t.Errorf("%d samples in the bucket, want %d: %v", rec.Samples(), want, err)
	}
	if left, err := a.into.Read(store.Query{}); err != nil || left.Samples() != 0 {
		t.Errorf("%d samples left in the spool: %v", left.Samples(), err)
	}
	var page strings.Builder
	a.status.uploads = &s
	a.status.write(listen.Families{Writer: &page})
	if !strings.Contains(page.String(), "\nbackfeed_upload_backlog_segments 0\n") {
		t.Errorf("metrics:\n%s", page.String())
	}
}

// TestUploadBound: where there is no more room, the oldest segments are dropped, and counted.
func TestUploadBound(t *testing.T) {
	start := time.Date(2026, 1, 1, 11, 50, 0, 0, time.UTC)
	a, up := uploadingAgent(t, start)
	a.up.limit = 1500 // bytes: some segments of about 200
	steps := 0
	for d := 30 * time.Minute; d < 30*time.Hour; d += time.Hour {
		a.step(start.Add(d))
		steps++
	}
	done := make(chan struct{})
	a.chores <- func() { a.tidy(start.Add(50 * time.Hour)); close(done) } // those that are due may have been put off
	<-done
	s := a.up.status()
	left := a.up.look() // the first may be one that is being sent
	if s.dropped < 10 || s.droppedSamples != s.dropped || s.waitingBytes > a.up.limit || len(left) < 2 || left[1].Epoch.From().Before(start.Add(10*time.Hour)) {
		t.Errorf("%+v", s)
	}
	up.Store(true)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	rec, err := a.up.bucket.Read(store.Query{})
	s = a.up.status()
	if want := uint64(steps+1) - s.droppedSamples; err != nil || rec.Samples() != want {
		t.Errorf("%d samples in the bucket, want %d: %v", rec.Samples(), want, err)
	}
}
