package main

import (
	"errors"
	"fmt"
	"io"

	"backfeed/cmd/internal/emit"
	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/layout"
)

// layoutTargets are those who read an order: the words of --for, the default first.
var layoutTargets = []string{"lld", "gold", "ld", "ld-script", "bolt", "propeller", "mold", "go", "text", "json"}

// movesBlocks has those of them that move single blocks: people want to see the most
// that there is to gain.
var movesBlocks = map[string]bool{"bolt": true, "propeller": true, "text": true, "json": true}

const layoutForHelp = `--for says who reads the order:
lld        a symbol order for ld.lld --symbol-ordering-file
gold       a section order for ld.gold --section-ordering-file; it puts all other code before it
ld         the same for GNU ld 2.43 and later: --section-ordering-file
ld-script  a piece of a linker script for GNU ld of any version: -T FILE beside its own script
bolt       a symbol order for llvm-bolt --reorder-functions=user --function-order. It goes with the
           fdata of emit bolt, which orders the blocks: -data FDATA -reorder-blocks=ext-tsp
propeller  the order of blocks for clang -fbasic-block-sections=list=FILE, and in the file named by
           --ld that of functions for ld.lld --symbol-ordering-file: as emit propeller
go         advice: Go's linker takes no order, but keeps that of the source
text       the order with its functions' executions, and what it is worth
json       the same as a document; its schema is cmd/backfeed/layout.schema.json
mold takes no order at all.

Linkers move sections of object files: compile with -ffunction-sections. Whether the sampled image was,
only its debug information (-g, -g1) shows: with it, layout tells how many functions share a section. For
gold and ld, which go by the names of sections, each function is named in all forms that gcc and clang
have: .text.f, .text.hot.f, .text.unlikely.f (of f.cold, where there is one), .text.startup.f and
.text.exit.f. Local functions of one name all move in lld and gold, except with clang's
-funique-internal-linkage-names; for GNU ld they are told apart by object file, if debug information
tells the source file. Names such as f.part.0, f.isra.0, f.constprop.0 and f.cold are the compiler's:
they fit the next build if its source, compiler and flags are the same.`

// writeLayout writes the order for the target, and tells what is in it. scores are for
// text and json. An order for a linker that is not clearly better than what is linked is written if always.
func (c *cli) writeLayout(out, target string, order *layout.Order, ip *infer.ImageProfile, scores []layout.Judged, always bool) error {
	switch target {
	case "text":
		return c.writeText(out, c.style(out), func(w io.Writer, style report.Style) error { return report.WriteOrder(w, order, ip, scores, style) })
	case "json":
		return c.writeJSON(out, report.NewOrder(order, ip, scores))
	case "go":
		plan := layout.GoAdvice(ip)
		if plan.Funcs == 0 {
			return fail.Errorf(fail.Nothing, "%s: no function of the program ran; record it while it has something to do", ip.ID.Path)
		}
		return c.writeText(out, c.style(out), func(w io.Writer, style report.Style) error { return report.WriteGoAdvice(w, plan, ip.ID.Path, style) })
	}
	gain := order.Gain()
	sections := order.Sections(ip.Image)
	if err := emit.Unclear(ip.ID, target, gain); err != nil && !always {
		c.tellSections(sections, target) // that may be why
		return fmt.Errorf("%w (--always writes it)", err)
	}
	format, ok := sections.Format(target)
	if !ok {
		return fmt.Errorf("no format for %s", target)
	}
	if err := c.write(out, format.Write); err != nil {
		return err
	}
	c.warn("%s", emit.Ordered(ip.ID, order, gain))
	c.tellSections(sections, target)
	if format.Unfit > 0 {
		c.warn("left out: %d functions whose names the format cannot carry; they stay where they are: nothing to do", format.Unfit)
	}
	switch {
	case out == "-":
	case target == "bolt":
		c.warn("next: %s", emit.BOLTReorder(whole(out), whole(ip.Image.Path), ip.Image))
	default:
		c.warn("next: %s", emit.LinkBuild(target, whole(out), emit.MadeByRust(ip)))
	}
	return nil
}

// tellSections says what may keep a linker from following an order.
func (c *cli) tellSections(s *layout.Sections, target string) {
	if target != "bolt" { // which needs no sections
		if s.Shared > 0 {
			c.warn("%d functions shared a section with others: compile with -ffunction-sections, or they move together or not at all", s.Shared)
		}
		if s.Parts > 1 && target != "ld" && target != "ld-script" {
			c.warn("the functions lie in %d sections of the image: if it is linked so again (-z keep-text-section-prefix), each is ordered by itself", s.Parts)
		}
	}
}

// emitClusters writes the files of Propeller for the image.
func (c *cli) emitClusters(out, ld string, src *input.Session, ip *infer.ImageProfile) error {
	if _, err := c.emit(out, "", emit.Propeller, src, emit.Options{Image: emit.NameOf(ip.ID), LD: ld, Write: c.write}); err != nil {
		return err
	}
	c.tellPropeller(out, ld)
	return nil
}

// checkLD refuses a file for the linker where there is none to write.
func checkLD(target, ld string) error {
	if (target == "propeller") != (ld != "") {
		return errors.New("--for propeller, and nothing else, wants --ld FILE for the linker")
	}
	return nil
}
