package input

import (
	"context"
	"net/url"
	"os"
	"time"

	"backfeed/cmd/internal/fetch"
	"backfeed/sample/store"
)

// maxSource bounds a source that is fetched, in bytes: a perf.data file may be as long as a disk is large.
const maxSource = 1 << 30

// Name is what people are told of a source: its path, or its address without what may be secret there.
func Name(path string) string {
	if fetch.Is(path) {
		return fetch.Name(path)
	}
	return store.Name(path)
}

// Names are those of several.
func Names(paths []string) []string {
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = Name(path)
	}
	return names
}

// fetched returns the file at an address as a file of this machine, which is the caller's to remove. What names a host
// and no file is asked for a CPU profile, as `go tool pprof` does.
func (s *Session) fetched(ctx context.Context, address string) (*os.File, error) {
	if u, err := url.Parse(address); err == nil && !fetch.Selects(address) {
		address = fetch.Pprof(u).String()
	}
	f, err := os.CreateTemp("", "backfeed-")
	if err != nil {
		return nil, err
	}
	err = s.fetcher().To(ctx, address, f, maxSource)
	if err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		f.Close()
		os.Remove(f.Name())
		return nil, err
	}
	os.Remove(f.Name()) // where an open file may be removed, whoever ends this process leaves nothing
	return f, nil
}

// fetcher tells the user of what has to be tried again.
func (s *Session) fetcher() fetch.Fetcher {
	return fetch.Fetcher{Select: fetch.Selection{Since: s.opt.Since, Until: s.opt.Until, Labels: s.opt.Labels}, Retry: func(why error, in time.Duration) {
		s.notify.Warn("%v; it is tried again in %v", why, in.Round(time.Second/10))
	}}
}
