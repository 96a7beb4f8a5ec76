package image

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample/unwind"
)

// eachInterpreted calls f with each row that readelf makes of .eh_frame, in the notation of unwind.Row.String.
func eachInterpreted(t *testing.T, path string, f func(at Addr, rule string)) {
	t.Helper()
	testtool.Need(t, "readelf")
	cmd := testtool.Command(t, "readelf", "--debug-dump=frames-interp", "--debug-dump=no-follow-links", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fde, column := false, map[string]int{}
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		line := sc.Text()
		w := strings.Fields(line)
		switch {
		case strings.Contains(line, " FDE "):
			fde = true
		case strings.Contains(line, " CIE "):
			fde = false
		case len(w) > 2 && w[0] == "LOC":
			column = map[string]int{}
			for i, name := range w {
				column[name] = i
			}
		case fde && len(w) == len(column) && len(w) > 2 && len(w[0]) == 16: // not "000256cc ZERO terminator"
			f(parseHex(t, w[0]), interpreted(w, column))
		}
	}
	if sc.Err() != nil {
		t.Fatal(sc.Err())
	}
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// interpreted is a row of readelf's as unwind.Row has it.
func interpreted(w []string, column map[string]int) string {
	rule := func(names ...string) string {
		for _, name := range names {
			if i, ok := column[name]; ok {
				return w[i]
			}
		}
		return "u"
	}
	arm := strings.HasPrefix(w[1], "sp") || strings.HasPrefix(w[1], "x")
	ra, fp := rule("ra"), rule("rbp", "x29")
	switch {
	case !arm && ra == "u":
		return "end"
	case w[1] == "exp":
		return "expression"
	case !arm && ra != "c-8":
		return "none"
	}
	var reg string
	var off int
	if _, err := fmt.Sscanf(strings.Replace(w[1], "+", " ", 1), "%s %d", &reg, &off); err != nil {
		return "none"
	}
	reg = map[string]string{"rsp": "sp", "rbp": "fp", "sp": "sp", "x29": "fp"}[reg]
	if reg == "" {
		return "none"
	}
	if fp != "u" && !strings.HasPrefix(fp, "c-") {
		fp = "lost"
	}
	text := fmt.Sprintf("%s+%d %s", reg, off, fp)
	if arm {
		if ra != "u" && !strings.HasPrefix(ra, "c-") {
			return "none"
		}
		text += " " + ra
	}
	return text
}

// TestUnwindTable compares with readelf every row of the C library, and of a compiler or another large library if there is one.
func TestUnwindTable(t *testing.T) {
	tested := 0
	for _, glob := range []string{
		"/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6",
		"/usr/lib/gcc/x86_64-linux-gnu/*/cc1", "/usr/libexec/gcc/x86_64-linux-gnu/*/cc1",
		"/usr/aarch64-linux-gnu/lib/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6",
		"/usr/aarch64-linux-gnu/lib/libasan.so.[0-9]",
	} {
		paths, _ := filepath.Glob(glob)
		if len(paths) == 0 || testing.Short() && strings.HasSuffix(paths[0], "cc1") {
			continue
		}
		tested++
		kinds := []unwind.Kind{unwind.SP, unwind.PLT}
		if strings.Contains(paths[0], "aarch64") {
			kinds = []unwind.Kind{unwind.SP | unwind.Link, unwind.SP | unwind.Pair, unwind.SP | unwind.Alone, unwind.SP | unwind.Pair | unwind.Up, unwind.FP | unwind.Pair}
		}
		compareTable(t, paths[0], 1000, kinds...)
	}
	if tested == 0 {
		t.Skip("no C library where Debian and Fedora have it")
	}
}

// TestUnwindTableDebug compares with readelf every row of programs whose own code has .debug_frame alone.
func TestUnwindTableDebug(t *testing.T) {
	for _, tt := range []struct {
		command string
		kind    unwind.Kind
	}{
		{"gcc -gdwarf-4 -fomit-frame-pointer", unwind.SP},
		{"clang-19 -gdwarf-5 -fno-omit-frame-pointer", unwind.FP}, // version 4 of entries
		{"gcc -gdwarf-5 -gdwarf64", unwind.SP},
		{"gcc -g -gz -Wl,--compress-debug-sections=zlib", unwind.SP},
		{"aarch64-linux-gnu-gcc -g", unwind.SP | unwind.Pair},
	} {
		w := strings.Fields(tt.command)
		testtool.Need(t, w[0])
		out := filepath.Join(t.TempDir(), "a.out")
		testtool.Output(t, "", append(w, "-O2", "-w", "-fno-asynchronous-unwind-tables", "-o", out, "../../testdata/mix/mix.c")...)
		compareTable(t, out, 40, tt.kind)
	}
}

// ruleAt returns the row of a table that holds at off.
func ruleAt(table []unwind.Row, off uint32) unwind.Row {
	i := sort.Search(len(table), func(i int) bool { return table[i].Off > off }) - 1
	if i < 0 {
		return unwind.Row{}
	}
	return table[i]
}

// compareTable expects at least so many rows, and those kinds among them.
func compareTable(t *testing.T, path string, least int, expected ...unwind.Kind) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table, err := UnwindTable(f, 1<<22)
	if err != nil {
		t.Fatal(err)
	}
	im := mustOpen(t, path, Options{})
	rows, wrong := 0, 0
	kinds := map[unwind.Kind]int{}
	eachInterpreted(t, path, func(at Addr, want string) {
		rows++
		off, ok := im.OffsetOf(at)
		if !ok {
			t.Fatalf("%s: %#x is in no segment", path, uint64(at))
		}
		row := ruleAt(table, uint32(off))
		kinds[row.Kind]++
		got := row.String()
		if row.Kind == unwind.End && im.Arch == AArch64 && strings.HasSuffix(want, " u") {
			return // as readelf has a return address that is in its register, too
		}
		if want == "expression" && (row.Kind == unwind.PLT || row.Kind == unwind.Signal || row.Kind == unwind.None) {
			return
		}
		if got != want {
			if wrong++; wrong < 10 {
				t.Errorf("%s: %#x: %s; readelf: %s", path, uint64(at), got, want)
			}
		}
	})
	t.Logf("%s: %d rows of readelf, %d of the table, of another rule: %d; by kind: %v", path, rows, len(table), wrong, kinds)
	for _, k := range expected {
		if rows < least || kinds[k] == 0 || kinds[unwind.End] > 20 {
			t.Errorf("%s: readelf has %d rows, %v", path, rows, kinds)
		}
	}
}

