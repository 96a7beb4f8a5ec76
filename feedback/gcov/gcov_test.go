package gcov

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample/bound"
)

// Versions of gcc as files have them.
const (
	gcc8  Version = 0x4138342a // "A84*"
	gcc9  Version = 0x4139332a // "A93*"
	gcc11 Version = 0x4231332a // "B13*"
	gcc12 Version = 0x4232322a // "B22*"
	gcc16 Version = 0x4236312a // "B61*"
)

func TestVersion(t *testing.T) {
	for _, tt := range []struct {
		v     Version
		text  string
		major int
	}{
		{gcc8, "8.4", 8},
		{gcc9, "9.3", 9},
		{gcc12, "12.2", 12},
		{0x4237302a, "17.0", 17},
		{0x3430382a, "0x3430382a", 0}, // "408*", what clang writes
		{0, "0x00000000", 0},
	} {
		if tt.v.Major() != tt.major || tt.v.String() != tt.text {
			t.Errorf("%#x: %d, %q, want %d, %q", uint32(tt.v), tt.v.Major(), tt.v, tt.major, tt.text)
		}
	}
}

// encodeNotes writes notes as gcc does.
func encodeNotes(n *Notes) []byte {
	w := &writer{order: binary.LittleEndian, version: n.Version}
	if n.BigEndian {
		w.order = binary.BigEndian
	}
	str := func(s string) {
		if s == "" {
			w.u32(0)
			return
		}
		b := append([]byte(s), 0)
		if w.version.bytes() {
			w.u32(uint32(len(b)))
		} else {
			for len(b)%4 != 0 {
				b = append(b, 0)
			}
			w.u32(uint32(len(b) / 4))
		}
		w.b = append(w.b, b...)
	}
	record := func(tag uint32, write func()) {
		w.u32(tag, 0)
		start := len(w.b)
		write()
		size := len(w.b) - start
		if !w.version.bytes() {
			size /= 4
		}
		w.order.(binary.ByteOrder).PutUint32(w.b[start-4:], uint32(size))
	}
	w.u32(magicNotes, uint32(n.Version), n.Stamp)
	if n.Version.bytes() {
		w.u32(n.Checksum)
	}
	if n.Version.Major() >= 9 {
		str(n.Dir)
	}
	w.u32(1)
	for _, f := range n.Functions {
		record(tagFunction, func() {
			w.u32(f.Ident, f.LineChecksum, f.CFGChecksum)
			str(f.Name)
			artificial := uint32(0)
			if f.Artificial {
				artificial = 1
			}
			w.u32(artificial)
			str(f.Source)
			w.u32(uint32(f.StartLine), uint32(f.StartColumn), uint32(f.EndLine))
			if n.Version.Major() >= 9 {
				w.u32(uint32(f.EndColumn))
			}
		})
		record(tagBlocks, func() { w.u32(uint32(f.Blocks)) })
		i := 0
		for b := range f.Blocks {
			if b == Exit {
				continue
			}
			record(tagArcs, func() {
				w.u32(uint32(b))
				for ; i < len(f.Arcs) && f.Arcs[i].From == b; i++ {
					w.u32(uint32(f.Arcs[i].To), uint32(f.Arcs[i].Flags))
				}
			})
		}
		record(0x01470000, func() { w.u32(2, 1) }) // conditions, since GCC 14
		for b, lines := range f.Lines {
			if len(lines) == 0 {
				continue
			}
			record(tagLines, func() {
				w.u32(uint32(b))
				file := ""
				for _, l := range lines {
					if l.File != file {
						w.u32(0)
						str(l.File)
						file = l.File
					}
					w.u32(uint32(l.Line))
				}
				w.u32(0, 0)
			})
		}
	}
	return w.b
}

