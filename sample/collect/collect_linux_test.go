package collect

import (
	"bufio"
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// build compiles testdata/busy.go; binaries of different versions have different
// build IDs.
func build(t *testing.T, version string) (exe string) {
	t.Helper()
	testtool.Live(t, "records")
	if _, err := Probe(); err != nil {
		t.Skip(err)
	}
	return program(t, "busy-"+version)
}

// run records a command and checks what every recording must hold.
func run(t *testing.T, opt Options) (*sample.Counts, *Stats) {
	t.Helper()
	testtool.Live(t, "records")
	opt.MaxCPU = cmp.Or(opt.MaxCPU, 1)
	rec, stats, err := Record(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return check(t, rec, stats), stats
}

func check(t *testing.T, rec *sample.Recording, stats *Stats) *sample.Counts {
	t.Helper()
	if len(rec.Counts) != 1 {
		t.Fatalf("%d events", len(rec.Counts))
	}
	c := rec.Counts[0]
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	if c.Total == 0 {
		t.Fatal("no samples")
	}
	want := c.Delivered() * c.Event.Period
	missed := len(stats.Times) > 0 && stats.Times[0].Missed > 0
	if (c.Event.Name == ptraceClock || c.Event.Name == cpuClock || missed) && c.Weight > want { // the period was longer at times, to bound the cost, or what had no sample was weighed
		want = c.Weight
	}
	if c.Weight != want {
		t.Errorf("weight %d, but %d samples of period %d are %d", c.Weight, c.Delivered(), c.Event.Period, want)
	}
	if stats.LostRecords > 0 {
		t.Errorf("%d records of mappings and tasks lost", stats.LostRecords)
	}
	return c
}

// shares returns the share of samples of functions of exe, and of other images and
// losses by their name.
func shares(t *testing.T, c *sample.Counts, exe string) map[string]float64 {
	t.Helper()
	name := namer(t, exe)
	share := map[string]float64{}
	for _, im := range c.Images {
		for off, n := range im.At {
			what := im.ID.Path
			if what == exe {
				what = name(uint64(off))
			}
			share[what] += float64(n) / float64(c.Total)
		}
	}
	for why, n := range c.Lost {
		share[string(why)] += float64(n) / float64(c.Total)
	}
	return share
}

// namer names the functions at file offsets of a program.
func namer(t *testing.T, exe string) func(off uint64) string {
	t.Helper()
	f, err := elf.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	syms, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	return func(off uint64) string {
		for _, p := range f.Progs {
			if p.Type != elf.PT_LOAD || off < p.Off || off >= p.Off+p.Filesz {
				continue
			}
			pc := off - p.Off + p.Vaddr
			for _, s := range syms {
				if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Value <= pc && pc < s.Value+s.Size {
					return s.Name
				}
			}
		}
		return "?"
	}
}

func TestRecordCommand(t *testing.T) {
	exe := build(t, "a")
	for _, tt := range []struct {
		name    string
		command []string
		want    map[string][2]float64 // share of samples, from and to
	}{
		{"one thread", []string{exe, "busy", "400"}, map[string][2]float64{"main.busy": {.9, 1}}},
		{"shell", []string{"sh", "-c", exe + " busy 200; " + exe + " child 200; true"},
			map[string][2]float64{"main.busy": {.35, .65}, "main.busyInChild": {.35, .65}}},
		{"exec", []string{"sh", "-c", "exec " + exe + " busy 400"}, map[string][2]float64{"main.busy": {.9, 1}}},
		{"threads and child", []string{exe, "tree", "150"},
			map[string][2]float64{"main.busyInThread": {.35, .65}, "main.busyInChild": {.35, .65}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, stats := run(t, Options{Command: tt.command})
			if !stats.Command.Success() {
				t.Errorf("%v: %v", tt.command, stats.Command)
			}
			share := shares(t, c, exe)
			for name, want := range tt.want {
				if got := share[name]; got < want[0] || got > want[1] {
					t.Errorf("%s has %.2f of the samples, want %.2f to %.2f; all: %v", name, got, want[0], want[1], share)
				}
			}
		})
	}
}

// TestRecordProcesses: processes that begin a program are counted, those that only fork are not.
func TestRecordProcesses(t *testing.T) {
	exe := build(t, "a")
	c, stats := run(t, Options{Command: []string{"sh", "-c", "for i in 1 2 3; do (exec " + exe + " busy 50); done; (:)"}})
	if c.Event.Name == ptraceClock || stats.LostRecords > 0 {
		t.Skip("a process without samples is not seen by ptrace, and one whose records were lost by none")
	}
	for _, ic := range c.Images {
		if ic.ID.Path == exe && ic.Processes != 3 {
			t.Errorf("%d processes, want 3", ic.Processes)
		}
	}
	if shares(t, c, exe)["main.busy"] == 0 {
		t.Skip("no samples of it")
	}
}

// TestRecordTop: main.busy keeps no frame, so its return address, in main.main, is
// at the stack pointer, or in the link register, all the time.
func TestRecordTop(t *testing.T) {
	exe := build(t, "a")
	c, _ := run(t, Options{Command: []string{exe, "busy", "200"}})
	name := namer(t, exe)
	var busy, right uint64
	for _, s := range c.Stacks {
		leaf := s.Frames[0]
		if c.Images[leaf.Image].ID.Path != exe || name(uint64(leaf.Off)) != "main.busy" {
			continue
		}
		busy += s.N
		if s.Top.Image == leaf.Image && name(uint64(s.Top.Off)) == "main.main" {
			right += s.N
		}
	}
	if busy == 0 || right != busy {
		t.Errorf("of %d samples in main.busy, %d have main.main at the stack pointer", busy, right)
	}
}

// TestRecordRate: the periods of the samples add up to the time that the command
// used. Pauses take a little of it, more on a busy machine.
func TestRecordRate(t *testing.T) {
	exe := build(t, "a")
	c, stats := run(t, Options{Command: []string{exe, "busy", "600"}, Frequency: 499})
	if c.Event.Name != cpuClock {
		t.Skip("the rate is known only of " + cpuClock)
	}
	seconds := stats.Command.UserTime().Seconds()
	if got := float64(c.Weight) / 1e9; got < .7*seconds || got > 1.1*seconds {
		t.Errorf("samples stand for %.2f s, but the command used %.2f s", got, seconds)
	}
}

func TestRecordFailing(t *testing.T) {
	exe := build(t, "a")
	_, stats := run(t, Options{Command: []string{exe, "fail", "100"}})
	if code := stats.Command.ExitCode(); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
}

func TestRecordRefuses(t *testing.T) {
	testtool.Live(t, "tries to record")
	if _, err := Probe(); err != nil {
		t.Skip(err)
	}
	for _, tt := range []struct {
		name string
		opt  Options
		want string
	}{
		{"nothing", Options{}, "either a command or processes"},
		{"both", Options{Command: []string{"true"}, PIDs: []int{1}}, "either a command or processes"},
		{"too fast", Options{Command: []string{"true"}, Frequency: 1e6}, "1 to 100000"},
		{"no such command", Options{Command: []string{"/no/such/command"}}, "no such file"},
		{"no such process", Options{PIDs: []int{1 << 30}}, "there is no process"},
	} {
		_, _, err := Record(context.Background(), tt.opt)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// pipes makes a pipe for each direction.
func pipes(t *testing.T) (stdin, tell, hear, stdout *os.File) {
	t.Helper()
	stdin, tell, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	hear, stdout, err = os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, f := range []*os.File{stdin, tell, hear, stdout} {
			f.Close()
		}
	})
	return stdin, tell, hear, stdout
}

// TestReplacedBinary replaces a program while it runs. Its samples must stay
// with the build ID that it had, not go to the file that has its path now.
func TestReplacedBinary(t *testing.T) {
	exe, successor := build(t, "a"), build(t, "b")
	was, will := idOf(t, exe), idOf(t, successor)
	if was == will {
		t.Fatal("both binaries have the same build ID")
	}
	stdin, tell, hear, stdout := pipes(t)
	replaced := make(chan error, 1)
	go func() {
		_, err := bufio.NewReader(hear).ReadString('\n')
		err = errors.Join(err, os.Rename(successor, exe))
		_, err2 := tell.WriteString("\n")
		replaced <- errors.Join(err, err2)
	}()
	c, _ := run(t, Options{Command: []string{exe, "wait", "300"}, Stdin: stdin, Stdout: stdout})
	if err := <-replaced; err != nil {
		t.Fatal(err)
	}
	got := map[sample.BuildID]uint64{}
	for _, im := range c.Images {
		got[im.ID.Build] += im.Samples()
	}
	if got[was] < c.Total*9/10 || got[will] > 0 {
		t.Errorf("of %d samples, %d are of the binary that ran and %d of its successor", c.Total, got[was], got[will])
	}
}

func idOf(t *testing.T, path string) sample.BuildID {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	e, err := sample.ReadELF(f)
	if err != nil || e.Build.IsZero() {
		t.Fatalf("%s has no build ID: %v", path, err)
	}
	return e.Build
}

func TestAttach(t *testing.T) {
	exe := build(t, "a")
	stdin, _, hear, stdout := pipes(t)
	cmd := exec.Command(exe, "forever", "1")
	cmd.Stdin, cmd.Stdout = stdin, stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if _, err := bufio.NewReader(hear).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	t.Run("for a time", func(t *testing.T) {
		c, _ := run(t, Options{PIDs: []int{cmd.Process.Pid}, Duration: 500 * time.Millisecond})
		want := .9
		if testtool.Prebuilt() != "" {
			want = .6 // in a guest the runtime's own threads take their time, too
		}
		if share := shares(t, c, exe); share["main.busy"] < want {
			t.Errorf("main.busy has %.2f of the samples: %v", share["main.busy"], share)
		}
	})
	t.Run("until it ends", func(t *testing.T) {
		time.AfterFunc(500*time.Millisecond, func() { cmd.Process.Kill() })
		run(t, Options{PIDs: []int{cmd.Process.Pid}})
	})
}

// TestCancel: a command that still runs when the context is done is told to end.
func TestCancel(t *testing.T) {
	exe := build(t, "a")
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	rec, stats, err := Record(ctx, Options{Command: []string{exe, "forever", "1"}})
	if err != nil {
		t.Fatal(err)
	}
	check(t, rec, stats)
	if ws := stats.Command.Sys().(syscall.WaitStatus); ws.Signal() != unix.SIGTERM {
		t.Errorf("the command ended by %v, want SIGTERM", stats.Command)
	}
}

func TestExplain(t *testing.T) {
	for _, tt := range []struct {
		name     string
		errno    syscall.Errno
		host     hostState
		why, fix string // parts of
	}{
		{"Debian's default", unix.EACCES, hostState{paranoid: 3}, "perf_event_paranoid is 3", "sysctl kernel.perf_event_paranoid=2"},
		{"container", unix.EPERM, hostState{paranoid: 2, seccomp: true, root: true}, "containers", "--cap-add PERFMON"},
		{"container on a strict host", unix.EPERM, hostState{paranoid: 4, seccomp: true}, "perf_event_paranoid is 4", "sysctl"},
		{"something else", unix.EPERM, hostState{paranoid: 2}, "does not permit", "CAP_PERFMON"},
		{"kernel without", unix.ENOSYS, hostState{}, "no perf events", "CONFIG_PERF_EVENTS"},
		{"files", unix.EMFILE, hostState{}, "open files", "ulimit"},
		{"unheard of", unix.EIO, hostState{}, "refuses", ""},
	} {
		why, fix := explain(tt.errno, tt.host)
		if !strings.Contains(why, tt.why) || !strings.Contains(fix, tt.fix) {
			t.Errorf("%s: %q, %q; want %q, %q", tt.name, why, fix, tt.why, tt.fix)
		}
	}
}

func TestParseCPUs(t *testing.T) {
	for _, tt := range []struct{ list, want string }{
		{"0", "[0]"},
		{"0-3", "[0 1 2 3]"},
		{"0-1,4,6-7", "[0 1 4 6 7]"},
		{"", "error"},
		{"a-b", "error"},
		{"0-99999999", "error"},
	} {
		got := "error"
		if cpus, err := parseCPUs(tt.list); err == nil {
			got = fmt.Sprint(cpus)
		}
		if got != tt.want {
			t.Errorf("%q: %s, want %s", tt.list, got, tt.want)
		}
	}
}

// TestIdentifyByPath: a path is not believed if another file lies there.
func TestIdentifyByPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	m := mmapRecord{pid: os.Getpid(), start: 1, size: 1, path: path, inode: st.Sys().(*syscall.Stat_t).Ino}
	f := openMapped(&m)
	if f == nil {
		t.Fatal("the mapped file was not found by its path")
	}
	f.Close()
	m.inode++
	if f := openMapped(&m); f != nil {
		t.Errorf("opened %s, which has another inode", f.Name())
		f.Close()
	}
	for _, tt := range []struct {
		name string
		m    mmapRecord
		want string
	}{
		{"no build ID", mmapRecord{path: path, inode: m.inode - 1}, path},
		{"no build ID, replaced", mmapRecord{path: path, inode: m.inode}, path + deleted},
		{"gone", mmapRecord{path: path + "x", inode: m.inode}, path + "x"},
		{"gone before it was mapped", mmapRecord{path: path + deleted, inode: m.inode}, path + deleted},
	} {
		if got := new(fileIDs).identify(&tt.m); got.Path != tt.want || !got.Build.IsZero() {
			t.Errorf("%s: %v, want %s", tt.name, got, tt.want)
		}
	}
	dir := filepath.Dir(path)
	if st, err = os.Stat(dir); err != nil {
		t.Fatal(err)
	}
	m = mmapRecord{path: dir, inode: st.Sys().(*syscall.Stat_t).Ino}
	if f := openMapped(&m); f != nil {
		t.Error("opened a directory")
		f.Close()
	}
}