// TestUnwindTableKinds: the rules that are no offset from a register are known by their expressions.
func TestUnwindTableKinds(t *testing.T) {
	plt := []byte{cfaDefExpr, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22}
	signal := []byte{cfaDefExpr, 4, 0x77, 0xa0, 0x01, 0x06, cfaExpr, 6, 3, 0x77, 0xf8, 0, cfaExpr, 16, 3, 0x77, 0xa8, 0x01}
	armSignal := []byte{cfaDefExpr, 4, 0x8f, 0xb0, 0x04, 0x06, cfaExpr, 29, 3, 0x8f, 0xa0, 0x04, cfaExpr, 30, 3, 0x8f, 0xb8, 0x04}
	x86 := []byte{cfaDef, 7, 8, cfaOffset | 16, 1}
	arm := []byte{cfaDef, 31, 0}
	for _, tt := range []struct {
		name    string
		initial []byte
		rules   []byte
		want    string
	}{
		{"no frame", x86, nil, "sp+8 u"},
		{"a frame", x86, []byte{cfaDefOff, 16, cfaOffset | 6, 2}, "sp+16 c-16"},
		{"by its pointer", x86, []byte{cfaOffset | 6, 2, cfaDef, 6, 16}, "fp+16 c-16"},
		{"the pointer's value put back", x86, []byte{cfaOffset | 6, 2, cfaRestore | 6}, "sp+8 u"},
		{"the pointer in another register", x86, []byte{cfaRegister, 6, 3}, "sp+8 lost"},
		{"the pointer too far below", x86, []byte{cfaOffsetExt, 6, 0xff, 0x01}, "sp+8 lost"},
		{"PLT", x86, plt, "plt+11"},
		{"PLT of another length of entries", x86, append(plt[:3:3], 16, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22), "none"},
		{"signal", x86, signal, "signal"},
		{"end", x86, []byte{cfaUndefined, 16}, "end"},
		{"end no more", x86, []byte{cfaUndefined, 16, cfaOffset | 16, 1}, "sp+8 u"},
		{"by a third register", x86, []byte{cfaDef, 10, 0}, "none"},
		{"no whole word", x86, []byte{cfaDefOff, 12}, "none"},
		{"signed, as SPARC has its windows", x86, []byte{cfaSigned}, "not understood"},

		{"a leaf", arm, nil, "sp+0 u u"},
		{"a leaf with a frame", arm, []byte{cfaDefOff, 32}, "sp+32 u u"},
		{"a frame", arm, []byte{cfaDefOff, 32, cfaOffset | 29, 4, cfaOffset | 30, 3}, "sp+32 c-32 c-24"},
		{"a frame, and then none", arm, []byte{cfaDefOff, 32, cfaOffset | 29, 4, cfaOffset | 30, 3, cfaRestore | 30, cfaRestore | 29, cfaDefOff, 0}, "sp+0 u u"},
		{"by its pointer", arm, []byte{cfaOffset | 29, 2, cfaOffset | 30, 1, cfaDef, 29, 16}, "fp+16 c-16 c-8"},
		{"signed", arm, []byte{cfaSigned, cfaDefOff, 16, cfaOffset | 29, 2, cfaOffset | 30, 1}, "sp+16 c-16 c-8"},
		{"signed with its place", arm, []byte{cfaSignedPC}, "sp+0 u u"},
		{"no frame pointer", arm, []byte{cfaDefOff, 16, cfaOffset | 30, 2}, "sp+16 u c-16"},
		{"the frame pointer alone", arm, []byte{cfaDefOff, 16, cfaOffset | 29, 2}, "sp+16 c-16 u"},
		{"the frame pointer in another register", arm, []byte{cfaRegister, 29, 3}, "sp+0 lost u"},
		{"it and no return address", arm, []byte{cfaDefOff, 16, cfaOffset | 30, 2, cfaRegister, 29, 3}, "none"},
		{"below a large array", arm, []byte{cfaDefOff, 0xa0, 0x20, cfaOffset | 29, 0x84, 0x04, cfaOffset | 30, 0x83, 0x04}, "sp+4128 c-4128 c-4120"},
		{"between two", arm, []byte{cfaDefOff, 0xa0, 0x40, cfaOffset | 29, 0x84, 0x04, cfaOffset | 30, 0x83, 0x04}, "none"},
		{"the return address apart", arm, []byte{cfaDefOff, 32, cfaOffset | 29, 4, cfaOffset | 30, 1}, "none"},
		{"the return address above", arm, []byte{cfaOffsetSF, 30, 0x7f}, "none"},
		{"the return address in another register", arm, []byte{cfaRegister, 30, 3}, "none"},
		{"the return address in its own again", arm, []byte{cfaRegister, 30, 3, cfaSameValue, 30}, "sp+0 u u"},
		{"the return address below the CFA of a leaf", arm, []byte{cfaOffset | 30, 1}, "sp+0 u c-8"},
		{"end", arm, []byte{cfaUndefined, 30}, "end"},
		{"end no more", arm, []byte{cfaUndefined, 30, cfaRestore | 30}, "sp+0 u u"},
		{"computed", arm, []byte{cfaDefExpr, 4, 0x8f, 0, 0x92, 0x2e}, "none"}, // of SVE
		{"signal of AArch64", arm, armSignal, "signal"},
		{"signal of x86-64", arm, signal, "none"},
	} {
		regs := &x86Registers
		if &tt.initial[0] == &arm[0] {
			regs = &armRegisters
		}
		c := &cie{codeAlign: 1, dataAlign: -8, ra: regs.ra, rules: tt.initial}
		r := newCFAReader(regs, c)
		if !r.run(c.rules, 0) {
			t.Fatal("the rules of the CIE are not understood")
		}
		r.initial = r.rule
		got := "not understood"
		if r.run(tt.rules, 0) {
			got = r.rule.compact(r.regs).String()
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestUnwindLinkage: in the procedure linkage table of AArch64, the return address is in its register, but where
// the head has saved it.
func TestUnwindLinkage(t *testing.T) {
	const path = "testdata/elf/arm.elf"
	b := []byte(testtool.Read(t, path))
	im := mustOpen(t, path, Options{})
	plt := im.elf.Section(".plt")
	for _, tt := range []struct {
		name string
		head []uint32
		want []string // of instructions
	}{
		{"as ld makes it", []uint32{saveLink}, []string{"sp+0 u u", "sp+16 u c-8", "sp+16 u c-8"}},
		{"a landing pad before", []uint32{0xd503245f, saveLink}, []string{"sp+0 u u", "sp+0 u u", "sp+16 u c-8"}},
		{"another head", []uint32{0xd503201f, 0xd503201f}, []string{"sp+0 u u", "sp+0 u u", "sp+0 u u"}},
	} {
		for i, instruction := range tt.head {
			put(b, int(plt.Offset)+4*i, 4, uint64(instruction))
		}
		f, err := os.Open(testtool.Write(t, t.TempDir(), "x.so", b))
		if err != nil {
			t.Fatal(err)
		}
		table, err := UnwindTable(f, 1<<20)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		want := append(tt.want, slices.Repeat([]string{tt.want[2]}, 5)...)
		want = append(want, "sp+0 u u", "sp+0 u u", "sp+0 u u", "sp+0 u u") // the one stub behind the head
		for i, want := range want {
			if got := ruleAt(table, uint32(plt.Offset)+4*uint32(i)).String(); got != want {
				t.Errorf("%s: instruction %d: %s, want %s", tt.name, i, got, want)
			}
		}
	}
}

// TestUnwindSignal: what a signal's handler returns to on AArch64 has a row by its name and its instructions, from the
// instruction before it on.
func TestUnwindSignal(t *testing.T) {
	const source = ".globl __kernel_rt_sigreturn\n.type __kernel_rt_sigreturn, %function\nnop\nnop\n__kernel_rt_sigreturn:\nmov x8, #NUMBER\nsvc #0\nret\n"
	for number, want := range map[string]string{"139": "signal", "93": "none"} {
		dir := t.TempDir()
		testtool.Write(t, dir, "a.s", strings.Replace(source, "NUMBER", number, 1))
		testtool.Output(t, dir, "aarch64-linux-gnu-gcc", "-shared", "-nostdlib", "-o", "a.so", "a.s")
		path := filepath.Join(dir, "a.so")
		im := mustOpen(t, path, Options{})
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		table, err := UnwindTable(f, 100)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		at := im.Symbols()[im.Lookup("__kernel_rt_sigreturn")].Addr
		for distance, want := range map[int]string{-8: "none", -4: want, 0: want, 4: want, 8: "none"} {
			off, _ := im.OffsetOf(at + Addr(distance))
			if got := ruleAt(table, uint32(off)).String(); got != want {
				t.Errorf("call %s, at %+d: %s, want %s", number, distance, got, want)
			}
		}
	}
}

// FuzzUnwindTable: any bytes in the place of .eh_frame give rows by increasing place, no more than asked for.
func FuzzUnwindTable(f *testing.F) {
	var images []*Image
	for i, name := range []string{"x86.elf", "arm.elf"} {
		im := mustOpen(f, "testdata/elf/"+name, Options{})
		_, seed, err := im.ehFrame()
		if err != nil || seed == nil {
			f.Fatal("no .eh_frame: ", err)
		}
		images = append(images, im)
		f.Add(uint8(i), seed)
	}
	const limit = 100
	f.Fuzz(func(t *testing.T, i uint8, b []byte) {
		im := images[int(i)%len(images)]
		maker := newTableMaker(im, limit)
		base, _, _ := im.ehFrame()
		var entries []unwindEntry
		_ = eachFrame(b, base, func(f frame, c *cie, rules []byte) {
			if im.executable(f.lo) && f.hi > f.lo {
				entries = append(entries, unwindEntry{f, c, rules})
			}
		})
		for i := range entries {
			maker.add(&entries[i], entries[i].hi)
		}
		maker.close()
		if len(maker.rows) > limit {
			t.Fatalf("%d rows", len(maker.rows))
		}
		for i, r := range maker.rows {
			if i > 0 && r.Off <= maker.rows[i-1].Off {
				t.Fatalf("row %d: %#x after %#x", i, r.Off, maker.rows[i-1].Off)
			}
		}
	})
}

// TestUnwindTableErrors: what is malformed is said with the file, the offset and the field; too many rows are refused.
func TestUnwindTableErrors(t *testing.T) {
	const path = "testdata/elf/x86.elf"
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if rows, err := UnwindTable(f, 1); err == nil || len(rows) > 0 || !strings.Contains(err.Error(), path+": unwind tables: more than 1 rows") {
		t.Errorf("a limit of 1: %d rows, %v", len(rows), err)
	}
	whole, err := UnwindTable(f, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	im := mustOpen(t, path, Options{})
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := im.elf.Section(".eh_frame")
	d := frameReader{b: b[s.Offset : s.Offset+s.Size]}
	second := 4 + int(d.uint(4, "length")) // the first entry is a CIE
	copy(b[int(s.Offset)+second:], []byte{0xfe, 0xff, 0xff, 0x7f})
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, b, 0o644); err != nil {
		t.Fatal(err)
	}
	g, err := os.Open(bad)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	rows, err := UnwindTable(g, 1<<20)
	if want := fmt.Sprintf("%s: .eh_frame: offset %#x: length 0x7ffffffe", bad, second); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
	if len(rows) >= len(whole) {
		t.Errorf("%d rows of a section cut short, %d of the whole", len(rows), len(whole))
	}
}
