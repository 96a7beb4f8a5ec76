package feedback

import (
	"cmp"
	"encoding/binary"
	"slices"

	"backfeed/infer"
	"backfeed/infer/image"
)

const (
	SkipProbe    Reason = "probes of unnamed functions or beyond what the profile can number"
	SkipNoProbes Reason = "procedures without probes"
)

// maxProbe is the largest ID that LLVM's reader takes for a place in a function.
const maxProbe = 1<<16 - 1

// A probeDecoder adds the code of an image's procedures to a tree by the marks of
// clang's -fpseudo-probe-for-profiling. They name the blocks of the source as the
// compiler will see them again, so that no line table comes between the counts
// and the blocks. Marks that the compiler has copied add up
// (ProfileGenerator::populateBodySamplesWithProbesForAllFunctions in LLVM), where
// of a line's instructions the maximum counts. The head is the count of a
// function's first block: recursion that became a loop is calls in the source.
type probeDecoder struct {
	*tree
	sites  *sites
	probes []image.Probe // by address
}

func (d *probeDecoder) image() {
	d.of(d.sites.Procs)
	for _, r := range d.sites.Procs {
		if absent(r) {
			d.skip(SkipAbsent, r.Instructions())
			continue
		}
		if !known(r) {
			d.skip(SkipUnknown, r.Instructions())
			continue
		}
		d.proc(r)
	}
	for _, f := range d.funcs {
		f.raise()
	}
}

func (d *probeDecoder) proc(r *infer.Result) {
	if len(d.within(r.Proc.Addr, r.Proc.Addr+image.Addr(r.Proc.Size))) == 0 {
		d.skip(SkipNoProbes, r.Instructions())
		return
	}
	d.procs++
	for i := range r.Proc.Blocks {
		if b := &r.Proc.Blocks[i]; r.Block[i].Conf != infer.None {
			for _, p := range d.within(b.Start, b.End) {
				d.probe(p, whole(r.Block[i].N))
			}
		}
	}
	for i := range r.Proc.Calls {
		site := r.Proc.Calls[i].Site
		for _, p := range d.within(site, site+1) {
			if p.Kind != image.ProbeBlock {
				if f, ok := d.function(p.In); ok && p.ID <= maxProbe {
					d.targets(f, spot{offset: uint16(p.ID)}, d.sites, llvmDialect, r, i)
				}
				break
			}
		}
	}
}

// within returns the probes in [lo, hi).
func (d *probeDecoder) within(lo, hi image.Addr) []image.Probe {
	first := func(a image.Addr) int {
		i, _ := slices.BinarySearchFunc(d.probes, a, func(p image.Probe, a image.Addr) int { return cmp.Compare(p.Addr, a) })
		return i
	}
	return d.probes[first(lo):first(hi)]
}

// probe adds n executions of a mark.
func (d *probeDecoder) probe(p image.Probe, n uint64) {
	f, ok := d.function(p.In)
	if !ok || p.ID > maxProbe {
		d.skip(SkipProbe, float64(n))
		return
	}
	f.body[spot{offset: uint16(p.ID)}] += n
	if p.ID == 1 && p.In.Caller == nil {
		f.head += n
	}
	for b := p.In; b != nil; b = b.Caller {
		f, _ := d.function(b)
		f.total += n
	}
}

// function returns the function or inlined body that b is code of.
func (d *probeDecoder) function(b *image.ProbeBody) (*function, bool) {
	if b.Func.Name == "" || b.Site > maxProbe {
		return nil, false
	}
	if b.Caller == nil {
		return child(d.funcs, b.Func.Name, b), true
	}
	caller, ok := d.function(b.Caller)
	if !ok {
		return nil, false
	}
	return child(caller.inlined, inlinedCall{spot{offset: uint16(b.Site)}, b.Func.Name}, b), true
}

// child returns the function of m under a key, made if it is new.
func child[K comparable](m map[K]*function, k K, b *image.ProbeBody) *function {
	if m[k] == nil {
		childOf(m, k).checksum = b.Func.Checksum
	}
	return m[k]
}

// checksums appends those of f and of the bodies inlined into it.
func (b *llvmBinary) checksums(out []byte, name string, f *function) []byte {
	out = binary.AppendUvarint(out, b.index[name])
	out = binary.AppendUvarint(out, f.checksum)
	out = binary.AppendUvarint(out, uint64(len(f.inlined)))
	for _, c := range sortedKeys(f.inlined, compareCalls) {
		out = binary.AppendUvarint(out, uint64(c.at.offset))
		out = binary.AppendUvarint(out, uint64(c.at.disc))
		out = b.checksums(out, c.callee, f.inlined[c])
	}
	return out
}
