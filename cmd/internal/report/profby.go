package report

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strconv"

	"backfeed/infer"
	"backfeed/infer/compare"
	"backfeed/infer/image"
	"backfeed/sample"
)

// A profKey is what prof adds samples up by.
type profKey struct {
	image string
	proc  string
	addr  image.Addr // of the procedure: names need not be unique
	file  string
	line  int
	lost  string // why samples have nothing of these
}

func (k profKey) compare(o profKey) int {
	return cmp.Or(cmp.Compare(k.image, o.image), cmp.Compare(k.proc, o.proc), cmp.Compare(k.addr, o.addr),
		cmp.Compare(k.file, o.file), cmp.Compare(k.line, o.line), cmp.Compare(k.lost, o.lost))
}

// A ProfByRow is samples of one event by image, procedure, file or line.
type ProfByRow struct {
	Event   string  `json:"event"`
	Samples uint64  `json:"samples"`
	Share   float64 `json:"share"` // of the samples of the event
	Sum     float64 `json:"sum"`   // of the shares of the event so far
	Image   string  `json:"image,omitempty"`
	Name
	File string `json:"file,omitempty"` // empty is unknown
	Line int    `json:"line,omitempty"`
	Lost string `json:"lost,omitempty"`
}

// A ProfTable is samples of events side by side.
type ProfTable struct {
	by     string
	events []string // the first decides about the order
	keys   []profKey
	n      map[profKey]map[string]uint64 // by event
	total  map[string]uint64             // by event
	paths  map[sample.ImageID]string     // by ImageID.Key: one path for all copies of an image
}

// NewProfTable adds the samples of events up, of which named are known by name alone. Copies of an image have the path that images has, if any. It
// opens the images of samples but by image, for which paths will do. The first n keys are kept, all for 0.
func NewProfTable(rec *sample.Recording, images []sample.ImageID, named map[compare.Named]uint64, open func(sample.ImageID) (*image.Image, error), by string, events []string, n int) *ProfTable {
	t := &ProfTable{by: by, events: events, n: map[profKey]map[string]uint64{}, total: map[string]uint64{}, paths: map[sample.ImageID]string{}}
	for id := range rec.ByImage() {
		if path, ok := t.paths[id.Key()]; !ok || id.Path < path {
			t.paths[id.Key()] = id.Path
		}
	}
	for _, id := range images {
		t.paths[id.Key()] = id.Path
	}
	known := map[string]map[sample.Loss]uint64{} // losses that are something after all
	for at, k := range named {
		if at.Name == "" && by == "procedure" || !slices.Contains(events, at.Event) {
			continue
		}
		key := profKey{image: at.Image.Path}
		if by == "procedure" {
			key.proc = at.Name
		}
		t.add(key, at.Event, k)
		if known[at.Event] == nil {
			known[at.Event] = map[sample.Loss]uint64{}
		}
		known[at.Event][at.Loss] += k
	}
	for _, c := range rec.Counts {
		if !slices.Contains(events, c.Event.Name) {
			continue
		}
		for _, ic := range c.Images {
			addImage(open, t, c.Event.Name, ic)
		}
		for why, k := range c.Lost {
			out := min(k, known[c.Event.Name][why])
			if out > 0 {
				known[c.Event.Name][why] -= out
			}
			t.add(profKey{lost: string(why)}, c.Event.Name, k-out)
		}
	}
	t.keys = slices.SortedFunc(maps.Keys(t.n), func(a, b profKey) int {
		for _, e := range events {
			if d := cmp.Compare(t.n[b][e], t.n[a][e]); d != 0 {
				return d
			}
		}
		return a.compare(b)
	})
	if n > 0 && len(t.keys) > n {
		t.keys = t.keys[:n]
	}
	return t
}

func (t *ProfTable) add(key profKey, event string, n uint64) {
	if n == 0 {
		return
	}
	if t.n[key] == nil {
		t.n[key] = map[string]uint64{}
	}
	t.n[key][event] += n
	t.total[event] += n
}

