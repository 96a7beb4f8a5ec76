package flagset

import (
	"strings"
	"testing"
	"time"
)

func TestTimeSpan(t *testing.T) {
	for _, tt := range []struct {
		text    string
		seconds bool
		want    time.Duration // negative is an error
	}{
		{"30s", false, 30 * time.Second}, {"200ms", false, 200 * time.Millisecond}, {"1h30m", false, 90 * time.Minute}, {"7d", false, 168 * time.Hour},
		{"1w", false, 168 * time.Hour}, {"1w2d12h", false, (9*24 + 12) * time.Hour}, {"1.5d", false, 36 * time.Hour}, {"0", false, 0}, {" 5m ", false, 5 * time.Minute},
		{"5", true, 5 * time.Second}, {"0.5", true, 500 * time.Millisecond}, {"5m", true, 5 * time.Minute},
		{"5", false, -1}, {"", false, -1}, {"d", false, -1}, {"1y", false, -1}, {"five", true, -1}, {"5 s", false, -1}, {"1e400", true, -1}, {"NaN", true, -1}, {"99999999999w", false, -1},
	} {
		got, err := ParseTimeSpan(tt.text, tt.seconds)
		if (err != nil) != (tt.want < 0) || err == nil && got != tt.want {
			t.Errorf("%q: %v, %v; want %v", tt.text, got, err, tt.want)
		}
		if err != nil && !strings.Contains(err.Error(), "such as") {
			t.Errorf("%q: %v", tt.text, err)
		}
	}
	for d, want := range map[time.Duration]string{time.Hour: "1h", 5 * time.Minute: "5m", 90 * time.Second: "1m30s", 10 * time.Second: "10s", 30 * time.Hour: "30h", 61 * time.Minute: "1h1m", 720 * time.Hour: "30d", 0: ""} {
		if got := (&timeSpan{p: &d}).String(); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestSizeAndShare(t *testing.T) {
	for text, want := range map[string]Size{"0": -1, "0.0001K": -1, "1": 1, "500M": 500 << 20, "20G": 20 << 30, "20GB": 20 << 30, "20GiB": 20 << 30, "20 g": 20 << 30, "1.5K": 1536, "1t": 1 << 40, "": -1, "x": -1, "1.5": -1, "-1": -1, "1P": -1, "9999999T": -1, "9.9e9": -1} {
		var s Size
		err := s.Set(text)
		if (err != nil) != (want < 0) || err == nil && s != want {
			t.Errorf("size %q: %d, %v; want %d", text, s, err, want)
		}
	}
	for text, want := range map[string]float64{"1%": 0.01, "1": 0.01, "0.5 %": 0.005, "100%": 1, "101": -1, "0": -1, "-1%": -1, "NaN": -1, "": -1, "%": -1} {
		var s Share
		err := s.Set(text)
		if (err != nil) != (want < 0) || err == nil && float64(s) != want {
			t.Errorf("share %q: %v, %v; want %v", text, s, err, want)
		}
	}
}

// TestNegativeSpan: a time is not negative.
func TestNegativeSpan(t *testing.T) {
	if d, err := ParseTimeSpan("-3h", true); err == nil || !strings.Contains(err.Error(), "positive") {
		t.Errorf("-3h is %v, %v", d, err)
	}
}

// TestZeroSpan: a flag takes no time of 0, be it written with a unit or without, and keeps what it was.
func TestZeroSpan(t *testing.T) {
	for _, text := range []string{"0", "0s", "0.0h", "0d", "0ns"} {
		d := time.Hour
		if err := (&timeSpan{p: &d, seconds: true}).Set(text); err == nil || !strings.Contains(err.Error(), "above 0") || d != time.Hour {
			t.Errorf("%s: %v, %v", text, d, err)
		}
	}
}

// FuzzTimeSpan: any text is a time or an error, and what a time is printed as is the same time.
func FuzzTimeSpan(f *testing.F) {
	for _, text := range []string{"30s", "7d", "1w2d", "1.5d", "5", "-3h", "1e9", ".d", "9223372036s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseTimeSpan(text, true)
		if err != nil || d == 0 {
			return
		}
		if again, err := ParseTimeSpan((&timeSpan{p: &d}).String(), false); err != nil || again != d {
			t.Errorf("%q is %v, and printed and read again %v, %v", text, d, again, err)
		}
	})
}
