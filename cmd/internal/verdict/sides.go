package verdict

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/infer/compare"
	"backfeed/infer/image"
	"backfeed/infer/stale"
	"backfeed/sample"
)

// A Side is what to read of one side.
type Side struct {
	Name         string // as messages call it: "OLD" or "NEW"
	Paths        []string
	Since, Until time.Time         // of stores
	Labels       map[string]string // of stores
	Build        string            // take the samples of the image with this build ID alone, or one that begins so; "" is all
	Units        Units
}

// A Comparison is a verdict and what it is about.
type Comparison struct {
	*compare.Verdict
	Event string
	Unit  string // of what is spent: "s" of time, "cycles" and others of counters, or "samples", where periods are not known

	UserOnly bool        // of "s": as compare.UserOnly has it, of all that is compared
	Used     *[2]float64 // of "s", per unit of work: as a compare.Work has it
}

// A side is a Side that was read.
type side struct {
	*Side
	src     *input.Session
	sets    []*compare.Set
	tallies []map[compare.Thing]uint64
	ran     []execution                  // of the procedure that units are executions of, by set
	kinds   []map[string]sample.Labelled // of Units.KindLabel, by set and event; nil if it is not asked for
}

// Judge reads both sides and compares them.
func Judge(ctx context.Context, opt *Request) (*Comparison, error) {
	sides := [2]*side{{Side: &opt.Sides[0]}, {Side: &opt.Sides[1]}}
	for i, s := range sides {
		if err := s.read(ctx, opt, &opt.Sides[1-i]); err != nil {
			return nil, err
		}
		defer s.src.Close()
	}
	all := slices.Concat(sides[0].sets, sides[1].sets)
	ev, err := input.Alike(all, opt.Event, sides[0].src.Notify(), func(set int, id sample.ImageID) bool {
		if set < len(sides[0].sets) {
			return sides[0].src.NamesKernel(id)
		}
		return sides[1].src.NamesKernel(id)
	})
	if err != nil {
		return nil, err
	}
	names := compare.NamesOf(all)
	pairFiles(sides, names)
	input.TellAlone(all, names, sides[0].src.Notify())
	c := &Comparison{Event: ev.Name, Unit: unitOf(sides, ev)}
	q := compare.Question{Noise: opt.Noise, SameLoad: opt.SameLoad, Serial: sides[0].stored() && sides[1].stored()}
	q.Unchanged, q.OneBuild = tally(sides, names)
	for i, to := range []*[]compare.Run{&q.Old, &q.New} {
		if *to, err = sides[i].runs(c.Unit); err != nil {
			return nil, err
		}
	}
	for _, s := range sides {
		s.src.TellMissing(s.sets)
	}
	c.Verdict = compare.Judge(q)
	c.times(sides)
	return c, nil
}

// times says what kind of time is compared, and what the recorded commands used for a unit of work.
func (c *Comparison) times(sides [2]*side) {
	if c.Unit != "s" {
		return
	}
	var all []*sample.Counts
	var used [2]float64
	known := c.PerUnit
	for i, s := range sides {
		for _, set := range s.sets {
			all = append(all, set.Counts...)
			n, ok := compare.Used(set.Recording, set.Counts)
			used[i], known = used[i]+n, known && ok
		}
		used[i] /= c.Sides[i].Units
	}
	c.UserOnly = compare.UserOnly(all)
	if known {
		c.Used = &used
	}
}

// shares reports whether two sides choose from one source by labels and builds that some samples may have all of.
func (s *Side) shares(o *Side) bool {
	a, b := strings.ToLower(s.Build), strings.ToLower(o.Build)
	return len(s.Paths) == 1 && slices.Equal(s.Paths, o.Paths) && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a))
}

