package emit

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
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
	told := append([]string{summary}, otherGCC(st, opt.GCC)...)
	return append(told, elsewhere(src, opt, again, st.Image)...), nil
}

// otherGCC says so if other versions of gcc than the one that is to read a profile built some of what ran. gcc 12 reads counts of lines alone, and finds 98 %
// of the weight of its own in what gcc 14 and 15 built (mawk). From 13 on, each numbers the blocks of a line its own way: of the weight that minisat has by gcc 14, 84 % is
// where gcc 15's build has some, and 70 % where gcc 12's does. asked is the version that was asked for, or 0.
func otherGCC(st feedback.GCCStats, asked int) []string {
	other := 0.0
	var by []string
	versions := slices.SortedFunc(maps.Keys(st.Made), func(a, b int) int { return cmp.Or(cmp.Compare(st.Made[b], st.Made[a]), cmp.Compare(a, b)) })
	for _, v := range versions {
		if v != st.Version && st.Made[v] > 0 {
			other, by = other+st.Made[v], append(by, strconv.Itoa(v))
		}
	}
	if st.Version < 13 || other < littleWeight*st.Executed || other == 0 {
		return nil
	}
	do := fmt.Sprintf("record what gcc %d has built", st.Version)
	if asked != 0 && versions[0] != asked {
		do += fmt.Sprintf(", or leave --gcc-version out, for a profile that gcc %d is to read", versions[0])
	}
	return []string{fmt.Sprintf("gcc %s built %s of what ran of %s, and the profile is for gcc %d, which numbers the blocks of a line in another way and finds a part of the counts: %s",
		strings.Join(by, " and "), report.Percent(other/st.Executed), st.Image.Path, st.Version, do)}
}
