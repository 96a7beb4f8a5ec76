package feedback

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// mergedText is a profile of calls that are nested, indirect, or of functions whose
// names were made unique.
const mergedText = `outer:4000:100
 1: 100
 2.4: 90 helper:60 _ZL4lastv.__uniq.12:30
 3: inner:900
  1: 5000000000
  2.1: deep:40
   4: 40
helper:60:60
 0: 60
`

// mergedProfiles are the files in testdata/merged, and how llvm-profdata made them of that.
var mergedProfiles = map[string][]string{
	"plain":          nil,
	"compressed":     {"--compress-all-sections"},
	"md5":            {"--use-md5"},
	"md5-compressed": {"--use-md5", "--compress-all-sections"},
	"partial":        {"--gen-partial-profile"},
}

func readProfile(t *testing.T, b []byte) map[string]*function {
	t.Helper()
	p, err := readSampleProfile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return p.funcs
}

// TestReadLLVMBinary: the binary forms of a profile hold what its text does.
func TestReadLLVMBinary(t *testing.T) {
	if *testtool.Update {
		testtool.Need(t, "llvm-profdata-19")
		dir := t.TempDir()
		testtool.Write(t, dir, "in.txt", mergedText)
		for name, flags := range mergedProfiles {
			path, err := filepath.Abs("testdata/merged/" + name)
			if err != nil {
				t.Fatal(err)
			}
			testtool.Run(t, dir, append([]string{"llvm-profdata-19", "merge", "--sample", "--extbinary", "in.txt", "-o", path}, flags...)...)
		}
	}
	for name, flags := range mergedProfiles {
		want := readProfile(t, []byte(mergedText))
		if slices.Contains(flags, "--use-md5") {
			want = hashNames(want)
		}
		b, err := os.ReadFile("testdata/merged/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if got := readProfile(t, b); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	p := newSieve(t)
	text, _ := llvmText(t, p)
	if got, want := readProfile(t, llvmBinaryOf(t, p)), readProfile(t, []byte(text)); !reflect.DeepEqual(got, want) {
		t.Errorf("our own: got %v, want %v", got, want)
	}
}

// TestReadLLVMSections: names of hashes without a fixed size, functions in two sections.
func TestReadLLVMSections(t *testing.T) {
	var names []byte
	names = binary.AppendUvarint(names, 2)
	names = binary.AppendUvarint(names, 1<<63)
	names = binary.AppendUvarint(names, 7)
	got := readProfile(t, sectionsOf(t,
		llvmSection{secBodies, 0, 0, []byte{3, 0, 9, 1, 1, 2, 5, 1, 1, 4, 0}},
		llvmSection{secBodies, 2, 1, []byte{0, 1, 8, 0, 1, 6, 0, 0, 8, 0, 0}},
		llvmSection{secNames, flagMD5, 2, names}))
	want := readProfile(t, []byte("9223372036854775808:9:3\n 1.2: 5 7:4\n7:8:0\n 6: 9223372036854775808:8\n"))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func sectionsOf(t *testing.T, sections ...llvmSection) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := writeSections(&b, sections); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestReadLLVMBinaryErrors: an error says where and which field.
func TestReadLLVMBinaryErrors(t *testing.T) {
	names := llvmSection{secNames, 0, 0, []byte("\x01f\x00")}
	body := func(b ...byte) llvmSection { return llvmSection{secBodies, 0, 1, b} }
	nested := binary.LittleEndian.AppendUint64(sectionsOf(t)[:10], maxGrowth+1)
	for range maxGrowth + 1 { // of type 99, without flags, from 0 to the end
		for _, n := range []uint64{99, 0, 0, 18 + 32*(maxGrowth+1)} {
			nested = binary.LittleEndian.AppendUint64(nested, n)
		}
	}
	for _, tt := range []struct {
		name string
		file []byte
		want string
	}{
		{"raw binary", binary.AppendUvarint(nil, llvmMagic|0xff), "offset 0x0: magic: binary of another kind, 0xff"},
		{"version", binary.AppendUvarint(binary.AppendUvarint(nil, llvmMagic), 99), "version 99, want 103"},
		{"cut", sectionsOf(t, names)[:20], "offset 0x12: 1 sections, there is room for 0"},
		{"no functions", sectionsOf(t, names), "no section of functions"},
		{"section outside", sectionsOf(t, names, body(0))[:0x55], "section of type 32: 1 bytes at 0x55, the file has 85"},
		{"contexts", sectionsOf(t, llvmSection{secSummary, 2 << 32, 0, []byte{0}}, body(0)), "flags 0x200000000 of the summary"},
		{"number of names", sectionsOf(t, llvmSection{secNames, flagFixedMD5, 0, []byte{2, 1, 2, 3}}, body(0)), "2 names, there is room for 0"},
		{"name's end", sectionsOf(t, llvmSection{secNames, 0, 0, []byte{1, 'f'}}, body(0)), "name: no zero at its end"},
		{"no such name", sectionsOf(t, names, body(0, 1)), "function: name 1 of 1"},
		{"total", sectionsOf(t, names, body(0, 0)), "total: cut off"},
		{"line", sectionsOf(t, names, body(0, 0, 0, 1, 0xff, 0xff, 0x7f)), "line 2097151 is beyond 65535"},
		{"inlined", sectionsOf(t, names, body(0, 0, 0, 0, 1, 0, 0, 9)), "inlined function: name 9 of 1"},
		{"too deep", sectionsOf(t, names, body(append([]byte{0, 0}, bytes.Repeat([]byte{0, 0, 1, 0, 0, 0}, 2*maxInlined)...)...)), "inlined through more than 256"},
		{"not zlib", sectionsOf(t, llvmSection{secNames, flagCompressed, 0, []byte{2, 1, 3}}, body(0)), "section of type 2: unexpected EOF"},
		{"too large", sectionsOf(t, llvmSection{secNames, flagCompressed, 0, append(binary.AppendUvarint(nil, 1<<20), 0)}, body(0)), "1048576 bytes in a section, there is room for 8700"},
		{"one in the other", nested, "3250 bytes in a section, there is room for 0"},
	} {
		_, err := readSampleProfile(bytes.NewReader(tt.file))
		if err == nil || !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "offset 0x") {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

// TestHasHashes: a name among numbers decides, whichever comes first.
func TestHasHashes(t *testing.T) {
	for text, want := range map[string]bool{"": false, "7:1:1\n8:1:1\n": true, "7:1:1\n8:1:1\n9:1:1\nf:1:1\n": false} {
		for range 20 { // maps have no order
			if got := hasHashes(readProfile(t, []byte(text))); got != want {
				t.Fatalf("%q: %v, want %v", text, got, want)
			}
		}
	}
}

// TestSameNames: a profile of hashed names decides as the one with names does.
func TestSameNames(t *testing.T) {
	named, err := DecideLLVM(strings.NewReader(mergedText))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("testdata/merged/md5")
	if err != nil {
		t.Fatal(err)
	}
	hashed, err := DecideLLVM(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for _, sides := range [][2]*Decisions{{named, hashed}, {hashed, named}} {
		before, after := SameNames(sides[0], sides[1])
		if d := Diff(before, after); len(d) > 0 || Overlap(before, after) != 1 || len(before.made) != len(named.made) {
			t.Errorf("%d decisions differ: %v", len(d), d)
		}
	}
	if before, after := SameNames(named, named); before != named || after != named {
		t.Error("equal names were changed")
	}
	if len(Diff(named, hashed)) == 0 {
		t.Error("names and hashes are alike, the test shows nothing")
	}
}
