package image

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample/bound"
)

// split builds a program with DWARF in dir/usr/bin/p and moves its symbols and
// DWARF into dir/p.debug. The debug file is what it returns.
func split(t *testing.T, dir string, flags ...string) []byte {
	t.Helper()
	testtool.Write(t, dir, "p.c", program)
	testtool.Write(t, dir, "usr/bin/keep", "")
	testtool.Run(t, dir, append([]string{"gcc", "-O2", "-g", "p.c", "-o", "whole"}, flags...)...)
	testtool.Run(t, dir, "objcopy", "--only-keep-debug", "whole", "p.debug")
	testtool.Run(t, dir, "objcopy", "--strip-all", "--add-gnu-debuglink=p.debug", "whole", "usr/bin/p")
	b, err := os.ReadFile(filepath.Join(dir, "p.debug"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "p.debug")); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDebugFile(t *testing.T) {
	withID, without := t.TempDir(), t.TempDir()
	debug := map[string][]byte{
		withID:  split(t, withID, "-Wl,--build-id=sha1"),
		without: split(t, without, "-Wl,--build-id=none"),
	}
	whole := mustOpen(t, filepath.Join(withID, "whole"), Options{})
	id := whole.Build.String()
	if len(id) != 40 || whole.debug != nil {
		t.Fatalf("build ID %q, debug file %v", id, whole.debug)
	}
	if _, err := Open(testtool.Write(t, withID, "alone.debug", debug[withID]), Options{}); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "no code") {
		t.Errorf("a debug file by itself: %v", err)
	}
	byID := filepath.Join(".build-id", id[:2], id[2:]+".debug")
	other := bytes.Clone(debug[without])
	other[len(other)-1] ^= 1 // in the last section's header, so that it stays readable
	for _, tt := range []struct {
		name, dir, at string
		debug         []byte
		opt           Options
		found         bool
	}{
		{"by build ID", withID, "usr/lib/debug/" + byID, debug[withID], Options{}, true},
		{"by build ID, elsewhere", withID, "opt/dbg/" + byID, debug[withID], Options{DebugDirs: []string{"/none", filepath.Join(withID, "opt/dbg")}}, true},
		{"beside it", withID, "usr/bin/p.debug", debug[withID], Options{}, true},
		{"in .debug", withID, "usr/bin/.debug/p.debug", debug[withID], Options{}, true},
		{"in the mirror", withID, "usr/lib/debug/usr/bin/p.debug", debug[withID], Options{}, true},
		{"by name, in a directory for them", withID, "opt/dbg/p.debug", debug[withID], Options{DebugDirs: []string{filepath.Join(withID, "opt/dbg")}}, true},
		{"without build ID", without, "usr/bin/p.debug", debug[without], Options{}, true},
		{"of another program", withID, "usr/bin/p.debug", debug[without], Options{}, false},
		{"of another program, by build ID", withID, "usr/lib/debug/" + byID, debug[without], Options{}, false},
		{"another CRC", without, "usr/bin/p.debug", other, Options{}, false},
		{"not ELF", withID, "usr/bin/p.debug", []byte("no"), Options{}, false},
		{"cut off", withID, "usr/bin/p.debug", debug[withID][:300], Options{}, false},
		{"not in these directories", withID, "opt/dbg/" + byID, debug[withID], Options{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := testtool.Write(t, tt.dir, tt.at, tt.debug)
			defer os.Remove(at)
			opt := tt.opt
			opt.Root = tt.dir
			im := mustOpen(t, filepath.Join(tt.dir, "usr/bin/p"), opt)
			i := im.Lookup("work")
			if (im.debug != nil) != tt.found || (i >= 0) != tt.found {
				t.Fatalf("debug file found: %v, symbol %d, want %v", im.debug != nil, i, tt.found)
			}
			if im.section(".text").Size == 0 || (im.section(".debug_info") != nil) != tt.found {
				t.Errorf("sections .text %v, .debug_info %v", im.section(".text"), im.section(".debug_info"))
			}
			if tt.found && tt.dir == withID {
				want := whole.Symbols()[whole.Lookup("work")]
				if got := im.Symbols()[i]; got.Addr != want.Addr || got.Size != want.Size || got.Ordinal != want.Ordinal || !got.Local {
					t.Errorf("%+v, want %+v", got, want)
				}
			}
		})
	}
}

// TestCompressed reads DWARF as each tool compresses it.
func TestCompressed(t *testing.T) {
	dir := t.TempDir()
	testtool.Write(t, dir, "p.c", program)
	testtool.Run(t, dir, "gcc", "-g", "-gz=none", "p.c", "-o", "none")
	for _, kind := range []string{"zlib", "zlib-gnu"} {
		testtool.Run(t, dir, "objcopy", "--compress-debug-sections="+kind, "none", kind)
	}
	var want []byte
	for _, tt := range []struct{ file, section string }{
		{"none", ".debug_str"}, {"zlib", ".debug_str"}, {"zlib-gnu", ".zdebug_str"},
	} {
		im := mustOpen(t, filepath.Join(dir, tt.file), Options{})
		s := im.section(tt.section)
		if s == nil {
			t.Fatalf("%s: no %s", tt.file, tt.section)
		}
		got, err := im.sectionData(s)
		if want == nil {
			want = got
		}
		if err != nil || len(got) == 0 || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v, want %d", tt.file, len(got), err, len(want))
		}
	}
}

// TestCompressedTooFar claims more than the bytes could hold.
func TestCompressedTooFar(t *testing.T) {
	const huge = 1 << 40
	gnu := append([]byte("ZLIB"), 0, 0, 1, 0, 0, 0, 0, 0)
	for _, s := range []*elf.Section{
		{SectionHeader: elf.SectionHeader{Name: ".debug_str", Flags: elf.SHF_COMPRESSED, Size: huge, FileSize: 100}},
		{SectionHeader: elf.SectionHeader{Name: ".zdebug_str", Size: 12, FileSize: 12}, ReaderAt: bytes.NewReader(gnu)},
	} {
		im := &Image{bound: bound.Sized(200)}
		if _, err := im.sectionData(s); !errors.Is(err, ErrFormat) || !errors.Is(err, bound.ErrBeyond) || !strings.Contains(err.Error(), "1048576 MiB unpacked") {
			t.Errorf("%s: a terabyte of %d bytes: %v", s.Name, s.FileSize, err)
		}
	}
}

func TestReadBuildID(t *testing.T) {
	for _, name := range []string{"x86.elf", "x86.stripped.elf", "arm.elf"} {
		path := "testdata/elf/" + name
		im := mustOpen(t, path, Options{})
		id, err := ReadBuildID(path)
		if err != nil || id.IsZero() || id != im.Build {
			t.Errorf("%s: %v, %v, Open says %v", name, id, err, im.Build)
		}
		if out := testtool.Output(t, "", "readelf", "-n", path); !strings.Contains(out, "Build ID: "+id.String()) {
			t.Errorf("%s: %v, readelf says\n%s", name, id, out)
		}
		// Without section headers, the segment has it.
		b := seed(t, name)
		put(b, ehShoff, 8, 0)
		put(b, ehShnum, 2, 0)
		put(b, ehShstrndx, 2, 0)
		if again, err := ReadBuildID(testtool.Write(t, t.TempDir(), name, b)); err != nil || again != id {
			t.Errorf("%s: without sections %v, %v, want %v", name, again, err, id)
		}
	}
	if _, err := ReadBuildID("debugfile_test.go"); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "debugfile_test.go: ") {
		t.Errorf("a text file: %v", err)
	}
	if _, err := ReadBuildID("testdata/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