// sampleNotes are those of a function with a loop, and of one that does not return.
func sampleNotes(v Version, big bool) *Notes {
	loop := function("0>2, 2>4 tree, 3>4, 4>3 tree, 4>1 tree")
	loop.Ident, loop.LineChecksum, loop.CFGChecksum = 7, 8, 9
	loop.Name, loop.Source = "loop", "x.c"
	loop.StartLine, loop.StartColumn, loop.EndLine, loop.EndColumn = 3, 5, 9, 1
	loop.Lines = [][]Line{nil, nil, {{"x.c", 3}, {"x.h", 2}, {"x.h", 4}, {"x.c", 5}}, {{"x.c", 6}}, nil}
	stop := function("0>2, 2>1 tree fake")
	stop.Ident, stop.CFGChecksum, stop.Name, stop.Artificial, stop.Source = 11, 12, "stop", true, "longer name.c"
	stop.Lines = [][]Line{nil, nil, nil}
	n := &Notes{Version: v, BigEndian: big, Stamp: 0x01020304, Dir: "/src", Functions: []Function{*loop, *stop}}
	if v.Major() < 9 {
		n.Dir = ""
		for i := range n.Functions {
			n.Functions[i].EndColumn = 0
		}
	}
	return n
}

func TestReadNotes(t *testing.T) {
	for _, v := range []Version{gcc8, gcc9, gcc11, gcc12, gcc16} {
		for _, big := range []bool{false, true} {
			want := sampleNotes(v, big)
			want.Path = "x.gcno"
			got, err := ReadNotes(bytes.NewReader(encodeNotes(want)), "x.gcno")
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("gcc %s, big endian %v:\n%+v, %v, want\n%+v", v, big, got, err, want)
			}
		}
	}
}

// function makes one of its arcs: "2>3 tree fake".
func function(arcs string) *Function {
	f := &Function{Name: "f", CFGChecksum: 1}
	for _, s := range strings.Split(arcs, ", ") {
		words := strings.Fields(s)
		var a Arc
		if _, err := fmt.Sscanf(words[0], "%d>%d", &a.From, &a.To); err != nil {
			panic(err)
		}
		for _, w := range words[1:] {
			a.Flags |= map[string]ArcFlags{"tree": OnTree, "fake": Fake, "fall": FallThrough}[w]
		}
		f.Arcs = append(f.Arcs, a)
		f.Blocks = max(f.Blocks, a.From+1, a.To+1, 2)
	}
	return f
}

