package calibrate

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
	"backfeed/sample/collect"
	"backfeed/sample/probe"
	"backfeed/sample/trace"
)

// Walks go through up to mostWalked instructions, of all images. Each takes some 50 bytes of the
// kernel's memory. If there are more than fewWalked, they are of code that ran; what it
// calls may be added later.
const mostWalked, fewWalked = 1_500_000, 1_000_000

// Of code that others call, walks know calledLeast instructions, or as many as there is time for: that of decodeCost each, to
// decode and to put together, in a twentieth of what there is room for. What it lacks, the next choice adds, once walks went there.
const (
	calledLeast = 30_000
	calledPart  = 0.05
	decodeCost  = 700 * time.Nanosecond
)

// missedShare is the part of samples and walks that has to miss code for walks to be given other
// code.
const missedShare = 0.05

// walksShare is the part of the time of a calibration that is for walks; windows have the rest.
const walksShare = 0.6

// windowsShare is that of windows. From enoughWalks on, they and walks change places: with twice as many walks, block overlap is no better, as
// what lacks is how fast one procedure is beside another.
const windowsShare, enoughWalks = 1 - walksShare, 1500

// forWalks is the share of the processor time for walks, forWindows that for windows.
func (opt *Options) forWalks() float64   { return walksShare * opt.Budget }
func (opt *Options) forWindows() float64 { return windowsShare * opt.Budget }

// longShare is the part of the time for walks that is for long ones, where there are both. A walk of the kernel takes a tenth of the
// time of a long one, and tells a fifth as much of how often code runs; what memory and indirect branches do, and how fast loops
// are, long ones tell. Of eight recordings of five programs at 3 %, the mean block overlap is 0.867 with a third to a half, 0.864
// without long walks: they differ by less than recordings do.
const longShare = 1. / 3

// parts says who is to have what is left of the budget: each of those that has something to do.
func (k *Calibrator) parts() (parts rates) {
	if k.inKernel.Load() {
		parts.walks = walksShare
	}
	if k.long != nil && k.long.ready.Load() {
		parts.long = walksShare * longShare
		parts.walks *= 1 - longShare
	}
	if k.probing.Load() {
		parts.windows = windowsShare
		if k.kernelWalks().Walks >= enoughWalks {
			parts.walks, parts.long, parts.windows = parts.walks*windowsShare/walksShare, parts.long*windowsShare/walksShare, walksShare
		}
	}
	return parts
}

// mayWalk reports whether there is room for walks in the kernel, which take the most where they begin.
func (k *Calibrator) mayWalk() bool {
	return k.walker != nil && !k.walkless.Load() && (k.inKernel.Load() || k.budget.mayWalk(walkerCost+k.sofar()))
}

// sofar is what the choice took until now.
func (k *Calibrator) sofar() time.Duration { return collect.ProcessorTime() - k.before }

// mayProbe reports whether there is room for a prober, and to find what it is to arm.
func (k *Calibrator) mayProbe() bool {
	return k.wantsProber() && k.budget.mayOnce(k.toProbe()+k.sofar())
}

// toProbe is what that takes.
func (k *Calibrator) toProbe() time.Duration { return proberCost + k.toWant() + k.toGraph() }

// toWant is what it takes to find the places that walks want to be counted.
func (k *Calibrator) toWant() time.Duration {
	return time.Duration(trace.Wanting(int(k.kernelWalks().Walks))) * wantCost
}

// wantsProber reports whether one is missing. Walks come first, which say what to probe.
func (k *Calibrator) wantsProber() bool {
	return !k.refused.Load() && k.prober.Load() == nil && (k.walkless.Load() || k.kernelWalks().Walks >= manyWalks)
}

// aim is what is saved for: what there is no room for yet, and is done once.
func (k *Calibrator) aim() time.Duration {
	switch {
	case !k.walkless.Load() && !k.inKernel.Load():
		return walkerCost
	case k.wantsProber():
		return k.toProbe()
	}
	return 0
}

// walk has walks go through the code of the images that were sampled, most sampled first, unless they
// do already. Without walks, probes tell where branches go too.
func (k *Calibrator) walk() {
	if k.noWalks != nil && k.long == nil {
		return
	}
	k.walks(k.setWalks())
}

// walks takes in why there are no walks in the kernel: nil if there are, or will be.
func (k *Calibrator) walks(none error) {
	k.noWalks = none
	k.walkless.Store(k.walker == nil || k.noWalks != nil)
	if u := (*collect.Unavailable)(nil); errors.As(k.noWalks, &u) {
		k.opt.Notify.Warn("--calibrate: no walks: %s", u.Reason())
	} else if k.noWalks != nil {
		k.opt.Notify.Warn("--calibrate: no walks: %v", k.noWalks)
	} else {
		k.run.RunsOnly()
	}
}

