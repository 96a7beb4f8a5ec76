package feedback

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// BOLTOptions choose what WriteBOLT writes.
type BOLTOptions struct {
	Image string // path or build ID; "" is the image with the most samples that is not a Go program
}

// BOLTStats say what WriteBOLT wrote.
type BOLTStats struct {
	Image   sample.ImageID
	Procs   int // procedures with a record of their own
	Edges   int // records of edges within procedures
	Calls   int // records of calls
	Entries int // records of entries from code that no call in the profile is in
	Skipped Skipped

	// Instructions that were executed, inferred: of what Skipped counts, and of the image in all.
	Dropped  map[Reason]float64
	Executed float64
}

const (
	SkipIncomplete Reason = "procedures with unknown targets of indirect jumps" // BOLT could not use their edges either
	SkipUnknown    Reason = "procedures of which nothing is known"
	SkipNoSymbol   Reason = "procedures without a symbol of their own"
	SkipIndirect   Reason = "indirect calls whose target was never seen"
	SkipImport     Reason = "calls into other images"
)

// WriteBOLT writes branch profile (fdata) for one image. A line is
//
//	1 FROM OFFSET 1 TO OFFSET MISPREDICTED COUNT
//
// with offsets in hexadecimal from the start of a symbol: FROM is the last
// instruction of a block, be it a branch or not, and TO the first of the next,
// for fall-through as well as for taken edges (llvm-bolt derives neither from the
// other). A call is a line to offset 0 of its target, and gives the target its
// execution count. An offset that is no instruction's makes llvm-bolt drop the
// whole procedure. See bolt/include/bolt/Profile/DataReader.h in LLVM.
func WriteBOLT(w io.Writer, p *infer.Profile, rec *sample.Recording, opt BOLTOptions) (BOLTStats, error) {
	ip, err := pickForBOLT(p, opt.Image)
	if err != nil {
		return BOLTStats{}, fmt.Errorf("bolt: %w", err)
	}
	if ip.Image.Go != "" {
		return BOLTStats{}, fmt.Errorf("bolt: %s: %w: a Go program does not survive llvm-bolt, which moves code without pclntab", ip.ID, ErrUnfit)
	}
	return writeBOLT(w, newView(ip, countsOf(p, rec)))
}

// pickForBOLT returns the image that want names; for "", the largest of those that llvm-bolt can do all it does to, which
// needs relocations: a library of the system has none, however many of the samples are its own.
func pickForBOLT(p *infer.Profile, want string) (*infer.ImageProfile, error) {
	fits := func(ip *infer.ImageProfile) bool { return ip.Image.Go == "" }
	whole := func(ip *infer.ImageProfile) bool { return fits(ip) && ip.Image.KeepsRelocations() }
	if ip := Largest(p, whole); want == "" && ip != nil && whole(ip) {
		return ip, nil
	}
	return pick(p, want, fits)
}

func writeBOLT(w io.Writer, v *view) (BOLTStats, error) {
	b := &boltWriter{view: v, sites: newSites(v), counts: map[boltRecord]boltCount{}, left: map[image.Addr]bool{}}
	b.names, b.unfit = boltNames(v.code.Symbols())
	b.remainder = newRemainder()
	b.of(v.Procs)
	b.stats = BOLTStats{Image: v.ID, Skipped: b.skipped, Dropped: b.dropped, Executed: b.all}
	for _, r := range v.Procs {
		b.proc(r)
	}
	b.entries()
	if len(b.left) > 0 {
		b.stats.Skipped[SkipName] = len(b.left)
	}
	if len(b.counts) == 0 {
		return b.stats, b.stats.Skipped.empty("bolt: %s: no edges", v.ID)
	}
	err := b.write(w)
	return b.stats, err
}

// A boltWriter collects the records of an image.
type boltWriter struct {
	*view
	remainder
	sites  *sites
	names  map[image.Addr]string // what llvm-bolt calls the symbols, by address
	unfit  map[image.Addr]bool   // symbols whose names the format cannot carry
	left   map[image.Addr]bool   // those of them that records were left out of
	counts map[boltRecord]boltCount
	into   map[image.Addr]uint64 // recorded calls, by target
	stats  BOLTStats
}

type boltRecord struct {
	from    string // "" is outside of the image
	fromOff uint64
	to      string
	toOff   uint64
}

type boltCount struct{ n, mispredicted uint64 }

