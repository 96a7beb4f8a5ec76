package main

import (
	"path/filepath"
	"strings"
	"testing"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/store"
)

// offRecording is programRecording with much time off the processor, below a call of the program.
func offRecording(t *testing.T) (plain, with, program string) {
	t.Helper()
	plain, program = programRecording(t)
	rec, err := sample.Decode([]byte(testtool.Read(t, plain)))
	if err != nil {
		t.Fatal(err)
	}
	im := openImage(t, program)
	at := func(a image.Addr) sample.Offset {
		off, ok := im.OffsetOf(a)
		if !ok {
			t.Fatalf("%#x is not in the file", a)
		}
		return off
	}
	below, above := proc(t, im, callee), proc(t, im, caller)
	for _, why := range []string{"interruptible", "runnable"} {
		c := sample.NewCounts(rec.Counts[0].CPU, sample.OffEvent(why))
		i := c.Image(sample.ImageID{Build: im.Build, Path: program})
		leaf := at(below.Blocks[0].Start)
		c.AddSample(i, leaf, 5_000_000)
		c.AddStack([]sample.Frame{{Image: i, Off: leaf}, {Image: i, Off: at(above.Blocks[0].Start) + 1}}, 4_000_000)
		c.AddOrigin(sample.Origin{Process: "program", Thread: "worker"}, 5_000_000)
		c.AddMoment(i, leaf, c.SliceAt(sample.EarliestDate+uint64(why[0]-'i')*uint64(sample.LeastSlice)), 1_000_000)
		c.Weight = 5_000_000 * sample.OffPeriod
		rec.AddOff(c)
	}
	return plain, testtool.Write(t, t.TempDir(), "off.bfr", string(rec.Encode())), program
}

// TestOffCPUNotInferred: what is inferred and emitted does not change for time off the processor, however much of it
// there is, and is refused of it alone.
func TestOffCPUNotInferred(t *testing.T) {
	plain, with, program := offRecording(t)
	out := t.TempDir()
	emitted := func(src, name string, args ...string) string {
		path := filepath.Join(out, name)
		must(t, append(args, src, "-o", path)...)
		return testtool.Read(t, path)
	}
	for _, args := range [][]string{{"infer", "--format", "json"}, {"emit", "go"}, {"layout", program, "--for", "go"}} {
		if emitted(plain, "plain", args...) != emitted(with, "with", args...) {
			t.Errorf("%s: time off the processor changes what is written", args)
		}
		for _, event := range []string{"off-cpu", "off-cpu:runnable", "wall"} {
			code, _, errs := runCLI(t, append(args, with, "--event", event, "-o", filepath.Join(out, "none"))...)
			if code != exitUsage || !strings.Contains(errs, "does not say how often code ran") && !strings.Contains(errs, "unknown flag: --event") {
				t.Errorf("%s --event %s: exit code %d: %s", args, event, code, errs)
			}
		}
	}
	for _, args := range [][]string{{"diff", with, with, "--units=4,4"}, {"verdict", with, with, "--units=4,4"}, {"stats", with, with}} {
		for _, event := range []string{"off-cpu", "off-cpu:runnable", "wall"} {
			if code, _, errs := runCLI(t, append(args, "--event", event)...); code != exitUsage || !strings.Contains(errs, "each wait is counted") {
				t.Errorf("%s --event %s: exit code %d: %s", args, event, code, errs)
			}
		}
	}
	for _, args := range [][]string{{"prof"}, {"images"}, {"topstalls"}, {"list", callee}} {
		if a, b := must(t, append(args, plain)...), must(t, append(args, with)...); a != b {
			t.Errorf("%s: time off the processor changes it:\n%s\n%s", args, a, b)
		}
	}
}

