package web

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"time"

	"github.com/google/pprof/driver"
	"github.com/google/pprof/profile"

	"backfeed/cmd/internal/report"
	"backfeed/infer/image"
	"backfeed/sample"
)

// Pprof returns pprof's own interface to the samples of v. It sees the images
// that the inference found, through ours: it opens no other, and runs no tool but
// Graphviz's dot. Its page of source is not there, since it opens whatever files the
// debug information names: sourcePage stands for it.
func (v *View) Pprof() (http.Handler, error) {
	tool := &pprofImages{}
	prof := v.pprofProfile(tool)
	var handlers map[string]http.Handler
	err := driver.PProf(&driver.Options{
		Flagset: &pprofFlags{set: flag.NewFlagSet("pprof", flag.ContinueOnError)},
		Fetch:   pprofFetcher{prof}, Sym: pprofSymbols{}, Obj: tool, UI: pprofUI{},
		HTTPServer: func(args *driver.HTTPServerArgs) error {
			handlers = args.Handlers
			return nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("pprof: %w", err)
	}
	// They write pprof's settings on disk, for any site that links to them.
	delete(handlers, "/saveconfig")
	delete(handlers, "/deleteconfig")
	delete(handlers, "/source")
	v.matches = tool.matches(v.procs, prof)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := handlers[r.URL.Path]
		if h == nil {
			http.NotFound(w, r)
			return
		}
		if _, err := exec.LookPath("dot"); err != nil && r.URL.Path == "/graph" {
			http.Error(w, "This picture needs dot, of Graphviz. The flame graph and the flow graphs of procedures do not.", http.StatusNotImplemented)
			return
		}
		// Its pages have their scripts and styles inside.
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
		answer := &wayBack{ResponseWriter: w}
		h.ServeHTTP(answer, r)
		answer.end()
	}), nil
}

// wayBack is an answer of pprof, which gets a link to our pages beside its own name. What is not
// such a page is as it was.
type wayBack struct {
	http.ResponseWriter
	b bytes.Buffer
}

func (a *wayBack) Write(b []byte) (int, error) { return a.b.Write(b) }

func (a *wayBack) end() {
	const name = `<h1><a href="./">pprof</a></h1>`
	a.ResponseWriter.Write(bytes.Replace(a.b.Bytes(), []byte(name), []byte(name+` <a href="/flamegraph">back to backfeed</a>`), 1))
}

// matches returns what pprof's page of source matches a pattern with: for each procedure
// the names of functions that are inlined in it where samples are, and of their files.
func (t *pprofImages) matches(procs []*viewed, prof *profile.Profile) map[*viewed][]string {
	type key struct {
		im    *image.Image
		start image.Addr
	}
	at := map[key]*viewed{}
	for _, p := range procs {
		at[key{p.ip.Image, p.r.Proc.Addr}] = p
	}
	found := map[*viewed]map[string]bool{}
	for _, l := range prof.Location {
		if l.Mapping == nil {
			continue
		}
		o := t.images[l.Mapping.ID-1]
		i := o.im.Find(image.Addr(l.Address - o.base))
		if i < 0 {
			continue
		}
		p := at[key{o.im, o.im.Symbols()[i].Addr}]
		if p == nil {
			continue
		}
		if found[p] == nil {
			found[p] = map[string]bool{l.Mapping.File: true}
		}
		for _, line := range l.Line {
			found[p][line.Function.Name], found[p][line.Function.SystemName], found[p][line.Function.Filename] = true, true, true
		}
	}
	matches := map[*viewed][]string{}
	for p, names := range found {
		matches[p] = slices.Sorted(maps.Keys(names))
	}
	return matches
}

// apart is how far the addresses of images are apart in the profile, since images of
// their own may overlap.
const apart = 1 << 48

