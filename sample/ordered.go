package sample

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
)

// ordered are Counts in the order of their stored form: images by ID, and what is by place, branch or range as
// lists that are sorted by it, where Counts have maps. Decode reads them and Encode writes them; two are added
// in one pass over both, with no look-up of a place.
type ordered struct {
	head     Counts   // all but what follows: its maps by place, branch and range are not used
	byImage  []places // of head.Images
	branches []entry[Branch, BranchCount]
	ranges   []entry[Range, uint64]
	targets  []entry[Branch, uint64]
}

// places are what is known of the places of one image, each list by increasing offset.
type places struct {
	at, first, counted, faults []entry[Offset, uint64]
	probed                     []entry[Offset, Probed]
	replayed                   []entry[Offset, Replayed]
	when                       []entry[Offset, []Moment]
}

// An entry is what a map has of one key.
type entry[K comparable, V any] struct {
	key K
	of  V
}

// sorted returns what a map has in the order of its keys.
func sorted[K comparable, V any](m map[K]V, compare func(a, b K) int) []entry[K, V] {
	if len(m) == 0 {
		return nil
	}
	all := make([]entry[K, V], 0, len(m))
	for k, v := range m {
		all = append(all, entry[K, V]{k, v})
	}
	slices.SortFunc(all, func(a, b entry[K, V]) int { return compare(a.key, b.key) })
	return all
}

// mapOf returns entries as a map; nil if there are none.
func mapOf[K comparable, V any](all []entry[K, V]) map[K]V {
	if len(all) == 0 {
		return nil
	}
	m := make(map[K]V, len(all))
	for _, e := range all {
		m[e.key] = e.of
	}
	return m
}

// each goes through entries.
func each[K comparable, V any](all []entry[K, V]) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, e := range all {
			if !yield(e.key, e.of) {
				return
			}
		}
	}
}

// inOrder returns c, which is as Merge makes it, in order. They share what is no map of places, branches or ranges.
func inOrder(c *Counts) *ordered {
	o := &ordered{head: *c}
	o.head.Images, o.head.Branches, o.head.Ranges, o.head.Targets = nil, map[Branch]BranchCount{}, map[Range]uint64{}, nil
	for _, ic := range c.Images {
		o.head.Images = append(o.head.Images, &ImageCounts{ID: ic.ID, Processes: ic.Processes})
		o.byImage = append(o.byImage, places{
			at:       sorted(ic.At, cmp.Compare),
			first:    sorted(ic.First, cmp.Compare),
			counted:  sorted(ic.Counted, cmp.Compare),
			faults:   sorted(ic.Faults, cmp.Compare),
			probed:   sorted(ic.Probed, cmp.Compare),
			replayed: sorted(ic.Replayed, cmp.Compare),
			when:     sorted(ic.When, cmp.Compare),
		})
	}
	o.branches = sorted(c.Branches, compareBranches)
	o.ranges = sorted(c.Ranges, compareRanges)
	o.targets = sorted(c.Targets, compareBranches)
	return o
}

// counts returns o as others know it. It takes over what o has.
func (o *ordered) counts() *Counts {
	c := &o.head
	for i, p := range o.byImage {
		ic := c.Images[i]
		if ic.At = mapOf(p.at); ic.At == nil {
			ic.At = map[Offset]uint64{}
		}
		ic.First, ic.Counted, ic.Faults = mapOf(p.first), mapOf(p.counted), mapOf(p.faults)
		ic.Probed, ic.Replayed, ic.When = mapOf(p.probed), mapOf(p.replayed), mapOf(p.when)
	}
	if len(o.branches) > 0 {
		c.Branches = mapOf(o.branches)
	}
	if len(o.ranges) > 0 {
		c.Ranges = mapOf(o.ranges)
	}
	c.Targets = mapOf(o.targets)
	return c
}

// size is how much there is to go through as o is added to something.
func (o *ordered) size() int {
	n := len(o.byImage) + len(o.head.Stacks) + len(o.branches) + len(o.ranges) + len(o.head.Paths) + len(o.targets)
	for _, p := range o.byImage {
		n += len(p.at) + len(p.first) + len(p.counted) + len(p.faults) + len(p.probed) + len(p.replayed) + len(p.when)
	}
	return n
}

