package main

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The two lines of the import rules. Data flows to the right: a package may
// import any that stands further left on one of its lines; names joined by a
// comma never import each other.
var lines = []string{
	"sample/wire, sample/bound <- sample <- sample/kernel, sample/trace, sample/unwind <- sample/probe, sample/replay <- sample/collect, sample/otlp, sample/perfdata, sample/store/s3 <- sample/store <- cmd/internal/report <- cmd/internal/fetch <- cmd/internal/input <- cmd/internal/calibrate, cmd/internal/emit, cmd/internal/section, cmd/internal/verdict <- cmd/internal/doctor, cmd/internal/record, cmd/internal/refresh, cmd/internal/web <- cmd/internal/optimize <- cmd/internal/agent, cmd/internal/demo <- cmd/internal/receive <- cmd/backfeed",
	"sample/wire, sample/bound <- sample <- sample/trace, sample/unwind <- sample/probe <- infer/image <- infer/document, infer/machine, infer/source, infer/stale <- infer/truth <- infer <- infer/explain, feedback/gcov <- feedback, feedback/gate, infer/compare, layout, cmd/internal/web/script <- cmd/internal/report <- cmd/internal/fail, cmd/internal/fetch, cmd/internal/prose <- cmd/internal/flagset, cmd/internal/forge, cmd/internal/input, cmd/internal/listen, cmd/internal/output, cmd/internal/terminal <- cmd/internal/calibrate, cmd/internal/emit, cmd/internal/section, cmd/internal/verdict <- cmd/internal/doctor, cmd/internal/record, cmd/internal/refresh, cmd/internal/web <- cmd/internal/optimize <- cmd/internal/agent, cmd/internal/demo <- cmd/internal/receive <- cmd/backfeed",
}

// Outside packages and the only places that may import them.
var homes = map[string][]string{
	"github.com/cilium/ebpf":                   {"sample/collect"},
	"golang.org/x/sys":                         {"sample/collect", "cmd/internal/output", "infer/source", "cmd/backfeed (test)"}, // what is sampled; files by descriptor; file systems of the kernel
	"github.com/klauspost/compress":            {"sample/otlp", "sample/perfdata", "sample/store"},
	"github.com/minio/minio-go":                {"sample/store/s3"},
	"github.com/johannesboyne/gofakes3":        {"sample/store (test)", "cmd/internal/agent (test)", "cmd/backfeed (test)"}, // a bucket for tests
	"go.etcd.io/bbolt":                         {"sample/store"},
	"go.opentelemetry.io/collector/pdata":      {"sample/otlp (test)", "cmd/internal/receive (test)"}, // what our decoder is held to
	"google.golang.org/grpc":                   {"cmd/internal/receive (test)"},                       // a client
	"github.com/google/pprof":                  {"sample", "feedback", "cmd/internal/web", "cmd/backfeed (test)", "cmd/internal/verdict (test)", "infer/image (test)"},
	"golang.org/x/arch":                        {"infer/image"},
	"github.com/ianlancetaylor/demangle":       {"infer/image"},
	"golang.org/x/perf":                        {"cmd/internal/verdict"},                                                                                                                                               // results of benchmarks
	"gopkg.in/yaml.v3":                         {"infer/machine", "cmd/internal/flagset", "cmd/internal/section", "cmd/internal/refresh", "cmd/internal/optimize", "cmd/internal/forge (test)", "cmd/backfeed (test)"}, // models; flags in a file; targets; manifests
	"go.starlark.net":                          {"cmd/backfeed (test)"},                                                                                                                                                // Bazel's language
	"github.com/spf13/cobra":                   {"cmd/backfeed"},
	"github.com/spf13/pflag":                   {"cmd/internal/flagset", "cmd/backfeed"}, // sets there; which flags a command has here
	"github.com/cpuguy83/go-md2man":            {"cmd/backfeed"},                         // pages for man
	"github.com/santhosh-tekuri/jsonschema/v6": {"internal/testtool"},
	"github.com/evanw/esbuild":                 {"cmd/internal/web/script (test)"}, // makes the bundle of scripts; no part of the program
}

// helpers are what any test may use: programs of others and golden files, programs of other processors,
// recorded programs, and small files.
var helpers = []string{"internal/testtool", "testdata/qemu", "testdata/sets", "testdata/tiny"}

// module is the first element of our own import paths.
const module = "backfeed"

// TestImports holds every file of the module, for every platform, to the lines
// and homes above.
func TestImports(t *testing.T) {
	allowed := allowedImports()
	for _, file := range goFiles(t) {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, spec := range f.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if err := checkImport(file, path, allowed); err != nil {
				t.Error(err)
			}
		}
	}
}

// checkImport reports what is wrong with one import of one file.
func checkImport(file, path string, allowed map[string][]string) error {
	from := filepath.ToSlash(filepath.Dir(file))
	test := strings.HasSuffix(file, "_test.go")
	if own, ok := strings.CutPrefix(path, module+"/"); ok {
		known, ok := allowed[from]
		if !ok {
			return fmt.Errorf("%s: package %s is on neither line", file, from)
		}
		if !slices.Contains(known, own) && !(test && (own == from || slices.Contains(helpers, own))) {
			return fmt.Errorf("%s: imports %s, which does not stand left of it", file, own)
		}
		return nil
	}
	if !strings.Contains(strings.Split(path, "/")[0], ".") {
		return nil // the standard library
	}
	for prefix, home := range homes {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			if slices.Contains(home, from) || test && slices.Contains(home, from+" (test)") {
				return nil
			}
			return fmt.Errorf("%s: imports %s, whose home is %s", file, path, strings.Join(home, ", "))
		}
	}
	return fmt.Errorf("%s: imports %s, which has no home", file, path)
}

