package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"backfeed/cmd/internal/report"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/collect"
	"backfeed/sample/perfdata"
	"backfeed/sample/unwind"
)

// TestUnwind records a program without frame pointers, and holds the stacks of all samples in its one busy
// function to the three ways in which that is called: deep, through the C library, and from a signal's handler; and
// those of samples in the kernel's code that it reads a clock by.
// Then as many frames are recorded as are asked for.
func TestUnwind(t *testing.T) {
	testtool.Live(t, "records")
	t.Run("eh_frame", func(t *testing.T) { testUnwind(t, program(t, "deep"), collect.MaxFrames, 3) })
	t.Run("debug_frame", func(t *testing.T) { testUnwind(t, program(t, "deepdebug"), collect.MaxFrames) })
}

func testUnwind(t *testing.T, exe string, numbers ...int) {
	t.Helper()
	cmd := exec.Command(exe)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	im := openImage(t, exe)
	for _, frames := range numbers {
		lasts, few := 2*time.Second, uint64(50)
		if frames < collect.MaxFrames { // the ways cannot be told apart; how long stacks are, fewer samples show
			lasts, few = lasts/4, few/4
		}
		rec := unwound(t, lasts, collect.SystemOptions{Frequency: 499, PIDs: []int{cmd.Process.Pid}, Callers: collect.CallersOfAll, Frames: frames, Unwind: image.UnwindTable})
		ways, samples, wrong, strange := map[string]uint64{}, uint64(0), uint64(0), 0
		for _, c := range rec.Counts {
			for _, s := range c.Stacks {
				names := framesOf(c, im, exe, s.Frames)
				if names[0] != "spin" && (names[0] != vdso || runtime.GOARCH == "arm64") { // of which Linux 6.12 leaves out .eh_frame there
					continue
				}
				samples += s.N
				if len(names) > frames+1 {
					t.Errorf("%d callers of %d: %s", len(names)-1, frames, names)
				}
				way := wayOf(names)
				if ways[way] += s.N; way == "" {
					wrong += s.N
					if strange++; strange <= 5 && frames == collect.MaxFrames {
						t.Logf("%d samples: %s", s.N, strings.Join(names, " "))
					}
				}
			}
		}
		t.Logf("up to %d callers: %d samples, by way (none where some are missing): %v", frames, samples, ways)
		if samples < few {
			t.Fatal("too few samples to tell")
		}
		if frames < collect.MaxFrames {
			continue
		}
		if wrong*200 > samples { // what the kernel cannot read at that moment
			t.Errorf("%d of %d samples are of no way in which the program calls spin", wrong, samples)
		}
		for _, way := range []string{"deep", "library", "signal", "clock"} {
			if ways[way] == 0 && (way != "clock" || runtime.GOARCH != "arm64") {
				t.Errorf("no stack is %s", way)
			}
		}
	}
}

