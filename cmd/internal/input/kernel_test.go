package input

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/collect"
	"backfeed/sample/kernel"
)

// pieces are memory, by the address of each piece.
type pieces map[uint64][]byte

func (p pieces) At(addr uint64, b []byte) error {
	for start, have := range p {
		if start <= addr && addr-start < uint64(len(have)) {
			copy(b, have[addr-start:])
			return nil
		}
	}
	return errors.New("nothing there")
}

func (pieces) Close() error { return nil }

const kernelText = 0xffffffff81000000 // as linked

// kernelFunction is of a kernel with thunks:
//
//	 0  call *%rax, by a thunk
//	 5  test %eax,%eax
//	 7  je 11
//	 9  ud2, of a warning
//	11  je 15
//	13  ud2, of a bug
//	15  mov (%rdi),%rax; goes on at 23 after a fault
//	18  ret, by a thunk
//	23  xor %eax,%eax
//	25  jmp *%rax, by a thunk
//	96  __x86_indirect_thunk_rax
//	112 srso_return_thunk
const kernelFunction = "\xe8\x5b\x00\x00\x00\x85\xc0\x74\x02\x0f\x0b\x74\x02\x0f\x0b\x48\x8b\x07\xe9\x59\x00\x00\x00\x31\xc0\xe9\x42\x00\x00\x00\xcc\xcc"

