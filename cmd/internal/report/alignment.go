package report

import (
	"fmt"
	"io"
	"strings"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/layout"
)

// WriteAlignment prints the first n items of a, or all if n is 0, and what aligns them.
func WriteAlignment(w io.Writer, ip *infer.ImageProfile, a *layout.Alignment, n int, style Style) error {
	Fprintf(w, Style{}, "%s: %s fetches of 32-byte windows and %s of 64-byte lines, by inferred counts\n", ip.ID.Path, Count(a.Fetches.Of32), Count(a.Fetches.Of64))
	if len(a.Items) == 0 {
		_, err := fmt.Fprintln(w, "no loop, target of jumps or function would take clearly fewer if it were aligned")
		return err
	}
	Fprintf(w, Style{}, "aligning the %d below saves %s and %s of them, for %d bytes of padding\n\n", len(a.Items),
		savedShare(a.Saved.Of32, a.Fetches.Of32), savedShare(a.Saved.Of64, a.Fetches.Of64), a.Padding)
	shown := a.Items
	if n > 0 && len(shown) > n {
		shown = shown[:n]
	}
	if err := AlignTable(a, len(shown), style, nil).Print(w, style); err != nil {
		return err
	}
	if len(shown) < len(a.Items) {
		Fprintf(w, Style{}, "and %d more\n", len(a.Items)-len(shown))
	}
	return writeAlignOptions(w, ip, a)
}

// AlignTable is a table of the first n items of a; href leads to the procedure of one, "" is nowhere, and nil too.
func AlignTable(a *layout.Alignment, n int, style Style, href func(image.Symbol) string) *Table {
	t := NewTable(Right("saved"), Right("executions").Less(), Right("bytes").Drop(3).Less(), Right("align"), Right("padding").Less(),
		Right("windows").Drop(1).Less(), Right("aligned").Drop(1).Less(), Right("lines").Drop(2).Less(), Right("aligned").Drop(2).Less(), Left("kind"), Procedures("code").Main())
	for i := range a.Items[:n] {
		it := &a.Items[i]
		s := it.Saved()
		t.Row(savedShare(s.Of32+s.Of64, a.Fetches.Of32+a.Fetches.Of64), Count(it.N), Integer(uint64(it.End-it.Start)), Integer(it.Align), Integer(it.Pad),
			fmt.Sprintf("%.2f", it.Now.Of32), fmt.Sprintf("%.2f", it.Then.Of32), fmt.Sprintf("%.2f", it.Now.Of64), fmt.Sprintf("%.2f", it.Then.Of64),
			it.Kind.String(), fmt.Sprintf("%s+%#x", style.NameOf(it.Symbol.Name), uint64(it.Start-it.Symbol.Addr)))
		if href != nil {
			t.Link(href(it.Symbol))
		}
	}
	return t
}

// savedShare prints a share that may be negative: where lines are saved, windows may be lost.
func savedShare(part, all float64) string {
	if part < 0 {
		return "-" + Percent(-part/all)
	}
	return Percent(part / all)
}

// alignOptions are what aligns each kind of code, for a compiler or llvm-bolt. gcc has
// -falign-jumps, clang nothing of the kind.
var alignOptions = map[layout.AlignKind]string{
	layout.LoopHead:   "gcc -falign-loops={align}; clang -falign-loops={align}; llvm-bolt --align-blocks --block-alignment={align}",
	layout.JumpTarget: "gcc -falign-jumps={align}; llvm-bolt --align-blocks --block-alignment={align}",
	layout.ProcEntry:  "gcc or clang -falign-functions={align}; llvm-bolt --align-functions={align}",
}

// alignOptionsGo is alignOptions for Go, whose compiler aligns hot loops by itself if it has a profile.
var alignOptionsGo = map[layout.AlignKind]string{
	layout.LoopHead:  "go build -pgo (Go 1.23 or later, amd64) aligns hot loops by itself",
	layout.ProcEntry: "go build -ldflags=-funcalign={align}",
}

var alignPlurals = map[layout.AlignKind]string{layout.LoopHead: "loops", layout.JumpTarget: "targets of jumps", layout.ProcEntry: "functions"}

