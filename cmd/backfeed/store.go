package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/flagset"
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
	name: "store", args: "ls|stats|fsck|compact|gc STORE", short: "list, check, merge or thin out what a store holds",
	long: `A store has a segment for each flush of an agent, or one for each epoch once it is compacted. An agent does
compact and gc itself; all commands can be run while it is at work. ` + "`backfeed images DIR`" + ` lists the
images, and every command that reads samples reads a store. STORE is a directory, or s3://BUCKET/PREFIX:
` + "`backfeed help bucket`" + `.`,
	sub: []*command{
		storeCommand("ls", "list the segments", "", "backfeed store ls /var/lib/backfeed", listStore),
		storeCommand("stats", "sum up what a store holds", "", "backfeed store stats /var/lib/backfeed --format json", sumStore),
		storeCommand("fsck", "read and check everything", `Exit code 1 tells of damage. What a writer that was killed left behind is none: --repair
removes it, and copies of images with wrong bytes. Segments that the index remembers and the disk did not keep are
named until then.`,
			"backfeed store fsck /var/lib/backfeed --repair", checkStore),
		storeCommand("compact", "merge the segments of each epoch that has ended", `In a bucket, the result is divided by image, so that reading one image gets little else. Any number of
jobs may be at it, each with its --shard, or all with none; what two do at the same time is done once.`,
			`backfeed store compact /var/lib/backfeed
backfeed store compact s3://bucket/fleet --shard 0/4 --into 24h --forget host`, compactStore),
		storeCommand("gc", "drop what is too old or too much", `It drops what --retain and --retain-size do not keep, oldest first, then the copies of images that no
samples are left of, but for those of the last 24 hours; the newest three epochs stay. Age is counted from
the end of the newest epoch, if that is over. Where most of the epochs are too old at once, the
clock may have been set wrong: all stay, with exit code 3, unless --most is given.`,
			"backfeed store gc /var/lib/backfeed --retain 720h --retain-size 20G", thinStore),
	},
	run: runGroup,
}

// storeCommand is one of store's commands.
func storeCommand(name, short, long, example string, verb storeVerb) *command {
	return &command{name: "store " + name, args: "STORE", short: short, long: long, examples: example,
		run: func(c *cli, args []string) error { return runStore(c, args, name, verb) }}
}

// A storeVerb does one thing with a store, and returns what is to be printed: as
// JSON, or as text.
type storeVerb func(s store.Store, f *storeFlags) (doc any, text func(w io.Writer, style report.Style) error, err error)

// storeFlags are those of all verbs.
type storeFlags struct {
	repair bool
	retain retention
	most   bool
	shard  flagset.Part
	into   time.Duration
	forget []string
}

// retention says what to keep of a store.
type retention struct {
	age  time.Duration
	size flagset.Size
}

func (r *retention) define(fs *flagset.Set) {
	fs.DurationVar(&r.age, "retain", 0, "drop what is older than `duration` (default: keep all)")
	fs.Var(&r.size, "retain-size", "drop the oldest if the store is larger than this (default: keep all)")
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
	case "compact":
		fs.Var(&f.shard, "shard", "of a bucket, do this `part` of the work: 0/4 to 3/4 are those of four jobs (default: all)")
		fs.DurationVar(&f.into, "into", 0, "of a bucket, merge epochs that are over into ones of this `duration`, at most 24h (default: not)")
		fs.StringArrayVar(&f.forget, "forget", nil, "of a bucket, merge what differs in the label `name` only, such as host; repeatable")
	}
	format := c.format()
	if err := fs.Parse(args); err != nil || fs.NArg() != 1 {
		return c.usage(err)
	}
	if f.into > 24*time.Hour {
		return c.usage(fmt.Errorf("--into %v: want at most 24h", f.into))
	}
	if name == "compact" && !store.InBucket(fs.Arg(0)) {
		if err := fs.Refuse("it goes with a store in a bucket", "shard", "into", "forget"); err != nil {
			return c.usage(err)
		}
	}
	if name == "gc" && f.retain.age == 0 {
		if err := fs.Refuse("it goes with --retain", "most"); err != nil {
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

func listStore(s store.Store, _ *storeFlags) (any, func(io.Writer, report.Style) error, error) {
	segments, err := s.Segments()
	if err != nil {
		return nil, nil, err
	}
	rows := report.NewSegments(segments)
	return report.ItemsOf("backfeed.store.ls/2", rows), func(w io.Writer, style report.Style) error { return report.WriteSegments(w, rows, style) }, nil
}

func sumStore(s store.Store, _ *storeFlags) (any, func(io.Writer, report.Style) error, error) {
	st, err := s.Stats()
	if err != nil {
		return nil, nil, err
	}
	sums := report.NewStoreSums(st)
	return sums, sums.Text, nil
}

func checkStore(s store.Store, f *storeFlags) (any, func(io.Writer, report.Style) error, error) {
	r, err := s.Fsck(f.repair)
	if err != nil {
		return nil, nil, err
	}
	doc := report.NewStoreCheck(r)
	if !doc.Clean {
		err = errors.New("the store is damaged; what is left of it can be read")
	}
	return doc, doc.Text, err
}

func compactStore(s store.Store, f *storeFlags) (any, func(io.Writer, report.Style) error, error) {
	var n int
	var err error
	if b, ok := s.(*store.Bucket); ok {
		n, err = b.CompactAs(time.Now(), store.Compaction{Shard: f.shard.I, Of: f.shard.N, Into: f.into, Forget: f.forget})
	} else {
		n, err = s.Compact(time.Now())
	}
	if err != nil {
		return nil, nil, err
	}
	doc := report.NewStoreCompact(n)
	return doc, doc.Text, nil
}

func thinStore(s store.Store, f *storeFlags) (any, func(io.Writer, report.Style) error, error) {
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
	doc := report.NewStoreGC(done)
	return doc, doc.Text, err
}
