package feedback

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestRustExact writes exact counts of a Rust program, and holds the profile to
// what rustc does with it. Its names are mangled, and its discriminators LLVM's.
func TestRustExact(t *testing.T) {
	testtool.Need(t, "rustc", "llvm-profgen-19", "llvm-profdata-19", "valgrind")
	dir := t.TempDir()
	src, err := filepath.Abs("testdata/shop.rs")
	if err != nil {
		t.Fatal(err)
	}
	rustc := func(out string, flags ...string) string {
		args := []string{"env", "RUSTC_BOOTSTRAP=1", "rustc", "-O", "-g", "-Cdwarf-version=4", "-Ccodegen-units=1", src, "-o", out}
		return testtool.Run(t, dir, append(args, flags...)...)
	}
	if !strings.Contains(testtool.Run(t, dir, "env", "RUSTC_BOOTSTRAP=1", "rustc", "-Zhelp"), " debug-info-for-profiling=") {
		t.Skip("needs a rustc with -Zdebug-info-for-profiling")
	}
	rustc("shop", "-Zdebug-info-for-profiling")
	p, rec := exact(t, dir, "shop")
	profgen(t, dir, "shop", p, rec)
	for _, format := range []LLVMFormat{LLVMText, LLVMExtBinary} {
		if stats := emitLLVM(t, dir, "ours.prof", p, rec, format); stats.Inlined == 0 || stats.Targets == 0 {
			t.Errorf("%+v: nothing inlined, or no targets", stats)
		}
		overlap := testtool.Run(t, dir, "llvm-profdata-19", "overlap", "--sample", "theirs.txt", "ours.prof")
		if got := percentage(t, overlap, "Whole program profile similarity"); got < 99 {
			t.Errorf("similarity with llvm-profgen's is %g%%\n%s", got, overlap)
		}
		remarks := rustc("again", "-Zprofile-sample-use=ours.prof", "-Cremark=sample-profile pgo-icall-prom")
		if n := strings.Count(remarks, "sample-profile (success)"); n < 10 {
			t.Errorf("rustc used the counts of %d branches:\n%s", n, remarks)
		}
		promoted := regexp.MustCompile(`shop\.rs:32:.*Promote indirect call to \w*Strip\w* with count 36000`)
		if !promoted.MatchString(remarks) {
			t.Errorf("rustc did not promote the call through the vtable:\n%s", remarks)
		}
	}
}

// TestRustNames, of both of rustc's manglings: of what a profile has, rustc does not find what the writer says it will not, and finds it where
// functions have the names of the newer mangling.
func TestRustNames(t *testing.T) {
	testtool.Need(t, "rustc", "valgrind")
	src, err := filepath.Abs("testdata/shop.rs")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(testtool.Run(t, t.TempDir(), "env", "RUSTC_BOOTSTRAP=1", "rustc", "-Zhelp"), " debug-info-for-profiling=") {
		t.Skip("needs a rustc with -Zdebug-info-for-profiling")
	}
	for _, tt := range []struct {
		mangling, area string // the method of a trait
		found          bool
	}{
		{"legacy", `"_ZN\d+_[^"]*Strip[^"]*4area17h[0-9a-f]{16}E"`, false},
		{"v0", `_R\w*5Strip\w*4area`, true},
	} {
		dir := t.TempDir()
		rustc := func(out string, flags ...string) {
			args := []string{"env", "RUSTC_BOOTSTRAP=1", "rustc", "-O", "-g", "-Cdwarf-version=4", "-Ccodegen-units=1", "-Zdebug-info-for-profiling",
				"-Zunstable-options", "-Csymbol-mangling-version=" + tt.mangling, src, "-o", out}
			testtool.Run(t, dir, append(args, flags...)...)
		}
		rustc("shop")
		p, rec := exact(t, dir, "shop")
		stats := emitLLVM(t, dir, "ours.prof", p, rec, LLVMText)
		if stats.Rust == 0 || stats.Rust > stats.Total || stats.Dotted == 0 != tt.found {
			t.Errorf("%s: %+v", tt.mangling, stats)
		}
		rustc("shop.ll", "--emit=llvm-ir", "-Zprofile-sample-use=ours.prof")
		b, err := os.ReadFile(filepath.Join(dir, "shop.ll"))
		if err != nil {
			t.Fatal(err)
		}
		if n := entryCount(t, string(b), tt.area); n == "" || (n != "-1") != tt.found {
			t.Errorf("%s: rustc counts %s entries of %s", tt.mangling, n, tt.area)
		}
	}
}
