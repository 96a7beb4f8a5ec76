package feedback

import (
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestLLVMBuilds: profiles of other builds than the one that is recommended say
// what llvm-profgen's do, and clang applies most of their lines all the same.
func TestLLVMBuilds(t *testing.T) {
	onEach(t, func(*processor) []string { return []string{"clang-19", "llvm-profgen-19", "llvm-profdata-19"} }, testLLVMBuilds)
}

func testLLVMBuilds(t *testing.T, c *processor) {
	fs := []string{"-mllvm", "-enable-fs-discriminator=true", "-mllvm", "-improved-fs-discriminator=true"}
	for _, tt := range []struct {
		name       string
		build, use []string
		format     LLVMFormat
		fs         bool
		least      int // lines that clang applies: 54 of the recommended build
	}{
		{"without discriminators", []string{"-g"}, nil, LLVMText, false, 35},
		{"line tables only", []string{"-g1"}, nil, LLVMText, false, 35},
		{"flow-sensitive", append(fs, "-g", "-fdebug-info-for-profiling"), append(fs, "-mllvm", "-profile-isfs"), LLVMText, true, 150},
		{"flow-sensitive, binary", append(fs, "-g", "-fdebug-info-for-profiling"), fs, LLVMExtBinary, true, 150},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			c.build(t, dir, "shop", append(tt.build, "-gdwarf-4")...)
			p, rec := exact(t, dir, "shop")
			if stats := emitLLVM(t, dir, "ours.prof", p, rec, tt.format); stats.FS != tt.fs {
				t.Errorf("flow-sensitive: %v, want %v", stats.FS, tt.fs)
			}
			profgen(t, dir, "shop", p, rec)
			overlap := testtool.Run(t, dir, "llvm-profdata-19", "overlap", "--sample", "theirs.txt", "ours.prof")
			if got := percentage(t, overlap, "Whole program profile similarity"); got < 99 {
				t.Errorf("similarity with llvm-profgen's is %g%%\n%s", got, overlap)
			}
			remarks := c.build(t, dir, "again", append(tt.use, "-fprofile-sample-use=ours.prof",
				"-Rpass-analysis=(sample-profile|fs-profile-loader)", "-Rpass=pgo-icall-prom")...)
			if n := strings.Count(remarks, "Applied"); n < tt.least {
				t.Errorf("clang applied %d lines, want %d:\n%s", n, tt.least, remarks)
			}
			if !strings.Contains(remarks, "Promote indirect call to both") {
				t.Errorf("clang did not promote the indirect call:\n%s", remarks)
			}
		})
	}
}
