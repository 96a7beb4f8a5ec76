package feedback

import (
	"bytes"
	"debug/elf"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// TestLLVMExact writes exact counts, and holds the profile to what llvm-profgen
// makes of the same counts, and to what clang does with it.
func TestLLVMExact(t *testing.T) {
	onEach(t, func(*processor) []string { return []string{"clang-19", "llvm-profgen-19", "llvm-profdata-19"} }, testLLVMExact)
}

func testLLVMExact(t *testing.T, c *processor) {
	dir := t.TempDir()
	c.build(t, dir, "shop", "-g", "-gdwarf-4", "-fdebug-info-for-profiling") // valgrind 3.19 knows no DWARF 5
	p, rec := exact(t, dir, "shop")
	emitLLVM(t, dir, "ours.txt", p, rec, LLVMText)
	ours := testtool.Read(t, dir, "ours.txt")

	profgen(t, dir, "shop", p, rec)
	for name, total := range totals(t, testtool.Read(t, dir, "theirs.txt")) {
		if got := totals(t, ours)[name]; got != total {
			t.Errorf("total of %s is %d, llvm-profgen's %d", name, got, total)
		}
	}
	overlap := testtool.Run(t, dir, "llvm-profdata-19", "overlap", "--sample", "theirs.txt", "ours.txt")
	for _, what := range []string{"Whole program profile similarity", "Whole program sample overlap"} {
		if got := percentage(t, overlap, what); got < 99 {
			t.Errorf("%s is %g%%, want 99%%\n%s", what, got, overlap)
		}
	}

	remarks := c.build(t, dir, "again", "-g1", "-fprofile-sample-use=ours.txt",
		"-Rpass-analysis=sample-profile", "-Rpass=pgo-icall-prom", "-mllvm", "-sample-profile-check-record-coverage=50")
	if n := strings.Count(remarks, "Applied"); n < 20 {
		t.Errorf("clang applied %d lines:\n%s", n, remarks)
	}
	if !strings.Contains(remarks, "Promote indirect call to both") {
		t.Errorf("clang did not promote the indirect call to its most frequent target:\n%s", remarks)
	}
	if strings.Contains(remarks, "available profile records") {
		t.Errorf("clang could not use 90%% of some function's records:\n%s", remarks)
	}

	emitLLVM(t, dir, "ours.prof", p, rec, LLVMExtBinary)
	same := testtool.Run(t, dir, "llvm-profdata-19", "overlap", "--sample", "ours.txt", "ours.prof")
	for _, what := range []string{"Whole program profile similarity", "Whole program sample overlap"} {
		if got := percentage(t, same, what); got != 100 {
			t.Errorf("%s of text and binary is %g%%\n%s", what, got, same)
		}
	}
	// fail did not run: it is cold if the profile says so, else clang knows nothing of it.
	for _, tt := range []struct{ profile, count string }{{"ours.txt", "-1"}, {"ours.prof", "0"}} {
		got := c.build(t, dir, "shop.ll", "-S", "-emit-llvm", "-fprofile-sample-use="+tt.profile, "-Rpass-analysis=sample-profile")
		if n := strings.Count(got, "Applied"); n != strings.Count(remarks, "Applied") {
			t.Errorf("%s: clang applied %d lines:\n%s\nof the text:\n%s", tt.profile, n, got, remarks)
		}
		if got := entryCount(t, testtool.Read(t, dir, "shop.ll"), "fail"); got != tt.count {
			t.Errorf("%s: clang thinks that fail is entered %s times, want %s", tt.profile, got, tt.count)
		}
	}
}

// emitLLVM writes a profile for LLVM to a file.
func emitLLVM(t *testing.T, dir, name string, p *infer.Profile, rec *sample.Recording, format LLVMFormat) LLVMStats {
	t.Helper()
	var out bytes.Buffer
	stats, err := WriteLLVM(&out, p, rec, LLVMOptions{Format: format})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", stats)
	testtool.Write(t, dir, name, out.String())
	return stats
}

// entryCount returns how often a function is entered by the metadata of LLVM IR.
func entryCount(t *testing.T, ir, function string) string {
	t.Helper()
	def := regexp.MustCompile(`(?m)^define .*@` + function + `\(.*!prof !(\d+)`).FindStringSubmatch(ir)
	if def == nil {
		t.Fatalf("no profile of %s", function)
	}
	count := regexp.MustCompile(`(?m)^!` + def[1] + ` = !{!"function_entry_count", i64 (-?\d+)}`).FindStringSubmatch(ir)
	if count == nil {
		t.Fatalf("no entry count of %s", function)
	}
	return count[1]
}

// profgen has llvm-profgen make the profile theirs.txt of the same counts.
func profgen(t *testing.T, dir, program string, p *infer.Profile, rec *sample.Recording) {
	t.Helper()
	insts, branches := ranges(p, rec, firstExecutable(t, filepath.Join(dir, program)))
	var raw strings.Builder
	fmt.Fprintln(&raw, len(insts))
	for _, c := range insts {
		fmt.Fprintf(&raw, "%x-%x:%d\n", uint64(c.from), uint64(c.to), c.n)
	}
	fmt.Fprintln(&raw, len(branches))
	for _, c := range branches {
		fmt.Fprintf(&raw, "%x->%x:%d\n", uint64(c.from), uint64(c.to), c.n)
	}
	testtool.Write(t, dir, "raw.txt", raw.String())
	testtool.Run(t, dir, "llvm-profgen-19", "--binary="+program, "--unsymbolized-profile=raw.txt", "--format=text", "--output=theirs.txt")
	// llvm-profgen makes offsets of code without a line, too: 0 less the first line.
	lineless := regexp.MustCompile(`(?m)^ +6[2-5]\d\d\d: \d+\n`)
	testtool.Write(t, dir, "theirs.txt", lineless.ReplaceAllString(testtool.Read(t, dir, "theirs.txt"), ""))
}

// firstExecutable returns the address that llvm-profgen counts from.
func firstExecutable(t *testing.T, path string) image.Addr {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			return image.Addr(p.Vaddr) &^ 0xfff // of its page
		}
	}
	t.Fatalf("%s: no executable segment", path)
	return 0
}

// totals returns the totals of the functions of a profile.
func totals(t *testing.T, text string) map[string]uint64 {
	t.Helper()
	of := map[string]uint64{}
	for _, m := range regexp.MustCompile(`(?m)^([^ :]+):(\d+):\d+$`).FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseUint(m[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		of[m[1]] = n
	}
	if len(of) == 0 {
		t.Fatalf("no functions in:\n%s", text)
	}
	return of
}

// percentage finds "WHAT: N%" in text.
func percentage(t *testing.T, text, what string) float64 {
	t.Helper()
	m := regexp.MustCompile(regexp.QuoteMeta(what) + `:?\s*([0-9.]+)%`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no %q in:\n%s", what, text)
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