// TestHostileNotes: what makes no sense is an error with file, offset and field.
func TestHostileNotes(t *testing.T) {
	good := encodeNotes(sampleNotes(gcc12, false))
	at := func(tag uint32) int { return bytes.Index(good, binary.LittleEndian.AppendUint32(nil, tag)) }
	set := func(off int, n uint32) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[off:], n)
		return b
	}
	for _, tt := range []struct {
		name string
		b    []byte
		want string
		kind error
	}{
		{"empty", nil, "x.gcno: offset 0x0: magic", ErrFormat},
		{"data", set(0, magicData), "not a file of notes", ErrFormat},
		{"old", set(4, 0x3430382a), "version 0x3430382a", ErrVersion},
		{"gcc 7", set(4, 0x4137352a), "version 7.5", ErrVersion},
		{"cut in the head", good[:10], "offset 0x8: stamp", ErrFormat},
		{"cut in a record", good[:at(tagBlocks)+8], "length of record 0x01410000", ErrFormat},
		{"long directory", set(16, 1<<31), "offset 0x10: directory: a string of 2147483648 bytes", ErrFormat},
		{"long record", set(at(tagArcs)+4, 1<<30), "length of record 0x01430000", ErrFormat},
		{"negative record", set(at(tagArcs)+4, 1<<31), "length of record 0x01430000", ErrFormat},
		{"many blocks", set(at(tagBlocks)+8, 1<<30), "blocks: function loop has 1073741824, and arcs of 4 are told", ErrFormat},
		{"no blocks", set(at(tagBlocks), 0x01490000), "block of arcs: 0, and function loop has 0 blocks", ErrFormat},
		{"far block", set(at(tagArcs)+12, 99), "target of an arc: 99, and function loop has 5 blocks", ErrFormat},
		{"half an arc", set(at(tagArcs)+4, 8), "no number of arcs", ErrFormat},
		{"no function", set(at(tagFunction), 0x01490000), "blocks: before the first function", ErrFormat},
		{"short function", set(at(tagFunction)+4, 8), "checksum of the graph: 4 bytes, and 0 are left", ErrFormat},
	} {
		_, err := ReadNotes(bytes.NewReader(tt.b), "x.gcno")
		if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "x.gcno: ") {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestFlows: counters and executions of arcs follow from each other.
func TestFlows(t *testing.T) {
	for _, tt := range []struct {
		name, arcs string
		counters   []int64
		want       []int64
		err        string
	}{
		{"straight", "0>2, 2>1 tree", []int64{5}, []int64{5, 5}, ""},
		{"loop", "0>2, 2>4 tree, 3>4, 4>3 tree, 4>1 tree", []int64{2, 30}, []int64{2, 2, 30, 30, 2}, ""},
		{"self", "0>2, 2>2, 2>1 tree", []int64{1, 7}, []int64{1, 7, 1}, ""},
		{"no return", "0>2, 2>1 tree fake", []int64{1}, []int64{1, 1}, ""},
		{"setjmp", "0>2, 2>3, 2>1 tree fake, 3>1 tree", []int64{1, 2}, []int64{1, 2, -1, 2}, ""},
		{"negative", "0>2, 2>3, 2>1 tree, 3>1 tree", []int64{1, 2}, nil, "-1 executions of the arc from block 2 to 1"},
		{"negative entry", "0>2, 0>3 tree fake, 2>3 tree, 3>1", []int64{2, 1}, nil, "-1 executions of the arc from block 0 to 3"},
		{"too few", "0>2, 2>1 tree", nil, nil, "0 counters of 1 counted arcs"},
		{"cycle", "0>2, 2>3 tree, 3>2 tree, 3>1", []int64{1, 1}, nil, "on a tree that has a cycle"},
		{"no tree", "0>2, 2>3, 3>1", []int64{1, 1, 2}, nil, "block 3: 1 executions in, 2 out"},
	} {
		f := function(tt.arcs)
		got, err := f.Flows(tt.counters)
		if tt.err != "" {
			if !errors.Is(err, ErrFlow) || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: error %v, want %q", tt.name, err, tt.err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %v, %v, want %v", tt.name, got, err, tt.want)
			continue
		}
		if back, err := f.Counters(got); err != nil || !reflect.DeepEqual(back, tt.counters) {
			t.Errorf("%s: counters %v, %v, want %v", tt.name, back, err, tt.counters)
		}
	}
	thunk := function("0>2")
	thunk.CFGChecksum = 0
	if got, err := thunk.Flows([]int64{4}); err != nil || !reflect.DeepEqual(got, []int64{4}) {
		t.Errorf("thunk: %v, %v", got, err)
	}
}

// sampleData are those of sampleNotes.
func sampleData(t testing.TB, v Version, big bool) *Data {
	t.Helper()
	n := sampleNotes(v, big)
	d := NewData(n)
	for i, flows := range [][]int64{{2, 2, 1 << 33, 1 << 33, 2}, {0, 0}} {
		if err := d.Add(&n.Functions[i], flows); err != nil {
			t.Fatal(err)
		}
	}
	d.Functions[0].Values = []Counters{{Indirect, []int64{3, 1, 11, 3}}, {FirstRun, []int64{1}}}
	return d
}

