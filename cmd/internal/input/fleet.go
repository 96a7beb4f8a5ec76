package input

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"backfeed/infer/compare"
	"backfeed/sample"
	"backfeed/sample/store"
)

// A Fleet is what stores have of a selection, stretch of time by stretch of time.
type Fleet struct {
	Steps  []FleetStep
	Labels map[string]map[string]uint64 // samples of the selection's time by value, by label; the lost ones included
	Older  int                          // stretches that were left out, which are older
}

// A FleetStep is one stretch of time: an epoch, or what epochs of several lengths cover.
type FleetStep struct {
	Epoch   sample.Epoch
	Samples uint64  // the lost ones included
	excess  float64 // of their variance, as sample.Counts has it
	Images  map[string]uint64
	Builds  map[string][]string // build IDs by path of image, sorted
	Hosts   int                 // 0 is unknown
}

// maxFleetSteps bounds the stretches of time that are read, the newest first.
const maxFleetSteps = 400

// HasStore reports whether a source that was read is a store.
func (s *Session) HasStore() bool { return len(s.stores) > 0 }

// Fleet reads the stores of the session again, by time; labels choose further, beside those of the session. It may be called while
// other methods are.
func (s *Session) Fleet(ctx context.Context, labels map[string]string) (*Fleet, error) {
	f := &Fleet{Labels: map[string]map[string]uint64{}}
	q := s.query()
	q.Labels = maps.Clone(q.Labels)
	if q.Labels == nil {
		q.Labels = map[string]string{}
	}
	maps.Copy(q.Labels, labels)
	var segments []store.Segment
	for _, opened := range s.stores {
		all, err := opened.Segments()
		if err != nil {
			return nil, err
		}
		whole := s.query()
		for _, seg := range all {
			if !whole.Matches(seg.Epoch, seg.Labels) {
				continue
			}
			for name, value := range seg.Labels { // all of the session, so that another can be chosen
				if f.Labels[name] == nil {
					f.Labels[name] = map[string]uint64{}
				}
				f.Labels[name][value] += seg.Samples
			}
			if q.Matches(seg.Epoch, seg.Labels) {
				segments = append(segments, seg)
			}
		}
	}
	spans := s.disjoint(segments)
	if f.Older = max(0, len(spans)-maxFleetSteps); f.Older > 0 {
		spans = spans[f.Older:]
	}
	var qs []store.Query
	for _, e := range spans {
		at := queryOf(q, e)
		hosts := map[string]bool{}
		for _, seg := range segments {
			if host := seg.Labels[HostLabel]; host != "" && at.Matches(seg.Epoch, seg.Labels) {
				hosts[host] = true
			}
		}
		qs = append(qs, at)
		f.Steps = append(f.Steps, FleetStep{Epoch: e, Hosts: len(hosts), Images: map[string]uint64{}, Builds: map[string][]string{}})
	}
	for _, opened := range s.stores {
		read := 0
		err := opened.ReadEach(qs, func(i int, rec *sample.Recording) error {
			f.Steps[i].add(rec)
			read++
			return ctx.Err()
		})
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, fmt.Errorf("epoch of %s: %w", spans[read].From().Format(time.RFC3339), err)
		}
	}
	return f, nil
}

// add adds the samples of a recording.
func (st *FleetStep) add(rec *sample.Recording) {
	st.excess += sample.Excess(rec.Counts)
	for id, n := range rec.ByImage() {
		st.Samples += n
		st.Images[id.Path] += n
		if build := id.Build.String(); !id.Build.IsZero() && !slices.Contains(st.Builds[id.Path], build) {
			st.Builds[id.Path] = append(st.Builds[id.Path], build)
			slices.Sort(st.Builds[id.Path])
		}
	}
	for _, n := range rec.Lost() {
		st.Samples += n
	}
}

// dispersion is as sample.Dispersion.
func (st *FleetStep) dispersion() float64 { return 1 + st.excess/max(1, float64(st.Samples)) }

// A FleetChange is what changed between two stretches of time.
type FleetChange struct {
	At        sample.Epoch // the later one
	Image     string
	Old, New  []string // build IDs, where these changed
	Shares    [2]float64
	Low, High float64 // of the difference of the shares, with 95 % confidence
	Real      bool    // chance does not explain the difference of the shares
}

// Changes returns what changed between neighbours: builds, and shares of images that chance does not explain, by time.
func (f *Fleet) Changes() (all []FleetChange) {
	var pairs [][2]uint64
	var totals [][2]uint64
	var each []compare.Each
	for i := 1; i < len(f.Steps); i++ {
		a, b := &f.Steps[i-1], &f.Steps[i]
		names := map[string]bool{}
		for _, st := range []*FleetStep{a, b} {
			for name := range st.Images {
				names[name] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			n, t := [2]uint64{a.Images[name], b.Images[name]}, [2]uint64{a.Samples, b.Samples}
			ch := FleetChange{At: b.Epoch, Image: name, Old: a.Builds[name], New: b.Builds[name]}
			if t[0] > 0 && t[1] > 0 {
				ch.Shares = [2]float64{float64(n[0]) / float64(t[0]), float64(n[1]) / float64(t[1])}
			}
			ch.Low, ch.High = compare.Interval(n, t, compare.Each{a.dispersion(), b.dispersion()})
			pairs, totals, all = append(pairs, n), append(totals, t), append(all, ch)
			each = append(each, compare.Each{a.dispersion(), b.dispersion()})
		}
	}
	for i, real := range compare.ChangesOf(pairs, totals, each) {
		all[i].Real = real.Real
	}
	return slices.DeleteFunc(all, func(ch FleetChange) bool { return !ch.Real && !ch.OtherBuild() })
}

// OtherBuild reports whether the image was there before and has another build ID now.
func (ch *FleetChange) OtherBuild() bool {
	return len(ch.Old) > 0 && len(ch.New) > 0 && !slices.Equal(ch.Old, ch.New)
}
