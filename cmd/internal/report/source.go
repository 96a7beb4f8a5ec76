package report

import (
	"fmt"

	"backfeed/infer/source"
)

// SourceNotes says, once per reason, which of files s does not show, and what to do.
func SourceNotes(s *source.Text, files []string) []string {
	var reasons []error
	by := map[error][]string{}
	for _, f := range files {
		why := s.Why(f)
		if by[why] == nil {
			reasons = append(reasons, why)
		}
		by[why] = append(by[why], f)
	}
	var notes []string
	for _, why := range reasons {
		do := ""
		if w, ok := why.(source.Withheld); ok && w.Elsewhere() {
			do = "; --source DIR looks for files below DIR"
		}
		notes = append(notes, fmt.Sprintf("the code of %s is shown without its source, which %s%s", andMore(by[why]), why, do))
	}
	return notes
}

// andMore names the first of some files and says how many there are.
func andMore(files []string) string {
	name := Clean(files[0])
	switch n := len(files); {
	case n == 2:
		name += " and another file"
	case n > 2:
		name += " and " + Integer(uint64(n-1)) + " more files"
	}
	return name
}
