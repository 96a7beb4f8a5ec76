package perfdata

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// TestMain is also the program that is recorded: threads that work, and processes
// that begin while they do.
func TestMain(m *testing.M) {
	if os.Getenv("PERFDATA_TEST_WORK") == "" {
		os.Exit(m.Run())
	}
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			deadline := time.Now().Add(100 * time.Millisecond)
			sum := 0
			for time.Now().Before(deadline) {
				sum += len(fmt.Sprint(sum, i))
			}
			exec.Command("sh", "-c", "ls -lR /usr/share/doc | sort | head -n 100000 >/dev/null; ls /").Run()
		})
	}
	wg.Wait()
	os.Exit(0)
}

// TestAgainstPerf records with perf in several ways, and holds the samples and
// what they were attributed to against perf script's.
func TestAgainstPerf(t *testing.T) {
	perf := testtool.Path(t, "perf")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, args string
		pipe       bool
	}{
		{"period", "-e cpu-clock:u -c 100000", false},
		{"frequency, kernel too", "-e cpu-clock -F 4999", false},
		{"build IDs in mappings", "-e cpu-clock:u -c 100000 --buildid-mmap", false},
		{"frame pointers", "-e cpu-clock:u -c 100000 -g", false},
		{"frame pointers, kernel too", "-e cpu-clock -c 100000 -g", false},
		{"saved stacks", "-e cpu-clock:u -F 999 --call-graph dwarf,4096", false},
		{"registers, addresses, CPUs", "-e cpu-clock:u -c 100000 --user-regs=ip,sp -d --phys-data --sample-cpu --weight --data-page-size", false},
		{"two events", "-e cpu-clock:u,page-faults -g", false},
		{"group", "-e {cpu-clock:u,page-faults:u}", false},
		{"compressed", "-z -e cpu-clock:u -c 100000 -g", false},
		{"compressed hard, two events", "-z22 -e cpu-clock:u,page-faults -c 50000 --buildid-mmap", false},
		{"no build IDs", "-N -B -e cpu-clock:u -c 100000", false},
		{"pipe", "-e cpu-clock:u,page-faults -g", true},
		{"pipe, compressed", "-z -e cpu-clock:u -c 100000", true},
		{"all processors", "-a -e cpu-clock -F 999", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "perf.data")
			args := append([]string{"record", "-q", "-o", file}, strings.Fields(tt.args)...)
			if tt.pipe {
				args[3] = "-"
			}
			cmd := exec.Command(perf, append(args, "--", self)...)
			cmd.Env = append(os.Environ(), "PERFDATA_TEST_WORK=1")
			out, err := cmd.Output()
			if err != nil {
				t.Skipf("perf %s: %v: %s", strings.Join(args, " "), err, errOutput(err))
			}
			if tt.pipe {
				if err := os.WriteFile(file, out, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			compare(t, perf, file, !strings.Contains(tt.args, "dwarf"))
			rec, err := ReadFile(file, Options{StackDepth: -1})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range rec.Counts {
				for _, ic := range c.Images {
					for off := range ic.First {
						if ic.At[off] == 0 {
							t.Errorf("%s: offset %#x: first touched, but not sampled", ic.ID, uint64(off))
						}
					}
					if path, _ := filepath.EvalSymlinks(self); ic.ID.Path == path && len(ic.First) == 0 {
						t.Errorf("%s: %d samples, and none says when", ic.ID, ic.Samples())
					}
				}
			}
		})
	}
}

// notForPerf are the synthetic recordings that perf 6.1 refuses or reads in
// another way.
var notForPerf = map[string]bool{
	"branch-counters": true, // Linux 6.8
	"compressed2":     true, // perf 6.16
	"next-abi":        true,
	"killed":          true,
	"attrs-last":      true, // perf 6.11
	"first-abi":       true, // has no times to show
	"reads":           true, // one read_format for all events, and no samples of unknown counters
	"exec":            true, // perf keeps old mappings until new ones cover them
	"modes":           true, // perf shows no guests
	"pipe":            true, // its tracing data are junk
	"stat":            true, // nothing that perf script could print
	"unknown-event":   true,
	"compressed-be":   true, // "Couldn't decompress data"
	"events-be":       true, // it swaps the number of IDs of a name twice
}

