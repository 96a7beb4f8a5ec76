package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// A kernel is one of Debian's that the matrix boots.
type kernel struct {
	suite   string // of Debian
	release string // that the suite's kernel is expected to have, major and minor; "" is any
	arch    string // Debian's name for it, which is Go's
}

func (k kernel) String() string { return k.suite + "-" + k.arch }

// A fetched kernel is ready to boot.
type fetched struct {
	kernel
	version string // of the package
	image   string // vmlinuz
	busybox string
}

// archives are apt's sources: what a suite's kernel and busybox are fetched from. Packages are
// checked by the keys of Debian that are installed.
const mirror = "http://deb.debian.org/debian"

const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// fetching are locks by directory: guests at once may have one kernel.
var fetching sync.Map

// fetch returns a kernel that is in cache, or brings it there. apt works in directories of its own:
// nothing of the machine's sources or packages changes.
func (k kernel) fetch(ctx context.Context, cache string, update bool) (*fetched, error) {
	dir := filepath.Join(cache, k.String())
	lock, _ := fetching.LoadOrStore(dir, new(sync.Mutex))
	lock.(*sync.Mutex).Lock()
	defer lock.(*sync.Mutex).Unlock()
	f := &fetched{kernel: k, image: filepath.Join(dir, "vmlinuz"), busybox: filepath.Join(dir, "busybox")}
	version := filepath.Join(dir, "version") // written last
	if b, err := os.ReadFile(version); err == nil && !update {
		f.version = strings.TrimSpace(string(b))
		return f, nil
	}
	apt, err := newApt(dir, k)
	if err != nil {
		return nil, err
	}
	if err := apt.run(ctx, "apt-get", "update", "-q"); err != nil {
		return nil, err
	}
	name, err := apt.kernelPackage(ctx)
	if err != nil {
		return nil, err
	}
	if err := apt.unpack(ctx, name, f.image, "boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz"); err != nil {
		return nil, err
	}
	if err := apt.unpack(ctx, "busybox-static", f.busybox, "bin/busybox", "usr/bin/busybox"); err != nil {
		return nil, err
	}
	f.version = name
	if err := os.RemoveAll(filepath.Join(dir, "apt")); err != nil {
		return nil, err
	}
	return f, os.WriteFile(version, []byte(name+"\n"), 0o644)
}

// An apt is the package manager, in a directory.
type apt struct {
	k    kernel
	dir  string
	args []string // that tell it so
}

func newApt(dir string, k kernel) (*apt, error) {
	a := &apt{k: k, dir: filepath.Join(dir, "apt")}
	for _, sub := range []string{"lists/partial", "archives/partial", "etc/preferences.d", "etc/apt.conf.d", "out"} {
		if err := os.MkdirAll(filepath.Join(a.dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	write := func(name, text string) error { return os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o644) }
	source := fmt.Sprintf("deb [arch=%s signed-by=%s] %s %s main\n", k.arch, keyring, mirror, k.suite)
	if err := write("sources.list", source); err != nil {
		return nil, err
	}
	if err := write("status", ""); err != nil {
		return nil, err
	}
	for option, value := range map[string]string{
		"Dir::State::lists": "lists", "Dir::State::status": "status", "Dir::Cache": "", "Dir::Cache::archives": "archives",
		"Dir::Etc::sourcelist": "sources.list", "Dir::Etc::sourceparts": "etc/none", "Dir::Etc::preferences": "etc/none",
		"Dir::Etc::preferencesparts": "etc/preferences.d", "Dir::Log": "out",
	} {
		a.args = append(a.args, "-o", option+"="+filepath.Join(a.dir, value))
	}
	a.args = append(a.args, "-o", "APT::Architecture="+k.arch, "-o", "APT::Architectures="+k.arch,
		"-o", "APT::Sandbox::User=root", "-o", "Acquire::Languages=none", "-o", "Acquire::Retries=2")
	return a, nil
}

func (a *apt) output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, append(a.args[:len(a.args):len(a.args)], args...)...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out, &stderr)
	}
	return out, nil
}

func (a *apt) run(ctx context.Context, name string, args ...string) error {
	_, err := a.output(ctx, a.dir, name, args...)
	return err
}

var kernelName = regexp.MustCompile(`^linux-(?:image|binary)-\d`)

// kernelPackage finds the package that has the file: the suite's linux-image-cloud-ARCH depends on
// the newest linux-image-VERSION, which from Linux 7 on depends on linux-binary-VERSION in turn.
func (a *apt) kernelPackage(ctx context.Context) (string, error) {
	name := "linux-image-cloud-" + a.k.arch
	for range 4 {
		out, err := a.output(ctx, a.dir, "apt-cache", "show", "--no-all-versions", name)
		if err != nil {
			return "", err
		}
		next := ""
		for line := range strings.Lines(string(out)) {
			depends, ok := strings.CutPrefix(line, "Depends:")
			if !ok {
				continue
			}
			for d := range strings.SplitSeq(depends, ",") {
				d, _, _ = strings.Cut(strings.TrimSpace(d), " ")
				if kernelName.MatchString(d) && d != name {
					next = d
				}
			}
		}
		if next == "" {
			return name, nil
		}
		name = next
	}
	return "", fmt.Errorf("%s: no kernel behind linux-image-cloud-%s", a.k, a.k.arch)
}

// unpack moves the file of a package that one of the patterns matches.
func (a *apt) unpack(ctx context.Context, pkg, to string, patterns ...string) error {
	got := filepath.Join(a.dir, "archives")
	if _, err := a.output(ctx, got, "apt-get", "download", "-q", pkg); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(got, pkg+"_*.deb"))
	if err != nil || len(debs) == 0 {
		return fmt.Errorf("%s: apt-get download brought nothing", pkg)
	}
	root := filepath.Join(a.dir, "out", pkg)
	if out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", debs[0], root).CombinedOutput(); err != nil {
		return fmt.Errorf("dpkg-deb -x %s: %w\n%s", debs[0], err, out)
	}
	for _, p := range patterns {
		found, err := filepath.Glob(filepath.Join(root, p))
		if err == nil && len(found) == 1 {
			return os.Rename(found[0], to)
		}
	}
	return fmt.Errorf("%s has no %s", filepath.Base(debs[0]), strings.Join(patterns, " or "))
}
