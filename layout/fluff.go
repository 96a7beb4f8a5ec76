package layout

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"backfeed/infer"
	"backfeed/infer/image"
)

// Fluff is the code of an image that is cold by evidence ("fluff" is what Pettis and
// Hansen, PLDI 1990, called it). Code that merely has no sample is not: samples are
// few, and what ran for less than the time between two of them mostly has none.
//
// All of the text is in exactly one of Hot, Executed, Cold, Unknown and Other.
type Fluff struct {
	Samples   uint64  // of the image
	Total     uint64  // of the whole recording
	ColdBelow float64 // executions that cold code has less of, with 95 % confidence

	Text     uint64 // bytes of all procedures; stubs for the dynamic linker are not among them
	Hot      uint64 // bytes of the blocks that make up 99.9 % of the executed instructions
	Executed uint64 // bytes of other blocks that ran, by samples or by sure counts
	Cold     uint64 // bytes that are cold by evidence: what could be moved away
	Unknown  uint64 // bytes that may have run: there is no evidence for or against
	Other    uint64 // bytes in procedures that ran, but in no block: padding, tables

	Unreferenced uint64 // bytes of Cold that nothing was found to refer to: what could be removed, if the scan saw all
	HotLines     int    // cache lines with hot code
	HotPages     int    // 4 KB pages with hot code
	OnHotLines   uint64 // bytes of Cold there
	OnHotPages   uint64

	Procs       int     // procedures in all
	Entered     int     // of them, those that ran
	UnseenShare float64 // of the time in the image, what the procedures without a sample are expected to take together

	Items  []FluffItem // cold by evidence, by falling bytes
	Unsure []FluffItem // procedures that no sample fell in, but that may have run more often than ColdBelow, by falling bytes
}

// A FluffItem is a procedure, or a run of blocks of one that ran.
type FluffItem struct {
	Symbol     image.Symbol
	Start, End image.Addr
	Whole      bool // the whole procedure
	Evidence   Evidence
	Why        Reason
	AtMost     float64 // executions, with 95 % confidence: of the block that runs most, or of a procedure, for which samples may say less than flow does

	Reach    image.Reach // how the procedure can be reached without code of the image
	Callers  []Caller    // procedures with code that calls it, jumps to it or takes its address
	HotLines uint64      // bytes on cache lines with hot code
	HotPages uint64      // bytes on pages with hot code
}

// Bytes is the size of the item.
func (i *FluffItem) Bytes() uint64 { return uint64(i.End - i.Start) }

// A Caller is a procedure that refers to another.
type Caller struct {
	Name    string
	Ran     bool // the procedure, not necessarily the code that refers
	Address bool // it takes the address only
}

// Evidence says why code is taken to be cold.
type Evidence uint8

const (
	NoEvidence Evidence = iota // it may have run
	ByFlow                     // nothing that leads there runs, or hardly so
	BySamples                  // there are so many samples that it would have some
)

func (e Evidence) String() string { return [...]string{"none", "flow", "samples"}[e] }

// A Reason is what code that does not run is likely to be for.
type Reason uint8

const (
	Branch       Reason = iota // an out-edge that control did not take
	Error                      // control does not return from it, or an exception leads to it
	SplitOff                   // the compiler thought it cold, and split it off
	StartUp                    // for the start or the end of the program
	API                        // others can link with it
	Callback                   // its address is taken
	Called                     // it is called, by code that does not run
	Unreferenced               // nothing was found to refer to it
)

func (r Reason) String() string {
	return [...]string{"branch", "error path", "split off", "start or end", "exported", "address taken", "called", "unreferenced"}[r]
}

// hotShare is the share of the executed instructions that hot code makes up.
const hotShare = 0.999

// maxCallers bounds the callers that an item names.
const maxCallers = 8

