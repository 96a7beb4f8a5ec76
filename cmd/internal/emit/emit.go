package emit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/feedback"
	"backfeed/sample"
)

// A Format writes a profile of what src inferred, and sums up what is in it, what is left out
// and what to do about that, in a sentence or more. It fails with feedback.ErrEmpty or feedback.ErrUnfit where the
// profile would be of no use.
type Format func(w io.Writer, src *input.Session, opt Options) (summary []string, err error)

// Options say what to write.
type Options struct {
	Image string              // path or build ID; "" is the format's choice
	Form  string              // of the format: of LLVM "text" or "extbinary"; "" is the usual one
	Old   []byte              // the file that was there, to change no more of than needed
	LD    string              // of Propeller, the file for the linker
	GCC   int                 // major version of the gcc that reads the profile; 0 is that of the image
	Wrote *sample.ImageID     // is told what a profile for go or llvm-bolt is about, if it is not nil
	Calls *feedback.GoStats   // is told what is in a profile for go, if it is not nil
	LLVM  *feedback.LLVMStats // is told what is in a profile for clang and rustc, if it is not nil
	Saves *[2]float64         // is told what shares of the instructions one is expected to save at least and at most, if that is known

	Write func(path string, f func(io.Writer) error) error // writes LD
}

// Go writes a pprof profile for go build -pgo.
func Go(w io.Writer, src *input.Session, opt Options) ([]string, error) {
	again := func(image string) error {
		_, err := feedback.WriteGo(io.Discard, src.Profile, src.Recording, feedback.GoOptions{Image: image})
		return err
	}
	if opt.Image == "" {
		if err := lostProgram(src); err != nil {
			return nil, err
		}
	}
	st, err := feedback.WriteGo(w, src.Profile, src.Recording, feedback.GoOptions{Image: opt.Image, Round: true, Old: opt.Old})
	if err != nil {
		return nil, err
	}
	if opt.Wrote != nil {
		*opt.Wrote = st.Image
	}
	if opt.Calls != nil {
		*opt.Calls = st
	}
	summary := []string{fmt.Sprintf("%s: %d call edges, %d of them inlined, %d indirect; %d more of hot calls in what will be inlined%s",
		st.Image.Path, st.Edges, st.Inlined, st.Indirect, st.Copies, leftOut(st.Skipped, st.Dropped, float64(st.Weight)*st.Scale))}
	if st.Blind {
		summary = append(summary, "no callers of its samples were recorded: go build inlines by this profile, and turns no indirect calls into direct ones; "+
			"record, pgo and the agent keep callers of Go programs, perf does with --call-graph fp, and record --calibrate sees where calls lead")
	}
	im := src.Found(st.Image)
	built := im != nil && im.GoProfiled()
	if least, most, known := st.Worth.Saves(); opt.Saves != nil && known && !built {
		*opt.Saves = [2]float64{least, most}
	}
	if opt.Saves == nil || st.Worth.Little() { // who is told the shares says them
		summary = append(summary, worth(st.Worth, built)...)
	}
	return append(summary, elsewhere(src, opt, again, st.Image)...), nil
}

// GoNames writes a pprof profile for go build -pgo of functions and lines alone.
func GoNames(w io.Writer, src *input.Session, _ Options) ([]string, error) {
	st, err := feedback.WriteGoNames(w, src.Calls)
	if err != nil {
		return nil, err
	}
	return []string{
		fmt.Sprintf("%d call edges by functions and lines; %d of %d samples show no call%s", st.Edges, src.Calls.NoCall, src.Calls.Samples, leftOut(st.Skipped, st.Dropped, float64(st.Weight))),
		"the sources have no addresses: nothing was inferred, and the profile is as good as its samples; profiles with addresses (runtime/pprof's own files, perf, record) make better ones",
	}, nil
}

var llvmFormats = map[string]feedback.LLVMFormat{"": feedback.LLVMText, "text": feedback.LLVMText, "extbinary": feedback.LLVMExtBinary}