// runningKernel writes an ELF file of kernelFunction where it runs at an address.
func runningKernel(t *testing.T, id sample.ImageID, at uint64) []byte {
	t.Helper()
	text := append([]byte(kernelFunction), bytes.Repeat([]byte{0xcc}, 96-len(kernelFunction))...)
	text = append(text, "\xff\xe0\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xcc\xc3\xcc"...)
	const bugs, faults = 0x1000, 0x2000 // from at
	entry := func(table []byte, base, to int, rest ...byte) []byte {
		return append(binary.LittleEndian.AppendUint32(table, uint32(to-base-len(table))), rest...)
	}
	bug := entry(nil, bugs, 9, 0, 0, 0, 0, 7, 0, 1, 0)
	bug = entry(bug, bugs, 13, 0, 0, 0, 0, 8, 0, 0, 0)
	bug = entry(bug, bugs, 0x4000, 0, 0, 0, 0, 9, 0, 1, 0) // of code that ran at boot
	fault := entry(entry(nil, faults, 15), faults, 23, 3, 0, 0, 0)
	c := &kernel.Code{
		ID: id, Machine: elf.EM_X86_64,
		Parts: []kernel.Part{{Name: ".text", Start: at, End: at + uint64(len(text)), Exec: true},
			{Name: "__bug_table", Start: at + bugs, End: at + bugs + uint64(len(bug))}, {Name: "__ex_table", Start: at + faults, End: at + faults + uint64(len(fault))}},
		Symbols: []kernel.Symbol{{Name: "_text", Addr: at, Size: 96, Type: 'T'}, {Name: "f", Addr: at, Size: 96, Type: 'T'},
			{Name: "__x86_indirect_thunk_rax", Addr: at + 96, Size: 16, Type: 'T'}, {Name: "srso_return_thunk", Addr: at + 112, Size: 2, Type: 'T'}},
	}
	var b bytes.Buffer
	if err := c.WriteELF(&b, pieces{at: text, at + bugs: bug, at + faults: fault}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestKernelIdioms decodes what compilers and Linux make of returns, indirect calls, warnings, bugs and faults.
func TestKernelIdioms(t *testing.T) {
	id := sample.ImageID{Path: "[kernel]", Build: sample.BuildID{5}}
	const at = kernelText + 0x1a000000
	path := testtool.Write(t, t.TempDir(), "kernel", runningKernel(t, id, at))
	im, err := image.Open(path, image.Options{Kernel: true})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	for _, off := range []sample.Offset{0, 5, 113} {
		if a, ok := im.AddrOf(off); !ok || a != image.Addr(at+uint64(off)) {
			t.Errorf("offset %#x is at %#x, %v", uint64(off), uint64(a), ok)
		} else if back, ok := im.OffsetOf(a); !ok || back != off {
			t.Errorf("%#x has offset %#x, %v; want %#x", uint64(a), uint64(back), ok, uint64(off))
		}
	}
	if a, ok := im.AddrOf(200); ok {
		t.Errorf("offset 200 is at %#x, behind all code", uint64(a))
	}
	p, err := im.Proc(im.Lookup("f"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(); err != nil || !p.Complete {
		t.Fatalf("%v; incomplete: %s", err, p.Why)
	}
	type block struct {
		start, end image.Addr
		exit       image.Exit
		pad        bool
		out        []int
	}
	var got []block
	for i := range p.Blocks {
		b := &p.Blocks[i]
		g := block{b.Start - at, b.End - at, b.Exit, b.Pad, nil}
		for _, e := range b.Out {
			g.out = append(g.out, p.Edges[e].To)
		}
		got = append(got, g)
	}
	want := []block{
		{0, 9, image.NoExit, false, []int{1, 2}},
		{9, 11, image.NoExit, false, []int{2}}, // a warning goes on
		{11, 13, image.NoExit, false, []int{3, 4}},
		{13, 15, image.NoReturn, false, nil},
		{15, 23, image.Return, false, nil},
		{23, 30, image.TailCall, true, nil}, // after a fault
	}
	if !slices.EqualFunc(got, want, func(a, b block) bool {
		return a.start == b.start && a.end == b.end && a.exit == b.exit && a.pad == b.pad && slices.Equal(a.out, b.out)
	}) {
		t.Errorf("blocks\n%v\nwant\n%v", got, want)
	}
	if len(p.Calls) != 2 || p.Calls[0].To != 0 || p.Calls[0].Tail || p.Calls[1].To != 0 || !p.Calls[1].Tail {
		t.Errorf("calls %+v, want an indirect one and an indirect tail call", p.Calls)
	}

	// Elsewhere, such names and sections mean nothing.
	user, err := image.Open(path, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	if p, err = user.Proc(user.Lookup("f")); err != nil || p.Blocks[len(p.Blocks)-1].Pad || len(p.Calls) != 3 {
		t.Errorf("as no kernel: %v, calls %+v", err, p.Calls)
	}
}

// TestFindKernel: a copy of the code as it ran is preferred to vmlinux, which lends it lines and its addresses; alone,
// vmlinux does.
func TestFindKernel(t *testing.T) {
	testtool.Need(t, "gcc")
	if testtool.Arch() != "amd64" {
		t.Skip("the code is of x86-64")
	}
	t.Setenv("HOME", t.TempDir())
	id := sample.ImageID{Path: "[kernel]", Build: sample.BuildID{0xab, 1, 2, 3, 19: 9}}
	dir := t.TempDir()
	c := testtool.Write(t, dir, "kernel.c", "int count;\n__attribute__((noinline)) int f(int n)\n{\n\tcount += n;\n\treturn count * n;\n}\nint g(int n) { return f(n) + 1; }\n")
	vmlinux := filepath.Join(dir, "vmlinux")
	testtool.Run(t, dir, "gcc", "-g", "-O1", "-fcf-protection=none", "-ffreestanding", "-nostdlib", "-static", "-no-pie", "-fno-pic", "-mcmodel=kernel", "-fno-asynchronous-unwind-tables",
		"-Wl,-Ttext=0xffffffff81000000,--defsym=_text=0xffffffff81000000,-e,g,--build-id=0x"+id.Build.String(), "-o", vmlinux, c)
	f, err := elf.Open(vmlinux)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := f.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	const at = kernelText + 0x1a000000
	live := &kernel.Code{ID: id, Machine: elf.EM_X86_64, Parts: []kernel.Part{{Name: ".text", Start: at, End: at + uint64(len(text)), Exec: true}}}
	live.Symbols = append(live.Symbols, kernel.Symbol{Name: "_text", Addr: at, Size: 1, Type: 'T'})
	var offset sample.Offset // of f
	for _, s := range testtool.Symbols(t, vmlinux) {
		if s.Name == "f" || s.Name == "g" {
			live.Symbols = append(live.Symbols, kernel.Symbol{Name: s.Name, Addr: s.Value - kernelText + at, Size: s.Size, Type: 'T'})
		}
		if s.Name == "f" {
			offset = sample.Offset(s.Value - kernelText)
		}
	}
	text[offset] = 0x90 // patched, if it was not a nop before
	var copied bytes.Buffer
	if err := live.WriteELF(&copied, pieces{at: text}); err != nil {
		t.Fatal(err)
	}
	hex := id.Build.String()
	kept, installed := ".build-id/"+hex[:2]+"/"+hex[2:], "usr/lib/debug/boot/vmlinux-"+collect.ThisHost().Release
	for _, tt := range []struct {
		name    string
		files   map[string][]byte
		found   string
		patched bool
		linked  bool // addresses are those of vmlinux
		line    bool
	}{
		{"a copy", map[string][]byte{kept: copied.Bytes()}, kept, true, false, false},
		{"a copy beside vmlinux", map[string][]byte{kept: copied.Bytes(), installed: []byte(testtool.Read(t, vmlinux))}, kept, true, true, true},
		{"vmlinux", map[string][]byte{"elsewhere/vmlinux": []byte(testtool.Read(t, vmlinux))}, "elsewhere/vmlinux", false, true, true},
		{"nothing", nil, "", false, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			symfs := t.TempDir()
			for name, b := range tt.files {
				testtool.Put(t, filepath.Join(symfs, name), b)
			}
			finder, err := newFinder([]string{symfs}, "--symfs")
			if err != nil {
				t.Fatal(err)
			}
			defer finder.close()
			im, err := finder.open(id)
			if tt.found == "" {
				if !errors.Is(err, errKernel) || !errors.Is(err, kernel.ErrNotRunning) {
					t.Errorf("%v, want it to say that the kernel does not run here", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := filepath.Join(symfs, tt.found); im.Path != want {
				t.Errorf("found %s, want %s", im.Path, want)
			}
			a, ok := im.AddrOf(offset)
			want := image.Addr(kernelText)
			if !tt.linked {
				want = at
			}
			if want += image.Addr(offset); !ok || a != want {
				t.Errorf("f is at %#x, %v; want %#x", uint64(a), ok, uint64(want))
			}
			if i := im.Find(a); i < 0 || im.Symbols()[i].Name != "f" || im.Symbols()[i].Addr != a {
				t.Errorf("symbol %d is at %#x, want f", i, uint64(a))
			}
			if patched := strings.HasPrefix(im.Text(a), "nop"); patched != tt.patched {
				t.Errorf("f begins with %s", im.Text(a))
			}
			if lines, err := im.Lines(); tt.line {
				if err != nil {
					t.Fatal(err)
				}
				if frames := lines.Frames(a); len(frames) != 1 || frames[0].Func != "f" || frames[0].Line < 2 || frames[0].Line > 5 || filepath.Base(frames[0].File) != "kernel.c" {
					t.Errorf("f is at %+v, want a line of f in kernel.c", frames)
				}
			} else if !errors.Is(err, image.ErrNoLines) {
				t.Errorf("lines: %v, want %v", err, image.ErrNoLines)
			}
		})
	}
}
