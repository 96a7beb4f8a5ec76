// Command release builds what is handed out for a version: for each system an archive of the static
// binary and its licences, a list of the modules in it (SPDX 2.3, JSON), and the SHA-256 of all.
//
//	go run ./internal/release -o dist
//
// The version is the tag of the commit that is checked out, as `go build` stamps it. Equal commits and
// toolchains give equal bytes in any directory (TestRelease): times are the commit's.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

const defaultTargets = "linux/amd64,linux/arm64,darwin/arm64"

func main() {
	dir := flag.String("o", "dist", "write to this `directory`, which must not exist")
	targets := flag.String("targets", defaultTargets, "build for these systems")
	untagged := flag.Bool("untagged", false, "build a commit that has no tag, too")
	flag.Parse()
	if err := release(*dir, strings.Split(*targets, ","), *untagged); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// A commit is what is built.
type commit struct {
	root    string // of the repository
	version string // its tag, or what git describes it by
	hash    string
	at      time.Time
}

func release(dir string, targets []string, untagged bool) error {
	c, err := checkedOut(untagged)
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, target := range targets {
		files, err := c.build(target)
		if err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(dir, f.name), f.content, 0o666); err != nil {
				return err
			}
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(f.content), f.name)
		}
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), sums.Bytes(), 0o666)
}

func checkedOut(untagged bool) (c commit, err error) {
	if c.root, err = git("", "rev-parse", "--show-toplevel"); err != nil {
		return c, err
	}
	changed, err := git(c.root, "status", "--porcelain")
	if err != nil {
		return c, err
	}
	if changed != "" {
		return c, fmt.Errorf("the tree has changes that are not committed:\n%s", changed)
	}
	if c.version, err = git(c.root, "describe", "--tags", "--exact-match", "--match", "v[0-9]*"); err != nil {
		if !untagged {
			return c, fmt.Errorf("the commit has no tag such as v1.2.3 (-untagged builds it all the same): %w", err)
		}
		if c.version, err = git(c.root, "rev-parse", "--short=12", "HEAD"); err != nil {
			return c, err
		}
	}
	if c.hash, err = git(c.root, "rev-parse", "HEAD"); err != nil {
		return c, err
	}
	seconds, err := git(c.root, "show", "-s", "--format=%ct", "HEAD")
	if err != nil {
		return c, err
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	c.at = time.Unix(n, 0).UTC()
	return c, err
}

func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		err = fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(failed.Stderr))
	}
	return strings.TrimSpace(string(out)), err
}

// A file is one to be released.
type file struct {
	name    string
	content []byte
}

// build returns the archive of the binary for a system, and the list of what is in it.
func (c *commit) build(target string) ([]file, error) {
	system, arch, ok := strings.Cut(target, "/")
	if !ok {
		return nil, errors.New("want a system and a processor, such as linux/amd64")
	}
	tmp, err := os.MkdirTemp("", "release")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	binary := filepath.Join(tmp, "backfeed")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", binary, "./cmd/backfeed")
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.root, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+system, "GOARCH="+arch)
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("backfeed_%s_%s_%s", c.version, system, arch)
	archive, err := c.archive(name, binary)
	if err != nil {
		return nil, err
	}
	list, err := c.contents(name, info, archive)
	if err != nil {
		return nil, err
	}
	return []file{{name + ".tar.gz", archive}, {name + ".spdx.json", list}}, nil
}

// archive packs the binary and what goes with it below a directory.
func (c *commit) archive(dir, binary string) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(z)
	add := func(from, name string, mode int64) error {
		content, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: dir + "/" + name, Mode: mode, Size: int64(len(content)), ModTime: c.at, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		_, err = t.Write(content)
		return err
	}
	if err := add(binary, "backfeed", 0o755); err != nil {
		return nil, err
	}
	for _, name := range []string{"LICENSE", "LICENSES/GPL-2.0-only.txt", "README.md", "THIRD_PARTY.txt"} {
		if err := add(filepath.Join(c.root, name), name, 0o644); err != nil {
			return nil, err
		}
	}
	err = errors.Join(t.Close(), z.Close())
	return b.Bytes(), err
}

// contents lists the modules of a binary as SPDX 2.3 does (https://spdx.github.io/spdx-spec/v2.3).
func (c *commit) contents(name string, info *debug.BuildInfo, archive []byte) ([]byte, error) {
	const none = "NOASSERTION"
	type object = map[string]any
	module := func(id, path, version string) object {
		return object{
			"SPDXID": id, "name": path, "versionInfo": version, "downloadLocation": none, "filesAnalyzed": false,
			"licenseConcluded": none, "licenseDeclared": none, "copyrightText": none,
			"externalRefs": []object{{
				"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": "pkg:golang/" + path + "@" + version,
			}},
		}
	}
	main := module("SPDXRef-backfeed", "backfeed", c.version)
	main["licenseConcluded"], main["licenseDeclared"] = "Apache-2.0", "Apache-2.0"
	main["packageFileName"] = name + ".tar.gz"
	main["checksums"] = []object{{"algorithm": "SHA256", "checksumValue": fmt.Sprintf("%x", sha256.Sum256(archive))}}
	packages := []object{main}
	relations := []object{{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-backfeed"}}
	add := func(path, version string) {
		id := fmt.Sprintf("SPDXRef-module-%d", len(packages))
		packages = append(packages, module(id, path, version))
		relations = append(relations, object{"spdxElementId": "SPDXRef-backfeed", "relationshipType": "CONTAINS", "relatedSpdxElement": id})
	}
	add("stdlib", strings.TrimPrefix(info.GoVersion, "go"))
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		add(m.Path, m.Version)
	}
	b, err := json.MarshalIndent(object{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
		"documentNamespace": "https://backfeed.invalid/spdx/" + name + "-" + c.hash,
		"creationInfo":      object{"created": c.at.Format(time.RFC3339), "creators": []string{"Tool: backfeed-release"}},
		"packages":          packages, "relationships": relations,
	}, "", "  ")
	return append(b, '\n'), err
}