// LLVM writes a sample profile for clang and rustc.
func LLVM(w io.Writer, src *input.Session, opt Options) ([]string, error) {
	again := func(image string) error {
		_, err := feedback.WriteLLVM(io.Discard, src.Profile, src.Recording, feedback.LLVMOptions{Image: image})
		return err
	}
	var made bytes.Buffer
	st, err := feedback.WriteLLVM(&made, src.Profile, src.Recording, feedback.LLVMOptions{Image: opt.Image, Format: llvmFormats[opt.Form], Old: opt.Old})
	if err != nil {
		return nil, err
	}
	if err := flush(w, &made, missed(src, opt, "llvm", again, st.Images...)); err != nil {
		return nil, err
	}
	var images []string
	for _, id := range st.Images {
		images = append(images, id.Path)
	}
	summary := fmt.Sprintf("%s: %d functions, %d lines, %d inlined call sites%s",
		strings.Join(images, ", "), st.Funcs, st.Lines, st.Inlined, leftOfExecuted(st.Skipped, st.Dropped, st.Executed))
	if st.FS && llvmFormats[opt.Form] == feedback.LLVMText { // LLVM's own form says so itself
		summary += "; discriminators are flow-sensitive: write it with --format extbinary, or compile with -mllvm -profile-isfs"
	}
	if st.Probes {
		summary += "; counts are by probe: compile with -fpseudo-probe-for-profiling"
	}
	if opt.LLVM != nil {
		*opt.LLVM = st
	}
	told := []string{summary}
	for _, id := range st.Others {
		told = append(told, fmt.Sprintf("%s is left out: another compiler's build of a program of which one is by LLVM's", report.Clean(id.String())))
	}
	names := map[string][]string{}
	for _, id := range st.Images {
		name := path.Base(id.Path)
		if names[name] = append(names[name], report.Clean(id.String())); len(names[name]) == 2 {
			told = append(told, fmt.Sprintf("functions of %s are counted together: those of one name are one in the profile, and --image writes that of one build", strings.Join(names[name], " and ")))
		}
	}
	return append(append(told, dotted(st)...), elsewhere(src, opt, again, st.Images...)...), nil
}

// dotted says of how much rustc will not find what the profile has, unless that may be of the standard library alone, which
// is compiled already: 1.0 % of a program with no other names of the older mangling (testdata/consumers, markdown).
func dotted(st feedback.LLVMStats) []string {
	if st.Dotted == 0 || st.Dotted < st.Total/20 {
		return nil
	}
	return []string{fmt.Sprintf("%s of the weight is of functions that rustc will not find, as LLVM cuts names at their first dot: build with -Csymbol-mangling-version=v0, whose names have none, what is to be sampled and by the profile",
		report.Percent(float64(st.Dotted)/float64(st.Total)))}
}

// BOLT writes an fdata profile for llvm-bolt.
func BOLT(w io.Writer, src *input.Session, opt Options) ([]string, error) {
	again := func(image string) error {
		_, err := feedback.WriteBOLT(io.Discard, src.Profile, src.Recording, feedback.BOLTOptions{Image: image})
		return err
	}
	var made bytes.Buffer
	st, err := feedback.WriteBOLT(&made, src.Profile, src.Recording, feedback.BOLTOptions{Image: opt.Image})
	if err != nil {
		return nil, err
	}
	if err := flush(w, &made, missed(src, opt, "bolt", again, st.Image)); err != nil {
		return nil, err
	}
	if opt.Wrote != nil {
		*opt.Wrote = st.Image
	}
	summary := fmt.Sprintf("%s: %d procedures, %d edges, %d calls%s", st.Image.Path, st.Procs, st.Edges, st.Calls, leftOfExecuted(st.Skipped, st.Dropped, st.Executed))
	return append([]string{summary}, elsewhere(src, opt, again, st.Image)...), nil
}

// flush writes what was made, unless it is refused.
func flush(w io.Writer, made *bytes.Buffer, refused error) error {
	if refused != nil {
		return refused
	}
	_, err := made.WriteTo(w)
	return err
}

