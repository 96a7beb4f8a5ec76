package input

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/compare"
	"backfeed/infer/explain"
	"backfeed/infer/image"
	"backfeed/infer/machine"
	"backfeed/sample"
	"backfeed/sample/store"
)

// Options say what to read of the sources, and where to look images up.
type Options struct {
	Stdin io.Reader // what the path "-" reads; nil is empty

	Since, Until time.Time         // of a store, read whole epochs between these; zero is no bound
	Labels       map[string]string // of a store, read what has all of these
	Unless       map[string]string // of a store, leave out what has all of these; none leave nothing out
	Between      Between           // of each source that is no store, read these samples alone
	StackDepth   int               // frames to read of the stacks of perf.data and OTLP profiles; 0 is the usual number, a negative one no stacks
	Covered      string            // the program that cover profiles are of; "" if none was named

	Symfs   []string // directories that images are looked up below, one after the other, first of all; and addresses of servers that have them, last of all
	SymfsAs string   // what the user calls Symfs; "" is --symfs
	Images  []string // files that the user named: they need not be looked for if they have a build ID
	Running *Running // holds images, and has to for as long as the session is open; nil is none
	Beside  *Session // images of the same build are its, and not opened again; nil is none. It has to be open as long
	Advise  bool     // notices may advise the flag --symfs
	Apart   bool     // samples stay as they are where they stand for unlike amounts, as they do in Merge; else they are made to stand for the same
	ByName  bool     // a profile without addresses will do: what it says is in Calls

	Only string // the image that Infer infers alone, as method Image takes it; "" is all

	Infer  infer.Options // how Infer infers
	Keep   Results       // what Infer found is kept there, and not searched for again; "" keeps nothing
	Notify report.Notify // nil is Quiet
}

// A Session is what was read, and what was made of it. Close it when nothing asks its
// images any more. It is for one goroutine, except that Found may be called from several
// when nothing else is.
type Session struct {
	Recording *sample.Recording        // of all sources; nil of a session that New made
	Starts    []Starts                 // of each source
	Profile   *infer.Profile           // what ran, by Infer; nil before
	Named     map[compare.Named]uint64 // samples that are known by name alone, by Infer; losses to Profile
	Calls     *sample.NamedCalls       // what profiles without addresses say, where there is nothing else; there is no Profile then

	opt     Options
	notify  report.Notify
	finder  *finder
	paths   []string                // that were read
	stores  []store.Store           // that were read
	leftOut uint64                  // samples, by Options.Unless
	truths  []weighedTruth          // exact counts that were read, and are to be put to images
	only    *program                // that was inferred alone; nil if all was
	named   map[sample.ImageID]bool // what NamesKernel has found
	evened  *sample.Recording       // by even, for what is inferred now; nil if none was
	from    readFrom                // what was read last
	kept    *result                 // where Profile is kept; nil if it is not
}

// New makes a session without a recording: it looks images up, and reads sets.
func New(opt Options) (*Session, error) {
	s := &Session{opt: opt, notify: opt.Notify}
	if s.notify == nil {
		s.notify = report.Quiet{}
	}
	if s.opt.Stdin == nil {
		s.opt.Stdin = strings.NewReader("")
	}
	var err error
	if s.finder, err = newFinder(opt.Symfs, cmp.Or(opt.SymfsAs, "--symfs")); err != nil {
		return nil, err
	}
	s.finder.notify, s.finder.fetcher = s.notify, s.fetcher()
	if opt.Running != nil {
		s.finder.running = opt.Running
	}
	if opt.Beside != nil {
		s.finder.beside = opt.Beside.finder
	}
	for _, path := range opt.Images {
		s.finder.give(path)
	}
	return s, nil
}

// Of makes a session of a recording that is at hand, and takes it over.
func Of(rec *sample.Recording, opt Options) (*Session, error) {
	s, err := New(opt)
	if err == nil {
		s.Recording = rec
	}
	return s, err
}

// Read adds up the samples of all paths: recordings of backfeed, perf.data files, pprof
// and OTLP profiles, exact counts of callgrind and of Go, and the directories of stores, told apart
// by content. Its error is of the kind fail.Nothing if the bytes are to blame or there are
// no samples. ctx ends it between two paths.
func Read(ctx context.Context, paths []string, opt Options) (*Session, error) {
	s, err := New(opt)
	if err != nil {
		return nil, err
	}
	s.paths = paths
	if s.Recording, err = s.read(ctx, paths); err != nil {
		s.Close()
		return nil, err
	}
	if opt.Only == "" { // else it is Infer that knows which image it is
		s.Recording = s.even(s.Recording)
	}
	return s, nil
}

