package emit

import (
	"fmt"
	"slices"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/infer/image"
	"backfeed/layout"
	"backfeed/sample"
)

// Unordered refuses what cannot be given to the target for an image, if there is one
// yet: the linker takes no order.
func Unordered(target string, im *image.Image) error {
	switch {
	case target == "mold":
		return fail.Errorf(fail.Machine, "mold takes no order of functions or of their sections (its --section-order is about the sections of the image): "+
			"link with lld (--for lld), gold (--for gold) or GNU ld (--for ld), or let llvm-bolt order what mold has linked with --emit-relocs (--for bolt)")
	case im == nil || target == "text" || target == "json":
		return nil
	case target == "go" && im.Go == "":
		return fail.Errorf(fail.Nothing, "%s is not a Go program: --for go has no advice about it", im.Path)
	case target != "go" && im.Go != "":
		return fail.Errorf(fail.Nothing, "%s is a Go program: Go's linker takes no order, an external one sees all Go code as a single section, "+
			"and llvm-bolt breaks such programs; --for go says what the source can do about it", im.Path)
	}
	return nil
}

// Ordered sums up what an order is worth to an image.
func Ordered(id sample.ImageID, o *layout.Order, g layout.Gain) string {
	return fmt.Sprintf("%s: %d functions; mean distance of a call %s bytes, was %s; %s",
		id.Path, len(o.Symbols), report.Count(o.After.Distance), report.Count(o.Before.Distance), gained(g))
}

// Linkers are the targets that are linkers: they move whole functions, and nothing in them.
var Linkers = []string{"lld", "gold", "ld", "ld-script"}

// Settles reports whether an order for the target is worth to Settle: what else is moved for others, nobody knows to the byte.
func Settles(target string) bool {
	return slices.Contains(Linkers, target) || target == "text" || target == "json"
}

// Unclear refuses an order for a linker that is not clearly better than the image as it is linked.
func Unclear(id sample.ImageID, target string, g layout.Gain) error {
	if !slices.Contains(Linkers, target) || g.Clear() {
		return nil
	}
	than := "not clearly better"
	if g.Worse() {
		than = "worse"
	}
	return fail.Errorf(fail.Gate, "%s: nothing was written, as the order is %s than that in which the image is linked: %s", id.Path, than, gained(g))
}

// gained says what an order does for pages and misses.
func gained(g layout.Gain) string {
	return fmt.Sprintf("pages for 99 %% of execution: %d, were %d; I-cache lines missed: %s", g.Pages, g.PagesLinked, Missed(g))
}

// Missed says what an order does for misses of an instruction cache, and how far that goes for the program itself.
func Missed(g layout.Gain) string {
	switch few := 0.005; {
	case g.Misses < few && g.MissesLinked < few:
		return "next to none"
	case g.MissesLinked < few:
		return "some, were next to none"
	}
	drawn, least, most := g.Times()
	return fmt.Sprintf("%.2f times as many in a run drawn from the counts, %.2f to %.2f in the program", drawn, least, most)
}

// NameOf names an image to package feedback.
func NameOf(id sample.ImageID) string {
	if id.Build.IsZero() {
		return id.Path
	}
	return id.Build.String()
}
