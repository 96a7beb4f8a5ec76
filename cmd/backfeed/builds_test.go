package main

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
	starjson "go.starlark.net/lib/json"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"

	"backfeed/internal/testtool"
)

// mixProfile writes a profile of testdata/mix.
func mixProfile(t *testing.T, format, file string) {
	t.Helper()
	dir := filepath.Join(root, "testdata/mix")
	if code, _, errs := runCLI(t, "emit", format, filepath.Join(dir, "samples.bfr"), "--symfs", dir, "-o", file); code != 0 {
		t.Fatal(errs)
	}
}

// code returns the machine code of a program.
func code(t *testing.T, file string) []byte {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := f.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// integrate copies a piece of integrations into a new source tree with mix.c.
func integrate(t *testing.T, piece, to string, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for from, to := range map[string]string{"integrations/" + piece: to, "testdata/mix/mix.c": "mix.c"} {
		b, err := os.ReadFile(filepath.Join(root, from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o755); err != nil {
			t.Fatal(err)
		}
		testtool.Write(t, dir, to, b)
	}
	for name, text := range files {
		testtool.Write(t, dir, name, []byte(text))
	}
	return dir
}

// TestBuilds: with each of the pieces, a build without a profile works; one with a profile is
// another; the same again does nothing; a profile that changed is built with.
func TestBuilds(t *testing.T) {
	t.Parallel() // it builds, and samples nothing
	for _, tool := range []struct {
		name, piece, to string
		needs           []string
		files           map[string]string
		steps           [][]string // the first time; of each other time those but the first
		program         string
	}{
		{"cmake", "cmake/backfeed.cmake", "cmake/backfeed.cmake", []string{"cmake", "ninja"},
			map[string]string{"CMakeLists.txt": "cmake_minimum_required(VERSION 3.19)\nproject(app C)\ninclude(cmake/backfeed.cmake)\nadd_executable(app mix.c)\nbackfeed_profile(app app.prof)\n"},
			[][]string{{"true"}, {"cmake", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-S", ".", "-B", "build"}, {"cmake", "--build", "build", "--verbose"}}, "build/app"},
		{"meson", "meson/meson.build", "backfeed/meson.build", []string{"meson", "ninja"},
			map[string]string{"meson.build": "project('app', 'c', default_options: ['optimization=2'])\nbackfeed_profiles = {'app': 'app.prof'}\nsubdir('backfeed')\nexecutable('app', 'mix.c', dependencies: backfeed['app'])\n"},
			[][]string{{"meson", "setup", "build"}, {"meson", "setup", "--reconfigure", "build"}, {"ninja", "-v", "-C", "build"}}, "build/app"},
		{"make", "make/backfeed.mk", "backfeed.mk", []string{"make"},
			map[string]string{"Makefile": "CFLAGS = -O2\napp: mix.o\n\t$(CC) -o $@ $^\ninclude backfeed.mk\n$(eval $(call backfeed_profile,app.prof,mix.o))\n"},
			[][]string{{"true"}, {"make", "app"}}, "app"},
		{"make, first of all", "make/backfeed.mk", "backfeed.mk", []string{"make"}, // the compiler comes later, and the goal is still the program
			map[string]string{"Makefile": "include backfeed.mk\n$(eval $(call backfeed_profile,app.prof,mix.o))\nCFLAGS = -O2\nCC = $(APP_CC)\napp: mix.o\n\t$(CC) -o $@ $^\n"},
			[][]string{{"true"}, {"make"}}, "app"},
	} {
		for _, cc := range []struct{ name, format, flag string }{{"clang-19", "llvm", "-fprofile-sample-use="}, {"gcc", "gcc", "-fauto-profile="}} {
			t.Run(tool.name+" "+cc.name, func(t *testing.T) {
				t.Parallel()
				testtool.Need(t, append(tool.needs, cc.name)...)
				dir := integrate(t, tool.piece, tool.to, tool.files)
				first := true
				build := func() string {
					t.Helper()
					var log strings.Builder
					for i, args := range tool.steps {
						if i == 0 && !first {
							continue
						}
						cmd := exec.Command(args[0], args[1:]...)
						cmd.Dir, cmd.Env = dir, append(os.Environ(), "CC="+cc.name, "APP_CC="+cc.name)
						if tool.name == "make" {
							cmd.Args = append(cmd.Args, "CC="+cc.name)
						}
						out, err := cmd.CombinedOutput()
						if err != nil {
							t.Fatalf("%q: %v\n%s", args, err, out)
						}
						log.Write(out)
					}
					first = false
					return log.String()
				}
				program, file := filepath.Join(dir, tool.program), filepath.Join(dir, "app.prof")
				if log := build(); strings.Contains(log, cc.flag) {
					t.Errorf("built with a profile that is not there:\n%s", log)
				}
				without := code(t, program)
				mixProfile(t, cc.format, file)
				if log := build(); !strings.Contains(log, cc.flag) {
					t.Errorf("built without the profile:\n%s", log)
				}
				with := code(t, program)
				if bytes.Equal(with, without) {
					t.Error("the profile changes no machine code")
				}
				if log := build(); strings.Contains(log, cc.flag) {
					t.Errorf("built again though nothing changed:\n%s", log)
				}
				if cc.format == "llvm" { // of gcc's format only a whole file is one
					testtool.Write(t, dir, "app.prof", []byte("main:1:1\n 1: 1\n"))
					if log := build(); !strings.Contains(log, cc.flag) || bytes.Equal(code(t, program), with) {
						t.Errorf("not built again though the profile changed:\n%s", log)
					}
				}
			})
		}
	}
}

// TestBuildsLock: a path with {hash} is that of the lock that refresh wrote, and goes on being it
// when another profile has another name.
func TestBuildsLock(t *testing.T) {
	testtool.Need(t, "cmake", "ninja", "clang-19")
	dir := integrate(t, "cmake/backfeed.cmake", "backfeed.cmake", map[string]string{
		"CMakeLists.txt": "cmake_minimum_required(VERSION 3.19)\nproject(app C)\ninclude(backfeed.cmake)\nadd_executable(app mix.c)\nbackfeed_profile(app prof/app.{hash}.prof)\n",
	})
	image, err := filepath.Abs(filepath.Join(root, "testdata/mix/mix"))
	if err != nil {
		t.Fatal(err)
	}
	used := func() string {
		t.Helper()
		log := testtool.Run(t, dir, "cmake", "-G", "Ninja", "-DCMAKE_C_COMPILER=clang-19", "-S", ".", "-B", "build") + testtool.Run(t, dir, "cmake", "--build", "build", "--verbose")
		_, after, _ := strings.Cut(log, "-fprofile-sample-use=")
		file, _, _ := strings.Cut(after, " ")
		return file
	}
	if file := used(); file != "" {
		t.Errorf("%s without a lock", file)
	}
	var last string
	for _, format := range []string{"text", "extbinary"} {
		if last != "" { // what is there stays, in whatever form
			if err := errors.Join(os.Remove(last), os.Remove(filepath.Join(dir, "backfeed.lock"))); err != nil {
				t.Fatal(err)
			}
		}
		testtool.Write(t, dir, "backfeed.yaml", []byte("refresh:\n  targets:\n    app:\n      sources: ["+filepath.Dir(image)+"/samples.bfr]\n      image: "+image+
			"\n      limits: {min-samples: 100}\n      outputs:\n        - llvm: prof/app.{hash}.prof\n          format: "+format+"\n"))
		if code, _, errs := runCLI(t, "refresh", "--config", filepath.Join(dir, "backfeed.yaml")); code != 0 {
			t.Fatal(errs)
		}
		files, err := filepath.Glob(filepath.Join(dir, "prof/app.*.prof"))
		if err != nil || len(files) != 1 || files[0] == last {
			t.Fatalf("refresh left %q, after %q", files, last)
		}
		if last = files[0]; used() != last {
			t.Errorf("not built with %s", last)
		}
	}
	lock, err := os.ReadFile(filepath.Join(dir, "backfeed.lock"))
	if err != nil {
		t.Fatal(err)
	}
	log, err := bazelFetch(t, string(lock))
	if want := fmt.Sprintf("%q", "file:///src/prof/"+filepath.Base(last)); err != nil || !strings.Contains(log, want) || !strings.Contains(log, "app_llvm.afdo") {
		t.Errorf("%v: want %s in\n%s", err, want, log)
	}
}

// lockOf is a lock with one output.
func lockOf(t *testing.T, content []byte, path, format, name, store string) string {
	t.Helper()
	b, err := json.Marshal(map[string]any{"schema": "backfeed.lock/1", "outputs": []map[string]any{{
		"path": path, "target": "app", "format": format, "sha256": fmt.Sprintf("%x", sha256.Sum256(content)), "bytes": len(content), "name": name, "store": store,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestBuildsCargo: both crates of a workspace are compiled with the profile, and again when it
// changes.
func TestBuildsCargo(t *testing.T) {
	testtool.Need(t, "cargo", "rustc")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Cargo.toml":      "[workspace]\nmembers = [\"app\", \"lib\"]\nresolver = \"2\"\n",
		"app/Cargo.toml":  "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nlib = { path = \"../lib\" }\n",
		"app/src/main.rs": "fn main() {\n    println!(\"{}\", lib::hot(std::env::args().count() as u64));\n}\n",
		"lib/Cargo.toml":  "[package]\nname = \"lib\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
		"lib/src/lib.rs":  "#[no_mangle]\n#[inline(never)]\npub extern \"C\" fn hot(n: u64) -> u64 {\n    let mut s = 0;\n    for i in 0..n * 1000 {\n        if i % 7 == 3 {\n            s ^= i * n;\n        }\n    }\n    s\n}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		testtool.Write(t, dir, name, []byte(text))
	}
	script, err := filepath.Abs(filepath.Join(root, "integrations/cargo/cargo-backfeed.sh"))
	if err != nil {
		t.Fatal(err)
	}
	build := func() string {
		t.Helper()
		cmd := exec.Command("sh", script, "prof/app.prof", "build", "--release", "--offline", "-v")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CARGO_TARGET_DIR="+filepath.Join(dir, "target"), "RUSTFLAGS=-Cremark=sample-profile")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	const use = "-Zprofile-sample-use="
	log := build()
	if strings.Contains(log, use) || !strings.Contains(log, "Running `") {
		t.Errorf("without a profile:\n%s", log)
	}
	if !strings.Contains(log, "debuginfo=1") && !strings.Contains(log, "debuginfo=limited") || strings.Contains(log, "strip=") {
		t.Errorf("what a manifest that says nothing of it is built with has no lines for the next recording:\n%s", log)
	}
	if err := os.Mkdir(filepath.Join(dir, "prof"), 0o755); err != nil { // the first build has no such directory
		t.Fatal(err)
	}
	testtool.Write(t, dir, "prof/app.prof", []byte("hot:6000:10\n 1: 10\n 2: 3000\n 3: 3000\n 4: 400\n"))
	log = build()
	if n := strings.Count(log, use+dir+"/prof/app.prof"); n < 2 || !strings.Contains(log, "lib/src/lib.rs:5:5 sample-profile (success)") {
		t.Errorf("%d crates were compiled with the profile:\n%s", n, log)
	}
	if log := build(); strings.Contains(log, use) {
		t.Errorf("compiled again though nothing changed:\n%s", log)
	}
	testtool.Write(t, dir, "prof/app.prof", []byte("hot:60:10\n 1: 10\n 2: 30\n"))
	if log := build(); !strings.Contains(log, use) {
		t.Errorf("not compiled again though the profile changed:\n%s", log)
	}
}

// TestBuildsCaches: which caches see that a profile changed at its path.
func TestBuildsCaches(t *testing.T) {
	testtool.Need(t, "ccache", "clang-19")
	dir := t.TempDir()
	b, err := os.ReadFile(filepath.Join(root, "testdata/mix/mix.c"))
	if err != nil {
		t.Fatal(err)
	}
	testtool.Write(t, dir, "mix.c", b)
	mixProfile(t, "llvm", filepath.Join(dir, "app.prof"))
	compile := func() []byte {
		t.Helper()
		cmd := testtool.Command(t, "ccache", "clang-19", "-O2", "-fprofile-sample-use=app.prof", "-c", "mix.c", "-o", "mix.o")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CCACHE_DIR="+filepath.Join(dir, "cache"), "CCACHE_NODIRECT=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return code(t, filepath.Join(dir, "mix.o"))
	}
	with := compile()
	if !bytes.Equal(compile(), with) {
		t.Error("not the same twice")
	}
	testtool.Write(t, dir, "app.prof", []byte("main:1:1\n 1: 1\n"))
	if bytes.Equal(compile(), with) {
		t.Error("ccache hands out what another profile made")
	}
}

// TestBuildsPreprofile: Go's compiler takes the text of `go tool preprofile` where rules_go hands
// it the file of pgoprofile.
func TestBuildsPreprofile(t *testing.T) {
	testtool.Need(t, "go")
	dir := t.TempDir()
	testtool.Write(t, dir, "go.mod", []byte("module app\n\ngo 1.26\n"))
	testtool.Write(t, dir, "main.go", []byte("package main\n\nfunc main() {\n\tn := 0\n\tfor i := range 10 {\n\t\tn += hot(i)\n\t}\n\tprintln(n)\n}\n\nfunc hot(i int) int { return i * i }\n"))
	fns := []*profile.Function{{ID: 1, Name: "main.hot", SystemName: "main.hot", Filename: "main.go", StartLine: 11}, {ID: 2, Name: "main.main", SystemName: "main.main", Filename: "main.go", StartLine: 3}}
	locs := []*profile.Location{{ID: 1, Line: []profile.Line{{Function: fns[0], Line: 11}}}, {ID: 2, Line: []profile.Line{{Function: fns[1], Line: 6}}}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		Function:   fns, Location: locs, Sample: []*profile.Sample{{Location: locs, Value: []int64{1000, 1000}}},
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	testtool.Write(t, dir, "default.pprof", b.Bytes())
	testtool.Run(t, dir, "go", "tool", "preprofile", "-i", "default.pprof", "-o", "default.txt")
	text, err := os.ReadFile(filepath.Join(dir, "default.txt"))
	if err != nil || !strings.HasPrefix(string(text), "GO PREPROFILE V1\nmain.main\nmain.hot\n") {
		t.Fatalf("%v: %q", err, text)
	}
	said := testtool.Run(t, dir, "go", "build", "-pgo=off", "-gcflags=-pgoprofile="+filepath.Join(dir, "default.txt")+" -d=pgodebug=1", "-o", "app", ".")
	if !strings.Contains(said, "hot-callsite-thres") {
		t.Errorf("the compiler says nothing of the profile: %q", said)
	}
}

// bazelFetch runs the repository rule on a lock in /src, and returns what it asks Bazel for. Bazel
// itself is not run.
func bazelFetch(t *testing.T, lock string) (string, error) {
	t.Helper()
	file := filepath.Join(root, "integrations/bazel/backfeed.bzl")
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rule starlark.Callable
	def := func(name string) *starlark.Builtin {
		return starlark.NewBuiltin(name, func(_ *starlark.Thread, b *starlark.Builtin, _ starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			for _, kv := range kwargs {
				if k, _ := starlark.AsString(kv[0]); k == "implementation" && b.Name() == "repository_rule" {
					rule = kv[1].(starlark.Callable)
				}
			}
			return starlark.None, nil
		})
	}
	fail := starlark.NewBuiltin("fail", func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		s, _ := starlark.AsString(args[0])
		return nil, fmt.Errorf("fail: %s", s)
	})
	thread := &starlark.Thread{Name: "bazel"}
	globals, err := starlark.ExecFileOptions(&syntax.FileOptions{}, thread, file, src, starlark.StringDict{
		"json": starjson.Module, "struct": starlark.NewBuiltin("struct", starlarkstruct.Make), "fail": fail,
		"repository_rule": def("repository_rule"), "module_extension": def("module_extension"), "tag_class": def("tag_class"),
		"attr": starlarkstruct.FromStringDict(starlarkstruct.Default, starlark.StringDict{"label": def("label"), "string": def("string")}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if rule == nil || globals["backfeed_profiles"] == nil || globals["backfeed"] == nil {
		t.Fatalf("it defines %v", globals.Keys())
	}

	var log strings.Builder
	note := func(name string, result starlark.Value) *starlark.Builtin {
		return starlark.NewBuiltin(name, func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			fmt.Fprintf(&log, "%s%s", name, args)
			for _, kv := range kwargs {
				fmt.Fprintf(&log, " %s=%s", kv[0].(starlark.String).GoString(), kv[1])
			}
			log.WriteString("\n")
			return result, nil
		})
	}
	path := starlarkstruct.FromStringDict(starlark.String("path"), starlark.StringDict{"dirname": starlark.String("/src")})
	rctx := starlarkstruct.FromStringDict(starlark.String("rctx"), starlark.StringDict{
		"attr": starlarkstruct.FromStringDict(starlark.String("attrs"), starlark.StringDict{"lock": starlark.String("//:backfeed.lock")}),
		"path": note("path", path), "watch": note("watch", starlark.None), "read": note("read", starlark.String(lock)),
		"download": note("download", starlark.None), "file": note("file", starlark.None),
	})
	_, err = starlark.Call(thread, rule, starlark.Tuple{rctx}, nil)
	return log.String(), err
}

// TestBuildsBazel: the Starlark reads a lock as Bazel would have it do.
func TestBuildsBazel(t *testing.T) {
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("x")))
	for _, tt := range []struct{ path, format, name, store, url, output string }{
		{"cmd/api/default.pgo", "go", "default.0a1b.pgo", "", "file:///src/cmd/api/default.pgo", "app_go"},
		{"prof/app.{hash}.prof", "llvm", "app.0a1b.prof", "", "file:///src/prof/app.0a1b.prof", "app_llvm.afdo"},
		{"prof/app.prof", "llvm", "app.0a1b.prof", "profiles", "file:///src/profiles/app.0a1b.prof", "app_llvm.afdo"},
		{"app.txt", "propeller", "app.0a1b.txt", "/var/profiles/", "file:///var/profiles/app.0a1b.txt", "app_propeller.txt"},
		{"app.txt", "propeller-order", "app.0a1b.txt", "https://profiles.example.com/p", "https://profiles.example.com/p/app.0a1b.txt", "app_propeller-order.txt"},
	} {
		log, err := bazelFetch(t, lockOf(t, []byte("x"), tt.path, tt.format, tt.name, tt.store))
		for _, want := range []string{fmt.Sprintf("%q", tt.url), fmt.Sprintf("%q", tt.output), fmt.Sprintf("%q", sum), `exports_files([\"` + tt.output} {
			if err != nil || !strings.Contains(log, want) {
				t.Errorf("%s of %s: %v, want %s in\n%s", tt.format, tt.path, err, want, log)
			}
		}
	}
	if log, err := bazelFetch(t, `{"schema": "backfeed.lock/2", "outputs": []}`); err == nil || !strings.Contains(err.Error(), "its schema is not backfeed.lock/1") {
		t.Errorf("another schema: %v\n%s", err, log)
	}
	if _, err := (&syntax.FileOptions{}).Parse("BUILD.example", readFile(t, "integrations/bazel/BUILD.example"), 0); err != nil {
		t.Error(err)
	}
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
