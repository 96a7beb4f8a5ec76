package web

import (
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"backfeed/cmd/internal/emit"
	"backfeed/cmd/internal/report"
	"backfeed/feedback"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/layout"
)

// patience is how long a page waits for what is worked out in the background. What it lacks then is named,
// and the page asks again.
const patience = 700 * time.Millisecond

const (
	maxDecided = 40 // calls or functions that are listed
	maxAdvised = 15 // items of alignment and of cold code
	maxMoved   = 20 // functions of an order
)

// A built is what a build would do with an image. Its parts are sections of a page; what they were made of is let go.
type built struct {
	order  later[*emit.Worked]
	steps  [len(buildWork)]atomic.Int64 // in 1000, by work
	offers later[*report.Page]
	moves  later[*report.Page]
	align  later[*report.Page]
	fluff  later[*report.Page]
}

// ordered returns the order of the functions of image i that layout makes for linkers.
func (v *View) ordered(i int, patience time.Duration) (*emit.Worked, error, bool) {
	return v.builds[i].order.get(patience, func() (*emit.Worked, error) {
		ip := v.src.Profile.Images[i]
		if ip.Image.Go != "" { // whose linker takes none
			return &emit.Worked{Order: &layout.Order{}}, nil
		}
		o := emit.Order(ip, v.src.Profile.Images, v.builds[i].step(workOrder))
		v.builds[i].finish(workOrder)
		return o, nil
	})
}

// Works of the page.
const (
	workOrder = iota
	workFiles
	workMoves
	workAlignment
	workFluff
)

// buildWork is what a work takes of the time of all, in hundredths, of SQLite: 9.5 s, then 0.9 s for files.
var buildWork = [...]int64{workOrder: 88, workFiles: 8, workMoves: 2, workAlignment: 1, workFluff: 1}

// step returns what is told how far a work is.
func (b *built) step(work int) func(done, total int) {
	return func(done, total int) { b.steps[work].Store(int64(1000 * done / max(total, 1))) }
}

func (b *built) finish(work int) { b.steps[work].Store(1000) }

// percent is how much of all works is done. It never goes back.
func (b *built) percent() int64 {
	var sum int64
	for work, share := range buildWork {
		sum += share * b.steps[work].Load()
	}
	return sum / 1000
}

// A buildPart is a part of the page of what a build would do.
type buildPart struct {
	name  string // as people are told that it is worked out
	work  int
	order bool // it needs the order
	of    func(b *built) *later[*report.Page]
	make  func(v *View, s *sheet, i int, o *emit.Worked, at places)
}

var buildParts = []buildPart{
	{"files", workFiles, true, func(b *built) *later[*report.Page] { return &b.offers }, (*View).addOffers},
	{"order of functions", workMoves, true, func(b *built) *later[*report.Page] { return &b.moves }, (*View).addMoves},
	{"alignment", workAlignment, false, func(b *built) *later[*report.Page] { return &b.align }, (*View).addAlignment},
	{"cold code", workFluff, false, func(b *built) *later[*report.Page] { return &b.fluff }, (*View).addFluff},
}

// addBuild appends what a build would do with image i, as far as it is worked out in time, and names what is not.
// built.percent says how far that is.
func (v *View) addBuild(s *sheet, i int, patience time.Duration) (missing []string) {
	until := time.Now().Add(patience)
	for _, part := range buildParts {
		wait := patience
		if patience >= 0 {
			wait = max(0, time.Until(until))
		}
		page, err, done := part.of(&v.builds[i]).get(wait, func() (*report.Page, error) {
			var o *emit.Worked
			if part.order {
				var err error
				if o, err, _ = v.ordered(i, -1); err != nil {
					return nil, err
				}
			}
			v.turn.Lock() // one thing at a time: pages that are asked for meanwhile shall find a processor
			defer v.turn.Unlock()
			made := &sheet{page: report.NewPage("", "")}
			part.make(v, made, i, o, sitePlaces)
			v.builds[i].finish(part.work)
			return made.page, made.err
		})
		switch {
		case !done:
			missing = append(missing, part.name)
		case err != nil && s.err == nil:
			s.err = err
		case err == nil:
			s.page.Sections = append(s.page.Sections, page.Sections...)
		}
	}
	return missing
}

// addBuildWhole appends all of what a build would do with image i to a page of one file.
func (v *View) addBuildWhole(s *sheet, i int, at places) {
	o, err, _ := v.ordered(i, -1)
	if err != nil && s.err == nil {
		s.err = err
	}
	for _, part := range buildParts {
		if s.err == nil {
			part.make(v, s, i, o, at)
		}
	}
}

