package sample

import (
	"testing"
	"time"
)

func TestEpochAt(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, tt := range []struct {
		time   string
		length time.Duration
		want   string
	}{
		{"2026-11-20T16:20:00Z", time.Hour, "20261120T160000Z+1h0m0s"},
		{"2026-11-20T16:00:00Z", time.Hour, "20261120T160000Z+1h0m0s"},
		{"2026-11-20T15:59:59.999Z", time.Hour, "20261120T150000Z+1h0m0s"},
		{"2026-11-20T16:20:00+05:30", time.Hour, "20261120T100000Z+1h0m0s"},
		{"2026-11-20T16:20:00Z", 24 * time.Hour, "20261120T000000Z+24h0m0s"},
		{"2026-11-20T16:20:07Z", 0, "20261120T162007Z+1s"},
		{"1969-12-31T23:59:59Z", time.Hour, "19691231T230000Z+1h0m0s"},
	} {
		e := EpochAt(at(tt.time), tt.length)
		if e.String() != tt.want {
			t.Errorf("EpochAt(%s, %v) = %v, want %s", tt.time, tt.length, e, tt.want)
		}
		if v := at(tt.time); v.Before(e.From()) || !v.Before(e.To()) {
			t.Errorf("EpochAt(%s, %v) = [%v, %v)", tt.time, tt.length, e.From(), e.To())
		}
	}
}
