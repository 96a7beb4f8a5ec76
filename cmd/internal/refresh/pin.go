package refresh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/fetch"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/output"
	"backfeed/cmd/internal/report"
)

// FetchOptions say where pinned profiles come from.
type FetchOptions struct {
	Paths   []string      // of outputs; nil is all that the lock has in a store
	Store   string        // directory or URL, for that of the lock; "" is the lock's
	Cache   string        // directory of files by their SHA-256; "" is none
	Offline bool          // ask no server
	Get     fetch.Fetcher // how servers are asked
	Notify  report.Notify
}

// maxProfile bounds what is fetched, in bytes.
const maxProfile = 1 << 30

// Fetch brings the profiles that the lock at path has in a store to their paths, each verified, whole or not at all. Those that are
// there already stay. All of them are tried; the error is of those that could not be had.
func Fetch(ctx context.Context, path string, opt FetchOptions) error {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("%s: %w; refresh writes one", path, fail.Cause(err))
	}
	lock, err := ReadLock(path)
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, p := range opt.Paths {
		if lock.Find(slashed(p)) == nil {
			return fail.Errorf(fail.Usage, "%s: %s has no such output", p, path)
		}
		wanted[slashed(p)] = true
	}
	var failed []error
	pinned := 0
	for i := range lock.Outputs {
		k := &lock.Outputs[i]
		if len(opt.Paths) > 0 && !wanted[k.Path] || len(opt.Paths) == 0 && k.Store == "" {
			continue
		}
		pinned++
		if err := bring(ctx, filepath.Dir(path), k, opt); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", k.Path, err))
		}
	}
	if pinned == 0 {
		return fail.Errorf(fail.Nothing, "%s: no output is in a store: of mode commit, the repository has them", path)
	}
	return fail.Join(failed)
}

// bring brings one profile to its path below dir.
func bring(ctx context.Context, dir string, k *Locked, opt FetchOptions) error {
	base := k.Path[strings.LastIndexByte(k.Path, '/')+1:]
	if strings.Contains(base, Hash) {
		base = k.Name
	}
	to := filepath.Join(dir, filepath.Dir(filepath.FromSlash(k.Path)), base)
	if b, err := os.ReadFile(to); err == nil && sumOf(b) == k.SHA256 {
		opt.Notify.Warn("%s is there", to)
		return nil
	}
	cached := ""
	if opt.Cache != "" {
		cached = filepath.Join(opt.Cache, k.SHA256)
	}
	b, from, err := find(ctx, dir, k, cached, opt)
	if err != nil {
		return err
	}
	if cached != "" && from != cached {
		if err := place(cached, b); err != nil {
			opt.Notify.Warn("%s: not kept: %v", cached, err)
		}
	}
	if err := place(to, b); err != nil {
		return err
	}
	opt.Notify.Warn("%s: %d bytes from %s", to, len(b), input.Name(from))
	return nil
}

// place makes the file path of b, and its directory.
func place(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return output.WriteFile(path, nil, b)
}

// find returns the bytes of a profile that have the lock's sum, and where they were.
func find(ctx context.Context, dir string, k *Locked, cached string, opt FetchOptions) ([]byte, string, error) {
	store := opt.Store
	if store == "" {
		store = filepath.FromSlash(k.Store)
		if !filepath.IsAbs(store) {
			store = filepath.Join(dir, store)
		}
	}
	if cached != "" {
		if b, err := os.ReadFile(cached); err == nil && sumOf(b) == k.SHA256 {
			return b, cached, nil
		}
	}
	var b []byte
	var err error
	from := filepath.Join(store, k.Name)
	switch {
	case fetch.Is(store) && opt.Offline:
		return nil, "", fmt.Errorf("%s is not in the cache, and no server is asked with --offline", k.Name)
	case fetch.Is(store):
		from = strings.TrimSuffix(store, "/") + "/" + k.Name
		b, err = opt.Get.Get(ctx, from, min(k.Bytes, maxProfile))
	default:
		b, err = os.ReadFile(from)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s: no such file; --store names another directory or a URL", from)
		}
	}
	if err != nil {
		return nil, "", err
	}
	if sum := sumOf(b); sum != k.SHA256 || int64(len(b)) != k.Bytes {
		return nil, "", fail.Errorf(fail.Nothing, "%s: %d bytes with SHA-256 %s, but the lock wants %d with %s", from, len(b), sum, k.Bytes, k.SHA256)
	}
	return bytes.Clone(b), from, nil
}
