package image

import (
	"bytes"
	"debug/elf"
	"reflect"
	"sync/atomic"
	"testing"

	"backfeed/sample/wire"
)

const testBase = 0x401000

// codeImage makes an image of one procedure, f, and of data that follows it.
func codeImage(arch Arch, code, data []byte) *Image {
	all := append(bytes.Clone(code), data...)
	im := &Image{Arch: arch, elf: &elf.File{}, file: bytes.NewReader(all)}
	im.elf.Type = elf.ET_EXEC
	end := Addr(testBase + len(all))
	im.segments = []*segment{{
		lo: testBase, hi: end, exec: true, file: im.file,
		chunks: make([]atomic.Pointer[[]byte], len(all)/chunkSize+1),
	}}
	im.regions = []region{{testBase, testBase + Addr(len(code)), ".text"}}
	im.setSymbols([]Symbol{{Name: "f", Addr: testBase, Size: uint64(len(code))}})
	im.names = im.indexNames
	im.relocs = func() *relocations { return &relocations{} }
	return im
}

// edgesOf shows the edges as pairs of offsets, with the first letter of their kind.
func edgesOf(p *Proc) string {
	var b bytes.Buffer
	for i, e := range p.Edges {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(shortAddr(p.Blocks[e.From].Start) + e.Kind.String()[:1] + shortAddr(p.Blocks[e.To].Start))
	}
	return b.String()
}

func shortAddr(a Addr) string {
	const digits = "0123456789abcdef"
	o := a - testBase
	return string([]byte{digits[o>>4&15], digits[o&15]})
}

func TestProcEdges(t *testing.T) {
	for _, tt := range []struct {
		name  string
		arch  Arch
		code  string
		data  string
		edges string
		why   string
	}{
		{"if", X86_64, "\x85\xff\x74\x01\x90\xc3", "", "00f04 00t05 04f05", ""},
		{"loop to the entry", X86_64, "\xff\xcf\x75\xfc\xc3", "", "00t00 00f04", ""},
		{"vzeroupper does not swallow the return", X86_64, "\xc5\xf8\x77\xc3\x90\x90", "", "", ""},
		{"call next pushes", X86_64, "\xe8\x00\x00\x00\x00\x58\xc3", "", "", ""},
		{"padding is in no block", X86_64, "\xeb\x06\x0f\x1f\x44\x00\x00\xcc\xc3", "", "00t08", ""},
		{"dead code is a block", X86_64, "\xeb\x02\x31\xc0\xc3", "", "00t04 02f04", ""},
		{"lock skipped", X86_64, "\x85\xff\x74\x01\xf0\xff\x07\xc3", "", "00f04 00t05 04f05", ""},
		{"into an instruction", X86_64, "\x85\xff\x74\x01\xb8\x00\x00\x00\x00\xc3", "", "00f04", "jump into the middle of the instruction at 0x401004"},
		{"bad bytes", X86_64, "\x06\xc3", "", "", "undecodable bytes at 0x401000"},
		{"runs off", X86_64, "\x31\xc0", "", "", "runs off at 0x401002"},
		{"truncated", X86_64, "\x31\xc0\xe8\x00", "", "", "undecodable bytes at 0x401002"},
		// cmp $1,%edi; ja 0d; jmp *0x40100e(,%rdi,8); ret; ret, and the table of two.
		{"table", X86_64, "\x83\xff\x01\x77\x07\xff\x24\xfd\x0e\x10\x40\x00\xc3\xc3",
			"\x0c\x10\x40\x00\x00\x00\x00\x00\x0d\x10\x40\x00\x00\x00\x00\x00\x0c\x10\x40\x00\x00\x00\x00\x00", "00f05 00t0c 05i0c 05i0d", ""},
		{"table leads out", X86_64, "\x83\xff\x01\x77\x07\xff\x24\xfd\x0e\x10\x40\x00\xc3\xc3",
			"\x0c\x10\x40\x00\x00\x00\x00\x00\x0d\x10\x50\x00\x00\x00\x00\x00", "00f05 00t0c", "targets of the jump at 0x401005 unknown"},
		{"cbz", AArch64, "\x40\x00\x00\xb4\x1f\x20\x03\xd5\xc0\x03\x5f\xd6", "", "00f04 00t08 04f08", ""},
		{"udf ends", AArch64, "\x00\x00\x00\x00", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := codeImage(tt.arch, []byte(tt.code), []byte(tt.data)).Proc(0)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Check(); err != nil {
				t.Error(err)
			}
			if got := edgesOf(p); got != tt.edges || p.Why != tt.why {
				t.Errorf("edges %q, why %q; want %q, %q", got, p.Why, tt.edges, tt.why)
			}
		})
	}
}