// linkOf returns what leads to the procedures of an image by their address and by their linker's name.
func (v *View) linkOf(ip *infer.ImageProfile, at places) (byAddr func(image.Symbol) string, byName func(string) *viewed) {
	addrs, names := map[image.Addr]*viewed{}, map[string]*viewed{}
	for _, p := range v.procs {
		if p.ip == ip {
			addrs[p.r.Proc.Addr] = p
			if names[p.r.Proc.Name] == nil {
				names[p.r.Proc.Name] = p
			}
		}
	}
	return func(s image.Symbol) string { return at.href(addrs[s.Addr]) }, func(name string) *viewed { return names[name] }
}

// trustOf is a badge of the confidence under half of the samples of an image, within functions.
func trustOf(ip *infer.ImageProfile) template.HTML {
	var t report.Trust
	for _, r := range ip.Procs {
		t.Add(r)
	}
	return report.Badge(t.Middle(), "of half of the samples' counts, within functions, or better")
}

// addOffers appends the files that a build can read, and what is decided by them.
func (v *View) addOffers(s *sheet, i int, ordered *emit.Worked, at places) {
	ip := v.src.Profile.Images[i]
	offers := emit.MakeOffers(v.src, ip, ordered)
	var rows []report.OfferRow
	var lacks []report.LackRow
	for _, o := range offers.Files {
		if o.Err != nil {
			lacks = append(lacks, report.LackRow{Reader: o.Reader, Why: o.Why()})
			continue
		}
		rows = append(rows, report.OfferRow{Reader: o.Reader, Does: o.Does, Worth: o.Worth, Note: o.Note, Badge: trustOf(ip), Commands: o.Commands, Says: o.Says})
	}
	s.add("files", "What a build can read", text("%s", v.madeBy(offers)), func() (template.HTML, error) { return report.OffersHTML(rows, lacks) })
	switch {
	case offers.For == "go":
		v.addGoCalls(s, ip, offers, at)
	case offers.For == "llvm":
		v.addFunctions(s, ip, offers, at)
	}
	v.addHot(s, ip)
}

// madeBy says what made the image.
func (v *View) madeBy(o *emit.Offers) string {
	ip := o.Image
	var all uint64
	for _, c := range o.Compilers {
		all += c.Samples
	}
	made := ""
	var names []string
	for _, c := range o.Compilers[:min(3, len(o.Compilers))] {
		switch share := report.Share(c.Samples, all); {
		case 1000*c.Samples < all:
		case c.Name == "":
			made = fmt.Sprintf(" No debug information says what made its code, of %s of these samples.", share)
		default:
			names = append(names, fmt.Sprintf("%s (%s)", c.Name, share))
		}
	}
	if len(names) > 0 {
		made = " Its code was made by " + strings.Join(names, "; ") + "." + made
	}
	return fmt.Sprintf("%s has %s of all samples: no build of it can save more of the time.%s",
		ip.ID.Path, report.Share(ip.Samples, v.src.Profile.Samples.Total), made)
}

// What becomes of a hot call of a Go program.
const (
	becomesDirect  = "becomes direct"
	mayBeInlined   = "may be inlined"
	staysIndirect  = "stays indirect: another callee is more frequent"
	staysInlined   = "is inlined already"
	cannotInlineIt = "stays a call: assembly"
)

// addGoCalls appends the calls that Go's compiler takes for hot, and what it may do to them.
func (v *View) addGoCalls(s *sheet, ip *infer.ImageProfile, offers *emit.Offers, at places) {
	_, byName := v.linkOf(ip, at)
	direct := map[feedback.Choice]bool{}
	all := offers.Decisions.All()
	for _, d := range all {
		if d.Kind == feedback.Devirtualise {
			direct[feedback.Choice{Kind: feedback.Inline, Site: d.Site, Callee: d.What}] = true
		}
	}
	t := report.NewTable(report.Right("share"), report.Left("the compiler"), report.Procedures("call").Main(), report.Confidence("confidence", "of how often it is made, within the function"), report.Left("another recording").Less())
	n, total, listed := map[string]int{}, 0, 0
	for _, d := range all {
		if d.Kind != feedback.Inline || d.What != feedback.Hot {
			continue
		}
		total++
		call := offers.Calls.Calls[d.Choice]
		what := mayBeInlined
		switch {
		case call.Indirect && direct[d.Choice]:
			what = becomesDirect
		case call.Indirect:
			what = staysIndirect
		case call.Assembly:
			what = cannotInlineIt
		case call.Inlined:
			what = staysInlined
		}
		n[what]++
		if what == staysInlined || what == cannotInlineIt || what == staysIndirect || listed == maxDecided {
			continue
		}
		listed++
		sure := "may differ"
		if d.Clear {
			sure = "would say so too"
		}
		t.Row(report.Percent(d.Share), what, v.names.NameOf(d.Site)+" -> "+v.names.NameOf(d.Callee), call.Conf.String(), sure)
		t.Link(at.href(byName(callerOf(d.Site))))
	}
	s.add("calls", "Calls", text("%d calls hold 99 %% of the weight and are hot to the compiler: %d of them may be inlined, up to a cost of 2000 in place of 80; %d are indirect and become direct, with a check before; %d are inlined already. Whether a callee is small enough, only the compiler knows. The %d heaviest of those that change:",
		total, n[mayBeInlined], n[becomesDirect], n[staysInlined], listed), table(t, ""))
	if offers.Calls.Blind {
		s.add("blind", "Indirect calls", text("No callers of the samples were recorded, so that no indirect call becomes direct: record, pgo and the agent keep callers of Go programs, perf does with --call-graph fp, and record --calibrate sees where calls lead."))
	}
}

