package input

import (
	"io"
	"os"

	"backfeed/cmd/internal/fetch"
	"backfeed/infer/truth"
	"backfeed/sample"
	"backfeed/sample/store"
)

// IsCover reports whether path is a cover profile, or may be one.
func IsCover(path string) bool { return sniffs(path, true, truth.IsCover) }

// IsCounted reports whether path is counts of code, which have to be put to images, or may be.
func IsCounted(path string) bool {
	return sniffs(path, true, func(head []byte) bool { return truth.IsCounts(head) || truth.IsCover(head) })
}

// IsRecording reports whether path is samples that no compiler reads as a profile: a recording of backfeed, a perf.data
// file, OTLP profiles or a store. A pprof profile may be either.
func IsRecording(path string) bool {
	return store.Is(path) || sniffs(path, false, func(head []byte) bool {
		f := sample.Sniff(head)
		return f == sample.FormatBackfeed || f == sample.FormatPerf || f == sample.FormatPerfPipe || f == sample.FormatOTLP
	})
}

// HasStacks reports whether path is of a format whose stacks are read as deep as Options.StackDepth says, or may be: a perf.data file or
// OTLP profiles.
func HasStacks(path string) bool {
	return sniffs(path, true, func(head []byte) bool {
		f := sample.Sniff(head)
		return f == sample.FormatPerf || f == sample.FormatPerfPipe || f == sample.FormatOTLP
	})
}

// IsProfile reports whether path is a file of a profile in pprof's format.
func IsProfile(path string) bool {
	return sniffs(path, false, func(head []byte) bool { return sample.Sniff(head) == sample.FormatPprof })
}

// sniffs asks is about the first bytes of a source. What cannot be read here may be anything, which is unknown:
// standard input, what is fetched later, or a file that is wrong, of which the reader will say more.
func sniffs(path string, unknown bool, is func(head []byte) bool) bool {
	if store.InBucket(path) {
		return false
	}
	if path == "-" || fetch.Is(path) {
		return unknown
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return unknown
	}
	defer f.Close()
	head := make([]byte, sample.SniffLen)
	n, _ := io.ReadFull(f, head)
	return is(head[:n])
}