// Infer is Read, and then the method Infer; ctx ends both.
func Infer(ctx context.Context, paths []string, opt Options) (*Session, error) {
	if err := checkModel(opt.Infer.Model); err != nil {
		return nil, err
	}
	s, err := Read(ctx, paths, opt)
	if err != nil {
		return nil, err
	}
	if err := s.Infer(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close lets go of all images.
func (s *Session) Close() { s.finder.close() }

// Open returns the image that id names. It is looked for once: the answer, good or bad, is kept.
func (s *Session) Open(id sample.ImageID) (*image.Image, error) { return s.finder.open(id) }

// Notify is how the session speaks to the user.
func (s *Session) Notify() report.Notify { return s.notify }

// Found returns the image that id names if it was looked for and found, or nil.
func (s *Session) Found(id sample.ImageID) *image.Image { return s.finder.lookup[id].im }

// OwnFile returns the path of the image that id names, if it was found, as people know it: the recorded one, where the same build lies there and says as
// much of its code, rather than that of a copy in a cache.
func (s *Session) OwnFile(id sample.ImageID) string {
	im := s.Found(id)
	if im == nil {
		return id.Path
	}
	if im.Path == id.Path || id.Build.IsZero() || !filepath.IsAbs(id.Path) {
		return im.Path
	}
	own, err := image.Open(id.Path, image.Options{})
	if err != nil {
		return im.Path
	}
	defer own.Close()
	if own.Build != id.Build || own.KeepsSymbols() != im.KeepsSymbols() || own.KeepsRelocations() != im.KeepsRelocations() {
		return im.Path
	}
	return id.Path
}

// Keeps reports whether another file than the one at path has the image that id names, which is found once a build has taken its place.
func (s *Session) Keeps(id sample.ImageID, path string) bool { return s.finder.keeps(id, path) }

// Missing returns why the image that id names was not found; nil if it was, or was not
// looked for.
func (s *Session) Missing(id sample.ImageID) error {
	if s.finder == nil {
		return nil
	}
	return s.finder.lookup[id].err
}

// checkModel reports that there is no machine model of that name; "" is the recording's.
func checkModel(name string) error {
	if name == "" {
		return nil
	}
	if _, err := machine.ByName(name); err != nil {
		return fail.Errorf(fail.Usage, "--model: %w", err)
	}
	return nil
}

// Infer infers what ran from the samples of the recording. Losses are told: counts that
// nothing went into would look like those of a program that did nothing. From here on, the
// samples of code without a file are losses of the recording, too. ctx ends it soon.
func (s *Session) Infer(ctx context.Context) error {
	if err := checkModel(s.opt.Infer.Model); err != nil {
		return err
	}
	if s.Calls != nil {
		return nil // functions and lines are all there is
	}
	if s.waits() && s.opt.Infer.Executions {
		return fail.Errorf(fail.Usage, "--event %s: time off the processor does not say how often code ran: leave the event out; prof, report and serve show it", s.opt.Infer.Event)
	}
	if s.opt.Only == "" {
		s.Recording = s.even(s.Recording)
	}
	rec := s.Recording
	exact := report.Observed(rec.Observed(nil))
	if rec.Samples() == 0 && exact != "" {
		return fail.Errorf(fail.Nothing, "no samples, only exact counts: %s; name a recording of the same program as well", exact)
	}
	from := report.AmountOf(s.opt.Infer.Event, rec.Samples())
	s.notify.Progress("inferring from %s", from)
	s.opt.Infer.Progress = func(done, total int) {
		s.notify.Progress("inferring from %s: %d%%", from, 100*done/total)
	}
	s.takeNamed()
	s.finder.ctx = ctx
	if s.opt.Only != "" {
		if err := s.choose(s.opt.Only); err != nil {
			s.notify.Done()
			return err
		}
		s.Recording = s.even(rec)
		rec = s.Recording
	}
	p, err := s.profile(ctx)
	s.notify.Done()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.TellImages(rec)
	if errors.Is(err, infer.ErrNothing) {
		if list := report.LossesOf(s.opt.Infer.Event, rec.Lost(), rec.Samples()); list != "" {
			s.notify.Warn("not used: %s", list)
		}
		err = fail.Wrap(fail.Nothing, err)
	}
	if err != nil {
		return err
	}
	if n := rec.Samples(); s.only != nil && p.Samples.Total < n {
		s.notify.Warn("%s are of %s, and asked for", report.Parts(p.Event.Name, p.Samples.Total, n), s.only.path)
	}
	if list := report.LossesOf(p.Event.Name, p.Samples.Lost, p.Samples.Total); list != "" {
		s.notify.Warn("%s used (%s); not used: %s", report.Parts(p.Event.Name, p.Samples.Used, p.Samples.Total), report.Share(p.Samples.Used, p.Samples.Total), list)
	}
	if n := p.Samples.Faulted; n*manyFaults >= p.Samples.Used && n > 0 {
		s.notify.Warn("%d samples (%s) are of page faults, estimated by the faults that were sampled or counted: they say nothing of executions", n, report.Share(n, p.Samples.Used))
	}
	if exact != "" {
		s.notify.Warn("observed counts: %s", exact)
	}
	s.tellEvents(p.Event)
	if s.only == nil {
		s.TellBuilds(rec.ByImage())
	}
	s.Profile = p
	return nil
}

// takeNamed takes what is known by name alone out of the recording, and says why code of the kernel is.
func (s *Session) takeNamed() {
	sampled := s.Recording.ByImage()
	if s.Named = TakeNamed(s.Recording, s.Open); len(s.Named) > 0 {
		s.from = readFrom{} // it was more
	}
	s.tellKernel(sampled)
}

// Choose returns the event that Infer uses, and its images, where nothing is to be inferred of them. With places, it takes what is known by
// name alone out of the recording, as Infer does, for which it opens images of the kernel; else it opens none.
func (s *Session) Choose(places bool) (event string, images []sample.ImageID, err error) {
	s.Recording = s.even(s.Recording)
	event, images, err = infer.Chosen(s.Recording, s.opt.Infer)
	if err != nil {
		return "", nil, fail.Wrap(fail.Nothing, err)
	}
	if places {
		s.takeNamed()
	}
	for _, c := range s.Recording.Counts {
		if c.Event.Name == event {
			s.tellEvents(c.Event)
			break
		}
	}
	return event, images, nil
}

// manyFaults: it is said how many samples are of page faults where they are one in so many or more.
const manyFaults = 20

// profile infers what ran, or says where threads were that waited, of which nothing is inferred.
func (s *Session) profile(ctx context.Context) (p *infer.Profile, err error) {
	if !s.waits() {
		p, s.kept, err = s.opt.Keep.infer(ctx, s.Recording, s.from, s.Open, s.opt.Infer)
		return p, err
	}
	placed, err := infer.PlaceSamples(ctx, s.Recording, s.Open, s.opt.Infer)
	if err != nil {
		return nil, err
	}
	return placed.Profile, nil
}

// InferOnly infers what ran of the image that want names: its samples alone.
func (s *Session) InferOnly(ctx context.Context, want string) error {
	s.opt.Only = want
	return s.Infer(ctx)
}

// Explain prepares to say where the time of the inferred program went, and what
// instructions waited for.
func (s *Session) Explain() (*explain.Explainer, error) {
	if s.waits() {
		return nil, fail.Errorf(fail.Usage, "--event %s: threads that wait run no instructions that could stall: leave the event out; prof, report and serve show it", s.opt.Infer.Event)
	}
	return s.Explainer()
}

// Explainer is Explain for pages, which are of time off the processor, too. They say nothing of instructions then.
func (s *Session) Explainer() (*explain.Explainer, error) {
	x, err := explain.New(s.Profile, s.Recording)
	if errors.Is(err, explain.ErrNoTime) {
		err = fail.Errorf(fail.Nothing, "%w: record those of cycles or of a timer, which record does unless --event says otherwise", err)
	}
	if err != nil {
		return nil, err
	}
	if s.kept != nil {
		x.Kept = s.kept.stalls()
	}
	x.Progress = func(done, total int) {
		s.notify.Progress("explaining %d of %d procedures", done, total)
		if done == total {
			s.notify.Done()
		}
	}
	return x, nil
}

// Named returns which of n images the user means: as the file that lies at that path here, by path, by build ID, or
// by the last element of its path; -1 is none. id is what an image was recorded as, and found, if not nil, the build
// ID of the file that was found for it. Named also returns the build ID of the file at the path want; 0 is none.
func Named(want string, n int, id func(i int) sample.ImageID, found func(i int) sample.BuildID) (int, sample.BuildID) {
	w := newWanted(want)
	return w.among(n, id, found), w.build
}

// A wanted is what a user named an image by, and what lies here of that name.
type wanted struct {
	name  string
	build sample.BuildID // of the file at that path; 0 if there is none
	full  string         // its path in full, or the name if what lies there has a build ID
	gone  bool           // nothing lies there
}

func newWanted(name string) wanted {
	build, _ := image.ReadBuildID(name)
	full, err := filepath.Abs(name)
	if !build.IsZero() || err != nil {
		full = name
	}
	_, none := os.Stat(name)
	return wanted{name, build, full, none != nil}
}

// among is Named.
func (w *wanted) among(n int, id func(i int) sample.ImageID, found func(i int) sample.BuildID) int {
	here := !w.build.IsZero()
	for _, means := range []func(i int) bool{
		func(i int) bool { return here && id(i).Build == w.build },
		func(i int) bool { return id(i).Path == w.name },
		func(i int) bool { return id(i).Path == w.full && (w.gone || id(i).Build.IsZero()) },
		func(i int) bool { return id(i).Build.String() == w.name },
		func(i int) bool { return here && found != nil && id(i).Build.IsZero() && found(i) == w.build },
		func(i int) bool { return !here && fileName(id(i)) == w.name },
	} {
		for i := range n {
			if means(i) {
				return i
			}
		}
	}
	return -1
}

// Image finds the inferred image that the user means: as the file that lies at that path here, by path, by
// build ID, or by the last element of its path.
func (s *Session) Image(want string) (*infer.ImageProfile, error) {
	images := s.Profile.Images
	i, id := Named(want, len(images), func(i int) sample.ImageID { return images[i].ID }, func(i int) sample.BuildID { return images[i].Image.Build })
	if i >= 0 {
		return images[i], nil
	}
	ids := make([]sample.ImageID, len(images))
	for i, ip := range images {
		ids[i] = ip.ID
	}
	return nil, noImage(want, id, ids)
}
