package feedback

import (
	"bufio"
	"regexp"
	"strings"
	"unicode/utf8"
)

// SkipName counts names, each once. Names come from images: any bytes but NUL may be in them, and a
// format of lines in which one stood as it is would say what the image wants it to.
const SkipName Reason = "names that the format cannot carry"

// fitsBinary reports whether a name can stand in formats whose strings end with a zero byte.
func fitsBinary(name string) bool { return name != "" && strings.IndexByte(name, 0) < 0 }

// count is what LLVM takes for the end of a call's target, if it is within its name.
var count = regexp.MustCompile(`:[0-9]+ `)

// fitsLLVMText reports whether LLVM's text form can carry a name at all places that names have in
// it: at the begin of a function's first line, where "#" begins a comment, "!" is our own reader's
// metadata and "[" begins a calling context (SampleContext in SampleProf.h); behind the place of
// an inlined call, where a digit begins a count and "vtables " a list of types; and among the
// targets of a call, which begin behind spaces and end at the first colon before a count
// (ParseLine in SampleProfReader.cpp). Other spaces and colons are carried.
func fitsLLVMText(name string) bool {
	return fitsBinary(name) && !strings.Contains(name, "\n") && !strings.HasPrefix(name, "vtables ") &&
		strings.IndexByte(" #!:[0123456789", name[0]) < 0 && !count.MatchString(name)
}

// fitsGo reports whether a name reaches the Go compiler. It gets the profile from
// `go tool preprofile` as lines, a name each, read by a bufio.Scanner; and in a pprof profile
// strings are UTF-8.
func fitsGo(name string) bool {
	return fitsBinary(name) && !strings.Contains(name, "\n") && name[len(name)-1] != '\r' &&
		len(name) < bufio.MaxScanTokenSize-len("\n") && utf8.ValidString(name)
}

// numbered is what llvm-bolt calls local symbols.
var numbered = regexp.MustCompile(`/[0-9]+$`)

// fitsBOLT reports whether an fdata file can carry the name of a symbol, which is split at spaces
// and, by merge-fdata, at line ends; see boltEscape. Global symbols must not look like local ones.
func fitsBOLT(name string) bool {
	return fitsBinary(name) && !strings.Contains(name, "\n") && !numbered.MatchString(name)
}

// keep leaves functions, inlined calls and targets out whose names do not fit, and counts the names.
func (t *tree) keep(fits func(name string) bool) {
	unfit := map[string]bool{}
	ok := func(name string) bool {
		if !fits(name) {
			unfit[name] = true
		}
		return !unfit[name]
	}
	for name, f := range t.funcs {
		if f.keep(ok); !ok(name) {
			t.dropped[SkipName] += f.lineSum()
			delete(t.funcs, name)
		}
	}
	if len(unfit) > 0 {
		t.skipped[SkipName] = len(unfit)
	}
}

// lineSum is the executions of the lines of f and of what is inlined into it: about what it executed.
func (f *function) lineSum() (sum float64) {
	for _, n := range f.counts(nil) {
		sum += float64(n)
	}
	return sum
}

// keep keeps the counts of f's lines: what is left out of them is where they went.
func (f *function) keep(ok func(name string) bool) {
	for at, calls := range f.calls {
		for callee := range calls {
			if !ok(callee) {
				delete(calls, callee)
			}
		}
		if len(calls) == 0 {
			delete(f.calls, at)
		}
	}
	for c, g := range f.inlined {
		if g.keep(ok); !ok(c.callee) {
			delete(f.inlined, c)
		}
	}
}
