package receive

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"backfeed/cmd/internal/listen"
	"backfeed/sample/otlp"
)

// metrics are what a receiver tells of itself, to whoever asks by HTTP, as Prometheus wants it.
type metrics struct {
	mu       sync.Mutex
	requests map[string]uint64 // by protocol and code
	bytes    uint64            // of messages, as they were sent
	profiles uint64
	rejected uint64            // profiles of other things than processor time
	samples  uint64            // received
	lost     map[string]uint64 // of these, by reason
	segments uint64
	stored   uint64 // samples in segments
	failures uint64
	places   int
	inStore  int64 // bytes
	flushed  time.Time
}

func (m *metrics) init() { m.requests, m.lost = map[string]uint64{}, map[string]uint64{} }

func (m *metrics) locked(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

func (m *metrics) answered(protocol, code string) {
	m.locked(func() { m.requests[fmt.Sprintf("protocol=%q,code=%q", protocol, code)]++ })
}
func (m *metrics) read(n int)       { m.locked(func() { m.bytes += uint64(n) }) }
func (m *metrics) gathered(n int)   { m.locked(func() { m.places = n }) }
func (m *metrics) size(bytes int64) { m.locked(func() { m.inStore = bytes }) }
func (m *metrics) failed()          { m.locked(func() { m.failures++ }) }
func (m *metrics) took(b *otlp.Batch) {
	m.locked(func() {
		m.profiles += b.Profiles
		m.rejected += b.Rejected
		m.samples += b.Recording.Samples()
		for why, n := range b.Recording.Lost() {
			m.lost[string(why)] += n
		}
	})
}
func (m *metrics) wrote(samples uint64, now time.Time, places int) {
	m.locked(func() {
		m.segments++
		m.stored += samples
		m.flushed, m.places = now, places
	})
}

func (m *metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var text strings.Builder // a slow reader holds nothing up
	m.locked(func() { m.write(listen.Families{Writer: &text}) })
	io.WriteString(listen.Show(w), text.String())
}

// write prints m.
func (m *metrics) write(w listen.Families) {
	w.Family("requests_total", "counter", "Requests answered, by protocol and its code.")
	for _, labels := range slices.Sorted(maps.Keys(m.requests)) {
		fmt.Fprintf(w, "backfeed_requests_total{%s} %d\n", labels, m.requests[labels])
	}
	w.One("received_bytes_total", "counter", "Bytes of messages, as they were sent.", float64(m.bytes))
	w.One("received_profiles_total", "counter", "Profiles received.", float64(m.profiles))
	w.One("rejected_profiles_total", "counter", "Profiles of other things than processor time.", float64(m.rejected))
	w.One("received_samples_total", "counter", "Samples received.", float64(m.samples))
	w.Family("lost_samples_total", "counter", "Samples without a place in an image, by reason.")
	for _, why := range slices.Sorted(maps.Keys(m.lost)) {
		fmt.Fprintf(w, "backfeed_lost_samples_total{reason=%q} %d\n", why, m.lost[why])
	}
	w.One("segments_written_total", "counter", "Segments written to the store.", float64(m.segments))
	w.One("stored_samples_total", "counter", "Samples in those segments.", float64(m.stored))
	w.One("store_failures_total", "counter", "Segments that the store did not take at once.", float64(m.failures))
	w.One("gathered_places", "gauge", "Places in memory that are not in the store yet, at most.", float64(m.places))
	w.One("store_bytes", "gauge", "Size of the store, when an epoch last ended.", float64(m.inStore))
	if !m.flushed.IsZero() {
		w.One("last_flush_timestamp_seconds", "gauge", "When a segment was last written.", float64(m.flushed.UnixMilli())/1000)
	}
}