// delivered is Delivered of what is in order.
func (o *ordered) delivered() (n uint64) {
	for _, p := range o.byImage {
		for _, e := range p.at {
			n = addSamples(n, e.of)
		}
	}
	return addSamples(n, o.head.lostDelivered())
}

// anyDelivered is whether delivered is more than 0.
func (o *ordered) anyDelivered() bool {
	return slices.ContainsFunc(o.byImage, func(p places) bool { return len(p.at) > 0 }) || o.head.lostDelivered() > 0
}

// merge adds b, of the same processor and event, to o. It takes over what b has.
func (o *ordered) merge(b *ordered) {
	step := o.head.Step
	theirs := o.head.mergeWhole(&b.head, o.anyDelivered(), b.anyDelivered())
	mine := o.head.Step - step
	total := addSamples(o.head.Total, b.head.Total)
	for why, n := range b.head.Lost {
		o.head.Lose(why, n)
	}
	o.head.Total = total

	o.mergeImages(b)
	for i := range b.byImage {
		to, from := &o.byImage[i], &b.byImage[i]
		if mine > 0 {
			longerSlices(to.when, mine)
		}
		if theirs > 0 {
			longerSlices(from.when, theirs)
		}
		to.merge(from)
	}
	if theirs > 0 {
		for i := range b.head.Stacks {
			b.head.Stacks[i].When = longer(b.head.Stacks[i].When, theirs)
		}
	}
	o.head.Stacks = mergeSorted(o.head.Stacks, b.head.Stacks, (*Stack).compare, (*Stack).add, ownFrames)
	o.branches = mergeEntries(o.branches, b.branches, compareBranches, BranchCount.plus)
	o.ranges = mergeEntries(o.ranges, b.ranges, compareRanges, addSamples)
	o.head.addPaths(b.head.Paths)
	o.targets = mergeEntries(o.targets, b.targets, compareBranches, add)
}

// longerSlices makes the slices of moments 2^by times as long.
func longerSlices(when []entry[Offset, []Moment], by uint8) {
	for i := range when {
		when[i].of = longer(when[i].of, by)
	}
}

func (p *places) merge(b *places) {
	p.at = mergeEntries(p.at, b.at, cmp.Compare, addSamples)
	p.first = mergeEntries(p.first, b.first, cmp.Compare, func(a, b uint64) uint64 { return min(a, b) })
	p.counted = mergeEntries(p.counted, b.counted, cmp.Compare, add)
	p.faults = mergeEntries(p.faults, b.faults, cmp.Compare, add)
	p.probed = mergeEntries(p.probed, b.probed, cmp.Compare, Probed.plus)
	p.replayed = mergeEntries(p.replayed, b.replayed, cmp.Compare, Replayed.Plus)
	p.when = mergeEntries(p.when, b.when, cmp.Compare, addMoments)
}

// mergeImages adds the images of each to the other. Numbers change, but never their order: images are sorted by what they are
// told apart by, which paths of those with a build ID are not.
func (o *ordered) mergeImages(b *ordered) {
	all := mergeSorted(slices.Clone(o.head.Images), slices.Clone(b.head.Images), func(a, b **ImageCounts) int { return (*a).ID.Key().Compare((*b).ID.Key()) },
		func(a, b **ImageCounts) {
			sum := ImageCounts{ID: (*a).ID, Processes: add((*a).Processes, (*b).Processes)}
			if path := (*b).ID.Path; sum.ID.Path == "" || path != "" && path < sum.ID.Path {
				sum.ID.Path = path
			}
			*a = &sum
		}, nil)
	o.renumber(all)
	b.renumber(all)
}