// boltEscape is DataReader's rule for names in a line split at spaces: parseString there, and
// getEscapedName in bolt/lib/Utils.
var boltEscape = strings.NewReplacer(`\`, `\\`, " ", `\ `)

// boltNames assigns every symbol the name that llvm-bolt looks it up by, and those whose
// names do not fit. Local ones, unique or not, are numbered: Symbol.Ordinal.
func boltNames(syms []image.Symbol) (names map[image.Addr]string, unfit map[image.Addr]bool) {
	names, unfit = make(map[image.Addr]string, len(syms)), map[image.Addr]bool{}
	for _, s := range syms {
		switch {
		case s.Source != image.FromSymtab && s.Source != image.FromDynsym:
		case !fitsBOLT(s.Name):
			unfit[s.Addr] = true
		case !s.Local:
			names[s.Addr] = boltEscape.Replace(s.Name)
		case s.Ordinal > 0:
			names[s.Addr] = fmt.Sprintf("%s/%d", boltEscape.Replace(s.Name), s.Ordinal)
		}
	}
	return names, unfit
}

// proc adds the edges of a procedure and the calls it makes.
func (b *boltWriter) proc(r *infer.Result) {
	name, named := b.names[r.Proc.Addr]
	switch {
	case b.unfit[r.Proc.Addr]:
		b.left[r.Proc.Addr] = true
		b.dropped[SkipName] += r.Instructions()
		return
	case !named:
		b.skip(SkipNoSymbol, r.Instructions())
		return
	case !r.Proc.Complete:
		b.skip(SkipIncomplete, r.Instructions())
		return
	case !known(r):
		b.skip(SkipUnknown, r.Instructions())
		return
	}
	wrote := false
	for i, e := range r.Proc.Edges {
		from, to := &r.Proc.Blocks[e.From], &r.Proc.Blocks[e.To]
		rec := boltRecord{name, uint64(from.Last - r.Proc.Addr), name, uint64(to.Start - r.Proc.Addr)}
		if b.add(rec, whole(r.Edge[i].N), b.sites.missShare(from.Last, to.Start)) {
			b.stats.Edges++
			wrote = true
		}
	}
	for i := range r.Proc.Calls {
		if b.call(r, i, name) {
			wrote = true
		}
	}
	if wrote || whole(r.Entries.N) > 0 {
		b.stats.Procs++
	}
}

// call adds the records of a call, one for each target.
func (b *boltWriter) call(r *infer.Result, i int, name string) bool {
	c, n := r.Proc.Calls[i], r.Call[i].N
	if whole(n) == 0 {
		return false
	}
	targets := b.sites.targets(r, i)
	if len(targets) == 0 {
		if c.To == 0 && c.Target == "" {
			b.skip(SkipIndirect, n)
		} else {
			b.skip(SkipImport, n)
		}
		return false
	}
	wrote := false
	for _, t := range targets {
		s, off, _ := b.place(t.to)
		to, ok := b.names[s.Addr]
		if b.unfit[s.Addr] {
			b.left[s.Addr] = true
			continue
		}
		if !ok {
			b.skip(SkipImport, n*t.share)
			continue
		}
		rec := boltRecord{name, uint64(c.Site - r.Proc.Addr), to, off}
		k := whole(n * t.share)
		if b.add(rec, k, b.sites.missShare(c.Site, t.to)) {
			b.stats.Calls++
			wrote = true
			if b.into == nil {
				b.into = map[image.Addr]uint64{}
			}
			b.into[t.to] += k
		}
	}
	return wrote
}

// entries adds the executions that no recorded call explains: llvm-bolt takes a
// procedure's execution count from the records that lead to it.
func (b *boltWriter) entries() {
	for _, r := range b.Procs {
		name, ok := b.names[r.Proc.Addr]
		n, into := whole(r.Entries.N), b.into[r.Proc.Addr]
		if ok && r.Proc.Complete && n > into && b.add(boltRecord{to: name}, n-into, 0) {
			b.stats.Entries++
		}
	}
}

// add adds n executions of a record, of which a share was mispredicted.
func (b *boltWriter) add(rec boltRecord, n uint64, share float64) bool {
	if n == 0 {
		return false
	}
	c := b.counts[rec]
	b.counts[rec] = boltCount{c.n + n, c.mispredicted + whole(float64(n)*share)}
	return true
}

func (b *boltWriter) write(w io.Writer) error {
	recs := make([]boltRecord, 0, len(b.counts))
	for rec := range b.counts {
		recs = append(recs, rec)
	}
	slices.SortFunc(recs, func(x, y boltRecord) int {
		return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.fromOff, y.fromOff),
			cmp.Compare(x.to, y.to), cmp.Compare(x.toOff, y.toOff))
	})
	bw := bufio.NewWriter(w)
	for _, rec := range recs {
		c := b.counts[rec]
		from := fmt.Sprintf("1 %s %x", rec.from, rec.fromOff)
		if rec.from == "" {
			from = "0 [unknown] 0"
		}
		fmt.Fprintf(bw, "%s 1 %s %x %d %d\n", from, rec.to, rec.toOff, c.mispredicted, c.n)
	}
	return bw.Flush()
}
