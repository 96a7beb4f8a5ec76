package compare

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// A Set is the samples of one recording, for comparison with others.
type Set struct {
	Name      string
	Epoch     *sample.Epoch // of a store's, when it was; nil of others
	Recording *sample.Recording
	Counts    []*sample.Counts // those of the event that is compared, once ChooseEvent has chosen it
	Total     uint64           // samples of that event, the lost ones included
}

// A Thing is what samples of several sets are added up by: a procedure, an image, or
// the reason why samples have neither.
type Thing struct {
	Image string // its path in the first set that has it
	Proc  string
	Nth   int // of the procedures of that name in the image, by address
	Lost  string
}

// Compare orders things by image, then procedure.
func (t Thing) Compare(o Thing) int {
	return cmp.Or(cmp.Compare(t.Image, o.Image), cmp.Compare(t.Proc, o.Proc), cmp.Compare(t.Nth, o.Nth), cmp.Compare(t.Lost, o.Lost))
}

// A Named is samples of one procedure that is known by its name alone: those of code
// without a file.
type Named struct {
	Event string
	Image sample.ImageID
	Name  string      // "" is unknown
	Loss  sample.Loss // what it is to an inference
}

// ChooseEvent makes all sets ones of the same event: that of the name, or, for "", the one of
// which the set with the fewest has most. It is an error if not all have samples of it.
func ChooseEvent(sets []*Set, name string) (sample.Event, error) {
	asked := name != ""
	least := map[string]uint64{}
	events := map[string]sample.Event{}
	for i, s := range sets {
		n := map[string]uint64{}
		for _, c := range s.Recording.Counts {
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
		for _, event := range slices.Sorted(maps.Keys(least)) {
			// Page faults and the like tell of time only where nothing else does.
			mere := func(event string) int {
				if least[event] > 0 && events[event].Unit != "events" {
					return 1
				}
				return 0
			}
			if name == "" || cmp.Or(cmp.Compare(mere(event), mere(name)), cmp.Compare(least[event], least[name])) > 0 {
				name = event
			}
		}
	} else if like := likeEvent(least, name); least[name] == 0 && like != "" {
		name = like
	}
	if least[name] == 0 {
		if asked {
			return sample.Event{}, fmt.Errorf("not all of the recordings have samples of event %q: %s", name, eventsOf(sets))
		}
		return sample.Event{}, fmt.Errorf("no event has samples in all of the recordings: %s", eventsOf(sets))
	}
	for _, s := range sets {
		s.Counts, s.Total = nil, 0
		for _, c := range s.Recording.Counts {
			if c.Event.Name == name {
				s.Counts = append(s.Counts, c)
				s.Total += c.Total
			}
		}
	}
	return events[name], nil
}

// likeEvent returns the event that name is short for, as "instructions" is for instructions:pp; "" if there is not one.
func likeEvent(least map[string]uint64, name string) (like string) {
	for event, n := range least {
		if n > 0 && sample.BareEvent(event) == name {
			if like != "" {
				return ""
			}
			like = event
		}
	}
	return like
}

// eventsOf lists what each set has samples of.
func eventsOf(sets []*Set) string {
	var parts []string
	for _, s := range sets {
		var names []string
		for _, c := range s.Recording.Counts {
			if c.Total > 0 && !slices.Contains(names, c.Event.Name) {
				names = append(names, c.Event.Name)
			}
		}
		parts = append(parts, fmt.Sprintf("%s has %s", s.Name, strings.Join(names, ", ")))
	}
	return strings.Join(parts, "; ")
}

// ImageNames returns one name for the images of several recordings that are one program: the
// same build, the same path, or, if no recording has two of them, the same file name, else the
// same name up to its first dot and but for a number at its end: app and app.bolt, svc1 and svc2.
func ImageNames(recs ...*sample.Recording) map[sample.ImageID]string {
	bases, stems := newOnce(filepath.Base), newOnce(stem)
	var images [][]sample.ImageID // by recording
	for _, rec := range recs {
		ids := slices.SortedFunc(maps.Keys(rec.ByImage()), sample.ImageID.Compare)
		bases.see(ids)
		stems.see(ids)
		images = append(images, ids)
	}
	names := map[sample.ImageID]string{}
	builds := map[sample.ImageID]string{}
	for _, ids := range images {
		for _, id := range ids {
			name := id.Path
			if known, ok := builds[id.Key()]; ok {
				name = known
			} else if known := cmp.Or(bases.known(id), stems.known(id)); known != "" {
				name = known
			}
			names[id], builds[id.Key()] = name, name
			bases.first(id, name)
			stems.first(id, name)
		}
	}
	return names
}

// A once tells images by part of their paths, where no recording has two of them with the same.
type once struct {
	part  func(path string) string // "" of a path that has none
	alone map[string]bool          // whether no recording has two images with the part
	names map[string]string        // the name of the first image with it
}

func newOnce(part func(string) string) *once {
	return &once{part, map[string]bool{}, map[string]string{}}
}

// see takes in the images of a recording.
func (o *once) see(ids []sample.ImageID) {
	seen := map[string]sample.ImageID{}
	for _, id := range ids {
		part := o.part(id.Path)
		other, twice := seen[part]
		if _, ok := o.alone[part]; !ok {
			o.alone[part] = true
		}
		if twice && other.Key() != id.Key() {
			o.alone[part] = false
		}
		seen[part] = id
	}
}

// known returns the name of the image that has the same part; "" if there is none.
func (o *once) known(id sample.ImageID) string {
	if part := o.part(id.Path); part != "" && o.alone[part] {
		return o.names[part]
	}
	return ""
}

func (o *once) first(id sample.ImageID, name string) {
	if part := o.part(id.Path); o.names[part] == "" {
		o.names[part] = name
	}
}

// stem is a file's name up to its first dot, without the number at its end: what builds of one program that lie beside each other, and
// versions of one library, have in common. It is "" of what is no file.
func stem(path string) string {
	if !filepath.IsAbs(path) {
		return ""
	}
	base, _, _ := strings.Cut(filepath.Base(path), ".")
	if short := strings.TrimRight(base, "0123456789"); short != base {
		base = strings.TrimRight(short, "-_v")
	}
	return base
}

// NamesOf is ImageNames of the recordings of sets.
func NamesOf(sets []*Set) map[sample.ImageID]string {
	var recs []*sample.Recording
	for _, s := range sets {
		recs = append(recs, s.Recording)
	}
	return ImageNames(recs...)
}

// Tally returns the samples of the chosen event by procedure, or by image. Those that have
// none are there by their reason; named are some of them, by name. Images have the names that
// ImageNames gave them, and open opens them.
func (s *Set) Tally(open func(sample.ImageID) (*image.Image, error), names map[sample.ImageID]string, named map[Named]uint64, byImage bool) map[Thing]uint64 {
	n := map[Thing]uint64{}
	known := map[sample.Loss]uint64{} // losses that are something after all
	event := s.Counts[0].Event.Name
	for at, k := range named {
		t := Thing{Image: at.Image.Path, Proc: at.Name}
		switch {
		case at.Event != event:
			continue
		case byImage:
			t.Proc = ""
		case at.Name == "":
			continue
		}
		n[t] += k
		known[at.Loss] += k
	}
	for _, c := range s.Counts {
		for _, ic := range c.Images {
			if ic.Samples() == 0 {
				continue
			}
			t := Thing{Image: names[ic.ID]}
			if byImage {
				n[t] += ic.Samples()
				continue
			}
			im, err := open(ic.ID)
			if err != nil {
				n[Thing{Lost: string(infer.LostNoImage)}] += ic.Samples()
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
				n[Thing{Lost: string(why)}] += k
			}
		}
	}
	return n
}

// addProcs adds the samples of an image by procedure.
func addProcs(n map[Thing]uint64, t Thing, im *image.Image, ic *sample.ImageCounts) {
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
		n[Thing{Lost: string(infer.LostNoProc)}] += k
	}
	nth := map[string]int{}
	for i := range symbols {
		t.Proc = symbols[i].Name
		t.Nth = nth[t.Proc]
		nth[t.Proc]++
		if k := by[i]; k > 0 {
			n[t] += k
		}
	}
}

