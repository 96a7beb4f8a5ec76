package main

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"backfeed/cmd/internal/input"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/collect"
	"backfeed/sample/store"
)

// A scripted sampler gives one sample for each drain.
type scripted struct {
	counters collect.Counters
	hz       int
	closed   bool
}

func (s *scripted) Drain() (*sample.Recording, error) {
	c := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cpu-clock", Period: 5000000, Unit: "ns"})
	c.AddSample(c.Image(sample.ImageID{Path: "/nowhere"}), 0x10, 1)
	s.counters.All++
	s.counters.User++
	s.counters.Drained++
	rec := &sample.Recording{}
	rec.Add(c)
	return rec, nil
}

func (s *scripted) SetFrequency(hz int) error  { s.hz = hz; return nil }
func (s *scripted) Counters() collect.Counters { return s.counters }
func (s *scripted) Close() error               { s.closed = true; return nil }

// scriptedAgent is an agent that needs no kernel. It was begun at start.
func scriptedAgent(t *testing.T, start time.Time) (*agent, *scripted) {
	t.Helper()
	f := &agentFlags{store: t.TempDir(), maxCPU: 0.01, epoch: time.Hour, flush: 5 * time.Minute, keepImages: &choice{value: "no"}}
	s, err := store.Create(f.store, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sampler := &scripted{}
	a := &agent{
		agentFlags: f, log: slog.New(slog.DiscardHandler), sampler: sampler, into: s,
		budget: budget{limit: 0.01, events: 1, most: 199, stolen: 20 * time.Microsecond},
	}
	f.what.hz = 199
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
		if err := a.close(); err != nil || !sampler.closed {
			t.Errorf("%s: %v", tt.name, err)
		}
		rec, err := a.into.Read(store.Query{})
		if want := uint64(len(tt.steps) + 1); err != nil || rec.Samples() != want {
			t.Errorf("%s: %d samples in the store, want %d: %v", tt.name, rec.Samples(), want, err)
		}
	}
}

// TestAgentStoreFails: what the store does not take stays for the next time.
func TestAgentStoreFails(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	a, _ := scriptedAgent(t, start)
	segments := filepath.Join(a.store, "segments")
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
	defer a.close()
	rec, err := a.into.Read(store.Query{})
	if err != nil || rec.Samples() != 2 || a.status.samples != 2 {
		t.Errorf("%d samples in the store, want 2: %v", rec.Samples(), err)
	}
}

// metricLine is what Prometheus takes for a sample, less timestamps.
var metricLine = regexp.MustCompile(`^([a-z_]+)(\{[a-z]+="[^"\\]*"(,[a-z]+="[^"\\]*")*\})? (\S+)$`)

// readMetrics parses a page of metrics, and complains where Prometheus would.
func readMetrics(t *testing.T, page string) map[string]float64 {
	t.Helper()
	values, types := map[string]float64{}, map[string]string{}
	for _, line := range strings.Split(strings.TrimSuffix(page, "\n"), "\n") {
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			if types[name] != "" || kind != "counter" && kind != "gauge" || (kind == "counter") != strings.HasSuffix(name, "_total") {
				t.Errorf("%q", line)
			}
			types[name] = kind
			continue
		}
		if strings.HasPrefix(line, "# HELP ") {
			continue
		}
		m := metricLine.FindStringSubmatch(line)
		if m == nil || types[m[1]] == "" {
			t.Errorf("%q is no metric", line)
			continue
		}
		v, err := strconv.ParseFloat(m[4], 64)
		if _, twice := values[m[1]+m[2]]; err != nil || twice {
			t.Errorf("%q: twice, or %v", line, err)
		}
		values[m[1]+m[2]] = v
	}
	return values
}