func (k *Calibrator) setWalks() error {
	before := collect.ProcessorTime()
	left, walks := k.left()
	code := make([]*walkedCode, len(k.sampled))
	for i, s := range k.sampled {
		code[i] = newWalkedCode(s, left, k.decoded[s.id.Key()])
	}
	begins := k.mayWalk() && !k.inKernel.Load()
	if !k.missed(code, walks) && !begins {
		if k.inKernel.Load() { // what they leave for cannot be added
			k.outside.Store(new(k.wentOutside()))
		}
		return nil
	}
	known := 0 // what is decoded costs little
	for _, procs := range k.decoded {
		for _, d := range procs {
			known += len(d.insts)
		}
	}
	clear(k.walked)
	room := mostWalked
	for part := range parts {
		for _, w := range code {
			room -= w.take(part, room)
		}
		room = min(room, fewWalked-(mostWalked-room))
		if part == decoded {
			room = min(room, max(0, max(calledLeast, int(calledPart*k.budget.once().Seconds()/decodeCost.Seconds()))-known))
		}
	}
	var all []trace.Image
	for _, w := range code {
		id := w.id.Key()
		k.walked[id] = w.in
		k.decoded[id] = w.decoded
		if w.many > 0 {
			all = append(all, trace.Image{ID: w.id, File: k.images[id].file.Name(), ARM: w.image.Arch == image.AArch64, Procs: w.parts})
		}
	}
	k.code = &walksCode{trace.NewCode(all), all}
	k.waits = true
	k.long.setCode(k.code)
	k.budget.extends(collect.ProcessorTime() - before)
	if !k.mayWalk() {
		return nil
	}
	return k.setWaiting(begins)
}

// walksCode is what walks go through.
type walksCode struct {
	table  *trace.Code
	images []trace.Image
}

// setWaiting has walks in the kernel go through the code that waits for them, and begins them if they have not begun.
func (k *Calibrator) setWaiting(begins bool) error {
	before := collect.ProcessorTime()
	err := k.walker.SetCode(k.code.table, k.code.images)
	if begins {
		k.once += collect.ProcessorTime() - before
	}
	k.waits = false
	k.inKernel.Store(err == nil)
	k.outside.Store(new(k.wentOutside()))
	return err
}

// wentOutside returns how many walks of the kernel there were, and how many of them left the code that they knew.
func (k *Calibrator) wentOutside() [2]uint64 {
	t := k.kernelWalks()
	return [2]uint64{t.Walks, t.Ends[trace.EndOutside] + t.Ends[trace.EndStart]}
}

// Walks are given what code they lack if that ended muchOutside of them or more, of someWalks or more.
const muchOutside, someWalks = 0.1, 50

// leaveMuch reports whether walks of the kernel lack code.
func (k *Calibrator) leaveMuch() bool {
	before := k.outside.Load()
	if before == nil {
		return false
	}
	now := k.wentOutside()
	walks, out := now[0]-before[0], now[1]-before[1]
	return walks >= someWalks && float64(out) >= muchOutside*float64(walks)
}

// lacksCode reports whether walks lack code, and there is room to add it.
func (k *Calibrator) lacksCode() bool { return k.budget.mayExtend() && k.leaveMuch() }

// needless reports whether another choice would change nothing: walks know the code that runs, and there is neither a prober to
// tell what to arm, nor room for one.
func (k *Calibrator) needless() bool {
	return k.inKernel.Load() && k.prober.Load() == nil && !k.leaveMuch() && !(k.wantsProber() && k.budget.mayOnce(k.toProbe()))
}

// keeps reports whether something is to be kept for another choice. Where the length is known, code that walks lack needs nothing kept: what
// there is room for until the end pays for it, when it is added.
func (k *Calibrator) keeps() bool {
	if k.opt.Length > 0 && k.inKernel.Load() && k.prober.Load() == nil {
		return k.wantsProber() && k.budget.mayOnce(k.toProbe())
	}
	return !k.needless()
}

// mayBeginWalks reports whether walks in the kernel may begin, through the code that the last choice put together: there is room for
// them, and may be none for another choice.
func (k *Calibrator) mayBeginWalks() bool {
	return k.walker != nil && k.waits && k.aim() == walkerCost && k.budget.mayBegin() && k.budget.mayWalk(walkerCost)
}

