package collect

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEncodeEvent: the terms of an event fill the bits that the kernel says.
func TestEncodeEvent(t *testing.T) {
	formats := map[string]string{
		"event": "config:0-15", "umask": "config:8-15", "inv": "config:23", "split": "config:0-7,32-35", "all": "config:0-63", "ldlat": "config1:0-15",
		"odd": "config:7-3", "wide": "config:0-64",
	}
	for _, tt := range []struct {
		terms string
		want  uint64
		bad   bool
	}{
		{"event=0x0008", 0x8, false},
		{"event=0xc0,umask=0x01", 0x1c0, false},
		{"event=0x3c,inv", 0x80003c, false},
		{"split=0x1ff", 0x1_0000_00ff, false},
		{"all=0xffffffffffffffff", 0xffffffffffffffff, false},
		{"split=0x1fff", 0, true},
		{"event=0x10000", 0, true},
		{"event=0xcd,ldlat=3", 0, true}, // not of config alone
		{"event=?", 0, true},
		{"unknown=1", 0, true},
		{"odd=1", 0, true},
		{"wide=1", 0, true},
		{"", 0, true},
	} {
		got, err := encodeEvent(tt.terms, func(field string) string { return formats[field] })
		if got != tt.want && err == nil || (err != nil) != tt.bad {
			t.Errorf("%q: %#x, %v; want %#x", tt.terms, got, err, tt.want)
		}
	}
}

func FuzzEncodeEvent(f *testing.F) {
	f.Add("event=0xc0,umask=0x01", "config:0-7,32-35")
	f.Add("event=0x0008", "config:0-15")
	f.Fuzz(func(t *testing.T, terms, format string) {
		encodeEvent(terms, func(string) string { return format })
	})
}

// TestProcessorEvent: events are found by the names that the kernel has for them on this processor, of its PMUs
// and no other devices.
func TestProcessorEvent(t *testing.T) {
	devices := t.TempDir()
	for path, text := range map[string]string{
		"armv8_pmuv3/type": "10\n", "armv8_pmuv3/cpus": "0-1\n", "armv8_pmuv3/format/event": "config:0-15\n",
		"armv8_pmuv3/events/inst_retired": "event=0x0008\n", "armv8_pmuv3/events/l1d_cache_refill": "event=0x0003\n",
		"cpu/type": "4\n", "cpu/format/event": "config:0-7\n", "cpu/format/umask": "config:8-15\n", "cpu/events/mem-stores": "event=0xd0,umask=0x82\n",
		"cpu/events/mem-stores.unit": "B\n",
		"uncore_imc/type":            "20\n", "uncore_imc/cpumask": "0\n", "uncore_imc/format/event": "config:0-7\n", "uncore_imc/events/clockticks": "event=0x0\n",
	} {
		path = filepath.Join(devices, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := processorEvents(devices), []string{"inst_retired", "l1d_cache_refill", "mem-stores"}; !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	for name, want := range map[string]*perfEvent{
		"inst_retired":     {typ: 10, config: 8, unit: instructions},
		"l1d_cache_refill": {typ: 10, config: 3},
		"mem-stores":       {typ: 4, config: 0x82d0},
		"clockticks":       nil,
		"../type":          nil,
		"":                 nil,
	} {
		got, ok := processorEvent(devices, name)
		if ok != (want != nil) || ok && *got != *want {
			t.Errorf("%q: %+v, want %+v", name, got, want)
		}
	}
}

// TestEventNames: where nothing has the name, what there is is listed.
func TestEventNames(t *testing.T) {
	_, err := eventNamed("coffee")
	if err == nil {
		t.Fatal("coffee is an event")
	}
	for _, name := range append(processorEvents(pmuDevices), "r1c2", "cycles") {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%v: no %s", err, name)
		}
	}
}
