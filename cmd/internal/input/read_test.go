package input

import (
	"encoding/binary"
	"strings"
	"testing"
)

// TestUnknown: of a file that is no recording, what it is is said, and what makes one of it.
func TestUnknown(t *testing.T) {
	gperftools := func(words ...uint64) string {
		var b []byte
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		return string(b)
	}
	const none = "neither a backfeed recording"
	for _, tt := range []struct{ name, head, want string }{
		{"nothing", "", "empty file"},
		{"a program", "\x7fELF\x02\x01", "an ELF image"},
		{"gperftools", gperftools(0, 3, 0, 10000, 0, 1, 5, 0x5c91da), "go tool pprof -proto"},
		{"gperftools, cut off", gperftools(0, 3, 0), none},
		{"another version", gperftools(0, 3, 1, 10000, 0), none},
		{"zeros", gperftools(0, 0, 0, 0, 0), none},
	} {
		if err := unknown([]byte(tt.head)); !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
