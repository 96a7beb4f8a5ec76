package sets

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestTable: the programs of testdata/programs/make.sh have names of their own, and what their commands read is
// made there, in inputs.sh, or kept in this tree.
func TestTable(t *testing.T) {
	b, err := os.ReadFile("../programs/make.sh")
	if err != nil {
		t.Fatal(err)
	}
	inputs, err := os.ReadFile("../programs/inputs.sh")
	if err != nil {
		t.Fatal(err)
	}
	script := string(b) + string(inputs)
	_, rest, _ := strings.Cut(script, "\ntable() {\n\tcat <<END\n")
	table, _, ok := strings.Cut(rest, "\nEND\n}\n")
	if !ok {
		t.Fatal("no table in it")
	}
	debian := regexp.MustCompile(`^(-|[a-z0-9][a-z0-9.+-]+)$`)
	goPackage := regexp.MustCompile(`^(\./[\w/]+|cmd/\w+|[\w.-]+\.\w+/[\w./-]+@v\d+\.\d+\.\d+)$`)
	file := regexp.MustCompile(`\$(work|root|here)/([\w./-]+)`)
	seen := map[string]bool{}
	kinds := map[string]int{}
	for _, line := range strings.Split(table, "\n") {
		f := strings.Fields(line)
		if len(f) < 4 {
			t.Errorf("%q: want name, package, runs and command", line)
			continue
		}
		name, pkg := f[0], f[1]
		if seen[name] || !regexp.MustCompile(`^[a-z0-9]+$`).MatchString(name) {
			t.Errorf("%s: met twice, or no name of a directory", name)
		}
		seen[name] = true
		if runs, err := strconv.Atoi(f[2]); err != nil || runs < 1 || runs > 1000 {
			t.Errorf("%s: %s runs; want 1 to 1000", name, f[2])
		}
		isGo := goPackage.MatchString(pkg)
		switch {
		case isGo:
			kinds["Go"]++
		case pkg == "-":
			kinds["constructed"]++
		case debian.MatchString(pkg):
			kinds["Debian"]++
		default:
			t.Errorf("%s: %s is neither a package of Debian nor one of Go with its version", name, pkg)
		}
		for i, m := range file.FindAllStringSubmatch(line, -1) {
			at := map[string]string{"root": "../..", "here": "../programs"}[m[1]]
			switch {
			case m[1] == "work" && isGo && i == 0: // built
			case m[1] == "work":
				if !strings.Contains(script, `>"$work/`+m[2]+`"`) && !strings.Contains(script, `-o "$work/`+m[2]+`"`) && !strings.HasPrefix(m[2], "out") {
					t.Errorf("%s: nothing makes %s", name, m[0])
				}
			default:
				if _, err := os.Stat(filepath.Join(at, m[2])); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
	if kinds["constructed"] < 14 || kinds["Go"] < 6 || kinds["Debian"] < 40 {
		t.Errorf("programs: %v", kinds)
	}
	t.Log(kinds)
}
