package emit

import (
	"bytes"
	"fmt"
	"io"

	"backfeed/cmd/internal/input"
	"backfeed/feedback"
)

// GCC writes an .afdo profile for gcc -fauto-profile.
func GCC(w io.Writer, src *input.Session, opt Options) ([]string, error) {
	again := func(image string) error {
		_, err := feedback.WriteGCC(io.Discard, src.Profile, src.Recording, feedback.GCCOptions{Image: image, Version: opt.GCC})
		return err
	}
	var made bytes.Buffer
	st, err := feedback.WriteGCC(&made, src.Profile, src.Recording, feedback.GCCOptions{Image: opt.Image, Version: opt.GCC})
	if err != nil {
		return nil, err
	}
	if err := flush(w, &made, missed(src, opt, "gcc", again, st.Image)); err != nil {
		return nil, err
	}
	summary := fmt.Sprintf("%s: %d functions, %d lines, %d inlined call sites, %d targets of indirect calls, for gcc %d%s",
		st.Image.Path, st.Funcs, st.Lines, st.Inlined, st.Targets, st.Version, leftOfExecuted(st.Skipped, st.Dropped, st.Executed))
	return append([]string{summary}, elsewhere(src, opt, again, st.Image)...), nil
}
