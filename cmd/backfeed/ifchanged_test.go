package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestWriteUnless: a file stays where no decision changes, to the byte.
func TestWriteUnless(t *testing.T) {
	const old = "work:100:1\n 1: 9900\n 2: 30\n 3: 1\nidle:1:1\n 1: 1\n"
	for _, tt := range []struct{ name, consumer, have, profile, want, says string }{
		{"the same", "llvm", old, old, old, "it is the same"},
		{"noise", "llvm", old, strings.Replace(old, "9900", "9950", 1), old, "stays: 0 decisions change"},
		{"another is hot", "llvm", old, "work:1:1\n 1: 1\nidle:1:1\n 1: 9900\n", "work:1:1\n 1: 1\nidle:1:1\n 1: 9900\n", "the hottest: "},
		{"one is hot too", "llvm", old, "work:100:1\n 1: 9900\nidle:1:1\n 1: 1000\n", "settled", "1 of them clearly"},
		{"of few samples", "llvm", "# samples: 9\n" + old, "# samples: 36\n" + old, "# samples: 36\n" + old, "is replaced: it is of 9 samples, the new one of 36"},
		{"of hardly more samples", "llvm", "# samples: 9\n" + old, "# samples: 35\n" + old, "# samples: 9\n" + old, "stays: 0 decisions change"},
		{"not a profile", "llvm", "?", old, old, "is replaced: llvm: line 1"},
		{"nobody asked", "", old, strings.Replace(old, "9900", "9950", 1), strings.Replace(old, "9900", "9950", 1), ""},
	} {
		path := filepath.Join(t.TempDir(), "profile")
		if err := os.WriteFile(path, []byte(tt.have), 0o666); err != nil {
			t.Fatal(err)
		}
		var errs strings.Builder
		c := &cli{stderr: &errs}
		wrote, err := c.writeUnless(tt.consumer, path, func(w io.Writer, old []byte) error {
			profile := tt.profile
			if old != nil {
				profile = "settled"
			}
			_, err := io.WriteString(w, profile)
			return err
		})
		got, _ := os.ReadFile(path)
		if err != nil || wrote != (tt.have != tt.want) || string(got) != tt.want || !strings.Contains(errs.String(), tt.says) {
			t.Errorf("%s: %v, said %q, wrote:\n%s", tt.name, err, errs.String(), got)
		}
	}
}

// TestIfChangedStays: nothing is told of a profile that was not written, nor how to build with it.
func TestIfChangedStays(t *testing.T) {
	rec, _ := programRecording(t)
	out := filepath.Join(t.TempDir(), "default.pgo")
	for n, want := range []bool{true, false} {
		code, _, errs := runCLI(t, "emit", "go", rec, "-o", out, "--if-changed")
		if told := strings.Contains(errs, "call edges") && strings.Contains(errs, "next, build with it"); code != exitDone || told != want ||
			!want && (strings.Contains(errs, "call edges") || strings.Contains(errs, "build with it") || !strings.Contains(errs, "stays")) {
			t.Errorf("time %d: exit code %d, %s", n+1, code, errs)
		}
	}
}

func TestIfChangedRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"emit", "bolt", "x", "-o", "y", "--if-changed"},
		{"emit", "go", "x", "--if-changed"},
	} {
		if code, _, errs := runCLI(t, args...); code != exitUsage || !strings.Contains(errs, "--if-changed") {
			t.Errorf("%q: exit code %d, %s", args, code, errs)
		}
	}
}

// TestRerecord records a program twice: the second profile leaves the file of the first, and go build
// rebuilds nothing. Without --if-changed it rebuilds everything. It samples live and compares profiles, so
// it stays serial, and its parts are of the same builds, one after the other.
func TestRerecord(t *testing.T) {
	testtool.Live(t, "builds and samples a program")
	dir := t.TempDir()
	testtool.Need(t, "go")
	if err := os.CopyFS(dir, os.DirFS("../internal/demo/testdata/demo")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		testtool.Run(t, dir, "go", "mod", "init", "example.com/demo")
	}
	testtool.Run(t, dir, "go", "build", "-pgo=off", "-o", "demo", ".")
	// What is built by the profile imports nothing: each package is compiled anew by it, whatever it is a profile of.
	fed := t.TempDir()
	testtool.Write(t, fed, "main.go", "package main\n\nfunc main() {}\n")
	testtool.Run(t, fed, "go", "mod", "init", "example.com/fed")
	profile := filepath.Join(fed, "default.pgo")
	const asked, seconds = 100, 3 // of processor time, whatever the processor
	once := exec.Command(filepath.Join(dir, "demo"), "-n", strconv.Itoa(asked))
	if err := once.Run(); err != nil {
		t.Fatal(err)
	}
	n := strconv.Itoa(min(1000, int(1+asked*seconds/once.ProcessState.UserTime().Seconds())))
	emit := func(t *testing.T, name string, flags ...string) string {
		t.Helper()
		testtool.Run(t, dir, filepath.Join(dir, "demo"), "-n", n, "-cpuprofile", name)
		code, _, errs := runCLI(t, append([]string{"emit", "go", filepath.Join(dir, name), "-o", profile}, flags...)...)
		if code != exitDone {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		return errs
	}
	emit(t, "first.pprof", "--if-changed")
	build := func(t *testing.T, flags ...string) []string {
		t.Helper()
		return strings.Split(testtool.Run(t, fed, slices.Concat([]string{"go", "build", "-v", "-o", "fed"}, flags, []string{"."})...), "\n")
	}
	stays := t.Run("the profile stays", func(t *testing.T) {
		last := testtool.Read(t, profile)
		// Two runs differ by chance too, and now and then clearly.
		for try := 1; ; try++ {
			said := emit(t, "second.pprof", "--if-changed")
			was := last
			if last = testtool.Read(t, profile); last == was {
				t.Log(said)
				return
			}
			if try == 3 {
				t.Fatalf("the profile changed %d times: %s", try, said)
			}
		}
	})
	if !stays {
		return
	}
	// The build takes as much as all the rest: there is one, by the profile that has just stayed, and what the second run was
	// sampled in is emitted again.
	build(t)
	again := func(t *testing.T, flags ...string) {
		t.Helper()
		must(t, append([]string{"emit", "go", filepath.Join(dir, "second.pprof"), "-o", profile}, flags...)...)
	}
	t.Run("nothing is rebuilt", func(t *testing.T) {
		again(t, "--if-changed")
		if built := build(t); !slices.Equal(built, []string{""}) {
			t.Errorf("rebuilt: %q", built)
		}
	})
	t.Run("all is rebuilt without --if-changed", func(t *testing.T) {
		const would = "runtime" // on a line of its own, if -n would build it
		if built := build(t, "-n"); slices.Contains(built, would) {
			t.Fatalf("it would be rebuilt anyway: %q", built)
		}
		again(t)
		if built := build(t, "-n"); !slices.Contains(built, would) {
			t.Errorf("it would not be rebuilt: %q", built)
		}
	})
}
