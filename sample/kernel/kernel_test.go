package kernel

import (
	"math"
	"strings"
	"testing"

	"backfeed/sample"
)

const kallsyms = `0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff814352e0 t tick_nohz_handler
ffffffff8220bb08 T _etext
ffffffffc0201000 t nf_init	[nf_tables]
`

const modules = `nf_tables 372736 98 nft_ct,nft_compat, Live 0xffffffffc0a3c000
overlay 192512 0 - Live 0xffffffffc0a97000 (O)
hidden 4096 0 - Live 0x0000000000000000
`

func TestMap(t *testing.T) {
	symbols, err := parseSymbols(strings.NewReader(kallsyms))
	if err != nil || symbols.Tick != 0xffffffff814352e0 {
		t.Fatalf("%+v, %v", symbols, err)
	}
	mods, err := ParseModules(strings.NewReader(modules))
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]sample.BuildID{"": {1}, "nf_tables": {2}, "overlay": {3}}
	k := NewMap(symbols, mods, func(m string) sample.BuildID { return ids[m] })
	for _, tt := range []struct {
		pc   uint64
		path string
		off  sample.Offset
	}{
		{0xffffffff81000000, "[kernel]", 0},
		{0xffffffff814352e4, "[kernel]", 0x4352e4},
		{0xffffffff8220bb08, "", 0},
		{0xffffffff80ffffff, "", 0},
		{0xffffffffc0a3c010, "[nf_tables]", 0x10},
		{0xffffffffc0a97000 - 1, "[nf_tables]", 0x5afff},
		{0xffffffffc0a97000, "[overlay]", 0},
		{0, "", 0},
		{math.MaxUint64, "", 0},
	} {
		id, off, ok := k.Find(tt.pc)
		if id.Path != tt.path || off != tt.off || ok != (tt.path != "") || id.Build != ids[strings.Trim(tt.path, "[]")] && tt.path != "[kernel]" && ok {
			t.Errorf("%#x: %v+%#x, %v; want %s+%#x", tt.pc, id, uint64(off), ok, tt.path, uint64(tt.off))
		}
	}
	if id, _, _ := k.Find(0xffffffff81000000); id.Build != ids[""] {
		t.Errorf("kernel is %v, want build ID %v", id, ids[""])
	}
}

// TestStart: AArch64 lists no _text where it lists functions only.
func TestStart(t *testing.T) {
	for text, want := range map[string]uint64{
		"ffff800008000000 T _text\nffff800008010000 T _stext\n": 0xffff800008000000,
		"ffff800008010000 T _stext\nffff800008000000 T _text\n": 0xffff800008000000,
		"ffff800008010000 T _stext\n":                           0xffff800008010000,
	} {
		if s, err := parseSymbols(strings.NewReader(text)); err != nil || s.Text != want {
			t.Errorf("%q: %#x, %v; want %#x", text, s.Text, err, want)
		}
	}
}

// TestTickHandler: until Linux 6.7, tick_nohz_handler is another function than the one that the tick's timer
// calls, wherever in the list it stands.
func TestTickHandler(t *testing.T) {
	lines := map[string]string{"sched": "ffffffff81000010 t tick_sched_timer\n", "highres": "ffffffff81000020 t tick_nohz_highres_handler\n", "nohz": "ffffffff81000030 t tick_nohz_handler\n"}
	for _, tt := range []struct {
		names string
		want  uint64
	}{
		{"sched nohz", 0xffffffff81000010},
		{"nohz sched", 0xffffffff81000010},
		{"nohz highres", 0xffffffff81000020},
		{"nohz", 0xffffffff81000030},
		{"", 0},
	} {
		text := ""
		for _, name := range strings.Fields(tt.names) {
			text += lines[name]
		}
		if got, err := parseSymbols(strings.NewReader(text)); err != nil || got.Tick != tt.want {
			t.Errorf("%s: %#x, %v; want %#x", tt.names, got.Tick, err, tt.want)
		}
	}
}

// TestHidden: zeros in place of addresses give an empty map.
func TestHidden(t *testing.T) {
	symbols, err := parseSymbols(strings.NewReader("0000000000000000 T _text\n0000000000000000 T _etext\n0000000000000000 t tick_nohz_handler\n"))
	if err != nil || symbols != (Symbols{}) {
		t.Fatalf("%+v, %v", symbols, err)
	}
	if k := NewMap(symbols, nil, nil); len(k.parts) != 0 {
		t.Errorf("%+v, want nothing", k.parts)
	}
}

// FuzzMap: whatever the lists say, an address has at most one image, and
// an offset in it.
func FuzzMap(f *testing.F) {
	f.Add(kallsyms, modules, uint64(0xffffffff81000010))
	f.Add("ffffffffffffffff T _text\nzz T _etext\n", "a 18446744073709551615 0 - Live 0xffffffffffffffff\n", uint64(1))
	f.Fuzz(func(t *testing.T, ks, ms string, pc uint64) {
		symbols, err := parseSymbols(strings.NewReader(ks))
		if err != nil {
			return
		}
		mods, err := ParseModules(strings.NewReader(ms))
		if err != nil {
			return
		}
		k := NewMap(symbols, mods, func(string) sample.BuildID { return sample.BuildID{} })
		end := uint64(0)
		for _, p := range k.parts {
			if p.start < end || p.end <= p.start {
				t.Fatalf("parts overlap, or are empty: %+v", k.parts)
			}
			end = p.end
		}
		if _, off, ok := k.Find(pc); ok && uint64(off) > pc {
			t.Fatalf("%#x: offset %#x", pc, uint64(off))
		}
	})
}