func encodeData(t testing.TB, d *Data) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteData(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestData(t *testing.T) {
	for _, v := range []Version{gcc9, gcc11, gcc12, gcc16} {
		for _, big := range []bool{false, true} {
			d := sampleData(t, v, big)
			if d.Max != 1<<33 {
				t.Errorf("largest counter: %d, want 1<<33", d.Max)
			}
			got, err := ReadData(bytes.NewReader(encodeData(t, d)), "x.gcda")
			d.Max = math.MaxUint32 // more does not fit
			if err != nil || !reflect.DeepEqual(got, d) {
				t.Errorf("gcc %s, big endian %v:\n%+v, %v, want\n%+v", v, big, got, err, d)
			}
		}
	}
	if err := WriteData(&bytes.Buffer{}, &Data{Version: gcc8}); !errors.Is(err, ErrVersion) {
		t.Errorf("gcc 8: error %v, want ErrVersion", err)
	}
	n := sampleNotes(gcc12, false)
	if err := NewData(n).Add(&n.Functions[0], []int64{1, 2, 3, 4, 5}); !errors.Is(err, ErrFlow) {
		t.Errorf("executions that conserve no flow: error %v", err)
	}
	d := sampleData(t, gcc12, false)
	if c, ok := d.Of(&n.Functions[1]); !ok || c.Ident != 11 {
		t.Errorf("counters of the second function: %+v, %v", c, ok)
	}
	n.Functions[1].CFGChecksum++
	if c, ok := d.Of(&n.Functions[1]); ok {
		t.Errorf("counters of another graph: %+v", c)
	}
}

// TestDataDump pins the formats byte by byte.
func TestDataDump(t *testing.T) {
	for v, name := range map[Version]string{gcc9: "gcc9.gcda.dump", gcc11: "gcc11.gcda.dump", gcc12: "gcc12.gcda.dump"} {
		testtool.Golden(t, filepath.Join("testdata", name), dumpData(encodeData(t, sampleData(t, v, false))))
	}
	testtool.Golden(t, filepath.Join("testdata", "gcc12.big.gcda.dump"), dumpData(encodeData(t, sampleData(t, gcc12, true))))
}

// dumpData writes data as words, a line for each field or record.
func dumpData(b []byte) string {
	var out strings.Builder
	off := 0
	line := func(words int, what string) {
		fmt.Fprintf(&out, "%04x  % x  %s\n", off, b[off:off+4*words], what)
		off += 4 * words
	}
	var order binary.ByteOrder = binary.LittleEndian
	if b[0] == 'g' {
		order = binary.BigEndian
	}
	v := Version(order.Uint32(b[4:]))
	line(1, "magic")
	line(1, "version "+v.String())
	line(1, "stamp")
	if v.bytes() {
		line(1, "checksum")
	}
	for off < len(b) {
		tag := order.Uint32(b[off:])
		if tag == 0 {
			line(1, "end")
			continue
		}
		n := int(int32(order.Uint32(b[off+4:])))
		if v.bytes() {
			n /= 4
		}
		switch {
		case tag == tagSummary:
			line(2, "summary")
			line(1, "runs")
			line(1, "largest counter")
		case tag == tagFunction:
			line(2, "function")
			line(1, "ident")
			line(1, "checksum of lines")
			line(1, "checksum of the graph")
		default:
			line(2, fmt.Sprintf("counters of kind %d: %d", counterOf(tag), n/2))
			for range n / 2 {
				line(2, "counter")
			}
		}
	}
	return out.String()
}

func TestHostileData(t *testing.T) {
	good := encodeData(t, sampleData(t, gcc12, false))
	at := func(tag uint32) int {
		for off := 0; ; off += 4 {
			if binary.LittleEndian.Uint32(good[off:]) == tag {
				return off
			}
		}
	}
	set := func(off int, n uint32) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[off:], n)
		return b
	}
	for _, tt := range []struct {
		name string
		b    []byte
		want string
		kind error
	}{
		{"notes", set(0, magicNotes), "not a file of data", ErrFormat},
		{"gcc 8", set(4, uint32(gcc8)), "version 8.4", ErrVersion},
		{"cut", good[:len(good)-8], "offset 0x9c: length: 4 bytes", ErrFormat},
		{"many counters", set(at(tagCounters)+4, 1<<30), "length of record 0x01a10000: 1073741824 bytes", ErrFormat},
		{"many zeros", set(at(tagCounters)+4, 0x80000000), "counters", bound.ErrBeyond},
		{"cut counters", good[:at(tagCounters+7<<17)+12], "length of record 0x01af0000", ErrFormat},
		{"half a counter", set(at(tagCounters)+4, 12), "no number of counters", ErrFormat},
		{"negative function", set(at(tagFunction)+4, 0xfffffff4), "length of record 0x01000000", ErrFormat},
	} {
		_, err := ReadData(bytes.NewReader(tt.b), "x.gcda")
		if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "x.gcda: ") {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestDataPath(t *testing.T) {
	for _, tt := range []struct {
		dir, cwd, notes string
		v               Version
		want            string
	}{
		{"p", "/src", "o/x.gcno", gcc12, "p/#src#o#x.gcda"},
		{"p", "/src", "../o/x.gcno", gcc12, "p/#src#^#o#x.gcda"},
		{"p", "/src", "./x.gcno", gcc12, "p/#src#.#x.gcda"},
		{"p", "/src", "/src/o/x.gcno", gcc12, "p//src/o/x.gcda"},
		{"p", "/src", "#src#o#x.gcno", gcc9, "p/#src#o#x.gcda"},
		{"p", "/src", "o/x.gcno", gcc8, "p/o/x.gcda"},
		{"", "/src", "o/x.gcno", gcc12, "/src/o/x.gcda"},
		{"", "/src", "/o/x.gcno", gcc12, "/o/x.gcda"},
	} {
		if got := DataPath(tt.dir, tt.cwd, tt.notes, tt.v); got != tt.want {
			t.Errorf("%s in %s, gcc %s: %s, want %s", tt.notes, tt.cwd, tt.v, got, tt.want)
		}
	}
	for _, tt := range []struct {
		path string
		want []string
	}{
		{"o/x.gcno", []string{"p/#src#o#x.gcda", "p//src/o/x.gcda"}},
		{"/src/o/x.gcno", []string{"p/#src#o#x.gcda", "p//src/o/x.gcda"}},
		{"/src/#src#o#x.gcno", []string{"p/#src#o#x.gcda"}},
	} {
		n := &Notes{Path: tt.path, Dir: "/src", Version: gcc12}
		if got := n.DataPaths("p"); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.path, got, tt.want)
		}
	}
}