// FindFluff finds the fluff of an image of prof. Blocks are fluff if infer found them
// cold. Whole procedures that nothing was seen of are fluff if all that refers to
// them is, and is in the image, or else if their having no sample is evidence enough.
// progress is called, by one goroutine at a time, as the procedures are decoded, which takes longest; nil is not called.
func FindFluff(prof *infer.Profile, ip *infer.ImageProfile, progress func(done, total int)) *Fluff {
	s := newFluffSearch(prof, ip)
	s.decode(progress)
	s.markHot()
	s.judgeBlocks()
	// From here on, it is known which code of the procedures that ran is live.
	s.judgeProcs()
	s.explain()
	return s.report()
}

// A fluffProc is what is known of a procedure.
type fluffProc struct {
	result   *infer.Result // nil if infer did not look at it
	entered  bool
	reached  bool    // of those that were not entered: something that may run leads there
	atMost   float64 // executions, if there are no samples
	noReturn bool    // no path leads back from it
	pad      bool    // exceptions lead into it
	why      Reason
	cold     []bool // blocks of result: cold by evidence
	doomed   []bool // blocks of result: no path leads back from there
}

type fluffSearch struct {
	*Fluff
	ip    *infer.ImageProfile
	prof  *infer.Profile
	syms  []image.Symbol
	refs  *image.References
	procs []fluffProc // by symbol
	lines map[image.Addr]bool
	pages map[image.Addr]bool
	hot   map[*image.Block]bool
}

func newFluffSearch(prof *infer.Profile, ip *infer.ImageProfile) *fluffSearch {
	s := &fluffSearch{
		Fluff: &Fluff{Samples: ip.Samples, Total: prof.Samples.Total, ColdBelow: prof.ColdBelow},
		ip:    ip, prof: prof, syms: ip.Image.Symbols(), refs: ip.Image.References(),
		lines: map[image.Addr]bool{}, pages: map[image.Addr]bool{}, hot: map[*image.Block]bool{},
	}
	s.procs = make([]fluffProc, len(s.syms))
	for _, r := range ip.Procs {
		s.procs[r.Proc.Index].result = r
	}
	return s
}

// counts reports whether symbol i is code of the image's own.
func (s *fluffSearch) counts(i int) bool { return s.syms[i].Source != image.FromPLT }

// decode looks at all procedures. Of those that infer did not look at nothing is
// kept but a few words: there may be a hundred thousand of them.
func (s *fluffSearch) decode(progress func(done, total int)) {
	absence := s.prof.Absence()
	var wg sync.WaitGroup
	work := make(chan int, 64)
	for range runtime.GOMAXPROCS(0) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for lo := range work {
				for i := lo; i < min(lo+decodePart, len(s.syms)); i++ {
					s.decodeOne(i, absence)
				}
			}
		}()
	}
	for lo := 0; lo < len(s.syms); lo += decodePart {
		work <- lo
		if progress != nil {
			progress(lo, len(s.syms))
		}
	}
	close(work)
	wg.Wait()
}

const decodePart = 64 // symbols that one goroutine looks at in one go

func (s *fluffSearch) decodeOne(i int, absence *infer.Absence) {
	f := &s.procs[i]
	f.atMost = math.Inf(1)
	if !s.counts(i) {
		return
	}
	var p *image.Proc
	if f.result != nil {
		p = f.result.Proc
	} else if q, err := s.ip.Image.Proc(i); err == nil {
		p = q
	} else {
		return
	}
	doomed := doomedBlocks(p)
	if f.result != nil {
		f.doomed = doomed
	}
	f.noReturn = len(doomed) > 0 && doomed[0]
	for _, b := range p.Entries {
		f.pad = f.pad || p.Blocks[b].Pad
	}
	if f.result == nil || f.result.Samples == 0 {
		f.atMost = absence.AtMost(p)
	}
}

// doomedBlocks reports from which blocks of p no path leads back to its caller.
func doomedBlocks(p *image.Proc) []bool {
	doomed := make([]bool, len(p.Blocks))
	var work []int
	for i, b := range p.Blocks {
		switch b.Exit {
		case image.NoExit, image.NoReturn:
			doomed[i] = true
		default:
			work = append(work, i)
		}
	}
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		for _, e := range p.Blocks[i].In {
			if from := p.Edges[e].From; doomed[from] {
				doomed[from] = false
				work = append(work, from)
			}
		}
	}
	return doomed
}