// callerOf is the caller in "caller:12".
func callerOf(site string) string {
	if i := strings.LastIndexByte(site, ':'); i >= 0 {
		return site[:i]
	}
	return site
}

// addFunctions appends what clang would decide of functions and of calls that are inlined.
func (v *View) addFunctions(s *sheet, ip *infer.ImageProfile, offers *emit.Offers, at places) {
	_, byName := v.linkOf(ip, at)
	t := report.NewTable(report.Right("share"), report.Left("is").Less(), report.Procedures("function, or call that is inlined").Main(), report.Confidence("confidence", "of how often it is entered, program-wide"), report.Left("another recording").Less())
	var hot, cold, calls, listed int
	for _, d := range offers.Decisions.All() {
		what := "hot"
		switch {
		case d.Kind == feedback.Inline:
			what = "inlined again"
			calls++
		case d.What == feedback.Cold:
			cold++
			continue
		default:
			hot++
		}
		if listed == maxDecided {
			continue
		}
		listed++
		name, conf := v.names.NameOf(d.Site), ""
		site := d.Site
		if d.Kind == feedback.Inline {
			name, site = v.names.Names(d.Site)+" -> "+v.names.NameOf(d.Callee), callerOf(strings.Split(site, " @ ")[0])
		}
		p := byName(site)
		if p != nil && d.Kind != feedback.Inline {
			conf = p.row.Conf.String()
		}
		sure := "may differ"
		if d.Clear {
			sure = "would say so too"
		}
		t.Row(report.Percent(d.Share), what, name, conf, sure)
		t.Link(at.href(p))
	}
	s.add("functions", "Functions", text("clang would take %d functions for hot and %d for cold, and inline %d calls again that are inlined now, by the cutoffs of the profile's summary (99 %% and 99.9999 %% of all counts). The %d heaviest:", hot, cold, calls, listed), table(t, ""))
}

// addHot appends how much of the image takes most of its instructions, by inferred counts.
func (v *View) addHot(s *sheet, ip *infer.ImageProfile) {
	ran, hot := 0, len(feedback.HotFunctions(ip))
	for _, r := range ip.Procs {
		if r.Instructions() > 0 {
			ran++
		}
	}
	s.add("hot", "Hot and cold", text("Of %d functions of the image, %d ran, by samples or by the flow around them; %d take a thousandth of the executed instructions or more each. The others are not cold for that: what is cold by evidence is below.", len(ip.Image.Symbols()), ran, hot))
}

// addMoves appends the order of functions, and what it is worth.
func (v *View) addMoves(s *sheet, i int, o *emit.Worked, at places) {
	ip := v.src.Profile.Images[i]
	if ip.Image.Go != "" {
		v.addGoPackages(s, ip)
		return
	}
	if len(o.Order.Symbols) == 0 {
		s.add("order", "Order of functions", text("%s.", emit.NoSymbols(ip, o.Order)))
		return
	}
	byAddr, _ := v.linkOf(ip, at)
	t := report.NewTable(report.Right("place"), report.Right("bytes").Less(), report.Right("samples"), report.Procedures("function").Main(), report.Confidence("confidence", "of how often it is entered, program-wide"))
	ran := map[image.Addr]*infer.Result{}
	for _, r := range ip.Procs {
		ran[r.Proc.Addr] = r
	}
	for k, sym := range o.Order.Symbols[:min(maxMoved, len(o.Order.Symbols))] {
		samples, conf := "-", ""
		if r := ran[sym.Addr]; r != nil {
			samples, conf = report.Integer(r.Samples), r.Entries.Conf.String()
		}
		t.Row(strconv.Itoa(k+1), report.Integer(sym.Size), samples, v.names.NameOf(sym.Name), conf)
		t.Link(byAddr(sym))
	}
	parts := []func() (template.HTML, error){text("%s.", emit.Ordered(ip.ID, o.Order, o.Gain))}
	if !at.one { // where the picture is another part of the same page
		heat := report.NewHeatMap(v.src.Profile, ip, o.Order, false, v.names)
		parts = append(parts, table(heat.Scores, ""), heat.Picture)
	}
	s.add("order", "Order of functions", append(parts,
		text("The first %d of %d functions in the order; %d that never ran and %d without a symbol are not in it.", min(maxMoved, len(o.Order.Symbols)), len(o.Order.Symbols), o.Order.Unseen, o.Order.Unnamed), table(t, ""))...)
	s.more(at.page("layout?image="+strconv.Itoa(i)), "Where the code lies, page by page and line by line")
}