// read reads the sets of a side but for the samples that by their labels are of the other one, too.
func (s *side) read(ctx context.Context, opt *Request, beside *Side) (err error) {
	in := opt.Input
	for _, t := range []struct{ to, from *time.Time }{{&in.Since, &s.Since}, {&in.Until, &s.Until}} {
		if !t.from.IsZero() {
			*t.to = *t.from
		}
	}
	if len(s.Labels) > 0 {
		in.Labels = maps.Clone(in.Labels)
		if in.Labels == nil {
			in.Labels = map[string]string{}
		}
		maps.Copy(in.Labels, s.Labels)
	}
	if opt.Deploy.IsZero() && s.shares(beside) {
		in.Unless = beside.Labels
	}
	if s.src, err = input.New(in); err != nil {
		return err
	}
	sets, err := s.src.ReadSets(ctx, s.Paths, true)
	if err != nil {
		return err
	}
	if n := s.src.LeftOut(); n > 0 && (s.Name == opt.Sides[0].Name || len(s.Labels) == 0) { // once, for both sides
		s.src.Notify().Warn("%d samples%s are %s, too, so that both sides would have them: they are left out", n, s.chosen(opt.Image), beside.marks())
	}
	kinds, err := s.labelled()
	if err != nil {
		return err
	}
	for i, set := range sets {
		if e := set.Epoch; e != nil && amid(opt.Deploy, e) {
			if s.Name == opt.Sides[0].Name { // once, for both sides
				s.src.Notify().Warn("the epoch from %s to %s is of before and after the deployment: it is left out", e.From().Format(time.RFC3339), e.To().Format(time.RFC3339))
			}
			continue
		}
		ran, err := s.executions(set)
		if err != nil {
			return err
		}
		if s.Build != "" || opt.Image != "" {
			set.Recording = only(set.Recording, func(id sample.ImageID) bool {
				return strings.HasPrefix(id.Build.String(), strings.ToLower(s.Build)) && (s.Build == "" || !id.Build.IsZero()) &&
					(opt.Image == "" || id.Path == opt.Image || filepath.Base(id.Path) == opt.Image)
			})
		}
		if set.Recording.Samples() > 0 {
			s.sets, s.ran = append(s.sets, set), append(s.ran, ran)
			if kinds != nil {
				s.kinds = append(s.kinds, kinds[i])
			}
		}
	}
	if len(s.sets) == 0 {
		return fail.Errorf(fail.Nothing, "verdict: %s: no samples%s in %s", s.Name, s.chosen(opt.Image), strings.Join(s.Paths, ", "))
	}
	return nil
}

// amid reports whether a time, if there is one, lies in an epoch, so that this is of before and after it.
func amid(at time.Time, e *sample.Epoch) bool {
	return !at.IsZero() && e.From().Before(at) && at.Before(e.To())
}

// chosen says what was looked for.
func (s *side) chosen(image string) string {
	var parts []string
	if len(s.Labels) > 0 {
		parts = append(parts, s.marks())
	}
	if s.Build != "" {
		parts = append(parts, "of build "+s.Build)
	}
	if image != "" {
		parts = append(parts, "of image "+image)
	}
	if !s.Since.IsZero() {
		parts = append(parts, "since "+s.Since.UTC().Format(time.RFC3339))
	}
	if !s.Until.IsZero() {
		parts = append(parts, "until "+s.Until.UTC().Format(time.RFC3339))
	}
	if len(parts) == 0 {
		return ""
	}
	return " " + strings.Join(parts, ", ")
}

// marks says which labels were asked for.
func (s *Side) marks() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		parts = append(parts, "marked "+name+"="+s.Labels[name])
	}
	return strings.Join(parts, ", ")
}

// stored reports whether the sets of a side follow each other in time: they are epochs.
func (s *side) stored() bool {
	return !slices.ContainsFunc(s.sets, func(set *compare.Set) bool { return set.Epoch == nil })
}

// only returns the samples of some images: as many of those dropped, and as much of the weight, as they have of the others.
func only(rec *sample.Recording, keep func(sample.ImageID) bool) *sample.Recording {
	out := &sample.Recording{}
	for _, c := range rec.Counts {
		o := sample.NewCounts(c.CPU, c.Event)
		var n uint64
		for _, ic := range c.Images {
			if keep(ic.ID) {
				n += ic.Samples()
			}
		}
		if n == 0 {
			continue
		}
		for _, ic := range c.Images {
			if !keep(ic.ID) {
				continue
			}
			k := o.Image(ic.ID)
			for off, n := range ic.At {
				o.AddSample(k, off, n)
			}
			for off, p := range ic.Probed {
				o.AddProbed(k, off, p)
			}
		}
		share := float64(n) / float64(c.Delivered())
		o.Weight, o.Excess = uint64(float64(c.Weight)*share), c.ExcessOf(n)
		if dropped := c.Lost[sample.LostDropped]; dropped > 0 {
			o.Lose(sample.LostDropped, uint64(float64(dropped)*share))
		}
		out.Add(o)
	}
	return out
}

// period is what is spent between two samples of a set; 0 if it is not known.
func period(set *compare.Set) float64 {
	var weight, n float64
	for _, c := range set.Counts {
		p := c.MeanPeriod()
		if p == 0 {
			return 0
		}
		weight += p * float64(c.Delivered())
		n += float64(c.Delivered())
	}
	return weight / max(1, n)
}