// markHot finds the hot blocks, and the lines and pages that they lie on.
func (s *fluffSearch) markHot() {
	pieces := Linked(s.ip.Procs).Pieces()
	var all float64
	for _, p := range pieces {
		all += p.N
	}
	for _, p := range hottest(pieces, hotShare*all, func(p Piece) float64 { return s.ip.Procs[p.Proc].Block[p.Block].N }) {
		s.hot[&s.ip.Procs[p.Proc].Proc.Blocks[p.Block]] = true
		for a := p.Start / lineSize; a*lineSize < p.End; a++ {
			s.lines[a] = true
		}
		for a := p.Start / pageSize; a*pageSize < p.End; a++ {
			s.pages[a] = true
		}
	}
	s.HotLines, s.HotPages = len(s.lines), len(s.pages)
}

// judgeBlocks finds the procedures that ran, and their blocks that are cold. Where
// the targets of an indirect jump are not known, none is: it may be one of them.
func (s *fluffSearch) judgeBlocks() {
	called := map[image.Addr]bool{} // by code that ran
	for _, r := range s.ip.Procs {
		for i, c := range r.Proc.Calls {
			if r.Call[i].N > 0 && ranSurely(r, c.Block) && (!c.Cond || surely(r.Call[i])) {
				called[c.To] = true
			}
		}
	}
	for i := range s.procs {
		f := &s.procs[i]
		r := f.result
		if r == nil || !s.counts(i) {
			continue
		}
		f.entered = r.Seen || called[r.Proc.Addr]
		for b := range r.Proc.Blocks {
			f.entered = f.entered || s.hot[&r.Proc.Blocks[b]]
		}
		if !f.entered {
			continue
		}
		f.cold = make([]bool, len(r.Cold))
		for b := range r.Cold {
			f.cold[b] = r.Cold[b] && r.BlockSamples[b] == 0 && r.Proc.Complete && !s.hot[&r.Proc.Blocks[b]]
		}
	}
}

// ranSurely reports whether there is evidence that block b of r ran.
func ranSurely(r *infer.Result, b int) bool {
	return r.BlockSamples[b] > 0 || r.Block[b].N > 0 && !r.Cold[b] && surely(r.Block[b])
}

// surely reports whether more than the flow around it says how often something ran.
func surely(f infer.Freq) bool { return max(f.Among, f.Within) >= infer.Medium }

// judgeProcs finds which of the procedures that were not entered may have run: those
// that others can reach, and those that code which may have run refers to, unless they
// would have had samples then.
func (s *fluffSearch) judgeProcs() {
	for i := range s.procs {
		s.reachOne(i)
	}
	from := s.froms()
	var work []int
	for i := range s.procs {
		if s.mayRun(i) {
			work = append(work, i)
		}
	}
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		for _, to := range from[i] {
			if f := &s.procs[to]; !f.reached && !f.entered && s.counts(int(to)) {
				f.reached = true
				if s.mayRun(int(to)) {
					work = append(work, int(to))
				}
			}
		}
	}
}

// mayRun reports whether procedure i, which was not entered, may be live.
func (s *fluffSearch) mayRun(i int) bool {
	f := &s.procs[i]
	return s.counts(i) && !f.entered && f.reached && !(f.atMost < s.ColdBelow)
}

// reachOne reports whether procedure i, if it was not entered, is reached from code that
// ran or from without.
func (s *fluffSearch) reachOne(i int) {
	f := &s.procs[i]
	if f.entered || !s.counts(i) {
		return
	}
	if s.refs.Reach[i] != 0 {
		f.reached = true
		return
	}
	for _, ref := range s.refs.To(i) {
		j := s.ip.Image.Find(ref.From)
		if j < 0 || !s.procs[j].entered {
			continue
		}
		b := s.procs[j].result.Proc.BlockAt(ref.From)
		if b >= 0 && s.procs[j].cold[b] {
			continue
		}
		if r := f.result; !ref.Address && r != nil && len(r.Cold) > 0 && r.Cold[0] {
			continue // so often does nothing call it
		}
		f.reached = true
		return
	}
}

