package image

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// FuzzLines: any bytes give an error, or frames that make sense.
func FuzzLines(f *testing.F) {
	for _, name := range []string{"clang5.elf", "gcc4.elf"} {
		b, err := os.ReadFile(filepath.Join("testdata", "lines", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	path := filepath.Join(f.TempDir(), "image")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		im, err := Open(path, Options{})
		if err != nil {
			return
		}
		defer im.Close()
		ln, err := im.Lines()
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrNoLines) {
				t.Fatalf("%v: blames neither the bytes nor that there is nothing", err)
			}
			return
		}
		for _, r := range im.regions {
			for a := r.lo; a < min(r.hi, r.lo+1<<12); a++ {
				checkFrames(t, a, ln.Frames(a))
				ln.Unit(a)
			}
		}
		if err := ln.Err(); err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrNoLines) {
			t.Fatalf("%v: does not blame the bytes", err)
		}
	})
}

// checkFrames reports the first promise that frames break.
func checkFrames(t *testing.T, a Addr, fs []Frame) {
	t.Helper()
	for i, f := range fs {
		if f.Func == "" || f.Line < 0 || f.StartLine < 0 {
			t.Fatalf("%#x: frame %d: %+v", a, i, f)
		}
	}
}

// FuzzGoTable overwrites parts of a real program's pclntab.
func FuzzGoTable(f *testing.F) {
	path := buildGo(f, "")
	im, ln := openLines(f, path)
	if ln.goTab == nil {
		f.Fatal(ln.Err())
	}
	main := im.Lookup("main.shapes")
	if main < 0 {
		f.Fatal("no main.shapes")
	}
	at := im.symbols[main].Addr
	record := ln.goTab.find(at)
	f.Add(uint8(4), uint32(8*record), []byte{0xff, 0xff}, uint16(0))
	f.Add(uint8(3), ln.goTab.record(record).lineTable(), []byte{0x80, 0x80, 0x80}, uint16(100))
	f.Add(uint8(3), ln.goTab.record(record).pcdata(pcdataInlTree), []byte{0x7e, 1, 2, 0xff, 0xff, 0xff}, uint16(7))
	f.Add(uint8(3), ln.goTab.record(record).depths(), []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, uint16(3))
	f.Add(uint8(1), ln.goTab.record(record).unit()*4, []byte{0xff, 0xff, 0xff, 0xff}, uint16(0))
	f.Fuzz(func(t *testing.T, part uint8, off uint32, patch []byte, step uint16) {
		tab := *ln.goTab
		tab.procs = make([]atomic.Pointer[goProc], tab.n)
		for i, p := range []*[]byte{&tab.names, &tab.units, &tab.files, &tab.values, &tab.funcs} {
			*p = append([]byte(nil), *p...)
			if int(part)%5 == i {
				copy((*p)[int(off)%len(*p):], patch)
			}
		}
		if tab.check() != nil {
			return
		}
		for i := range 64 {
			a := at + Addr(i)*Addr(step)
			if k := tab.find(a); k >= 0 {
				if fs := tab.frames(k, a); len(fs) > maxInline {
					t.Fatalf("%#x: %d frames", a, len(fs))
				}
				tab.unit(k)
				tab.returnAt(k, a)
			}
		}
	})
}
