package image

import "testing"

func TestSourceName(t *testing.T) {
	for name, want := range map[string]string{
		"f":                             "f",
		"f.llvm.123456":                 "f",
		"f.part.0":                      "f",
		"f.cold":                        "f",
		"f.cold.1":                      "f",
		"f.constprop.0.isra.0":          "f",
		"f.isra.0.cold":                 "f",
		"_ZL1fv.__uniq.8765.llvm.99":    "_ZL1fv.__uniq.8765",
		"f.colder":                      "f.colder",
		"main.coldStart":                "main.coldStart",
		"f.part.0.lto_priv.7":           "f",
		".cold":                         ".cold",
		"_RNvCs1_4main4main":            "_RNvCs1_4main4main",
		"_ZN4core3fmt17h0123456789abE":  "_ZN4core3fmt17h0123456789abE",
		"f.lto_priv.0":                  "f",
		"__libc_csu_init.partial":       "__libc_csu_init.partial",
		"f.__uniq.1.part.2.constprop.3": "f.__uniq.1",
	} {
		if got := SourceName(name); got != want {
			t.Errorf("SourceName(%q) = %q, want %q", name, got, want)
		}
	}
}
