package report

import (
	"math"
	"regexp"
	"strconv"
	"testing"
)

// TestScaleColours: neighbours on the scale differ in lightness, in one direction, so
// that neither colour vision nor a printer with colour is needed. The lightness is
// that of CIE 1976 (L*), from 0 to 100; a difference of 2.3 can just be seen.
func TestScaleColours(t *testing.T) {
	scales := regexp.MustCompile(`--h0: .*`).FindAllString(asset("style.css"), -1)
	if len(scales) != 2 {
		t.Fatalf("%d scales, want one for light screens and one for dark ones", len(scales))
	}
	for i, scale := range scales {
		sign := []float64{-1, 1}[i]
		colours := regexp.MustCompile(`#[0-9a-f]{6}`).FindAllString(scale, -1)
		if len(colours) != classes+1 {
			t.Fatalf("%d colours, want %d", len(colours), classes+1)
		}
		for k := 1; k < len(colours); k++ {
			if step := sign * (lightness(t, colours[k]) - lightness(t, colours[k-1])); step < 5 {
				t.Errorf("from %s to %s lightness goes %.1f the right way, want 5 or more", colours[k-1], colours[k], step)
			}
		}
	}
}

// lightness is L* of a colour "#rrggbb" of sRGB (IEC 61966-2-1).
func lightness(t *testing.T, colour string) float64 {
	t.Helper()
	rgb, err := strconv.ParseUint(colour[1:], 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	linear := func(c uint64) float64 {
		v := float64(c&0xff) / 255
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	y := 0.2126*linear(rgb>>16) + 0.7152*linear(rgb>>8) + 0.0722*linear(rgb)
	if y <= 0.008856 {
		return 903.3 * y
	}
	return 116*math.Cbrt(y) - 16
}

// TestProse: commands are code, nothing in a text is markup, and names that have backquotes are text.
func TestProse(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"plain", "plain"},
		{"`backfeed record` records, `perf` (`perf record`) too: `x`.", "<code>backfeed record</code> records, <code>perf</code> (<code>perf record</code>) too: <code>x</code>."},
		{"see `layout --for '<b>'`; <script>alert(1)</script>", "see <code>layout --for &#39;&lt;b&gt;&#39;</code>; &lt;script&gt;alert(1)&lt;/script&gt;"},
		{"`<script>alert(1)</script>` and `</code><img src=x>`", "<code>&lt;script&gt;alert(1)&lt;/script&gt;</code> and <code>&lt;/code&gt;&lt;img src=x&gt;</code>"},
		{"a`b and c`d: `prof` shows them", "a`b and c`d: <code>prof</code> shows them"},
		{"`", "`"}, {"``", "``"}, {"`open", "`open"}, {"x `", "x `"}, {"`a`b` c", "`a`b` c"}, {"", ""},
		{"\x1b[31m`\n`", `\x1b[31m` + "`\\n`"},
	} {
		if got := string(Prose(tt.text)); got != tt.want {
			t.Errorf("Prose(%q) = %q, want %q", tt.text, got, tt.want)
		}
	}
}

// TestBreakable: a long name has places where a line may end, and none in a number.
func TestBreakable(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"main.(*plain).peek", "main.<wbr/>(*plain).<wbr/>peek"},
		{"std::map<a_b>::find", "std::<wbr/>map&lt;a_<wbr/>b&gt;::<wbr/>find"},
		{"gcd_sum.constprop.0", "gcd_<wbr/>sum.<wbr/>constprop.0"},
		{"99.9 %", "99.9 %"}, {"a:b", "a:b"}, {"größe/x.c:7", "größe/<wbr/>x.<wbr/>c:7"}, {"", ""},
	} {
		if got := string(breakable(tt.name)); got != tt.want {
			t.Errorf("breakable(%q) = %q, want %q", tt.name, got, tt.want)
		}
	}
}
