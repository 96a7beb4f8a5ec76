package input

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/prose"
	"backfeed/infer/truth"
	"backfeed/sample"
	"backfeed/sample/store"
)

// A Wanted is a kind of file that an argument is of.
type Wanted int

const (
	WantSamples Wanted = iota // a recording, or what else is read as one
	WantCounts                // a counts document
	WantTruth                 // exact counts
	WantConfig                // a configuration
	WantNotes                 // notes of gcc
	WantImage                 // a program or library
	WantPprof                 // a profile for go build
	WantLLVM                  // a profile for clang
	WantStore                 // a directory that is a store
)

// callgrind is how exact counts are made.
const callgrind = "valgrind --tool=callgrind --dump-instr=yes --collect-jumps=yes --callgrind-out-file=FILE PROGRAM"

// wants say what each is and how to have one: of samples that were given instead, where SRC is their file, and of all else.
var wants = map[Wanted]struct{ a, ofSamples, otherwise string }{
	WantSamples: {"a recording", "", "`backfeed record -o app.bfr -- PROGRAM` makes one, and `backfeed help recordings` says what else is read"},
	WantCounts:  {"a counts document", "`backfeed infer SRC --format json -o counts.json` makes one of it", "`backfeed infer RECORDING --format json` makes one"},
	WantTruth:   {"exact counts", "they are made by " + callgrind + "; samples are named with --samples", "they are made by " + callgrind},
	WantConfig:  {"a configuration (YAML)", "`backfeed help commands` says what stands in one", "`backfeed help commands` says what stands in one"},
	WantNotes:   {"notes of gcc (*.gcno)", "build with -ftest-coverage added, which writes them beside the objects", "build with -ftest-coverage added, which writes them beside the objects"},
	WantImage:   {"a program or library (ELF)", "`backfeed images SRC` lists those that have samples in it", "name the file that was built"},
	WantPprof:   {"a profile of pprof", "`backfeed emit go SRC -o default.pgo` makes one of it", "`backfeed emit go RECORDING -o default.pgo` makes one"},
	WantLLVM:    {"a sample profile of LLVM", "`backfeed emit llvm SRC -o app.prof` makes one of it", "`backfeed emit llvm RECORDING -o app.prof` makes one"},
	WantStore:   {"a store (a directory)", "`backfeed images SRC` and all other commands read it as it is", "record --store DIR and agent --store DIR make one"},
}

// Kinds of files whose names are compared.
const (
	kindEmpty     = "an empty file"
	kindRecording = "a recording of backfeed"
	kindPerf      = "a perf.data file"
	kindPprof     = "a profile of pprof"
	kindOTLP      = "profiles of OpenTelemetry"
	kindCounts    = "a counts document"
	kindTruth     = "exact counts of callgrind"
	kindCover     = "a cover profile of Go"
	kindELF       = "a program or library (ELF)"
	kindNotes     = "notes of gcc (.gcno)"
	kindLLVM      = "a sample profile of LLVM"
	kindGzip      = "compressed with gzip, and of no kind that backfeed reads so, or cut off"
	kindText      = "a text of no kind that backfeed knows"
	kindUnknown   = "a file of no kind that backfeed knows"
)

// kinds are those that a Wanted may be of.
var kinds = map[Wanted][]string{
	WantSamples: {kindRecording, kindPerf, kindPprof, kindOTLP, kindTruth, kindCover}, WantCounts: {kindCounts}, WantTruth: {kindTruth}, WantConfig: {kindText},
	WantNotes: {kindNotes}, WantImage: {kindELF}, WantPprof: {kindPprof}, WantLLVM: {kindLLVM},
}

// ofSamples reports whether what is said of samples goes for a kind. Profiles of pprof may be without addresses.
func ofSamples(kind string) bool {
	return kind == kindRecording || kind == kindPerf || kind == kindOTLP || kind == "a store"
}

