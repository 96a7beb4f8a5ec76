package truth

import (
	"bytes"
	"compress/gzip"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// TestCounted puts the exact counts of testdata/mix to the blocks of procedures that ran: one place in each, with the count
// of all its instructions.
func TestCounted(t *testing.T) {
	im, err := image.Open("../../testdata/mix/mix", image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	truth := load(t, "../../testdata/mix/truth.json.gz")
	it := truth.Images["/opt/mix/mix"]
	at, rep, err := it.Counted(im)
	if err != nil || rep.Places < 100 || len(at) <= rep.Places || rep.Uneven > 5 || rep.Outside+rep.Astray > 0 || rep.Total != it.Total() {
		t.Fatalf("%d places, %+v, %v", len(at), rep, err)
	}
	seen, ran := map[image.Addr]bool{}, 0 // starts of blocks
	for off, n := range at {
		if n > 0 {
			ran++
		}
		a, ok := im.AddrOf(off)
		p, err := im.Proc(im.Find(a))
		if !ok || err != nil {
			t.Fatalf("%#x: %v, %v", uint64(off), ok, err)
		}
		b := &p.Blocks[p.BlockAt(a)]
		if seen[b.Start] {
			t.Errorf("two counts of the block at %#x", b.Start)
		}
		seen[b.Start] = true
		for _, in := range im.Insts(b) {
			if k := it.Insts[in.Addr]; in.Class&image.Rep == 0 && (float64(k) < 0.98*float64(n) || float64(k) > 1.02*float64(n)) {
				t.Errorf("%#x ran %d times, its block %d", in.Addr, k, n)
			}
		}
	}
	if ran != rep.Places {
		t.Errorf("%d places with a count above 0, %d are said to be", ran, rep.Places)
	}
	// One byte further on, next to nothing is at an instruction; far away, nothing at all.
	for _, by := range []image.Addr{1, 1 << 30} {
		other := &Image{Insts: map[image.Addr]uint64{}}
		for a, n := range it.Insts {
			other.Insts[a+by] = n
		}
		if _, _, err := other.Counted(im); err == nil || !strings.Contains(err.Error(), "another build") {
			t.Errorf("counts of another build, %#x off: error %v", by, err)
		}
	}
}

// TestCountedBlock: which instruction stands for a block, if one can.
func TestCountedBlock(t *testing.T) {
	const rep = image.Rep
	for _, tt := range []struct {
		name   string
		class  []image.Class
		counts []uint64
		at     image.Addr
		even   bool
	}{
		{"all alike", []image.Class{0, 0, 0}, []uint64{7, 7, 7}, 1, true},
		{"a string instruction", []image.Class{0, rep, 0}, []uint64{7, 700, 7}, 1, true},
		{"which comes first", []image.Class{rep, 0, 0}, []uint64{700, 7, 7}, 2, true},
		{"alone", []image.Class{rep}, []uint64{700}, 0, true},
		{"a call that once did not return", []image.Class{0, image.DirCall, 0}, []uint64{1000, 1000, 999}, 1, true},
		{"one that never does", []image.Class{0, image.DirCall, 0}, []uint64{1, 1, 0}, 1, false},
		{"not run", []image.Class{0, 0}, []uint64{0, 0}, 1, true},
	} {
		it := &Image{Insts: map[image.Addr]uint64{}}
		var insts []image.Inst
		for i, n := range tt.counts {
			a := image.Addr(1 + i)
			insts = append(insts, image.Inst{Addr: a, Class: tt.class[i]})
			it.Insts[a] = n
		}
		if a, n, even := it.block(insts); a != tt.at || n != it.Insts[tt.at] || even != tt.even {
			t.Errorf("%s: %d times at %d, %v", tt.name, n, a, even)
		}
	}
}

// TestCountOnce: a loop of 100 turns has two string instructions, one of which stores nothing in
// every other turn.
func TestCountOnce(t *testing.T) {
	valgrind, gcc := testtool.Path(t, "valgrind"), testtool.Path(t, "gcc")
	if runtime.GOARCH != "amd64" {
		t.Skip("string instructions are those of x86")
	}
	dir := t.TempDir()
	program, out := filepath.Join(dir, "rep"), filepath.Join(dir, "out")
	source := testtool.Write(t, dir, "rep.c", `
static char a[4096], b[4096];
int main(int argc, char **argv)
{
	for (int i = 0; i < 100; i++) {
		void *to = a, *from = b;
		unsigned long n = 4096 * (i % 2);
		__asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(argc) : "memory");
		to = a;
		n = 512;
		__asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
	}
	return a[argc];
}
`)
	testtool.Run(t, dir, gcc, "-O1", "-o", program, source)
	if b, err := exec.Command(valgrind, "-q", "--tool=callgrind", "--dump-instr=yes", "--collect-jumps=yes", "--dump-line=no", "--callgrind-out-file="+out, program).CombinedOutput(); err != nil {
		t.Skipf("valgrind does not run here: %v\n%s", err, b)
	}
	truth := load(t, out)
	im, err := image.Open(program, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	it := truth.Images[program]
	n, err := it.CountOnce(im)
	// Of the one that stores nothing, callgrind may count one repetition, or none.
	if least := uint64(50*4096 + 100*512 - 200); err != nil || n < least-50 || n > least+200 {
		t.Errorf("%d repetitions, %v; want about %d", n, err, least)
	}
	p, err := im.Proc(im.Lookup("main"))
	if err != nil {
		t.Fatal(err)
	}
	var reps int
	for b := range p.Blocks {
		for _, in := range im.Insts(&p.Blocks[b]) {
			if in.Class&image.Rep != 0 {
				if reps++; it.Insts[in.Addr] != 100 {
					t.Errorf("the string instruction at %#x counts %d times, want 100", in.Addr, it.Insts[in.Addr])
				}
				if n := it.Jumps[Transfer{in.Addr, in.Addr}]; n != 0 {
					t.Errorf("the string instruction at %#x jumps to itself %d times", in.Addr, n)
				}
			}
		}
	}
	if reps != 2 {
		t.Errorf("%d string instructions, want 2", reps)
	}
	other := &Image{Insts: map[image.Addr]uint64{im.Symbols()[p.Index].Addr + 1: 100}}
	if _, err := other.CountOnce(im); err == nil {
		t.Error("counts of another build are taken")
	}
}

func TestIsCounts(t *testing.T) {
	zip := func(text string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		w.Write([]byte(text))
		w.Close()
		return b.Bytes()
	}
	var heads [][]byte
	for _, f := range callgrindFiles {
		heads = append(heads, []byte(f.text), zip(f.text), zip(f.text)[:len(zip(f.text))*2/3])
	}
	for i, head := range heads {
		if !IsCounts(head) {
			t.Errorf("%d: not taken for exact counts: %.40q", i, head)
		}
	}
	for _, head := range []string{"", "{", "{}", "mode: count\n", "PERFILE2", `{"schema": "backfeed.counts/1"}`, string((&sample.Recording{}).Encode()), "\x1f\x8b", string(zip("text"))} {
		if IsCounts([]byte(head)) {
			t.Errorf("taken for exact counts: %q", head)
		}
	}
}