// addGoPackages appends what the source of a Go program can do for the order of its code.
func (v *View) addGoPackages(s *sheet, ip *infer.ImageProfile) {
	plan := layout.GoAdvice(ip)
	gains := 0
	for i := range plan.Packages {
		if p := &plan.Packages[i]; len(p.Funcs) >= 2 && p.Gains(plan.Linked) {
			gains++
		}
	}
	says := "Not expected to gain: no package is better by 1 %. Leave the source as it is."
	if gains > 0 {
		says = fmt.Sprintf("%d of these packages gain 1 %% or more, in the score of their calls or the cache lines of their hot code.", gains)
	}
	s.add("order", "Order of functions", text("Go's linker takes no order: a source can bring functions that run together to the top of a package's first file. %s", says),
		table(report.GoPackages(plan), ""), commands(emit.OrderCommand(v.src, ip, "go", "")))
}

func commands(all ...string) func() (template.HTML, error) {
	return func() (template.HTML, error) { return report.CommandsHTML(all...) }
}

// addAlignment appends what would take fewer fetches if it was aligned.
func (v *View) addAlignment(s *sheet, i int, _ *emit.Worked, at places) {
	ip := v.src.Profile.Images[i]
	a := layout.Align(ip)
	if len(a.Items) == 0 {
		s.add("alignment", "Alignment", text("Not expected to gain: no loop, target of jumps or function would take clearly fewer fetches if it were aligned."))
		return
	}
	byAddr, _ := v.linkOf(ip, at)
	n := min(maxAdvised, len(a.Items))
	t := report.NewTable(report.Left("all of").Less(), report.Left("saves of windows of 32 bytes, lines of 64"), report.Left("option").Main())
	for _, o := range report.AlignOptions(ip, a) {
		if o.Saves == "" {
			t.Row(o.What, "nothing", "leave them")
			continue
		}
		t.Row(o.What, o.Saves, o.Options)
	}
	s.add("alignment", "Alignment", text("Aligning %d places would save %s of all fetches of 32-byte windows and %s of 64-byte lines, for %d bytes of padding, by inferred counts. A fetch need not cost time: other work may hide it. Options align all code of a kind in a file, hot or not:",
		len(a.Items), report.Percent(a.Saved.Of32/a.Fetches.Of32), report.Percent(a.Saved.Of64/a.Fetches.Of64), a.Padding), table(t, ""),
		text("The %d of them that save most:", n), table(report.AlignTable(a, n, v.names, byAddr), ""), commands(emit.OrderCommand(v.src, ip, "", "--align")))
}

// addFluff appends the code that is cold by evidence.
func (v *View) addFluff(s *sheet, i int, _ *emit.Worked, at places) {
	ip := v.src.Profile.Images[i]
	f := layout.FindFluff(v.src.Profile, ip, v.builds[i].step(workFluff))
	byAddr, _ := v.linkOf(ip, at)
	heat := layout.LinkedHeat(ip)
	n := min(maxAdvised, len(f.Items))
	s.add("fluff", "Cold code", text("Cold is what had less than 1 in 200,000 of the executions of all blocks, with 95 %% confidence: less than %s. Procedures without a sample are expected to take %s of the image's time together.", report.Count(f.ColdBelow), report.Percent(f.UnseenShare)),
		table(report.FluffTable(f), ""), func() (template.HTML, error) { return report.FluffPages(heat, f, maxAdvised, v.names) },
		text("The %d largest of %d pieces that are cold by evidence, with the most that they may have run:", n, len(f.Items)), table(report.FluffItems(f.Items[:n], v.names, byAddr), ""),
		commands(emit.OrderCommand(v.src, ip, "", "--fluff")))
}

