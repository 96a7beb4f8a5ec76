package calibrate

import (
	"cmp"
	"slices"
	"time"

	"backfeed/cmd/internal/input"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// A sampledImage is an image with samples, and in which procedures most of them are: what walks begin with. Where blocks begin and end
// it does not say, for which all code of an image is looked through.
type sampledImage struct {
	id    sample.ImageID
	image *image.Image
	procs map[int]uint64 // by symbol: samples
}

// samples is how many there are in procedures that walks go through.
func (s *sampledImage) samples() (n uint64) {
	for _, of := range s.procs {
		n += of
	}
	return n
}

// enoughSamples is the part of all samples whose images are looked into, and the part of each image's samples whose procedures walks are given, beside what
// these call. Of CPython, half of the procedures have the others, and two fifths of the instructions; walks that go there ask for
// them. PostgreSQL's server uses 13 libraries, of which the C library alone has more than a fiftieth of the samples.
const enoughSamples = 0.98

// hottest returns the keys of the images with a file that have enough of the samples, most first, up to probedImages.
func hottest(in map[sample.ImageID]uint64) []sample.ImageID {
	most := infer.Weightiest(in, enoughSamples, sample.ImageID.Compare)
	return most[:min(len(most), probedImages)]
}

// byImage adds the samples of rec in images with a file, by key: those that walks and probes may be in.
func byImage(in map[sample.ImageID]uint64, rec *sample.Recording) {
	for id, n := range rec.ByImage() {
		if input.Fileless(id) == nil && !id.OfKernel() {
			in[id.Key()] += n
		}
	}
}

// bySymbol returns the images of rec with enough of its samples that can be opened, by falling samples, with the procedures that have enough of theirs.
func (k *Calibrator) bySymbol(rec *sample.Recording) (images []*sampledImage) {
	in := map[sample.ImageID]uint64{}
	byImage(in, rec)
	for _, key := range hottest(in) {
		s := &sampledImage{id: key, procs: map[int]uint64{}}
		for _, c := range rec.Counts {
			for _, ic := range c.Images {
				if ic.ID.Key() == key {
					s.id = ic.ID
					k.addSymbols(s, ic)
				}
			}
		}
		if s.image == nil {
			continue
		}
		all := s.procs
		s.procs = map[int]uint64{}
		for _, i := range infer.Weightiest(all, enoughSamples, cmp.Compare[int]) {
			s.procs[i] = all[i]
		}
		if len(s.procs) > 0 {
			images = append(images, s)
		}
	}
	slices.SortStableFunc(images, func(a, b *sampledImage) int { return cmp.Compare(b.samples(), a.samples()) })
	return images
}

// addSymbols adds the samples of ic to s, if its image can be opened.
func (k *Calibrator) addSymbols(s *sampledImage, ic *sample.ImageCounts) {
	im, err := k.open(ic.ID)
	if err != nil {
		return
	}
	s.image = im
	for off, n := range ic.At {
		if a, ok := im.AddrOf(off); ok {
			if i := im.Find(a); i >= 0 {
				s.procs[i] += n
			}
		}
	}
}

// What it takes of this process: openCost to open an image with its symbols, for each MB of its code; pieceCost to decode what walks go through and put
// that together, for each piece of pieceSize bytes that has samples, though procedures have others, too; and for graphs of that, scanCost for each MB of
// code, all of which is looked through, and graphCost for each instruction, to find blocks. Of PostgreSQL's server, these foresee 0.19 s of a first choice, which
// takes 0.21 to 0.25, and graphs had taken 0.64 s, on a processor (EPYC) that others wanted, too.
const (
	openCost  = 10 * time.Millisecond
	pieceCost = 100 * time.Microsecond
	pieceSize = 1 << 10
	scanCost  = 30 * time.Millisecond
	graphCost = 2 * time.Microsecond
)

// A sizedImage is what is known of an image before it is opened.
type sizedImage struct {
	code   uint64                 // bytes of code
	pieces map[sample.Offset]bool // that have samples
}

// foresee tells the budget what the first choice has to open and decode of what was sampled so far, of which rec is the latest.
func (k *Calibrator) foresee(rec *sample.Recording) {
	if k.budget.hasChosen() {
		return
	}
	byImage(k.samplesIn, rec)
	for _, c := range rec.Counts {
		for _, ic := range c.Images {
			key := ic.ID.Key()
			if k.samplesIn[key] == 0 {
				continue
			}
			s := k.sized[key]
			if s == nil {
				s = &sizedImage{codeSize(ic.ID.Path), map[sample.Offset]bool{}}
				k.sized[key] = s
			}
			for off := range ic.At {
				s.pieces[off/pieceSize] = true
			}
		}
	}
	cost := time.Duration(0)
	for _, key := range hottest(k.samplesIn) {
		if s := k.sized[key]; s != nil {
			cost += perMB(openCost, s.code) + time.Duration(len(s.pieces))*pieceCost
		}
	}
	k.budget.opens(cost)
}

// perMB is what so many bytes cost at so much for each MB.
func perMB(cost time.Duration, bytes uint64) time.Duration {
	return time.Duration(float64(bytes) / 1e6 * float64(cost))
}

// codeSize is how many bytes of code there are; 0 of nil.
func (s *sizedImage) codeSize() uint64 {
	if s == nil {
		return 0
	}
	return s.code
}
