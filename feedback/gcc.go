package feedback

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// GCCOptions choose what WriteGCC writes.
type GCCOptions struct {
	Image   string // path or build ID; "" is the image with the most samples that gcc made
	Version int    // major version of the gcc that is to read it; 0 is the one that made the image
}

// GCCStats say what WriteGCC wrote.
type GCCStats struct {
	Image   sample.ImageID
	Version int             // major version of the gcc that reads it
	Made    map[int]float64 // executed instructions of what gcc made of the image, inferred, by its major version
	Procs   int             // procedures that went into the profile
	Funcs   int             // functions in it: procedures of one name are one function
	Lines   int             // lines with a count, those of inlined bodies included
	Inlined int             // inlined call sites
	Targets int             // targets of indirect calls
	Skipped Skipped

	// Instructions that were executed, inferred: of what Skipped counts, and of the image in all.
	Dropped  map[Reason]float64
	Executed float64
}

// WriteGCC writes a profile for -fauto-profile of gcc, an .afdo file. All numbers
// are little endian and nothing is aligned; a string is its length, NUL included,
// in 4 bytes, then its bytes and NUL. Version 2 is what gcc 12 to 15 read, version
// 3 what gcc 16 does:
//
//	4  "adcg"                 4  version            4  0
//	version 3: the summary
//	   4  0xa8000000          8  sum of counts      8  largest count     8  largest head count
//	   8  number of counts    8  functions          8  cutoffs, then of each:
//	      4  cutoff, in millionths of the sum       8  least count above it
//	      8  number of counts above it
//	4  0xaa000000             4  length             names of functions
//	   version 3: 4  files, then the name of each
//	   4  names, then of each: its string; version 3: 4  file, or -1. Name 0 is ""
//	4  0xac000000             4  length             4  functions, then of each:
//	   8  head count          version 3: 8  timestamp
//	   the instance: 4  name  4  positions          4  inlined calls
//	      of each position:
//	      4  lines from the declaration << 16 | discriminator
//	      4  targets          8  count; of each target: 4  7 (HIST_TYPE_INDIR_CALL_TOPN)
//	         8  name          8  count
//	      of each inlined call: 4  as above, then the instance of its callee
//	4  0xae000000             4  length             4  0 modules
//	4  0xaf000000             4  length             12 * 128 of working sets, all 0: gcc stops before
//
// gcc ignores the lengths, which are in words, and sums up totals itself. The
// count of a position is the largest of its blocks'. gcc 12 has no discriminators
// where it reads a profile, and takes the last count of a line if there are
// several (auto-profile.cc): its lines have but one. What gcc 16 copied counts as often as all copies ran. One that is known not to run
// has a count of 0; one of which nothing is known is not there. One that was compiled to
// nothing but a conditional move, and what that chooses between, has half the count of its block. One that ran, of which a part
// leads to a call that does not return, or is a call that the line branches to, and hardly ran, is not there. For gcc 12 to 15, nor is a condition, or
// a line of blocks with several counts, where other lines say how often its blocks ran: see quieten.
func WriteGCC(w io.Writer, p *infer.Profile, rec *sample.Recording, opt GCCOptions) (GCCStats, error) {
	v, err := viewForGCC(p, rec, opt.Image, "gcc")
	if err != nil {
		return GCCStats{}, err
	}
	return writeGCC(w, v, cmp.Or(opt.Version, gccVersion(v.lines, v.Procs)))
}

// viewForGCC returns the image that want names, with its lines; for "", the one with the most samples that gcc made. Errors are of a
// format.
func viewForGCC(p *infer.Profile, rec *sample.Recording, want, format string) (*view, error) {
	ip, err := pick(p, want, func(ip *infer.ImageProfile) bool { return unfitForGCC(ip) == nil })
	if err != nil {
		return nil, err
	}
	if err := unfitForGCC(ip); err != nil {
		return nil, fmt.Errorf("%s: %s: %w: %w", format, ip.ID.Path, err, ErrUnfit)
	}
	v := newView(ip, countsOf(p, rec))
	if v.lines, err = ip.Image.Lines(); err != nil {
		return nil, err
	}
	return v, nil
}

// unfitForGCC says why gcc could not use a profile of the image.
func unfitForGCC(ip *infer.ImageProfile) error {
	if ip.Image.Go != "" {
		return errors.New("a Go program; go build reads what emit go writes")
	}
	lines, err := ip.Image.Lines()
	if errors.Is(err, image.ErrNoLines) {
		return errors.New("no line table; build it with -g")
	}
	if err != nil {
		return err
	}
	if gccVersion(lines, ip.Procs) > 0 {
		return nil
	}
	for _, r := range ip.Procs {
		if u := lines.Unit(r.Proc.Addr); u.Producer != "" {
			return fmt.Errorf("made by %s, not by gcc%s", u.Producer, insteadOfGCC(u))
		}
	}
	return errors.New("no sampled procedure has lines; build it with -g")
}