// renumber makes images those of o, which are some of them in the same order.
func (o *ordered) renumber(images []*ImageCounts) {
	index := make([]int, 0, len(o.head.Images))
	all, same := make([]places, len(images)), len(o.head.Images) == len(images)
	for i, ic := range images {
		if n := len(index); n < len(o.head.Images) && o.head.Images[n].ID.Key() == ic.ID.Key() {
			all[i] = o.byImage[n]
			index = append(index, i)
		}
	}
	o.head.Images, o.byImage = images, all
	o.head.images = nil
	if same {
		return
	}
	number := func(f *Frame) {
		if f.Image != Unknown {
			f.Image = index[f.Image]
		}
	}
	for i := range o.head.Stacks {
		s := &o.head.Stacks[i]
		for k := range s.Frames {
			number(&s.Frames[k])
		}
		number(&s.Top)
	}
	for i := range o.branches {
		number(&o.branches[i].key.From)
		number(&o.branches[i].key.To)
	}
	for i := range o.ranges {
		o.ranges[i].key.Image = index[o.ranges[i].key.Image]
	}
	for _, p := range o.head.Paths {
		for k := range p.Branches {
			number(&p.Branches[k].From)
			number(&p.Branches[k].To)
		}
	}
	for i := range o.targets {
		number(&o.targets[i].key.From)
		number(&o.targets[i].key.To)
	}
}

// mergeSorted returns the elements of two sorted lists, sorted; those that both have are added. Of several hosts most elements are
// of that kind. It writes over both lists. own, unless nil, is told of those that only b has, before they are kept.
func mergeSorted[E any](a, b []E, compare func(a, b *E) int, plus func(a, b *E), own func(fresh []E)) []E {
	i, fresh := 0, b[:0]
	for k := range b {
		order := 1
		for i < len(a) {
			if order = compare(&a[i], &b[k]); order >= 0 {
				break
			}
			i++
		}
		if i < len(a) && order == 0 {
			plus(&a[i], &b[k])
			i++
		} else {
			fresh = append(fresh, b[k])
		}
	}
	if len(fresh) == 0 {
		return a
	}
	if own != nil {
		own(fresh)
	}
	i = len(a)
	a = append(a, fresh...)
	for end := len(a); len(fresh) > 0; end-- { // from the end, where there is room
		last := len(fresh) - 1
		if i > 0 && compare(&a[i-1], &fresh[last]) > 0 {
			i--
			a[end-1] = a[i]
		} else {
			a[end-1] = fresh[last]
			fresh = fresh[:last]
		}
	}
	return a
}

func mergeEntries[K comparable, V any](a, b []entry[K, V], compare func(a, b K) int, plus func(a, b V) V) []entry[K, V] {
	return mergeSorted(a, b, func(a, b *entry[K, V]) int { return compare(a.key, b.key) },
		func(a, b *entry[K, V]) { a.of = plus(a.of, b.of) }, nil)
}

// add adds samples of the same stack.
func (s *Stack) add(o *Stack) {
	s.N, s.When = addSamples(s.N, o.N), addMoments(s.When, o.When)
}

// ownFrames copies the frames of stacks: they would hold those of all stacks that were decoded with them.
func ownFrames(stacks []Stack) {
	n := 0
	for i := range stacks {
		n += len(stacks[i].Frames)
	}
	all := make([]Frame, 0, n)
	for i := range stacks {
		start := len(all)
		all = append(all, stacks[i].Frames...)
		stacks[i].Frames = all[start:len(all):len(all)]
	}
}

// addMoments returns a, to which it may write, with b.
func addMoments(a, b []Moment) []Moment {
	for _, m := range b {
		a = addMoment(a, m.Slice, m.N)
	}
	return a
}

// A Sum adds recordings up that come one after the other, in their stored form or not. It holds them in the order of that form, and
// takes little more memory than the sum does. The zero value is the sum of none.
type Sum struct {
	counts, off []*runs
	of          Recording // the runs of recorders
}

// runs are Counts of one processor and event, in parts of which each is more than twice as large as the one after it, so that
// none is gone through for each of many that are small beside it.
type runs struct{ parts []*ordered }

