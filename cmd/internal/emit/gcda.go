package emit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/output"
	"backfeed/cmd/internal/prose"
	"backfeed/feedback"
	"backfeed/feedback/gcov"
)

// maxNotes is how many files of notes are read: more than the largest programs have objects.
const maxNotes = 200_000

// ReadNotes reads gcc's notes: those of each path that is a file, and of all files *.gcno below one that is a
// directory, in the order of their paths, each once. Those of several versions of gcc are refused, as a build has one.
func ReadNotes(paths []string) ([]*gcov.Notes, error) {
	var files []string
	for _, path := range paths {
		found, err := findNotes(path)
		if err != nil {
			return nil, err
		}
		if files = append(files, found...); len(files) > maxNotes {
			return nil, fail.Errorf(fail.Usage, "more than %d files of notes below %s: name the directories of one build", maxNotes, strings.Join(paths, ", "))
		}
	}
	slices.Sort(files)
	var all []*gcov.Notes
	for _, path := range slices.Compact(files) {
		n, err := readNotes(path)
		if err != nil {
			return nil, err
		}
		if len(all) > 0 && n.Version != all[0].Version {
			return nil, fail.Errorf(fail.Nothing, "%s is of gcc %s, and %s of gcc %s: remove what other builds left, and build with one gcc", all[0].Path, all[0].Version, n.Path, n.Version)
		}
		all = append(all, n)
	}
	return all, nil
}

// findNotes returns the absolute paths of the notes at or below a path. Links are followed to path, and not below it.
func findNotes(path string) (files []string, err error) {
	whole, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	st, err := os.Stat(whole)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, fail.Cause(err))
	}
	if !st.IsDir() {
		return []string{whole}, nil
	}
	err = fs.WalkDir(os.DirFS(whole), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", filepath.Join(path, name), fail.Cause(err))
		case filepath.Ext(name) == ".gcno" && d.Type().IsRegular():
			files = append(files, filepath.Join(whole, name))
		}
		if len(files) > maxNotes {
			return fs.SkipAll
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fail.Errorf(fail.Nothing, "%s: no notes of gcc (*.gcno): build with -ftest-coverage added, which writes them beside the objects", path)
	}
	return files, err
}

func readNotes(path string) (*gcov.Notes, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := gcov.ReadNotes(f, path)
	if err != nil {
		return nil, input.Mistaken(path, input.WantNotes, fail.Wrap(fail.Nothing, err))
	}
	return n, nil
}

// GCDA makes the files below dir that gcc's -fprofile-use=dir reads for the objects of notes: of those that the
// recording has something to say of.
func GCDA(src *input.Session, notes []*gcov.Notes, dir string, opt Options) (files []output.File, summary []string, err error) {
	again := func(image string) error {
		_, _, err := feedback.GCDA(src.Profile, notes, feedback.GCDAOptions{Image: image})
		return err
	}
	data, st, err := feedback.GCDA(src.Profile, notes, feedback.GCDAOptions{Image: opt.Image})
	if errors.Is(err, feedback.ErrEmpty) {
		err = fmt.Errorf("%w; notes have to be of the recorded program's source, built by the same gcc with the same options%s", err, instead(src, opt, st.Image))
	}
	if err != nil {
		return nil, nil, err
	}
	if err := missed(src, opt, "gcda", again, st.Image); err != nil {
		return nil, nil, err
	}
	places := dataPlaces(notes, dir)
	files, objects, err := gcdaFiles(notes, data, places)
	if err != nil {
		return nil, nil, err
	}
	unsampled := ""
	if st.Unsampled > 0 {
		unsampled = fmt.Sprintf(" (%d of them without samples, by what others ran alone)", st.Unsampled)
	}
	summary = []string{fmt.Sprintf("%s: counters of %d of the %d functions in notes%s, in %d of %d objects, for gcc %s%s",
		st.Image.Path, st.Funcs, st.Functions, unsampled, objects, len(notes), st.Version, leftOfExecuted(st.Skipped, st.Dropped, st.Executed))}
	if old := staleData(data, places); len(old) > 0 {
		summary = append(summary, fmt.Sprintf("%d files for objects that now have no counters are left as they were, and gcc reads them too, %s first: remove them if they are older than the sources", len(old), old[0]))
	}
	return files, append(summary, elsewhere(src, opt, again, st.Image)...), nil
}

