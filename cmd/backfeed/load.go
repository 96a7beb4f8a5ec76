package main

import (
	"bufio"
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
	"backfeed/sample/bound"
	"backfeed/sample/perfdata"
	"backfeed/sample/store"
)

// srcHelp is a paragraph for the help of commands that read samples.
const srcHelp = `SRC is a recording of backfeed, a perf.data file, a pprof profile or the exact counts of a callgrind run,
told apart by content, or the directory of a store; "-" is standard input. Several are added up. Of a
store, --since, --until and --label choose what to read: whole epochs. callgrind has to run with
--dump-instr=yes; what it counted has no samples, and stands beside those of a recording.`

// symfsHelp is one for those that need the images too.
const symfsHelp = srcHelp + `

Images are looked up by build ID, then by path below the --symfs directory, then among those that a
store has kept, then by path. A file with another build ID than the recorded one is never used: its samples are counted as lost.`

// A moment is a flag: a time, or how long ago it was.
type moment time.Time

// momentLayouts are the forms of a time, which is local unless it says otherwise.
var momentLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"}

func (m *moment) String() string { return "" } // for pflag: there is no default to show
func (m *moment) Type() string   { return "time" }
func (m *moment) Set(text string) error {
	if d, err := time.ParseDuration(text); err == nil {
		*m = moment(time.Now().Add(-d.Abs()))
		return nil
	}
	for _, layout := range momentLayouts {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			*m = moment(t)
			return nil
		}
	}
	return errors.New("want a time such as 2006-01-02T15:04, or how long ago it was, such as 36h")
}

// A selection says what to read of a store.
type selection struct {
	since, until moment
	labels       map[string]string
}

// selects defines the flags that say what to read of a store.
func (c *cli) selects() {
	c.fs.grouped(sourceFlags, func() {
		c.fs.Var(&c.selection.since, "since", "of a store, read what was recorded since `time`, or so long ago")
		c.fs.Var(&c.selection.until, "until", "of a store, read what was recorded until `time`, or so long ago")
		c.fs.StringToStringVar(&c.selection.labels, "label", nil, "of a store, read what is marked with `name=value`")
	})
}

// symfs defines the flags that say what to read and where images are looked up.
func (c *cli) symfs() (dir *string) {
	c.fs.grouped(sourceFlags, func() { dir = c.fs.String("symfs", "", "look up images below `dir` first") })
	c.selects()
	return dir
}

// output defines the flag that says where the result goes.
func (c *cli) output() (file *string) {
	c.fs.grouped(outputFlags, func() { file = c.fs.StringP("output", "o", "-", "write to `file`") })
	return file
}

// read adds up the samples of all paths.
func (c *cli) read(paths []string) (*sample.Recording, error) {
	var all []*sample.Recording
	for _, path := range paths {
		c.progress("reading %s", path)
		r, err := c.readSource(path)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
		c.starts = append(c.starts, startsIn(r))
	}
	c.clearProgress()
	counted, err := c.counted(all)
	if err != nil {
		return nil, err
	}
	all = append(all, counted...)
	r := all[0] // as Merge gives it, whatever it was read from
	if len(all) > 1 {
		r = sample.Merge(all...)
	}
	if r.Samples() == 0 && exactList(r) == "" {
		return nil, fail.Errorf(fail.Nothing, "%s: no samples", strings.Join(paths, ", "))
	}
	return r, nil
}

// exactList tells how many places have more than samples: "400 places probed, 12 counted";
// "" if none has.
func exactList(rec *sample.Recording) string {
	exact := rec.Exact(nil)
	var list []string
	for _, of := range []struct {
		n    int
		what string
	}{{exact.Probed, "probed"}, {exact.Walked, "seen by walks"}, {exact.Counted, "counted"}} {
		switch {
		case of.n > 0 && len(list) == 0:
			list = append(list, fmt.Sprintf("%d places %s", of.n, of.what))
		case of.n > 0:
			list = append(list, fmt.Sprintf("%d %s", of.n, of.what))
		}
	}
	return strings.Join(list, ", ")
}

// readSource reads one recording, of whatever kind it is.
func (c *cli) readSource(path string) (*sample.Recording, error) {
	in, name := c.stdin, "standard input"
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, fail.Cause(err))
		}
		defer f.Close()
		if st, err := f.Stat(); err == nil && st.IsDir() {
			return c.readStore(path)
		}
		in, name = f, path
	}
	r, err := c.decode(in, name)
	var disk *fs.PathError
	switch {
	case errors.As(err, &disk):
		return nil, fmt.Errorf("%s: %w", name, disk.Err)
	case err != nil: // the bytes are to blame
		return nil, fail.Errorf(fail.Nothing, "%s: %w", name, err)
	}
	return r, nil
}

// readStore reads what is selected of the store in dir, and remembers the store:
// it may have the images too.
func (c *cli) readStore(dir string) (*sample.Recording, error) {
	s, err := c.openStore(dir)
	if err != nil {
		return nil, err
	}
	c.stores = append(c.stores, s)
	rec, err := s.Read(store.Query{From: time.Time(c.selection.since), To: time.Time(c.selection.until), Labels: c.selection.labels})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return rec, nil
}

