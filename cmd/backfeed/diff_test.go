package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
)

// sampleProfiles are two profiles in LLVM's text form that swap what is hot.
var sampleProfiles = map[string]string{
	"old": "work:100:1\n 1: 9900\nidle:1:1\n 1: 1\n",
	"new": "work:100:1\n 1: 1\nidle:1:1\n 1: 9900\n",
}

func writeProfiles(t *testing.T) (before, after string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range sampleProfiles {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "old"), filepath.Join(dir, "new")
}

func TestDiff(t *testing.T) {
	before, after := writeProfiles(t)
	code, out, errs := runCLI(t, "diff", before, after, "--for", "llvm")
	for _, want := range []string{"clear", "hot -> cold", "cold -> hot", "idle", "2 decisions change, 2 of them clearly; 1 were hot, 1 are; >99.9% of the weight changes sides, <0.1% overlaps"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if code != exitDone || errs != "" {
		t.Errorf("exit code %d, %q", code, errs)
	}

	_, out, _ = runCLI(t, "diff", before, after, "--for", "llvm", "--format", "json")
	var doc report.DecisionDiff
	if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.Changes) != 2 || doc.Clear != 2 || doc.Schema != "backfeed.diff/2" {
		t.Errorf("%v, %+v", err, doc)
	}

	_, out, _ = runCLI(t, "diff", before, after, "--for", "llvm", "--format", "markdown")
	if want := "| clear | 100.0% | <0.1% | `hot -> cold` | `work` |\n"; !strings.Contains(strings.ReplaceAll(out, ">99.9%", "100.0%"), want) {
		t.Errorf("no %q in:\n%s", want, out)
	}
}

// TestDiffNames: procedures of C++ are named as their source names them, or as the linker does.
func TestDiffNames(t *testing.T) {
	before, after := writeProfiles(t)
	const linker, plain = "_ZN3app4workEv", "app::work"
	for _, path := range []string{before, after} {
		testtool.Put(t, path, []byte(strings.ReplaceAll(testtool.Read(t, path), "work", linker)))
	}
	out := must(t, "diff", before, after, "--for", "llvm")
	if !strings.Contains(out, plain) || strings.Contains(out, linker) {
		t.Errorf("want %s, not %s:\n%s", plain, linker, out)
	}
	for _, format := range []string{"text", "markdown"} {
		if out := must(t, "diff", before, after, "--for", "llvm", "--mangled", "--format", format); !strings.Contains(out, linker) {
			t.Errorf("--mangled: no %s:\n%s", linker, out)
		}
	}
	if out := must(t, "diff", before, after, "--for", "llvm", "--format", "json"); !strings.Contains(out, `"site": "`+plain+`"`) || !strings.Contains(out, `"mangled_site": "`+linker+`"`) {
		t.Errorf("JSON does not have both names:\n%s", out)
	}
}

// TestDiffBinary: binary profiles are compared as text is, hashed names with names.
func TestDiffBinary(t *testing.T) {
	merged := filepath.Join(root, "feedback/testdata/merged")
	out := must(t, "diff", filepath.Join(merged, "compressed"), filepath.Join(merged, "md5"), "--for", "llvm", "--fail-on", "any")
	if !strings.Contains(out, "0 decisions change") || !strings.Contains(out, "100.0% overlaps") {
		t.Error(out)
	}
}

func TestDiffFails(t *testing.T) {
	before, after := writeProfiles(t)
	for _, tt := range []struct {
		args []string
		code int
	}{
		{[]string{before, after, "--fail-on", "clear"}, exitChanged},
		{[]string{before, after, "--fail-on", "any"}, exitChanged},
		{[]string{before, before, "--fail-on", "any"}, exitDone},
		{[]string{before, after, "--for", "go"}, exitNothing},
		{[]string{before, before + ".missing"}, exitFailed},
		{[]string{before}, exitUsage},
	} {
		if !slices.Contains(tt.args, "--for") {
			tt.args = append(tt.args, "--for", "llvm")
		}
		if code, _, errs := runCLI(t, append([]string{"diff"}, tt.args...)...); code != tt.code {
			t.Errorf("diff %q: exit code %d, want %d: %s", tt.args, code, tt.code, errs)
		}
	}
}