// unitOf is the unit of what is spent.
func unitOf(sides [2]*side, ev sample.Event) string {
	for _, s := range sides {
		if slices.ContainsFunc(s.sets, func(set *compare.Set) bool { return period(set) == 0 }) {
			return "samples"
		}
	}
	if ev.Unit == "ns" {
		return "s"
	}
	return ev.Unit
}

// runs are the sets of a side as package compare takes them. Where the units of work are known of
// all sets together only, they are one run.
func (s *side) runs(unit string) ([]compare.Run, error) {
	var runs []compare.Run
	for i, set := range s.sets {
		r := compare.Run{Samples: s.tallies[i], Period: 1, Each: sample.Dispersion(set.Counts)}
		switch unit {
		case "samples":
		case "s":
			r.Period = period(set) / 1e9
		default:
			r.Period = period(set)
		}
		if s.kinds != nil {
			r.ByKind = s.kinds[i][set.Counts[0].Event.Name]
		}
		runs = append(runs, r)
	}
	runs, err := s.Units.give(s, runs)
	if err == nil {
		err = s.agree(runs)
	}
	return runs, err
}

// together is the sum of runs.
func together(runs []compare.Run) compare.Run {
	sum := compare.Run{Samples: map[compare.Thing]uint64{}, Of: len(runs)}
	var spent, n, each float64
	for _, r := range runs {
		if r.ByKind != nil && sum.ByKind == nil {
			sum.ByKind = map[string]uint64{}
		}
		for kind, k := range r.ByKind {
			sum.ByKind[kind] += k
		}
		for t, k := range r.Samples {
			sum.Samples[t] += k
			n += float64(k)
			spent += float64(k) * r.Period
			each += float64(k) * max(1, r.Each)
		}
	}
	sum.Period, sum.Each = spent/max(1, n), each/max(1, n)
	return sum
}

// other marks the name of an image that is another build than the one its procedures are given to.
const other = "\x00"

// tally adds up the samples of all sets, whose images have such names, by procedures of the newest build of each image, and
// returns those whose code is the same in all builds. one reports that there is but one build of each.
func tally(sides [2]*side, names map[sample.ImageID]string) (unchanged map[compare.Thing]bool, one bool) {
	main := mains(sides, names)
	marked := map[sample.ImageID]string{} // names that tell builds apart
	builds := map[string]sample.ImageID{} // by marked name
	several := map[string]bool{}          // names of which there are two builds
	fileless := map[string]map[sample.BuildID]bool{}
	for id, name := range names {
		if input.Fileless(id) != nil {
			if fileless[id.Path] == nil {
				fileless[id.Path] = map[sample.BuildID]bool{}
			}
			fileless[id.Path][id.Build] = true
		}
		marked[id] = name
		if id.Key() != main[name].Key() {
			marked[id] = name + other + id.Build.String() + id.Path
			several[name] = true
		}
		builds[marked[id]] = id
	}
	moves := map[string]*moved{}
	unchanged = map[compare.Thing]bool{}
	seen := map[compare.Thing]bool{} // in two builds at least, or one that there is no other of
	for _, s := range sides {
		for i, n := range s.src.Tallies(s.sets, marked, false) {
			s.tallies = append(s.tallies, map[compare.Thing]uint64{})
			for t, k := range n {
				name, _, isOther := strings.Cut(t.Image, other)
				same := t.Lost == ""
				if isOther {
					m, ok := moves[t.Image]
					if !ok {
						m = moveTo(sides, builds[t.Image], main[name])
						moves[t.Image] = m
					}
					t, same = m.to(t, name)
				} else if ids, ok := fileless[t.Image]; ok { // of the kernel, known by name; JIT code may be anything
					same = len(ids) == 1 && !ids[sample.BuildID{}]
				}
				if old, known := unchanged[t]; known {
					same = same && old
				}
				unchanged[t] = same
				seen[t] = seen[t] || isOther || !several[name]
				s.tallies[i][t] += k
			}
		}
	}
	if len(several) == 0 {
		return nil, true
	}
	for t := range unchanged {
		if !unchanged[t] || !seen[t] && !kept(moves, t) {
			delete(unchanged, t)
		}
	}
	return unchanged, false
}

// enoughProgram is the share of the samples of a side that its program has at least, to be known by that alone.
const enoughProgram = 0.1