// pprofProfile returns the samples of the event that the counts were inferred from, with
// the names and lines of the images.
func (v *View) pprofProfile(tool *pprofImages) *profile.Profile {
	event := v.src.Profile.Event
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}}, DefaultSampleType: "samples"}
	if event.Period > 0 {
		p.Period = int64(min(event.Period, 1<<40))
		p.PeriodType = &profile.ValueType{Type: event.Name, Unit: "count"}
		if event.Unit == "ns" {
			p.PeriodType = &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
		}
		p.SampleType = append(p.SampleType, p.PeriodType)
		p.DefaultSampleType = p.PeriodType.Type
	}
	w := &pprofWriter{p: p, v: v, tool: tool, mappings: map[sample.ImageID]int{}, locations: map[pprofPlace]*profile.Location{}, names: map[string]*profile.Location{}, functions: map[profile.Function]*profile.Function{}}
	var used []*sample.Counts
	most := map[sample.ImageID]uint64{}
	for _, c := range v.src.Recording.Counts {
		if c.Event.Name == event.Name {
			used = append(used, c)
			for _, ic := range c.Images {
				most[ic.ID] += ic.Samples()
			}
		}
	}
	for _, id := range report.MostFirst(most) {
		w.mapping(id) // pprof names a profile by the first
	}
	for _, c := range used {
		w.add(c)
	}
	return p
}

// A pprofPlace is an instruction of an image of the profile, or where control returns to.
type pprofPlace struct {
	mapping int
	addr    image.Addr
}

// A pprofWriter fills a profile.
type pprofWriter struct {
	p         *profile.Profile
	v         *View
	tool      *pprofImages
	mappings  map[sample.ImageID]int // by key; indices into p.Mapping, -1 where there is no image
	locations map[pprofPlace]*profile.Location
	names     map[string]*profile.Location // that are but a name
	functions map[profile.Function]*profile.Function
}

// add adds the samples of c: those with a stack, then what is left at each place.
func (w *pprofWriter) add(c *sample.Counts) {
	at := make([]int, len(c.Images))
	rest := make([]map[sample.Offset]uint64, len(c.Images))
	for i, ic := range c.Images {
		at[i] = w.mapping(ic.ID)
		rest[i] = make(map[sample.Offset]uint64, len(ic.At))
		for off, n := range ic.At {
			rest[i][off] = n
		}
	}
	for _, s := range w.v.src.Profile.Stacks(c) {
		if len(s.Frames) < 2 || s.Frames[0].Image == sample.Unknown {
			continue
		}
		leaf := s.Frames[0]
		left := &rest[leaf.Image]
		n := min(s.N, (*left)[leaf.Off])
		(*left)[leaf.Off] -= n
		w.sample(n, at, s.Frames)
	}
	for i, offs := range rest {
		var keys []sample.Offset
		for off, n := range offs {
			if n > 0 {
				keys = append(keys, off)
			}
		}
		slices.Sort(keys)
		for _, off := range keys {
			w.sample(offs[off], at, []sample.Frame{{Image: i, Off: off}})
		}
	}
	for _, why := range report.MostFirst(c.Lost) {
		w.value(c.Lost[why], []*profile.Location{w.named("(lost: " + string(why) + ")")})
	}
}

func (w *pprofWriter) sample(n uint64, at []int, frames []sample.Frame) {
	var locs []*profile.Location
	for k, f := range frames {
		var loc *profile.Location
		if f.Image != sample.Unknown && at[f.Image] >= 0 {
			loc = w.location(at[f.Image], f.Off, k > 0)
		}
		if loc == nil {
			loc = w.named("(unknown)")
		}
		locs = append(locs, loc)
	}
	w.value(n, locs)
}

func (w *pprofWriter) value(n uint64, locs []*profile.Location) {
	if n == 0 {
		return
	}
	s := &profile.Sample{Location: locs, Value: []int64{int64(n)}}
	if len(w.p.SampleType) > 1 {
		s.Value = append(s.Value, int64(n)*w.p.Period)
	}
	w.p.Sample = append(w.p.Sample, s)
}

// mapping returns the index of an image's mapping.
func (w *pprofWriter) mapping(id sample.ImageID) int {
	if i, ok := w.mappings[id.Key()]; ok {
		return i
	}
	i := -1
	if im := w.v.src.Found(id); im != nil {
		i = len(w.p.Mapping)
		base, path := uint64(i)*apart, id.Path
		if slices.ContainsFunc(w.tool.images, func(o *pprofImage) bool { return o.path == path }) {
			path = id.String() // pprof tells images apart by name
		}
		w.p.Mapping = append(w.p.Mapping, &profile.Mapping{ID: uint64(i + 1), Start: base, Limit: base + apart, File: path, BuildID: buildName(id), HasFunctions: true, HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true})
		w.tool.images = append(w.tool.images, &pprofImage{path: path, im: im, base: base})
	}
	w.mappings[id.Key()] = i
	return i
}