// unwound records for so long, after a second in which the mappings of the program come to be known.
func unwound(t *testing.T, lasts time.Duration, opt collect.SystemOptions) *sample.Recording {
	t.Helper()
	s, err := collect.OpenSystem(opt)
	if u := (*collect.Unavailable)(nil); errors.As(err, &u) {
		t.Skip(designed + u.Why)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, u := range s.Without() {
		t.Errorf("without: %v\n%s", u, u.Log)
	}
	time.Sleep(time.Second)
	if _, err := s.Drain(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(lasts)
	rec, err := s.Drain()
	if err != nil {
		t.Fatal(err)
	}
	n := s.Counters()
	t.Logf("%d rows, %d bytes of maps, %v in the kernel's programs, %v here", n.UnwindRows, n.MapBytes, n.BPF, s.Used())
	if n.Shed > 0 || n.UnwindRows == 0 {
		t.Errorf("%d rows; %d images or processes dropped", n.UnwindRows, n.Shed)
	}
	return rec
}

// TestUnwindCopied: of the same program's stacks, which the kernel has copied for perf record --call-graph dwarf, usertime has the callers.
func TestUnwindCopied(t *testing.T) {
	testtool.Live(t, "records")
	exe := program(t, "deep")
	t.Run("perf", func(t *testing.T) {
		perf, data := testtool.Path(t, "perf"), filepath.Join(t.TempDir(), "perf.data")
		out, err := exec.Command(perf, "record", "-q", "-e", "cpu-clock:u", "-F", "999", "--call-graph", "dwarf,16384", "-o", data, "--", "timeout", "3", exe).CombinedOutput()
		if _, missing := os.Stat(data); missing != nil {
			t.Skipf("perf cannot record here: %v\n%s", err, out)
		}
		checkCopied(t, exe, data)
	})
	t.Run("the kernel", func(t *testing.T) {
		data := filepath.Join(t.TempDir(), "perf.data")
		testtool.Put(t, data, string(copiedStacks(t, exe, 2*time.Second)))
		checkCopied(t, exe, data)
	})
}

// copiedStacks records a program for so long as perf record --call-graph dwarf does, and returns what perf would write to a pipe.
func copiedStacks(t *testing.T, exe string, lasts time.Duration) []byte {
	t.Helper()
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Sample: 5_000_000,
		Sample_type: unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_REGS_USER | unix.PERF_SAMPLE_STACK_USER,
		Bits: unix.PerfBitDisabled | unix.PerfBitEnableOnExec | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv | unix.PerfBitMmap | unix.PerfBitMmap2 |
			unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitTask | unix.PerfBitSampleIDAll,
		Sample_regs_user: map[string]uint64{"amd64": 0xff0fff, "arm64": 1<<33 - 1}[runtime.GOARCH], Sample_stack_user: 16 << 10,
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	// The event is of the shell, which becomes the program when it is told so.
	cmd := exec.Command("sh", "-c", `read go; exec "$0"`, exe)
	start, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	fd, err := unix.PerfEventOpen(&attr, cmd.Process.Pid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		t.Skipf("the kernel copies no stacks here: %v", err)
	}
	defer unix.Close(fd)
	const pages = 64 // 17 samples; that many an unprivileged user may lock
	ring, err := unix.Mmap(fd, 0, (1+pages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(ring)

	b := binary.LittleEndian.AppendUint64([]byte("PERFILE2"), 16) // the file's head, then the event, as HEADER_ATTR
	b = binary.LittleEndian.AppendUint32(b, 64)
	b = binary.LittleEndian.AppendUint32(b, (8+attr.Size)<<16)
	b = append(b, unsafe.Slice((*byte)(unsafe.Pointer(&attr)), attr.Size)...)
	page, records := (*unix.PerfEventMmapPage)(unsafe.Pointer(&ring[0])), ring[os.Getpagesize():]
	if _, err := start.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		head := atomic.LoadUint64(&page.Data_head)
		for at := page.Data_tail; at < head; {
			from := at % uint64(len(records))
			part := records[from:min(from+head-at, uint64(len(records)))]
			b, at = append(b, part...), at+uint64(len(part))
		}
		atomic.StoreUint64(&page.Data_tail, head)
	}
	return b
}

// checkCopied holds stacks of testdata/deep.c that were copied to the ways in which its busy function is called.
func checkCopied(t *testing.T, exe, data string) {
	t.Helper()
	var doc report.Usertime
	if err := json.Unmarshal([]byte(must(t, "prof", data, "--experiment", "usertime", "--format", "json")), &doc); err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", doc.Stacks)
	if doc.Stacks.Samples < 50 {
		t.Skip("too few samples to tell")
	}
	im, ways, samples, wrong := openImage(t, exe), map[string]uint64{}, uint64(0), uint64(0)
	starting := uint64(0) // in the dynamic linker, whose own start is the end of its stacks: on emulated processors that takes long
	f, err := os.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rec, err := perfdata.Read(f, perfdata.Options{StackDepth: deepStack, Unwind: func(id sample.ImageID) *unwind.Table {
		if im, err := image.Open(id.Path, image.Options{}); err == nil {
			defer im.Close()
			return im.Unwinding()
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range rec.Counts {
		for _, s := range c.Stacks {
			names := framesOf(c, im, exe, s.Frames)
			if last := names[len(names)-1]; strings.HasPrefix(last, "ld-linux") {
				starting += s.N
			}
			if names[0] == "spin" {
				way := wayOf(names)
				if ways[way] += s.N; way == "" {
					t.Logf("%d samples: %s", s.N, strings.Join(names, " "))
					wrong += s.N
				}
				samples += s.N
			}
		}
	}
	t.Logf("%d samples, by way: %v; %d of the start", samples, ways, starting)
	running := doc.Stacks.Samples - starting
	if doc.Stacks.Complete*100 < running*97 {
		t.Errorf("%d of %d stacks go to where the thread began", doc.Stacks.Complete, running)
	}
	for _, r := range doc.Rows {
		if r.Procedure == "main" && r.Inclusive*100 < running*97 {
			t.Errorf("%d of %d samples are in main", r.Inclusive, running)
		}
	}
	if wrong*50 > samples {
		t.Errorf("%d of %d samples are of no way in which the program calls spin", wrong, samples)
	}
	for _, way := range []string{"deep", "library", "signal"} {
		if ways[way] == 0 {
			t.Errorf("no stack is %s", way)
		}
	}
}

// framesOf names the functions on a stack, and images in place of functions of others.
func framesOf(c *sample.Counts, im *image.Image, exe string, frames []sample.Frame) (names []string) {
	for i, f := range frames {
		if f.Image == sample.Unknown {
			names = append(names, "?")
			continue
		}
		if path := c.Images[f.Image].ID.Path; path != exe {
			names = append(names, filepath.Base(path))
			continue
		}
		a, ok := im.AddrOf(f.Off)
		if i > 0 {
			a--
		}
		p := im.Find(a)
		if !ok || p < 0 {
			names = append(names, "?")
			continue
		}
		names = append(names, im.Symbols()[p].Name)
	}
	return names
}

// wayOf returns which of the ways of testdata/deep.c a stack is; "" if it is none.
func wayOf(names []string) string {
	const libc = "libc.so.6"
	var runs []string // names of images that repeat count once
	for i, n := range names {
		if i == 0 || n != libc && n != vdso || names[i-1] != n {
			runs = append(runs, n)
		}
	}
	switch strings.Join(runs, " ") {
	case "spin even" + strings.Repeat(" odd even", 20) + " main libc.so.6 _start":
		return "deep"
	case "spin compare libc.so.6 sorted main libc.so.6 _start":
		return "library"
	case "spin handle libc.so.6 signalled main libc.so.6 _start",
		"spin handle " + vdso + " libc.so.6 signalled main libc.so.6 _start", // on AArch64, where that is what a handler returns to
		"spin handle ? libc.so.6 signalled main libc.so.6 _start":            // of perf.data, which has no image for it
		return "signal"
	case vdso + " " + libc + " timed main libc.so.6 _start", vdso + " timed main libc.so.6 _start": // which may jump there
		return "clock"
	}
	return ""
}

// vdso is what the kernel maps into processes.
const vdso = "[vdso]"

// TestRecordUnwound: a command is recorded with whole stacks, ends with its own code, and is ended by -d; what does
// not go with that is refused.
func TestRecordUnwound(t *testing.T) {
	wholeMachine(t)
	exe := program(t, "deep")
	code, errs := recordOf(t, func(c *sample.Counts) bool {
		return hasImage(exe)(c) && slices.ContainsFunc(c.Stacks, func(s sample.Stack) bool { return len(s.Frames) > 8 })
	}, "--callers", "-d", "3s", "--", exe)
	if code != exitDone {
		t.Errorf("exit code %d: %s", code, errs)
	}
	file := filepath.Join(t.TempDir(), "a.bfr")
	code, _, errs = runCLI(t, "record", "-o", file, "--callers=20", "--", "sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 3")
	if code != exitFailed || !strings.Contains(errs, "exit status 3") {
		t.Errorf("a command that fails: exit code %d: %s", code, errs)
	}
	if st, err := os.Stat(file); err != nil || st.Size() == 0 {
		t.Errorf("of a command that fails, no recording is written: %v", err)
	}
	for _, args := range [][]string{{"--callers=go"}, {"--callers", "--event", "cache-misses"}, {"--callers", "--calibrate"}} {
		if code, _, errs := runCLI(t, append(append([]string{"record", "-o", file}, args...), "--", "true")...); code != exitUsage {
			t.Errorf("%s: exit code %d: %s", args, code, errs)
		}
	}
}

// TestCallersFlag: --callers takes a word or a number of frames.
func TestCallersFlag(t *testing.T) {
	for _, tt := range []struct {
		text   string
		of     collect.CallersOf
		frames int
	}{
		{"no", collect.CallersOfNone, 0}, {"go", collect.CallersOfGo, 0}, {"all", collect.CallersOfAll, collect.MaxFrames},
		{"1", collect.CallersOfAll, 1}, {"127", collect.CallersOfAll, 127},
	} {
		var v callersFlag
		if err := v.Set(tt.text); err != nil {
			t.Errorf("%s: %v", tt.text, err)
		}
		if of, frames := v.of(); of != tt.of || frames != tt.frames {
			t.Errorf("%s: %v, %d frames; want %v, %d", tt.text, of, frames, tt.of, tt.frames)
		}
	}
	for _, text := range []string{"", "0", "-1", "128", "1.5", "yes"} {
		v := callersFlag("go")
		if err := v.Set(text); err == nil || v != "go" {
			t.Errorf("%q: %v, and the flag is %s", text, err, v)
		}
	}
}