// decode tells the kinds of recordings apart and reads one.
func (c *cli) decode(in io.Reader, name string) (*sample.Recording, error) {
	head, in, err := peek(in)
	if err != nil {
		return nil, err
	}
	switch sample.Sniff(head) {
	case sample.FormatBackfeed:
		all, err := bound.ReadAll(in)
		if err != nil {
			return nil, err
		}
		return sample.Decode(all)
	case sample.FormatPerf, sample.FormatPerfPipe:
		return perfdata.Read(in, c.perfOptions(name))
	case sample.FormatPprof:
		return sample.ReadPprof(in)
	}
	if infer.IsTruth(head) {
		truth, err := infer.ReadCallgrind(in)
		if err != nil {
			return nil, err
		}
		c.truths = append(c.truths, weighedTruth{truth, 1})
		return &sample.Recording{}, nil
	}
	if infer.IsCover(head) {
		return c.readCover(in)
	}
	return nil, unknown(head)
}

// unknown says what a file that begins with head may be instead of a recording.
func unknown(head []byte) error {
	switch {
	case len(head) == 0:
		return errors.New("empty file")
	case bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return errors.New("an ELF image, not a recording of one")
	case bytes.HasPrefix(head, []byte("bfr")):
		return errors.New("a backfeed recording of a version that this backfeed does not know")
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return errors.New("compressed with gzip, but no pprof profile or cut off")
	}
	return errors.New("neither a backfeed recording nor perf.data nor a pprof profile nor callgrind's counts")
}

// peek gives the first bytes of in, and in as if they had not been read. A file
// stays a file: perf.data is not read from its start to its end.
func peek(in io.Reader) ([]byte, io.Reader, error) {
	if f, ok := in.(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
			head := make([]byte, sample.SniffLen)
			n, err := f.ReadAt(head, 0)
			if err == io.EOF {
				err = nil
			}
			return head[:n], f, err
		}
	}
	b := bufio.NewReaderSize(in, 1<<16)
	head, err := b.Peek(sample.SniffLen)
	if err == io.EOF {
		err = nil
	}
	return head, b, err
}

// sampled is the number of samples per image, over all events of rec.
func sampled(rec *sample.Recording) map[sample.ImageID]uint64 {
	n := map[sample.ImageID]uint64{}
	for _, counts := range rec.Counts {
		for _, ic := range counts.Images {
			n[ic.ID] += ic.Samples()
		}
	}
	return n
}

// lost is the number of samples without a place, by reason.
func lost(rec *sample.Recording) map[sample.Loss]uint64 {
	n := map[sample.Loss]uint64{}
	for _, counts := range rec.Counts {
		for why, k := range counts.Lost {
			n[why] += k
		}
	}
	return n
}

// mostFirst sorts the keys of n by falling numbers, then by name.
func mostFirst[K comparable, N cmp.Ordered](n map[K]N) []K {
	return slices.SortedFunc(maps.Keys(n), func(a, b K) int {
		return cmp.Or(cmp.Compare(n[b], n[a]), strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
}

// lossList tells losses by reason and share: "192 unmapped (0.2%)".
func lossList(losses map[sample.Loss]uint64, total uint64) string {
	var parts []string
	for _, why := range mostFirst(losses) {
		if n := losses[why]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s (%s)", n, why, report.Share(n, total)))
		}
	}
	return strings.Join(parts, ", ")
}

// maxTold bounds the images that are named one by one.
const maxTold = 5

// tellImages names the sampled images that could not be opened, with the
// reason, and those that had nothing but their path to be known by.
func (c *cli) tellImages(rec *sample.Recording, f *finder) {
	missing, guessed := map[sample.ImageID]uint64{}, map[sample.ImageID]uint64{}
	for id, n := range sampled(rec) {
		switch l, asked := f.lookup[id]; {
		case !asked || n == 0:
		case l.err != nil:
			missing[id] = n
		case id.Build.IsZero():
			guessed[id] = n
		}
	}
	c.tellEach(missing, rec.Samples(), func(id sample.ImageID) string {
		return fmt.Sprintf("%v; its samples are not used", f.lookup[id].err)
	})
	c.tellEach(guessed, rec.Samples(), func(id sample.ImageID) string {
		return "no build ID was recorded, so " + report.Clean(f.lookup[id].im.Path) + " is taken by its path alone"
	})
	if len(missing) > 0 && f.symfs == "" && c.fs.Lookup("symfs") != nil {
		c.warn("--symfs DIR looks images up below DIR first, whatever their path there")
	}
}

// tellEach says something of each of some images, those with the most samples
// first.
func (c *cli) tellEach(samples map[sample.ImageID]uint64, total uint64, say func(sample.ImageID) string) {
	var rest uint64
	for i, id := range mostFirst(samples) {
		if i >= maxTold {
			rest += samples[id]
			continue
		}
		c.warn("%s, %s of the samples: %s", report.Clean(id.String()), report.Share(samples[id], total), say(id))
	}
	if rest > 0 {
		c.warn("so it is with %d more images, %s of the samples", len(samples)-maxTold, report.Share(rest, total))
	}
}

// state says in a word or two whether an image can be used.
func state(err error) string {
	switch {
	case err == nil:
		return "found"
	case errors.Is(err, errKernel):
		return "kernel"
	case errors.Is(err, errVDSO):
		return "vdso"
	case errors.Is(err, errJIT):
		return "JIT"
	case errors.Is(err, errNotFound):
		return "not found"
	case errors.Is(err, errOtherID):
		return "other build ID"
	case errors.Is(err, image.ErrUnsupported):
		return "unsupported"
	case errors.Is(err, image.ErrFormat):
		return "malformed"
	}
	return "unreadable"
}
