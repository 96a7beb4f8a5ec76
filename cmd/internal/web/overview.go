package web

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"backfeed/cmd/internal/emit"
	"backfeed/cmd/internal/prose"
	"backfeed/cmd/internal/report"
	"backfeed/feedback"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

const (
	namedProcs  = 3    // procedures that a finding names
	namedStalls = 3    // stalls, likewise
	muchLost    = 0.02 // share of the samples from which a loss is worth a sentence
)

// places says where a page has more of what a finding is about; "" is nowhere.
type places struct {
	proc func(*viewed) string
	code func(p *viewed, block string) string // of a procedure; block is the id of one
	page func(name string) string             // "procedures", "causes", "layout", "build" or "confidence", and what is asked of it
	one  bool                                 // all is one page
}

// href leads to a procedure; "" if it is nil or has no code there.
func (at places) href(p *viewed) string {
	if p == nil {
		return ""
	}
	return at.proc(p)
}

// Overview is what was recorded, the findings that matter most, and the n procedures with most
// cycles; n below 0 is all.
func (v *View) Overview(n int) *report.Overview {
	return v.overview(n, places{
		proc: func(*viewed) string { return "" }, code: func(*viewed, string) string { return "" }, page: func(string) string { return "" },
	}, -1)
}

// overview waits so long for findings that take long, and without end for what is below 0.
func (v *View) overview(n int, at places, patience time.Duration) *report.Overview {
	o := v.items(n)
	o.Facts = v.recorded(o)
	o.Trust = v.inOneLine(at)
	if v.waits() {
		o.Findings = []report.Insight{v.hottest(at)}
		return o
	}
	o.Findings = []report.Insight{v.hottest(at), v.slowest(at), v.profileFinding(at, patience), v.layoutFinding(at, patience), v.unknown(at)}
	return o
}

// items is an overview without findings.
func (v *View) items(n int) *report.Overview {
	p := v.src.Profile
	o := &report.Overview{
		TimeHeader: report.NewTimeHeader(p, "backfeed.report/1", v.x), Sources: v.files, Processors: []string{}, Lost: map[string]uint64{},
		Findings: []report.Insight{}, Items: []report.ProcItem{},
	}
	for why, k := range p.Samples.Lost {
		o.Lost[string(why)] = k
	}
	for _, c := range v.src.Recording.Counts {
		if name := strings.Join(strings.Fields(c.CPU.Name), " "); name != "" && c.Event.Name == p.Event.Name && !slices.Contains(o.Processors, name) {
			o.Processors = append(o.Processors, name)
		}
	}
	if w, err := v.src.Window(); err == nil && !w.From.IsZero() {
		o.From, o.To, o.Hosts = w.From.Format(time.RFC3339), w.To.Format(time.RFC3339), len(w.Values)
	}
	if s := v.seconds(p.Samples.Total); !math.IsNaN(s) {
		o.Seconds = &s
	}
	o.Runs, o.Unlisted = report.RunRows(v.src.Recording), v.src.Recording.Unlisted
	o.Usage, _ = report.TotalUsage(o.Runs)
	for _, q := range v.procs {
		if len(o.Items) == n {
			break
		}
		o.Items = append(o.Items, q.row.Item())
	}
	return o
}