// FuzzReadNotes: any bytes give an error, or notes that survive a round trip and whose graphs can be
// worked with.
func FuzzReadNotes(f *testing.F) {
	for _, v := range []Version{gcc8, gcc9, gcc11, gcc12, gcc16} {
		f.Add(encodeNotes(sampleNotes(v, v == gcc11)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := ReadNotes(bytes.NewReader(b), "x.gcno")
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrVersion) {
				t.Fatal(err)
			}
			return
		}
		for i := range n.Functions {
			fn := &n.Functions[i]
			if fn.Blocks > len(b) || len(fn.Arcs) > len(b) {
				t.Fatalf("%d blocks and %d arcs of %d bytes", fn.Blocks, len(fn.Arcs), len(b))
			}
			real := make([]float64, len(fn.Arcs))
			for i := range real {
				real[i] = 1.25 * float64(i%7)
			}
			whole, err := fn.Round(real)
			if err != nil {
				t.Fatal(err)
			}
			counters, err := fn.Counters(whole)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := fn.Flows(counters); err == nil && !reflect.DeepEqual(back, whole) {
				// A graph that is no spanning tree of gcc's has several flows of the same counters.
				if err := fn.Check(back); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// FuzzReadData: any bytes give an error, or data that survive a round trip.
func FuzzReadData(f *testing.F) {
	for _, v := range []Version{gcc9, gcc11, gcc12, gcc16} {
		f.Add(encodeData(f, sampleData(f, v, v == gcc11)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ReadData(bytes.NewReader(b), "x.gcda")
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrVersion) && !errors.Is(err, bound.ErrBeyond) {
				t.Fatal(err)
			}
			return
		}
		again, err := ReadData(bytes.NewReader(encodeData(t, d)), "x.gcda")
		if err != nil || !reflect.DeepEqual(again, d) {
			t.Fatalf("round trip of %+v:\n%+v, %v", d, again, err)
		}
	})
}