// imageOf returns the image that a request is about: by default the one with the most cycles.
func (s *Site) imageOf(w http.ResponseWriter, r *http.Request) (i int, ok bool) {
	text := r.URL.Query().Get("image")
	if text == "" {
		return s.hottestImage(), true
	}
	i, err := strconv.Atoi(text)
	if err != nil || i < 0 || i >= len(s.images) {
		http.Error(w, "no such image with samples", http.StatusNotFound)
		return 0, false
	}
	return i, true
}

// otherImages are links to pages like this one of all images.
func (s *Site) otherImages(page string, here int) (links []report.Link) {
	if len(s.images) < 2 {
		return nil
	}
	for k, ip := range s.src.Profile.Images {
		links = append(links, report.Link{Href: page + "?image=" + strconv.Itoa(k), Text: path.Base(ip.ID.Path), Here: k == here})
	}
	return links
}

func (s *Site) buildPage(w http.ResponseWriter, r *http.Request) {
	i, ok := s.imageOf(w, r)
	if !ok {
		return
	}
	page := report.NewPage("What a build would do with this recording", s.lead())
	page.Styled()
	page.More = s.otherImages("/build", i)
	sh := &sheet{page: page}
	if missing := s.addBuild(sh, i, s.patience); len(missing) > 0 && sh.err == nil {
		s.wait(w, sh, fmt.Sprintf("%s; %d %% of the work is done", strings.Join(missing, ", "), s.builds[i].percent()))
	}
	s.send(w, "/build", page, sh.err)
}

// wait says what is not worked out yet, and has the browser ask again.
func (s *Site) wait(w http.ResponseWriter, sh *sheet, missing string) {
	sh.add("waiting", "Being worked out", text("Not here yet: %s. The page asks again by itself until all is here.", missing))
	w.Header().Set("Refresh", "2")
}

// has reports whether what a later returned is there; if not, the page says so.
func (s *Site) has(w http.ResponseWriter, sh *sheet, what string, err error, done bool) bool {
	switch {
	case err != nil:
		sh.err = err
	case !done:
		s.wait(w, sh, what)
	}
	return err == nil && done
}

// layoutPage shows where executed code lies.
func (s *Site) layoutPage(w http.ResponseWriter, r *http.Request) {
	i, ok := s.imageOf(w, r)
	if !ok {
		return
	}
	page, done, err := s.heatMap(i, 0, s.patience)
	if err == nil && !done {
		w.Header().Set("Refresh", "2")
	}
	if err == nil {
		page.More = s.otherImages("/layout", i)
	}
	s.send(w, "/layout", page, err)
}

// heatMap draws the layout of image i, with so many of its hottest pages (0 is all there is room for); done is false where the order is not worked out in time, and only the image as it is linked
// is drawn.
func (v *View) heatMap(i, hottest int, patience time.Duration) (page *report.Page, done bool, err error) {
	ip := v.src.Profile.Images[i]
	order, why := &layout.Order{}, ""
	if ip.Image.Go != "" {
		why, done = "Go's linker takes no order of functions, so that nothing here could be moved but by hand: what the source can do is on the page Build.", true
	} else {
		var o *emit.Worked
		if o, err, done = v.ordered(i, patience); err != nil {
			return nil, true, err
		}
		switch {
		case !done:
			why = "A better order is being worked out; the page asks again by itself until it is here."
		case len(o.Order.Symbols) == 0:
			order, why = o.Order, v.noOrder(ip, o.Order)
		default:
			order = o.Order
		}
	}
	m := report.NewHeatMap(v.src.Profile, ip, order, false, v.names)
	m.Hottest = hottest
	page, err = m.Page()
	if err != nil || why == "" {
		return page, done, err
	}
	s := &sheet{page: report.NewPage("", "")}
	s.add("why", "No other order", text("%s", why))
	page.Sections = append(s.page.Sections, page.Sections...)
	return page, done, s.err
}

// noOrder says why nothing of an image can be moved, and what could be done.
func (v *View) noOrder(ip *infer.ImageProfile, o *layout.Order) string {
	if o.Unnamed == 0 {
		return fmt.Sprintf("No function of %s was seen to run.", ip.ID.Path)
	}
	return fmt.Sprintf("%s has no symbols of the %d functions that ran: it is stripped. A linker moves functions by name, so there is no order for it. "+
		"Record a build that keeps its symbol table (no -s, no strip), or put its debug file where --symfs looks: distributions have them in packages of debug symbols, and --symfs takes the address of a debuginfod server.",
		ip.ID.Path, o.Unnamed)
}
