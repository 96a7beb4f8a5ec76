package main

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// A builder makes what guests run, once for each architecture.
type builder struct {
	root string // of the module
	dir  string // what is there is not built again
	mu   sync.Mutex
	done map[string]files
}

// libraries are what C programs are linked with, by architecture: path in the guest, and places here.
var libraries = map[string]map[string][]string{
	"amd64": {
		"lib64/ld-linux-x86-64.so.2":     {"/lib64/ld-linux-x86-64.so.2", "/usr/x86_64-linux-gnu/lib/ld-linux-x86-64.so.2"},
		"lib/x86_64-linux-gnu/libc.so.6": {"/lib/x86_64-linux-gnu/libc.so.6", "/usr/x86_64-linux-gnu/lib/libc.so.6"},
	},
	"arm64": {
		"lib/ld-linux-aarch64.so.1":       {"/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1", "/lib/ld-linux-aarch64.so.1"},
		"lib/aarch64-linux-gnu/libc.so.6": {"/usr/aarch64-linux-gnu/lib/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6"},
	},
}

// content returns the files of a guest, but for those that come with its kernel.
func (b *builder) content(ctx context.Context, arch string) (files, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c, ok := b.done[arch]; ok {
		return c, nil
	}
	c, err := b.build(ctx, arch)
	if err != nil {
		return nil, fmt.Errorf("build for %s: %w", arch, err)
	}
	if b.done == nil {
		b.done = map[string]files{}
	}
	b.done[arch] = c
	return c, nil
}

func (b *builder) build(ctx context.Context, arch string) (files, error) {
	c := files{}
	init, err := b.once("init."+arch, func(to string) error {
		return b.command(ctx, b.root, []string{"CGO_ENABLED=0", "GOARCH=" + arch}, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", to, "./testdata/kernels/guest")
	})
	if err != nil {
		return nil, err
	}
	if err := c.add("init", init); err != nil {
		return nil, err
	}
	for name, pkg := range dirs {
		if err := b.tests(ctx, c, arch, name, pkg); err != nil {
			return nil, err
		}
	}
	for to, places := range libraries[arch] {
		for _, from := range places {
			if c.add(to, from) == nil {
				break
			}
		}
		if _, ok := c[to]; !ok {
			return nil, fmt.Errorf("no %s in %q: install libc6-dev-%s-cross", filepath.Base(to), places, arch)
		}
	}
	return c, nil
}

// once returns a file or directory of b.dir, which make makes where there is none, by another name until it is whole: there may be
// another builder.
func (b *builder) once(name string, make func(to string) error) (path string, err error) {
	path = filepath.Join(b.dir, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	part, err := os.MkdirTemp(b.dir, "part-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(part)
	if err := make(filepath.Join(part, name)); err != nil {
		return "", err
	}
	err = os.Rename(filepath.Join(part, name), path)
	if _, there := os.Stat(path); err != nil && there == nil { // the other one was first
		err = nil
	}
	return path, err
}

// test links the tests of a package for an architecture, by the flags that .ci/run compiles with.
func (b *builder) test(ctx context.Context, arch, name, pkg string) (exe string, err error) {
	return b.once(name+"."+arch+".test", func(to string) error {
		return b.command(ctx, b.root, []string{"CGO_ENABLED=0", "GOARCH=" + arch}, "go", "test", "-c", "-vet=off", "-trimpath", "-ldflags=-s -w", "-o", to, "./"+pkg)
	})
}

// tests adds the tests of a package, the programs that they run, and their testdata.
func (b *builder) tests(ctx context.Context, c files, arch, name, pkg string) error {
	exe, err := b.test(ctx, arch, name, pkg)
	if err != nil {
		return err
	}
	if err := c.add("test/"+name+".test", exe); err != nil {
		return err
	}
	// The tests of this machine build them, for that architecture.
	here, err := b.test(ctx, runtime.GOARCH, name, pkg)
	if err != nil {
		return err
	}
	programs, err := b.once(name+"."+arch+".programs", func(to string) error {
		if err := os.Mkdir(to, 0o755); err != nil {
			return err
		}
		env := []string{"BACKFEED_BUILD_PROGRAMS=" + to, "CC=" + crossTool(arch, "gcc"), "OBJDUMP=" + crossTool(arch, "objdump"), "GOARCH=" + arch, "CGO_ENABLED=0"}
		return b.command(ctx, filepath.Join(b.root, pkg), env, here, "-test.run", "^TestPrograms$")
	})
	if err != nil {
		return err
	}
	if err := c.addAll("programs/"+name, programs); err != nil {
		return err
	}
	return c.addAll("src/"+pkg+"/testdata", filepath.Join(b.root, pkg, "testdata"))
}

func (b *builder) command(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if name == "go" { // compilers end soon
		cmd.Env = append(cmd.Env, "GOGC=off", "GOMEMLIMIT=1GiB")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return nil
}

// addAll takes in the files of a directory of this machine.
func (f files) addAll(name, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		return f.add(name+"/"+filepath.ToSlash(rel), path)
	})
}

// without returns the files but those of packages that none of the jobs is of: a large archive takes long to boot.
func (f files) without(jobs []job) files {
	g := maps.Clone(f)
	for name, pkg := range dirs {
		if slices.ContainsFunc(jobs, func(j job) bool { return j.Args[0] == "/test/"+name+".test" }) {
			continue
		}
		maps.DeleteFunc(g, func(path string, _ file) bool {
			return path == "test/"+name+".test" || strings.HasPrefix(path, "programs/"+name+"/") || strings.HasPrefix(path, "src/"+pkg+"/")
		})
	}
	return g
}

// with returns the files and one more.
func (f files) with(name, from string) files {
	g := maps.Clone(f)
	if err := g.add(name, from); err != nil {
		delete(g, name) // the guest says what it lacks
	}
	return g
}