func buildName(id sample.ImageID) string {
	if id.Build.IsZero() {
		return ""
	}
	return id.Build.String()
}

// location returns an instruction, or the call that returns to off.
func (w *pprofWriter) location(mapping int, off sample.Offset, call bool) *profile.Location {
	if call && off > 0 {
		off--
	}
	o := w.tool.images[mapping]
	a, ok := o.im.AddrOf(off)
	if !ok || uint64(a) >= apart {
		return nil
	}
	key := pprofPlace{mapping, a}
	if loc := w.locations[key]; loc != nil {
		return loc
	}
	loc := &profile.Location{ID: uint64(len(w.p.Location) + 1), Mapping: w.p.Mapping[mapping], Address: o.base + uint64(a)}
	for _, f := range o.frames(a) {
		loc.Line = append(loc.Line, profile.Line{Function: w.function(f.Func, f.File), Line: int64(f.Line)})
	}
	w.p.Location = append(w.p.Location, loc)
	w.locations[key] = loc
	return loc
}

// named returns a location that is but a name.
func (w *pprofWriter) named(name string) *profile.Location {
	if loc := w.names[name]; loc != nil {
		return loc
	}
	loc := &profile.Location{ID: uint64(len(w.p.Location) + 1), Line: []profile.Line{{Function: w.function(name, "")}}}
	w.p.Location = append(w.p.Location, loc)
	w.names[name] = loc
	return loc
}

func (w *pprofWriter) function(name, file string) *profile.Function {
	key := profile.Function{Name: name, Filename: file}
	f := w.functions[key]
	if f == nil {
		f = &profile.Function{ID: uint64(len(w.p.Function) + 1), Name: w.v.names.NameOf(name), SystemName: name, Filename: file}
		w.p.Function = append(w.p.Function, f)
		w.functions[key] = f
	}
	return f
}

// pprofImages is how pprof reads the images: disassembly and symbols are ours.
type pprofImages struct{ images []*pprofImage }

type pprofImage struct {
	path string
	im   *image.Image
	base uint64
}

// errNotOurs is what pprof hears of any file that is not an image of the recording.
var errNotOurs = errors.New("not an image of the recording")

// Open returns the image that is mapped at start.
func (t *pprofImages) Open(file string, start, _, _ uint64, _ string) (driver.ObjFile, error) {
	for _, o := range t.images {
		if o.path == file && o.base == start {
			return o, nil
		}
	}
	return nil, errNotOurs
}

// maxDisasm bounds what is disassembled at once, in bytes.
const maxDisasm = 1 << 20

// Disasm disassembles; start and end are addresses of the image.
func (t *pprofImages) Disasm(file string, start, end uint64, _ bool) ([]driver.Inst, error) {
	for _, o := range t.images {
		if o.path == file && start < end {
			return o.disasm(image.Addr(start), image.Addr(min(end, start+maxDisasm))), nil
		}
	}
	return nil, errNotOurs
}

func (o *pprofImage) disasm(start, end image.Addr) []driver.Inst {
	var out []driver.Inst
	for a := start; a < end; {
		i := o.im.Find(a)
		if i < 0 {
			a++
			continue
		}
		s := &o.im.Symbols()[i]
		p, err := o.im.Proc(i)
		if err != nil {
			a = max(a+1, s.Addr+image.Addr(s.Size))
			continue
		}
		for b := range p.Blocks {
			for _, in := range o.im.Insts(&p.Blocks[b]) {
				if in.Addr < a || in.Addr >= end {
					continue
				}
				d := driver.Inst{Addr: uint64(in.Addr), Text: report.Clean(o.im.Text(in.Addr)), Function: s.Name}
				if f := o.frames(in.Addr); len(f) > 0 {
					d.Function, d.File, d.Line = f[0].Func, f[0].File, f[0].Line
				}
				out = append(out, d)
			}
		}
		a = max(a+1, s.Addr+image.Addr(s.Size))
	}
	return out
}