// insteadOfGCC says what writes a profile for another compiler.
func insteadOfGCC(u image.Unit) string {
	if isLLVM(u) {
		return "; emit llvm writes what that reads"
	}
	return ""
}

// gccVersion returns the major version of the gcc that made the code with the most
// samples; 0 if gcc made none.
func gccVersion(lines lineTable, procs []*infer.Result) int {
	samples := madeBy(lines, procs, func(r *infer.Result) uint64 { return r.Samples })
	most := 0
	for _, n := range sortedKeys(samples, cmp.Compare) {
		if most == 0 || samples[n] > samples[most] {
			most = n
		}
	}
	return most
}

// madeBy returns what there is of procedures that gcc made, by its major version.
func madeBy[N uint64 | float64](lines lineTable, procs []*infer.Result, of func(*infer.Result) N) map[int]N {
	all := map[int]N{}
	for _, r := range procs {
		if n := madeByGCC(lines.Unit(r.Proc.Addr)); n > 0 {
			all[n] += of(r)
		}
	}
	return all
}

var gccProducer = regexp.MustCompile(`^GNU [^ ]+ (\d+)\.`)

// gccMade reports whether gcc made a unit.
func gccMade(u image.Unit) bool { return madeByGCC(u) > 0 }

// madeByGCC returns the major version of the gcc that made a unit; 0 if none did.
func madeByGCC(u image.Unit) int {
	m := gccProducer.FindStringSubmatch(u.Producer)
	if m == nil || u.Lang == "asm" {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	return n
}

// guided reports whether gcc made a unit with a profile: what it was told is in DW_AT_producer, unless -gno-record-gcc-switches is.
func guided(u image.Unit) bool {
	return strings.Contains(u.Producer, " -fauto-profile") || strings.Contains(u.Producer, " -fprofile-use")
}

func writeGCC(w io.Writer, v *view, gcc int) (GCCStats, error) {
	if gcc < 12 {
		return GCCStats{}, fmt.Errorf("gcc: %s: gcc %d reads version 1 of the format, and only 2 and 3 can be written: %w", v.ID.Path, gcc, ErrUnfit)
	}
	t := newTree()
	t.image(v, gccDialect(gcc))
	if gcc >= 13 {
		t.enter()
	}
	t.keep(fitsBinary)
	if gcc < 16 {
		t.leaveStraight()
	}
	if gcc >= 13 && gcc < 16 {
		t.addInlined()
	}
	for name, f := range t.funcs {
		if len(f.body) == 0 && len(f.inlined) == 0 {
			delete(t.funcs, name)
		}
	}
	if len(t.funcs) == 0 {
		return GCCStats{}, t.skipped.empty("gcc: no function has both counts and lines")
	}
	st := GCCStats{Image: v.ID, Version: gcc, Made: madeBy(v.lines, v.Procs, (*infer.Result).Instructions), Procs: t.procs, Funcs: len(t.funcs), Skipped: t.skipped, Dropped: t.dropped, Executed: t.all}
	for _, f := range t.funcs {
		st.add(f)
		if gcc < 16 {
			addStructors(f)
		}
	}
	_, err := w.Write(encodeAFDO(afdoVersion(gcc), t.funcs))
	return st, err
}

// straight is the share of taken branches up to which gcc is taken to have laid out a function well without a profile.
const straight = 0.2

// leaveStraight leaves out the functions of whose branches few are taken in the recorded build, unless that is all of them. gcc up to 15 compiles what has no
// profile as if there were none. By counts of lines, of which it has one for all blocks of a line, it lays out anew what was straight: on nine programs these functions had
// more taken branches with their exact counts than without (testdata/consumers), on each of them, and all that is over that share together had less. What was
// built with a profile already is straight by that, and keeps it.
func (t *tree) leaveStraight() {
	isStraight := func(name string) bool {
		f := t.funcs[name]
		return !f.guided && f.branches > 0 && f.taken < straight*f.branches
	}
	names := sortedKeys(t.funcs, cmp.Compare)
	if !slices.ContainsFunc(names, func(name string) bool { return !isStraight(name) }) {
		return
	}
	for _, name := range names {
		if isStraight(name) {
			t.skip(SkipStraight, t.funcs[name].insts)
			delete(t.funcs, name)
		}
	}
}

// addInlined adds the functions that have no code of their own, or only parts, with what was seen of them where they were inlined. gcc up to 15 uses the
// counts of an inlined body where it inlines that early, and else takes what its own function has. Neither this nor enter is for gcc 12, which has minisat take
// more branches by it.
func (t *tree) addInlined() {
	all := map[string]*function{}
	var collect func(f *function)
	collect = func(f *function) {
		for c, g := range f.inlined {
			collect(g)
			if whole := t.funcs[c.callee]; whole != nil && whole.own || unifiedStructor.MatchString(c.callee) {
				continue
			}
			as := childOf(all, c.callee)
			as.add(g)
			as.head = addCounts(as.head, g.first())
		}
	}
	for _, f := range t.funcs {
		collect(f)
	}
	for name, f := range all {
		childOf(t.funcs, name).add(f)
	}
}

// first returns the executions of the first line of an inlined body of which any are known, which is about how often it was entered.
func (f *function) first() uint64 {
	at, n := spot{offset: math.MaxUint16, disc: math.MaxUint32}, uint64(0)
	for to, m := range f.body {
		if compareSpots(to, at) < 0 {
			at, n = to, m
		}
	}
	for _, c := range sortedKeys(f.inlined, compareCalls) { // of several at one place, always the same
		if compareSpots(c.at, at) < 0 {
			at, n = c.at, f.inlined[c].first()
		}
	}
	return n
}

func (st *GCCStats) add(f *function) {
	st.Lines += len(f.body)
	st.Inlined += len(f.inlined)
	for _, calls := range f.calls {
		st.Targets += len(calls)
	}
	for _, g := range f.inlined {
		st.add(g)
	}
}

// afdoVersion returns the version of the format that a gcc reads.
func afdoVersion(gcc int) uint32 {
	if gcc < 16 {
		return 2
	}
	return 3
}

func gccDialect(gcc int) dialect {
	return dialect{
		made:         gccMade,
		name:         func(symbol string) string { return gccName(gcc, symbol) },
		indirectOnly: true,
		doubts:       true,
		splits:       true,
		mixes:        gcc < 13,
		loudest:      gcc < 16,
		discriminator: func(_ *view, u image.Unit) func(uint32) discriminator {
			as := gccDiscriminator(cmp.Or(madeByGCC(u), gcc))
			return func(raw uint32) discriminator {
				d := as(raw)
				if gcc < 13 {
					d.disc = 0
				}
				return d
			}
		},
	}
}

// gccDiscriminator returns how a gcc of that major version writes discriminators. Until 15, it numbers the blocks of a line. Since 16,
// these numbers are the lowest 8 bits, which is what it reads a profile by; 7 bits follow, which say for how many executions one of the
// code stands, as in vectorised loops, or 0 for one, and 11 with the number of the copy, as of a loop's remainder, or 0 (gcc/input.h):
// each of these ran by itself.
func gccDiscriminator(gcc int) func(uint32) discriminator {
	if gcc < 16 {
		return plain
	}
	return func(raw uint32) discriminator {
		return discriminator{disc: raw & 0xff, copies: uint64(max(raw>>8&0x7f, 1)), copy: raw >> 15 & 0x7ff}
	}
}

// gccName returns the name that gcc looks a function up by: that of its symbol
// without what the compiler appended to it, which until gcc 15 is all from the
// first dot on (get_original_name in auto-profile.cc).
func gccName(gcc int, symbol string) string {
	if gcc >= 16 {
		return image.SourceName(symbol)
	}
	if i := strings.IndexByte(symbol, '.'); i > 0 {
		return symbol[:i]
	}
	return symbol
}

// unifiedStructor matches, up to the 4, the name that debug information has for
// all variants of a constructor or destructor, which no symbol has.
var unifiedStructor = regexp.MustCompile(`^(_ZN.*[CD])4E`)

// addStructors adds the names of the variants to the inlined bodies of
// constructors and destructors in f. gcc asks whether a call is hot by the name of
// the callee, which is a variant's, and for the counts of what it then inlines by
// the unified name: a C1 alone gets inlined as code that never runs, a C4 alone
// does not get inlined at all (gcc 12.2). gcc 16 finds the callee by the unified name, and takes a second body at a call for a mistake.
func addStructors(f *function) {
	for _, c := range sortedKeys(f.inlined, compareCalls) {
		g := f.inlined[c]
		addStructors(g)
		most := slices.Max(g.counts([]uint64{0}))
		if !unifiedStructor.MatchString(c.callee) || most == 0 {
			continue
		}
		for _, variant := range []string{"${1}1E", "${1}2E"} {
			hot := newFunction()
			hot.body[spot{}] = most
			f.inlined[inlinedCall{c.at, unifiedStructor.ReplaceAllString(c.callee, variant)}] = hot
		}
	}
}
