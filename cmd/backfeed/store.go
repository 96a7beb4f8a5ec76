package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/sample"
	"backfeed/sample/store"
)

// defaultEpoch is how long an epoch is, if nothing else is asked for.
const defaultEpoch = time.Hour

// defaultStore is where an agent keeps its samples.
const defaultStore = "/var/lib/backfeed"

var storeCmd = &command{
	name: "store", args: "ls|stats|fsck|compact|gc DIR", short: "list, check, merge or thin out what a store holds",
	long: `A store has a segment for each flush of an agent, or one for each epoch once it is compacted. An agent does
compact and gc itself; all commands can be run while it is at work. ` + "`backfeed images DIR`" + ` lists the
images, and every command that reads samples reads a store.`,
	sub: []*command{
		storeCommand("ls", "list the segments", "", "backfeed store ls /var/lib/backfeed", listStore),
		storeCommand("stats", "sum up what a store holds", "", "backfeed store stats /var/lib/backfeed --format json", sumStore),
		storeCommand("fsck", "read and check everything", `Exit code 1 tells of damage. What a writer that was killed left behind is none: --repair removes it.`,
			"backfeed store fsck /var/lib/backfeed --repair", checkStore),
		storeCommand("compact", "merge the segments of each epoch that has ended", "", "backfeed store compact /var/lib/backfeed", compactStore),
		storeCommand("gc", "drop what is too old or too much", `It drops what --retain and --retain-size do not keep, oldest first, then the copies of images that no
samples are left of; the newest three epochs stay. Where most of the epochs are too old at once, the
clock may have been set wrong: all stay, with exit code 3, unless --most is given.`,
			"backfeed store gc /var/lib/backfeed --retain 720h --retain-size 20G", thinStore),
	},
	run: runGroup,
}

// storeCommand is one of store's commands.
func storeCommand(name, short, long, example string, verb storeVerb) *command {
	return &command{name: "store " + name, args: "DIR", short: short, long: long, examples: example,
		run: func(c *cli, args []string) error { return runStore(c, args, name, verb) }}
}

// A storeVerb does one thing with a store, and returns what is to be printed: as
// JSON, or as text.
type storeVerb func(s *store.Store, f *storeFlags) (doc any, text func(w io.Writer, style report.Style) error, err error)

// storeFlags are those of all verbs.
type storeFlags struct {
	repair bool
	retain retention
	most   bool
}

// retention says what to keep of a store.
type retention struct {
	age  time.Duration
	size size
}

func (r *retention) define(fs *flagSet) {
	fs.DurationVar(&r.age, "retain", 0, "drop what is older than `duration` (default: keep all)")
	fs.Var(&r.size, "retain-size", "drop the oldest if the store is larger than this (default: keep all)")
}

func (r *retention) check() error {
	if r.age < 0 {
		return fmt.Errorf("--retain %v: want a positive time", r.age)
	}
	return nil
}

func (r *retention) isZero() bool { return r.age == 0 && r.size == 0 }

// of returns package store's form.
func (r *retention) of() store.Retention {
	return store.Retention{MaxAge: r.age, MaxBytes: int64(r.size)}
}

func runStore(c *cli, args []string, name string, verb storeVerb) error {
	fs := c.flags()
	var f storeFlags
	switch name {
	case "fsck":
		fs.BoolVar(&f.repair, "repair", false, "remove what is unfinished or superseded, and make the index anew")
	case "gc":
		f.retain.define(fs)
		fs.BoolVar(&f.most, "most", false, "drop more than half of the epochs, if --retain asks for that")
	}
	format := c.format()
	if err := fs.Parse(args); err != nil || fs.NArg() != 1 {
		return c.usage(err)
	}
	if err := f.retain.check(); err != nil {
		return c.usage(err)
	}
	if name == "gc" && f.retain.age == 0 {
		if err := fs.refuse("it goes with --retain", "most"); err != nil {
			return c.usage(err)
		}
	}
	s, err := input.OpenStore(fs.Arg(0), notices{c})
	if err != nil {
		return err
	}
	doc, text, err := verb(s, &f)
	if doc == nil {
		return err
	}
	return errors.Join(c.print("-", format, doc, doc, text), err)
}

