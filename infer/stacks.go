package infer

import (
	"slices"

	"backfeed/infer/image"
	"backfeed/sample"
)

// Stacks returns the stacks of c, which p was inferred from, with their callers put
// right: unwinding by frame pointers misses the caller of a procedure that has not set
// up its frame, or keeps none. The return address is then one of the words at the
// stack pointer, or on AArch64 in the link register, Stack.Top, and the frame pointer still the caller's, so what the
// unwinder found first is the caller's caller. That is so at one Go sample in four and
// one in fifteen of C with frame pointers.
//
// Where no words were recorded, or it is not known where the return address is, a
// stack stays as it is.
func (p *Profile) Stacks(c *sample.Counts) []sample.Stack { return stacks(c, p.Images) }

func stacks(c *sample.Counts, known []*ImageProfile) []sample.Stack {
	if len(c.Stacks) == 0 {
		return nil
	}
	images := profilesOf(c, known)
	none := sample.Frame{Image: sample.Unknown}
	out := slices.Clone(c.Stacks)
	for i := range out {
		s := &out[i]
		if s.Top != none && images[s.Frames[0].Image] != nil && missesCaller(images[s.Frames[0].Image].Image, s) {
			s.Frames = slices.Insert(slices.Clone(s.Frames), 1, s.Top)
		}
		s.Top = none
	}
	return out
}

// profilesOf returns by image of c its profile, or nil where it is not known.
func profilesOf(c *sample.Counts, known []*ImageProfile) []*ImageProfile {
	byKey := make(map[sample.ImageID]*ImageProfile, len(known))
	for _, ip := range known {
		byKey[ip.ID.Key()] = ip
	}
	out := make([]*ImageProfile, len(c.Images))
	for i, ic := range c.Images {
		out[i] = byKey[ic.ID.Key()]
	}
	return out
}

// missesCaller reports whether Top is the return address of the sampled instruction's
// procedure, and Frames lack it. Above the word of a saved frame pointer it is there
// before and after the frame pointer is set up; unwinding has found it after.
func missesCaller(im *image.Image, s *sample.Stack) bool {
	a, ok := im.AddrOf(s.Frames[0].Off)
	if !ok {
		return false
	}
	if im.Arch == image.AArch64 {
		return im.ReturnsByLink(a)
	}
	switch at, known := im.ReturnAt(a); {
	case !known || at.Frame:
		return false
	case at.Off == 8:
		return len(s.Frames) == 1 || s.Frames[1] != s.Top
	default:
		return at.Off == 0
	}
}
