package emit

import (
	"fmt"

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
func Ordered(id sample.ImageID, o *layout.Order) string {
	return fmt.Sprintf("%s: %d functions; mean distance of a call %s bytes, was %s; %d pages for 99 %% of execution, was %d",
		id.Path, len(o.Symbols), report.Count(o.After.Distance), report.Count(o.Before.Distance), o.After.Pages.For99, o.Before.Pages.For99)
}

// NameOf names an image to package feedback.
func NameOf(id sample.ImageID) string {
	if id.Build.IsZero() {
		return id.Path
	}
	return id.Build.String()
}