// TestSynthAgainstPerf holds perf to the synthetic recordings: what the tests
// write is what perf understands.
func TestSynthAgainstPerf(t *testing.T) {
	perf := testtool.Path(t, "perf")
	each(func(name string, b []byte) {
		kind := name[:len(name)-3]
		if notForPerf[kind] || notForPerf[name] {
			return
		}
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "perf.data")
			if err := os.WriteFile(file, b, 0o644); err != nil {
				t.Fatal(err)
			}
			compare(t, perf, file, kind != "every-field")
		})
	})
}

// TestDrawnAgainstPerf holds perf to recordings of thousands of records drawn at random: mappings that cover parts of others,
// processes that begin and inherit them, two events with stacks, and buffers of processors that are copied out of order.
func TestDrawnAgainstPerf(t *testing.T) {
	perf := testtool.Path(t, "perf")
	for i, name := range []string{"file", "pipe"} {
		t.Run(name, func(t *testing.T) {
			s := &synth{feat: map[int][]byte{}}
			drawRecords(s, rand.New(rand.NewPCG(5, uint64(i))), 2000)
			s.feat[featureEventDesc] = s.describe()
			b := s.file()
			if name == "pipe" {
				b = s.pipe()
			}
			compare(t, perf, testtool.Write(t, t.TempDir(), "perf.data", b), true)
		})
	}
}

// drawRecords adds n records.
func drawRecords(s *synth, r *rand.Rand, n int) {
	for i, label := range []string{"cpu-clock", "page-faults"} {
		a := synthAttr{attr: attr{typ: typeSoftware, config: []uint64{0, 2}[i], period: 1000, flags: flagSampleIDAll, sampleType: plainType | hasIdentifier | hasCallchain}, ids: []uint64{uint64(10 * (i + 1)), uint64(10*(i+1) + 1)}, label: label}
		s.attrs = append(s.attrs, a)
	}
	names := []string{"/opt/a", "/opt/b", "/lib/c.so", "//anon", "[heap]"}
	pids, next := []int{1}, 2
	address := func() uint64 { return 0x10000 + r.Uint64N(0x40000) }
	mapping := func(pid int, time uint64) {
		s.mmap2(&s.attrs[0], pid, time, address()&^0xfff, uint64(1+r.IntN(24))<<12, uint64(r.IntN(50))<<12, nil, names[r.IntN(len(names))])
	}
	var round []raw // records whose order does not matter
	flush := func() {
		r.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		for _, rec := range round {
			s.data = append(s.data, rec...)
		}
		round = nil
		s.record(recordRound, 0)
	}
	for i := range n {
		before, time, pid := len(s.data), uint64(1000+10*i), pids[r.IntN(len(pids))]
		switch k := r.IntN(40); {
		case k == 0 && len(pids) < 20:
			s.task(&s.attrs[0], recordFork, 0, next, pid, next, time)
			pids = append(pids, next)
			next++
		case k < 6:
			mapping(pid, time)
		default:
			x := synthSample{pid: pid, time: time, ip: address(), period: 1000}
			if r.IntN(10) == 0 {
				x.misc, x.ip = modeKernel, 1<<63|address()
				x.chain = []uint64{kernelChain, x.ip, 1<<63 | address(), userChain}
			} else {
				x.chain = []uint64{userChain, x.ip}
			}
			for range r.IntN(7) {
				x.chain = append(x.chain, address())
			}
			s.sample(&s.attrs[r.IntN(2)], x)
		}
		round = append(round, slices.Clone(s.data[before:]))
		s.data = s.data[:before]
		if r.IntN(30) == 0 {
			flush()
		}
	}
	flush()
}

func errOutput(err error) []byte {
	if e, ok := err.(*exec.ExitError); ok {
		return bytes.TrimSpace(e.Stderr)
	}
	return nil
}

// compare reads a recording and compares with perf script's reading of it: the
// samples of each event by place, and by stack unless perf unwinds what it saved.
func compare(t *testing.T, perf, file string, withStacks bool) {
	t.Helper()
	var warnings []string
	rec, err := ReadFile(file, Options{Warn: func(msg string) { warnings = append(warnings, msg) }})
	if err != nil {
		t.Fatal(err)
	}
	check(t, file, rec)
	var n, dropped uint64
	for _, c := range rec.Counts {
		n += c.Delivered()
		dropped += c.Lost[sample.LostDropped]
	}
	if n == 0 {
		t.Error("no samples")
	}
	t.Logf("%d samples, %d more were dropped; warnings: %q", n, dropped, warnings)
	if diff := firstDifference(places(rec), scriptPlaces(t, perf, file)); diff != "" {
		t.Errorf("samples by place: %s", diff)
	}
	if !withStacks {
		return
	}
	if diff := firstDifference(stacks(rec), scriptStacks(t, perf, file)); diff != "" {
		t.Errorf("samples by stack: %s", diff)
	}
}