// recorded are the facts that an overview begins with. A recording need not know its command: the
// programs in it stand for that, too.
func (v *View) recorded(o *report.Overview) []report.Fact {
	p := v.src.Profile
	facts := []report.Fact{}
	add := func(name, format string, args ...any) {
		facts = append(facts, report.Fact{Name: name, Value: fmt.Sprintf(format, args...)})
	}
	if len(v.images) > 0 {
		i := v.hottestImage()
		name := path.Base(p.Images[i].ID.Path)
		more := ""
		if n := len(v.images) - 1; n == 1 {
			more = ", and one other image"
		} else if n > 1 {
			more = fmt.Sprintf(", and %d other images", n)
		}
		if id, n := v.src.Unfound(); n > v.images[i].samples {
			add("program", "%s, %s of the samples, which was not found: what follows is of what else ran, of which %s has %s of the samples%s",
				path.Base(id.Path), report.Share(n, p.Samples.Total), name, report.Share(v.images[i].samples, p.Samples.Total), more)
		} else {
			add("program", "%s, %s of the samples%s", name, report.Share(v.images[i].samples, p.Samples.Total), more)
		}
	}
	if len(o.Sources) > 0 {
		more := ""
		if n := len(o.Sources); n > 3 {
			more = fmt.Sprintf(" and %d more", n-3)
		}
		add("read from", "%s%s", strings.Join(o.Sources[:min(3, len(o.Sources))], ", "), more)
	}
	facts = append(facts, report.RunFacts(o.Runs, o.Unlisted, prose.ShellWord)...)
	if o.From != "" {
		add("recorded", "%s to %s", o.From, o.To)
	}
	if o.Hosts > 0 {
		add("hosts", "%d", o.Hosts)
	}
	samples := fmt.Sprintf("%d of %s", p.Samples.Total, p.Event.Name)
	if o.Seconds != nil {
		add("samples", "%s, which stand for %s of processors", samples, report.Seconds(*o.Seconds))
	} else {
		add("samples", "%s, one in %s %s", samples, report.Count(float64(p.Event.Period)), p.Event.Unit)
	}
	if len(o.Processors) > 0 {
		add("processor", "%s", strings.Join(o.Processors, ", "))
	}
	add("machine model", "%s", p.Machine)
	losses := "none"
	if lost := p.Samples.Total - p.Samples.Used; lost > 0 {
		losses = report.Share(lost, p.Samples.Total) + " of the samples"
	}
	add("not used", "%s", losses)
	return facts
}

// inOneLine says how far counts are to be trusted.
func (v *View) inOneLine(at places) []report.Phrase {
	var f report.Insight
	if v.waits() {
		f.Say("Time off the processor is exact for each place that threads left from, but for 0.01 ms a wait; how it divides among stacks is estimated where threads switch very often. Time on the processor is as sampled.")
		return f.Says
	}
	t := report.NewTrust(v.src.Profile)
	good := func(m report.ByConfidence) string { return report.Share(m[infer.Medium]+m[infer.High], t.Samples) }
	f.Link(at.page("confidence"), "Confidence")
	f.Say(": shares of time are as sampled. Of the samples, %s lie where counts are within a factor 2 of the truth among those of their procedure, and %s where they are among all", good(t.Within), good(t.Conf))
	switch common := v.src.Profile.CommonFactor(); {
	case common >= infer.TimeFactor && v.src.Profile.Counted > 0:
		f.Say(". %s", report.ToldEntries(v.src.Profile))
	case common >= infer.TimeFactor:
		f.Say("; all counts, and cycles per execution with them, may be off by one factor of up to %.2g, and those of a procedure beside the others by more: with 90 %% confidence, "+
			"they are within a factor of %s.", common, report.EntryFactors(v.src.Profile))
	case common > 0 && v.src.Profile.Counted == 0:
		f.Say("; all counts may be off by one factor of up to %.2g, with 90 %% confidence, and those of a procedure beside the others by a factor of %s.",
			common, report.EntryFactors(v.src.Profile))
	case common > 0:
		f.Say("; all counts may be off by one factor of up to %.2g, with 90 %% confidence.", common)
	default:
		f.Say(".")
	}
	return f.Says
}

