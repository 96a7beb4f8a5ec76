package agent

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/listen"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/collect"
	"backfeed/sample/store"
	"backfeed/testdata/tiny"
)

// A scripted sampler gives one sample for each drain.
type scripted struct {
	counters collect.Counters
	image    sample.ImageID // that samples are of; "/nowhere" if zero
	hz       int
	closed   bool

	offStopped bool
}

func (s *scripted) Drain() (*sample.Recording, error) {
	c := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cpu-clock", Period: 5000000, Unit: "ns"})
	c.AddSample(c.Image(cmp.Or(s.image, sample.ImageID{Path: "/nowhere"})), 0x10, 1)
	s.counters.All++
	s.counters.User++
	s.counters.Drained++
	rec := &sample.Recording{}
	rec.Add(c)
	return rec, nil
}

func (s *scripted) SetFrequency(hz int) error  { s.hz = hz; return nil }
func (s *scripted) StopOffCPU() error          { s.offStopped = true; return nil }
func (s *scripted) Counters() collect.Counters { return s.counters }
func (s *scripted) Close() error               { s.closed = true; return nil }

// scriptedAgent is an agent that needs no kernel. It was begun at start.
func scriptedAgent(t *testing.T, start time.Time) (*Agent, *scripted) {
	t.Helper()
	opt := Options{Store: t.TempDir(), MaxCPU: 0.01, Epoch: time.Hour, Flush: 5 * time.Minute, Keep: KeepNothing}
	opt.System.Frequency = 199
	s, err := store.Create(opt.Store, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sampler := &scripted{}
	a := &Agent{
		opt: opt, log: slog.New(slog.DiscardHandler), sampler: sampler, into: s, used: func() int64 { return 0 },
		budget: budget{limit: 0.01, events: 1, most: 199, stolen: 20 * time.Microsecond, window: 20 * time.Minute},
	}
	a.begin(start)
	return a, sampler
}

// TestAgentSteps: no sample is written twice or left behind, whatever happens
// between flushes, epochs and the end.
func TestAgentSteps(t *testing.T) {
	start := time.Date(2026, 1, 1, 11, 50, 0, 0, time.UTC)
	for _, tt := range []struct {
		name     string
		steps    []time.Duration // from the start
		segments uint64          // written before the end
	}{
		{"nothing due", []time.Duration{2 * time.Second, 4 * time.Second}, 0},
		{"a flush", []time.Duration{time.Minute, 5 * time.Minute, 6 * time.Minute}, 1},
		{"an epoch ends", []time.Duration{9 * time.Minute, 10 * time.Minute, 11 * time.Minute}, 2},
		{"asleep for a day", []time.Duration{time.Minute, 24 * time.Hour}, 1},
		{"the clock was set back", []time.Duration{time.Minute, -2 * time.Hour, -2*time.Hour + time.Second}, 1},
	} {
		a, sampler := scriptedAgent(t, start)
		for _, d := range tt.steps {
			a.step(start.Add(d))
		}
		if a.status.segments != tt.segments {
			t.Errorf("%s: %d segments, want %d", tt.name, a.status.segments, tt.segments)
		}
		if err := a.Close(); err != nil || !sampler.closed {
			t.Errorf("%s: %v", tt.name, err)
		}
		rec, err := a.into.Read(store.Query{})
		if want := uint64(len(tt.steps) + 1); err != nil || rec.Samples() != want {
			t.Errorf("%s: %d samples in the store, want %d: %v", tt.name, rec.Samples(), want, err)
		}
	}
}

// TestAgentSwitches: what the kernel's programs take at switches of threads is part of what the agent says that it takes, and has it
// sample less often.
func TestAgentSwitches(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	machine := time.Duration(runtime.NumCPU()) * 10 * time.Second // of an interval
	a, sampler := scriptedAgent(t, start)
	defer a.Close()
	a.cpu = collect.ProcessorTime()
	for i := range 3 {
		sampler.counters.Off.Times++
		sampler.counters.Off.Took += machine / 10
		a.step(start.Add(time.Duration(i+1) * 10 * time.Second))
		if cost := a.status.cost; cost < 0.1 {
			t.Errorf("step %d: a cost of %g, of which 0.1 is at switches", i, cost)
		}
	}
	if sampler.hz != 1 {
		t.Errorf("%d Hz, with ten times the limit spent at switches", sampler.hz)
	}
	if a.status.stolen >= machine/10 {
		t.Errorf("%v that samples took: what runs at switches is none", a.status.stolen)
	}
	var page bytes.Buffer
	a.status.write(listen.Families{Writer: &page})
	if want := fmt.Sprintf("backfeed_switches_cpu_seconds_total %g\n", (3 * machine / 10).Seconds()); !strings.Contains(page.String(), want) {
		t.Errorf("no %q in %s", want, page.String())
	}
	a.status.counters.Off.Untimed = "the kernel does not time its programs"
	page.Reset()
	a.status.write(listen.Families{Writer: &page})
	if strings.Contains(page.String(), "switches_cpu") {
		t.Error("a metric of what is not known")
	}
}

// TestAgentRates: samples of a lower rate stay apart from those before, as each stands for more.
func TestAgentRates(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	a, _ := scriptedAgent(t, start)
	a.drain()
	a.setRate(20)
	a.drain()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	rec, err := a.into.Read(store.Query{})
	if err != nil || len(rec.Counts) != 2 || rec.Counts[0].Event.Period != 5_000_000 || rec.Counts[1].Event.Period < 49_000_000 || rec.Counts[1].Event.Period > 51_000_000 {
		t.Errorf("%v, %d kinds of samples", err, len(rec.Counts))
	}
}

// TestAgentStoreFails: what the store does not take stays for the next time.
func TestAgentStoreFails(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	a, _ := scriptedAgent(t, start)
	segments := filepath.Join(a.opt.Store, "segments")
	if err := os.Rename(segments, segments+".gone"); err != nil {
		t.Fatal(err)
	}
	a.step(start.Add(5 * time.Minute))
	if a.status.failures != 1 || a.status.segments != 0 {
		t.Errorf("without a store: %d failures, %d segments", a.status.failures, a.status.segments)
	}
	if err := os.Rename(segments+".gone", segments); err != nil {
		t.Fatal(err)
	}
	a.step(start.Add(6 * time.Minute))
	defer a.Close()
	rec, err := a.into.Read(store.Query{})
	if err != nil || rec.Samples() != 2 || a.status.samples != 2 {
		t.Errorf("%d samples in the store, want 2: %v", rec.Samples(), err)
	}
}

func TestMetrics(t *testing.T) {
	page := &statusPage{}
	page.set(status{
		counters: collect.Counters{User: 5, Kernel: 3, Failed: 2, Unresolved: map[sample.Loss]uint64{sample.LostUnmapped: 1},
			Events: []collect.EventTime{{Name: "cycles", Enabled: 3 * time.Second, Running: 2 * time.Second}}},
		rate: 199, cost: 0.004, limit: 0.01, own: 1500 * time.Millisecond, segments: 7, flushed: time.UnixMilli(1700000000500),
	})
	log := slog.New(slog.DiscardHandler)
	l, err := listen.Metrics("127.0.0.1:0", false, page, log)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := http.Get("http://" + l.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Errorf("%s, %v: %v", r.Status, r.Header, err)
	}
	got := testtool.Metrics(t, string(b))
	for name, want := range map[string]float64{
		`backfeed_samples_total{mode="user"}`:                          5,
		`backfeed_samples_total{mode="idle"}`:                          0,
		`backfeed_lost_samples_total{reason="map full"}`:               2,
		`backfeed_lost_samples_total{reason="unmapped"}`:               1,
		`backfeed_event_seconds_total{event="cycles",state="running"}`: 2,
		`backfeed_rate_hertz`:                                          199,
		`backfeed_cost_percent`:                                        0.4,
		`backfeed_own_cpu_seconds_total`:                               1.5,
		`backfeed_segments_written_total`:                              7,
		`backfeed_last_flush_timestamp_seconds`:                        1700000000.5,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "example.com:80", "127.0.0.1"} {
		if l, err := listen.Metrics(address, false, page, log); fail.KindOf(err) != fail.Usage {
			t.Errorf("%s: %v", address, err)
			l.Close()
		}
	}
}

// TestKeep: the store keeps a stripped program and its separate debug file, so that
// its procedures have names when both are gone.
func TestKeep(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system's programs are not ELF files")
	}
	dir := t.TempDir()
	src := testtool.Write(t, dir, "program.c", "__attribute__((noinline)) int work(int n) { return n * 7; }\nint main(int argc, char **argv) { return work(argc); }\n")
	program := filepath.Join(dir, "program")
	testtool.Run(t, dir, "gcc", "-O1", "-g", "-Wl,--build-id", "-o", program, src)
	debug := program + ".debug"
	for _, args := range [][]string{
		{"objcopy", "--only-keep-debug", program, debug},
		{"objcopy", "--strip-all", "--add-gnu-debuglink=" + debug, program},
	} {
		testtool.Run(t, ".", args...)
	}
	build, err := image.ReadBuildID(program)
	if err != nil {
		t.Fatal(err)
	}
	id := sample.ImageID{Path: program, Build: build}
	for _, tt := range []struct {
		keep  Keep
		debug bool
	}{{KeepFiles, false}, {KeepDebug, true}} {
		dir := filepath.Join(t.TempDir(), "store")
		into, err := store.Create(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		a := Agent{opt: Options{Keep: tt.keep, MaxImage: 1 << 30}, log: slog.New(slog.DiscardHandler), into: into, copies: make(chan imageFiles, 1), kept: map[sample.BuildID]bool{}, work: t.Context()}
		sampled := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cpu-clock", Unit: "ns"})
		sampled.AddSample(sampled.Image(id), 1, 1)
		a.hold(&sample.Recording{Counts: []*sample.Counts{sampled}})
		close(a.copies)
		a.copyAll()
		gone := sample.ImageID{Path: "/gone", Build: build}
		c := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cpu-clock", Unit: "ns"})
		c.AddSample(c.Image(gone), 1, 1)
		if err := into.Put(sample.EpochAt(time.Now(), time.Minute), &sample.Recording{Counts: []*sample.Counts{c}}, nil); err != nil {
			t.Fatal(err)
		}
		src, err := input.Read(t.Context(), []string{dir}, input.Options{})
		if err != nil {
			t.Fatal(err)
		}
		im, err := src.Open(gone)
		if err != nil {
			t.Fatalf("%s: %v", tt.keep, err)
		}
		named := slices.ContainsFunc(im.Symbols(), func(s image.Symbol) bool { return s.Name == "work" })
		if src.Close(); named != tt.debug {
			t.Errorf("%s: the procedure work has a name: %v", tt.keep, named)
		}
	}
}

// TestHold: a program that is removed seconds after it was first sampled, minutes before a segment
// is written, is in the store all the same.
func TestHold(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	a, sampler := scriptedAgent(t, start)
	a.opt.Keep, a.opt.MaxImage = KeepFiles, 1<<20
	sampler.image = sample.ImageID{Path: filepath.Join(t.TempDir(), "program"), Build: sample.BuildID{1, 19: 1}}
	content := tiny.ELF(sampler.image.Build)
	if err := os.WriteFile(sampler.image.Path, content, 0o755); err != nil {
		t.Fatal(err)
	}
	a.step(start.Add(4 * time.Second))
	if err := os.Remove(sampler.image.Path); err != nil {
		t.Fatal(err)
	}
	a.step(start.Add(8 * time.Second))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	path, err := a.into.OpenImage(sampler.image, store.KindFile)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || !slices.Equal(b, content) {
		t.Errorf("another file was kept: %v", err)
	}
}

// TestSlowly: a copy of many pieces rests after each of them, and not when the agent is to end.
func TestSlowly(t *testing.T) {
	pauses := 0
	from := &slowly{ReadSeeker: strings.NewReader(strings.Repeat("x", 5*pausedBytes)), pause: func(time.Duration) { pauses++ }}
	if n, err := io.Copy(io.Discard, from); n != 5*pausedBytes || err != nil || pauses < 4 || pauses > 5 {
		t.Errorf("%d bytes, %v: %d pauses", n, err, pauses)
	}
	a := Agent{opt: Options{MaxCPU: 1e-9}}
	a.ending.Store(true)
	a.pause(t.Context(), time.Hour) // returns at once
}

// TestMetricsHost: pages of other sites cannot read metrics, by whatever name they reach
// them.
func TestMetricsHost(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	for _, tt := range []struct {
		public  bool
		host    string
		headers []string
		status  int
	}{
		{false, "127.0.0.1", nil, 200}, {false, "localhost:9100", nil, 200}, {false, "[::1]:9100", nil, 200},
		{false, "evil.example", nil, 403}, {false, "evil.example:9100", nil, 403}, {false, "192.0.2.7", nil, 403}, {false, name + ".evil.example", nil, 403},
		{true, "192.0.2.7:9100", nil, 200}, {true, name + ":9100", nil, 200}, {true, "evil.example", nil, 403}, {true, name + ".evil.example", nil, 403},
		{false, "localhost", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, 403},
		{false, "localhost", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"}, 403},
	} {
		address := "127.0.0.1:0"
		if tt.public {
			address = "0.0.0.0:0"
		}
		l, err := listen.Metrics(address, tt.public, &statusPage{}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Skip(err)
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		r, _ := http.NewRequest("GET", "http://127.0.0.1:"+port+"/metrics", nil)
		r.Host = tt.host
		for i := 0; i+1 < len(tt.headers); i += 2 {
			r.Header.Set(tt.headers[i], tt.headers[i+1])
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != tt.status || resp.Header.Get("Access-Control-Allow-Origin") != "" || resp.Header.Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("public %v, host %s, %v: status %d, want %d", tt.public, tt.host, tt.headers, resp.StatusCode, tt.status)
		}
		resp.Body.Close()
		l.Close()
	}
}

// TestAgentOffStopped: where time off the processor takes what samples need, it is given up, samples have their rate again, and the log says what
// both would take. Where it leaves them enough, or where they would have too little without it, it is kept.
func TestAgentOffStopped(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	machine := time.Duration(runtime.NumCPU()) * 10 * time.Second // of an interval
	for _, tt := range []struct {
		name     string
		switches float64 // share of the machine
		want     bool
	}{
		{"the whole limit", 0.05, true}, {"half of it", 0.004, false}, {"nothing", 0, false},
	} {
		a, sampler := scriptedAgent(t, start)
		a.opt.System.OffCPU = true
		var log bytes.Buffer
		a.log = slog.New(slog.NewTextHandler(&log, nil))
		for i := range 60 {
			a.cpu = collect.ProcessorTime() // what this test takes is not the agent's
			if !sampler.offStopped {
				sampler.counters.Off.Took += time.Duration(tt.switches * float64(machine))
			}
			a.step(start.Add(time.Duration(i+1) * 10 * time.Second))
		}
		if sampler.offStopped != tt.want {
			t.Errorf("%s: stopped is %v", tt.name, sampler.offStopped)
		}
		if tt.want && (sampler.hz < 150 || !strings.Contains(log.String(), `"at switches"=`) || !strings.Contains(log.String(), `"for both, --max-cpu"=5.4%`)) {
			t.Errorf("%s: %d Hz\n%s", tt.name, sampler.hz, &log)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestStepEvery: segments are as far apart as --flush says, also where a step comes a little early.
func TestStepEvery(t *testing.T) {
	for flush, want := range map[time.Duration]time.Duration{
		time.Second: time.Second, 4 * time.Second: 4 * time.Second, 5 * time.Second: 2500 * time.Millisecond, 10 * time.Second: 10 * time.Second / 3, 5 * time.Minute: 4 * time.Second,
	} {
		if got := stepEvery(flush); got != want {
			t.Errorf("--flush %v: a step every %v, want %v", flush, got, want)
		}
	}
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	a, _ := scriptedAgent(t, start)
	defer a.Close()
	a.opt.Flush = 5 * time.Second
	early := time.Duration(0)
	for i := range 8 {
		a.step(start.Add(time.Duration(i+1)*2500*time.Millisecond - early))
		early = 20*time.Millisecond - early
	}
	if a.status.segments != 4 {
		t.Errorf("%d segments in 20 s, want 4", a.status.segments)
	}
}
