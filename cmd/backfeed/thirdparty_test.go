package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestThirdParty: THIRD_PARTY.txt has each module that is linked into the program, at its version, and
// the text of each licence and notice that lies above one of its linked packages; and the same of the
// libraries that the scripts of pages are made with. With -update it is written anew. All comes from the
// module cache and this repository.
func TestThirdParty(t *testing.T) {
	testtool.Need(t, "go")
	got := thirdParty(t)
	const path = "../../THIRD_PARTY.txt"
	if *testtool.Update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the modules have (%v): go test ./cmd/backfeed -run TestThirdParty -update writes it", path, err)
	}
}

// A linked is a module of which packages are linked, and its files that say how.
type linked struct {
	path, version, dir string
	notices            []string // relative to dir
}

// notice matches names of files that a binary's users are to be given.
var notice = regexp.MustCompile(`(?i)^(licen[cs]e|notice|copying|patents)(\..*)?$`)

func thirdParty(t *testing.T) []byte {
	t.Helper()
	modules := map[string]*linked{}
	for _, system := range []string{"linux", "darwin"} {
		for _, p := range packagesOf(t, system) {
			if p.Module == nil || p.Module.Main {
				continue
			}
			m := modules[p.Module.Path]
			if m == nil {
				m = &linked{path: p.Module.Path, version: p.Module.Version, dir: p.Module.Dir}
				modules[m.path] = m
			}
			m.add(t, p.Dir)
		}
	}
	goroot, err := testtool.Command(t, "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	std := &linked{path: "the Go standard library and runtime", dir: strings.TrimSpace(string(goroot))}
	std.add(t, std.dir)
	all := []*linked{std}
	for _, m := range modules {
		all = append(all, m)
	}
	for _, m := range scriptLibraries(t) {
		all = append(all, m)
	}
	slices.SortFunc(all[1:], func(a, b *linked) int { return strings.Compare(a.path, b.path) })

	var b bytes.Buffer
	fmt.Fprint(&b, "backfeed's binary holds code of the modules below, and its pages of those of npm. Each stands with the texts of its licences and notices.\n\n")
	for _, m := range all {
		fmt.Fprintf(&b, "%s\n", strings.TrimSpace(m.path+" "+m.version))
	}
	for _, m := range all {
		if len(m.notices) == 0 {
			t.Errorf("%s has no licence", m.path)
		}
		slices.Sort(m.notices)
		for _, file := range m.notices {
			text, err := os.ReadFile(filepath.Join(m.dir, file))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("-", 100), m.path, file, bytes.TrimSpace(bytes.ReplaceAll(text, []byte("\r"), nil)))
		}
	}
	return b.Bytes()
}

// scriptLibraries are the libraries of npm that are kept for the scripts of pages.
func scriptLibraries(t *testing.T) (all []*linked) {
	t.Helper()
	const dir = "../../cmd/internal/web/script/third_party"
	files, err := filepath.Glob(dir + "/*/package.json")
	scoped, err2 := filepath.Glob(dir + "/@*/*/package.json")
	if err := errors.Join(err, err2); err != nil || len(files) == 0 || len(scoped) == 0 {
		t.Fatalf("no libraries in %s: %v", dir, err)
	}
	for _, f := range append(files, scoped...) {
		var p struct{ Name, Version string }
		if err := json.Unmarshal([]byte(testtool.Read(t, f)), &p); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		m := &linked{path: "npm: " + p.Name, version: p.Version, dir: filepath.Dir(f)}
		m.add(t, m.dir)
		all = append(all, m)
	}
	return all
}

// add adds the notices in dir, and in what it is in, up to the module's own directory.
func (m *linked) add(t *testing.T, dir string) {
	t.Helper()
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			rel, err := filepath.Rel(m.dir, filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			if e.Type().IsRegular() && notice.MatchString(e.Name()) && filepath.Ext(e.Name()) != ".go" && !slices.Contains(m.notices, rel) {
				m.notices = append(m.notices, rel)
			}
		}
		if dir == m.dir || len(dir) <= len(m.dir) {
			return
		}
		dir = filepath.Dir(dir)
	}
}

type goPackage struct {
	Dir    string
	Module *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// packagesOf lists what the program is linked of on a system.
func packagesOf(t *testing.T, system string) (all []goPackage) {
	t.Helper()
	cmd := testtool.Command(t, "go", "list", "-deps", "-json=Dir,Module", ".")
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0", "GOPROXY=off", "GOFLAGS=-mod=readonly")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &errs)
	}
	d := json.NewDecoder(bytes.NewReader(out))
	for {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// TestLicences: all of the kernel's side says that it may be used under the GPL, too, whose text is here;
// nothing else says so.
func TestLicences(t *testing.T) {
	const line = "// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0\n"
	files, err := filepath.Glob("../../sample/collect/bpf/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sources of the kernel's side: %v", err)
	}
	for _, f := range files {
		if !strings.HasPrefix(testtool.Read(t, f), line) {
			t.Errorf("%s does not begin with %q", f, line)
		}
	}
	if !strings.Contains(testtool.Read(t, "../../LICENSES/GPL-2.0-only.txt"), "GNU GENERAL PUBLIC LICENSE\n                       Version 2, June 1991") {
		t.Error("LICENSES/GPL-2.0-only.txt is something else")
	}
	if !strings.Contains(testtool.Read(t, "../../LICENSE"), "Apache License") {
		t.Error("LICENSE is something else")
	}
}