// FuzzProc: any bytes of code give a graph that keeps its promises, and blocks
// whose instructions fill them.
func FuzzProc(f *testing.F) {
	f.Add(false, []byte("\x83\xff\x01\x77\x07\xff\x24\xfd\x0e\x10\x40\x00\xc3\xc3\x0c\x10\x40\x00\x00\x00\x00\x00\x0d\x10\x40\x00\x00\x00\x00\x00"), uint16(14))
	f.Add(false, []byte("\x85\xff\x74\x01\xf0\xff\x07\xc3"), uint16(8))
	f.Add(false, []byte("\x48\x8d\x15\x10\x00\x00\x00\x48\x63\x04\xba\x48\x01\xd0\xff\xe0\xc3\x90\x90\x90\xf9\xff\xff\xff"), uint16(20))
	f.Add(true, []byte("\x1f\x14\x00\x71\xa8\x00\x00\x54\x01\x00\x00\x10\x21\x48\x60\x38\x02\x00\x00\x10\x41\x88\x21\x8b\x20\x00\x1f\xd6\xc0\x03\x5f\xd6"), uint16(32))
	f.Fuzz(func(t *testing.T, arm bool, code []byte, size uint16) {
		if len(code) == 0 || len(code) > 1<<14 {
			return
		}
		n := int(size)%len(code) + 1
		arch := X86_64
		if arm {
			arch = AArch64
		}
		im := codeImage(arch, code[:n], code[n:])
		p, err := im.Proc(0)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		for i := range p.Blocks {
			checkInsts(t, im, p, &p.Blocks[i])
		}
		checkKept(t, im, p)
		im.AddressTaken(0)
		im.Text(testBase)
	})
}

// checkKept: what is kept of p is all of it.
func checkKept(t *testing.T, im *Image, p *Proc) {
	t.Helper()
	var w wire.Writer
	var names []string
	p.Keep(&w, func(name string) int {
		names = append(names, name)
		return len(names) - 1
	})
	r := wire.Reader{B: w.B, Format: ErrFormat}
	if q := im.Restore(&r, names); r.Err != nil || r.Left() > 0 || !reflect.DeepEqual(p, q) {
		t.Fatalf("restored with %d bytes left and error %v: %+v, want %+v", r.Left(), r.Err, q, p)
	}
}

// checkInsts holds the instructions of a block to what the block says.
func checkInsts(t *testing.T, im *Image, p *Proc, b *Block) {
	insts := im.Insts(b)
	if len(insts) != b.Insts {
		t.Fatalf("block %#x: %d instructions, Insts gives %d", b.Start, b.Insts, len(insts))
	}
	a := b.Start
	for i, in := range insts {
		last := i == len(insts)-1
		if in.Addr != a || in.Class&Bad != 0 {
			t.Fatalf("block %#x: instruction %#x of class %#x, want one at %#x", b.Start, in.Addr, in.Class, a)
		}
		if in.Class&(CondJump|Jump|IndJump|Ret|Trap) != 0 && !last {
			t.Fatalf("block %#x: control leaves at %#x, before the end", b.Start, in.Addr)
		}
		a += Addr(in.Len)
		if last && (in.Addr != b.Last || a != b.End) {
			t.Fatalf("block %#x: last instruction %#x to %#x, want %#x to %#x", b.Start, in.Addr, a, b.Last, b.End)
		}
	}
	if len(insts) == 0 {
		return
	}
	switch class := insts[len(insts)-1].Class; {
	case class&Ret != 0 && b.Exit != Return, class&Trap != 0 && b.Exit != NoReturn, b.Exit == Return && class&Ret == 0,
		class&IndJump != 0 && b.Exit == NoExit && len(b.Out) == 0:
		t.Fatalf("block %#x: exit %d after class %#x", b.Start, b.Exit, class)
	}
}

func TestAddressTaken(t *testing.T) {
	// f: lea g(%rip),%rax; call h; ret   g, h: ret
	im := codeImage(X86_64, []byte("\x48\x8d\x05\x06\x00\x00\x00\xe8\x02\x00\x00\x00\xc3\xc3\xc3"), nil)
	im.setSymbols([]Symbol{
		{Name: "f", Addr: testBase, Size: 13}, {Name: "g", Addr: testBase + 13, Size: 1}, {Name: "h", Addr: testBase + 14, Size: 1},
	})
	for i, want := range []bool{false, true, false} {
		if got := im.AddressTaken(i); got != want {
			t.Errorf("%s: address taken: %v, want %v", im.symbols[i].Name, got, want)
		}
	}
}

// BenchmarkLength decodes length and class of all code of the C library.
func BenchmarkLength(b *testing.B) {
	im := openTest(b, "/usr/lib/x86_64-linux-gnu/libc.so.6")
	bytes, insts := 0, 0
	for b.Loop() {
		for _, s := range im.Symbols() {
			code := im.code(s.Addr, s.Addr+Addr(s.Size))
			bytes += len(code)
			var d x86
			for off := 0; off < len(code); insts++ {
				off += d.inst(code[off:], s.Addr).Len
			}
		}
	}
	b.ReportMetric(float64(bytes)/1e6/b.Elapsed().Seconds(), "MB/s")
	b.ReportMetric(float64(insts)/1e6/b.Elapsed().Seconds(), "Minst/s")
}

// BenchmarkProc makes the graphs of all procedures of the C library.
func BenchmarkProc(b *testing.B) {
	im := openTest(b, "/usr/lib/x86_64-linux-gnu/libc.so.6")
	bytes, insts, complete, n := 0, 0, 0, 0
	for b.Loop() {
		for i := range im.Symbols() {
			p, err := im.Proc(i)
			if err != nil {
				b.Fatal(err)
			}
			bytes += int(p.Size)
			for j := range p.Blocks {
				insts += p.Blocks[j].Insts
			}
			n++
			if p.Complete {
				complete++
			}
		}
	}
	b.ReportMetric(float64(bytes)/1e6/b.Elapsed().Seconds(), "MB/s")
	b.ReportMetric(float64(insts)/1e6/b.Elapsed().Seconds(), "Minst/s")
	b.ReportMetric(100*float64(complete)/float64(n), "%complete")
}
