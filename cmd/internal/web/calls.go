package web

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"path"
	"slices"

	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/image"
)

// A callGraph is who calls whom: by calls, as inferred, and by the stacks that were recorded.
type callGraph struct {
	procs   map[procKey]*viewed // those with samples
	callers map[procKey]map[procKey]*callSum
	callees map[procKey]map[procKey]*callSum
	at      map[procKey]bool     // all that were inferred
	named   map[string][]procKey // the same, of all images, by the linker's name
	stacks  bool                 // some were recorded
}

// A procKey is a procedure: of an image by its address, or only a name, which other images
// may have. Neither is code that is not known.
type procKey struct {
	ip   *infer.ImageProfile // nil if not known
	addr image.Addr
	name string // to the linker, if there is no image
}

// A callSum is the calls from one procedure to another.
type callSum struct {
	sites   int
	calls   float64
	conf    [infer.High + 1]float64 // of calls, by program-wide confidence
	samples uint64                  // by stacks
}

// callGraph returns who calls whom, and makes it when it is first asked for.
func (v *View) callGraph() *callGraph {
	v.graphOnce.Do(func() { v.graph = v.newCallGraph() })
	return v.graph
}

func (v *View) newCallGraph() *callGraph {
	g := &callGraph{procs: map[procKey]*viewed{}, callers: map[procKey]map[procKey]*callSum{}, callees: map[procKey]map[procKey]*callSum{}, at: map[procKey]bool{}, named: map[string][]procKey{}}
	for _, p := range v.procs {
		g.procs[p.key()] = p
	}
	for _, ip := range v.src.Profile.Images {
		for _, r := range ip.Procs {
			key := procKey{ip: ip, addr: r.Proc.Addr}
			g.at[key] = true
			g.named[r.Proc.Name] = append(g.named[r.Proc.Name], key)
		}
	}
	for _, ip := range v.src.Profile.Images {
		for _, r := range ip.Procs {
			from := procKey{ip: ip, addr: r.Proc.Addr}
			for i := range r.Proc.Calls {
				if f := r.Call[i]; f.N > 0 {
					g.sum(from, g.target(ip, &r.Proc.Calls[i])).add(f)
				}
			}
		}
	}
	times := v.src.Profile.CallTimes(v.src.Recording)
	g.stacks = times.Bare < times.Samples
	for i := range times.Procs {
		t := &times.Procs[i]
		for _, e := range t.Callees {
			g.sum(stackKey(t.CallProc), stackKey(e.CallProc)).samples += e.Samples
		}
	}
	return g
}

// key names p among all procedures.
func (p *viewed) key() procKey { return procKey{ip: p.ip, addr: p.r.Proc.Addr} }

// target is where a call leads. A stub leads to a name, which is a procedure of another image
// if only one has it.
func (g *callGraph) target(ip *infer.ImageProfile, c *image.Call) procKey {
	if key := (procKey{ip: ip, addr: c.To}); c.To != 0 && g.at[key] {
		return key
	}
	others := slices.DeleteFunc(slices.Clone(g.named[c.Target]), func(k procKey) bool { return k.ip == ip })
	if c.Target != "" && len(others) == 1 {
		return others[0]
	}
	return procKey{name: c.Target}
}

// stackKey is a procedure on stacks.
func stackKey(p infer.CallProc) procKey {
	if p.Image == nil || p.Proc < 0 {
		return procKey{}
	}
	return procKey{ip: p.Image, addr: p.Image.Image.Symbols()[p.Proc].Addr}
}

// sum returns the calls between two procedures, to add to.
func (g *callGraph) sum(from, to procKey) *callSum {
	if s := g.callees[from][to]; s != nil {
		return s
	}
	s := &callSum{}
	for _, side := range []struct {
		of       map[procKey]map[procKey]*callSum
		key, end procKey
	}{{g.callees, from, to}, {g.callers, to, from}} {
		if side.of[side.key] == nil {
			side.of[side.key] = map[procKey]*callSum{}
		}
		side.of[side.key][side.end] = s
	}
	return s
}