// gcdaFiles are the files of data, one for each of notes, at their places, and how many objects they are of. gcc takes an object without a file for
// one of which nothing is known, and optimises it as usual.
func gcdaFiles(notes []*gcov.Notes, data []*gcov.Data, places [][]string) (files []output.File, objects int, err error) {
	of := map[string]string{} // the notes, by file
	for i, d := range data {
		if len(d.Functions) == 0 {
			continue
		}
		objects++
		var b bytes.Buffer
		if err := gcov.WriteData(&b, d); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", notes[i].Path, err)
		}
		for _, path := range places[i] {
			if other, ok := of[path]; ok {
				return nil, 0, fail.Errorf(fail.Usage, "%s and %s are notes of one object, %s: name the directory of one build", other, notes[i].Path, path)
			}
			of[path] = notes[i].Path
			files = append(files, output.File{Path: path, Bytes: b.Bytes()})
		}
	}
	if objects == 0 {
		return nil, 0, fmt.Errorf("gcda: no object has counters: %w", feedback.ErrEmpty)
	}
	return files, objects, nil
}

// staleData are files of objects without counters, which another run wrote.
func staleData(data []*gcov.Data, places [][]string) (old []string) {
	for i, paths := range places {
		for _, path := range paths {
			if _, err := os.Lstat(path); err == nil && len(data[i].Functions) == 0 {
				old = append(old, path)
			}
		}
	}
	return old
}

// How the name of an object is spelled in a command.
const (
	fromDir  = iota // o/x.o
	fromHere        // ./o/x.o
	absolute        // /src/o/x.o
	spellings
)

// dataPlaces returns the files below dir that gcc reads for the objects of notes: of each, one where the notes say how -o spelled
// its name. Where they do not, it is spelled as those of others are; and if none says it, in each of the usual ways.
func dataPlaces(notes []*gcov.Notes, dir string) [][]string {
	places := make([][]string, len(notes))
	names := make([][spellings][]string, len(notes))
	used := [spellings]bool{}
	for i, n := range notes {
		names[i] = objectNames(n)
		aux, ok := n.NamedAs(slices.Concat(names[i][:]...))
		if !ok {
			continue
		}
		places[i] = []string{gcov.DataPath(dir, n.Dir, aux, n.Version)}
		for how, list := range names[i] {
			used[how] = used[how] || slices.Contains(list, aux)
		}
	}
	if used == [spellings]bool{} {
		used[fromDir], used[absolute] = true, true
	}
	for i, n := range notes {
		if places[i] != nil {
			continue
		}
		for how, list := range names[i] {
			if !used[how] || len(list) == 0 {
				continue
			}
			if path := gcov.DataPath(dir, n.Dir, list[0], n.Version); !slices.Contains(places[i], path) {
				places[i] = append(places[i], path)
			}
		}
	}
	return places
}

// objectNames are the names that gcc may have had for the object of notes, without its extension, by spelling; the likeliest of each first.
func objectNames(n *gcov.Notes) (names [spellings][]string) {
	path := strings.TrimSuffix(n.Path, ".gcno")
	if n.Dir == "" { // before GCC 9
		names[absolute] = []string{path}
		return names
	}
	from, real := n.Dir, path
	if dir, err := filepath.EvalSymlinks(n.Dir); err == nil { // gcc's $PWD may lead through other links than our path
		if at, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			from, real = dir, filepath.Join(at, filepath.Base(path))
		}
	}
	var list []string
	if rel, err := filepath.Rel(from, real); err == nil {
		list = append(list, rel)
	}
	names[absolute] = []string{path, real}
	for i, c := range path { // the tree may have been built elsewhere
		if c == '/' {
			list = append(list, path[i+1:])
		}
	}
	for _, name := range list {
		names[fromDir] = append(names[fromDir], name)
		names[fromHere] = append(names[fromHere], "./"+name)
		names[absolute] = append(names[absolute], filepath.Join(n.Dir, name))
	}
	return names
}

// GCDABuild is the command that builds by the files below dir.
func GCDABuild(dir string) string {
	if whole, err := filepath.Abs(dir); err == nil { // gcc may run in another directory
		dir = whole
	}
	return "gcc -fprofile-use=" + prose.ShellWord(dir) + " -Wno-missing-profile, with the same gcc, sources, options, directory and -o as the build that wrote the notes"
}