// addImage adds the samples of an image.
func addImage(open func(sample.ImageID) (*image.Image, error), t *ProfTable, event string, ic *sample.ImageCounts) {
	if t.by == "image" {
		t.add(profKey{image: t.paths[ic.ID.Key()]}, event, ic.Samples())
		return
	}
	im, err := open(ic.ID)
	if err != nil {
		t.add(profKey{lost: string(infer.LostNoImage)}, event, ic.Samples())
		return
	}
	var ln *image.Lines
	if t.by != "procedure" {
		if ln, err = im.Lines(); err != nil {
			ln = nil // all of its lines are unknown
		}
	}
	symbols := im.Symbols()
	for off, n := range ic.At {
		a, ok := im.AddrOf(off)
		key := profKey{image: t.paths[ic.ID.Key()]}
		switch {
		case !ok:
			key = profKey{lost: string(infer.LostNoProc)}
		case t.by == "procedure":
			i := im.Find(a)
			if i < 0 {
				key = profKey{lost: string(infer.LostNoProc)}
				break
			}
			key.proc, key.addr = symbols[i].Name, symbols[i].Addr
		case ln != nil:
			if frames := ln.Frames(a); len(frames) > 0 {
				key.file = frames[0].File
				if t.by == "line" {
					key.line = frames[0].Line
				}
			}
		}
		t.add(key, event, n)
	}
}

// Rows lists the samples of each event, one event after another.
func (t *ProfTable) Rows() []ProfByRow {
	rows := []ProfByRow{}
	for _, e := range t.events {
		sum := 0.0
		for _, k := range t.keys {
			n := t.n[k][e]
			if n == 0 {
				continue
			}
			share := float64(n) / float64(t.total[e])
			sum += share
			rows = append(rows, ProfByRow{e, n, share, min(sum, 1), k.image, NameOf(k.proc), k.file, k.line, k.lost})
		}
	}
	return rows
}

// Text writes the table.
func (t *ProfTable) Text(w io.Writer, style Style) error {
	var columns []Column
	for i, e := range t.events {
		name := AmountHead(e)
		if len(t.events) > 1 {
			name = e
		}
		columns = append(columns, Right(name), Right("share"))
		if i == 0 {
			columns = append(columns, Right("sum").Drop(1))
		}
	}
	columns = append(columns, Paths("image").Drop(3))
	if t.by != "image" {
		columns = append(columns, Procedures(t.by).Main())
	}
	table := NewTable(columns...)
	sum := uint64(0)
	for _, k := range t.keys {
		var cells []string
		for i, e := range t.events {
			n := t.n[k][e]
			cells = append(cells, Amount(e, n), Share(n, t.total[e]))
			if i == 0 {
				sum += n
				cells = append(cells, Share(sum, t.total[e]))
			}
		}
		cells = append(cells, cmp.Or(k.image, "("+k.lost+")"))
		if k.lost != "" && t.by != "image" {
			cells[len(cells)-1] = ""
		}
		if t.by != "image" {
			cells = append(cells, k.name(t.by, style))
		}
		table.Row(cells...)
	}
	return table.Print(w, style)
}

// name is what the last column calls k.
func (k profKey) name(by string, style Style) string {
	switch {
	case k.lost != "":
		return "(" + k.lost + ")"
	case by == "procedure":
		return style.NameOf(k.proc)
	case k.file == "":
		return "(unknown)"
	case k.line > 0:
		return k.file + ":" + strconv.Itoa(k.line)
	}
	return k.file
}

// Placed reports whether any sample is of an image, or known by name.
func (t *ProfTable) Placed() bool {
	for k := range t.n {
		if k.lost == "" {
			return true
		}
	}
	return false
}

// ProfEvents lists the events of the recording: first, then others by falling samples.
func ProfEvents(first string, rec *sample.Recording) []string {
	n := map[string]uint64{}
	for _, c := range rec.Counts {
		if c.Total > 0 {
			n[c.Event.Name] += c.Total
		}
	}
	delete(n, first)
	return append([]string{first}, MostFirst(n)...)
}