func (s *callSum) add(f infer.Freq) {
	s.sites++
	s.calls += f.N
	s.conf[f.Conf] += f.N
}

// confidence is what half of the calls have, or a better one.
func (s *callSum) confidence() infer.Confidence {
	below := 0.0
	for c, n := range s.conf {
		if below += n; 2*below >= s.calls {
			return infer.Confidence(c)
		}
	}
	return infer.None
}

// maxCallRows is how many callers or callees a page lists.
const maxCallRows = 40

// callTable lists the callers or callees of p.
func (v *View) callTable(ends map[procKey]*callSum, caption, none string, href func(*viewed) string) *report.CallTable {
	g := v.callGraph()
	t := &report.CallTable{Limit: maxCallRows, Stacks: g.stacks, None: none}
	keys := make([]procKey, 0, len(ends))
	for k, s := range ends {
		keys = append(keys, k)
		t.Whole += s.calls
	}
	slices.SortFunc(keys, func(a, b procKey) int {
		return cmp.Or(cmp.Compare(ends[b].calls, ends[a].calls), cmp.Compare(ends[b].samples, ends[a].samples), compareKeys(a, b))
	})
	for _, k := range keys {
		s := ends[k]
		row := report.CallRow{Name: v.nameOf(k), Sites: s.sites, Calls: s.calls, Conf: s.confidence(), Samples: s.samples}
		if s.sites == 0 {
			row.Calls = math.NaN() // an indirect call, or one of code that was not seen to call
		}
		if k.ip != nil {
			row.Image = path.Base(k.ip.ID.Path)
		}
		if p := g.procs[k]; p != nil {
			row.Href = href(p)
		}
		t.Rows = append(t.Rows, row)
	}
	t.Caption = fmt.Sprintf(caption, len(keys), report.Count(math.Round(t.Whole)))
	return t
}

func compareKeys(a, b procKey) int {
	image := func(k procKey) string {
		if k.ip == nil {
			return ""
		}
		return k.ip.ID.Path + k.ip.ID.Build.String()
	}
	return cmp.Or(cmp.Compare(image(a), image(b)), cmp.Compare(a.addr, b.addr), cmp.Compare(a.name, b.name))
}

// nameOf is what a page calls k.
func (v *View) nameOf(k procKey) string {
	switch {
	case k.ip != nil:
		if i := k.ip.Image.Find(k.addr); i >= 0 {
			return v.names.NameOf(k.ip.Image.Symbols()[i].Name)
		}
		return fmt.Sprintf("%#x", uint64(k.addr))
	case k.name != "":
		return v.names.NameOf(k.name)
	}
	return "(not known: indirect calls, or code without a name)"
}

// calls are two tables: who calls p, and whom it calls.
func (v *View) calls(p *viewed, href func(*viewed) string) func() (template.HTML, error) {
	return func() (template.HTML, error) {
		g := v.callGraph()
		callers, err := v.callTable(g.callers[p.key()], "Callers: %d. Their calls add up to %s, its executions to "+report.Count(p.row.Executions), "No caller of it is known: it is entered by indirect calls, from code without samples, or by a thread that begins here.", href).HTML()
		if err != nil {
			return "", err
		}
		callees, err := v.callTable(g.callees[p.key()], "Callees: %d, called %s times", "It is not known to call anything.", href).HTML()
		return `<div class="twins">` + "\n<div>" + callers + "</div>\n<div>" + callees + "</div>\n</div>\n", err
	}
}

// callLinks are the pages that the calls of p lead to, by the addresses of their instructions.
func (v *View) callLinks(p *viewed, href func(*viewed) string) map[image.Addr]string {
	g, links := v.callGraph(), map[image.Addr]string{}
	for i := range p.r.Proc.Calls {
		c := &p.r.Proc.Calls[i]
		if to := g.procs[g.target(p.ip, c)]; to != nil {
			links[c.Site] = href(to)
		}
	}
	return links
}