// pairFiles has one name for the images that are the programs of the sides, where they are files of two names: those with
// the most samples of the images that only one side has.
func pairFiles(sides [2]*side, names map[sample.ImageID]string) {
	var n [2]map[string]uint64
	var all [2]uint64
	for i, s := range sides {
		n[i] = map[string]uint64{}
		for _, set := range s.sets {
			all[i] += set.Total
			for _, c := range set.Counts {
				for _, ic := range c.Images {
					if input.Fileless(ic.ID) == nil {
						n[i][names[ic.ID]] += ic.Samples()
					}
				}
			}
		}
	}
	var program [2]string
	for i := range n {
		for _, name := range slices.Sorted(maps.Keys(n[i])) {
			if _, both := n[1-i][name]; !both && (program[i] == "" || n[i][name] > n[i][program[i]]) {
				program[i] = name
			}
		}
		if program[i] == "" || float64(n[i][program[i]]) < enoughProgram*float64(all[i]) {
			return
		}
	}
	for id, name := range names {
		if name == program[0] {
			names[id] = program[1]
		}
	}
	sides[0].src.Notify().Warn("%s and %s are taken for builds of one program: they have the most samples of what only one side has", program[0], program[1])
}

// kept reports whether other builds have the same code as t, of which they have no samples.
func kept(moves map[string]*moved, t compare.Thing) bool {
	found := false
	for name, m := range moves {
		if base, _, _ := strings.Cut(name, other); base == t.Image {
			if bare := (compare.Thing{Proc: t.Proc, Nth: t.Nth}); !m.same[bare] {
				return false
			}
			found = true
		}
	}
	return found
}

// mains returns by name the build of an image that has the most samples of NEW, or, if it has none, of OLD.
func mains(sides [2]*side, names map[sample.ImageID]string) map[string]sample.ImageID {
	main := map[string]sample.ImageID{}
	for _, s := range []*side{sides[1], sides[0]} {
		n := map[sample.ImageID]uint64{}
		for _, set := range s.sets {
			for _, c := range set.Counts {
				for _, ic := range c.Images {
					n[ic.ID] += ic.Samples()
				}
			}
		}
		own := map[string]sample.ImageID{}
		for _, id := range slices.SortedFunc(maps.Keys(n), sample.ImageID.Compare) {
			if best, ok := own[names[id]]; !ok || n[id] > n[best] {
				own[names[id]] = id
			}
		}
		for name, id := range own {
			if _, ok := main[name]; !ok {
				main[name] = id
			}
		}
	}
	return main
}

// A moved pairs procedures of one build with those of another.
type moved struct {
	things map[compare.Thing]compare.Thing // of the first, under its marked name
	same   map[compare.Thing]bool          // of those of the other, whether its code is the same
}

// moveTo pairs the procedures of one build with those of another that are the same by name or by code.
func moveTo(sides [2]*side, from, to sample.ImageID) *moved {
	m := &moved{things: map[compare.Thing]compare.Thing{}, same: map[compare.Thing]bool{}}
	a, b := open(sides, from), open(sides, to)
	if a == nil || b == nil {
		return m
	}
	builds := stale.NewBuilds(a, b)
	old, new := things(a), things(b)
	for i, t := range old {
		j := builds.Partner(i)
		if j < 0 {
			continue
		}
		m.things[t] = new[j]
		blocks := builds.Blocks(i)
		m.same[new[j]] = len(blocks) > 0 && !slices.ContainsFunc(blocks, func(b stale.Match) bool { return b.Tie != stale.SameProc })
	}
	return m
}

// open returns an image as one of the sides finds it; nil if neither does.
func open(sides [2]*side, id sample.ImageID) *image.Image {
	for _, s := range sides {
		if im, err := s.src.Open(id); err == nil {
			return im
		}
	}
	return nil
}

// things are the procedures of an image by symbol, without the image's name.
func things(im *image.Image) []compare.Thing {
	var all []compare.Thing
	nth := map[string]int{}
	for _, s := range im.Symbols() {
		all = append(all, compare.Thing{Proc: s.Name, Nth: nth[s.Name]})
		nth[s.Name]++
	}
	return all
}

// to returns what t, of another build, is in the main one, and whether its code is the same.
func (m *moved) to(t compare.Thing, name string) (compare.Thing, bool) {
	t.Image = ""
	n, ok := m.things[t]
	same := ok && m.same[n]
	if !ok {
		n = t
	}
	n.Image = name
	return n, same
}

// String names a side and how much it is, for messages.
func (s *side) String() string {
	what := "recording"
	if s.stored() {
		what = "epoch"
	}
	if len(s.sets) != 1 {
		what += "s"
	}
	return fmt.Sprintf("%s has %d %s", s.Name, len(s.sets), what)
}
