package main

import (
	"fmt"
	"io"
	"path/filepath"

	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/layout"
)

// maxGoFuncs bounds the functions of a package that are listed.
const maxGoFuncs = 20

// writeGoAdvice says what the source of a Go program can do for the order of its code.
func writeGoAdvice(w io.Writer, plan *layout.GoPlan, path string, style report.Style) error {
	fmt.Fprint(w, `Go's linker takes no order of functions. It lays out packages as they depend on each other, in each
package the files by name, and in each file the functions as they stand there. What a source can do is to
bring the functions that run together: at the top of the package's first file.

`)
	if err := writeScores(w, path, []scored{{"as linked", ownCounts, plan.Linked}, {"together in packages", ownCounts, plan.Together}, {"in any order", ownCounts, plan.Ordered}}, style); err != nil {
		return err
	}
	fmt.Fprint(w, `
"Together in packages" leaves the standard library alone; "in any order" is what a linker could do that
took an order. What a layout is worth by chance shows in builds with a shuffled one:

    for seed in 1 2 3 4 5 6 7 8; do go build -ldflags=-randlayout=$seed -o app.$seed . ; done

Time them in alternation. If they differ by no more than repeated runs of one of them, no order will help.
`)
	if len(plan.Packages) == 0 {
		_, err := fmt.Fprint(w, "\nNo function that ran, outside of the standard library, can be moved.\n")
		return err
	}
	fmt.Fprintln(w)
	t := report.NewTable(report.Procedures("package").Main(), report.Right("of execution"), report.Right("bytes").Drop(2), report.Right("to move"),
		report.Right("its lines for 99 %").Drop(3), report.Right("then").Drop(3), report.Right("distance of calls, this one alone").Drop(1))
	for _, p := range plan.Packages {
		t.Row(report.Clean(p.Path), report.Percent(p.Share), report.Integer(p.Size), report.Integer(uint64(len(p.Funcs))),
			fmt.Sprint(p.Linked.Lines.For99), fmt.Sprint(p.Moved.Lines.For99), change(p.Alone.Distance, plan.Linked.Distance))
	}
	if err := t.Print(w, style); err != nil {
		return err
	}
	if plan.Others > 0 {
		report.Fprintf(w, report.Style{}, "and %d packages that ran less\n", plan.Others)
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

// writeGoPackage lists the functions of a package in the order that they should have.
func writeGoPackage(w io.Writer, p layout.GoPackage, style report.Style) error {
	report.Fprintf(w, report.Style{}, "\n%s, in this order:\n", p.Path)
	t := report.NewTable(report.Right("bytes"), report.Right("samples"), report.Right("executions"), report.Procedures("function").Main(), report.Paths("file"))
	for _, f := range p.Funcs[:min(maxGoFuncs, len(p.Funcs))] {
		executions := "-"
		if f.Result.Entries.Conf != infer.None {
			executions = report.Count(f.Result.Entries.N)
		}
		t.Row(report.Integer(f.Size), report.Integer(f.Result.Samples), executions, report.Clean(f.Name), report.Clean(filepath.Base(f.File)))
	}
	if err := t.Print(w, style); err != nil {
		return err
	}
	if n := len(p.Funcs) - maxGoFuncs; n > 0 {
		report.Fprintf(w, report.Style{}, "and %d more\n", n)
	}
	return nil
}

// change tells by which share now differs from before.
func change(now, before float64) string {
	if before == 0 {
		return "-"
	}
	return fmt.Sprintf("%+.1f %%", 100*(now-before)/before)
}