// frames returns the inlined calls at a, of which the last is the procedure by its name in
// all our tools.
func (o *pprofImage) frames(a image.Addr) []driver.Frame {
	var out []driver.Frame
	if lines, err := o.im.Lines(); err == nil {
		for _, f := range lines.Frames(a) {
			out = append(out, driver.Frame{Func: f.Func, File: f.File, Line: int(f.Line)})
		}
	}
	name := fmt.Sprintf("%#x", uint64(a))
	if i := o.im.Find(a); i >= 0 {
		name = o.im.Symbols()[i].Name
	}
	if len(out) == 0 {
		return []driver.Frame{{Func: name}}
	}
	return out
}

func (o *pprofImage) Name() string    { return o.path }
func (o *pprofImage) BuildID() string { return buildName(sample.ImageID{Build: o.im.Build}) }
func (o *pprofImage) Close() error    { return nil } // its finder closes it

// ObjAddr returns the address in the image of one in the profile.
func (o *pprofImage) ObjAddr(addr uint64) (uint64, error) {
	if addr < o.base {
		return 0, errNotOurs
	}
	return addr - o.base, nil
}

func (o *pprofImage) SourceLine(addr uint64) ([]driver.Frame, error) {
	if addr < o.base {
		return nil, errNotOurs
	}
	return o.frames(image.Addr(addr - o.base)), nil
}

// Symbols lists symbols by name or address. pprof's End is the last byte.
func (o *pprofImage) Symbols(r *regexp.Regexp, addr uint64) ([]*driver.Sym, error) {
	var out []*driver.Sym
	for _, s := range o.im.Symbols() {
		first := uint64(s.Addr)
		last := first + max(1, s.Size) - 1
		if addr != 0 && (addr < o.base+first || addr > o.base+last) {
			continue
		}
		names := append([]string{s.Name}, s.Aliases...)
		if addr == 0 && r != nil && !slices.ContainsFunc(names, r.MatchString) {
			continue
		}
		out = append(out, &driver.Sym{Name: names, File: o.path, Start: first, End: last})
	}
	slices.SortFunc(out, func(a, b *driver.Sym) int { return cmp.Compare(a.Start, b.Start) })
	return out, nil
}

// pprofFetcher has the profile already.
type pprofFetcher struct{ p *profile.Profile }

func (f pprofFetcher) Fetch(string, time.Duration, time.Duration) (*profile.Profile, string, error) {
	return f.p, "", nil
}

// pprofSymbols leaves a profile as it is: it has its names.
type pprofSymbols struct{}

func (pprofSymbols) Symbolize(string, driver.MappingSources, *profile.Profile) error { return nil }

// pprofUI is nobody: what goes wrong is shown by pprof's pages.
type pprofUI struct{}

func (pprofUI) ReadLine(string) (string, error)     { return "", io.EOF }
func (pprofUI) Print(...any)                        {}
func (pprofUI) PrintErr(...any)                     {}
func (pprofUI) IsTerminal() bool                    { return false }
func (pprofUI) WantBrowser() bool                   { return false }
func (pprofUI) SetAutoComplete(func(string) string) {}

// pprofFlags is the command line that pprof sees: one that serves.
type pprofFlags struct{ set *flag.FlagSet }

func (f *pprofFlags) Bool(name string, def bool, usage string) *bool {
	return f.set.Bool(name, def, usage)
}
func (f *pprofFlags) Int(name string, def int, usage string) *int {
	return f.set.Int(name, def, usage)
}
func (f *pprofFlags) Float64(name string, def float64, usage string) *float64 {
	return f.set.Float64(name, def, usage)
}
func (f *pprofFlags) String(name, def, usage string) *string {
	return f.set.String(name, def, usage)
}
func (f *pprofFlags) StringList(name, def, usage string) *[]*string {
	return &[]*string{f.set.String(name, def, usage)}
}
func (f *pprofFlags) ExtraUsage() string   { return "" }
func (f *pprofFlags) AddExtraUsage(string) {}
func (f *pprofFlags) Parse(func()) []string {
	f.set.SetOutput(io.Discard)
	if err := f.set.Parse([]string{"-http", "localhost:1", "-no_browser", "recording"}); err != nil {
		return nil
	}
	return f.set.Args()
}