// Decode adds a recording in its stored form, and reports whether that is Empty. After an error, which is that of the function
// Decode, the sum is as before.
func (s *Sum) Decode(b []byte) (empty bool, err error) {
	r, err := newDecoder(b).recording()
	if err != nil {
		return false, err
	}
	empty = len(r.off) == 0 && !slices.ContainsFunc(r.counts, func(o *ordered) bool {
		return o.head.Total > 0 || slices.ContainsFunc(o.byImage, func(p places) bool { return len(p.counted)+len(p.probed) > 0 })
	})
	s.add(r)
	return empty, nil
}

// Add adds r, whose Counts pass Check. It takes over what r has.
func (s *Sum) Add(r *Recording) {
	if !r.isMerged() {
		r = Merge(r)
	}
	s.add(r.inOrder())
}

// isMerged reports whether r is in the order in which Merge returns recordings.
func (r *Recording) isMerged() bool {
	for _, all := range [][]*Counts{r.Counts, r.Off} {
		for i, c := range all {
			if i > 0 && compareCounts(all[i-1], c) >= 0 || !slices.IsSortedFunc(c.Stacks, compareStacks) || !slices.IsSortedFunc(c.Paths, c.comparePaths) {
				return false
			}
			for k := 1; k < len(c.Images); k++ {
				if c.Images[k-1].ID.Key().Compare(c.Images[k].ID.Key()) >= 0 {
					return false
				}
			}
		}
	}
	return slices.IsSortedFunc(r.Runs, func(a, b Run) int { return a.compare(&b) })
}

func (s *Sum) add(r *stored) {
	for _, o := range r.counts {
		addRun(&s.counts, o)
	}
	for _, o := range r.off {
		addRun(&s.off, o)
	}
	s.of.addRuns(r.Runs, r.Unlisted)
}

func addRun(all *[]*runs, o *ordered) {
	i, ok := slices.BinarySearchFunc(*all, o, func(r *runs, o *ordered) int { return compareCounts(&r.parts[0].head, &o.head) })
	if !ok {
		*all = slices.Insert(*all, i, &runs{})
	}
	r := (*all)[i]
	r.parts = append(r.parts, o)
	for n := len(r.parts); n > 1 && r.parts[n-2].size() <= 2*r.parts[n-1].size(); n-- {
		r.mergeLast()
	}
}

// mergeLast makes the last two parts one.
func (r *runs) mergeLast() {
	n := len(r.parts)
	r.parts[n-2].merge(r.parts[n-1])
	r.parts[n-1] = nil
	r.parts = r.parts[:n-1]
}

// Recording returns the sum, as Merge would, which begins anew.
func (s *Sum) Recording() *Recording {
	all := s.stored()
	*s = Sum{}
	return all.recording()
}

// Encode returns the stored form of the sum, which stays as it is. It takes a fraction of the memory of Recording and its Encode: there
// are no maps of places.
func (s *Sum) Encode() []byte { return s.stored().encode() }

// stored returns the sum, which keeps it.
func (s *Sum) stored() *stored {
	one := func(all []*runs) (sums []*ordered) {
		for _, r := range all {
			for len(r.parts) > 1 {
				r.mergeLast()
			}
			sums = append(sums, r.parts[0])
		}
		return sums
	}
	return &stored{one(s.counts), one(s.off), s.of}
}

// Samples is Samples of the sum.
func (s *Sum) Samples() uint64 { return s.heads().Samples() }

// Lost is Lost of the sum.
func (s *Sum) Lost() map[Loss]uint64 { return s.heads().Lost() }

// heads returns the sum without its places.
func (s *Sum) heads() *Recording {
	r := &Recording{}
	for _, o := range s.stored().counts {
		r.Counts = append(r.Counts, &o.head)
	}
	return r
}

// ByImage is ByImage of the sum.
func (s *Sum) ByImage() map[ImageID]uint64 {
	n := map[ImageID]uint64{}
	for _, o := range s.stored().counts {
		for i, p := range o.byImage {
			id := o.head.Images[i].ID
			n[id] += 0 // of no samples, it is listed
			for _, e := range p.at {
				n[id] = addSamples(n[id], e.of)
			}
		}
	}
	return n
}

