package s3

import (
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Traffic is what was asked of a bucket.
type Traffic struct {
	Gets, Puts, Lists, Deletes uint64 // requests; heads are gets
	Retries                    uint64 // of those, that were made again
	Read, Written              uint64 // bytes of bodies
}

// A meter counts requests and bytes, and notes what the server says of time.
type meter struct {
	next                                http.RoundTripper
	gets, puts, lists, deletes, retries atomic.Uint64
	read, written                       atomic.Uint64
	skew                                atomic.Int64 // of the server's clock, ns
	notBefore                           atomic.Int64 // by the server's clock, ns since 1970
}

func (m *meter) traffic() Traffic {
	return Traffic{m.gets.Load(), m.puts.Load(), m.lists.Load(), m.deletes.Load(), m.retries.Load(), m.read.Load(), m.written.Load()}
}

// wait is how long the server wants no request.
func (m *meter) wait(now time.Time) time.Duration {
	at := m.notBefore.Load()
	if at == 0 {
		return 0
	}
	return time.Unix(0, at).Sub(now)
}

func (m *meter) RoundTrip(req *http.Request) (*http.Response, error) {
	switch {
	case req.Method == http.MethodPut:
		m.puts.Add(1)
		m.written.Add(uint64(max(req.ContentLength, 0)))
	case req.Method == http.MethodDelete:
		m.deletes.Add(1)
	case req.URL.Query().Has("list-type"):
		m.lists.Add(1)
	default:
		m.gets.Add(1)
	}
	resp, err := m.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		m.skew.Store(int64(time.Until(at)))
	}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 && resp.StatusCode >= 400 {
		wait := min(time.Duration(s)*time.Second, longestPause)
		m.notBefore.Store(time.Now().Add(time.Duration(m.skew.Load()) + wait).UnixNano())
	}
	resp.Body = &meteredBody{resp.Body, &m.read}
	return resp, nil
}

type meteredBody struct {
	io.ReadCloser
	n *atomic.Uint64
}

func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(uint64(n))
	return n, err
}
