package feedback

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// llvmText returns the sample profile of a program.
func llvmText(t *testing.T, p *program) (string, LLVMStats) {
	t.Helper()
	l := newLLVMWriter()
	l.image(p.view)
	var out bytes.Buffer
	if err := l.write(&out, LLVMText); err != nil {
		t.Fatal(err)
	}
	return out.String(), l.stats
}

func TestWriteLLVM(t *testing.T) {
	p := newSieve(t)
	p.view.Samples = 1500
	text, stats := llvmText(t, p)
	testtool.Golden(t, "testdata/sieve.sampleprof", []byte(text))
	if stats.Funcs != 5 || stats.Procs != 6 || stats.Skipped[SkipUnknown] != 2 {
		t.Errorf("stats %+v", stats)
	}
}

// TestLLVMExtBinary pins the bytes of the binary form.
func TestLLVMExtBinary(t *testing.T) {
	testtool.Golden(t, "testdata/sieve.extbinary.txt", []byte(hex.Dump(llvmBinaryOf(t, newSieve(t)))))
}

// llvmBinaryOf returns the sample profile of a program in its binary form.
func llvmBinaryOf(t *testing.T, p *program) []byte {
	t.Helper()
	l := newLLVMWriter()
	l.image(p.view)
	var out bytes.Buffer
	if err := l.write(&out, LLVMExtBinary); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestLLVMSilent: only functions of the compiler's without a sample are said not
// to have run.
func TestLLVMSilent(t *testing.T) {
	p := newProgram(t, "proc ran@10 x1\nblock x5\nran:11 s3\nproc quiet.llvm.7@20 x0\nblock x0 none\nquiet:21\nproc puts@0 x0 plt\nblock x0 none\n-")
	l := newLLVMWriter()
	l.image(p.view)
	if got := sortedKeys(l.silent, strings.Compare); !slices.Equal(got, []string{"quiet"}) {
		t.Errorf("silent: %q, want quiet", got)
	}
	p.producer = ""
	l = newLLVMWriter()
	l.image(p.view)
	if len(l.silent) > 0 {
		t.Errorf("silent: %v of no compiler", l.silent)
	}
}

func TestLLVMLines(t *testing.T) {
	for _, tt := range []struct {
		name, producer string
		fs             bool
		text, want     string
	}{
		{
			name: "a line has the count of its hottest block",
			text: "proc f@10 x1\nblock x5\nf:11\nf:11\nblock x9\nf:11\nf:12",
			want: "f:112:1\n 1: 9\n 2: 9\n",
		},
		{
			// 4 is base 2; 1028 = base 2, 4 copies (17 is base 0, 4 copies).
			name: "discriminators of clang are taken apart",
			text: "proc f@10 x1\nblock x5\nf:11.4\nf:11.1028\nf:12.17",
			want: "f:60:1\n 1.2: 20\n 2: 20\n",
		},
		{
			name: "those of gcc are not", producer: "GNU C17 12.2.0",
			text: "proc f@10 x1\nblock x5\nf:11.4\nf:12.17",
			want: "f:40:1\n 1.4: 5\n 2.17: 5\n",
		},
		{
			name: "nor flow-sensitive ones", fs: true,
			text: "proc f@10 x1\nblock x5\nf:11.4\nf:12.17",
			want: "f:40:1\n 1.4: 5\n 2.17: 5\n",
		},
		{
			name: "inlined calls nest, by callee",
			text: "func g@30\nfunc h@40\nproc f@10 x1\nblock x5\nf:11\nh:41<g:32<f:12.4\ng:31<f:12.4\nblock x2\nh:44<f:12.4",
			want: "f:68:1\n 1: 5\n 2.2: g:40\n  1: 5\n  2: h:20\n   1: 5\n 2.2: h:8\n  4: 2\n",
		},
		{
			name: "no line 0, no functions without a start, nothing unknown, but zeros",
			text: "func g@0\nproc f@10 x1\nblock x5\nf:0\nf:11\ng:3<f:12\nblock x0\nf:13\nblock x0 none\nf:14",
			want: "f:40:1\n 1: 5\n 3: 0\n",
		},
		{
			name: "lines before the declaration wrap around at 16 bits",
			text: "proc f@10 x1\nblock x5\nf:8",
			want: "f:20:1\n 65534: 5\n",
		},
		{
			name: "copies of a function add up, its cold part does not",
			text: "func f@10\nproc f@10 x3\nblock x3\nf:11\nproc f.llvm.77@10 x4\nblock x4\nf:11\nproc f.cold@10 x1\nblock x1\nf:11\nf:12\n",
			want: "f:36:7\n 1: 7\n 2: 1\n",
		},
		{
			// as in an unrolled loop
			name: "copies of a call ran one by one",
			text: "proc f@10 x1\nblock x2\nf:11 call g x2\nblock x3\nf:11 call g x3\nproc g@20 x5\nblock x5\ng:21",
			want: "f:20:1\n 1: 5 g:5\ng:20:5\n 1: 5\n",
		},
		{
			name: "functions by name",
			text: "proc c@10 x9\nblock x9\nc:11\nproc b@20 x1\nblock x5\nb:21\nproc a@30 x1\nblock x5\na:31",
			want: "a:20:1\n 1: 5\nb:20:1\n 1: 5\nc:36:9\n 1: 9\n",
		},
	} {
		p := newProgram(t, tt.text)
		if tt.producer != "" {
			p.producer = tt.producer
		}
		p.fs = tt.fs
		for a, fs := range p.frames { // f.llvm.77 and f.cold are code of f
			for i := range fs {
				fs[i].Func = image.SourceName(fs[i].Func)
			}
			p.frames[a] = fs
		}
		if got, _ := llvmText(t, p); got != tt.want {
			t.Errorf("%s: got\n%swant\n%s", tt.name, got, tt.want)
		}
	}
}

// TestLLVMRust: weight is counted as rustc's by the names of both its manglings, and as not to be found by LLVM where
// the older one has put dots into a name.
func TestLLVMRust(t *testing.T) {
	const next = "_ZN64_$LT$shop..Cart$u20$as$u20$core..iter..traits..Iterator$GT$4next17h0123456789abcdefE"
	for _, tt := range []struct {
		name         string
		rust, dotted bool
	}{
		{next, true, true},
		{"_ZN4shop4main17h0123456789abcdefE", true, false},
		{"_RNvXs_NtC4shopNtB5_4Cart4next", true, false},
		{"_ZN4shop4mainEv", false, false},
		{"__cxx_global_var_init.1", false, false},
		{"_Read", false, false},
	} {
		_, stats := llvmText(t, newProgram(t, "proc "+tt.name+"@10 x1\nblock x5\n"+tt.name+":11 s3"))
		if stats.Total == 0 || stats.Rust != 0 != tt.rust || stats.Dotted != 0 != tt.dotted {
			t.Errorf("%s: %+v", tt.name, stats)
		}
	}
}

// TestLLVMAbsent: of a procedure that only its callers tell of, and whose loops are said to run seldom because they had no samples, nothing
// is written: clang would lay them out as cold. One whose loop is said to turn is in the profile, and so is one without a loop.
func TestLLVMAbsent(t *testing.T) {
	const seen = "proc f@10 x9\nblock x9\nf:11 s3\nblock x1\nf:12\nedge 1>1 taken x1\n"
	want, _ := llvmText(t, newProgram(t, seen))
	for _, tt := range []struct {
		what, text string
		absent     bool
	}{
		{"its loop hardly runs", "block x9\ncalled:21\nblock x1\ncalled:22\nedge 1>1 taken x1", true},
		{"its loop turns", "block x9\ncalled:21\nblock x70\ncalled:22\nedge 1>1 taken x61", false},
		{"it was split off", "block x9\nf:13\nproc f.cold@10 x9 called\nblock x9\nf:14\nblock x1\nf:15\nedge 1>1 taken x1", false},
		{"it has no loop", "block x9\ncalled:21\nblock x1\ncalled:22\nedge 0>1 taken x1", false},
	} {
		got, stats := llvmText(t, newProgram(t, seen+"proc called@20 x9 called\n"+tt.text))
		if got == want != tt.absent || stats.Skipped[SkipAbsent] > 0 != tt.absent || stats.Dropped[SkipAbsent] > 0 != tt.absent {
			t.Errorf("%s: skipped %v, dropped %v; wrote\n%s", tt.what, stats.Skipped, stats.Dropped, got)
		}
	}
}

func TestLLVMEmpty(t *testing.T) {
	l := newLLVMWriter()
	l.image(newProgram(t, "proc f@10 x1\nblock x1\n-").view)
	var out bytes.Buffer
	if err := l.write(&out, LLVMText); !errors.Is(err, ErrEmpty) || !strings.Contains(err.Error(), string(SkipNoLines)) || out.Len() > 0 {
		t.Errorf("no lines: %v and %d bytes, want ErrEmpty, why, and none", err, out.Len())
	}
	if l.stats.Skipped[SkipNoLines] != 1 || l.stats.Dropped[SkipNoLines] != l.all || l.all == 0 {
		t.Errorf("skipped %v, dropped %v of %v instructions", l.stats.Skipped, l.stats.Dropped, l.all)
	}
}

// byName sorts the functions of a text.
func byName(text string) string {
	var funcs []string
	for _, line := range strings.SplitAfter(strings.TrimSpace(text)+"\n", "\n") {
		if len(funcs) > 0 && strings.HasPrefix(line, " ") {
			funcs[len(funcs)-1] += line
		} else if line != "" {
			funcs = append(funcs, line)
		}
	}
	slices.Sort(funcs)
	return strings.Join(funcs, "")
}

// TestLLVMProfdata: LLVM's own reader and writer leave the text as it is but for the
// order of functions, so its syntax is LLVM's; of the text they make the bytes of our binary form.
func TestLLVMProfdata(t *testing.T) {
	testtool.Need(t, "llvm-profdata-19")
	dir := t.TempDir()
	p := newProgram(t, sieve+`
proc silent@200 x0
block x0 none
	silent:201
func in@90
func deep@95
proc outer@80 x100
block x100
	deep:96<in:91.4<outer:81
	in:92<outer:81.4
	outer:82 call ? x9
	outer:83 call last x8
	outer:83 call helper x9
block x0
	outer:84.2
`)
	text, _ := llvmText(t, p)
	testtool.Write(t, dir, "in.txt", text)
	testtool.Run(t, dir, "llvm-profdata-19", "merge", "--sample", "--text", "in.txt", "-o", "out.txt")
	if got := byName(testtool.Read(t, dir, "out.txt")); got != byName(text) {
		t.Errorf("llvm-profdata writes\n%swe have\n%s", got, text)
	}
	binary := llvmBinaryOf(t, p)
	l := newLLVMWriter()
	l.image(p.view)
	if err := l.write(io.Discard, LLVMExtBinary); err != nil {
		t.Fatal(err)
	}
	testtool.Write(t, dir, "silent.txt", strings.Join(sortedKeys(l.silent, strings.Compare), "\n"))
	testtool.Run(t, dir, "llvm-profdata-19", "merge", "--sample", "--extbinary", "--prof-sym-list=silent.txt", "in.txt", "-o", "theirs.prof")
	if theirs := testtool.Read(t, dir, "theirs.prof"); theirs != string(binary) {
		t.Errorf("llvm-profdata writes\n%swe write\n%s", hex.Dump([]byte(theirs)), hex.Dump(binary))
	}
}

// TestLLVMOthers: of the builds of a program by several compilers those of LLVM's are taken, if there is one; what is alone stays.
func TestLLVMOthers(t *testing.T) {
	image := func(path string) *infer.ImageProfile {
		return &infer.ImageProfile{ID: sample.ImageID{Path: path}}
	}
	made := func(ip *infer.ImageProfile) bool { return strings.HasPrefix(ip.ID.Path, "/clang/") }
	for _, tt := range []struct{ paths, want string }{
		{"/clang/app /gcc/app /gcc/libc.so", "/clang/app /gcc/libc.so"},
		{"/clang/app /clang/old/app", "/clang/app /clang/old/app"},
		{"/gcc/app /gcc/old/app", "/gcc/app /gcc/old/app"},
		{"/gcc/app /clang/other", "/gcc/app /clang/other"},
	} {
		var ips []*infer.ImageProfile
		for path := range strings.FieldsSeq(tt.paths) {
			ips = append(ips, image(path))
		}
		l := newLLVMWriter()
		var got []string
		for _, ip := range l.leaveOthers(ips, made) {
			got = append(got, ip.ID.Path)
		}
		if strings.Join(got, " ") != tt.want || len(got)+len(l.stats.Others) != len(ips) {
			t.Errorf("of %s: %v and %v left out, want %s", tt.paths, got, l.stats.Others, tt.want)
		}
	}
}
