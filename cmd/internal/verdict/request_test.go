package verdict

import (
	"strings"
	"testing"
	"time"
)

// TestChooseOne: of one source, it is said what each side is, or nothing is compared: samples of one side are none of the other's.
func TestChooseOne(t *testing.T) {
	web, db := map[string]string{"role": "web"}, map[string]string{"role": "db"}
	for _, tt := range []struct {
		name     string
		old, new Side
		deploy   time.Time
		paths    string
		want     string // of the error
	}{
		{"nothing", Side{}, Side{}, time.Time{}, "st", "want --deploy"},
		{"labels of both", Side{Labels: web}, Side{Labels: db}, time.Time{}, "st", ""},
		{"labels and a build", Side{Labels: web}, Side{Build: "ab"}, time.Time{}, "st", ""},
		{"labels of OLD", Side{Labels: web}, Side{}, time.Time{}, "st", "what of it is NEW: it would have all samples of OLD, too: want --new or --new-build"},
		{"a build of NEW", Side{}, Side{Build: "ab"}, time.Time{}, "st", "what of it is OLD: it would have all samples of NEW, too: want --old or --old-build"},
		{"the same of both", Side{Labels: web}, Side{Labels: web}, time.Time{}, "st", "are the same samples"},
		{"the same, by time", Side{Labels: web}, Side{Labels: web}, time.Unix(1e9, 0), "st", ""},
		{"labels of OLD of two sources", Side{Labels: web}, Side{}, time.Time{}, "st1 st2", ""},
	} {
		r := &Request{Sides: [2]Side{tt.old, tt.new}, Deploy: tt.deploy}
		r.Sides[0].Name, r.Sides[1].Name = "OLD", "NEW"
		err := r.Choose(strings.Fields(tt.paths))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
}
