package emit

import (
	"backfeed/cmd/internal/fail"
	"backfeed/infer/image"
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

// NameOf names an image to package feedback.
func NameOf(id sample.ImageID) string {
	if id.Build.IsZero() {
		return id.Path
	}
	return id.Build.String()
}
