package demo

import (
	"bufio"
	"cmp"
	"io"
	"regexp"
	"slices"
	"strconv"
)

// A remark is a decision that the Go compiler tells with -gcflags=-m.
type remark struct {
	line, column int
	what         remarkKind
	call         string // expression that is called, of a devirtualised call
	callee       string
}

type remarkKind uint8

const (
	inlined       remarkKind = iota // the callee's code stands at the call
	devirtualized                   // an indirect call asks first whether it is the usual callee
)

// The lines that cmd/compile/internal/inline and devirtualize print.
var remarkLines = map[remarkKind]*regexp.Regexp{
	inlined:       regexp.MustCompile(`^\./main\.go:(\d+):(\d+): inlining call to (.+)$`),
	devirtualized: regexp.MustCompile(`^\./main\.go:(\d+):(\d+): PGO devirtualizing \w+ call (.+) to (.+)$`),
}

// readRemarks reads the compiler's remarks about main.go, each once, in the
// order of the source.
func readRemarks(r io.Reader) ([]remark, error) {
	var remarks []remark
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		for what, re := range remarkLines {
			m := re.FindStringSubmatch(sc.Text())
			if m == nil {
				continue
			}
			rem := remark{what: what, callee: m[len(m)-1]}
			rem.line, _ = strconv.Atoi(m[1]) // \d+: too large a number stays the largest
			rem.column, _ = strconv.Atoi(m[2])
			if what == devirtualized {
				rem.call = m[3]
			}
			remarks = append(remarks, rem)
		}
	}
	slices.SortFunc(remarks, func(a, b remark) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column), cmp.Compare(b.what, a.what), cmp.Compare(a.callee, b.callee))
	})
	return slices.Compact(remarks), sc.Err()
}

// only returns the remarks of one kind in a that are not in b.
func only(what remarkKind, a, b []remark) []remark {
	var diff []remark
	for _, r := range a {
		if r.what == what && !slices.Contains(b, r) {
			diff = append(diff, r)
		}
	}
	return diff
}