func TestMetrics(t *testing.T) {
	page := &statusPage{}
	page.set(status{
		counters: collect.Counters{User: 5, Kernel: 3, Failed: 2, Unresolved: map[sample.Loss]uint64{sample.LostUnmapped: 1},
			Events: []collect.EventTime{{Name: "cycles", Enabled: 3 * time.Second, Running: 2 * time.Second}}},
		rate: 199, cost: 0.004, limit: 0.01, own: 1500 * time.Millisecond, segments: 7, flushed: time.UnixMilli(1700000000500),
	})
	log := slog.New(slog.DiscardHandler)
	l, err := serveMetrics("127.0.0.1:0", false, page, log)
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
	got := readMetrics(t, string(b))
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
		if l, err := serveMetrics(address, false, page, log); codeOf(err) != exitUsage {
			t.Errorf("%s: %v", address, err)
			l.Close()
		}
	}
}

// TestSystemdUnit: systemd takes the unit, and its flags are flags of agent.
func TestSystemdUnit(t *testing.T) {
	code, unit, errs := runAs(agentCmd, "--systemd-unit")
	if code != exitDone || unit != systemdUnit {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	for _, flag := range regexp.MustCompile(` --[a-z-]+`).FindAllString(regexp.MustCompile(`(?m)^ExecStart=.*$`).FindString(unit), -1) {
		if _, help, _ := runAs(agentCmd, "--help"); !strings.Contains(help, flag) {
			t.Errorf("agent has no flag%s", flag)
		}
	}
	analyze := testtool.Path(t, "systemd-analyze")
	path := file(t, t.TempDir(), "backfeed.service", strings.ReplaceAll(unit, "/usr/local/bin/backfeed", self(t)))
	out, err := exec.Command(analyze, "verify", path).CombinedOutput()
	if err != nil || strings.Contains(string(out), "backfeed.service") {
		t.Errorf("%v: %s", err, out)
	}
}

// wholeMachine skips where the whole machine cannot be sampled.
func wholeMachine(t *testing.T) {
	t.Helper()
	testtool.Live(t, "records")
	s, err := collect.OpenSystem(collect.SystemOptions{})
	if u := (*collect.Unavailable)(nil); errors.As(err, &u) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// A running agent is a process of its own, with its log in a file.
type running struct {
	*exec.Cmd
	t   *testing.T
	log string
}

// startAgent starts backfeed agent, and waits until it samples.
func startAgent(t *testing.T, exe string, args ...string) *running {
	t.Helper()
	a := &running{Cmd: exec.Command(exe, append([]string{"agent"}, args...)...), t: t, log: filepath.Join(t.TempDir(), "log")}
	log, err := os.Create(a.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	a.Stderr = log
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Process.Kill(); a.Wait() })
	a.await("msg=sampling", 1)
	return a
}

// await waits until the log has text n times.
func (a *running) await(text string, n int) {
	a.t.Helper()
	for range 3000 { // half a minute, on a machine with better things to do
		if strings.Count(content(a.t, a.log), text) >= n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	a.t.Fatalf("the agent does not say %q:\n%s", text, content(a.t, a.log))
}

// TestAgent runs an agent beside a busy program: its metrics can be read, flags
// are read again on SIGHUP, kill -9 leaves a store that can be read, and after
// SIGTERM the hot procedure is in it.
func TestAgent(t *testing.T) {
	wholeMachine(t)
	target := busy(t)
	dir := t.TempDir()
	exe, into := program(t, "backfeed"), filepath.Join(dir, "store")
	load := exec.Command(target, "forever", "1")
	if err := load.Start(); err != nil {
		t.Fatal(err)
	}
	defer load.Process.Kill()
	config := file(t, dir, "agent.conf", "frequency = 499\nflush = 1s\nlabel = test=first\n")
	args := []string{"--store", into, "--config", config, "--metrics", "127.0.0.1:0", "--max-cpu", "50%", "--keep-images"}

	a := startAgent(t, exe, args...)
	a.await("segment written", 2)
	url := regexp.MustCompile(`http://\S+/metrics`).FindString(content(t, a.log))
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	if m := readMetrics(t, string(page)); m[`backfeed_samples_total{mode="user"}`] == 0 || m["backfeed_segments_written_total"] < 2 || m["backfeed_map_used_entries"] == 0 {
		t.Errorf("metrics:\n%s", page)
	}
	a.Process.Kill()
	a.Wait()
	must(t, "store", "fsck", into)
	before := storeSamples(t, into)

	a = startAgent(t, exe, args...)
	file(t, dir, "agent.conf", "frequency = 499\nflush = 2s\nlabel = test=second\n")
	a.Process.Signal(syscall.SIGHUP)
	a.await("msg=sampling", 2)
	a.await("segment written", 1+strings.Count(content(t, a.log), "segment written"))
	file(t, dir, "agent.conf", "cgroup = no/such/cgroup\n")
	a.Process.Signal(syscall.SIGHUP)
	a.await("the old flags come back", 1)
	a.await("msg=sampling", 3)
	file(t, dir, "agent.conf", "flush = soon\n")
	a.Process.Signal(syscall.SIGHUP)
	a.await("the old flags stay", 1)
	if err := a.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := a.Wait(); err != nil {
		t.Fatalf("%v:\n%s", err, content(t, a.log))
	}
	if after := storeSamples(t, into); after <= before {
		t.Errorf("%d samples in the store, %d before the second agent", after, before)
	}
	load.Process.Kill()
	if err := os.Remove(target); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"prof", into}, {"prof", into, "--label", "test=second"}} {
		if out := must(t, args...); !strings.Contains(out, " main.busy\n") {
			t.Errorf("%q does not name the hot procedure:\n%s", args, out)
		}
	}
	if code, _, errs := runCLI(t, "prof", into, "--label", "test=third"); code != exitNothing {
		t.Errorf("of another label: exit code %d: %s", code, errs)
	}
	if out := must(t, "images", into); !strings.Contains(out, filepath.Base(target)) {
		t.Errorf("images:\n%s", out)
	}
}