// allowedImports works out what each package may import.
func allowedImports() map[string][]string {
	allowed := map[string][]string{}
	for _, line := range lines {
		var left []string
		for _, group := range strings.Split(line, " <- ") {
			names := strings.Split(group, ", ")
			for _, name := range names {
				allowed[name] = append(allowed[name], left...)
			}
			left = append(left, names...)
		}
	}
	for _, name := range append([]string{"internal/release"}, helpers...) { // which nothing of the product knows, nor they it
		allowed[name] = nil
	}
	return allowed
}

// TestCheckImport shows that the rules can be broken.
func TestCheckImport(t *testing.T) {
	allowed := allowedImports()
	for _, tt := range []struct {
		file, path string
		ok         bool
	}{
		{"infer/infer.go", "backfeed/sample", true},
		{"infer/infer.go", "backfeed/infer/image", true},
		{"infer/image/elf.go", "backfeed/infer", false},
		{"infer/stale/carry.go", "backfeed/infer/image", true},
		{"infer/stale/carry.go", "backfeed/infer", false},
		{"feedback/go.go", "backfeed/layout", false},
		{"infer/infer.go", "backfeed/sample/perfdata", false},
		{"sample/collect/record.go", "backfeed/sample", true},
		{"sample/collect/record.go", "backfeed/infer/image", false},
		{"sample/collect/record.go", "backfeed/sample/trace", true},
		{"sample/trace/code.go", "backfeed/sample/collect", false},
		{"infer/image/walk.go", "backfeed/sample/trace", true},
		{"cmd/internal/input/read.go", "backfeed/sample/perfdata", true},
		{"cmd/internal/report/table.go", "backfeed/cmd/internal/input", false},
		{"infer/a_test.go", "backfeed/infer", true},
		{"infer/a_test.go", "backfeed/testdata/qemu", true},
		{"infer/infer.go", "backfeed/testdata/qemu", false},
		{"sample/a_test.go", "backfeed/internal/testtool", true},
		{"infer/infer.go", "backfeed/internal/testtool", false},
		{"internal/testtool/testtool.go", "backfeed/sample", false},
		{"internal/release/main.go", "backfeed/sample", false},
		{"cmd/backfeed/main.go", "backfeed/internal/release", false},
		{"util/a.go", "backfeed/sample", false},
		{"infer/infer.go", "fmt", true},
		{"infer/infer.go", "golang.org/x/arch/x86/x86asm", false},
		{"infer/image/x86.go", "golang.org/x/arch/x86/x86asm", true},
		{"internal/testtool/schema.go", "github.com/santhosh-tekuri/jsonschema/v6", true},
		{"infer/document/schema.go", "github.com/santhosh-tekuri/jsonschema/v6", false},
		{"infer/infer.go", "example.com/unheard/of", false},
	} {
		if err := checkImport(tt.file, tt.path, allowed); (err == nil) != tt.ok {
			t.Errorf("%s imports %s: %v", tt.file, tt.path, err)
		}
	}
}

// root is the top of the repository, seen from this package.
const root = "../.."

// goFiles lists the module's Go files, those of testdata left out as the go
// command does.
func goFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (name == "testdata" || name == "vendor" || name[0] == '.' || name[0] == '_') {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(name, ".go") {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no Go files found")
	}
	return files
}

// TestCommandTable: the topic commands, help and the table of commands agree, and every
// command explains itself.
func TestCommandTable(t *testing.T) {
	page, _ := topic("commands")
	_, section, ok := strings.Cut(page, "\n## Commands\n")
	if !ok {
		t.Fatal("help/commands.md has no section Commands")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []string
	for _, line := range strings.Split(section, "\n") {
		// | `emit go\|llvm SRC...` | writes a profile |
		if cell, ok := strings.CutPrefix(line, "| `"); ok {
			synopsis, _, _ := strings.Cut(cell, "` |")
			rows = append(rows, strings.ReplaceAll(synopsis, `\|`, "|"))
		}
	}
	var want []string
	for _, cmd := range commands {
		want = append(want, strings.TrimSpace(cmd.name+" "+cmd.args))
	}
	if !slices.Equal(rows, want) {
		t.Errorf("the table in help/commands.md and the commands differ:\ntopic    %q\ncommands %q", rows, want)
	}

	_, help, _ := runCLI(t, "help")
	filled := strings.Join(strings.Fields(help), " ")
	for _, cmd := range commands {
		if !strings.Contains(help, "\n  "+cmd.name+" ") || !strings.Contains(filled, cmd.name+" "+cmd.short) {
			t.Errorf("`backfeed help` does not list %s", cmd.name)
		}
		code, own, errs := runCLI(t, "help", cmd.name)
		if code != 0 || errs != "" || !strings.Contains(strings.Join(strings.Fields(own), " "), "Usage: "+cmd.synopsis()) {
			t.Errorf("`backfeed help %s`: exit code %d, %q, printed %q", cmd.name, code, errs, own)
		}
	}
}

// runCLI runs the program in this process and returns its exit code and outputs.
func runCLI(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}