// putInto writes a recording that was begun at start to the store in dir.
func (c *cli) putInto(dir string, start time.Time, rec *sample.Recording, labels map[string]string) error {
	s, err := store.Create(dir, input.StoreOptions(notices{c}))
	if err != nil {
		return err
	}
	return s.Put(sample.EpochAt(start, defaultEpoch), rec, labels)
}

// A segmentRow is one segment.
type segmentRow struct {
	From    time.Time              `json:"from"` // of its epoch
	To      time.Time              `json:"to"`
	Labels  map[string]string      `json:"labels,omitempty"`
	Samples uint64                 `json:"samples"`
	Lost    map[sample.Loss]uint64 `json:"lost,omitempty"`
	Images  int                    `json:"images"`
	Puts    int                    `json:"puts"` // that it is made of
	Bytes   int64                  `json:"bytes"`
	Name    string                 `json:"name"`
}

func listStore(s *store.Store, _ *storeFlags) (any, func(io.Writer, report.Style) error, error) {
	segments, err := s.Segments()
	if err != nil {
		return nil, nil, err
	}
	rows := []segmentRow{}
	for _, g := range segments {
		rows = append(rows, segmentRow{g.Epoch.From(), g.Epoch.To(), g.Labels, g.Samples, g.Lost, g.Images, g.Puts, g.Bytes, g.Name})
	}
	return itemList[segmentRow]{"backfeed.store.ls/2", rows}, func(w io.Writer, style report.Style) error {
		t := report.NewTable(report.Left("from"), report.Right("length"), report.Right("samples"), report.Right("images"),
			report.Right("puts").Drop(1), report.Right("bytes").Drop(2), report.Left("labels"))
		for _, r := range rows {
			t.Row(r.From.Format(time.DateTime), r.To.Sub(r.From).String(), report.Integer(r.Samples), fmt.Sprint(r.Images),
				fmt.Sprint(r.Puts), fmt.Sprint(r.Bytes), labelList(r.Labels))
		}
		return t.Print(w, style)
	}, nil
}

// labelList lists labels by name: "role=web zone=a".
func labelList(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+labels[name])
	}
	return strings.Join(parts, " ")
}

// storeSums are sums over a store.
type storeSums struct {
	Schema    string                 `json:"schema"`
	From      *time.Time             `json:"from,omitempty"` // of the first epoch
	To        *time.Time             `json:"to,omitempty"`   // of the last one
	Epochs    int                    `json:"epochs"`
	Segments  int                    `json:"segments"`
	Samples   uint64                 `json:"samples"` // the lost ones included
	Lost      map[sample.Loss]uint64 `json:"lost"`
	Images    int                    `json:"images"`
	Places    uint64                 `json:"places"` // with samples, in each segment
	Flows     uint64                 `json:"flows"`  // stacks, branches and ranges, in each segment
	Bytes     int64                  `json:"bytes"`  // of segments
	Copies    int                    `json:"copies"` // of images
	CopyBytes int64                  `json:"copy_bytes"`
	Unused    int                    `json:"unused"` // files
}

func sumStore(s *store.Store, _ *storeFlags) (any, func(io.Writer, report.Style) error, error) {
	st, err := s.Stats()
	if err != nil {
		return nil, nil, err
	}
	sums := storeSums{
		Schema: "backfeed.store.stats/2",
		Epochs: st.Epochs, Segments: st.Segments, Samples: st.Samples, Lost: st.Lost, Images: st.Images,
		Places: st.Places, Flows: st.Flows, Bytes: st.Bytes, Copies: st.Copies, CopyBytes: st.CopyBytes, Unused: st.Unused,
	}
	if st.Epochs > 0 {
		sums.From, sums.To = &st.From, &st.To
	}
	return sums, sums.write, nil
}