// interval is the share that k of all samples are, with its 95 % interval: Wilson's, of so many samples as
// tell as much as those that were scaled.
func (v *View) interval(k uint64) string {
	var counts []*sample.Counts
	for _, c := range v.src.Recording.Counts {
		if c.Event.Name == v.src.Profile.Event.Name {
			counts = append(counts, c)
		}
	}
	total := v.src.Profile.Samples.Total
	n := float64(max(1, total)) / sample.Dispersion(counts)
	share := float64(k) / float64(max(1, total))
	const z = 1.96
	middle := (share + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(share*(1-share)/n+z*z/(4*n*n))
	return fmt.Sprintf("%s (%s to %s)", report.Percent(share), report.Percent(max(0, middle-half)), report.Percent(min(1, middle+half)))
}

// hottest names the procedures with most samples.
func (v *View) hottest(at places) report.Insight {
	f := report.Insight{ID: "hottest", Title: "Where the time goes", Href: at.page("procedures")}
	procs := slices.Clone(v.procs)
	slices.SortStableFunc(procs, func(a, b *viewed) int { return cmp.Compare(b.row.Samples, a.row.Samples) })
	if len(procs) == 0 {
		f.Say("No sample lies in a known procedure.")
		return f
	}
	for i, p := range procs[:min(namedProcs, len(procs))] {
		switch {
		case i == 0:
			f.Link(at.proc(p), "%s", p.row.Name)
			f.Say(" has %s of the samples", v.interval(p.row.Samples))
		default:
			f.Say(", ")
			f.Link(at.proc(p), "%s", p.row.Name)
			f.Say(" %s", v.interval(p.row.Samples))
		}
	}
	var sum uint64
	for i, p := range procs {
		if sum += p.row.Samples; 10*sum >= 9*v.src.Profile.Samples.Used {
			f.Say(". %d of %d procedures with samples hold 90 %% of what is in known code; intervals are of 95 %% confidence.", i+1, len(procs))
			break
		}
	}
	return f
}

// slowest names the longest stalls, and what may explain them.
func (v *View) slowest(at places) report.Insight {
	f := report.Insight{ID: "stalls", Title: "Why it is slow", Href: at.page("causes")}
	top := v.stalls[""]
	f.Say("Stalls, the time beyond the least that the model gives, are about %s of the time.", report.Percent(top.Stalled))
	for i, r := range top.Stalls[:min(namedStalls, len(top.Stalls))] {
		if i == 0 {
			f.Say(" The longest: ")
		} else {
			f.Say("; ")
		}
		f.Say("%s of the time at ", report.Percent(r.Share))
		href := ""
		if p := v.viewedOf(r.Of.Result); p != nil {
			href = at.code(p, r.BlockID())
		}
		where := r.Procedure
		if r.File != "" && r.Line > 0 {
			where = fmt.Sprintf("%s, %s:%d", r.Procedure, path.Base(r.File), r.Line)
		}
		f.Link(href, "%s (%s)", r.Instruction, where)
		if len(r.Culprits) == 0 {
			f.Say(", of no cause that is known")
			continue
		}
		c := r.Culprits[0]
		most := "all"
		if c.Most < r.Stall {
			most = report.Percent(c.Most / r.Stall)
		}
		if c.Least > 0.0005*r.Stall {
			f.Say(", most likely by %s, which explains %s to %s of it", c.Cause, report.Percent(c.Least/r.Stall), most)
		} else {
			f.Say(", most likely by %s, which may explain up to %s of it", c.Cause, most)
		}
	}
	f.Say(".")
	return f
}

// notYet stands for a finding that takes longer than a page waits.
func notYet(f report.Insight, at places) report.Insight {
	f.Later = true
	f.Say("This is still being worked out: ")
	f.Link(at.page(""), "load the page again")
	f.Say(" in some seconds.")
	return f
}

const (
	profileTitle = "What a profile would tell the compiler"
	layoutTitle  = "What another layout of the code would bring"
)

// profileFinding says what compilers would learn from a profile.
func (v *View) profileFinding(at places, patience time.Duration) report.Insight {
	f, err, ok := v.profiled.get(patience, func() (report.Insight, error) {
		f := report.Insight{ID: "profile", Title: profileTitle}
		if len(v.images) > 0 {
			v.sayProfile(&f, v.src.Profile.Images[v.hottestImage()])
		} else {
			f.Say("No image with samples was found.")
		}
		return f, nil
	})
	return finding(report.Insight{ID: "profile", Title: profileTitle}, f, err, ok, at, at.page("build"))
}

// finding is f, or says that it is not there yet, or why it is not.
func finding(none, f report.Insight, err error, ok bool, at places, href string) report.Insight {
	switch {
	case !ok:
		f = notYet(none, at)
	case err != nil:
		f = none
		f.Say("This could not be worked out: %v.", err)
	}
	f.Href = href
	return f
}

func (v *View) sayProfile(f *report.Insight, ip *infer.ImageProfile) {
	name := path.Base(ip.ID.Path)
	if ip.Image.Go != "" {
		st, err := feedback.WriteGo(io.Discard, v.src.Profile, v.src.Recording, feedback.GoOptions{Image: emit.NameOf(ip.ID), Round: true})
		if err != nil {
			f.Say("go build -pgo would get nothing of %s: %v.", name, err)
			return
		}
		f.Say("go build -pgo of %s would get %d edges of calls, %d of them indirect.", name, st.Edges, st.Indirect)
		least, most, known := st.Worth.Saves()
		switch {
		case ip.Image.GoProfiled():
			f.Say(" It was built with a profile already, whose calls are inlined.")
		case known:
			f.Say(" By the calls that become hot, it is expected to save %s to %s of the instructions that the program runs.", report.Percent(least), report.Percent(most))
		default:
			f.Say(" There are too few samples to say what that saves.")
		}
		if st.Blind {
			f.Say(" No callers were recorded, so it would turn no indirect call into a direct one.")
		}
		return
	}
	st, err := feedback.WriteLLVM(io.Discard, v.src.Profile, v.src.Recording, feedback.LLVMOptions{Image: emit.NameOf(ip.ID)})
	switch {
	case errors.Is(err, feedback.ErrEmpty), errors.Is(err, feedback.ErrUnfit), errors.Is(err, image.ErrNoLines):
		f.Say("clang, rustc and gcc know code by its lines, and %s has none for what ran: compile with -g, or put its debug file below --symfs. llvm-bolt needs no lines (emit bolt).", name)
		return
	case err != nil:
		f.Say("What clang, rustc or gcc would get of %s cannot be told: %v.", name, err)
		return
	}
	dropped := 0.0
	for _, n := range st.Dropped {
		dropped += n
	}
	f.Say("clang, rustc or gcc would get counts of %d functions and %d lines of %s, with %d inlined calls", st.Funcs, st.Lines, name, st.Inlined)
	if st.Executed > 0 {
		f.Say(", for %s of the instructions that ran", report.Percent(max(0, 1-dropped/st.Executed)))
	}
	f.Say(". What a build with them saves is not in a recording: backfeed optimize builds it and measures.")
}

// layoutFinding says what an order of functions would bring.
func (v *View) layoutFinding(at places, patience time.Duration) report.Insight {
	f := report.Insight{ID: "layout", Title: layoutTitle}
	if len(v.images) == 0 {
		f.Say("No image with samples was found.")
		return finding(f, f, nil, true, at, at.page("layout"))
	}
	i := v.hottestImage()
	o, err, ok := v.ordered(i, patience)
	if ok && err == nil {
		v.sayLayout(&f, v.src.Profile.Images[i], o)
	}
	return finding(report.Insight{ID: "layout", Title: layoutTitle}, f, err, ok, at, at.page("layout"))
}

func (v *View) sayLayout(f *report.Insight, ip *infer.ImageProfile, o *emit.Worked) {
	name := path.Base(ip.ID.Path)
	if ip.Image.Go != "" {
		f.Say("%s is a Go program: Go's linker takes no order of functions, but keeps that of the source, about which layout --for go has advice.", name)
		return
	}
	if len(o.Order.Symbols) == 0 {
		f.Say("%s", v.noOrder(ip, o.Order))
		return
	}
	g := o.Gain
	if !g.Clear() {
		f.Say("As %s is linked is as good as the order that layout would suggest: 99 %% of its execution lies on %s of 4 KB, and would on %s", name, report.Plural(g.PagesLinked, "page"), report.Plural(g.Pages, "page"))
		f.Say(". Lines that are missed in an instruction cache of 32 KB: %s.", emit.Missed(g))
		return
	}
	f.Say("With its functions in the order that layout suggests, 99 %% of the execution of %s would lie on %s of 4 KB instead of %d. Lines that are missed in an instruction cache of 32 KB: %s.",
		name, report.Plural(g.Pages, "page"), g.PagesLinked, emit.Missed(g))
}

// unknown says what the recording does not tell, and what would.
func (v *View) unknown(at places) report.Insight {
	f := report.Insight{ID: "unknown", Title: "What is not known, and how to know it", Href: at.page("confidence")}
	p := v.src.Profile
	advice := map[sample.Loss]string{
		infer.LostNoImage:   "name the directory that has them with --symfs",
		sample.LostKernel:   "record -a --kernel has their places, and --copy-to the kernel's code, which is listed and explained as others' is",
		infer.LostNoProc:    "a symbol table, or the debug file below --symfs, names them",
		sample.LostUnmapped: "record them again with backfeed record, which reads what a process maps",
	}
	for _, why := range report.MostFirst(p.Samples.Lost) {
		if n := p.Samples.Lost[why]; float64(n) >= muchLost*float64(p.Samples.Total) {
			f.Say("%s of the samples have no procedure (%s)", report.Share(n, p.Samples.Total), why)
			if a := advice[why]; a != "" {
				f.Say(": %s", a)
			}
			f.Say(". ")
		}
	}
	if common := p.CommonFactor(); common >= infer.TimeFactor && p.Counted == 0 {
		if p.Calibrated {
			f.Say("Where branches go was seen; how often all ran is known from time, within a factor of %s. ", report.EntryFactors(p))
		} else {
			f.Say("How often code ran is known from time alone, within a factor of %s: record --calibrate counts some. ", report.EntryFactors(p))
		}
	}
	switch kept, other := v.stacksKept(); {
	case kept:
	case other != "":
		f.Say("Call stacks were recorded of %s, and none of %s, so who calls what is inferred here: --event %s shows them. ", other, p.Event.Name, other)
	default:
		f.Say("No call stacks were recorded, so who calls what is inferred: record keeps them. ")
	}
	if _, ok := v.x.CountedTopDown(nil, nil); !ok {
		f.Say("Causes of stalls are what cannot be ruled out, and not counted: where a machine has counters, perf record -e with those of its top-down events narrows them.")
	}
	if len(f.Says) == 0 {
		f.Say("Nothing that another recording would tell.")
	}
	return f
}

func (s *Site) overviewPage(w http.ResponseWriter, r *http.Request) {
	if q := r.URL.Query(); len(q) > 0 { // the list of procedures was here
		for name := range q {
			if name != "sort" && name != "find" && name != "from" {
				q.Del(name)
			}
		}
		http.Redirect(w, r, strings.TrimSuffix("/procedures?"+q.Encode(), "?"), http.StatusMovedPermanently)
		return
	}
	o := s.overview(0, sitePlaces, s.patience)
	page := report.NewPage("Overview", s.lead())
	sh := &sheet{page: page}
	sh.add("recorded", "What was recorded", o.RecordedHTML)
	sh.add("findings", "What matters most", report.InsightsHTML(o.Findings))
	s.send(w, "/", page, sh.err)
}

// sitePlaces are those of a site.
var sitePlaces = places{
	proc: procHref,
	code: func(p *viewed, block string) string { return procHref(p) + "#" + block },
	page: func(name string) string { return "/" + name },
}