var (
	ourDocument = regexp.MustCompile(`^\s*\{\s*"schema":\s*"backfeed\.([a-z-]+)/`)
	llvmLine    = regexp.MustCompile(`^(#.*\n)*[^\s:][^\n]*:\d+:\d+\n \d`)
	fdataLine   = regexp.MustCompile(`^(boltedcollection\n|no_lbr .*\n)?[01] [^\n]+ [0-9a-f]+ [01] [^\n]+ [0-9a-f]+ \d+ \d+\n`)
)

// kindOf says what a file is that begins with head, by content.
func kindOf(head []byte) string {
	switch sample.Sniff(head) {
	case sample.FormatBackfeed:
		return kindRecording
	case sample.FormatPerf, sample.FormatPerfPipe:
		return kindPerf
	case sample.FormatPprof:
		return kindPprof
	case sample.FormatOTLP:
		return kindOTLP
	}
	doc := ourDocument.FindSubmatch(head)
	switch {
	case len(head) == 0:
		return kindEmpty
	case doc != nil && string(doc[1]) == "counts":
		return kindCounts
	case doc != nil:
		return fmt.Sprintf("a document of backfeed (schema backfeed.%s)", doc[1])
	case bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return kindELF
	case bytes.HasPrefix(head, []byte("oncg")), bytes.HasPrefix(head, []byte("gcno")):
		return kindNotes
	case bytes.HasPrefix(head, []byte("adcg")) && len(head) >= 8 && binary.LittleEndian.Uint32(head[4:]) < 16:
		return "a profile for gcc -fauto-profile (.afdo)"
	case bytes.HasPrefix(head, []byte("adcg")), bytes.HasPrefix(head, []byte("gcda")):
		return "counters of gcc (.gcda)"
	case bytes.HasPrefix(head, []byte("\xfflprof")):
		return "an instrumented profile of LLVM"
	case bytes.HasPrefix(head, []byte("\xff4")) && bytes.Contains(head[:min(len(head), 16)], []byte("FORP5")), llvmLine.Match(head):
		return kindLLVM
	case fdataLine.Match(head):
		return "a profile for llvm-bolt (fdata)"
	case truth.IsCounts(head):
		return kindTruth
	case truth.IsCover(head):
		return kindCover
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return kindGzip
	case isText(head):
		return kindText
	}
	return kindUnknown
}

// isText reports whether head may be of a text: it is UTF-8, but for a last letter that is cut off, without control characters.
func isText(head []byte) bool {
	for len(head) > 0 {
		r, n := utf8.DecodeRune(head)
		if r == utf8.RuneError && n == 1 && len(head) >= utf8.UTFMax || r < ' ' && r != '\t' && r != '\n' && r != '\r' {
			return false
		}
		head = head[n:]
	}
	return true
}

// Mistaken returns what to say of the file at path instead of why it could not be read, err, if it is plainly of another kind than is
// wanted; else err, with what is wanted if it is a text or of no known kind. A nil err stays.
func Mistaken(path string, want Wanted, err error) error {
	if err == nil || path == "-" || store.InBucket(path) {
		return err
	}
	head, isDir, readErr := headOf(path)
	if readErr != nil {
		return err
	}
	kind := kindOf(head)
	if isDir {
		if kind = "a directory"; store.Is(path) {
			kind = "a store"
		}
	}
	for _, k := range kinds[want] {
		if k == kind {
			return err
		}
	}
	w := wants[want]
	do := w.otherwise
	if ofSamples(kind) {
		do = strings.ReplaceAll(w.ofSamples, "SRC", prose.ShellWord(path))
	}
	if kind == kindText {
		return fmt.Errorf("%w; want %s: %s", err, w.a, do)
	}
	code := fail.Nothing
	if isDir || fail.KindOf(err) == fail.Usage { // the bytes are not to blame
		code = fail.KindOf(err)
	}
	return fail.Errorf(code, "%s: %s, not %s: %s", path, kind, w.a, do)
}

// headOf returns the first bytes of a file, which is a directory if it has none.
func headOf(path string) (head []byte, isDir bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	if st.IsDir() {
		return nil, true, nil
	}
	if !st.Mode().IsRegular() {
		return nil, false, errors.New("not a regular file")
	}
	head = make([]byte, sample.SniffLen)
	n, err := io.ReadFull(f, head)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return head[:n], false, err
}
