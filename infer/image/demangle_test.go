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

func TestDemangleShort(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector::push_back"},
		{"_RNvMNtC5regex9backtrackINtB2_7BoundedNtB2_9CharInputE9backtrack", "<regex::backtrack::Bounded>::backtrack"},
		{"_RINvNtCs1_10serde_json2de10from_sliceNtC7logstat3RecECs3_7logstat", "serde_json::de::from_slice"},
		{"_RNvXs_NtC5regex3remNtB4_5RegexNtNtC4core3fmt7Display3fmt", "<regex::rem::Regex as core::fmt::Display>::fmt"},
	} {
		if got := DemangleShort(tt.name); got != tt.want {
			t.Errorf("DemangleShort(%q) = %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestOwnName(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"main", "main"},
		{"lookUpVar", "lookUpVar"},
		{"max<int>", "max"},
		{"operator<", "operator<"},
		{"_ZNSt6vectorIiSaIiEE9push_backERKi", "push_back"},
		{"_ZN12_GLOBAL__N_111Interpreter9lookUpVarEPKj", "lookUpVar"},
		{"_ZN12_GLOBAL__N_111Interpreter9lookUpVarEPKj.isra.0", "lookUpVar"},
		{"_ZNSt8_Rb_treeIPKjSt4pairIKS1_PiESt10_Select1stIS5_ESt4lessIS1_ESaIS5_EE14_M_lower_boundEPSt13_Rb_tree_nodeIS5_ES8_RS3_", "_M_lower_bound"},
		{"_ZNKSt4lessIPKjEclERKS1_S4_", "operator()"},
		{"_ZZ4mainENKUliE_clEi", "operator()"},
		{"_ZN1AD1Ev", "~A"},
		{"", ""},
		{"_Z", "_Z"},
		{"a::<b", "<b"},
	} {
		if got := OwnName(tt.name); got != tt.want {
			t.Errorf("OwnName(%q) = %q, want %q", tt.name, got, tt.want)
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
		if own := OwnName(name); len(own) > max(len(name), maxMangled) {
			t.Errorf("OwnName of %d bytes has %d", len(name), len(own))
		}
		if utf8.ValidString(name) && !utf8.ValidString(got) {
			t.Errorf("Demangle(%q) = %q", name, got)
		}
	})
}
