package refresh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"backfeed/cmd/internal/emit"
	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/feedback"
	"backfeed/feedback/gate"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/infer/source"
	"backfeed/infer/stale"
	"backfeed/sample"
	"backfeed/sample/store"
)

// A version is what outputs are at one place: here, or on a branch.
type version struct {
	lock  *Lock
	files map[string][]byte // by path below the directory of the configuration; nil is on the disk
}

// A run is one target being refreshed.
type run struct {
	*Target
	config  *Config
	opt     Options
	here    *version
	pending *version // what was proposed already; nil is nothing
	touched []string // files that are its outputs, and were
	notify  report.Notify
	doc     report.RefreshTarget

	src    *input.Session
	tree   *source.Tree             // nil if the target names none
	wants  map[string]string        // the file of the newest build, by the name that the configuration has for the image; or that name
	builds map[string][]LockedBuild // that were sampled, by the name that the configuration has for the image
	window store.Window
}

// refresh makes all outputs, and then writes those that change.
func (r *run) refresh(ctx context.Context) error {
	if err := r.read(ctx); err != nil {
		return err
	}
	defer r.src.Close()
	if err := r.carry(); err != nil {
		return err
	}
	if r.Tree != "" {
		var err error
		if r.tree, err = source.OpenTree(r.under(r.Tree)[0]); err != nil {
			return err
		}
	}
	files := make([][]*file, len(r.Outputs))
	for _, name := range r.imageNames() {
		ip, err := r.infer(ctx, name)
		if err != nil {
			return err
		}
		for i := range r.Outputs {
			o := &r.Outputs[i]
			if r.imageOf(o) != name {
				continue
			}
			files[i], err = r.make(o, ip)
			if errors.Is(err, feedback.ErrEmpty) || errors.Is(err, feedback.ErrUnfit) {
				err = fail.Wrap(fail.Nothing, emit.Advised(err))
			}
			if err != nil {
				return fmt.Errorf("%s: %w", o.Path, err)
			}
		}
	}
	slices.SortStableFunc(r.doc.Hottest, func(a, b report.RefreshProc) int { return cmp.Compare(b.Share, a.Share) })
	r.doc.Hottest = r.doc.Hottest[:min(len(r.doc.Hottest), mostHottest)]
	if err := r.write(slices.Concat(files...)); err != nil {
		return err
	}
	r.tellKeep()
	return nil
}

// tellKeep says which sampled builds the next build takes the place of: their samples are of no use from then on.
func (r *run) tellKeep() {
	if !slices.ContainsFunc(r.doc.Outputs, func(o report.RefreshOutput) bool { return o.State != report.RefreshUnchanged }) {
		return // nothing asks for a build
	}
	for _, name := range r.imageNames() {
		path := r.under(name)[0]
		build, err := image.ReadBuildID(path)
		if err != nil || build.IsZero() {
			continue // a recorded image
		}
		for _, b := range r.doc.Builds {
			if b.ID != build.String() || r.src.Keeps(sample.ImageID{Build: build, Path: b.Path}, path) {
				continue
			}
			r.notify.Warn("no other file has the build that was sampled than %s: once it is built anew, nothing tells what these samples are of; `backfeed images SRC --copy-to DIR` makes a copy, for DIR among `builds` in backfeed.yaml", path)
			break
		}
	}
}

// read adds up the sources.
func (r *run) read(ctx context.Context) error {
	opt := input.Options{
		Symfs: r.under(r.Builds...), SymfsAs: "builds", Labels: r.Labels, Images: r.under(r.imageNames()...),
		Infer: infer.Options{Event: r.Event, Model: r.Model, Executions: true}, Notify: r.notify,
	}
	if r.Since > 0 {
		opt.Since = r.opt.Now.Add(-r.Since)
	}
	sources, err := input.Expand(r.config.Dir, r.Sources, r.LeaveOut)
	if err != nil {
		return err
	}
	if (r.Since > 0 || len(r.Labels) > 0) && !slices.ContainsFunc(sources, func(s input.Source) bool { return input.Selectable(s.Path) }) {
		r.notify.Warn("since and label choose from stores and servers of profiles, and no source is one: all that the sources hold counts")
	}
	r.src, err = input.Merge(ctx, sources, input.MergeOptions{HalfLife: r.HalfLife, Normalise: r.Normalise, LeaveOut: r.LeaveOut}, opt)
	return err
}

// under returns paths as they are from the directory that the process is in.
func (r *run) under(paths ...string) []string { return input.Under(r.config.Dir, paths...) }

