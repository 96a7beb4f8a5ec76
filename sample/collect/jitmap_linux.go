//go:build amd64 || arm64

package collect

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"backfeed/sample"
)

// jitMaps finds the files that tell of code which processes made themselves, at its own addresses. Those that only a process of a container
// can name are held open from when they are first seen, and copied in the end.
type jitMaps struct {
	keep string // where to copy them to; "" is nowhere

	mu   sync.Mutex
	held []heldMap
	look map[int]int // by process that made code: how often its map is still looked for
}

// A heldMap is the map of a process of a container.
type heldMap struct {
	pid  int
	at   uint64   // of CLOCK_MONOTONIC, when it was first seen
	file *os.File // nil is copied already
	path string   // of the copy
}

const (
	// mostMaps bounds the maps that are held; mostMapBytes is how much of all is copied.
	mostMaps     = 64
	mostMapBytes = 256 << 20
	// jitLooks is how often a map is looked for, each tendEvery, after code was made: runtimes write it when they first make some.
	jitLooks = 10
)

// find returns the map of a process; nil if there is none. In a PID namespace, its name has the
// innermost number. Of a process that has ended, it is what was found before, or the file by its number, if that was written since the process began: at a time
// of CLOCK_MONOTONIC, 0 if that was before anybody looked.
func (j *jitMaps) find(pid int, began uint64) *sample.ImageID {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, fs.ErrNotExist) {
		if path := j.heldOf(pid, began); path != "" {
			return &sample.ImageID{Path: path}
		}
		path := fmt.Sprintf("/tmp/perf-%d.map", pid)
		// In a directory of all users, a link may lead anywhere.
		if st, err := os.Lstat(path); err == nil && st.Mode().IsRegular() && uint64(max(0, st.ModTime().UnixNano())) >= epoch()+began {
			return &sample.ImageID{Path: path}
		}
		return nil
	}
	if err != nil {
		return nil
	}
	_, line, _ := strings.Cut(string(status), "\nNSpid:")
	line, _, _ = strings.Cut(line, "\n")
	inner := pid
	if f := strings.Fields(line); len(f) > 0 {
		if inner, err = strconv.Atoi(f[len(f)-1]); err != nil {
			return nil
		}
	}
	path := fmt.Sprintf("/tmp/perf-%d.map", inner)
	through := fmt.Sprintf("/proc/%d/root%s", pid, path)
	var there, here unix.Stat_t
	if unix.Stat(through, &there) != nil {
		return nil
	}
	if unix.Stat(path, &here) != nil || here.Dev != there.Dev || here.Ino != there.Ino {
		path = j.hold(pid, through, path)
	}
	return &sample.ImageID{Path: path}
}

// heldOf returns the path of the copy that there is, or will be, of the map of a process that has ended; "" if there is none.
func (j *jitMaps) heldOf(pid int, began uint64) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := len(j.held) - 1; i >= 0; i-- {
		if h := &j.held[i]; h.pid == pid && h.at >= began {
			return h.path
		}
	}
	return ""
}

// hold opens the map of a process that lies at path for it, and returns where its copy will be; through, by which others reach
// it as long as the process lives, if it is not held.
func (j *jitMaps) hold(pid int, through, path string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.keep == "" {
		return through
	}
	f, err := OpenBelow(fmt.Sprintf("/proc/%d/root", pid), path)
	if err != nil {
		return through
	}
	var st, of unix.Stat_t
	unix.Fstat(int(f.Fd()), &st)
	for _, h := range j.held {
		if h.pid == pid && h.file != nil && unix.Fstat(int(h.file.Fd()), &of) == nil && of.Dev == st.Dev && of.Ino == st.Ino {
			f.Close()
			return h.path
		}
	}
	if len(j.held) == mostMaps {
		f.Close()
		return through
	}
	now := monotonic()
	to := filepath.Join(j.keep, fmt.Sprintf("%d-%d", epoch()+now, pid), filepath.Base(path))
	j.held = append(j.held, heldMap{pid, now, f, to})
	return to
}

// made has the map of a process looked for that just made code.
func (j *jitMaps) made(pid int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.look == nil {
		j.look = map[int]int{}
	}
	if _, looked := j.look[pid]; !looked && j.keep != "" {
		j.look[pid] = jitLooks
	}
}

// tend looks for maps of processes that made code lately, which may end before samples of it are looked at.
func (j *jitMaps) tend() {
	j.mu.Lock()
	due := make([]int, 0, len(j.look))
	for pid, more := range j.look {
		if more > 0 {
			j.look[pid]--
			due = append(due, pid)
		} else if more == 0 && unix.Kill(pid, 0) == unix.ESRCH {
			delete(j.look, pid)
		}
	}
	j.mu.Unlock()
	for _, pid := range due {
		if j.find(pid, 0) != nil {
			j.mu.Lock()
			j.look[pid] = 0
			j.mu.Unlock()
		}
	}
}

// close copies what is held, as it is now. Where one cannot be copied, as on a full disk, its code has no names: the recording is worth more.
func (j *jitMaps) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	room := int64(mostMapBytes)
	for i := range j.held {
		h := &j.held[i]
		if h.file == nil {
			continue
		}
		n, err := h.copy(room)
		if room -= n; err != nil {
			os.RemoveAll(filepath.Dir(h.path))
		}
		h.file.Close()
		h.file = nil
	}
}

// copy copies at most so many bytes, and returns how many.
func (h *heldMap) copy(most int64) (int64, error) {
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return 0, err
	}
	to, err := os.OpenFile(h.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(to, io.NewSectionReader(h.file, 0, most))
	return n, errors.Join(err, to.Close())
}

// since is find of processes of which it is not known when they began, beginning to record now.
func (j *jitMaps) since(began uint64) func(pid int) *sample.ImageID {
	return func(pid int) *sample.ImageID { return j.find(pid, began) }
}
