package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func guid(name string) string { return string(binary.LittleEndian.AppendUint64(nil, GUID(name))) }

// probeDesc describes two functions, and probeBodies holds the body of f with g
// inlined at its call 3, and its cold part.
var (
	probeDesc = guid("f") + "\x2a\x00\x00\x00\x00\x00\x00\x01\x01f" +
		guid("g") + "\x07\x00\x00\x00\x00\x00\x00\x00\x01g"
	probeBodies = guid("f") + "\x03\x01" + // 3 probes, 1 inlined body
		"\x01\x80\x04" + // 1: block, 4 behind the start
		"\x03\x82\x06" + // 3: call, 6 behind that
		"\x04\xc1\x7f\x05" + // 4: indirect call, 1 before, discriminator 5
		"\x03" + guid("g") + "\x02\x00" +
		"\x01\x80\x00" +
		"\x01\x80\x00" + // copied to the same place
		guid("f") + "\x02\x00" +
		"\x00\x20" + guid("f.cold") + // sentinel
		"\x02\x80\x08"
	probeStarts = map[uint64]Addr{GUID("f"): 0x1000, GUID("f.cold"): 0x500}
)

func TestProbes(t *testing.T) {
	funcs, err := decodeProbeFuncs([]byte(probeDesc))
	if err != nil {
		t.Fatal(err)
	}
	ps, err := decodeProbes([]byte(probeBodies), funcs, probeStarts)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range ps {
		s := fmt.Sprintf("%#x: %d kind %d", p.Addr, p.ID, p.Kind)
		for b := p.In; b != nil; b = b.Caller {
			s += fmt.Sprintf(" of %s (%#x) @ %d", b.Func.Name, b.Func.Checksum, b.Site)
		}
		got = append(got, s)
	}
	want := []string{
		"0x508: 2 kind 0 of f (0x10000000000002a) @ 0",
		"0x1004: 1 kind 0 of f (0x10000000000002a) @ 0",
		"0x1009: 4 kind 1 of f (0x10000000000002a) @ 0",
		"0x1009: 1 kind 0 of g (0x7) @ 3 of f (0x10000000000002a) @ 0",
		"0x1009: 1 kind 0 of g (0x7) @ 3 of f (0x10000000000002a) @ 0",
		"0x100a: 3 kind 2 of f (0x10000000000002a) @ 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestProbesLost: what has no symbol has no address, and what follows is found again.
func TestProbesLost(t *testing.T) {
	ps, err := decodeProbes([]byte(probeBodies), nil, map[uint64]Addr{GUID("f.cold"): 0x500})
	if err != nil || len(ps) != 1 || ps[0].Addr != 0x508 {
		t.Errorf("%v, %v: want one probe, at 0x508", ps, err)
	}
}

func TestProbesMalformed(t *testing.T) {
	for _, tt := range []struct{ name, b, want string }{
		{"short", probeBodies[:len(probeBodies)-1], "address"},
		{"no probes", guid("f") + "\x05\x00", "probe"},
		{"kind", guid("f") + "\x01\x00\x01\x83\x00", "kind of probe"},
		{"depth", strings.Repeat(guid("f")+"\x00\x01\x01", maxProbeDepth+2), "depth"},
	} {
		_, err := decodeProbes([]byte(tt.b), nil, nil)
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want ErrFormat that names %s", tt.name, err, tt.want)
		}
	}
	if _, err := decodeProbeFuncs([]byte(probeDesc[:len(probeDesc)-1])); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "name") {
		t.Errorf("short description: %v, want ErrFormat that names the name", err)
	}
}

// FuzzProbes: any bytes give an error that blames them, or probes by address,
// each in a body whose callers end at a procedure.
func FuzzProbes(f *testing.F) {
	f.Add([]byte(probeBodies), []byte(probeDesc))
	f.Fuzz(func(t *testing.T, b, desc []byte) {
		funcs, err := decodeProbeFuncs(desc)
		if err != nil && !errors.Is(err, ErrFormat) {
			t.Fatalf("%v: does not blame the bytes", err)
		}
		ps, err := decodeProbes(b, funcs, probeStarts)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("%v: does not blame the bytes", err)
			}
			return
		}
		for i, p := range ps {
			if p.In == nil || p.Kind > ProbeCall || i > 0 && p.Addr < ps[i-1].Addr {
				t.Fatalf("probe %d: %+v", i, p)
			}
		}
	})
}
