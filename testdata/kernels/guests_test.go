package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSets: each test that a set or aside names is in the package of its set.
func TestSets(t *testing.T) {
	funcs := map[string][]string{}
	for name, dir := range dirs {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no tests (%v)", dir, err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`).FindAllStringSubmatch(string(b), -1) {
				funcs[name] = append(funcs[name], m[1])
			}
		}
	}
	check := func(what, names string, funcs []string) {
		names, _, _ = strings.Cut(names, "/") // subtests
		for _, name := range strings.Split(strings.Trim(names, "^()$|"), "|") {
			pattern, err := regexp.Compile("^" + strings.Trim(name, "^$") + "$")
			if strings.HasPrefix(names, "^TestCounter") { // without an end
				pattern, err = regexp.Compile("^" + name)
			}
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, f := range funcs {
				found = found || pattern.MatchString(f)
			}
			if !found {
				t.Errorf("%s: there is no test %s", what, name)
			}
		}
	}
	for _, s := range sets {
		check(s.name, s.run, funcs[s.pkg])
	}
	all := append(append([]string{}, funcs["cmd"]...), funcs["collect"]...)
	check("aside", aside, all)
	for arch, names := range asideOn {
		check("aside on "+arch, names, all)
	}
}

// TestClock: each guest is of those whose clocks go by one or the other, and there are some of both.
func TestClock(t *testing.T) {
	n := map[string]int{}
	for _, g := range guests {
		for _, clock := range []string{"", byTime, byInstructions} {
			if o := (options{clock: clock}); o.has(g) {
				n[clock]++
			}
		}
	}
	if n[byTime] == 0 || n[byInstructions] == 0 || n[byTime]+n[byInstructions] != n[""] || n[""] != len(guests) {
		t.Errorf("%d guests: %v", len(guests), n)
	}
	if err := command([]string{"-clock", "hours"}, io.Discard); err == nil || !strings.Contains(err.Error(), `not by "hours"`) {
		t.Errorf("-clock hours: %v", err)
	}
}
