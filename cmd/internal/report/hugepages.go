package report

import (
	"fmt"
	"io"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/layout"
)

// enoughForOne is what hot procedures must take for huge pages to be of use, in bytes.
const enoughForOne = 2 << 20

// WriteHugePages prints what should be on huge pages: the first n of them, or all if n is 0.
func WriteHugePages(w io.Writer, ip *infer.ImageProfile, h *layout.HugePages, n int, style Style) error {
	Fprintf(w, Style{}, "%s: %d bytes hold 99.9 %% of executed instructions, in functions of %d bytes\n\n", ip.ID.Path, h.Hot, h.Procs)
	t := NewTable(Left("2 MB pages for"), Right("as linked"), Right("in our order"))
	row := func(share string, linked, order int) {
		ours := "-"
		if order > 0 {
			ours = fmt.Sprint(order)
		}
		t.Row(share, fmt.Sprint(linked), ours)
	}
	row("90 % of execution", h.Linked.For90, h.Order.For90)
	row("99 %", h.Linked.For99, h.Order.For99)
	row("99.9 %", h.Linked.For999, h.Order.For999)
	if err := t.Print(w, style); err != nil {
		return err
	}
	if h.Procs < enoughForOne {
		_, err := fmt.Fprintln(w, "\nThe hot functions do not fill one huge page: pages of 4 KB do, and --for lld puts them side by side.")
		return err
	}
	fmt.Fprintln(w, "\nAs linked, these addresses of the file would have to be on huge pages:")
	for _, r := range h.Runs {
		Fprintf(w, Style{}, "  %#x-%#x  %s of execution\n", uint64(r.Start), uint64(r.End), Percent(r.Share))
	}
	if len(h.Groups) == 0 {
		_, err := fmt.Fprintln(w, "\nNone of them has a symbol that a linker could move.")
		return err
	}
	fmt.Fprintln(w, "\nIn our order, a huge page each:")
	g := NewTable(Right("page"), Right("functions"), Right("bytes").Drop(1), Right("execution"), Procedures("first").Main(), Procedures("last"))
	for i, group := range h.Groups {
		if n > 0 && i >= n {
			break
		}
		first, last := group.Symbols[0], group.Symbols[len(group.Symbols)-1]
		g.Row(fmt.Sprint(i+1), fmt.Sprint(len(group.Symbols)), Integer(group.Bytes), Percent(group.Share), style.NameOf(first.Name), style.NameOf(last.Name))
	}
	if err := g.Print(w, style); err != nil {
		return err
	}
	if ip.Image.Go != "" {
		_, err := fmt.Fprintln(w, "\nGo's linker takes no order, so what can be had is the range as linked: madvise(MADV_HUGEPAGE) on it at the start, where the kernel has CONFIG_READ_ONLY_THP_FOR_FS.")
		return err
	}
	last := h.Groups[len(h.Groups)-1].Symbols
	_, err := Fprintf(w, Style{}, `
Link with the order and -Wl,-z,max-page-size=2097152 -Wl,--section-start=.text=%#x, so that the first
of them begins on a huge page, in memory and in the file. The program then has to ask for the pages: from
%s
to
%s
by madvise(MADV_HUGEPAGE), where the kernel has CONFIG_READ_ONLY_THP_FOR_FS, or by a copy to huge pages as
Chromium's hugepage_text makes it. llvm-bolt does all of that with --hugify, and takes the order with
--reorder-functions=user --function-order=FILE (--for bolt).
`, uint64(h.Text), Clean(style.NameOf(h.Groups[0].Symbols[0].Name)), Clean(style.NameOf(last[len(last)-1].Name)))
	return err
}

// A HugePages is advice on huge pages as JSON.
type HugePages struct {
	Schema string          `json:"schema"`
	Image  string          `json:"image"`
	Hot    uint64          `json:"hot_bytes"`           // of blocks with 99.9 % of executed instructions
	Procs  uint64          `json:"hot_procedure_bytes"` // of the procedures that they are in
	Linked layout.Coverage `json:"linked"`              // 2 MB pages
	Order  layout.Coverage `json:"order"`
	Text   string          `json:"text_start,omitempty"` // for .text, so that groups begin on huge pages
	Groups []hugeGroup     `json:"groups"`
	Runs   []hugeRun       `json:"runs"`
}

type hugeGroup struct {
	Bytes      uint64  `json:"bytes"`
	Share      float64 `json:"share"` // of executed instructions
	Procedures []Name  `json:"procedures"`
}

type hugeRun struct {
	Start string  `json:"start"`
	End   string  `json:"end"`
	Share float64 `json:"share"` // of executed instructions
}

// NewHugePages returns h as other programs read it.
func NewHugePages(ip *infer.ImageProfile, h *layout.HugePages) *HugePages {
	d := &HugePages{
		Schema: "backfeed.hugepages/2", Image: ip.ID.Path, Hot: h.Hot, Procs: h.Procs, Linked: h.Linked, Order: h.Order, Groups: []hugeGroup{}, Runs: []hugeRun{},
	}
	hex := func(a image.Addr) string { return fmt.Sprintf("%#x", uint64(a)) }
	if h.Text != 0 {
		d.Text = hex(h.Text)
	}
	for _, g := range h.Groups {
		row := hugeGroup{Bytes: g.Bytes, Share: g.Share}
		for _, s := range g.Symbols {
			row.Procedures = append(row.Procedures, NameOf(s.Name))
		}
		d.Groups = append(d.Groups, row)
	}
	for _, r := range h.Runs {
		d.Runs = append(d.Runs, hugeRun{hex(r.Start), hex(r.End), r.Share})
	}
	return d
}
