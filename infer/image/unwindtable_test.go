package image

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	ra := w[column["ra"]]
	fp := "u"
	if i, ok := column["rbp"]; ok {
		fp = w[i]
	}
	switch {
	case ra == "u":
		return "end"
	case w[1] == "exp":
		return "expression"
	case ra != "c-8":
		return "none"
	}
	var reg string
	var off int
	if _, err := fmt.Sscanf(strings.Replace(w[1], "+", " ", 1), "%s %d", &reg, &off); err != nil || reg != "rsp" && reg != "rbp" {
		return "none"
	}
	if fp != "u" && !strings.HasPrefix(fp, "c-") {
		fp = "lost"
	}
	return w[1] + " " + fp
}

// TestUnwindTable compares with readelf every row of the C library, and of a compiler if there is one.
func TestUnwindTable(t *testing.T) {
	tested := 0
	for _, glob := range []string{
		"/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6",
		"/usr/lib/gcc/x86_64-linux-gnu/*/cc1", "/usr/libexec/gcc/x86_64-linux-gnu/*/cc1",
	} {
		paths, _ := filepath.Glob(glob)
		if len(paths) == 0 || testing.Short() && strings.HasSuffix(paths[0], "cc1") {
			continue
		}
		tested++
		compareTable(t, paths[0])
	}
	if tested == 0 {
		t.Skip("no C library for x86-64 where Debian and Fedora have it")
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

func compareTable(t *testing.T, path string) {
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
	if rows < 1000 || kinds[unwind.PLT] == 0 {
		t.Errorf("%s: readelf has %d rows, %v", path, rows, kinds)
	}
}

// TestUnwindTableKinds: the rules that are no offset from a register are known by their expressions.
func TestUnwindTableKinds(t *testing.T) {
	plt := []byte{cfaDefExpr, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22}
	signal := []byte{cfaDefExpr, 4, 0x77, 0xa0, 0x01, 0x06, cfaExpr, 6, 3, 0x77, 0xf8, 0, cfaExpr, 16, 3, 0x77, 0xa8, 0x01}
	for _, tt := range []struct {
		name  string
		rules []byte
		want  string
	}{
		{"no frame", nil, "rsp+8 u"},
		{"a frame", []byte{cfaDefOff, 16, cfaOffset | 6, 2}, "rsp+16 c-16"},
		{"by its pointer", []byte{cfaOffset | 6, 2, cfaDef, 6, 16}, "rbp+16 c-16"},
		{"the pointer's value put back", []byte{cfaOffset | 6, 2, cfaRestore | 6}, "rsp+8 u"},
		{"the pointer in another register", []byte{cfaRegister, 6, 3}, "rsp+8 lost"},
		{"the pointer too far below", []byte{cfaOffsetExt, 6, 0xff, 0x01}, "rsp+8 lost"},
		{"PLT", plt, "plt+11"},
		{"PLT of another length of entries", append(plt[:3:3], 16, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22), "none"},
		{"signal", signal, "signal"},
		{"end", []byte{cfaUndefined, 16}, "end"},
		{"end no more", []byte{cfaUndefined, 16, cfaOffset | 16, 1}, "rsp+8 u"},
		{"by a third register", []byte{cfaDef, 10, 0}, "none"},
		{"no whole word", []byte{cfaDefOff, 12}, "none"},
	} {
		c := &cie{codeAlign: 1, dataAlign: -8, ra: 16, rules: []byte{cfaDef, dwarfRSP, 8, cfaOffset | 16, 1}}
		r := cfaReader{cie: c, rule: cfaRule{noRA: true}}
		if !r.run(c.rules, 0) {
			t.Fatal("the rules of the CIE are not understood")
		}
		r.initial = r.rule
		if !r.run(tt.rules, 0) {
			t.Errorf("%s: not understood", tt.name)
		}
		if got := r.rule.compact().String(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// FuzzUnwindTable: any bytes in the place of .eh_frame give rows by increasing place, no more than asked for.
func FuzzUnwindTable(f *testing.F) {
	im := mustOpen(f, "testdata/elf/x86.elf", Options{})
	_, seed, err := im.ehFrame()
	if err != nil || seed == nil {
		f.Fatal("no .eh_frame: ", err)
	}
	f.Add(seed)
	const limit = 100
	f.Fuzz(func(t *testing.T, b []byte) {
		maker := tableMaker{im: im, limit: limit, initial: map[*cie]*cfaRule{}}
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
	if rows, err := UnwindTable(f, 1); err == nil || len(rows) > 0 || !strings.Contains(err.Error(), path+": .eh_frame: more than 1 rows") {
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
