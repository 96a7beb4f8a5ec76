package image

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample/trace"
	"backfeed/testdata/qemu"
)

// armForms are instructions that walks emulate: one of each form, and the bits that tests vary.
var armForms = []struct {
	name       string
	word, vary uint32
}{
	{"adr", 0x10000000, 0xe0ffffff},
	{"add, sub #", 0x11000000, 0xe07fffff},
	{"and, orr, eor, ands #", 0x12000000, 0xe07fffff},
	{"movn, movz, movk", 0x12800000, 0xe07fffff},
	{"sbfm, bfm, ubfm", 0x13000000, 0xe07fffff},
	{"extr", 0x13800000, 0x805fffff},
	{"and, bic, orr, orn, eor, eon, ands, bics", 0x0a000000, 0xe0ffffff},
	{"add, sub", 0x0b000000, 0xe0dfffff},
	{"add, sub extended", 0x0b200000, 0xe01fffff},
	{"adc, sbc", 0x1a000000, 0xe01f03ff},
	{"ccmp, ccmn", 0x3a400000, 0xc01fffef &^ 0x400},
	{"csel, csinc, csinv, csneg", 0x1a800000, 0xc01ff7ff},
	{"udiv, sdiv", 0x1ac00800, 0x801f07ff},
	{"lslv, lsrv, asrv, rorv", 0x1ac02000, 0x801f0fff},
	{"rbit, rev", 0x5ac00000, 0x80000fff},
	{"clz, cls", 0x5ac01000, 0x800007ff},
	{"madd, msub", 0x1b000000, 0x801fffff},
	{"smaddl, umaddl", 0x9b200000, 0x009fffff},
	{"smulh, umulh", 0x9b407c00, 0x009f03ff},
	{"mrs nzcv, msr nzcv", 0xd51b4200, 0x0020001f},
	{"mrs tpidr_el0", 0xd53bd040, 0x1f},
	{"hints", 0xd503201f, 0x000000c0},
	{"paciasp, autiasp", 0xd503231f, 0xe0},
	{"barriers", 0xd503309f, 0xf40},

	{"b", 0x14000002, 0}, {"bl", 0x94000002, 0},
	{"b.cond", 0x54000040, 0xf},
	{"cbz, cbnz", 0x34000040, 0x8100001f},
	{"tbz, tbnz", 0x36000040, 0x81f8001f},
	{"br, blr, ret", 0xd61f0000, 0x006003c0},

	{"ldr, str", 0x39000000, 0xc0ffffff},
	{"ldur, str writeback", 0x38000000, 0xc0dfffff},
	{"ldr, str register", 0x38200800, 0xc0dff3ff},
	{"ldr literal", 0x18000000, 0xc00007ff},
	{"ldapur, stlur", 0x19000000, 0xc0dff3ff},
	{"ldp, stp", 0x28000000, 0xc1ffffff},
	{"ldxr, stxr, ldar, stlr, cas", 0x08000000, 0xc0ffffff},
	{"ldadd and the like", 0x38200000, 0xc0dff3ff},
	{"ldapr", 0x38bfc000, 0xc00003ff},
	{"swp", 0x38208000, 0xc0df03ff},

	{"ldr, str of a vector", 0x3d000000, 0xc0ffffff},
	{"ldur of a vector", 0x3c000000, 0xc0dfffff},
	{"ldr of a vector, register", 0x3c200800, 0xc0dff3ff},
	{"ldr of a vector, literal", 0x1c000000, 0xc00007ff},
	{"ldp of vectors", 0x2c000000, 0xc1ffffff},
	{"ld1, st1", 0x0c002000, 0x40400fff}, {"ld1, st1 of 3", 0x0c006000, 0x40400fff},
	{"ld1, st1 of 1", 0x0c007000, 0x40400fff}, {"ld1, st1 of 2", 0x0c00a000, 0x40400fff},
	{"ld1 writeback", 0x0c802000, 0x405f0fff}, {"ld1 of 2 writeback", 0x0c80a000, 0x405f0fff}, {"ld1 of 1 writeback", 0x0c9f7000, 0x40400fff},
	{"ld1r", 0x0d40c000, 0x40000fff}, {"ld1r writeback", 0x0dc0c000, 0x401f0fff},

	{"fmov", 0x1e204000, 0x00c003ff},
	{"fmov general", 0x1e260000, 0x80c903ff},
	{"fmov #", 0x1e201000, 0x00dfe01f},
	{"dup, ins, umov, smov", 0x0e000400, 0x601f7bff},
	{"dup of a scalar", 0x5e000400, 0x001f03ff},
	{"movi, mvni, fmov", 0x0f000400, 0x6007fbff},
	{"ext", 0x2e000000, 0x401f7bff},
	{"logic", 0x0e201c00, 0x60df03ff},
	{"cmgt, cmhi", 0x0e203400, 0x60df03ff}, {"cmge, cmhs", 0x0e203c00, 0x60df03ff},
	{"max", 0x0e206400, 0x60df03ff}, {"min", 0x0e206c00, 0x60df03ff},
	{"add, sub vector", 0x0e208400, 0x60df03ff}, {"cmtst, cmeq", 0x0e208c00, 0x60df03ff},
	{"umaxp", 0x2e20a400, 0x40df03ff}, {"uminp", 0x2e20ac00, 0x40df03ff}, {"addp", 0x0e20bc00, 0x40df03ff},
	{"cnt, not", 0x0e205800, 0x600003ff},
	{"cmgt #0, cmge #0", 0x0e208800, 0x60c003ff}, {"cmeq #0", 0x0e209800, 0x40c003ff},
	{"xtn", 0x0e212800, 0x40c003ff},
	{"addv", 0x0e31b800, 0x40c003ff}, {"umaxv", 0x2e30a800, 0x40c003ff}, {"uminv", 0x2e31a800, 0x40c003ff},
	{"addp of a pair", 0x5ef1b800, 0x3ff},
	{"ushr", 0x2f000400, 0x407f03ff}, {"shl", 0x0f005400, 0x407f03ff}, {"shrn", 0x0f008400, 0x407f03ff},
}

