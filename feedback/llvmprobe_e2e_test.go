package feedback

import (
	"debug/elf"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestProbesExact writes exact counts by probe, and holds them to what
// llvm-profgen makes of the same counts, and to what clang does with them.
func TestProbesExact(t *testing.T) {
	onEach(t, func(*processor) []string { return []string{"clang-19", "llvm-profgen-19", "llvm-profdata-19"} }, testProbesExact)
}

func testProbesExact(t *testing.T, c *processor) {
	dir := t.TempDir()
	c.build(t, dir, "shop", "-g1", "-gdwarf-4", "-fpseudo-probe-for-profiling")
	p, rec := exact(t, dir, "shop")
	profgen(t, dir, "shop", p, rec)

	if stats := emitLLVM(t, dir, "ours.txt", p, rec, LLVMText); !stats.Probes || stats.Funcs == 0 {
		t.Errorf("stats %+v: not by probe", stats)
	}
	ours := testtool.Read(t, dir, "ours.txt")
	if theirs := byName(testtool.Read(t, dir, "theirs.txt")); ours != theirs {
		t.Errorf("we write\n%s\nllvm-profgen writes\n%s", ours, theirs)
	}
	emitLLVM(t, dir, "ours.prof", p, rec, LLVMExtBinary)
	testtool.Run(t, dir, "llvm-profdata-19", "merge", "--sample", "--text", "ours.prof", "-o", "back.txt")
	if back := byName(testtool.Read(t, dir, "back.txt")); ours != back {
		t.Errorf("of the binary form llvm-profdata makes\n%s\nwant\n%s", back, ours)
	}

	// Without salvaging, clang refuses counts whose checksum is not its own.
	for _, profile := range []string{"ours.txt", "ours.prof"} {
		remarks := c.build(t, dir, "again", "-fpseudo-probe-for-profiling", "-fprofile-sample-use="+profile, "-Rpass-analysis=sample-profile",
			"-Rpass=pgo-icall-prom", "-mllvm", "-salvage-stale-profile=0", "-mllvm", "-sample-profile-check-record-coverage=95")
		if n := strings.Count(remarks, "Applied"); n < 40 {
			t.Errorf("%s: clang applied %d probes:\n%s", profile, n, remarks)
		}
		wanted := []string{"Applied 40000 samples from profile (ProbeId=4"}
		if c.machine == elf.EM_X86_64 { // clang 19 puts no probes to calls on AArch64: no profile can name their targets
			wanted = append(wanted, "Promote indirect call to _ZL4both")
		}
		for _, want := range wanted {
			if !strings.Contains(remarks, want) {
				t.Errorf("%s: clang does not say %q:\n%s", profile, want, remarks)
			}
		}
		if strings.Contains(remarks, "warning") {
			t.Errorf("%s: clang warns:\n%s", profile, remarks)
		}
	}
}
