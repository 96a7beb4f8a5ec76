package emit

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/prose"
	"backfeed/cmd/internal/report"
	"backfeed/feedback"
	"backfeed/infer"
	"backfeed/layout"
	"backfeed/sample"
)

// An Offer is a file that a build can have of what a recording says of one image.
type Offer struct {
	Reader   string   // what reads it: "Go's compiler"
	Does     string   // what that does by it
	Commands []string // that write it, and then use it; none where there is no file
	Note     string   // what has to hold for the last of them
	Says     []string // what is in it, and what is left out
	Worth    string   // what it is expected to save, or that this is not expected, or not known
	Err      error    // why there is none; nil if there is
	Few      bool     // its compiler made little of the image, so that it is not the first choice
}

// Offers are all files for one image.
type Offers struct {
	Image     *infer.ImageProfile
	Compilers []Compiler
	Files     []Offer
	For       string              // whose decisions the next are: "go", "llvm"; "" is nobody's
	Decisions *feedback.Decisions // by the file for that one
	Calls     *feedback.GoStats   // of Go, beside them
}

// A Compiler is what made a part of an image.
type Compiler struct {
	Name    string // as the debug information has it; "" is unknown
	Lang    string
	Samples uint64
}

// Why says why there is no file, without the name of its format, which stands beside it.
func (o *Offer) Why() string {
	why := o.Err.Error()
	for _, format := range []string{"go", "llvm", "gcc", "bolt"} {
		why = strings.TrimPrefix(why, format+": ")
	}
	return why
}

// A Worked is an order of the functions of an image, and what it is worth.
type Worked struct {
	Order  *layout.Order
	Gain   layout.Gain
	Judged []layout.Judged
}

// Order makes the order that layout writes for linkers, of an image of a program, and scores it. progress may be nil; it never goes back.
func Order(ip *infer.ImageProfile, program []*infer.ImageProfile, progress func(done, total int)) *Worked {
	o := &Worked{Order: layout.FunctionsProgress(ip, stage(progress, 0, searched))}
	if len(o.Order.Symbols) == 0 {
		return o
	}
	o.Order.Beside(program)
	o.Order.Settle(stage(progress, searched, settled))
	o.Gain = o.Order.Gain()
	o.Judged, _ = layout.Judge(o.Order, nil, nil, nil, stage(progress, settled, worked)) // which fails of another image only
	return o
}

// How far Order is when a stage of it is done, by the time that they take of SQLite: 0.05, 8.0 and 1.5 s. Where
// another stage takes longest, it goes on unevenly, and never back.
const (
	searched = 10
	settled  = 850
	worked   = 1000
)

// stage is the progress of a stage of a work that begins at from and ends at to, of worked.
func stage(progress func(done, total int), from, to int) func(done, total int) {
	if progress == nil {
		return nil
	}
	return func(done, total int) { progress(from+(to-from)*min(done, total)/max(total, 1), worked) }
}

