package image

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDemangle(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"main", "main"},
		{"main.(*T).m", "main.(*T).m"},
		{"_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back(int const&)"},
		{"_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"},
		{"_RNvC6_123foo3bar", "123foo::bar"},
		{"_Z3foov.cold", "foo() [clone .cold]"},
		{"_Z", "_Z"},
		{"_Z1" + strings.Repeat("a", maxMangled), "_Z1" + strings.Repeat("a", maxMangled)},
	} {
		if got := Demangle(tt.name); got != tt.want {
			t.Errorf("Demangle(%.80q) = %.80q, want %.80q", tt.name, got, tt.want)
		}
	}
}

// FuzzDemangle: what comes of any name is no longer than it, or bounded.
func FuzzDemangle(f *testing.F) {
	f.Add("_ZNSt6vectorIiSaIiEE9push_backERKi")
	f.Add("_RNvC6_123foo3bar")
	f.Add("_Z1fIJS_S_EEvDpT_")
	f.Fuzz(func(t *testing.T, name string) {
		got := Demangle(name)
		if len(got) > max(len(name), maxMangled) {
			t.Errorf("Demangle of %d bytes has %d", len(name), len(got))
		}
		if utf8.ValidString(name) && !utf8.ValidString(got) {
			t.Errorf("Demangle(%q) = %q", name, got)
		}
	})
}
