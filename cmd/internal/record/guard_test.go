package record

import (
	"testing"

	"backfeed/cmd/internal/report"
)

// TestGuarded: a recording that uses more memory than it may is ended, which is told with where its profiles are; one that
// does not is not, and nothing is told.
func TestGuarded(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for most, ends := range map[int64]bool{1: true, 1 << 50: false} {
		told := &warnings{}
		ctx, end := Live{Notify: told}.guarded(t.Context(), most)
		if ends {
			<-ctx.Done()
		}
		if err := ctx.Err(); (err != nil) != ends {
			t.Errorf("at most %d bytes: %v", most, err)
		}
		if end(); told.n > 0 != ends {
			t.Errorf("at most %d bytes: told %d things", most, told.n)
		}
	}
}

// warnings counts what is told.
type warnings struct {
	report.Quiet
	n int
}

func (w *warnings) Warn(string, ...any) { w.n++ }
