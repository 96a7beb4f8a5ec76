package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// A set is the samples of one recording, for comparison with others.
type set struct {
	name   string
	rec    *sample.Recording
	counts []*sample.Counts // of the event that is compared
	total  uint64           // samples of that event, the lost ones included
}

// A thing is what samples of several sets are added up by: a procedure, an image, or
// the reason why samples have neither.
type thing struct {
	image string // its path in the first set that has it
	proc  string
	nth   int // of the procedures of that name in the image, by address
	lost  string
}

func (t thing) compare(o thing) int {
	return cmp.Or(cmp.Compare(t.image, o.image), cmp.Compare(t.proc, o.proc), cmp.Compare(t.nth, o.nth), cmp.Compare(t.lost, o.lost))
}

// readSets reads each path as a set of its own; with epochs, each epoch of stores.
func readSets(src *input.Session, paths []string, epochs bool) ([]*set, error) {
	read, err := src.ReadSets(context.Background(), paths, epochs)
	var sets []*set
	for _, s := range read {
		sets = append(sets, &set{name: s.Name, rec: s.Recording})
	}
	return sets, err
}

// chooseEvent makes all sets ones of the same event: that of the name, or the one of
// which the set with the fewest has most.
func chooseEvent(sets []*set, name string) (sample.Event, error) {
	least := map[string]uint64{}
	events := map[string]sample.Event{}
	for i, s := range sets {
		n := map[string]uint64{}
		for _, c := range s.rec.Counts {
			n[c.Event.Name] += c.Total
			events[c.Event.Name] = c.Event
		}
		for event, k := range n {
			if i == 0 {
				least[event] = k
			}
		}
		for event := range least {
			least[event] = min(least[event], n[event])
		}
	}
	if name == "" {
		name = report.MostFirst(least)[0]
	}
	if least[name] == 0 {
		return sample.Event{}, fail.Errorf(fail.Nothing, "no event has samples in all of the recordings: %s", eventsOf(sets))
	}
	for _, s := range sets {
		for _, c := range s.rec.Counts {
			if c.Event.Name == name {
				s.counts = append(s.counts, c)
				s.total += c.Total
			}
		}
	}
	return events[name], nil
}

// eventsOf lists what each set has samples of.
func eventsOf(sets []*set) string {
	var parts []string
	for _, s := range sets {
		var names []string
		for _, c := range s.rec.Counts {
			if c.Total > 0 && !slices.Contains(names, c.Event.Name) {
				names = append(names, c.Event.Name)
			}
		}
		parts = append(parts, fmt.Sprintf("%s has %s", s.name, strings.Join(names, ", ")))
	}
	return strings.Join(parts, "; ")
}

// imageNames assigns images of several sets one name where they are one program: the
// same build, the same path, or, if no set has two of them, the same file name.
func imageNames(sets []*set) map[sample.ImageID]string {
	alone := map[string]bool{}
	for _, s := range sets {
		seen := map[string]sample.ImageID{}
		for id := range s.rec.ByImage() {
			base := filepath.Base(id.Path)
			if other, ok := seen[base]; ok && other.Key() != id.Key() {
				alone[base] = false
			} else if _, ok := alone[base]; !ok {
				alone[base] = true
			}
			seen[base] = id
		}
	}
	names := map[sample.ImageID]string{}
	builds, bases := map[sample.ImageID]string{}, map[string]string{}
	for _, s := range sets {
		for _, id := range slices.SortedFunc(maps.Keys(s.rec.ByImage()), sample.ImageID.Compare) {
			name, base := id.Path, filepath.Base(id.Path)
			if known, ok := builds[id.Key()]; ok {
				name = known
			} else if known, ok := bases[base]; ok && alone[base] {
				name = known
			}
			names[id], builds[id.Key()] = name, name
			if _, ok := bases[base]; !ok {
				bases[base] = name
			}
		}
	}
	return names
}

// tally adds up the samples of a set by procedure, or by image. Samples that have
// none are there by their reason.
func (s *set) tally(src *input.Session, names map[sample.ImageID]string, byImage bool) map[thing]uint64 {
	n := map[thing]uint64{}
	known := map[sample.Loss]uint64{} // losses that are something after all
	event := s.counts[0].Event.Name
	for at, k := range input.TakeNamed(s.rec) {
		t := thing{image: at.Image.Path, proc: at.Name}
		switch {
		case at.Event != event:
			continue
		case byImage:
			t.proc = ""
		case at.Name == "":
			continue
		}
		n[t] += k
		known[at.Loss] += k
	}
	for _, c := range s.counts {
		for _, ic := range c.Images {
			if ic.Samples() == 0 {
				continue
			}
			t := thing{image: names[ic.ID]}
			if byImage {
				n[t] += ic.Samples()
				continue
			}
			im, err := src.Open(ic.ID)
			if err != nil {
				n[thing{lost: string(infer.LostNoImage)}] += ic.Samples()
				continue
			}
			addProcs(n, t, im, ic)
		}
		for why, k := range c.Lost {
			if out := min(k, known[why]); out > 0 {
				known[why] -= out
				k -= out
			}
			if k > 0 {
				n[thing{lost: string(why)}] += k
			}
		}
	}
	return n
}

// addProcs adds the samples of an image by procedure.
func addProcs(n map[thing]uint64, t thing, im *image.Image, ic *sample.ImageCounts) {
	symbols := im.Symbols()
	by := map[int]uint64{} // symbol, or -1
	for off, k := range ic.At {
		i := -1
		if a, ok := im.AddrOf(off); ok {
			i = im.Find(a)
		}
		by[i] += k
	}
	if k := by[-1]; k > 0 {
		n[thing{lost: string(infer.LostNoProc)}] += k
	}
	nth := map[string]int{}
	for i := range symbols {
		t.proc = symbols[i].Name
		t.nth = nth[t.proc]
		nth[t.proc]++
		if k := by[i]; k > 0 {
			n[t] += k
		}
	}
}

// tellMissing names the images of all sets that could not be opened.
func tellMissing(src *input.Session, sets []*set) {
	var all []*sample.Recording
	for _, s := range sets {
		all = append(all, s.rec)
	}
	src.TellImages(sample.Merge(all...))
}
