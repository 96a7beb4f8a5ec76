package input

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/infer/compare"
	"backfeed/sample"
	"backfeed/sample/store"
)

// hostSamples are those of one host of a store.
type hostSamples struct {
	name   string // by HostLabel; "" has none
	rec    *sample.Recording
	epochs []sample.Epoch
}

// eachHost reads what is selected of a store, one host after the other, by name; what has no host is one.
func (s *Session) eachHost(ctx context.Context, dir string, f func(hostSamples)) error {
	opened, segments, err := s.segments(dir)
	if err != nil {
		return err
	}
	epochs := map[string][]sample.Epoch{}
	for _, seg := range segments {
		q := s.query()
		if q.Matches(seg.Epoch, seg.Labels) {
			epochs[seg.Labels[HostLabel]] = append(epochs[seg.Labels[HostLabel]], seg.Epoch)
		}
	}
	names := slices.Sorted(maps.Keys(epochs))
	var qs []store.Query
	for _, name := range names {
		q := s.query()
		q.Labels = maps.Clone(q.Labels)
		if q.Labels == nil {
			q.Labels = map[string]string{}
		}
		if name != "" {
			q.Labels[HostLabel] = name
		} else { // what has none of the others' names, and none of those left out
			q.Labels[HostLabel+"!"] = strings.Join(append(names, s.opt.Labels[HostLabel+"!"]), "|")
		}
		qs = append(qs, q)
	}
	err = opened.ReadEach(qs, func(i int, rec *sample.Recording) error {
		s.notify.Progress("read host %s of %s", report.Clean(names[i]), dir)
		f(hostSamples{names[i], rec, epochs[names[i]]})
		return ctx.Err()
	})
	s.notify.Done()
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%s: %w", dir, err)
	}
	return err
}

// Hosts reads stores by host, for comparison.
func (s *Session) Hosts(ctx context.Context, dirs []string) ([]compare.HostSet, error) {
	sets := map[string]*compare.HostSet{}
	for _, dir := range dirs {
		if !store.Is(dir) {
			return nil, fail.Errorf(fail.Usage, "%s: only a store knows of hosts: those that agents mark with --label %s=NAME", Name(dir), HostLabel)
		}
		err := s.eachHost(ctx, dir, func(h hostSamples) {
			set := sets[h.name]
			if set == nil {
				set = &compare.HostSet{Name: h.name, Shares: map[compare.Thing]uint64{}}
				sets[h.name] = set
			}
			set.Epochs = append(set.Epochs, h.epochs...)
			set.Excess += sample.Excess(h.rec.Counts)
			for id, n := range h.rec.ByImage() {
				set.Shares[compare.Thing{Image: id.Key().String()}] += n
			}
			for why, n := range h.rec.Lost() {
				if why != sample.LostDropped { // which is of the machine, not of what it ran
					set.Shares[compare.Thing{Lost: string(why)}] += n
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	var all []compare.HostSet
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		all = append(all, *sets[name])
	}
	return all, nil
}

// readBounded reads what is selected of a store such that no host has more than a share of the samples of all, and tells
// which were scaled. Where there are too few hosts for that, all have equally many.
func (s *Session) readBounded(ctx context.Context, dir string, most float64) (*sample.Recording, error) {
	var hosts []hostSamples
	if err := s.eachHost(ctx, dir, func(h hostSamples) { hosts = append(hosts, h) }); err != nil {
		return nil, err
	}
	counts := make([]float64, len(hosts))
	for i, h := range hosts {
		counts[i] = float64(h.rec.Samples())
	}
	bound := boundOf(counts, most)
	var parts []*sample.Recording
	for i, h := range hosts {
		if counts[i] > bound {
			s.notify.Warn("%s: host %s: %.0f samples count as %.0f, %s of all: --max-host-share", dir, report.Clean(h.name), counts[i], bound, report.Percent(most))
			h.rec = h.rec.Scale(bound / counts[i])
		}
		parts = append(parts, h.rec)
	}
	if len(hosts) > 0 && float64(len(hosts))*most < 1 {
		s.notify.Warn("%s: %d hosts cannot have at most %s each: all have equally many", dir, len(hosts), report.Percent(most))
	}
	return sample.Merge(parts...), nil
}

// boundOf returns how many samples a host may have such that none has more than a share of what all have with that bound: the
// largest such number, or the least count if there are too few hosts.
func boundOf(counts []float64, most float64) float64 {
	sorted := slices.Sorted(slices.Values(counts))
	if len(sorted) == 0 {
		return 0
	}
	// With the k largest at the bound b, b = most * (rest + k*b).
	rest := 0.0
	for _, n := range sorted {
		rest += n
	}
	if sorted[len(sorted)-1] <= most*rest {
		return sorted[len(sorted)-1]
	}
	for k := 1; k < len(sorted); k++ {
		rest -= sorted[len(sorted)-k]
		if over := 1 - most*float64(k); over > 0 {
			if b := most * rest / over; b >= sorted[len(sorted)-k-1] {
				return b
			}
		}
	}
	return sorted[0]
}