// imageNames are those of the target and of its outputs, each once.
func (r *run) imageNames() []string {
	var all []string
	for _, o := range r.Outputs {
		if name := r.imageOf(&o); !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// imageOf is the name of the image that an output is about.
func (r *run) imageOf(o *Output) string {
	if o.Image != "" {
		return o.Image
	}
	return r.Image
}

// carry moves the samples of older builds of each image to its newest build, and notes which builds were sampled.
func (r *run) carry() error {
	r.builds, r.wants = map[string][]LockedBuild{}, map[string]string{}
	var all, kept uint64
	for _, name := range r.imageNames() {
		path, newest := r.newest(name)
		r.wants[name] = cmp.Or(path, name)
		r.note(name, newest)
		if path == "" {
			continue
		}
		if !slices.ContainsFunc(r.builds[name], func(b LockedBuild) bool { return b.ID != newest.String() }) {
			continue // nothing to move
		}
		if err := r.unbolted(name, newest); err != nil {
			return err
		}
		before := r.src.Recording
		carried, err := r.src.Onto(path, r.Recorded)
		if err != nil {
			return err
		}
		if carried == nil {
			continue
		}
		if most := r.builds[name][0]; changed(carried) && most.ID != newest.String() {
			inAnotherForm := fmt.Sprintf("%s of the samples are of code that %s has in another form, as a build by a profile does: functions that it inlined have lost their calls",
				report.Share(reshaped(carried), carried.Total()), path)
			old := r.sampled(before, func(id sample.ImageID) bool { return id.Build.String() == most.ID })
			if old == nil || !r.byLines(name) {
				r.notify.Warn("%s, and a profile made so may be worse than none; sample that build, or name the recorded one by its build ID: image: %s", inAnotherForm, most.ID)
			} else {
				r.notify.Warn("%s; so what is written is of the functions and lines of the recorded build, %s: of a function edited since, compilers heed what stands before the edit", inAnotherForm, old.Path)
				if carried, err = r.ontoRecorded(name, path, old, before); err != nil {
					return err
				}
				all, kept = all+most.Samples, kept+most.Samples
			}
		}
		if carried != nil {
			all, kept = all+carried.Total(), kept+carried.Total()-carried.Samples[stale.NoTie]
		}
	}
	if all > 0 {
		r.doc.Carried = float64(kept) / float64(all)
	}
	return nil
}

// ontoRecorded has what is written of an image be of the build that was sampled most, old, in place of the newest, at path: the samples as they were
// before, with those of other builds moved to it. It returns nil where there are no others.
func (r *run) ontoRecorded(name, path string, old *image.Image, before *sample.Recording) (*stale.Carried, error) {
	r.src.Recording, r.wants[name] = before, old.Path
	if len(r.builds[name]) == 1 {
		return nil, nil
	}
	return r.src.Onto(old.Path, cmp.Or(r.Recorded, filepath.Base(path)))
}

// byLines reports whether all outputs of an image are of functions and their lines, which the recorded build has as well as the newest.
func (r *run) byLines(name string) bool {
	return !slices.ContainsFunc(r.Outputs, func(o Output) bool {
		switch o.Kind {
		case "go", "llvm", "gcc":
			return false
		case "layout":
			return o.For == "bolt" && r.imageOf(&o) == name
		}
		return r.imageOf(&o) == name
	})
}

// sampled returns the image with most samples of a recording of those that are asked for and found; nil if there is none.
func (r *run) sampled(rec *sample.Recording, is func(id sample.ImageID) bool) *image.Image {
	for _, id := range report.MostFirst(rec.ByImage()) {
		if !is(id) {
			continue
		}
		if im, err := r.src.Open(id); err == nil {
			return im
		}
	}
	return nil
}

// changed reports whether so much code has another form in the newer build that its calls may not be known. Of ninja, 30 % had where the
// newer build was by a profile, and by what was made of its samples 25 % more branches were taken than without a profile.
func changed(c *stale.Carried) bool { return 5*reshaped(c) > c.Total() }

// reshaped is how many samples are of code that the newer build has in another form, or not at all.
func reshaped(c *stale.Carried) uint64 { return c.Samples[stale.NoTie] + c.Samples[stale.SamePart] }

// unbolted refuses to make a profile for llvm-bolt of what it has rewritten: of zstd, five rounds of that took the taken
// branches from 40 % less to 10 % more than without a profile (testdata/refresh).
func (r *run) unbolted(name string, newest sample.BuildID) error {
	if !slices.ContainsFunc(r.Outputs, func(o Output) bool { return o.Kind == "bolt" && r.imageOf(&o) == name }) {
		return nil
	}
	isBuild := input.BuildsOf(name, r.Recorded)
	for _, id := range report.MostFirst(r.src.Recording.ByImage()) {
		if id.Build == newest || !isBuild(id) {
			continue
		}
		if im, err := r.src.Open(id); err == nil && im.Bolted() {
			return fail.Errorf(fail.Nothing, "%s, which was sampled, is a build that llvm-bolt has rewritten: its samples make no profile for llvm-bolt; sample the build before, or leave its recordings out", report.Clean(id.String()))
		}
	}
	return nil
}

// newest returns the file of the newest build of an image and its build ID: the one that the configuration names, or, if
// that is no file here, the sampled one with most samples that is found; "" if there is none.
func (r *run) newest(name string) (string, sample.BuildID) {
	path := r.under(name)[0]
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
		build, _ := image.ReadBuildID(path) // Onto says what is wrong with it
		return path, build
	}
	isBuild := input.BuildsOf(name, r.Recorded)
	if im := r.sampled(r.src.Recording, func(id sample.ImageID) bool { return id.Build.String() == name || isBuild(id) }); im != nil {
		return im.Path, im.Build
	}
	return "", sample.BuildID{}
}

// note says which builds of an image were sampled.
func (r *run) note(name string, newest sample.BuildID) {
	images, isBuild := r.src.Recording.ByImage(), input.BuildsOf(r.wants[name], r.Recorded)
	for _, id := range report.MostFirst(images) {
		own := !newest.IsZero() && id.Build == newest
		if !own && !isBuild(id) {
			continue
		}
		r.doc.Builds = append(r.doc.Builds, report.RefreshBuild{ID: id.Build.String(), Path: id.Path, Samples: images[id], Newest: own})
		r.builds[name] = append(r.builds[name], LockedBuild{id.Build.String(), images[id]})
	}
}

// infer infers what ran of an image, and holds its samples to the limits.
func (r *run) infer(ctx context.Context, name string) (*infer.ImageProfile, error) {
	want := r.wants[name]
	if err := r.src.InferOnly(ctx, want); err != nil {
		return nil, err
	}
	p := r.src.Profile
	r.doc.Event = p.Event.Name
	r.doc.Samples, r.doc.Used = r.doc.Samples+p.Samples.Total, r.doc.Used+p.Samples.Used
	ip, err := r.src.Image(want)
	if err != nil {
		return nil, err
	}
	r.hottest(ip)
	w, err := r.src.Window()
	if err != nil {
		return nil, err
	}
	r.window.Add(w)
	r.doc.From, r.doc.To, r.doc.Hosts = moment(r.window.From), moment(r.window.To), len(r.window.Values)
	return ip, r.judge(name, ip, w)
}

// moment is a time as documents have it.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// mostHottest is how many procedures a report names.
const mostHottest = 25

// hottest notes the procedures of an image with the most samples.
func (r *run) hottest(ip *infer.ImageProfile) {
	procs := slices.Clone(ip.Procs)
	slices.SortStableFunc(procs, func(a, b *infer.Result) int { return cmp.Compare(b.Samples, a.Samples) })
	for _, p := range procs[:min(len(procs), mostHottest)] {
		if p.Samples == 0 {
			break
		}
		most := 0
		for b, n := range p.BlockSamples {
			if n > p.BlockSamples[most] {
				most = b
			}
		}
		r.doc.Hottest = append(r.doc.Hottest, report.RefreshProc{
			Name: report.Demangled(p.Proc.Name), Image: filepath.Base(ip.ID.Path),
			Share: float64(p.Samples) / float64(max(r.src.Profile.Samples.Used, 1)), Confidence: p.Block[most].Within,
		})
	}
}

// judge holds the samples of an image to the limits.
func (r *run) judge(name string, ip *infer.ImageProfile, w store.Window) error {
	otherID, of := r.src.OfOtherID()
	gates := gate.Recording(r.src.Profile, ip, otherID, of, r.Limits)
	if r.tree != nil {
		n, err := r.tree.Fates(ip.Image, ip.ID, r.src.Recording, r.src.Profile.Event.Name)
		if errors.Is(err, image.ErrNoLines) {
			err = fail.Wrap(fail.Nothing, err)
		}
		if err != nil {
			return err
		}
		gates = append(gates, gate.Tree(&n, r.Tree, r.Limits)...)
	}
	if !w.To.IsZero() {
		gates = append(gates, gate.Age(r.opt.Now.Sub(w.To), r.Limits))
	}
	if older := r.older(); older > 0 {
		gates = append(gates, gate.Carried(r.doc.Carried, r.Limits))
	}
	verdicts := report.NewVerdicts(gates)
	if len(r.wants) > 1 {
		for i := range verdicts {
			verdicts[i].Name = name + ": " + verdicts[i].Name
		}
	}
	r.doc.Gates = append(r.doc.Gates, verdicts...)
	if failed := report.Failures(verdicts); failed != "" {
		return fail.Errorf(fail.Gate, "%s", failed)
	}
	return nil
}

// older are the samples of builds that are not the newest.
func (r *run) older() (n uint64) {
	for _, b := range r.doc.Builds {
		if !b.Newest {
			n += b.Samples
		}
	}
	return n
}