// Observed is Observed of the sum.
func (s *Sum) Observed(want func(ImageID) bool) ObservedPlaces {
	all := observed{}
	for _, o := range s.stored().counts {
		for i, p := range o.byImage {
			if id := o.head.Images[i].ID; want == nil || want(id) {
				all.add(id, each(p.probed), each(p.counted))
			}
		}
	}
	return all.places()
}

// inOrder returns r, which isMerged, as it is stored. It shares with r as inOrder of Counts does.
func (r *Recording) inOrder() *stored {
	s := &stored{Recording: Recording{Runs: r.Runs, Unlisted: r.Unlisted}}
	for _, c := range r.Counts {
		s.counts = append(s.counts, inOrder(c))
	}
	for _, c := range r.Off {
		s.off = append(s.off, inOrder(c))
	}
	return s
}

// recording returns s as others know it. It takes over what s has.
func (s *stored) recording() *Recording {
	r := &s.Recording
	for _, o := range s.counts {
		r.Counts = append(r.Counts, o.counts())
	}
	for _, o := range s.off {
		r.Off = append(r.Off, o.counts())
	}
	return r
}

// check is Check of Counts that were read in order: what their encoding holds to is not looked at again.
func (o *ordered) check() error {
	c := &o.head
	for _, check := range []func() error{func() error { return c.checkTotal(o.delivered()) }, c.checkClock, o.checkPlaces, o.checkStacks,
		o.checkBranches, c.checkPaths, c.checkSplit, o.checkSlices} {
		if err := check(); err != nil {
			return fmt.Errorf("%s: %w", c.Event.Name, err)
		}
	}
	return nil
}

// checkOff is check for time off the processor.
func (o *ordered) checkOff() error {
	if err := o.head.checkOffEvent(o.delivered(), len(o.branches)+len(o.ranges)+len(o.head.Paths)+len(o.targets)); err != nil {
		return err
	}
	return o.check()
}

func (o *ordered) checkPlaces() error {
	for i, p := range o.byImage {
		for _, e := range p.probed {
			if err := checkPlace(o.head.Images[i], e.key, e.of); err != nil {
				return err
			}
		}
		for _, e := range p.replayed {
			if err := checkPlace(o.head.Images[i], e.key, e.of); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *ordered) checkStacks() error {
	var c cursor
	return o.head.checkSorted(o.head.Stacks, func(f Frame) uint64 {
		if f.Image != c.image {
			c = cursor{image: f.Image}
		}
		return c.samples(o.byImage[f.Image].at, f.Off)
	})
}

// A cursor goes through the samples of an image by increasing offset.
type cursor struct{ image, next int }

// samples returns those at a place no earlier than the one before.
func (c *cursor) samples(at []entry[Offset, uint64], off Offset) uint64 {
	for c.next < len(at) && at[c.next].key < off {
		c.next++
	}
	if c.next < len(at) && at[c.next].key == off {
		return at[c.next].of
	}
	return 0
}

func (o *ordered) checkBranches() error {
	for _, e := range o.branches {
		if err := e.of.check(e.key); err != nil {
			return err
		}
	}
	for _, e := range o.ranges {
		if err := o.head.checkRange(e.key, e.of); err != nil {
			return err
		}
	}
	return nil
}

func (o *ordered) checkSlices() error {
	if err := o.head.checkSliceLosses(); err != nil {
		return err
	}
	for i, p := range o.byImage {
		var c cursor
		for _, e := range p.when {
			if err := o.head.checkWhen(o.head.Images[i], e.key, e.of, c.samples(p.at, e.key)); err != nil {
				return err
			}
		}
	}
	return cmp.Or(o.head.checkStackMoments(), o.head.checkUsed(o.eachMoment))
}

func (o *ordered) eachMoment(f func(Moment)) {
	for _, p := range o.byImage {
		for _, e := range p.when {
			for _, m := range e.of {
				f(m)
			}
		}
	}
	o.head.eachMoment(f) // those of stacks
}
