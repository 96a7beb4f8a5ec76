package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"backfeed/infer/document"
	"backfeed/internal/testtool"
)

// schemaName is how the code, and the page, name a document.
var schemaName = regexp.MustCompile(`\bbackfeed\.[a-z][a-z.-]*/[0-9]+`)

// TestDocumentsListed: help/json.md lists the documents that commands print, in the
// versions that they have, and no others.
func TestDocumentsListed(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../internal/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	printed := map[string]bool{document.Schema: true}
	for _, file := range append(files, more...) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, name := range schemaName.FindAllString(testtool.Read(t, file), -1) {
			printed[name] = true
		}
	}
	page, err := os.ReadFile("help/json.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(page), "## Documents")
	list, _, _ = strings.Cut(list, "## ")
	listed := schemaName.FindAllString(list, -1)
	for name := range printed {
		if !slices.Contains(listed, name) {
			t.Errorf("help/json.md does not list %s", name)
		}
	}
	for _, name := range listed {
		if !printed[name] {
			t.Errorf("no command prints %s, which help/json.md lists", name)
		}
	}
	if len(listed) < 20 {
		t.Errorf("only %d documents found", len(listed))
	}
}

// TestProcedureNames: all commands call a procedure of C++ as its source does, or with
// --mangled as the linker does, JSON has both, and both find it.
func TestProcedureNames(t *testing.T) {
	const linker, plain = "_Z5ackerv", "acker" // of the same length as the name in the file
	dir := t.TempDir()
	program := []byte(testtool.Read(t, filepath.Join(mixDir, "mix")))
	if !bytes.Contains(program, []byte("\x00ackermann\x00")) {
		t.Fatal("mix has no ackermann")
	}
	testtool.Put(t, filepath.Join(dir, "mix"), bytes.ReplaceAll(program, []byte("\x00ackermann\x00"), []byte("\x00"+linker+"\x00")))
	path, symfs := filepath.Join(mixDir, "samples.bfr"), "--symfs="+dir
	for _, args := range [][]string{
		{"prof"}, {"prof", "--all-events"}, {"prof", "--experiment", "ideal"}, {"prof", "--experiment", "ideal", "--inclusive"}, {"topstalls", "-n", "0"}, {"infer"}, {"infer", "--places", "99"},
		{"whatcg", "--proc", linker}, {"whatcg", "--proc", plain}, {"stats", path}, {"verdict", path}, {"diff", path}, {"diff", path, "--proc", linker}, {"diff", path, "--proc", plain},
		{"layout", "/opt/mix/mix", "--for"}, {"list", linker}, {"list", plain},
	} {
		text, format := []string{path, symfs}, []string{path, symfs, "--format", "json"}
		if args[0] == "layout" {
			text, format = []string{"text", path, symfs}, []string{"json", path, symfs}
		}
		out := must(t, append(slices.Clone(args), text...)...)
		if !strings.Contains(out, plain) || strings.Contains(out, linker) {
			t.Errorf("%q: want %s, and not %s:\n%s", args, plain, linker, out)
		}
		if out := must(t, append(append(slices.Clone(args), text...), "--mangled")...); !strings.Contains(out, linker) {
			t.Errorf("%q --mangled: want %s:\n%s", args, linker, out)
		}
		var doc any
		if err := json.Unmarshal([]byte(must(t, append(slices.Clone(args), format...)...)), &doc); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		top, _ := doc.(map[string]any)
		if schema, _ := top["schema"].(string); !schemaName.MatchString(schema) {
			t.Errorf("%q: schema %q", args, schema)
		}
		if code, _, errs := runCLI(t, append(append(slices.Clone(args), format...), "--mangled")...); code != exitUsage || !strings.Contains(errs, "both names") {
			t.Errorf("%q: --mangled with JSON: exit code %d: %s", args, code, errs)
		}
		if at := numberInString("", doc); at != "" {
			t.Errorf("%q: a number is text: %s", args, at)
		}
		if !namesBoth(doc, plain, linker) {
			t.Errorf("%q: JSON does not have the procedure by both names", args)
		}
	}
}

// namesBoth reports whether an object somewhere in doc has both names of a procedure.
func namesBoth(doc any, plain, linker string) bool {
	switch v := doc.(type) {
	case map[string]any:
		if v["procedure"] == plain && v["mangled"] == linker {
			return true
		}
		for _, inner := range v {
			if namesBoth(inner, plain, linker) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(inner any) bool { return namesBoth(inner, plain, linker) })
	}
	return false
}

// numberInString says where in doc a number is a string; "" if nowhere. Addresses are strings.
func numberInString(at string, doc any) string {
	switch v := doc.(type) {
	case map[string]any:
		for key, inner := range v {
			if found := numberInString(at+"."+key, inner); found != "" {
				return found
			}
		}
	case []any:
		for _, inner := range v {
			if found := numberInString(at+"[]", inner); found != "" {
				return found
			}
		}
	case string:
		if regexp.MustCompile(`^[<>~-]?[0-9][0-9.,]*[kMGT]? ?%?$`).MatchString(v) && !strings.HasSuffix(at, ".build_id") {
			return at + ": " + v
		}
	}
	return ""
}