// compilers returns what made the code of an image, that with the most samples first.
func compilers(ip *infer.ImageProfile) (all []Compiler) {
	if ip.Image.Go != "" {
		return []Compiler{{"Go's compiler, " + ip.Image.Go, "go", ip.Samples}}
	}
	lines, err := ip.Image.Lines()
	for _, r := range ip.Procs {
		c := Compiler{}
		if err == nil {
			u := lines.Unit(r.Proc.Addr)
			c.Name, _, _ = strings.Cut(u.Producer, " -") // gcc adds flags
			c.Lang = u.Lang
		}
		i := slices.IndexFunc(all, func(o Compiler) bool { return o.Name == c.Name && o.Lang == c.Lang })
		if i < 0 {
			i, all = len(all), append(all, c)
		}
		all[i].Samples += r.Samples
	}
	slices.SortStableFunc(all, func(a, b Compiler) int {
		return cmp.Or(cmp.Compare(b.Samples, a.Samples), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// madeBy reports whether a compiler whose name has one of the words made at least a tenth of what was sampled.
func madeBy(all []Compiler, words ...string) bool {
	var by, sum uint64
	for _, c := range all {
		sum += c.Samples
		if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(c.Name, w) }) {
			by += c.Samples
		}
	}
	return by > 0 && 10*by >= sum
}

// A maker makes offers about one image.
type maker struct {
	*Offers
	src     *input.Session
	ordered *Worked
	name    string // of the files that commands write
}

// MakeOffers makes all files for an image, none of them on disk. ordered is what Order made of it.
func MakeOffers(src *input.Session, ip *infer.ImageProfile, ordered *Worked) *Offers {
	m := &maker{Offers: &Offers{Image: ip, Compilers: compilers(ip)}, src: src, ordered: ordered, name: path.Base(ip.ID.Path)}
	if ip.Image.Go != "" {
		m.golang()
		return m.Offers
	}
	m.llvm()
	m.gcc()
	m.linker()
	m.bolt()
	m.propeller()
	// What its own compiler reads comes first, what cannot be made last.
	slices.SortStableFunc(m.Files, func(a, b Offer) int { return rank(&a) - rank(&b) })
	return m.Offers
}

func rank(o *Offer) int {
	switch {
	case o.Err != nil:
		return 2
	case o.Few:
		return 1
	}
	return 0
}

// OrderCommand is the command that says what layout has to say of an image: for a target, or with a flag that asks for advice.
func OrderCommand(src *input.Session, ip *infer.ImageProfile, target, flag string) string {
	m := &maker{src: src}
	if target != "" {
		flag = "--for " + target
	}
	return m.command("layout "+prose.ShellWord(ip.ID.Path), flag)
}

// command is one of ours that reads the recording again; before and after stand around what it reads.
func (m *maker) command(before, after string) string {
	words := []string{"backfeed", before}
	for _, w := range m.src.Words() {
		words = append(words, prose.ShellWord(w))
	}
	return strings.Join(append(words, after), " ")
}

// emit is the command that writes a format about this image.
func (m *maker) emit(format, file string) string {
	image := ""
	if len(m.src.Profile.Images) > 1 {
		image = "--image " + prose.ShellWord(m.Image.ID.Path) + " "
	}
	return m.command("emit "+format, image+"-o "+prose.ShellWord(file))
}

// write has a format written, and adds what becomes of it, with the commands that write the file and then use it.
func (m *maker) write(format Format, opt Options, o Offer, command string, then ...string) *bytes.Buffer {
	var b bytes.Buffer
	opt.Image = NameOf(m.Image.ID)
	o.Says, o.Err = format(&b, m.src, opt)
	if o.Err == nil {
		o.use(command, then...)
	} else {
		o.Worth = ""
	}
	m.Files = append(m.Files, o)
	return &b
}

// use has a command write the file; what has to hold for one that then uses it stands behind that, and becomes the note.
func (o *Offer) use(write string, then ...string) {
	o.Commands = append(o.Commands, write)
	for _, c := range then {
		command, note, ok := strings.Cut(c, ", with ")
		if ok {
			o.Note = "With " + note + "."
		} else if command, note, ok = strings.Cut(c, "; "); ok {
			o.Note = strings.ToUpper(note[:1]) + note[1:] + "."
		}
		o.Commands = append(o.Commands, command)
	}
}

func (m *maker) golang() {
	saves := [2]float64{math.NaN(), math.NaN()}
	var st feedback.GoStats
	b := m.write(Go, Options{Calls: &st, Saves: &saves, Wrote: new(sample.ImageID)}, Offer{
		Reader: "Go's compiler", Does: "It inlines hot calls of larger functions than it would, and turns indirect calls that mostly have one callee into direct ones.",
	}, m.emit("go", "default.pgo"), GoBuild("default.pgo", m.Image.Image.GoMain()))
	o := &m.Files[len(m.Files)-1]
	if o.Err == nil {
		built := m.Image.Image.GoProfiled()
		switch {
		case built:
			o.Worth = "Not known: the program was built with a profile already, and has most of its gain."
		case st.Worth.Little():
			o.Worth = report.Sprintf(report.Style{}, "Not expected to gain 1 %% of the instructions: between %s and %s of them.", report.Percent(saves[0]), report.Percent(saves[1]))
		case !math.IsNaN(saves[0]):
			o.Worth = fmt.Sprintf("Expected to save %s to %s of the instructions: %s.", report.Percent(saves[0]), report.Percent(saves[1]), perCall(st.Worth))
		default:
			o.Worth = "Not known: there are too few samples to tell."
		}
		if d, err := feedback.DecideGo(b); err == nil {
			m.For, m.Decisions, m.Calls = "go", d, &st
		}
	}
	m.Files = append(m.Files, Offer{Reader: "Go's linker", Err: fmt.Errorf("it takes no order of functions; what the source can do instead says `%s`", OrderCommand(m.src, m.Image, "go", ""))})
}

// blocks says what the order of blocks that the counts ask for is worth.
func (m *maker) blocks() string {
	var linked, ordered, bound *layout.Judged
	for i := range m.ordered.Judged {
		switch j := &m.ordered.Judged[i]; j.Placement {
		case "as linked":
			linked = j
		case "blocks too":
			ordered = j
		case "upper bound":
			bound = j
		}
	}
	if linked == nil || ordered == nil || bound == nil || !(linked.Transfers > 0) {
		return "Not known: it has no symbols, so that no order was made to judge by."
	}
	return fmt.Sprintf("Jumps taken, of all transfers between blocks, by the inferred counts: %s now, %s with the blocks in the order that these ask for; no order has less than %s.",
		report.Percent(linked.Taken/linked.Transfers), report.Percent(ordered.Taken/ordered.Transfers), report.Percent(min(bound.Taken/bound.Transfers, ordered.Taken/ordered.Transfers)))
}

func (m *maker) llvm() {
	file := m.name + ".prof"
	b := m.write(LLVM, Options{}, Offer{
		Reader: "clang, rustc", Does: "They order blocks by what is hot, inline hot calls again, and put cold functions apart.",
		Worth: m.blocks() + " What inlining adds to that is not predicted.", Few: !madeBy(m.Compilers, "clang", "LLVM", "rustc"),
	}, m.emit("llvm", file), LLVMBuild(file, rustFirst(m.Compilers)))
	if o := &m.Files[len(m.Files)-1]; o.Err == nil {
		if d, err := feedback.DecideLLVM(b); err == nil {
			m.For, m.Decisions = "llvm", d
		}
	}
}

func (m *maker) gcc() {
	file := m.name + ".afdo"
	m.write(GCC, Options{}, Offer{
		Reader: "gcc", Does: "It inlines hot calls, orders blocks, and optimises what did not run for size.",
		Worth: m.blocks() + " gcc reaches a part of that: it reads counts of lines, not of blocks. It reaches more by counters of blocks (`backfeed emit gcda`), with one more build.", Few: !madeBy(m.Compilers, "GNU"),
	}, m.emit("gcc", file), GCCBuild(file))
}

func (m *maker) bolt() {
	file := m.name + ".fdata"
	m.write(BOLT, Options{}, Offer{
		Reader: "llvm-bolt", Does: "It moves blocks and functions of the linked program, which needs no new build if it was linked with -Wl,--emit-relocs.",
		Worth: m.blocks(),
	}, m.emit("bolt", file), BOLTRewrite(file, m.Image.ID.Path, m.Image.Image))
}

func (m *maker) propeller() {
	file, ld := m.name+".clusters", m.name+".order"
	m.write(Propeller, Options{LD: ld, Write: func(_ string, f func(io.Writer) error) error { return f(io.Discard) }}, Offer{
		Reader: "Propeller (clang and lld)", Does: "The compiler puts blocks in the order, the linker functions.", Worth: m.blocks(),
	}, m.emit("propeller", file)+" --ld "+prose.ShellWord(ld))
}

func (m *maker) linker() {
	file := m.name + ".order"
	o := Offer{Reader: "linkers (lld, gold, GNU ld)", Does: "They put functions that run together beside each other. Compile with -ffunction-sections."}
	switch order := m.ordered.Order; {
	case len(order.Symbols) == 0:
		o.Err = NoSymbols(m.Image, order)
	default:
		o.Says = []string{Ordered(m.Image.ID, m.ordered.Order, m.ordered.Gain)}
		o.Worth = m.ordered.worth()
		if m.ordered.Gain.Clear() {
			o.use(m.command("layout "+prose.ShellWord(m.Image.ID.Path), "--for lld -o "+prose.ShellWord(file)), LinkBuild("lld", file, rustFirst(m.Compilers)))
		}
	}
	m.Files = append(m.Files, o)
}

// worth says what the order is worth.
func (o *Worked) worth() string {
	switch {
	case o.Gain.Worse():
		return "Not expected to gain: as it is linked, the program is better."
	case !o.Gain.Clear():
		return "Not expected to gain: as it is linked, the program is as good."
	}
	var what []string
	if g := o.Gain; g.Pages < g.PagesLinked {
		what = append(what, fmt.Sprintf("%d pages of 4 KB hold 99 %% of what runs, of %d now", g.Pages, g.PagesLinked))
	}
	if g := o.Gain; g.Fewer() {
		_, least, most := g.Times()
		what = append(what, fmt.Sprintf("%.0f to %.0f %% fewer lines are missed in an instruction cache of 32 KB", 100*(1-most), 100*(1-least)))
	}
	return "Expected: " + strings.Join(what, "; ") + ". What that is in time is not predicted."
}

// NoSymbols says that no function of an image can be ordered, and what could be done.
func NoSymbols(ip *infer.ImageProfile, o *layout.Order) error {
	return fail.Errorf(fail.Nothing, "%s: no function that a linker could move ran: %d ran without a symbol of the image's own; keep the symbol table (do not strip), or its debug file where --symfs looks", ip.ID.Path, o.Unnamed)
}

// Again is a command that reads the same sources, of which labels and a time choose; a zero time does not.
func Again(src *input.Session, command string, labels map[string]string, since, until time.Time) string {
	m := &maker{src: src}
	var flags []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		flags = append(flags, "--label "+prose.ShellWord(name+"="+labels[name]))
	}
	for _, t := range []struct {
		name string
		at   time.Time
	}{{"--since", since}, {"--until", until}} {
		if !t.at.IsZero() {
			flags = append(flags, t.name+" "+t.at.UTC().Format(time.RFC3339))
		}
	}
	return strings.TrimSuffix(m.command(command, strings.Join(flags, " ")), " ")
}
