package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// testsIn returns the text of all test files in a directory of the repository, or below it for "dir/...".
func testsIn(t *testing.T, dir string) string {
	t.Helper()
	dir, below := strings.CutSuffix(strings.TrimPrefix(dir, "./"), "...")
	dir = strings.TrimSuffix(dir, "/")
	var text strings.Builder
	for _, file := range goFiles(t) {
		at := filepath.Dir(file)
		if strings.HasSuffix(file, "_test.go") && (at == dir || below && strings.HasPrefix(at+"/", dir)) {
			text.WriteString(testtool.Read(t, root, file))
		}
	}
	return text.String()
}

// TestContributing: what CONTRIBUTING.md says to type can be typed, and what it names is there.
func TestContributing(t *testing.T) {
	page := testtool.Read(t, root, "CONTRIBUTING.md")
	all := testsIn(t, "./...")

	commands := regexp.MustCompile("(?m)^    go test (.*)$|`go test ([^`]*)`").FindAllStringSubmatch(page, -1)
	if len(commands) < 5 {
		t.Errorf("%d commands found", len(commands))
	}
	for _, m := range commands {
		line, _, _ := strings.Cut(m[1]+m[2], " #")
		line, reader, piped := strings.Cut(line, " | ")
		if reader = strings.TrimSpace(reader); piped {
			if _, err := os.Stat(filepath.Join(root, reader)); err != nil {
				t.Errorf("%q is read by what is not there: %v", line, err)
			}
		}
		tests := all
		for i, words := 0, strings.Fields(line); i < len(words); i++ {
			name, _, _ := strings.Cut(words[i], "=")
			switch {
			case strings.HasPrefix(name, "./"):
				if tests = testsIn(t, name); tests == "" {
					t.Errorf("%q: %s has no tests", line, name)
				}
				if strings.Contains(tests, `"backfeed/testdata/sets"`) { // which has a flag
					tests += testtool.Read(t, root, "testdata/sets/sets.go")
				}
			case name == "-run":
				i++
				if !regexp.MustCompile(`(?m)^func (` + words[i] + `)\w*\(t \*testing\.T\)`).MatchString(tests) {
					t.Errorf("%q: no test %s", line, words[i])
				}
			case slices.Contains([]string{"-short", "-v"}, name):
			case name == "-update":
				if !strings.Contains(tests, "testtool.Golden(") && !strings.Contains(tests, "testtool.Update") {
					t.Errorf("%q: nothing is rewritten", line)
				}
			case !regexp.MustCompile(`flag\.\w+\("` + name[1:] + `"`).MatchString(tests):
				t.Errorf("%q: no flag %s", line, name)
			}
		}
	}

	// Files and directories, with or without something behind them.
	paths := regexp.MustCompile("`(?:go run )?(?:\\./)?((?:cmd|sample|infer|feedback|layout|internal|testdata|\\.ci)(?:/[\\w.-]+)*)[ `]").FindAllStringSubmatch(page, -1)
	if len(paths) < 25 {
		t.Errorf("%d paths found", len(paths))
	}
	for _, m := range paths {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Error(err)
		}
	}
	for name := range allowedImports() {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("the table has no package %s", name)
		}
	}
	for _, m := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(page, -1) {
		if !strings.Contains(all, "func "+m[1]+"(t *testing.T)") && !strings.Contains(testtool.Read(t, root, "internal/testtool/short_test.go"), "func "+m[1]+"(") {
			t.Errorf("there is no %s", m[1])
		}
	}
	helper := testtool.Read(t, root, "internal/testtool/testtool.go")
	for _, m := range regexp.MustCompile("`testtool\\.(\\w+)`").FindAllStringSubmatch(page, -1) {
		if !strings.Contains(helper, "func "+m[1]+"(") && !strings.Contains(helper, "func "+m[1]+"[") {
			t.Errorf("there is no testtool.%s", m[1])
		}
	}
	if !strings.Contains(testtool.Read(t, root, "README.md"), "(CONTRIBUTING.md)") {
		t.Error("README.md has no link to CONTRIBUTING.md")
	}
}
