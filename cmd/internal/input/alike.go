package input

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/infer/compare"
	"backfeed/sample"
)

// expected is of how many samples, where some of a kind are to be expected, chance leaves none: one time in 22,000.
const expected = 10

// Alike makes sets ones of the same event, as compare.ChooseEvent does, and of what all of them have: samples of the kernel are left out of
// all where one was recorded without, and they are of no place in it where one has none, or most of its own are in a kernel of which known
// says that code has no names here, as of another build than the one that runs. What it leaves out it says, and what else the sets differ
// by that moves shares. Where known is nil, no names are wanted.
func Alike(sets []*compare.Set, event string, notify report.Notify, known func(set int, id sample.ImageID) bool) (sample.Event, error) {
	ev, err := compare.ChooseEvent(sets, event)
	if err != nil {
		return ev, fail.Wrap(fail.Nothing, err)
	}
	tellOtherEvents(sets, ev, notify)
	changed := alikeKernel(sets, ev, notify, known)
	tellProcessors(sets, notify)
	if changed {
		ev, err = compare.ChooseEvent(sets, ev.Name)
	}
	return ev, fail.Wrap(fail.Nothing, err)
}

// Sampled refuses events that are not of samples: what chance makes of these, by which recordings are compared, explains nothing of waits, each of
// which is counted.
func Sampled(event string) error {
	if sample.IsOff(event) {
		return fail.Errorf(fail.Usage, "--event %s: recordings are compared by what chance makes of samples, and each wait is counted: leave the event out; prof, report and serve show it", event)
	}
	return nil
}

// InferAlike infers what ran of sessions that are compared: from samples of one event, and of what all of them have.
func InferAlike(ctx context.Context, event string, sessions ...*Session) error {
	var sets []*compare.Set
	for _, s := range sessions {
		sets = append(sets, &compare.Set{Name: strings.Join(Names(s.paths), ", "), Recording: s.Recording})
	}
	ev, err := Alike(sets, event, sessions[0].notify, func(set int, id sample.ImageID) bool { return sessions[set].NamesKernel(id) })
	if err != nil {
		return err
	}
	TellAlone(sets, compare.NamesOf(sets), sessions[0].notify)
	for i, s := range sessions {
		s.Recording, s.opt.Infer.Event = sets[i].Recording, ev.Name
		if err := s.Infer(ctx); err != nil {
			return err
		}
	}
	return nil
}

// tellOtherEvents names the events of which sets have more samples than of that which is compared.
func tellOtherEvents(sets []*compare.Set, ev sample.Event, notify report.Notify) {
	var says []string
	for _, s := range sets {
		n := map[string]uint64{}
		for _, c := range s.Recording.Counts {
			n[c.Event.Name] += c.Total
		}
		if most := report.MostFirst(n)[0]; n[most] > n[ev.Name] {
			says = append(says, fmt.Sprintf("%d of %s in %s", n[most], most, s.Name))
		}
	}
	if len(says) > 0 {
		notify.Warn("samples of %s alone are compared; of other events there are more: %s", ev.Name, few(says))
	}
}

// What a set has of the kernel.
const (
	noKernel     = iota // nothing: it was not sampled
	kernelCount         // samples, and not where
	kernelPlaces        // and where
)

// A kernelPart is what a set has of the kernel.
type kernelPart struct {
	all, placed, lost uint64 // samples; those of the kernel with a place and without
	nameless          uint64 // of lost: with a place, of whose code no names are known
	level             int
	chance            bool // what it lacks, chance may explain
}

func kernelPartOf(s *compare.Set, known func(sample.ImageID) bool) (p kernelPart) {
	for _, c := range s.Counts {
		p.all += c.Delivered()
		p.lost += c.Lost[sample.LostKernel]
		for _, ic := range c.Images {
			switch n := ic.Samples(); {
			case !ic.ID.OfKernel():
			case known(ic.ID):
				p.placed += n
			default:
				p.nameless += n
			}
		}
	}
	p.lost += p.nameless
	switch {
	case p.placed > 0 && p.placed >= p.nameless: // of a part without names that is smaller, names are told as missing
		p.level = kernelPlaces
	case p.placed+p.lost > 0:
		p.level = kernelCount
	}
	return p
}

