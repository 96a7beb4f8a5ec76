package main

import (
	"encoding/csv"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// TestProfBy: samples of events add up by whatever, side by side, the lost ones included.
func TestProfBy(t *testing.T) {
	tree := filepath.Join(root, "testdata/mix")
	im, first := openSampled(t, filepath.Join(tree, "mix"))
	clock := sample.NewCounts(sample.CPU{}, first.Event)
	misses := sample.NewCounts(sample.CPU{}, sample.Event{Name: "branch-misses", Period: 1000})
	for _, c := range []*sample.Counts{clock, misses} {
		c.Image(sample.ImageID{Build: im.Build, Path: "/opt/mix"})
	}
	add := func(c *sample.Counts, proc string, n uint64) {
		i := c.Image(sample.ImageID{Build: im.Build, Path: "/opt/mix"})
		off, ok := im.OffsetOf(im.Symbols()[im.Lookup(proc)].Addr)
		if !ok {
			t.Fatalf("%s is not in the file", proc)
		}
		c.AddSample(i, off, n)
	}
	add(clock, "lookup", 60)
	add(clock, "main", 30)
	clock.Lose(sample.LostKernel, 10)
	add(misses, "main", 7)
	misses.AddSample(misses.Image(sample.ImageID{Build: im.Build, Path: "/opt/mix"}), 0, 1) // the ELF header
	misses.AddSample(misses.Image(sample.ImageID{Path: "/gone/lib.so"}), 16, 2)
	rec := &sample.Recording{}
	rec.Add(clock)
	rec.Add(misses)
	args := []string{testtool.Write(t, t.TempDir(), "two.bfr", string(rec.Encode())), "--symfs", tree}
	prof := func(more ...string) string { return must(t, append(append([]string{"prof"}, args...), more...)...) }

	for _, tt := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--all-events"}, `
cpu-clock  share     sum  branch-misses  share  image     procedure
       60  60.0%   60.0%              0   0.0%  /opt/mix  lookup
       30  30.0%   90.0%              7  70.0%  /opt/mix  main
       10  10.0%  100.0%              0   0.0%            (kernel)
        0   0.0%  100.0%              2  20.0%            (image not found)
        0   0.0%  100.0%              1  10.0%            (outside procedures)
`},
		{[]string{"--by", "image", "--all-events", "-n", "2"}, `
cpu-clock  share     sum  branch-misses  share  image
       90  90.0%   90.0%              8  80.0%  /opt/mix
       10  10.0%  100.0%              0   0.0%  (kernel)
`},
		{[]string{"--by", "image", "--all-events", "--format", "csv"}, `
event,samples,share,sum,image,procedure,mangled,file,line,lost
cpu-clock,90,0.9,0.9,/opt/mix,,,,0,
cpu-clock,10,0.1,1,,,,,0,kernel
branch-misses,8,0.8,0.8,/opt/mix,,,,0,
branch-misses,2,0.2,1,/gone/lib.so,,,,0,
`},
	} {
		if got := "\n" + prof(tt.flags...); got != tt.want {
			t.Errorf("prof %v:\n%s\nwant:\n%s", tt.flags, got, tt.want)
		}
	}
	ln, err := im.Lines()
	if err != nil {
		t.Fatal(err)
	}
	at := func(proc string) image.Frame { return ln.Frames(im.Symbols()[im.Lookup(proc)].Addr)[0] }
	if text := prof("--by", "file"); !strings.Contains(text, "90  90.0%") || !strings.Contains(text, at("main").File) {
		t.Errorf("by file:\n%s", text)
	}
	if text := prof("--by", "line"); !strings.Contains(text, "mix.c:42\n") || strings.Count(text, "mix.c:") != 2 {
		t.Errorf("by line, where lookup begins on line %d and main on %d:\n%s", at("lookup").Line, at("main").Line, text)
	}
	if code, _, stderr := runCLI(t, append([]string{"prof", "--by", "line", "--experiment", "ideal"}, args...)...); code != exitUsage {
		t.Errorf("--by with another experiment: exit code %d: %s", code, stderr)
	}
}

// TestProfSplit: samples add up by what ran, where and when; what is not known of is last, and is never left out.
func TestProfSplit(t *testing.T) {
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Period: 1_000_000, Unit: "ns"})
	im := c.Image(sample.ImageID{Path: "/bin/app"})
	const second = 1_000_000_000
	add := func(at uint64, o sample.Origin, cpu int, n uint64) {
		c.AddSample(im, 0x10, n)
		c.AddMoment(im, 0x10, c.SliceAt(1_700_000_000*second+at), n)
		c.AddOrigin(o, n)
		c.AddProcessor(cpu, n)
	}
	add(0, sample.Origin{Process: "app", Thread: "app"}, 0, 20)
	add(second, sample.Origin{Process: "app", Thread: "worker"}, 1, 40)
	add(second+1, sample.Origin{Process: "child", Thread: "child", Cgroup: "/x"}, 1, 30)
	c.AddSample(im, 0x20, 10)
	rec := &sample.Recording{}
	rec.Add(c)
	dir := t.TempDir()
	file := testtool.Write(t, dir, "split.bfr", string(rec.Encode()))
	for by, want := range map[string]string{
		"process": `
samples  share  process
     60  60.0%  app
     30  30.0%  child
     10  10.0%  (unknown)
`,
		"thread": `
samples  share  process  thread
     40  40.0%  app      worker
     30  30.0%  child    child
     20  20.0%  app      app
     10  10.0%           (unknown)
`,
		"cpu": `
samples  share  cpu
     70  70.0%  1
     20  20.0%  0
     10  10.0%  (unknown)
`,
		"cgroup": `
samples  share  cgroup
     30  30.0%  /x
     70  70.0%  (unknown)
`,
		"time": `
samples  share     from       to  date                      share of the largest
     20  20.0%  0.000 s  0.125 s  2023-11-14T22:13:20.000Z  ############
      0   0.0%  0.125 s  1.000 s  2023-11-14T22:13:20.125Z
     70  70.0%  1.000 s  1.125 s  2023-11-14T22:13:21.000Z  ########################################
     10  10.0%                                              (unknown)
`,
	} {
		if got := "\n" + must(t, "prof", file, "--by", by); got != want {
			t.Errorf("by %s:\n%s\nwant:\n%s", by, got, want)
		}
	}
	if got, want := must(t, "prof", file, "--by", "cpu", "--format", "csv"), "event,samples,share,process,thread,cpu,cgroup,from,seconds,date,unknown\ncpu-clock,70,0.7,,,1,,,0,,false\n"; !strings.HasPrefix(got, want) {
		t.Errorf("as CSV:\n%s\nwant:\n%s", got, want)
	}
	if code, _, errs := runCLI(t, "prof", file, "--by", "time", "-n", "3"); code != exitUsage || !strings.Contains(errs, "--lines has no effect") {
		t.Errorf("lines by time: exit code %d: %s", code, errs)
	}
	bare := &sample.Recording{}
	bare.Add(sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock"}))
	bare.Counts[0].Lose(sample.LostKernel, 1)
	old := testtool.Write(t, dir, "old.bfr", string(bare.Encode()))
	if code, _, stderr := runCLI(t, "prof", old, "--by", "thread"); code != exitNothing || !strings.Contains(stderr, "nothing is known") {
		t.Errorf("of an old recording: exit code %d: %s", code, stderr)
	}
	bare.Counts[0].AddOrigin(sample.Origin{Process: "app", Thread: "worker", Cgroup: "/x"}, 1) // as record -a knows it
	testtool.Write(t, dir, "all.bfr", string(bare.Encode()))
	all := filepath.Join(dir, "all.bfr")
	if code, _, stderr := runCLI(t, "prof", all, "--by", "cpu"); code != exitNothing || !strings.Contains(stderr, "record knows control groups with -a") {
		t.Errorf("of record -a, by cpu: exit code %d: %s", code, stderr)
	}
	if got := must(t, "prof", all, "--by", "thread"); !strings.Contains(got, "app      worker\n") {
		t.Errorf("of record -a, by thread:\n%s", got)
	}
	if got := must(t, "prof", all, "--by", "cgroup"); !strings.Contains(got, "100.0%  /x\n") {
		t.Errorf("of record -a, by cgroup:\n%s", got)
	}
	if code, _, stderr := runCLI(t, "prof", file, "--by", "thread", "--all-events"); code != exitUsage {
		t.Errorf("--by thread --all-events: exit code %d: %s", code, stderr)
	}
}

// TestBetween: a part of the time is read by every command that reads recordings, and said; what has no times is refused.
func TestBetween(t *testing.T) {
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Period: 1_000_000, Unit: "ns"})
	im := c.Image(sample.ImageID{Path: "/bin/app"})
	for second := range uint64(10) {
		n := 10 + second
		c.AddSample(im, sample.Offset(16*second), n)
		c.AddMoment(im, sample.Offset(16*second), c.SliceAt((1_700_000_000+second)*1_000_000_000), n)
	}
	rec := &sample.Recording{}
	rec.Add(c)
	dir := t.TempDir()
	file := testtool.Write(t, dir, "app.bfr", string(rec.Encode()))
	samples := func(args ...string) (sum uint64) {
		t.Helper()
		rows, err := csv.NewReader(strings.NewReader(must(t, append([]string{"prof", "--by", "time", "--format", "csv"}, args...)...))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows[1:] {
			n, err := strconv.ParseUint(row[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		return sum
	}
	for between, want := range map[string]uint64{
		"2s,4s": 25, "2,4": 25, "8s,": 37, ",1s": 10,
		"2023-11-14T22:13:22Z,2s500ms": 12, "2023-11-14T22:13:28Z,2023-11-14T22:13:29Z": 18,
	} {
		if got := samples(file, "--between", between); got != want {
			t.Errorf("between %s: %d, want %d", between, got, want)
		}
	}
	// Of two recordings, each has a beginning of its own.
	part := filepath.Join(dir, "part.bfr")
	must(t, "merge", file, file+"@2", "--between", "0s,1s", "-o", part)
	if got := samples(part); got != 30 {
		t.Errorf("first seconds of two: %d", got)
	}
	if _, _, stderr := runCLI(t, "prof", file, "--by", "time", "--between", "2s,4s"); !strings.Contains(stderr, "25 of 145 samples were taken in the slices of time from 2s to 3.125s") {
		t.Errorf("it says %q", stderr)
	}
	bare := &sample.Recording{}
	bare.Add(sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock"}))
	bare.Counts[0].Lose(sample.LostKernel, 1)
	old := testtool.Write(t, dir, "old.bfr", string(bare.Encode()))
	store := storeOf(t, sample.ImageID{Path: "/bin/app"})
	for line, want := range map[string]struct {
		code int
		says string
	}{
		"prof FILE --between 20s,":                      {exitNothing, "no samples between 20s,"},
		"prof FILE --between 3s,2s":                     {exitUsage, "3s is not before 2s"},
		"prof FILE --between 3s":                        {exitUsage, "want two times"},
		"prof FILE --between x,2s":                      {exitUsage, "how long after the first"},
		"prof FILE --between ,":                         {exitUsage, "want two times"},
		"prof FILE --between 1s, --by thread":           {exitUsage, "the whole time alone"},
		"prof OLD --between 1s,":                        {exitNothing, "when its samples were taken"},
		"prof STORE --between 1s,":                      {exitUsage, "--since and --until"},
		"serve STORE --between 1s,":                     {exitUsage, "--since and --until"},
		"merge STORE --between 1s, --half-life 7d -o X": {exitUsage, "--since and --until"},
	} {
		args := strings.Fields(strings.NewReplacer("FILE", file, "OLD", old, "STORE", store, "X", filepath.Join(dir, "x")).Replace(line))
		if code, _, stderr := runCLI(t, args...); code != want.code || !strings.Contains(stderr, want.says) {
			t.Errorf("%s: exit code %d: %s; want %d and %q", line, code, stderr, want.code, want.says)
		}
	}
}

// TestProfRuns: runs are listed with what they used; a bound is said to be one, and the unknown a dash.
func TestProfRuns(t *testing.T) {
	rec := &sample.Recording{}
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock"})
	c.Lose(sample.LostKernel, 1)
	rec.Add(c)
	dir := t.TempDir()
	old := testtool.Write(t, dir, "old.bfr", string(rec.Encode()))
	rec.AddRun(sample.Run{Began: 1_700_000_000_000, Lasted: 2500, Host: "a", Command: []string{"./app", "-n", "7 8"},
		Usage: sample.Usage{User: 2_400_000, System: 20_000, Memory: 30_000_000, Under: true, Minor: 900, Major: 1, Waited: 3, Preempted: 40, Read: 8, Wrote: 16}})
	rec.AddRun(sample.Run{Lasted: 1000})
	file := testtool.Write(t, dir, "runs.bfr", string(rec.Encode()))
	want := `
began                 seconds  host    user  system    memory  faults, major  switches, preempted  blocks read, written  command
                          1.0             -       -         -              -                    -                     -
2023-11-14T22:13:20Z      2.5  a     2.40 s  0.02 s  < 30.0MB         901, 1               43, 40                 8, 16  ./app -n '7 8'
`
	if got := "\n" + must(t, "prof", file, "--by", "run"); got != want {
		t.Errorf("runs:\n%s\nwant:\n%s", got, want)
	}
	if got := must(t, "prof", file, "--by", "run", "--format", "json"); !strings.Contains(got, `"memory_under": true`) {
		t.Errorf("as JSON:\n%s", got)
	}
	if code, _, stderr := runCLI(t, "prof", old, "--by", "run"); code != exitNothing {
		t.Errorf("without runs: exit code %d: %s", code, stderr)
	}
}

// TestProfByImageOpensNone: paths are all that a table by image needs; one by procedure says which images are missing.
func TestProfByImageOpensNone(t *testing.T) {
	tree := filepath.Join(root, "testdata/mix")
	im, first := openSampled(t, filepath.Join(tree, "mix"))
	c := sample.NewCounts(sample.CPU{}, first.Event)
	c.AddSample(c.Image(sample.ImageID{Build: im.Build, Path: "/gone/mix"}), 16, 3)
	c.AddSample(c.Image(sample.ImageID{Build: im.Build, Path: "/copy/of/mix"}), 16, 2)
	c.AddSample(c.Image(sample.ImageID{Path: "/gone/lib.so"}), 16, 2)
	rec := &sample.Recording{}
	rec.Add(c)
	file := testtool.Write(t, t.TempDir(), "one.bfr", string(rec.Encode()))
	code, text, told := runCLI(t, "prof", file, "--by", "image")
	const want = `
samples  share     sum  image
      5  71.4%   71.4%  /copy/of/mix
      2  28.6%  100.0%  /gone/lib.so
`
	if "\n"+text != want || code != 0 || told != "" {
		t.Errorf("exit code %d, %q\n%s\nwant:\n%s", code, told, text, want)
	}
	if code, _, told := runCLI(t, "prof", file, "--by", "line"); code != exitNothing || !strings.Contains(told, "/gone/lib.so, 28.6% of the samples: no such file") {
		t.Errorf("by line, without any image: exit code %d: %s", code, told)
	}
	if code, _, told := runCLI(t, "prof", file, "--by", "image", "--model", "haswell"); code != exitUsage {
		t.Errorf("a model for what infers nothing: exit code %d: %s", code, told)
	}
}
