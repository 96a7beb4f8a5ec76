package input

import (
	"strings"
	"testing"

	"backfeed/sample"
)

func TestKallsyms(t *testing.T) {
	const text = `ffffffffbfff0000 t mod_exit	[ext4]
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000100 t do_work
ffffffff81000180 D some_data
ffffffff81000200 T schedule
ffffffffc0000000 t mod_init	[ext4]
ffffffffc0000040 T mod_read	[ext4]
ffffffffc0100000 T other	[xfs]
`
	for _, tt := range []struct {
		module string
		base   uint64
		off    sample.Offset
		want   string
	}{
		{"", 0, 0, "_stext"},
		{"", 0, 0xff, "_stext"},
		{"", 0, 0x100, "do_work"},
		{"", 0, 0x1ff, "do_work"},
		{"", 0, 0x5000, "schedule"},
		{"ext4", 0xffffffffc0000000, 0x3f, "mod_init"},
		{"ext4", 0xffffffffc0000000, 0x44, "mod_read"},
		{"nfs", 0xffffffffc0000000, 0, ""},
	} {
		if got := readKallsyms(strings.NewReader(text), tt.module, tt.base).name(tt.off); got != tt.want {
			t.Errorf("%q+%#x is %q, want %q", tt.module, uint64(tt.off), got, tt.want)
		}
	}
	if got := readKallsyms(strings.NewReader("ffff800008010000 T _stext\nffff800008010100 T schedule\n"), "", 0).name(0x104); got != "schedule" {
		t.Errorf("without _text: %q, want schedule", got)
	}
	hidden := "0000000000000000 T _text\n0000000000000000 T schedule\n"
	if ss := readKallsyms(strings.NewReader(hidden), "", 0); len(ss) > 0 {
		t.Errorf("names at hidden addresses: %v", ss)
	}
}

func TestPerfMap(t *testing.T) {
	ss := readPerfMap(strings.NewReader("1000 20 old\n1000 40 Foo.bar (int, int)\n0x2000 0x8 baz\nnonsense\nffffffffffffffff 10 wraps\n"))
	for off, want := range map[sample.Offset]string{0xfff: "", 0x1000: "Foo.bar (int, int)", 0x103f: "Foo.bar (int, int)", 0x1040: "", 0x2007: "baz", 0x2008: ""} {
		if got := ss.name(off); got != want {
			t.Errorf("%#x is %q, want %q", uint64(off), got, want)
		}
	}
}