func (s storeSums) write(w io.Writer, style report.Style) error {
	t := report.NewTable(report.Left(""), report.Right(""), report.Left(""))
	row := func(name string, n uint64, note string) { t.Row(name, report.Integer(n), note) }
	span := ""
	if s.From != nil {
		span = s.From.Format(time.DateTime) + " to " + s.To.Format(time.DateTime) + " UTC"
	}
	row("epochs", uint64(s.Epochs), span)
	row("segments", uint64(s.Segments), fmt.Sprintf("%d bytes", s.Bytes))
	row("samples", s.Samples, "")
	for _, why := range report.MostFirst(s.Lost) {
		row("lost", s.Lost[why], fmt.Sprintf("%s, %s of the samples", why, report.Share(s.Lost[why], s.Samples)))
	}
	row("images", uint64(s.Images), "")
	row("copies of images", uint64(s.Copies), fmt.Sprintf("%d bytes", s.CopyBytes))
	row("places", s.Places, "stored, of all segments")
	row("stacks and branches", s.Flows, "stored, of all segments")
	row("unused files", uint64(s.Unused), "unfinished, superseded or damaged")
	return t.Print(w, style)
}

// A storeCheck is what fsck found.
type storeCheck struct {
	Schema     string   `json:"schema"`
	Clean      bool     `json:"clean"`
	Segments   int      `json:"segments"`
	Samples    uint64   `json:"samples"`
	Copies     int      `json:"copies"`
	Unfinished []string `json:"unfinished"` // files
	Superseded []string `json:"superseded"` // segments
	Damaged    []string `json:"damaged"`
	Removed    int      `json:"removed"` // files
}

func checkStore(s *store.Store, f *storeFlags) (any, func(io.Writer, report.Style) error, error) {
	r, err := s.Fsck(f.repair)
	if err != nil {
		return nil, nil, err
	}
	doc := storeCheck{"backfeed.store.fsck/2", r.Clean(), r.Segments, r.Samples, r.Copies, append([]string{}, r.Unfinished...), append([]string{}, r.Superseded...), []string{}, r.Removed}
	for _, e := range r.Damaged {
		doc.Damaged = append(doc.Damaged, e.Error())
	}
	if !doc.Clean {
		err = errors.New("the store is damaged; what is left of it can be read")
	}
	return doc, func(w io.Writer, style report.Style) error {
		for _, e := range doc.Damaged {
			report.Fprintf(w, style, "damaged: %s\n", e)
		}
		for _, name := range doc.Unfinished {
			report.Fprintf(w, style, "unfinished: %s\n", name)
		}
		for _, name := range doc.Superseded {
			report.Fprintf(w, style, "merged into another: %s\n", name)
		}
		_, err := report.Fprintf(w, style, "%d segments and %d copies of images are right, %d samples; files removed: %d\n",
			doc.Segments, doc.Copies, doc.Samples, doc.Removed)
		return err
	}, err
}

func compactStore(s *store.Store, _ *storeFlags) (any, func(io.Writer, report.Style) error, error) {
	n, err := s.Compact(time.Now())
	if err != nil {
		return nil, nil, err
	}
	doc := struct {
		Schema string `json:"schema"`
		Merged int    `json:"merged"` // segments, into others
	}{"backfeed.store.compact/2", n}
	return doc, func(w io.Writer, style report.Style) error {
		_, err := report.Fprintf(w, style, "segments merged into others: %d\n", n)
		return err
	}, nil
}

func thinStore(s *store.Store, f *storeFlags) (any, func(io.Writer, report.Style) error, error) {
	if f.retain.isZero() {
		return nil, nil, fail.Errorf(fail.Usage, "store gc: want --retain or --retain-size")
	}
	keep := f.retain.of()
	keep.Most = f.most
	done, err := s.GC(keep, time.Now())
	if errors.Is(err, store.ErrMost) {
		err = fail.Errorf(fail.Gate, "%w; nothing was dropped for its age. If the clock is right and was right when they were written, give --most", err)
	} else if err != nil {
		return nil, nil, err
	}
	doc := struct {
		Schema   string `json:"schema"`
		Epochs   int    `json:"epochs"`
		Segments int    `json:"segments"`
		Copies   int    `json:"copies"`
		Bytes    int64  `json:"bytes"`
	}{"backfeed.store.gc/2", done.Epochs, done.Segments, done.Copies, done.Bytes}
	return doc, func(w io.Writer, style report.Style) error {
		_, err := report.Fprintf(w, style, "dropped: %d epochs in %d segments, %d copies of images; %d bytes\n", doc.Epochs, doc.Segments, doc.Copies, doc.Bytes)
		return err
	}, err
}
