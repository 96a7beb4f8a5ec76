package report

import (
	"backfeed/infer/image"
	"encoding/json"
	"testing"
)

func TestName(t *testing.T) {
	for _, tt := range []struct{ linker, plain, doc string }{
		{"main.(*T).run", "main.(*T).run", `{"procedure":"main.(*T).run"}`},
		{"memcpy", "memcpy", `{"procedure":"memcpy"}`},
		{"_ZN3app4sizeERKSs", "app::size", `{"procedure":"app::size","mangled":"_ZN3app4sizeERKSs"}`},
		{"_ZN3app4pickIiEET_S1_", "app::pick", `{"procedure":"app::pick","mangled":"_ZN3app4pickIiEET_S1_"}`},
		{"_RNvCs1234_7mycrate3foo", "mycrate::foo", `{"procedure":"mycrate::foo","mangled":"_RNvCs1234_7mycrate3foo"}`},
		{"", "", `{}`},
	} {
		n := NameOf(tt.linker)
		if got := n.In(Style{}); got != tt.plain {
			t.Errorf("%s: %s, want %s", tt.linker, got, tt.plain)
		}
		if got := n.In(Style{Mangled: true}); got != tt.linker || n.Linker() != tt.linker {
			t.Errorf("%s: mangled it is %s, Linker is %s", tt.linker, got, n.Linker())
		}
		if doc, err := json.Marshal(n); err != nil || string(doc) != tt.doc {
			t.Errorf("%s: %s, %v, want %s", tt.linker, doc, err, tt.doc)
		}
	}
}

func TestDemangled(t *testing.T) {
	for text, want := range map[string]string{
		"_ZN3app4sizeERKSs:3 @ _ZN2ns3hotEv:2":    "app::size:3 @ ns::hot:2",
		"main.f:12 -> main.(*T).g":                "main.f:12 -> main.(*T).g",
		"callee _RNvCs1234_7mycrate3foo -> other": "callee mycrate::foo -> other",
		"app_Z3foov": "app_Z3foov",
	} {
		if got := (Style{}).Names(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
		if got := (Style{Mangled: true}).Names(text); got != text {
			t.Errorf("%s: mangled it is %s", text, got)
		}
	}
}

func TestIsNamed(t *testing.T) {
	const linker = "_ZN3app4pickIiEET_S1_"
	for name, want := range map[string]bool{linker: true, "app::pick": true, "int app::pick<int>(int)": true, "pick": false, "app::pic": false, "": false} {
		if got := IsNamed(linker, name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

// TestTellApart: rows of one image that would look equal say what they differ in, and others nothing more than before.
func TestTellApart(t *testing.T) {
	for _, tt := range []struct {
		name         string
		linker, want []string
	}{
		{"instances of a template", []string{"_Z3addIiEvT_", "_Z3addIdEvT_", "_Z3subIiEvT_"}, []string{"add<int>", "add<double>", "sub"}},
		{"overloads", []string{"_Z1fi", "_Z1fd"}, []string{"f(int)", "f(double)"}},
		{"parts of a procedure", []string{"_Z1fi", "_Z1fi.cold"}, []string{"f(int)", "f(int) [clone .cold]"}},
		{"statics of two files", []string{"helper", "helper", "main"}, []string{"helper at 0x1000", "helper at 0x1010", "main"}},
		{"monomorphs", []string{"_ZN1a4drop17h0123456789abcdefE", "_ZN1a4drop17hfedcba9876543210E"}, []string{"a::drop at 0x1000", "a::drop at 0x1010"}},
	} {
		names := make([]Name, len(tt.linker)+1)
		all := []placed{{&names[len(tt.linker)], "another image", 0x1000}}
		names[len(tt.linker)] = NameOf(tt.linker[0])
		for i, linker := range tt.linker {
			names[i] = NameOf(linker)
			all = append(all, placed{&names[i], "image", image.Addr(0x1000 + 16*i)})
		}
		tellApart(all)
		for i, want := range append(tt.want, NameOf(tt.linker[0]).Procedure) {
			if got := names[i].In(Style{}); got != want {
				t.Errorf("%s: %q, want %q", tt.name, got, want)
			}
			if got := names[i].In(Style{Mangled: true}); i < len(tt.linker) && got != tt.linker[i] {
				t.Errorf("%s: %q with linkers' names, want %q", tt.name, got, tt.linker[i])
			}
		}
	}
}