// beginWalks begins them.
func (k *Calibrator) beginWalks() error {
	k.once = 0
	took := k.timed(func() { k.walks(k.setWaiting(true)) })
	k.budget.began(took, k.once)
	return nil
}

// extend adds what code walks lack.
func (k *Calibrator) extend() error {
	k.budget.extended(k.timed(k.walk))
	return nil
}

// left returns how many walks, of so many, left the code that they know, by where they went on to. As many
// long ones are taken to be as there are others: they are few, and each sees more.
func (k *Calibrator) left() (left map[trace.Left]int, walks int) {
	if k.walker != nil {
		left, walks = k.walker.Left()
	}
	long, n := k.long.left(k)
	if n == 0 {
		return left, walks
	}
	if left == nil {
		left = map[trace.Left]int{}
	}
	each := max(1, walks/n)
	for at, times := range long {
		left[at] += each * times
	}
	return left, walks + each*n
}

// kernelWalks returns what walks of the kernel did.
func (k *Calibrator) kernelWalks() (t collect.WalkTotals) {
	if k.walker != nil {
		t = k.walker.Totals()
	}
	return t
}

// missed reports whether walks ought to be given other code, after so many of them: they have none, or
// too much ran that they do not know.
func (k *Calibrator) missed(code []*walkedCode, walks int) bool {
	if len(k.walked) == 0 {
		return true
	}
	var samples, out, left float64
	for _, w := range code {
		in := k.walked[w.id.Key()]
		for i, n := range w.procs {
			if samples += float64(n); !in[i] {
				out += float64(n)
			}
		}
		for i, n := range w.left {
			if !in[i] {
				left += n
			}
		}
	}
	return out/max(samples, 1)+left/float64(max(walks, 1)) > missedShare
}

// A walkedCode is the part of an image that walks go through.
type walkedCode struct {
	*sampledImage
	left  map[int]float64 // walks that left what they knew, by the symbol where they went on to
	in    map[int]bool    // symbols
	parts [][]trace.Inst  // their code
	many  int             // instructions of that

	before, decoded map[int]*walkedProc // by symbol: as of the choice before, of this one

	seen []bool // by symbol
	next [parts][]int
}

// A walkedProc is a procedure as walks take it.
type walkedProc struct {
	insts []trace.Inst
	calls []int // symbols
}

// A walkedPart is some of the procedures of an image.
type walkedPart int

const (
	ran     walkedPart = iota // where samples are, or walks went or would have gone
	decoded                   // what walks went through before
	called                    // what others call
	parts
)

func newWalkedCode(s *sampledImage, left map[trace.Left]int, before map[int]*walkedProc) *walkedCode {
	w := &walkedCode{sampledImage: s, before: before, left: map[int]float64{}, decoded: map[int]*walkedProc{}, in: map[int]bool{}, seen: make([]bool, len(s.image.Symbols()))}
	weight := map[int]float64{}
	for at, n := range left {
		if i := s.image.Find(image.Addr(at.Addr)); at.ID == s.id.Key() && i >= 0 {
			w.left[i] += float64(n)
			weight[i] += float64(n)
		}
	}
	for i, n := range s.procs {
		weight[i] += float64(n)
	}
	for i := range weight {
		w.want(ran, i)
	}
	for _, i := range slices.Sorted(maps.Keys(before)) {
		w.want(decoded, i)
	}
	slices.SortFunc(w.next[ran], func(a, b int) int { return cmp.Or(cmp.Compare(weight[b], weight[a]), cmp.Compare(a, b)) })
	return w
}

// want has symbol i taken with a part, if it was in none.
func (w *walkedCode) want(part walkedPart, i int) {
	if i >= 0 && !w.seen[i] {
		w.seen[i] = true
		w.next[part] = append(w.next[part], i)
	}
}

// take adds a part, as far as there is room for so many operations, and returns how many they are.
func (w *walkedCode) take(part walkedPart, room int) int {
	before := w.many
	for len(w.next[part]) > 0 && w.many-before < room {
		i := w.next[part][0]
		w.next[part] = w.next[part][1:]
		w.add(i)
	}
	return w.many - before
}

// add adds the code of symbol i.
func (w *walkedCode) add(i int) {
	w.in[i] = true
	d := w.before[i]
	if d == nil {
		insts, to, err := w.image.WalkSymbol(i)
		if err != nil {
			return
		}
		d = &walkedProc{insts: insts}
		for _, a := range to {
			d.calls = append(d.calls, w.image.Find(a))
		}
	}
	w.decoded[i] = d
	for _, to := range d.calls {
		w.want(called, to)
	}
	w.parts = append(w.parts, d.insts)
	w.many += len(d.insts)
}