// A Varied is how one thing's part of the samples varies between sets.
type Varied struct {
	Thing
	Spread
	Share  float64   // of all samples of all sets
	Values []float64 // of each set: a share of its samples, or samples
}

// Variation compares sets by what Tally returned for each. Values are shares of the samples of
// a set if shares is set, and samples otherwise. What varies comes first, by its range; then
// the rest, by its samples.
func Variation(sets []*Set, tallies []map[Thing]uint64, shares bool) []Varied {
	samples := map[Thing][]uint64{}
	var totals []uint64
	var each []float64
	var all uint64
	for i, s := range sets {
		each = append(each, sample.Dispersion(s.Counts))
		for t, n := range tallies[i] {
			if samples[t] == nil {
				samples[t] = make([]uint64, len(sets))
			}
			samples[t][i] = n
		}
		totals = append(totals, s.Total)
		all += s.Total
	}
	things := slices.SortedFunc(maps.Keys(samples), Thing.Compare)
	var counts [][]uint64
	for _, t := range things {
		counts = append(counts, samples[t])
	}
	rows := make([]Varied, len(things))
	for i, s := range Spreads(counts, totals, each, shares) {
		rows[i] = Varied{Thing: things[i], Spread: s, Share: float64(s.Sum) / float64(all)}
		for k, n := range counts[i] {
			v := float64(n)
			if shares {
				v /= float64(totals[k])
			}
			rows[i].Values = append(rows[i].Values, v)
		}
	}
	slices.SortStableFunc(rows, func(a, b Varied) int {
		if a.Varies != b.Varies {
			if a.Varies {
				return -1
			}
			return 1
		}
		if a.Varies && a.RelativeRange != b.RelativeRange {
			return cmp.Compare(b.RelativeRange, a.RelativeRange)
		}
		return cmp.Compare(b.Sum, a.Sum)
	})
	return rows
}