// armGroups are whole groups of encodings, of which walks need not emulate all; but what they do not must
// not be said to be known.
var armGroups = []struct {
	name       string
	word, vary uint32
}{
	{"immediate", 0x10000000, 0xe3ffffff},
	{"register", 0x0a000000, 0xf5ffffff},
	{"memory", 0x08000000, 0xf5ffffff},
	{"structures", 0x0c000000, 0x41ffffff},
	{"ordered", 0x08000000, 0xc0ffffff},
	{"atomics", 0x38200000, 0xc1dfffff},
	{"vectors", 0x0e000000, 0xf1ffffff},
	{"vectors of scalars", 0x1e000000, 0xe0ffffff},
	{"vectors of numbers", 0x5e000000, 0x20ffffff},
	{"vectors three", 0x0e200400, 0x60dffbff},
	{"vectors two", 0x0e200800, 0x60dff3ff},
	{"vectors shifted", 0x0f000400, 0x607ffbff},
	{"copies", 0x0e000400, 0x601f7bff},
	{"sve", 0x04000000, 0xe1ffffff},
}

const armTestAddr = 0x10800 // where the tests' instructions lie, as linked

// armTest appends a test for testdata/walkarm.c.
func armTest(b []byte, word uint32, times, strict uint32, o trace.Op) []byte {
	b = binary.LittleEndian.AppendUint32(b, word)
	b = binary.LittleEndian.AppendUint32(b, times)
	b = binary.LittleEndian.AppendUint32(b, strict)
	b = binary.LittleEndian.AppendUint32(b, 0)
	switch o.Kind {
	case trace.Call, trace.Jump, trace.CondJump:
		o.To = 77
	}
	b, _ = binary.Append(b, binary.LittleEndian, o)
	return b
}

func walkWord(w uint32) trace.Op {
	return walkARM(w, armInst(binary.LittleEndian.AppendUint32(nil, w), armTestAddr))
}

