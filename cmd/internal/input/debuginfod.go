package input

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"backfeed/cmd/internal/fetch"
	"backfeed/sample"
	"backfeed/sample/store"
)

// maxBuild bounds an image or a debug file that is fetched, in bytes: those of browsers have up to 4 GB.
const maxBuild = 8 << 30

// cacheDir is where what servers had is kept, so that it is asked for once.
func cacheDir() (BuildDir, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("--symfs of a server needs a place to keep what it sends: %w", err)
	}
	dir = filepath.Join(dir, "backfeed", "builds")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return BuildDir(dir), nil
}

// A server has images and debug files by build ID, by the interface of debuginfod(8) of elfutils.
type server struct {
	address string
	failed  bool // it did not answer, and is not asked again
}

// splitSymfs takes directories and servers apart. A server may be several, with spaces between, as the environment
// variable DEBUGINFOD_URLS names them.
func splitSymfs(symfs []string) (dirs []string, servers []*server) {
	for _, place := range symfs {
		if !fetch.Is(place) {
			dirs = append(dirs, place)
			continue
		}
		for _, address := range strings.Fields(place) {
			servers = append(servers, &server{address: strings.TrimSuffix(address, "/")})
		}
	}
	return dirs, servers
}

// SymfsDirs are the directories of --symfs, which may name servers too.
func SymfsDirs(symfs []string) []string {
	dirs, _ := splitSymfs(symfs)
	return dirs
}

// download asks the servers for a file of a build, and reports whether it is in the cache from here on. What no
// server has is not asked for again, nor is a server that does not answer.
func (f *finder) download(id sample.ImageID, kind store.Kind) bool {
	if id.Build.IsZero() {
		return false
	}
	name := map[store.Kind]string{store.KindFile: "executable", store.KindDebug: "debuginfo"}[kind]
	for _, s := range f.servers {
		if s.failed {
			continue
		}
		address := s.address + "/buildid/" + id.Build.String() + "/" + name
		f.notify.Progress("fetching %s of %s", name, id.Path)
		err := f.downloads.Put(id, kind, func(file *os.File) error {
			return f.fetcher.To(f.ctx, address, file, maxBuild)
		})
		f.notify.Done()
		switch {
		case err == nil:
			return true
		case errors.Is(err, fetch.ErrNotFound):
		case errors.Is(err, fetch.ErrTooLarge), errors.Is(err, ErrOtherID):
			f.notify.Warn("%v; it is not used", err)
		default:
			s.failed = true
			f.notify.Warn("%v; this server is not asked again", err)
		}
	}
	return false
}
