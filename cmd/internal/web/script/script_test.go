package script

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"

	"backfeed/internal/testtool"
)

// TestBundle: the modules and the libraries make bundle.js, byte for byte. With -update it is
// written anew, as by go generate.
func TestBundle(t *testing.T) {
	got := build(t)
	const path = "bundle.js"
	if *testtool.Update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(got) != string(want) {
		t.Errorf("%s is not what its sources make (%d bytes, want %d; %v): go generate writes it", path, len(want), len(got), err)
	}
	for _, markup := range []string{"</script", "<!--", "]]>"} {
		if strings.Contains(strings.ToLower(string(got)), markup) {
			t.Errorf("%q in a page would end the script", markup)
		}
	}
	t.Logf("%d bytes", len(got))
}

// build makes the bundle of the sources.
func build(t *testing.T) []byte {
	t.Helper()
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	r := api.Build(api.BuildOptions{
		AbsWorkingDir: dir, EntryPoints: []string{"main.ts"}, Bundle: true, Format: api.FormatIIFE, Platform: api.PlatformBrowser, Target: api.ES2020,
		NodePaths: []string{filepath.Join(dir, "third_party")}, Charset: api.CharsetASCII, Metafile: true,
		MinifySyntax: true, MinifyWhitespace: true, MinifyIdentifiers: true, LegalComments: api.LegalCommentsNone,
		JSX: api.JSXAutomatic, JSXImportSource: "preact",
		Plugins:     []api.Plugin{noStyles},
		LogOverride: map[string]api.LogLevel{"ignored-bare-import": api.LogLevelSilent}, // what a library says has no side effects
		TsconfigRaw: `{}`,                                                               // tsconfig.json is for tsc: its paths are types
	})
	for _, m := range slices.Concat(r.Errors, r.Warnings) {
		t.Errorf("%+v: %s", m.Location, m.Text)
	}
	if t.Failed() {
		t.FailNow()
	}
	return append([]byte(notices(t, r.Metafile)), r.OutputFiles[0].Contents...)
}

// noStyles makes the style sheets of libraries empty: styles are those of package report.
var noStyles = api.Plugin{Name: "no styles", Setup: func(b api.PluginBuild) {
	b.OnResolve(api.OnResolveOptions{Filter: `\.css$`}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
		return api.OnResolveResult{Path: a.Path, Namespace: "style"}, nil
	})
	b.OnLoad(api.OnLoadOptions{Filter: `.*`, Namespace: "style"}, func(api.OnLoadArgs) (api.OnLoadResult, error) {
		empty := ""
		return api.OnLoadResult{Contents: &empty, Loader: api.LoaderEmpty}, nil
	})
}}

// notices is a comment with the libraries of which the bundle holds code: a page of one file
// is a copy of them.
func notices(t *testing.T, metafile string) string {
	t.Helper()
	var meta struct {
		Outputs map[string]struct {
			Inputs map[string]struct{ BytesInOutput int }
		}
	}
	if err := json.Unmarshal([]byte(metafile), &meta); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, out := range meta.Outputs {
		for file, in := range out.Inputs {
			name := library.FindString(file)
			if name == "" || in.BytesInOutput == 0 {
				continue
			}
			if line := credit(t, name); !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	slices.Sort(lines)
	return "/*! Of backfeed, Apache-2.0, with code of\n" + strings.Join(lines, "") + "Their licences are in its THIRD_PARTY.txt. */\n"
}

var (
	library   = regexp.MustCompile(`^third_party/(@[^/]+/)?[^/]+`)
	copyright = regexp.MustCompile(`(?im)^\W*(copyright (?:\(c\) )?[\d].*)$`)
)

// credit is a library, its version, its licence, and whose it is.
func credit(t *testing.T, dir string) string {
	t.Helper()
	var p struct {
		Name, Version, License string
		Author                 any
	}
	if err := json.Unmarshal([]byte(testtool.Read(t, dir, "package.json")), &p); err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "[Ll][Ii][Cc][Ee][Nn][Ss][Ee]*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%s: licences %q, %v", dir, files, err)
	}
	owner := ""
	if m := copyright.FindStringSubmatch(testtool.Read(t, files[0])); m != nil {
		owner = "; " + strings.TrimSpace(m[1])
	}
	return fmt.Sprintf("%s %s, %s%s\n", p.Name, p.Version, p.License, owner)
}

// TestTypes: the compiler of TypeScript has nothing to say of the modules; esbuild drops types
// unread.
func TestTypes(t *testing.T) {
	testtool.Run(t, ".", "tsc", "--project", ".")
}
