package main

import (
	"path/filepath"
	"strings"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/store"
)

// TestNoEffect: a flag that would do nothing to this input is refused, before anything is read or recorded.
func TestNoEffect(t *testing.T) {
	dir := t.TempDir()
	id := sample.ImageID{Path: "/nowhere/app"}
	words := strings.NewReplacer("FILE", recording(t, dir, "a.bfr", id), "STORE", storeOf(t, id), "OUT", filepath.Join(dir, "out"),
		"DOC", testtool.Write(t, dir, "counts.json", countsJSON), "TRUTH", testtool.Write(t, dir, "truth.json", truthJSON))
	const selecting = "it chooses from a store"
	lines := map[string]string{
		"prof FILE -n 3 --experiment fpe --event cpu-clock": "fpe shows where signals came from", "prof FILE --experiment fpe --model generic-x86": "fpe shows",
		"whatcg FILE -n 3": "-n goes with --cause", "layout app FILE -n 3": "it goes with --fluff", "layout app FILE --fluff --for json -n 3": "has all items",
		"layout app FILE --align --startup": "make none", "layout app FILE --fluff --for text --holdout FILE": "make none", "layout app FILE --fluff --for text --relinked FILE": "make none",
		"layout app FILE --fluff --html OUT": "make none", "layout app FILE --ld OUT": "wants --ld", "layout app FILE --holdout FILE": "go with --for text or json",
		"diff TRUTH TRUTH -n 3": "it is about recordings", "diff TRUTH TRUTH --since 7d": "it is about recordings", "diff TRUTH TRUTH --model generic-x86": "it is about recordings",
		"diff FILE FILE --for go": "about profiles", "diff FILE FILE --fail-on any": "about profiles",
		"stats FILE FILE --epochs": "none of the sources is a store", "stats FILE FILE --by image --symfs /": "opens no image",
		"infer FILE --format json -n 3": "only the table", "infer FILE --format csv -n 3": "only the table", "infer FILE --places 3 -n 3": "only the table", "infer FILE --stalls": "--format json",
		"list main FILE --format json -n 3": "has all instructions", "list main FILE --format csv --unfolded": "has all instructions", "list main FILE --format json --address": "has all instructions",
		"verify DOC --truth TRUTH --since 7d": "--samples names", "merge FILE --half-life 7d -o OUT": "no source is one", "merge FILE@2 --since 7d -o OUT": selecting,
		"import FILE --symfs / -o OUT": "only counts and stacks do", "merge FILE STORE --symfs / -o OUT": "only counts and stacks do", "merge FILE --image x -o OUT": "--onto", "merge FILE --mangled -o OUT": "only --onto", "record --calibrate --mangled true": "--dry-run", "import FILE --binary x -o OUT": "cover profiles",
		"store gc STORE --retain-size 1G --most": "it goes with --retain",
		"record -a --max-cpu 3% -d 1":            "never samples by ptrace", "record -a --tick -F 99 -d 1": "a rate of its own", "record --tick true": "go with -a", "record --period 3 true": "goes with --event",
		"record --label a=b true": "goes with --store", "record -o OUT --store OUT true": "not both", "record --dry-run true": "with --calibrate", "record -a --period 3 -d 1": "--period goes with",
		"agent --store OUT --metrics-public": "it goes with --metrics", "agent --store OUT --max-image-size 1G": "it goes with --keep-images", "agent --store OUT --tick -F 99": "a rate of its own",
		"record --calibrate --dry-run -o OUT true": "records nothing", "pgo --calibrate --dry-run --if-changed true": "records nothing", "pgo --dry-run true": "with --calibrate", "record --paths=false true": "with --calibrate", "agent --store OUT --paths": "with --calibrate", "export FILE --depth 1 -o OUT": "want 2 to", "emit go FILE --if-changed": "needs a file",
	}
	// All commands that read sources choose from stores.
	for _, line := range []string{"images FILE", "prof FILE", "prof FILE --experiment fpe", "prof FILE --experiment usertime", "list main FILE", "topstalls FILE", "whatcg FILE", "stats FILE FILE", "infer FILE", "check FILE",
		"diff FILE FILE", "verdict FILE FILE", "serve FILE", "report --html OUT FILE", "emit go FILE", "emit llvm FILE", "emit gcc FILE", "emit gcda FILE --notes . -o OUT", "emit bolt FILE", "emit propeller FILE --ld OUT", "layout app FILE", "import FILE -o OUT", "export FILE -o OUT",
		"merge FILE -o OUT", "verify DOC --truth TRUTH --samples FILE"} {
		for _, flag := range []string{"--since 7d", "--until 2026-01-02", "--label host=a"} {
			lines[line+" "+flag] = selecting
		}
	}
	for line, want := range lines {
		code, out, errs := runCLI(t, strings.Fields(words.Replace(line))...)
		if code != exitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, printed %q: %s; want %q", line, code, out, errs, want)
		}
	}
	tried := map[*command]bool{}
	for line := range lines {
		if strings.Contains(line, "--since") {
			tried[commandOf(line)] = true
		}
	}
	for _, cmd := range everyCommand() {
		if flagsOf(cmd).Lookup("since") != nil && !tried[cmd] {
			t.Errorf("%s --since of files is not tried", cmd.name)
		}
	}

	// Where the flags mean something, they are taken.
	for line, code := range map[string]int{
		"images STORE --since 20000d": exitDone, "images FILE STORE --label host=b": exitDone, "stats STORE --epochs": exitDone, "merge STORE --half-life 7d -o OUT": exitDone, "stats FILE STORE --since 20000d": exitDone,
	} {
		if got, _, errs := runCLI(t, strings.Fields(words.Replace(line))...); got != code {
			t.Errorf("%s: exit code %d, want %d: %s", line, got, code, errs)
		}
	}
	if !store.Is(storeOf(t, id)) {
		t.Error("the store is none")
	}
}
