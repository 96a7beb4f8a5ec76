package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/fetch"
	"backfeed/cmd/internal/report"
	"backfeed/sample"
)

// PprofTime is how long a profile is taken unless -d says otherwise, as by net/http/pprof itself.
const PprofTime = fetch.PprofTime

// maxPprofDownload bounds a profile, in bytes. Those of large programs have some 10 MB, compressed.
const maxPprofDownload = 64 << 20

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
		return nil, fmt.Errorf("%s: want an address such as http://localhost:6060", fetch.Name(u.String()))
	}
	u = fetch.Pprof(u)
	q := u.Query()
	q.Set("seconds", strconv.Itoa(int(math.Ceil(d.Seconds()))))
	u.RawQuery = q.Encode()
	return u, nil
}

// Pprof has a Go program profile itself for so long, and reads that: u is PprofURL's.
func Pprof(ctx context.Context, u *url.URL, d time.Duration, live Live) (*sample.Recording, error) {
	name := fetch.Name(u.String())
	stop := live.waiting("the program profiles itself", d)
	b, err := fetch.Fetcher{SameHost: true, Tries: 1}.Get(ctx, u.String(), maxPprofDownload) // who waits asks again
	stop()
	if err != nil {
		return nil, err
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
