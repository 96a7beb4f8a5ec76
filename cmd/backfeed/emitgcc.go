package main

import (
	"fmt"
	"io"

	"backfeed/cmd/internal/input"
	"backfeed/feedback"
)

func emitGCC(w io.Writer, src *input.Session, opt emitOptions) (string, error) {
	st, err := feedback.WriteGCC(w, src.Profile, src.Recording, feedback.GCCOptions{Image: opt.image, Version: opt.gcc})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %d functions, %d lines, %d inlined call sites, %d targets of indirect calls, for gcc %d%s",
		st.Image.Path, st.Funcs, st.Lines, st.Inlined, st.Targets, st.Version, skipList(st.Skipped)), nil
}
