package infer

import (
	"io"
	"math"

	"backfeed/infer/document"
	"backfeed/infer/image"
	"backfeed/sample"
)

// NewDocument returns p as a document.
func NewDocument(p *Profile) *document.Counts {
	d := &document.Counts{Header: documentHeader(p), Images: make([]document.Image, len(p.Images))}
	for i, ip := range p.Images {
		procs := make([]document.Proc, len(ip.Procs))
		for j, r := range ip.Procs {
			procs[j] = document.Proc{
				Blocks: make([]document.Block, 0, len(r.Block)),
				Edges:  make([]document.Edge, 0, len(r.Edge)),
				Calls:  make([]document.Call, 0, len(r.Call)),
			}
			setProc(&procs[j], p, r)
		}
		d.Images[i] = document.Image{ImageHeader: documentImageHeader(ip), Procs: procs}
	}
	return d
}

func documentHeader(p *Profile) document.Header {
	h := document.Header{
		Schema:  document.Schema,
		Machine: p.Machine,
		Event:   document.Event(p.Event),
		Clock:   ClockOf(p),
		Samples: document.Samples{Total: p.Samples.Total, Used: p.Samples.Used, Lost: p.Samples.Lost},

		CommonFactor: p.CommonFactor(),
	}
	if h.Samples.Lost == nil {
		h.Samples.Lost = map[sample.Loss]uint64{}
	}
	return h
}

// ClockOf is the clock of p in documents, to three places; nil where its event does not count ns.
func ClockOf(p *Profile) *document.Clock {
	if p.Event.Unit != "ns" {
		return nil
	}
	ghz, measured := p.Clock()
	return &document.Clock{GHz: math.Round(ghz*1000) / 1000, Measured: measured}
}

// CommonFactor is Common in documents, to two places.
func (p *Profile) CommonFactor() float64 { return math.Round(p.Common*100) / 100 }

func documentImageHeader(ip *ImageProfile) document.ImageHeader {
	h := document.ImageHeader{Path: ip.ID.Path, Samples: ip.Samples}
	if !ip.ID.Build.IsZero() {
		h.BuildID = ip.ID.Build.String()
	}
	return h
}

// setProc makes d the procedure of r, of prof. Its lists keep their storage.
func setProc(d *document.Proc, prof *Profile, r *Result) {
	p := r.Proc
	*d = document.Proc{
		Addr:       document.Addr(p.Addr),
		Size:       p.Size,
		Samples:    r.Samples,
		Entries:    document.Round(r.Entries.N),
		Confidence: r.Entries.Conf,
		Complete:   p.Complete,

		EntriesFactor: prof.EntryFactor(r),

		Blocks: d.Blocks[:0],
		Edges:  d.Edges[:0],
		Calls:  d.Calls[:0],
	}
	d.SetName(p.Name)
	first := 0
	if p.Blocks[0].Insts == 0 { // nothing decodes at the entry
		first = 1
	}
	for i := first; i < len(p.Blocks); i++ {
		b, f := &p.Blocks[i], &r.Block[i]
		d.Blocks = append(d.Blocks, document.Block{
			Addr: document.Addr(b.Start), Size: uint64(b.End - b.Start), Insns: b.Insts, Samples: r.BlockSamples[i],
			Count: document.Round(f.N), Confidence: f.Conf, Within: f.Within, Cold: r.Cold[i],
		})
	}
	for i, e := range p.Edges {
		if e.To < first {
			continue
		}
		f := &r.Edge[i]
		d.Edges = append(d.Edges, document.Edge{
			From: document.Addr(p.Blocks[e.From].Start), To: document.Addr(p.Blocks[e.To].Start), Kind: e.Kind.String(),
			Count: document.Round(f.N), Confidence: f.Conf, Within: f.Within,
		})
	}
	for i := range p.Calls {
		c := &p.Calls[i]
		d.Calls = append(d.Calls, document.Call{Site: document.Addr(c.Site), To: document.Addr(c.To), Kind: callKind(c), Count: document.Round(r.Call[i].N)})
	}
}

func callKind(c *image.Call) string {
	switch {
	case c.Tail:
		return "tail"
	case c.To == 0:
		return "indirect"
	}
	return "call"
}

// WriteDocument writes what NewDocument(p).Write would, and holds one procedure of
// it at a time. If add is not nil, it is called with each procedure that has samples, to
// add to it what else is known, as explain.Explainer.Document does.
func WriteDocument(w io.Writer, p *Profile, add func(*ImageProfile, *Result, *document.Proc)) error {
	var proc document.Proc
	return document.WriteParts(w, documentHeader(p), len(p.Images),
		func(i int) (document.ImageHeader, int) {
			return documentImageHeader(p.Images[i]), len(p.Images[i].Procs)
		},
		func(i, j int) *document.Proc {
			r := p.Images[i].Procs[j]
			setProc(&proc, p, r)
			if add != nil && r.Samples > 0 {
				add(p.Images[i], r, &proc)
			}
			return &proc
		})
}