// TestProfOffCPU shows time off the processor, and all time, as times.
func TestProfOffCPU(t *testing.T) {
	plain, with, _ := offRecording(t)
	for _, tt := range []struct{ event, by, want string }{
		{"off-cpu", "pcsamp", "10 s"},
		{"off-cpu:runnable", "pcsamp", " 5 s"},
		{"off-cpu", "usertime", " 8 s"},
		{"wall", "pcsamp", "10.1 s"},
	} {
		text := must(t, "prof", with, "--event", tt.event, "--experiment", tt.by)
		if !strings.Contains(text, tt.want) || tt.by == "pcsamp" && !strings.Contains(text, "time") {
			t.Errorf("%+v:\n%s", tt, text)
		}
	}
	if text := must(t, "prof", with, "--event", "off-cpu", "--by", "process"); !strings.Contains(text, "10 s") || !strings.Contains(text, "program") {
		t.Errorf("by process:\n%s", text)
	}
	for _, args := range [][]string{{"prof", plain, "--event", "off-cpu"}, {"prof", with, "--event", "off-cpu:stopped"}, {"prof", plain, "--event", "wall"}} {
		if code, _, errs := runCLI(t, args...); code != exitNothing || !strings.Contains(errs, "record --off-cpu") {
			t.Errorf("%s: exit code %d: %s", args, code, errs)
		}
	}
	for _, args := range [][]string{{"topstalls"}, {"list", callee}} {
		if code, _, errs := runCLI(t, append(args, with, "--event", "off-cpu")...); code != exitUsage {
			t.Errorf("%s: exit code %d: %s", args, code, errs)
		}
	}
	rec, err := sample.Decode([]byte(testtool.Read(t, with)))
	if err != nil {
		t.Fatal(err)
	}
	unseen := sample.NewCounts(rec.Counts[0].CPU, sample.OffEvent("unknown"))
	for _, of := range rec.Off[0].Images {
		for off := range of.At {
			unseen.AddSample(unseen.Image(of.ID), off, 20_000_000)
		}
	}
	unseen.Lose(sample.LostVDSO, 5917)
	unseen.Weight = unseen.Delivered() * sample.OffPeriod
	rec.AddOff(unseen)
	began := testtool.Write(t, t.TempDir(), "began.bfr", string(rec.Encode()))
	for event, want := range map[string]int{"off-cpu": exitDone, "off-cpu:unknown": exitNothing} {
		code, _, errs := runCLI(t, "prof", began, "--event", event, "--experiment", "usertime")
		if code != want || !strings.Contains(errs, "nobody saw begin") || strings.Contains(errs, "--callers") || strings.Contains(errs, "samples") {
			t.Errorf("%s without stacks: exit code %d: %s", event, code, errs)
		}
		if want == exitDone && !strings.Contains(errs, "30.00 s of 30.01 s used (>99.9%); not used: 5.92 ms vdso (<0.1%)") {
			t.Errorf("%s: %s", event, errs)
		}
	}
	if text := must(t, "prof", with, "--event", "off-cpu", "--by", "thread"); !strings.Contains(text, "10 s") || !strings.Contains(text, "worker") {
		t.Errorf("by thread:\n%s", text)
	}
	// Waits that were woken are of the last of ten slices.
	if text := must(t, "prof", with, "--event", "off-cpu", "--by", "time"); !strings.Contains(text, "1.125 s  1.250 s") || strings.Count(text, "1 s ") != 2 || !strings.Contains(text, "8 s") {
		t.Errorf("by time:\n%s", text)
	}
	for between, want := range map[string]string{"0s,1s": "1 s of 10 s of event off-cpu", ",2s": "2 s of 10 s of event off-cpu"} {
		if _, text, errs := runCLI(t, "prof", with, "--event", "off-cpu", "--between", between); !strings.Contains(errs, want) || !strings.Contains(text, callee) {
			t.Errorf("between %s:\n%s%s, want %q", between, text, errs, want)
		}
	}
	if code, _, errs := runCLI(t, "prof", with, "--event", "off-cpu:runnable", "--between", "5s,"); code != exitNothing || !strings.Contains(errs, "no samples between") {
		t.Errorf("after the end: exit code %d: %s", code, errs)
	}
	if code, _, errs := runCLI(t, "prof", plain, "--event", "off-cpu", "--between", "0s,1s"); code != exitNothing || !strings.Contains(errs, "record --off-cpu") {
		t.Errorf("a part of the time of none: exit code %d: %s", code, errs)
	}
	dir := t.TempDir()
	if rec, err = sample.Decode([]byte(testtool.Read(t, with))); err != nil {
		t.Fatal(err)
	}
	s, err := store.Create(dir, store.Options{Warn: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(sample.Epoch{Start: 3600, Length: 3600}, rec, nil); err != nil {
		t.Fatal(err)
	}
	for event, want := range map[string]string{"off-cpu": "10 s", "off-cpu:runnable": " 5 s", "wall": "10.1 s"} {
		if text := must(t, "prof", dir, "--event", event); !strings.Contains(text, want) {
			t.Errorf("of a store, --event %s:\n%s", event, text)
		}
	}
	page := filepath.Join(t.TempDir(), "off.html")
	must(t, "report", with, "--event", "wall", "--html", page)
	if text := testtool.Read(t, page); !strings.Contains(text, "on the processor or off it") || strings.Contains(text, "Largest stalls") {
		t.Error("the page does not say what it is of, or says why code is slow")
	}
}

// TestRecordOffCPURefused: what --off-cpu does not go with is a usage error.
func TestRecordOffCPURefused(t *testing.T) {
	for _, args := range [][]string{
		{"--event", "cycles"}, {"--period", "7", "--event", "cycles"}, {"--calibrate"}, {"--tick", "-a"}, {"--callers=go"}, {"--callers=no"}, {"--max-cpu", "1%"}, {"--pprof", "localhost:1"},
	} {
		if code, _, errs := runCLI(t, append([]string{"record", "--off-cpu"}, append(args, "--", "true")...)...); code != exitUsage {
			t.Errorf("%s: exit code %d: %s", args, code, errs)
		}
	}
}
