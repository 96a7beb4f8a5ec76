package calibrate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"backfeed/infer/image"
)

// allows reports whether the kernel emulates the instruction that is really there.
func (k *Calibrator) allows(pi *probedImage, s image.ProbeSite) error {
	var b [8]byte
	n, err := pi.file.ReadAt(b[:], int64(s.Off))
	if err != nil && err != io.EOF {
		return err
	}
	return k.allowed(b[:n], s.Cond)
}

// alone returns the process to arm probes in alone: the only one that is asked for, if it
// has no children. Others that run the same files then notice nothing.
func (k *Calibrator) alone() int {
	if len(k.opt.PIDs) != 1 {
		return 0
	}
	tasks, err := filepath.Glob(fmt.Sprintf("%s/%d/task/*/children", k.proc, k.opt.PIDs[0]))
	if err != nil || len(tasks) == 0 {
		return 0
	}
	for _, path := range tasks {
		if b, err := os.ReadFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) || len(b) > 0 {
			return 0
		}
	}
	return k.opt.PIDs[0]
}

// setsNoBreakpoints reports whether a thread is of this program, in this process or another one: its long walks, and those of another
// recording, trace without breakpoints in code.
func setsNoBreakpoints(proc string, tid int) bool {
	of := func(who string) (os.FileInfo, error) { return os.Stat(filepath.Join(proc, who, "exe")) }
	own, err := of("self")
	if err != nil {
		return false
	}
	tracer, err := of(strconv.Itoa(tid))
	return err == nil && os.SameFile(own, tracer)
}

// tracedFiles returns the files that processes under a debugger have mapped: probes and a
// debugger's breakpoints do not go together.
func tracedFiles(proc string) map[string]bool {
	files := map[string]bool{}
	all, _ := filepath.Glob(filepath.Join(proc, "[0-9]*/status"))
	for _, path := range all {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, line, _ := strings.Cut(string(b), "\nTracerPid:")
		line, _, _ = strings.Cut(line, "\n")
		if tracer, err := strconv.Atoi(strings.TrimSpace(line)); err != nil || tracer == 0 || setsNoBreakpoints(proc, tracer) {
			continue
		}
		maps, err := os.ReadFile(filepath.Join(filepath.Dir(path), "maps"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(maps)) {
			if i := strings.IndexByte(line, '/'); i >= 0 {
				files[strings.TrimSpace(line[i:])] = true
			}
		}
	}
	return files
}
