package collect

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"backfeed/sample"
	"backfeed/sample/kernel"
)

// TestCallersOf: callers are kept of samples in code of Go, of all or of none.
func TestCallersOf(t *testing.T) {
	for _, tt := range []struct {
		of   CallersOf
		want []string // images whose samples have a caller
	}{
		{CallersOfNone, nil},
		{CallersOfGo, []string{"/bin/server"}},
		{CallersOfAll, []string{"/bin/server", "/lib/libc.so"}},
	} {
		r := newResolver()
		r.callersOf = tt.of
		c := sample.NewCounts(sample.CPU{}, sample.Event{})
		for i, f := range []struct {
			path    string
			content fileContent
		}{
			{"/bin/server", fileContent{sample.BuildID{1}, true}},
			{"/lib/libc.so", fileContent{sample.BuildID{2}, false}},
		} {
			at := uint64(0x1000 * (i + 1))
			r.procs.mapped(7, 10, sample.Mapping{Start: at, End: at + 0x1000, Image: r.files.image(f.path, f.content)})
		}
		for _, at := range []uint64{0x1000, 0x2000} {
			p := pending{call: call{sampledPC: sampledPC{IP: at + 16, PID: 7, Born: 8}, frame: at + 32}, n: 1, caller: tt.of != CallersOfNone}
			if !r.place([]*sample.Counts{c}, &p, true, map[sample.Loss]uint64{}) {
				t.Fatal("a sample has no place")
			}
		}
		var got []string
		for _, s := range c.Stacks {
			if len(s.Frames) == 2 {
				got = append(got, c.Images[s.Frames[0].Image].ID.Path)
			}
		}
		if slices.Sort(got); !slices.Equal(got, tt.want) || c.Total != 2 {
			t.Errorf("callers of %d: those of %q in %d samples, want %q", tt.of, got, c.Total, tt.want)
		}
	}
}

