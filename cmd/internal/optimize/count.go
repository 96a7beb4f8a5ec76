package optimize

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/prose"
	"backfeed/cmd/internal/report"
	"backfeed/infer/image"
	"backfeed/infer/truth"
)

// count has callgrind count what a program executes of its target's shorter run.
func (j *job) count(ctx context.Context, s *stage) (*report.OptimizeCounts, error) {
	if _, err := program("valgrind"); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(j.work, "count-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	binary, err := withoutDebug(ctx, s.binary)
	if err != nil {
		return nil, err
	}
	// What the command starts as the program is a script, which a shell takes wherever it takes a program.
	script := filepath.Join(dir, filepath.Base(s.binary))
	text := fmt.Sprintf("#!/bin/sh\n%sexec valgrind -q --log-file=%s --tool=callgrind --dump-instr=yes --dump-line=no --collect-jumps=yes --callgrind-out-file=%s %s \"$@\"\n",
		environ[j.Compiler], prose.ShellWord(filepath.Join(dir, "log.%p")), prose.ShellWord(filepath.Join(dir, "counts.%p")), prose.ShellWord(binary))
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		return nil, err
	}
	if _, err := (command{what: "count", text: filled(j.Count, script, flags{}), dir: j.dir}).run(ctx); err != nil {
		if why := failed(dir); why != "" && ctx.Err() == nil {
			return nil, fmt.Errorf("valgrind: %s", why)
		}
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "counts.*"))
	if err != nil {
		return nil, err
	}
	var sum report.OptimizeCounts
	for _, file := range files {
		if err := addCounts(&sum, file, binary); err != nil {
			return nil, err
		}
	}
	if sum.Instructions == 0 {
		return nil, fail.Errorf(fail.Nothing, "callgrind counted nothing of %s", filepath.Base(s.binary))
	}
	return &sum, nil
}

// environ is what a compiler's programs need below valgrind. Go's runtime interrupts its threads by signals, on which callgrind 3.19
// stops ("Assertion 'sigNum == ...' failed"), and has rdtscp executed, which it does not know; threads that look for work would be
// counted, by chance.
var environ = map[string]string{
	"go": "export GOMAXPROCS=1 GODEBUG=\"${GODEBUG:+$GODEBUG,}asyncpreemptoff=1,cpu.rdtscp=off\"\n",
}

// itself matches what valgrind says of its own failures.
var itself = regexp.MustCompile(`^valgrind: |^Callgrind: .*(Assertion|impossible)|unhandled instruction|FATAL`)

// failed returns what valgrind said of a failure of its own, as its logs in dir have it; "" if it said nothing.
func failed(dir string) string {
	logs, _ := filepath.Glob(filepath.Join(dir, "log.*")) // the pattern is good
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if itself.MatchString(line) {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}

// withoutDebug puts a program without debug information beside it, which valgrind reads some of: 3.19 not that of DWARF 5 or of links
// with relocations. rustc has code refer to one section of it. Where there is nothing to strip by, it is the program itself; as it is of llvm-bolt, which objcopy breaks.
func withoutDebug(ctx context.Context, binary string) (string, error) {
	im, err := image.Open(binary, image.Options{})
	if err != nil {
		return "", err
	}
	bolted := im.Bolted()
	if im.Close(); bolted {
		return binary, nil
	}
	tool, err := program("llvm-objcopy", "llvm-objcopy-19", "/usr/lib/llvm-19/bin/llvm-objcopy", "objcopy")
	if err != nil {
		return binary, nil
	}
	stripped := binary + ".counted"
	_, err = command{what: "objcopy", tool: true, text: strings.Join([]string{prose.ShellWord(tool), "-g", "--keep-section=.debug_gdb_scripts", prose.ShellWord(binary), prose.ShellWord(stripped)}, " ")}.run(ctx)
	return stripped, err
}

// addCounts adds what a file of callgrind has of the program's own code, and of what lies in no file it knows: llvm-bolt
// moves code out of .text.
func addCounts(sum *report.OptimizeCounts, file, binary string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Size() == 0 {
		return err
	}
	counts, err := truth.Read(f)
	if err != nil {
		return fmt.Errorf("callgrind's counts: %w", err)
	}
	own := counts.Images[binary]
	if own == nil {
		if path, err := filepath.EvalSymlinks(binary); err == nil {
			own = counts.Images[path]
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	im, err := image.Open(binary, image.Options{})
	if err != nil {
		return err
	}
	defer im.Close()
	for _, it := range []*truth.Image{own, counts.Images["???"]} {
		if it == nil {
			continue
		}
		sum.Instructions = added(sum.Instructions, it.Total())
		for _, n := range it.Jumps {
			sum.Taken = added(sum.Taken, n)
		}
		for at, n := range it.Calls {
			if parts(im, at) {
				sum.Taken = added(sum.Taken, n)
			}
		}
	}
	return nil
}

// parts reports whether what callgrind takes for a call is a jump between two parts of one function, of which compilers and
// llvm-bolt call one f.cold, clang's clusters f.__part.1.
func parts(im *image.Image, t truth.Transfer) bool {
	from, to := im.Find(t.From), im.Find(t.To)
	if from < 0 || to < 0 || from == to {
		return false
	}
	return whole(im.Symbols()[from].Name) == whole(im.Symbols()[to].Name)
}

// whole is the name of the function that a part belongs to.
func whole(name string) string {
	for _, part := range []string{".cold", ".__part"} {
		if at := strings.Index(name, part); at > 0 {
			name = name[:at]
		}
	}
	return name
}

// added is a sum, or the most that 64 bits hold.
func added(a, b uint64) uint64 {
	if a+b < a {
		return math.MaxUint64
	}
	return a + b
}
