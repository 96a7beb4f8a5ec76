package optimize

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"backfeed/cmd/internal/emit"
	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/output"
	"backfeed/feedback/gcov"
)

// countersFlags have gcc read counters below a directory. Correction, which -fauto-profile implies, changes no code here: without it,
// gcc warns of functions without counters that others call, by no name that -Wno-error= could have, and -Werror ends the build.
func countersFlags(dir string) string {
	return "-fprofile-use=" + dir + " -fprofile-correction"
}

// notesFlags have gcc write its graphs, without a word of counters that are not there yet. The first changes code a little, so
// the program is built without; and so that gcc says which counters it has not found, if it says anything (-w).
const notesFlags, missingFlags = " -ftest-coverage -Wno-missing-profile", " -Wmissing-profile -Wno-error=missing-profile"

// byCounters builds the program of a stage with counters, for gcc's own graphs, of what another stage ran. It is built twice at one place, as gcc finds
// counters by the paths of objects: for the graphs, and by the counters, which lie in a directory of their own.
func (j *job) byCounters(ctx context.Context, s *stage) error {
	from := s.flags.counters
	ip, err := from.profile()
	if err != nil {
		return err
	}
	dir, err := j.newDir()
	if err != nil {
		return err
	}
	by := s.flags.and(flags{compile: countersFlags(dir)})
	notes, err := j.buildNotes(ctx, s, by)
	if err != nil {
		return err
	}
	files, holds, err := emit.GCDA(from.session, notes, dir, emit.Options{Image: emit.NameOf(ip.ID)})
	if err != nil {
		return err
	}
	if err := output.WriteAll(files); err != nil {
		return err
	}
	s.holds = holds
	removeAll(s.dir) // objects too, which make would take for done
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return err
	}
	by.compile += missingFlags
	var said bytes.Buffer
	if err := j.make(ctx, s, &by, &said); err != nil {
		return err
	}
	switch n, of, first := missed(said.String(), dir, files, len(notes)); {
	case n >= of:
		return fmt.Errorf("gcc found the counters of no object: it looked for %s, and %s was written: have the build name objects alike each time", first, files[0].Path)
	case n > 0:
		s.notes = append(s.notes, j.without([]string{fmt.Sprintf("gcc did not find the counters of %d of %d objects: it looked for %s first", n, of, first)})...)
	}
	return nil
}

// missed returns of how many objects, of all that have files of counters below dir, gcc did not find these, by what it said, and the
// first file that it looked for. It says so of objects that have none, too, which are the rest of those that have notes.
func missed(said, dir string, files []output.File, notes int) (n, of int, first string) {
	looked, wrote := map[string]bool{}, map[string]bool{}
	for line := range strings.SplitSeq(said, "\n") {
		_, path, ok := strings.Cut(line, dir+"/") // in quotes of whatever language
		path, _, ends := strings.Cut(path, ".gcda")
		if ok && ends && strings.HasSuffix(line, "missing-profile]") {
			path = dir + "/" + path + ".gcda"
			first = cmp.Or(first, path)
			looked[path] = true
		}
	}
	for _, f := range files { // an object may have one by each way to spell its path
		wrote[filepath.Clean(strings.ReplaceAll(f.Path, "#", "/"))] = true
	}
	return max(len(looked)-(notes-len(wrote)), 0), len(wrote), first
}

// buildNotes builds a stage for gcc's graphs, and returns these. Of a build that runs in the target's directory, nothing of them stays there.
func (j *job) buildNotes(ctx context.Context, s *stage, f flags) ([]*gcov.Notes, error) {
	f.compile += notesFlags
	before := map[string]time.Time{}
	places := []string{s.dir}
	if j.Binary == "" { // what the command does not name after the program lies where it runs
		places = append(places, j.dir)
		var err error
		if before, err = notesBelow(j.dir); err != nil {
			return nil, err
		}
	}
	if err := j.copyFor(s); err != nil {
		return nil, err
	}
	old, err := notesBelow(s.dir)
	if err != nil {
		return nil, err
	}
	for path := range old { // of the copy, by another build
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	made := j.compile(ctx, s, &f, nil)
	var paths []string
	for _, place := range places {
		now, err := notesBelow(place)
		if err != nil {
			return nil, err
		}
		for path, at := range now {
			was, there := before[path]
			if there && was.Equal(at) {
				continue
			}
			paths = append(paths, path)
			if place == j.dir && !there {
				defer os.Remove(path)
			}
		}
	}
	if made != nil {
		return nil, made
	}
	if len(paths) == 0 {
		return nil, fail.Errorf(fail.Nothing, "a build with -ftest-coverage left no notes of gcc (*.gcno): see that %s reaches every compilation, that gcc compiles, and that the build compiles what was compiled before, as `make clean &&` has it", flagsHere)
	}
	return emit.ReadNotes(paths)
}

// notesBelow are the notes of gcc below a directory, with the times of their last change.
func notesBelow(dir string) (map[string]time.Time, error) {
	all := map[string]time.Time{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist): // gone meanwhile, or not of this build
			return nil
		case err != nil:
			return err
		case filepath.Ext(path) == ".gcno" && d.Type().IsRegular():
			info, err := d.Info()
			if err != nil {
				return err
			}
			all[path] = info.ModTime()
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking for notes of gcc: %w", err)
	}
	return all, nil
}