// writeAlignOptions says what to write to get the alignment, and what that costs if it
// is written for all code.
func writeAlignOptions(w io.Writer, ip *infer.ImageProfile, a *layout.Alignment) error {
	fmt.Fprintln(w, "\nOptions align all code of a kind in a file, hot or not. In all functions that ran:")
	for _, o := range AlignOptions(ip, a) {
		Fprintf(w, Style{}, "  %s\n", o.String())
	}
	return nil
}

// An AlignOption is what aligns all code of a kind, and what that saves.
type AlignOption struct {
	What    string // "12 loops"
	Saves   string // "" is nothing
	Options string
}

func (o AlignOption) String() string {
	if o.Saves == "" {
		return o.What + ": neither 32 nor 64 bytes save anything in all"
	}
	return o.What + ", saves " + o.Saves + ": " + o.Options
}

// AlignOptions says by kind of code what its alignment is worth, and what options ask for it.
func AlignOptions(ip *infer.ImageProfile, a *layout.Alignment) (all []AlignOption) {
	options := alignOptions
	if ip.Image.Go != "" {
		options = alignOptionsGo
	}
	for _, kind := range []layout.AlignKind{layout.LoopHead, layout.JumpTarget, layout.ProcEntry} {
		kindOf := a.All[kind]
		option, ok := options[kind]
		if !ok || kindOf.N == 0 {
			continue
		}
		o := AlignOption{What: fmt.Sprintf("%d %s", kindOf.N, alignPlurals[kind])}
		if kindOf.By != 0 {
			o.Saves = fmt.Sprintf("%s and %s for %d bytes of padding", savedShare(kindOf.Saved.Of32, a.Fetches.Of32), savedShare(kindOf.Saved.Of64, a.Fetches.Of64), kindOf.Pad)
			o.Options = strings.ReplaceAll(option, "{align}", fmt.Sprint(kindOf.By))
		}
		all = append(all, o)
	}
	return all
}

// An Alignment is advice on alignment as JSON.
type Alignment struct {
	Schema  string       `json:"schema"`
	Image   string       `json:"image"`
	Fetches alignWindows `json:"fetches"` // of all code as linked
	Saved   alignWindows `json:"saved"`   // fetches, if all items were aligned
	Padding uint64       `json:"padding"` // bytes
	Items   []alignRow   `json:"items"`
	All     []alignAll   `json:"all"` // what options would do that align all code of a kind
}

type alignAll struct {
	Kind    string       `json:"kind"`
	Places  int          `json:"places"`
	Align   uint64       `json:"align"` // bytes; 0 if no alignment saves anything
	Padding uint64       `json:"padding"`
	Saved   alignWindows `json:"saved"` // fetches
}

type alignWindows struct {
	Of32 float64 `json:"windows_32"`
	Of64 float64 `json:"lines_64"`
}

type alignRow struct {
	Name
	Kind    string       `json:"kind"`
	Addr    string       `json:"addr"`
	Bytes   uint64       `json:"bytes"`
	Count   float64      `json:"count"` // executions
	Align   uint64       `json:"align"` // bytes
	Padding uint64       `json:"padding"`
	Now     alignWindows `json:"now"` // fetches per execution
	Then    alignWindows `json:"then"`
}

// NewAlignment returns a as other programs read it.
func NewAlignment(ip *infer.ImageProfile, a *layout.Alignment) *Alignment {
	windows := func(w layout.Windows) alignWindows { return alignWindows{w.Of32, w.Of64} }
	d := &Alignment{
		Schema: "backfeed.alignment/2", Image: ip.ID.Path, Fetches: windows(a.Fetches), Saved: windows(a.Saved), Padding: a.Padding, Items: []alignRow{},
	}
	for k, all := range a.All {
		d.All = append(d.All, alignAll{layout.AlignKind(k).String(), all.N, all.By, all.Pad, windows(all.Saved)})
	}
	for i := range a.Items {
		it := &a.Items[i]
		d.Items = append(d.Items, alignRow{
			NameOf(it.Symbol.Name), it.Kind.String(), fmt.Sprintf("%#x", uint64(it.Start)), uint64(it.End - it.Start), it.N, it.Align, it.Pad, windows(it.Now), windows(it.Then),
		})
	}
	return d
}
