package input

import (
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/infer/image"
	"backfeed/infer/truth"
	"backfeed/sample"
)

// A weighedTruth is exact counts by path and address, with their weight among the
// sources.
type weighedTruth struct {
	exact  *truth.Counts
	weight float64
}

// counted makes recordings of the exact counts that were read: executions of blocks in
// the images that are found, where commands look images up. Nothing but a path
// tells these images; where rec has one of that path, it is that.
func (s *Session) counted(rec *sample.Recording) ([]*sample.Recording, error) {
	if len(s.truths) == 0 {
		return nil, nil
	}
	p := placer{Session: s, ids: map[string][]sample.ImageID{}, lost: map[string]uint64{}}
	images := rec.ByImage()
	for _, id := range report.MostFirst(images) {
		p.ids[id.Path] = append(p.ids[id.Path], id)
	}
	var out []*sample.Recording
	for _, t := range s.truths {
		out = append(out, p.recording(t.exact).Scale(t.weight))
	}
	s.truths = nil
	s.notify.Done()
	p.tell()
	if p.sum.Places == 0 {
		return nil, fail.Errorf(fail.Nothing, "no exact count is of code in an image that can be found; name where the binaries are with --symfs DIR")
	}
	return out, nil
}

// A placer puts exact counts to places of images.
type placer struct {
	*Session
	ids  map[string][]sample.ImageID // of sampled images, by path, the one with most samples first
	sum  truth.Counting
	lost map[string]uint64 // executions, by path and why they are not used
}

func (p *placer) recording(exact *truth.Counts) *sample.Recording {
	counts := sample.NewCounts(sample.CPU{}, sample.Executions)
	for _, path := range slices.Sorted(maps.Keys(exact.Images)) {
		p.notify.Progress("putting exact counts to blocks of %s", report.Clean(path))
		id, at, rep, err := p.place(path, exact.Images[path])
		if err != nil {
			p.sum.Total += rep.Total
			p.lost[report.Clean(path)+": "+err.Error()] += rep.Total
			continue
		}
		p.sum.Add(rep)
		if len(at) > 0 {
			i := counts.Image(id)
			for off, n := range at {
				counts.AddCounted(i, off, n)
			}
		}
	}
	return &sample.Recording{Counts: []*sample.Counts{counts}}
}

// place finds the image that was counted at path: a sampled one, or the file there.
func (p *placer) place(path string, it *truth.Image) (id sample.ImageID, at map[sample.Offset]uint64, rep truth.Counting, err error) {
	known := p.ids[path]
	for i := range len(known) + 1 {
		if id = (sample.ImageID{Path: path}); i < len(known) {
			id = known[i]
		}
		var im *image.Image
		if im, err = p.Open(id); err == nil {
			if at, rep, err = it.Counted(im); err == nil {
				if i == len(known) {
					id.Build = im.Build
				}
				return id, at, rep, nil
			}
		}
	}
	rep = truth.Counting{Total: it.Total()}
	return id, nil, rep, err
}

// tell says what became of all exact counts.
func (p *placer) tell() {
	for i, why := range report.MostFirst(p.lost) {
		if i == mostTold {
			p.notify.Warn("the same goes for %d more images", len(p.lost)-mostTold)
			break
		}
		p.notify.Warn("%s of the executions that were counted: %s; they are not used", report.Share(p.lost[why], p.sum.Total), why)
	}
	if p.sum.Places > 0 {
		p.notify.Warn("exact counts of %d blocks; %d left out, as their instructions did not run equally often, which is usual around signals and faults; %s of the executions in no block",
			p.sum.Places, p.sum.Uneven, report.Share(p.sum.Outside+p.sum.Astray, p.sum.Total))
	}
}

// readCover puts the counts of a cover profile to places of the program that
// --image names, which was built without counters.
func (s *Session) readCover(in io.Reader) (*sample.Recording, error) {
	if s.opt.Covered == "" {
		return nil, errors.New("a cover profile does not say of which program it is; `backfeed import PROFILE --binary BINARY -o FILE` makes a recording of it")
	}
	cover, err := truth.ReadCover(in)
	if err != nil {
		return nil, err
	}
	im, err := image.Open(s.opt.Covered, image.Options{})
	if err != nil {
		return nil, err
	}
	defer im.Close()
	s.notify.Progress("looking for source blocks in %s", report.Clean(s.opt.Covered))
	at, rep, err := cover.Place(im)
	s.notify.Done()
	if err != nil {
		return nil, err
	}
	s.notify.Warn("exact counts of %d blocks of source, %d of them placed; of the others, %d have no code on lines of their own, %d have it in several procedures, %d share it, %d contradict another",
		rep.Blocks, rep.Placed, rep.NoCode, rep.Copies, rep.Mixed, rep.Contradicted)
	path, err := filepath.Abs(s.opt.Covered)
	if err != nil {
		return nil, err
	}
	counts := sample.NewCounts(sample.CPU{}, sample.Executions)
	i := counts.Image(sample.ImageID{Build: im.Build, Path: path})
	for off, n := range at {
		counts.AddCounted(i, off, n)
	}
	rec := &sample.Recording{}
	rec.Add(counts)
	return rec, nil
}
