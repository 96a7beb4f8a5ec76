package agent

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"backfeed/cmd/internal/listen"
	"backfeed/sample/collect"
)

// A status is what an agent tells of itself.
type status struct {
	counters collect.Counters
	rate     int           // samples per second and processor
	cost     float64       // share of the machine's processor time, in the last interval
	limit    float64       // that cost is to stay below
	own      time.Duration // processor time of the agent
	stolen   time.Duration // processor time that samples took from the interrupted programs, estimated

	segments uint64 // written to the store
	samples  uint64 // in them
	failures uint64 // of the store, each tried again with the next segment
	dropped  uint64 // samples given up because the store took no segment for too long
	stored   int64  // size of the store, in bytes
	flushed  time.Time
	uploads  *uploads // nil where the store is no bucket
}

// A statusPage shows a status to whoever asks by HTTP, as Prometheus wants it.
type statusPage struct {
	mu  sync.Mutex
	now status
}

func (p *statusPage) set(s status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = s
}

func (p *statusPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	s := p.now
	p.mu.Unlock()
	s.write(listen.Show(w))
}

// write prints s.
func (s *status) write(w listen.Families) {
	c := &s.counters
	w.Family("samples_total", "counter", "Samples taken, by what the processor did.")
	fmt.Fprintf(w, "backfeed_samples_total{mode=\"user\"} %d\n", c.User)
	fmt.Fprintf(w, "backfeed_samples_total{mode=\"kernel\"} %d\n", c.Kernel)
	fmt.Fprintf(w, "backfeed_samples_total{mode=\"idle\"} %d\n", c.Idle)
	w.Family("lost_samples_total", "counter", "Samples without a place in an image, by reason.")
	fmt.Fprintf(w, "backfeed_lost_samples_total{reason=\"map full\"} %d\n", c.Failed)
	fmt.Fprintf(w, "backfeed_lost_samples_total{reason=\"not stored\"} %d\n", s.dropped)
	for _, why := range slices.Sorted(maps.Keys(c.Unresolved)) {
		fmt.Fprintf(w, "backfeed_lost_samples_total{reason=%q} %d\n", string(why), c.Unresolved[why])
	}
	if len(c.Events) > 0 {
		w.Family("event_seconds_total", "counter", "Time over all processors that an event was wanted, and that it was counted.")
	}
	for _, e := range c.Events {
		fmt.Fprintf(w, "backfeed_event_seconds_total{event=%q,state=\"enabled\"} %g\n", e.Name, e.Enabled.Seconds())
		fmt.Fprintf(w, "backfeed_event_seconds_total{event=%q,state=\"running\"} %g\n", e.Name, e.Running.Seconds())
	}
	w.One("filtered_samples_total", "counter", "Samples of processes that were not asked for.", float64(c.Filtered))
	w.One("drained_samples_total", "counter", "Samples taken out of the kernel.", float64(c.Drained))
	w.One("unwind_rows", "gauge", "Rows of .eh_frame and .debug_frame that stacks are unwound by.", float64(c.UnwindRows))
	w.One("unwind_shed_total", "counter", "Images and processes that there was no room to unwind by: their stacks are by frame pointers.", float64(c.Shed))
	w.One("bare_samples_total", "counter", "Samples stored without their callers or branch records: ring full.", float64(c.Bare))
	if c.Off.Times > 0 {
		w.One("waits_total", "counter", "Times that threads came back to a processor.", float64(c.Off.Times))
		w.One("dropped_waits_total", "counter", "Those whose time has no place: map full.", float64(c.Off.Failed))
		w.One("bare_waits_total", "counter", "Those whose stack there was no room for.", float64(c.Off.Bare))
	}
	w.One("processors", "gauge", "Processors that are sampled.", float64(c.Processors))
	w.One("lost_records_total", "counter", "Records of mappings and processes that the kernel dropped.", float64(c.LostRecords))
	w.One("map_entries", "gauge", "Places that one buffer of the kernel has room for.", float64(c.MapEntries))
	w.One("map_used_entries", "gauge", "Most places used of a buffer at one drain.", float64(c.MapUsed))
	w.One("map_bytes", "gauge", "Memory of all buffers in the kernel.", float64(c.MapBytes))
	w.One("rate_hertz", "gauge", "Samples per second and processor.", float64(s.rate))
	w.One("cost_percent", "gauge", "Cost in the last interval, in percent of all processor time.", 100*s.cost)
	w.One("cost_limit_percent", "gauge", "What the cost is kept below on the average.", 100*s.limit)
	w.One("own_cpu_seconds_total", "counter", "Processor time of the agent.", s.own.Seconds())
	w.One("stolen_cpu_seconds_total", "counter", "Processor time that samples took from what they interrupted, estimated.", s.stolen.Seconds())
	if c.Off.Times > 0 && c.Off.Untimed == "" {
		w.One("switches_cpu_seconds_total", "counter", "Processor time of the kernel's programs at switches of threads; part of the cost.", c.Off.Took.Seconds())
	}
	w.One("segments_written_total", "counter", "Segments written to the store.", float64(s.segments))
	w.One("stored_samples_total", "counter", "Samples in those segments.", float64(s.samples))
	w.One("store_failures_total", "counter", "Segments that the store did not take at once.", float64(s.failures))
	w.One("store_bytes", "gauge", "Size of the store.", float64(s.stored))
	if u := s.uploads; u != nil {
		w.One("uploaded_segments_total", "counter", "Segments that are in the bucket.", float64(u.segments))
		w.One("uploaded_bytes_total", "counter", "Their size.", float64(u.bytes))
		w.One("uploaded_images_total", "counter", "Copies of programs, libraries and debug files that are in the bucket.", float64(u.images))
		w.One("upload_failures_total", "counter", "Tries after which sending was put off.", float64(u.failures))
		w.One("upload_backlog_segments", "gauge", "Segments that wait to be sent.", float64(u.waiting))
		w.One("upload_backlog_bytes", "gauge", "Their size.", float64(u.waitingBytes))
		w.One("upload_dropped_segments_total", "counter", "Segments given up before they were sent.", float64(u.dropped))
		w.One("upload_dropped_samples_total", "counter", "Samples in them.", float64(u.droppedSamples))
		if !u.oldest.IsZero() {
			w.One("upload_backlog_oldest_timestamp_seconds", "gauge", "Start of the oldest epoch that waits to be sent.", float64(u.oldest.Unix()))
		}
		if !u.last.IsZero() {
			w.One("last_upload_timestamp_seconds", "gauge", "When a segment last arrived.", float64(u.last.UnixMilli())/1000)
		}
	}
	if !s.flushed.IsZero() {
		w.One("last_flush_timestamp_seconds", "gauge", "When a segment was last written.", float64(s.flushed.UnixMilli())/1000)
	}
}
