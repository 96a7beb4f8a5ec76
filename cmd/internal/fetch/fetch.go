package fetch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"backfeed/cmd/internal/report"
)

const (
	// patience is how long a server may take to answer, and to go on, beyond the seconds that it was asked to measure for.
	patience = 30 * time.Second
	// most is how long all tries together may take, beyond those seconds.
	most = 10 * time.Minute
	// longest is for how many seconds a server may be asked to measure: more is a mistake, or means to keep us.
	longest = 24 * time.Hour
	// tries is how often a file is asked for; the pauses between are 1, 2 and 4 s, give or take half.
	tries      = 4
	firstPause = time.Second
	// longestPause bounds what a server may ask to wait for.
	longestPause = time.Minute
	maxRedirects = 5
)

var (
	// ErrTooLarge is wrapped by the error of a file that has more bytes than were asked for.
	ErrTooLarge = errors.New("too large")
	// ErrNotFound is wrapped where a server says that it has no such file.
	ErrNotFound = errors.New("not found")
)

var (
	errSlow = errors.New("the server sends nothing")
	errMore = errors.New("out of time")
)

// A Fetcher says how files are got. The zero Fetcher is the usual one.
type Fetcher struct {
	SameHost bool          // follow redirects to the host that was named only
	Tries    int           // at most; 0 is the usual number
	Pause    time.Duration // before the second try, about; 0 is a second
	Patience time.Duration // with a server that sends nothing; 0 is 30 s

	// Select is what a server of profiles is asked for, where an address names one.
	Select Selection

	// Retry is called before a file is asked for again, with what was wrong and how long that is put off. nil is not called.
	Retry func(why error, in time.Duration)

	call *call // what is sent to the address; nil is to get a file
}

// Is reports whether a path is the address of a file to be fetched, or of a server of profiles.
func Is(path string) bool {
	return strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://") || Selects(path)
}

// Name returns an address without what may be secret: the user, the password, and what is asked but for seconds.
func Name(address string) string {
	u, err := url.Parse(address)
	if err != nil { // that error quotes all of it
		return "an address that is none"
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	q := u.Query()
	var asked []string
	if query := q.Get(queryKey); query != "" && Selects(address) {
		asked = append(asked, queryKey+"="+query)
	}
	if seconds := q.Get("seconds"); seconds != "" {
		asked = append(asked, "seconds="+url.QueryEscape(seconds))
	}
	if len(q) > len(asked) || len(q) == 0 && u.RawQuery != "" {
		asked = append(asked, "...")
	}
	shown.RawQuery = strings.Join(asked, "&")
	return report.Clean(shown.String())
}

// Get returns the file at an address, of at most so many bytes. Errors name the address.
func (f Fetcher) Get(ctx context.Context, address string, maxBytes int64) ([]byte, error) {
	var b bytes.Buffer
	err := f.all(ctx, address, maxBytes, func() (io.Writer, error) {
		b.Reset()
		return &b, nil
	})
	if err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// To writes the file at an address, of at most so many bytes, to file, which then has nothing else. Errors of the
// network name the address.
func (f Fetcher) To(ctx context.Context, address string, file *os.File, maxBytes int64) error {
	if Selects(address) {
		b, err := f.selected(ctx, address, min(maxBytes, maxAnswer))
		if err != nil {
			return err
		}
		_, err = file.Write(b)
		return err
	}
	return f.all(ctx, address, maxBytes, func() (io.Writer, error) {
		if err := file.Truncate(0); err != nil {
			return nil, err
		}
		_, err := file.Seek(0, io.SeekStart)
		return file, err
	})
}

// all tries until it has a file whole. start returns where a try writes to.
func (f Fetcher) all(ctx context.Context, address string, maxBytes int64, start func() (io.Writer, error)) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%s: want an address such as https://example.com/file", Name(address))
	}
	measured := measuring(u)
	if measured > longest {
		return fmt.Errorf("%s: want at most %v", Name(address), longest)
	}
	n := cmp.Or(f.Tries, tries)
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(n)*measured+most, errMore)
	defer cancel()
	pause := cmp.Or(f.Pause, firstPause)
	for i := 1; ; i++ {
		again, err := f.try(ctx, u, measured, maxBytes, start)
		if err == nil {
			return nil
		}
		if again == nil || i == n || ctx.Err() != nil {
			return fmt.Errorf("%s: %w", f.name(address), f.secrets(u).outOf(err))
		}
		wait := max(pause/2+rand.N(pause), again.after) // not all at the same time
		if f.Retry != nil {
			f.Retry(fmt.Errorf("%s: %w", f.name(address), f.secrets(u).outOf(err)), wait)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", f.name(address), context.Cause(ctx))
		case <-time.After(wait):
		}
		pause *= 2
	}
}

// measuring is how long a server measures before it answers: the seconds that it is asked for, as net/http/pprof and what
// is like it have them; a profile takes 30 unless it is asked.
func measuring(u *url.URL) time.Duration {
	if s, err := strconv.ParseFloat(u.Query().Get("seconds"), 64); err == nil && s > 0 {
		return time.Duration(min(s, 1e9) * float64(time.Second))
	}
	if strings.HasSuffix(u.Path, PprofPath) {
		return PprofTime
	}
	return 0
}