// froms returns the procedures that each procedure refers to, of those that were not
// entered.
func (s *fluffSearch) froms() [][]int32 {
	from := make([][]int32, len(s.procs))
	for i := range s.procs {
		if s.procs[i].entered {
			continue
		}
		for _, ref := range s.refs.To(i) {
			if j := s.ip.Image.Find(ref.From); j >= 0 && !s.procs[j].entered {
				if to := from[j]; len(to) == 0 || to[len(to)-1] != int32(i) {
					from[j] = append(to, int32(i))
				}
			}
		}
	}
	return from
}

// explain finds the reasons of the procedures that were not entered. What only error
// paths call is one, and likewise for the start of the program.
func (s *fluffSearch) explain() {
	for i := range s.procs {
		s.procs[i].why = s.reason(i)
	}
	for changed := true; changed; {
		changed = false
		for i := range s.procs {
			f := &s.procs[i]
			if f.entered || f.why != Called {
				continue
			}
			if why := s.callersReason(i); why != Called {
				f.why, changed = why, true
			}
		}
	}
}

// reason reports what a procedure is for by itself.
func (s *fluffSearch) reason(i int) Reason {
	f, sym, reach := &s.procs[i], &s.syms[i], s.refs.Reach[i]
	refs := s.refs.To(i)
	switch _, split := image.CutSuffix(sym.Name, ".cold"); {
	case reach&image.Start != 0 || isInit(sym.Name):
		return StartUp
	case f.noReturn:
		return Error
	case split:
		return SplitOff
	case reach&image.Exported != 0:
		return API
	case reach&image.Pointed != 0 || slices.ContainsFunc(refs, func(r image.Ref) bool { return r.Address }):
		return Callback
	case len(refs) > 0:
		return Called
	case f.pad: // by the unwinder
		return Error
	}
	return Unreferenced
}

// isInit tells the names of what runs at the start: C's main, C++'s constructors of
// a file, Go's initialisers.
func isInit(name string) bool {
	return name == "main" || name == "main.main" || strings.HasPrefix(name, "_GLOBAL__sub_I_") || strings.HasPrefix(name, "__cxx_global_var_init") ||
		strings.HasSuffix(name, ".init") || strings.Contains(name, ".init.") && !strings.Contains(name, "(")
}

// callersReason returns the reason that all callers of procedure i have in common, or Called.
func (s *fluffSearch) callersReason(i int) Reason {
	why := Called
	for _, ref := range s.refs.To(i) {
		j := s.ip.Image.Find(ref.From)
		if j < 0 {
			return Called
		}
		of := s.procs[j].why
		if f := &s.procs[j]; f.entered {
			if b := f.result.Proc.BlockAt(ref.From); b >= 0 && f.doomed[b] && !f.noReturn {
				of = Error
			}
		}
		if of != Error && of != StartUp || why != Called && of != why {
			return Called
		}
		why = of
	}
	return why
}

// report adds up what was found.
func (s *fluffSearch) report() *Fluff {
	var once, sampled uint64 // procedures with one sample, and all samples
	for i := range s.procs {
		if !s.counts(i) {
			continue
		}
		s.Procs++
		s.Text += s.syms[i].Size
		f := &s.procs[i]
		if r := f.result; r != nil {
			sampled += r.Samples
			if r.Samples == 1 {
				once++
			}
		}
		if f.entered {
			s.Entered++
			s.reportBlocks(i)
			continue
		}
		item := s.wholeItem(i)
		switch {
		case !f.reached:
			item.Evidence = ByFlow
		case f.atMost < s.ColdBelow:
			item.Evidence = BySamples
		default:
			s.Unknown += item.Bytes()
			s.Unsure = append(s.Unsure, item)
			continue
		}
		s.add(item)
	}
	// Good, "The population frequencies of species", Biometrika 40, 1953: what was
	// not seen is as frequent, all of it, as what was seen once.
	if sampled > 0 {
		s.UnseenShare = float64(once) / float64(sampled)
	}
	bySize := func(a, b FluffItem) int {
		return cmp.Or(cmp.Compare(b.Bytes(), a.Bytes()), cmp.Compare(a.Start, b.Start))
	}
	slices.SortFunc(s.Items, bySize)
	slices.SortFunc(s.Unsure, bySize)
	return s.Fluff
}