// TestOrigins: samples are of the program that a process ran then, and of its control group, which one that has ended
// has from its parent.
func TestOrigins(t *testing.T) {
	const noProcess = 1 << 30 // above all there can be
	r := newResolver()
	r.origins = true
	r.procs.mapped(noProcess, 10, sample.Mapping{Start: 0x1000, End: 0x2000, Image: sample.ImageID{Path: "/bin/sh"}})
	shell := r.procs.at(noProcess, 10)
	shell.name, shell.cgroup = "sh", "/user.slice"
	c := sample.NewCounts(sample.CPU{}, sample.Event{})
	place := func(pid uint32, born, at, n uint64) {
		t.Helper()
		// Each is of a thread and a slice of its own, but for the first, of which neither is known.
		key := sampledPC{IP: at, PID: pid, Born: born, Slice: n &^ 1}
		copy(key.Comm[:], fmt.Sprint("t", n))
		if n == 1 {
			key.Comm = [16]byte{}
		}
		if p := (pending{call: call{sampledPC: key}, n: n}); !r.place([]*sample.Counts{c}, &p, true, map[sample.Loss]uint64{}) {
			t.Fatal("a sample has no place")
		}
	}
	place(noProcess, 8, 0x1010, 1)
	for _, ch := range []change{
		{time: 100, typ: typeFork, pid: noProcess + 1, parent: noProcess},
		{time: 110, typ: typeComm, pid: noProcess + 1, name: "cc", exec: true},
		{time: 111, typ: typeMmap2, pid: noProcess + 1, m: sample.Mapping{Start: 0x1000, End: 0x2000, Image: sample.ImageID{Path: "/bin/cc"}}},
		{time: 200, typ: typeFork, pid: noProcess + 2, parent: noProcess + 1},
		{time: 210, typ: typeComm, pid: noProcess + 2, name: "worker"},
	} {
		r.apply(&ch)
	}
	place(noProcess+1, 98, 0x1010, 2)
	place(noProcess+1, 121, 0x1010, 4)
	place(noProcess+2, 198, 0x1010, 8)
	place(noProcess+2, 198, 0x5010, 16) // in no mapping
	place(noProcess+3, 300, 0x1010, 32) // of nothing that is known
	if p := (pending{call: call{sampledPC: sampledPC{PID: noProcess + 1, Born: 121, Comm: [16]byte{'t', '4'}, Slice: 4}}, n: 64, kernel: true}); !r.place([]*sample.Counts{c}, &p, false, map[sample.Loss]uint64{}) {
		t.Error("a sample in the kernel is not lost to it")
	}
	if p := (pending{call: call{sampledPC: sampledPC{PID: noProcess + 4, Born: 121}}, n: 128, kernel: true}); r.place([]*sample.Counts{c}, &p, false, map[sample.Loss]uint64{}) {
		t.Error("a sample of a process that is not known yet does not wait")
	}
	want := map[sample.Origin]uint64{{Process: "sh", Thread: "", Cgroup: "/user.slice"}: 1, {Process: "sh", Thread: "t2", Cgroup: "/user.slice"}: 2, {Process: "cc", Thread: "t4", Cgroup: "/user.slice"}: 68, {Process: "worker", Thread: "t8", Cgroup: "/user.slice"}: 8, {Process: "worker", Thread: "t16", Cgroup: "/user.slice"}: 16}
	if !maps.Equal(c.Origins, want) || c.Total != 127 {
		t.Errorf("%d samples are of %v, want %v", c.Total, c.Origins, want)
	}
	if got, want := fmt.Sprint(c.BySlice()), "map[2:2 4:68 8:8 16:16 32:32]"; got != want {
		t.Errorf("samples by slice %s, want %s", got, want)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

func TestCgroupOf(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"version 2", "0::/system.slice/redis.service\n", "/system.slice/redis.service"},
		{"version 1", "12:cpuset:/\n4:memory:/docker/7f\n1:name=systemd:/system.slice/docker.service\n", "/system.slice/docker.service"},
		{"both, version 2 in use", "1:name=systemd:/a\n0::/b\n", "/b"},
		{"both, version 2 not in use", "4:memory:/m\n0::/\n", "/m"},
		{"a colon in the path", "0::/a:b\n", "/a:b"},
		{"the root", "0::/\n", "/"},
		{"nothing", "", ""},
		{"cut off", "0:", ""},
	} {
		if got := cgroupOf(tt.text); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestFileIDsForget: of more images of Go than are remembered, the others stay.
func TestFileIDsForget(t *testing.T) {
	var f fileIDs
	for i := range maxFiles + 3 {
		f.image("/bin/server", fileContent{sample.BuildID{byte(i), byte(i >> 8), byte(i >> 16), 1}, true})
	}
	if len(f.golang) != maxFiles {
		t.Errorf("%d images are remembered, want %d", len(f.golang), maxFiles)
	}
}

// TestWeighCounts: no weight is lost, and counts with samples have some.
func TestWeighCounts(t *testing.T) {
	for _, tt := range []struct {
		name                  string
		delivered, all, later uint64
		now, carried          uint64
	}{
		{"all is placed", 9, 9000, 0, 9000, 0},
		{"some waits", 6, 9000, 3000, 6000, 3000},
		{"all waits", 0, 9000, 9000, 0, 9000},
		{"nothing came", 0, 0, 0, 0, 0},
		{"a sample before its weight", 1, 0, 0, 1, 0},
		{"one that waited, and all that is new waits", 1, 9000, 9000, 1, 9000},
	} {
		now, carried := weigh(tt.delivered, tt.all, tt.later)
		if now != tt.now || carried != tt.carried {
			t.Errorf("%s: %d now and %d later, want %d and %d", tt.name, now, carried, tt.now, tt.carried)
		}
	}
}

// TestSnapshot: of the processes there are, those that are asked for are looked at, or all.
func TestSnapshot(t *testing.T) {
	self := os.Getpid()
	for _, asked := range [][]int{nil, {self}} {
		r := snapshotOf(t, asked)
		if len(r.procs.of[self]) != 1 {
			t.Fatalf("asked for %v: %d versions of this process", asked, len(r.procs.of[self]))
		}
		pc := uint64(reflect.ValueOf(TestSnapshot).Pointer())
		if id, _, why := r.procs.spaces.Find(r.procs.of[self][0].id, pc); why != "" || id.Build.IsZero() && id.Path == "" {
			t.Errorf("asked for %v: code of this test is of %v, %s", asked, id, why)
		}
		if others := len(r.procs.of) - 1; asked == nil && others == 0 || asked != nil && others > 0 {
			t.Errorf("asked for %v: %d other processes", asked, others)
		}
	}
}

func snapshotOf(tb testing.TB, asked []int) *resolver {
	tb.Helper()
	r := newResolver()
	r.procs.some, r.procs.asked = len(asked) > 0, asked
	r.begin(kernel.Symbols{})
	if err := r.snapshot(); err != nil {
		tb.Fatal(err)
	}
	return r
}

func BenchmarkSnapshot(b *testing.B) {
	for name, asked := range map[string][]int{"all": nil, "asked": {os.Getpid()}} {
		b.Run(name, func(b *testing.B) {
			var n int
			for b.Loop() {
				n = len(snapshotOf(b, asked).procs.of)
			}
			b.ReportMetric(float64(n), "processes")
		})
	}
}

// mapFiles maps files of this machine into the test process as code, and returns the records of these mappings.
func mapFiles(tb testing.TB, most int) []mmapRecord {
	tb.Helper()
	paths, err := filepath.Glob("/usr/bin/*")
	if err != nil {
		tb.Fatal(err)
	}
	for _, path := range paths {
		f, err := sample.OpenRegular(path)
		if err != nil {
			continue
		}
		if b, err := unix.Mmap(int(f.Fd()), 0, 1, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE); err == nil {
			tb.Cleanup(func() { unix.Munmap(b) })
			most--
		}
		f.Close()
		if most == 0 {
			break
		}
	}
	return ownRecords(tb, func(m mmapRecord) bool { return strings.HasPrefix(m.path, "/usr/bin/") })
}

// ownRecords returns records of what this process has mapped, of those that are wanted.
func ownRecords(tb testing.TB, want func(mmapRecord) bool) []mmapRecord {
	tb.Helper()
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	all, err := parseMaps(f, os.Getpid())
	if err != nil {
		tb.Fatal(err)
	}
	return slices.DeleteFunc(all, func(m mmapRecord) bool { return !want(m) })
}

// TestIdentifyAgain: a file that was looked at is not read again as long as nobody writes to it, and then it is.
func TestIdentifyAgain(t *testing.T) {
	code := make([]byte, os.Getpagesize())
	file, err := os.Create(filepath.Join(t.TempDir(), "code"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(code); err != nil {
		t.Fatal(err)
	}
	b, err := unix.Mmap(int(file.Fd()), 0, len(code), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		t.Skip("code cannot be mapped here: ", err)
	}
	defer unix.Munmap(b)
	records := ownRecords(t, func(m mmapRecord) bool { return m.path == file.Name() })
	if len(records) != 1 {
		t.Fatalf("%d mappings of %s", len(records), file.Name())
	}
	m := &records[0]
	if _, ok := versionMapped(m); !ok {
		t.Skip("to follow map_files takes CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE")
	}
	var f fileIDs
	identify := func(want sample.BuildID) {
		t.Helper()
		if got := f.identify(m); got.Build != want || got.Path != file.Name() {
			t.Errorf("identified as %v, want build %v", got, want)
		}
		for key, known := range f.mapped {
			known.checked = time.Time{}
			f.mapped[key] = known
		}
	}
	identify(sample.BuildID{})
	noted := sample.BuildID{7} // in the place of what the file says
	for version := range f.seen {
		f.seen[version] = fileContent{build: noted}
	}
	identify(noted)
	time.Sleep(20 * time.Millisecond) // times of files had steps of a tick, before Linux 6.13
	if _, err := file.WriteAt([]byte{1}, 0); err != nil {
		t.Fatal(err)
	}
	identify(sample.BuildID{})
	if len(f.seen) != 2 {
		t.Errorf("%d versions of the file were seen, want 2", len(f.seen))
	}
}

// BenchmarkIdentify: of a mapped file, by what is known of it. The clock of a busy machine says little: cpu-ns are of the processor.
func BenchmarkIdentify(b *testing.B) {
	records := mapFiles(b, 200)
	var f fileIDs
	for name, before := range map[string]func(){
		"new": func() { f.seen, f.mapped = nil, nil },
		"seen a second ago": func() {
			for key, known := range f.mapped {
				known.checked = time.Time{}
				f.mapped[key] = known
			}
		},
		"seen now": func() {},
	} {
		b.Run(name, func(b *testing.B) {
			for i := range records {
				f.identify(&records[i])
			}
			start := ProcessorTime()
			for b.Loop() {
				before()
				for i := range records {
					f.identify(&records[i])
				}
			}
			b.ReportMetric(float64(ProcessorTime()-start)/float64(b.N)/float64(len(records)), "cpu-ns/file")
		})
	}
}