func firstDifference(got, want map[string]int) string {
	var diffs []string
	for k, n := range want {
		if got[k] != n {
			diffs = append(diffs, fmt.Sprintf("%s: %d, perf has %d", k, got[k], n))
		}
	}
	for k, n := range got {
		if want[k] == 0 {
			diffs = append(diffs, fmt.Sprintf("%s: %d, perf has none", k, n))
		}
	}
	if len(diffs) == 0 {
		return ""
	}
	slices.Sort(diffs)
	return fmt.Sprintf("%d of %d differ, the first: %s", len(diffs), len(want), strings.Join(diffs[:min(3, len(diffs))], "; "))
}

// places returns samples by event and place, or event and loss.
func places(rec *sample.Recording) map[string]int {
	m := map[string]int{}
	for _, c := range rec.Counts {
		for _, ic := range c.Images {
			for off, n := range ic.At {
				m[fmt.Sprintf("%s %s+%x", c.Event.Name, ic.ID.Path, uint64(off))] += int(n)
			}
		}
		for why, n := range c.Lost {
			if why != sample.LostDropped {
				m[fmt.Sprintf("%s %s", c.Event.Name, why)] += int(n)
			}
		}
	}
	return m
}

// script returns the lines of perf script's output.
func script(t *testing.T, perf, file string, args ...string) []string {
	t.Helper()
	f, err := os.Open(file) // by way of a pipe perf reads both kinds of recordings
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command(perf, append([]string{"script", "-f", "-i", file}, args...)...)
	var head [16]byte
	if f.ReadAt(head[:], 0); head[8] == pipeHeaderSize || head[15] == pipeHeaderSize {
		cmd.Args[4] = "-"
		cmd.Stdin = f
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s", cmd.Args, err, errOutput(err))
	}
	var lines []string
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
		lines = append(lines, sc.Text())
	}
	return lines
}

// scriptSpaces follows the mappings that perf script shows between samples, in
// the plainest way: the latest that covers an address.
type scriptSpaces map[int][]scriptMapping

type scriptMapping struct {
	start, size, off uint64
	name             string
}

// line takes a line of perf script's output, "4/4 0.123: event: ...", and returns
// its process and the rest from the event on; that is "" if the line was about a process.
func (spaces scriptSpaces) line(t *testing.T, line string) (pid int, rest string) {
	var tid int
	var time string
	_, err := fmt.Sscanf(strings.TrimSpace(line), "%d/%d %s", &pid, &tid, &time)
	_, rest, ok := strings.Cut(line, time)
	if err != nil || !ok {
		t.Fatalf("perf script: %q: %v", line, err)
	}
	rest = strings.TrimSpace(rest)
	switch {
	case strings.HasPrefix(rest, "PERF_RECORD_MMAP"):
		// PERF_RECORD_MMAP2 4/4: [0x5000(0x1000) @ 0x4000 fe:00 247072 0]: r-xp /usr/bin/dash
		var m scriptMapping
		if _, err := fmt.Sscanf(rest[strings.IndexByte(rest, ' '):], " %d/%d: [%v(%v) @ %v", &pid, &tid, &m.start, &m.size, &m.off); err != nil {
			t.Fatalf("perf script: %q: %v", line, err)
		}
		_, m.name, _ = strings.Cut(rest, "]: ")
		_, m.name, _ = strings.Cut(m.name, " ")
		spaces[pid] = append(spaces[pid], m)
	case strings.HasPrefix(rest, "PERF_RECORD_FORK"):
		var parent, ptid int
		if _, err := fmt.Sscanf(rest, "PERF_RECORD_FORK(%d:%d):(%d:%d)", &pid, &tid, &parent, &ptid); err != nil {
			t.Fatalf("perf script: %q: %v", line, err)
		}
		if pid != parent && !strings.HasPrefix(time, "0.000000000") {
			spaces[pid] = slices.Clone(spaces[parent])
		}
	case strings.HasPrefix(rest, "PERF_RECORD_COMM exec"):
		spaces[pid] = nil
	case strings.HasPrefix(rest, "PERF_RECORD_"):
	default:
		return pid, rest
	}
	return pid, ""
}

var showMappings = []string{"--ns", "--show-mmap-events", "--show-task-events"}