// add puts an item among those that are cold by evidence.
func (s *fluffSearch) add(item FluffItem) {
	s.Cold += item.Bytes()
	s.OnHotLines += item.HotLines
	s.OnHotPages += item.HotPages
	if item.Why == Unreferenced && s.ip.Image.Go == "" {
		s.Unreferenced += item.Bytes()
	}
	s.Items = append(s.Items, item)
}

func (s *fluffSearch) wholeItem(i int) FluffItem {
	sym, f := s.syms[i], &s.procs[i]
	item := FluffItem{
		Symbol: sym, Start: sym.Addr, End: sym.Addr + image.Addr(sym.Size), Whole: true,
		Why: f.why, AtMost: f.atMost, Reach: s.refs.Reach[i],
	}
	if r := f.result; r != nil && !f.reached && len(r.Most) > 0 {
		item.AtMost = min(item.AtMost, slices.Max(r.Most)) // so often is it called
	}
	if !f.reached && !(item.AtMost < s.ColdBelow) {
		item.AtMost = math.Inf(1) // that nothing which may have run leads there says more than its samples
	}
	s.share(&item)
	var room [maxCallers]Caller
	callers := room[:0]
	for _, ref := range s.refs.To(i) {
		if len(callers) == maxCallers {
			break
		}
		if j := s.ip.Image.Find(ref.From); j >= 0 {
			if c := (Caller{s.syms[j].Name, s.procs[j].entered, ref.Address}); !slices.Contains(callers, c) {
				callers = append(callers, c)
			}
		}
	}
	item.Callers = append([]Caller(nil), callers...) // nil if there are none
	return item
}

// reportBlocks adds up the blocks of a procedure that ran.
func (s *fluffSearch) reportBlocks(i int) {
	f := &s.procs[i]
	r := f.result
	other := s.syms[i].Size
	for b := 0; b < len(r.Proc.Blocks); b++ {
		blk := &r.Proc.Blocks[b]
		size := uint64(blk.End - blk.Start)
		switch {
		case s.hot[blk]:
			s.Hot += size
		case f.cold[b]:
			item := FluffItem{Symbol: s.syms[i], Start: blk.Start, End: blk.End, Evidence: ByFlow, Why: blockReason(f, b), AtMost: r.Most[b]}
			for b+1 < len(f.cold) && f.cold[b+1] && r.Proc.Blocks[b+1].Start == item.End && blockReason(f, b+1) == item.Why {
				b++
				item.End = r.Proc.Blocks[b].End
				item.AtMost = max(item.AtMost, r.Most[b])
			}
			size = item.Bytes()
			s.share(&item)
			s.add(item)
		case ranSurely(r, b):
			s.Executed += size
		default:
			s.Unknown += size
		}
		other -= min(other, size)
	}
	s.Other += other
}

func blockReason(f *fluffProc, b int) Reason {
	if f.result.Proc.Blocks[b].Pad || f.doomed[b] && !f.noReturn {
		return Error
	}
	return Branch
}

// share finds how much of an item lies where hot code does.
func (s *fluffSearch) share(item *FluffItem) {
	within := func(size image.Addr, hot map[image.Addr]bool) (n uint64) {
		for a := item.Start; a < item.End; {
			end := min(item.End, (a/size+1)*size)
			if hot[a/size] {
				n += uint64(end - a)
			}
			a = end
		}
		return n
	}
	item.HotLines = within(lineSize, s.lines)
	item.HotPages = within(pageSize, s.pages)
}