// TestKeep: the store keeps a stripped program and its separate debug file, so that
// its procedures have names when both are gone.
func TestKeep(t *testing.T) {
	program := compile(t)
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
		keep  string
		debug bool
	}{{"file", false}, {"debug", true}} {
		dir := filepath.Join(t.TempDir(), "store")
		into, err := store.Create(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		a := agent{agentFlags: &agentFlags{keepImages: &choice{value: tt.keep}, maxImage: 1 << 30}, into: into, work: t.Context()}
		if err := a.keep(id, &input.Running{Proc: "/proc"}); err != nil {
			t.Fatal(err)
		}
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

// storeSamples is the number of samples in a store.
func storeSamples(t *testing.T, dir string) uint64 {
	t.Helper()
	var sums storeSums
	if err := json.Unmarshal([]byte(must(t, "store", "stats", dir, "--format", "json")), &sums); err != nil {
		t.Fatal(err)
	}
	return sums.Samples
}

// TestRecordSystem: the whole machine is recorded for a while, or what is asked
// for of it.
func TestRecordSystem(t *testing.T) {
	wholeMachine(t)
	target, dir := busy(t), t.TempDir()
	load := exec.Command(target, "forever", "1")
	if err := load.Start(); err != nil {
		t.Fatal(err)
	}
	defer load.Process.Kill()
	only := filepath.Join(dir, "only.bfr")
	code, _, errs := runCLI(t, "record", "-a", "-p", strconv.Itoa(load.Process.Pid), "--callers", "-d", "1s", "-o", only)
	if code != exitDone || !strings.Contains(errs, "samples of") || !strings.Contains(errs, "left out of them") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	for _, r := range itemsOf[imageRow](t, "backfeed.images/2", must(t, "images", only, "--format", "json")) {
		if r.Path != target && r.Path != "[vdso]" && r.Lost == "" {
			t.Errorf("samples of %s, which was not asked for", r.Path)
		}
	}
	into := filepath.Join(dir, "store")
	if code, _, errs := runCLI(t, "record", "-a", "--tick", "-d", "1s", "--store", into, "--label", "rate=tick"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if out := must(t, "store", "ls", into); !strings.Contains(out, "rate=tick") {
		t.Errorf("the label is not in the store:\n%s", out)
	}
	code, out, errs := runCLI(t, "prof", into, only)
	if code != exitDone || !strings.Contains(out, " main.busy\n") || !strings.Contains(errs, "are not mixed with those of") {
		t.Errorf("exit code %d: %s\n%s", code, errs, out)
	}
}
