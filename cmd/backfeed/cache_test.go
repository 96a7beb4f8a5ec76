package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCache: what commands print is the same whether results are kept or not, and were kept by whom; those that ask the same share them.
func TestCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	recording := filepath.Join(mixDir, "samples.bfr")
	commands := []string{"infer SRC --format json", "infer SRC", "prof SRC", "topstalls SRC", "list lookup SRC", "whatcg SRC --proc lookup", "emit bolt SRC -o -", "emit llvm SRC -o -", "layout MIX SRC --always"}
	outputs := func(command string) string {
		args := strings.Fields(strings.NewReplacer("SRC", recording, "MIX", filepath.Join(mixDir, "mix")).Replace(command))
		code, out, errs := runCLI(t, append(args, "--symfs", mixDir)...)
		if code != exitDone || out == "" {
			t.Errorf("%s: exit code %d, %d bytes: %s", command, code, len(out), errs)
		}
		return out + errs
	}
	without := map[string]string{}
	for _, name := range commands {
		without[name] = outputs(name)
	}
	t.Setenv(cacheVar, dir)
	for _, name := range append(commands, commands[0], "topstalls SRC") { // the first of them infers, for all; the last finds stalls
		if outputs(name) != without[name] {
			t.Errorf("%s: the output is another", name)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Errorf("%d results, %v; want one, of all, and the stalls of topstalls", len(files), err)
	}
}

func TestResultsDir(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	for set, want := range map[string]string{"off": "", "/x/y": "/x/y"} {
		t.Setenv(cacheVar, set)
		if got := string(resultsDir()); got != want {
			t.Errorf("%s=%s: %q, want %q", cacheVar, set, got, want)
		}
	}
	t.Setenv(cacheVar, "")
	if got := string(resultsDir()); !strings.HasPrefix(got, cache) || !strings.HasSuffix(got, filepath.Join("backfeed", "results")) {
		t.Errorf("of the user: %q", got)
	}
}