// leftOfExecuted is leftOut of a profile of all those executed instructions, but what was dropped.
func leftOfExecuted(skipped feedback.Skipped, dropped map[feedback.Reason]float64, executed float64) string {
	for _, n := range dropped {
		executed -= n
	}
	return leftOut(skipped, dropped, max(0, executed))
}

// Shares of all weight below which it does not matter what is left out, and below which it is not named.
const littleWeight, leastNamed = 0.05, 0.01

// leftOut reports what a profile leaves out, what share of all weight that is, where it is known, and
// what to do about it: "; left out: 3 procedures without line numbers: compile with -g". weight is what the
// profile has, dropped what it lacks of that.
func leftOut(skipped feedback.Skipped, dropped map[feedback.Reason]float64, weight float64) string {
	all := weight
	for _, n := range dropped {
		all += n
	}
	var parts, todo []string
	others, otherShare := 0, 0.0
	for _, why := range report.MostFirst(skipped) {
		n := skipped[why]
		if n == 0 {
			continue
		}
		part, share := fmt.Sprintf("%d %s", n, why), 1.0
		if dropped != nil {
			share = dropped[why] / max(all, 1)
			if share < leastNamed {
				others, otherShare = others+n, otherShare+share
				continue
			}
			part += fmt.Sprintf(" (%s of the weight)", report.Percent(share))
		}
		parts = append(parts, part)
		if do := feedbackAdvice[why]; do != "" && share >= littleWeight {
			todo = addAdvice(todo, do)
		}
	}
	if others > 0 {
		parts = append(parts, fmt.Sprintf("%d of other kinds (%s)", others, report.Percent(otherShare)))
	}
	switch {
	case len(parts) == 0:
		return ""
	case len(todo) == 0:
		return "; left out: " + strings.Join(parts, ", ") + ": nothing to do"
	}
	return "; left out: " + strings.Join(parts, ", ") + ": to have more, " + strings.Join(todo, ", and ")
}

// Advised returns err with what would have a profile hold something that would hold nothing, where that is known.
func Advised(err error) error {
	var empty *feedback.Empty
	if errors.As(err, &empty) && feedbackAdvice[empty.Why] != "" {
		return fmt.Errorf("%w: to have a profile, %s", err, feedbackAdvice[empty.Why])
	}
	return err
}

// addAdvice adds what to do to all that is to be done, unless that holds it: of two of which one begins as the other, the longer stays.
func addAdvice(todo []string, do string) []string {
	for i, other := range todo {
		switch {
		case strings.HasPrefix(other, do):
			return todo
		case strings.HasPrefix(do, other):
			todo[i] = do
			return todo
		}
	}
	return append(todo, do)
}

const debugInfo = "compile with -g, or have the debug file where --symfs looks"

// feedbackAdvice says what would bring in what is left out, by reason. Of the others nobody has to do
// anything: they are not in the source, hardly run, or no consumer could use them.
var feedbackAdvice = map[feedback.Reason]string{
	feedback.SkipUnseen:                            "record for longer",
	feedback.SkipIndirect:                          "record with callers or branch records (perf record -b, record --calibrate), which see where calls lead",
	feedback.SkipUnshown:                           "record for longer, or with --calibrate, which sees where more of them lead",
	feedback.SkipUnknown:                           "record for longer",
	feedback.SkipIncomplete:                        "compile with -fno-jump-tables what has a switch there; llvm-bolt leaves the blocks of the others in their order too",
	feedback.SkipOtherBuild:                        "--image writes the profile of that build",
	feedback.SkipLang:                              "emit a profile for their compiler too",
	feedback.SkipNoSymbol:                          "keep the symbol table: do not strip",
	feedback.SkipNoLines:                           debugInfo,
	feedback.SkipNoStart:                           debugInfo,
	feedback.SkipImageLines:                        debugInfo,
	feedback.SkipNoProbes:                          "compile with -fpseudo-probe-for-profiling",
	"functions that the map of basic blocks lacks": "compile with -fbasic-block-address-map",
}