// PprofPath is where net/http/pprof serves a CPU profile, PprofTime how long it takes that for unless it is asked.
const (
	PprofPath = "/debug/pprof/profile"
	PprofTime = 30 * time.Second
)

// Pprof returns u with the path of a CPU profile if u names a host, or the root of net/http/pprof, and no file.
func Pprof(u *url.URL) *url.URL {
	with := *u
	switch strings.TrimSuffix(u.Path, "/") {
	case "", "/debug/pprof":
		with.Path = PprofPath
	}
	return &with
}

// A retry says that it may help to ask again, but not before so long.
type retry struct{ after time.Duration }

// try asks once. If it may help to ask again, it returns when.
func (f Fetcher) try(ctx context.Context, u *url.URL, measured time.Duration, maxBytes int64, start func() (io.Writer, error)) (*retry, error) {
	w, err := start()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	wait := cmp.Or(f.Patience, patience)
	slow := time.AfterFunc(measured+wait, func() { cancel(errSlow) })
	defer slow.Stop()
	why := func(err error) (*retry, error) {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		// What was sent back may be quoted there with the address, which the caller has.
		if e := (*url.Error)(nil); errors.As(err, &e) {
			err = e.Err
		}
		if !mayPass(err) {
			return nil, err
		}
		return &retry{}, err
	}
	req, err := f.request(ctx, u)
	if err != nil {
		return nil, errors.New("no address to ask")
	}
	resp, err := f.client(u).Do(req)
	if err != nil {
		return why(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return refused(resp)
	}
	if resp.ContentLength > maxBytes {
		return nil, fmt.Errorf("%d bytes, more than %d: %w", resp.ContentLength, maxBytes, ErrTooLarge)
	}
	n, err := io.Copy(onlyWriter{w}, io.LimitReader(patient{resp.Body, func() { slow.Reset(wait) }}, maxBytes+1))
	switch disk := (*os.PathError)(nil); {
	case errors.As(err, &disk):
		return nil, err
	case err != nil:
		return why(err)
	case n > maxBytes:
		return nil, fmt.Errorf("more than %d bytes: %w", maxBytes, ErrTooLarge)
	case f.call != nil:
		f.call.answer = resp.Header
		if err := f.call.unavailable(w); err != nil {
			return &retry{}, err
		}
	}
	return nil, nil
}

// request makes the request for a file, or of a call.
func (f Fetcher) request(ctx context.Context, u *url.URL) (*http.Request, error) {
	if f.call == nil {
		return http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(f.call.body))
	if err == nil {
		req.Header = f.call.header.Clone()
	}
	return req, err
}

// onlyWriter hides what else a writer can do: a file would read for itself, and errors would not say which failed.
type onlyWriter struct{ io.Writer }

// patient calls moved after each read.
type patient struct {
	io.Reader
	moved func()
}

func (p patient) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	p.moved()
	return n, err
}

// transport takes bytes as they are sent: only then their number shows whether all came.
var transport = func() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableCompression = true
	return t
}()

// client follows redirects, but not from https to http. An address may be secret, so no server is told of another.
func (f Fetcher) client(u *url.URL) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if f.call != nil || f.SameHost && req.URL.Host != u.Host || via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https" || len(via) > maxRedirects {
			return http.ErrUseLastResponse
		}
		req.Header.Del("Referer")
		return nil
	}}
}

// refused makes the error of an answer that is not the file.
func refused(resp *http.Response) (*retry, error) {
	const enough = 200
	b, _ := io.ReadAll(io.LimitReader(resp.Body, enough))
	first, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	if said := connectMessage(resp, b); said != "" {
		first = said
	}
	err := errors.New(report.Clean(resp.Status))
	if first = report.Clean(first); first != "" && !strings.HasPrefix(first, "<") { // no page
		err = fmt.Errorf("%w: %s", err, first)
	}
	passing := []int{http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	switch {
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone:
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	case !slices.Contains(passing, resp.StatusCode):
		return nil, err
	}
	after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	return &retry{after: time.Duration(min(max(after, 0), int(longestPause/time.Second))) * time.Second}, err
}

// mayPass reports whether a failure of the network may be gone the next time.
func mayPass(err error) bool {
	var certificate *tls.CertificateVerificationError
	var name *net.DNSError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, errMore), errors.As(err, &certificate):
		return false
	case errors.As(err, &name):
		return !name.IsNotFound
	}
	return true
}

// words are what must not be in a message.
type words []string

// secrets returns those of an address. Short ones would be found anywhere.
func secrets(u *url.URL) (all words) {
	const short = 3
	add := func(s string) {
		if len(s) > short {
			all = append(all, s, "...", url.QueryEscape(s), "...")
		}
	}
	if password, ok := u.User.Password(); ok {
		add(password)
	}
	add(u.User.Username())
	for key, values := range u.Query() {
		for _, v := range values {
			if key != "seconds" {
				add(v)
			}
		}
	}
	return all
}

// A cleaned error is one whose text is cleaned.
type cleaned struct {
	text string
	err  error
}

func (c cleaned) Error() string { return c.text }
func (c cleaned) Unwrap() error { return c.err }

// outOf returns err without the words.
func (w words) outOf(err error) error {
	return cleaned{strings.NewReplacer(w...).Replace(err.Error()), err}
}