// alikeKernel has all sets know of the kernel what the one knows that knows the least, and reports whether that changed any.
func alikeKernel(sets []*compare.Set, ev sample.Event, notify report.Notify, known func(int, sample.ImageID) bool) (changed bool) {
	parts := make([]kernelPart, len(sets))
	for i, s := range sets {
		parts[i] = kernelPartOf(s, func(id sample.ImageID) bool { return known == nil || known(i, id) })
	}
	// A short recording may have no sample of what it could have.
	for i := range parts {
		own := &parts[i]
		for j := range parts {
			o := &parts[j]
			if o.level <= own.level || o.all == 0 {
				continue
			}
			want := float64(o.placed+o.lost) / float64(o.all) * float64(own.all)
			if own.level == kernelCount {
				want = float64(o.placed) / float64(o.placed+o.lost) * float64(own.lost)
			}
			own.chance = own.chance || want < expected
		}
	}
	least := kernelPlaces
	for _, p := range parts {
		if !p.chance {
			least = min(least, p.level)
		}
	}
	var without, with []string
	nameless := false
	for i, s := range sets {
		switch p := parts[i]; {
		case p.level <= least:
			if !p.chance && p.level == least {
				without = append(without, s.Name)
				nameless = nameless || p.nameless > 0
			}
			if least == kernelCount && p.nameless > 0 { // as of a set with names
				s.Recording = s.Recording.Without(ev.Name, sample.ImageID.OfKernel, "", sample.LostKernel)
			}
			continue
		case least == noKernel:
			s.Recording = s.Recording.Without(ev.Name, sample.ImageID.OfKernel, sample.LostKernel, "")
			with = append(with, fmt.Sprintf("%d of %s (%s)", p.placed+p.lost, s.Name, report.Share(p.placed+p.lost, p.all)))
		default:
			s.Recording = s.Recording.Without(ev.Name, sample.ImageID.OfKernel, "", sample.LostKernel)
			with = append(with, fmt.Sprintf("%d of %s", p.placed, s.Name))
		}
	}
	if len(with) == 0 {
		return false
	}
	for _, s := range sets {
		s.Counts, s.Total = nil, 0
	}
	if least == noKernel {
		notify.Warn("the kernel was not sampled in %s: samples of the kernel are not compared, and shares are of the others: %s", few(without), few(with))
	} else if nameless {
		notify.Warn("the kernel of %s is of another build than the one that runs here, and --symfs has no file of it, or its names may not be read: the kernel is compared as a whole: %s have a place", few(without), few(with))
	} else {
		notify.Warn("places in the kernel are not known in %s: the kernel is compared as a whole: %s have a place", few(without), few(with))
	}
	return true
}

// tellProcessors says that sets were recorded on different processors: code takes other times there.
func tellProcessors(sets []*compare.Set, notify report.Notify) {
	seen := map[string]bool{}
	var says []string
	for _, s := range sets {
		n := map[string]uint64{}
		for _, c := range s.Counts {
			if cpu := c.CPU; cpu != (sample.CPU{}) {
				n[cmp.Or(cpu.Name, fmt.Sprintf("%s %s %d/%d", cpu.Arch, cpu.Vendor, cpu.Family, cpu.Model))] += c.Total
			}
		}
		if len(n) == 0 {
			continue
		}
		cpu := report.MostFirst(n)[0]
		if !seen[cpu] {
			seen[cpu] = true
			says = append(says, s.Name+" on "+report.Clean(cpu))
		}
	}
	if len(says) > 1 {
		notify.Warn("not all was recorded on the same kind of processor: %s: code takes other times there, for which alone shares and times differ", few(says))
	}
	if a, b := clocks(sets); b > alikeClocks*a {
		notify.Warn("the processor ran at %.2f GHz in some of what is compared, and at %.2f GHz in other: times differ for that alone", a, b)
	}
}

// alikeClocks is the ratio of clocks up to which nothing is said of them: that of two runs on one machine differs by some percent.
const alikeClocks = 1.15

// clocks returns the lowest and the highest clock of sets, in GHz; 0 of none.
func clocks(sets []*compare.Set) (least, most float64) {
	for _, s := range sets {
		var clocked, cycles float64
		for _, c := range s.Counts {
			clocked += float64(c.Clocked)
			cycles += float64(c.Cycles)
		}
		if clocked == 0 {
			continue
		}
		ghz := cycles / clocked
		if least == 0 || ghz < least {
			least = ghz
		}
		most = max(most, ghz)
	}
	return least, most
}

// muchAlone is the share of the samples of a set in images that another does not have, from which on it is said.
const muchAlone = 0.1

// TellAlone says where much of a set is of images, by such names, that another has no sample of, as where one is of all processes and the other of
// one program: shares of all samples differ for that alone.
func TellAlone(sets []*compare.Set, names map[sample.ImageID]string, notify report.Notify) {
	by, all := make([]map[string]uint64, len(sets)), make([]float64, len(sets))
	for i, s := range sets {
		by[i] = map[string]uint64{}
		for _, c := range s.Counts {
			all[i] += float64(c.Total)
			for _, ic := range c.Images {
				if !ic.ID.OfKernel() {
					by[i][names[ic.ID]] += ic.Samples()
				}
			}
		}
	}
	var says []string
	most, of := 0.0, 0 // the largest share, and whose it is
	for i, s := range sets {
		alone, lacks := 0.0, map[string]bool{}
		for name, n := range by[i] {
			missing := false
			for j, o := range sets {
				if by[j][name] == 0 && float64(n)/all[i]*all[j] >= expected {
					missing, lacks[o.Name] = true, true
				}
			}
			if missing {
				alone += float64(n)
			}
		}
		if alone >= muchAlone*all[i] && alone > 0 {
			says = append(says, fmt.Sprintf("%s of the samples of %s are of images that %s has none of",
				report.Share(uint64(math.Round(alone)), uint64(all[i])), s.Name, few(slices.Sorted(maps.Keys(lacks)))))
			if alone/all[i] > most {
				most, of = alone/all[i], i
			}
		}
	}
	const why = "shares are of all samples of a recording, and those of what both have differ for that, too"
	if len(says) > 2 { // as of the epochs of a store, each of which has what others have not
		notify.Warn("in %d of %d recordings, much is of images that another has no sample of, most in %s, %s of the samples: %s", len(says), len(sets), sets[of].Name, report.Percent(most), why)
	} else if len(says) > 0 {
		notify.Warn("%s: %s", few(says), why)
	}
}

// few lists the first few of names.
func few(names []string) string { return report.Few(names, mostTold) }