// tellWalks says what walks did.
func (k *Calibrator) tellWalks() {
	k.long.tell(k)
	t := k.kernelWalks()
	if t.Walks == 0 {
		return
	}
	k.opt.Notify.Warn("%d walks of %.0f instructions took %v; %.0f%% went on to their full length",
		t.Walks, float64(t.Steps)/float64(t.Walks), t.Time.Round(time.Millisecond), 100*float64(t.Ends[trace.EndLength])/float64(t.Walks))
	if t.Lost > 0 {
		k.opt.Notify.Warn("%d of the walks (%s) were lost, as buffers were full: the others are as good", t.Lost, report.Share(t.Lost, t.Walks))
	}
}

// mostWantedRate is how often all sites of a group may run that walks want, per second while the
// code around one of them runs, and wantedSites how many they are at most: more make windows
// shorter, and each then tells of one phase. With 1.2e6 and 36, in a minute at 3 %, windows of 0.3 ms
// told the rates of a Go program to a half at best.
const mostWantedRate, wantedSites = 3e5, 16

// wantedByWalks returns up to most groups of the sites whose rates tell most beside walks.
func (k *Calibrator) wantedByWalks(p *infer.Profile, most int) (groups []*chosen) {
	sites := newSiteFinder(p)
	able := func(id sample.ImageID, off sample.Offset) bool {
		_, ok := sites.find(id, off)
		return ok && !k.dense[siteKey{id, off}]
	}
	k.gather()
	for _, w := range k.seen.Want(k.run.Rates(nil), trace.WantOptions{Able: able, Groups: most, Sites: wantedSites, Rate: mostWantedRate}) {
		g := &chosen{Group: probe.Group{Alone: true, Gain: 1}, own: map[image.Addr]float64{}}
		for _, at := range w.Sites {
			s, _ := sites.find(w.ID.Key(), at.Off)
			s.Rate = at.Rate
			k.add(g, s)
		}
		if len(g.Sites) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// A siteFinder finds the sites of a profile by where they are.
type siteFinder struct {
	images map[sample.ImageID]*infer.ImageProfile   // by key
	procs  map[sample.ImageID]map[int]*infer.Result // by key and symbol; those whose sites are not in sites yet
	sites  map[siteKey]infer.Site
}

func newSiteFinder(p *infer.Profile) *siteFinder {
	f := &siteFinder{map[sample.ImageID]*infer.ImageProfile{}, map[sample.ImageID]map[int]*infer.Result{}, map[siteKey]infer.Site{}}
	for _, ip := range p.Images {
		id := ip.ID.Key()
		f.images[id], f.procs[id] = ip, map[int]*infer.Result{}
		for _, r := range ip.Procs {
			f.procs[id][r.Proc.Index] = r
		}
	}
	return f
}

// find returns the site at an offset of the image with that key.
func (f *siteFinder) find(id sample.ImageID, off sample.Offset) (s infer.Site, ok bool) {
	ip := f.images[id]
	if ip == nil {
		return s, false
	}
	a, ok := ip.Image.AddrOf(off)
	if !ok {
		return s, false
	}
	if i := ip.Image.Find(a); f.procs[id][i] != nil {
		r := f.procs[id][i]
		delete(f.procs[id], i)
		for b, all := range ip.Image.ProbeSites(r.Proc) {
			for _, s := range all {
				f.sites[siteKey{id, s.Off}] = infer.Site{Image: ip, Proc: r, Block: b, ProbeSite: s, Runs: true}
			}
		}
	}
	s, ok = f.sites[siteKey{id, off}]
	return s, ok
}

// AddTo adds what probes and walks counted to the counts of time in rec, if it has some.
func (k *Calibrator) AddTo(rec *sample.Recording) {
	k.addTo(rec, k.seen.AddTo)
	if c := Timed(rec); c != nil {
		k.long.addTo(c)
	}
}

// addTo adds what windows counted, and of walks what a choice goes by, or all of it.
func (k *Calibrator) addTo(rec *sample.Recording, walks func(c *sample.Counts, rates []trace.Rate)) {
	if c := Timed(rec); c != nil {
		k.run.AddTo(c)
		k.gather()
		walks(c, k.run.Rates(c))
	}
}

// gather takes in what walks of the kernel saw.
func (k *Calibrator) gather() {
	if k.walker != nil {
		k.walker.Gather()
	}
}

// Forget begins anew, when what AddTo added is stored.
func (k *Calibrator) Forget() {
	k.run.Forget()
	k.seen.Forget()
	k.long.forget()
}
