package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/sample"
)

const (
	// pprofPath is where net/http/pprof serves a CPU profile.
	pprofPath = "/debug/pprof/profile"
	// PprofTime is how long one is taken unless -d says otherwise, as by net/http/pprof itself.
	PprofTime = 30 * time.Second
	// pprofPatience is how long the answer may take beyond that.
	pprofPatience = 30 * time.Second
	// maxPprofDownload bounds a profile, in bytes. Those of large programs have some 10 MB, compressed.
	maxPprofDownload = 64 << 20
)

// PprofURL makes the address of a profile of what a user names: a host, the root of net/http/pprof, or the
// address itself.
func PprofURL(address string, d time.Duration) (*url.URL, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil { // which quotes all of it, with its password if it has one
		return nil, errors.New("want an address such as http://localhost:6060 or http://[::1]:6060")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%s: want an address such as http://localhost:6060", u.Redacted())
	}
	switch path := strings.TrimSuffix(u.Path, "/"); path {
	case "":
		u.Path = pprofPath
	case "/debug/pprof":
		u.Path = pprofPath
	}
	q := u.Query()
	q.Set("seconds", strconv.Itoa(int(math.Ceil(d.Seconds()))))
	u.RawQuery = q.Encode()
	return u, nil
}

// Pprof has a Go program profile itself for so long, and reads that: u is PprofURL's.
func Pprof(ctx context.Context, u *url.URL, d time.Duration, live Live) (*sample.Recording, error) {
	name := u.Redacted()
	stop := live.waiting("the program profiles itself", d)
	b, err := download(ctx, u, d+pprofPatience)
	stop()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	rec, err := sample.ReadPprof(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	n := rec.Samples()
	if rec.Delivered() == 0 {
		return nil, fail.Errorf(fail.Nothing, "%s: no samples: the program used next to no processor time; profile it while it has something to do", name)
	}
	text := fmt.Sprintf("%d samples of runtime/pprof, which takes 100 for each second of processor time; images: %d", n, len(rec.ByImage()))
	if list := report.Losses(rec.Lost(), n); list != "" {
		text += "; lost: " + list
	}
	live.Notify.Warn("%s", text)
	return rec, nil
}

// download gets what an address has, of bounded size and in bounded time.
func download(ctx context.Context, u *url.URL, limit time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	// Only the named host is asked.
	client := &http.Client{CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if req.URL.Host != u.Host || len(via) > 3 {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	resp, err := client.Do(req)
	if err != nil {
		// The address is said by the caller, without its password.
		if e := (*url.Error)(nil); errors.As(err, &e) {
			err = e.Err
		}
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		const most = 200
		why, _ := io.ReadAll(io.LimitReader(resp.Body, most))
		first, _, _ := strings.Cut(strings.TrimSpace(string(why)), "\n")
		return nil, fmt.Errorf("%s: %s", resp.Status, report.Clean(first))
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxPprofDownload+1))
	if err == nil && len(b) > maxPprofDownload {
		err = fmt.Errorf("more than %d bytes: %w", maxPprofDownload, sample.ErrFormat)
	}
	return b, err
}