// runARM has an emulated processor execute tests, and the emulator of walks.
func runARM(t *testing.T, tests []byte) {
	t.Helper()
	testtool.Need(t, "aarch64-linux-gnu-gcc", "qemu-aarch64")
	dir := t.TempDir()
	exe, file := filepath.Join(dir, "walkarm"), filepath.Join(dir, "tests")
	testtool.Run(t, ".", "aarch64-linux-gnu-gcc", "-O2", "-w", "-static", "-o", exe, "testdata/walkarm.c")
	if err := os.WriteFile(file, tests, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := testtool.Command(t, "qemu-aarch64", "-cpu", "max,pauth=off", exe, file).CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("qemu-aarch64: %v\n%s", err, out)
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	for i, l := range lines[:len(lines)-1] {
		if i == 40 {
			t.Fatalf("and %d more", len(lines)-1-i)
		}
		t.Errorf("%s: %s", armTextOf(string(l)), l)
	}
	t.Logf("%s", lines[len(lines)-1])
}

// armTextOf disassembles the word that a line begins with.
func armTextOf(line string) string {
	b := make([]byte, 8)
	for i := range 8 {
		c := strings.IndexByte("0123456789abcdef", line[i])
		b[i] = byte(c)
	}
	w := uint32(0)
	for _, c := range b {
		w = w<<4 | uint32(c)
	}
	im := &Image{Arch: AArch64}
	return im.armText(binary.LittleEndian.AppendUint32(nil, w), armTestAddr)
}

// TestWalkARM holds what walks think that instructions do to what qemu's processor does, with registers and
// memory at random: each form of those that are emulated, of which all results have to be known, and any
// instructions, of which what is known has to be right.
func TestWalkARM(t *testing.T) {
	const words, groups, times = 80, 1000, 60
	r := rand.New(rand.NewPCG(1, 2))
	var tests []byte
	for _, f := range armForms {
		known := 0
		for range words {
			w := f.word | r.Uint32()&f.vary
			o := walkWord(w)
			if o.Kind == trace.Stop {
				continue
			}
			if o.Kind == trace.ArmClobber {
				continue
			}
			known++
			tests = armTest(tests, w, times, 1, o)
		}
		if known < words/8 {
			t.Errorf("%s: %d of %d are emulated", f.name, known, words)
		}
	}
	for _, g := range armGroups {
		for range groups {
			w := g.word | r.Uint32()&g.vary
			if o := walkWord(w); o.Kind != trace.Stop && o.Base != trace.ArmBaseImage {
				tests = armTest(tests, w, 3, 0, o)
			}
		}
	}
	runARM(t, tests)
}

// TestWalkKnownARM: of the instructions that a program executes, walks emulate nearly all.
func TestWalkKnownARM(t *testing.T) {
	qemu.NeedCount(t, elf.EM_AARCH64)
	program := filepath.Join(t.TempDir(), "mix")
	testtool.Run(t, ".", "aarch64-linux-gnu-gcc", "-O2", "-o", program, "../../testdata/mix/mix.c")
	path, _ := qemu.Count(t, filepath.Dir(program), program, "1")
	known, unknown, stops := walkShares(t, path)
	t.Logf("%.3f %% emulated, %.3f %% leave what they write unknown, at %.3f %% walks end", 100*known, 100*unknown, 100*stops)
	if known < 0.99 || stops > 0.001 {
		t.Errorf("emulated: %.4f of the instructions; at %.4f walks end", known, stops)
	}
}

// walkShares returns which shares of the instructions of exact counts are emulated, leave what they write
// unknown, and end walks.
func walkShares(t *testing.T, path string) (known, unknown, stops float64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]*execution{}
	if err := json.Unmarshal(b, &ran); err != nil {
		t.Fatal(err)
	}
	var all float64
	most := map[string]float64{}
	for file, e := range ran {
		im, err := Open(file, Options{})
		if err != nil {
			continue // the vdso
		}
		for at, count := range e.Insn {
			addr, n := parseAddr(t, at), float64(count)
			code := im.code(addr, addr+4)
			if code == nil {
				continue
			}
			all += n
			switch walkARM(binary.LittleEndian.Uint32(code), armInst(code, addr)).Kind {
			case trace.Stop:
				stops += n
				most[im.Text(addr)] += n
			case trace.ArmClobber:
				unknown += n
				most[im.Text(addr)] += n
			default:
				known += n
			}
		}
		im.Close()
	}
	names := slices.SortedFunc(maps.Keys(most), func(a, b string) int { return cmp.Compare(most[b], most[a]) })
	for _, name := range names[:min(len(names), 8)] {
		t.Logf("%.4f %% %s", 100*most[name]/all, name)
	}
	return known / all, unknown / all, stops / all
}

// FuzzWalkARM: any word gives an operation that the emulator can take as it is.
func FuzzWalkARM(f *testing.F) {
	for _, form := range armForms {
		f.Add(form.word)
	}
	f.Fuzz(func(t *testing.T, w uint32) {
		o := walkWord(w)
		if o.Kind == trace.Stop {
			return
		}
		vector := o.Kind >= trace.ArmVload
		switch {
		case o.Kind > trace.ArmVshr || o.Kind > trace.ArmClobber && o.Kind < trace.Call:
			t.Fatalf("%#x: kind %d", w, o.Kind)
		case o.Dst > trace.ArmNone || o.Src > trace.ArmNone || o.Base > trace.ArmBaseImage || o.Index > trace.ArmNone || o.Scale > 63 || o.Ext > 11:
			t.Fatalf("%#x: no such operands: %+v", w, o)
		case vector && o.Kind != trace.ArmVto && o.Dst >= trace.ArmZero && o.Dst != trace.ArmNone:
			t.Fatalf("%#x: no such vector: %+v", w, o)
		case o.Flags&trace.ArmHasMem != 0 && o.Base == trace.ArmNone:
			t.Fatalf("%#x: no address: %+v", w, o)
		case o.Size > 64 || o.Kind != trace.ArmClobber && o.Size > 16 || !vector && o.Kind != trace.ArmClobber && o.Size > 8:
			t.Fatalf("%#x: operands of %d bytes: %+v", w, o.Size, o)
		}
	})
}