// scriptPlaces does as places with perf script's output. perf says which file an
// address is in but not where in it.
func scriptPlaces(t *testing.T, perf, file string) map[string]int {
	spaces := scriptSpaces{}
	m := map[string]int{}
	for _, line := range script(t, perf, file, append(showMappings, "-F", "pid,tid,time,event,ip,dso", "-G")...) {
		pid, rest := spaces.line(t, line)
		if rest == "" {
			continue
		}
		// cpu-clock:u:  7f1456e75b70 (/usr/lib/x86_64-linux-gnu/libc.so.6)
		f := strings.SplitN(strings.Join(strings.Fields(rest), " "), " (", 2)
		i := strings.LastIndexByte(f[0], ' ')
		var ip uint64
		if _, err := fmt.Sscanf(f[0][i+1:], "%x", &ip); err != nil {
			t.Fatalf("perf script: %q: %v", line, err)
		}
		event, dso := plainName(strings.TrimSuffix(f[0][:i], ":")), strings.TrimSuffix(f[1], ")")
		place := scriptLoss(dso, ip)
		if place == "" {
			for _, e := range spaces[pid] {
				if ip >= e.start && ip < e.start+e.size && e.name == dso {
					place = fmt.Sprintf("%s+%x", strings.TrimSuffix(dso, " (deleted)"), ip-e.start+e.off)
				}
			}
		}
		m[event+" "+place]++
	}
	return m
}

// scriptLoss tells from what perf calls a file whether it is none.
func scriptLoss(dso string, pc uint64) string {
	switch {
	case pc>>63 != 0 || strings.HasPrefix(dso, "[kernel"):
		return string(sample.LostKernel)
	case strings.HasPrefix(dso, "[vdso"):
		return string(sample.LostVDSO)
	case dso == "[unknown]":
		return string(sample.LostUnmapped)
	case dso == "//anon" || dso == "[heap]" || dso == "[uprobes]" || strings.HasPrefix(dso, "[stack") || strings.HasPrefix(dso, "/memfd:") || strings.HasPrefix(dso, "/tmp/perf-"):
		return string(sample.LostAnonymous)
	}
	return ""
}

// stacks returns samples by event and stack.
func stacks(rec *sample.Recording) map[string]int {
	m := map[string]int{}
	for _, c := range rec.Counts {
		for _, s := range c.Stacks {
			key := c.Event.Name
			for _, f := range s.Frames {
				if f.Image == sample.Unknown {
					key += " ?"
				} else {
					key += fmt.Sprintf(" %s+%x", c.Images[f.Image].ID.Path, uint64(f.Off))
				}
			}
			m[key] += int(s.N)
		}
	}
	return m
}

// scriptStacks does as stacks with perf script's output, where addresses in
// callchains are offsets in files. After an exec, perf still finds wild frame
// pointers in mappings that are gone: these are unknown here.
func scriptStacks(t *testing.T, perf, file string) map[string]int {
	spaces := scriptSpaces{}
	m := map[string]int{}
	var pid int
	var event string
	var frames []string
	end := func() {
		if len(frames) > 0 && frames[0] != "?" {
			frames = frames[:min(len(frames), defaultStackDepth)]
			for frames[len(frames)-1] == "?" {
				frames = frames[:len(frames)-1]
			}
			m[event+" "+strings.Join(frames, " ")]++
		}
		event, frames = "", nil
	}
	for _, line := range script(t, perf, file, append(showMappings, "-F", "pid,tid,time,event,ip,dso", "--no-inline")...) {
		if line == "" {
			end()
			continue
		}
		if event == "" {
			// The frames follow, or all is in this line if there is no callchain.
			if pid, event = spaces.line(t, line); !strings.HasSuffix(event, ":") {
				event = ""
			}
			event = plainName(strings.TrimSuffix(event, ":"))
			continue
		}
		var pc uint64
		if _, err := fmt.Sscanf(line, " %x", &pc); err != nil {
			t.Fatalf("perf script: %q: %v", line, err)
		}
		// perf 6.1 puts symbols here of a pipe's recording, asked or not
		at := max(strings.LastIndex(line, " (/"), strings.LastIndex(line, " (["))
		dso := strings.TrimSuffix(line[at+2:], ")")
		place := fmt.Sprintf("%s+%x", strings.TrimSuffix(dso, " (deleted)"), pc)
		if scriptLoss(dso, pc) != "" || !slices.ContainsFunc(spaces[pid], func(m scriptMapping) bool { return m.name == dso }) {
			place = "?"
		}
		frames = append(frames, place)
	}
	end()
	return m
}
