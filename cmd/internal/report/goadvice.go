package report

import (
	"fmt"
	"io"
	"path/filepath"

	"backfeed/infer"
	"backfeed/layout"
)

// maxGoFuncs bounds the functions of a package that are listed.
const maxGoFuncs = 20

// WriteGoAdvice says what the source of a Go program can do for the order of its code.
func WriteGoAdvice(w io.Writer, plan *layout.GoPlan, path string, style Style) error {
	fmt.Fprint(w, "Go's linker takes no order of functions. It lays out packages as they depend on each other, in each package "+
		"the files by name, and in each file the functions as they stand there. What a source can do is to bring the functions that "+
		"run together: at the top of the package's first file.\n\n")
	if err := WriteScores(w, path, plan.Judged(), style); err != nil {
		return err
	}
	fmt.Fprint(w, "\n\"Together in packages\" leaves the standard library alone; \"in any order\" is what a linker could do that took an "+
		"order. What a layout is worth by chance shows in builds with a shuffled one:\n\n"+
		"    for i in 1 2 3 4 5 6; do go build -ldflags=-randlayout=$i -o app.$i .; done\n\n"+
		"Time them in alternation. If they differ by no more than repeated runs of one of them, no order will help.\n")
	if len(plan.Packages) == 0 {
		_, err := fmt.Fprint(w, "\nNo function that ran, outside of the standard library, can be moved.\n")
		return err
	}
	fmt.Fprintln(w)
	if err := GoPackages(plan).Print(w, style); err != nil {
		return err
	}
	if plan.Others > 0 {
		Fprintf(w, Style{}, "and %d packages that ran less\n", plan.Others)
	}
	gains := 0
	for _, p := range plan.Packages {
		if len(p.Funcs) < 2 || !p.Gains(plan.Linked) {
			continue
		}
		gains++
		if err := writeGoPackage(w, p, style); err != nil {
			return err
		}
	}
	if gains == 0 {
		_, err := fmt.Fprint(w, "\nNone of them gains 1 % by it: leave the source as it is.\n")
		return err
	}
	return nil
}

// GoPackages is a table of the packages of a plan.
func GoPackages(plan *layout.GoPlan) *Table {
	t := NewTable(Procedures("package").Main(), Right("of execution"), Right("bytes").Drop(2), Right("to move"),
		Right("its lines for 99 %").Drop(3), Right("then").Drop(3), Right("distance of calls, this one alone").Drop(1))
	for _, p := range plan.Packages {
		t.Row(Clean(p.Path), Percent(p.Share), Integer(p.Size), Integer(uint64(len(p.Funcs))),
			fmt.Sprint(p.Linked.Lines.For99), fmt.Sprint(p.Moved.Lines.For99), percentChange(p.Alone.Distance, plan.Linked.Distance))
	}
	return t
}

// writeGoPackage lists the functions of a package in the order that they should have.
func writeGoPackage(w io.Writer, p layout.GoPackage, style Style) error {
	Fprintf(w, Style{}, "\n%s, in this order:\n", p.Path)
	t := NewTable(Right("bytes"), Right("samples"), Right("executions"), Procedures("function").Main(), Paths("file"))
	for _, f := range p.Funcs[:min(maxGoFuncs, len(p.Funcs))] {
		executions := "-"
		if f.Result.Entries.Conf != infer.None {
			executions = Count(f.Result.Entries.N)
		}
		t.Row(Integer(f.Size), Integer(f.Result.Samples), executions, Clean(f.Name), Clean(filepath.Base(f.File)))
	}
	if err := t.Print(w, style); err != nil {
		return err
	}
	if n := len(p.Funcs) - maxGoFuncs; n > 0 {
		Fprintf(w, Style{}, "and %d more\n", n)
	}
	return nil
}

// percentChange says by which share now differs from before.
func percentChange(now, before float64) string {
	if before == 0 {
		return "-"
	}
	return fmt.Sprintf("%+.1f %%", 100*(now-before)/before)
}
