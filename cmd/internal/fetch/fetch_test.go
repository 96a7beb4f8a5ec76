package fetch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// content is what the test's servers have.
var content = bytes.Repeat([]byte("0123456789abcdef"), 4096)

// serve answers the first requests by first, one after the other, and all others with content. It counts them.
func serve(t *testing.T, first ...http.HandlerFunc) (address string, asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i := int(asked.Add(1)) - 1; i < len(first) {
			first[i](w, r)
			return
		}
		w.Write(content)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/file", asked
}

func status(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Error(w, text, code) }
}

// cut sends half of what it announces, by length or in chunks.
func cut(chunked bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !chunked {
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		}
		w.Write(content[:len(content)/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// stall sends nothing more after so many bytes until its client is gone.
func stall(after int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if after > 0 {
			w.Write(content[:after])
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	}
}

func TestGet(t *testing.T) {
	moved := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
	}
	other, _ := serve(t)
	dripping := func(w http.ResponseWriter, r *http.Request) { // slower than a try's patience, but never still for so long
		for i := 0; i < len(content); i += len(content) / 8 {
			w.Write(content[i : i+len(content)/8])
			w.(http.Flusher).Flush()
			time.Sleep(400 * time.Millisecond)
		}
	}
	for _, tt := range []struct {
		name  string
		first []http.HandlerFunc
		query string
		waits time.Duration // with a server that sends nothing; a busy machine sends nothing for a while, too
		asked int32
		says  string // "" if it comes
		is    error
	}{
		{name: "at once", asked: 1},
		{name: "an error of the server, then it", first: []http.HandlerFunc{status(500, "profiling is on"), status(503, "")}, asked: 3},
		{name: "too many requests, then it", first: []http.HandlerFunc{status(429, "")}, asked: 2},
		{name: "errors without end", first: []http.HandlerFunc{status(500, "a"), status(502, "b"), status(504, "c"), status(500, "the last")}, asked: 4, says: "500 Internal Server Error: the last"},
		{name: "not there", first: []http.HandlerFunc{status(404, "no such thing")}, asked: 1, says: "404", is: ErrNotFound},
		{name: "forbidden", first: []http.HandlerFunc{status(403, "")}, asked: 1, says: "403 Forbidden"},
		{name: "cut by length, then it", first: []http.HandlerFunc{cut(false)}, asked: 2},
		{name: "cut in chunks, then it", first: []http.HandlerFunc{cut(true)}, asked: 2},
		{name: "always cut", first: []http.HandlerFunc{cut(false), cut(true), cut(false), cut(true)}, asked: 4, says: "unexpected EOF"},
		{name: "no answer, then it", first: []http.HandlerFunc{stall(0)}, waits: time.Second, asked: 2},
		{name: "no more, then it", first: []http.HandlerFunc{stall(100)}, waits: time.Second, asked: 2},
		{name: "never an answer", first: []http.HandlerFunc{stall(0), stall(10), stall(0), stall(0)}, waits: 200 * time.Millisecond, asked: 4, says: "sends nothing", is: errSlow},
		{name: "slow, but it goes on", first: []http.HandlerFunc{dripping}, waits: 2 * time.Second, asked: 1},
		{name: "measuring for longer than its patience", first: []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(600 * time.Millisecond)
			w.Write(content)
		}}, query: "?seconds=20", waits: 300 * time.Millisecond, asked: 1},
		{name: "moved to another host", first: []http.HandlerFunc{moved(other)}, asked: 1},
		{name: "moved for ever", first: []http.HandlerFunc{moved("/"), moved("/"), moved("/"), moved("/"), moved("/"), moved("/")}, asked: maxRedirects + 1, says: "302 Found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			address, asked := serve(t, tt.first...)
			retried := int32(0)
			f := Fetcher{Pause: time.Millisecond, Patience: cmp.Or(tt.waits, time.Minute), Retry: func(why error, in time.Duration) { retried++ }}
			b, err := f.Get(t.Context(), address+tt.query, int64(len(content)))
			if tt.says == "" && (err != nil || !bytes.Equal(b, content)) {
				t.Errorf("%d bytes, %v", len(b), err)
			}
			if tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says) || !strings.HasPrefix(err.Error(), address+": ") || tt.is != nil && !errors.Is(err, tt.is)) {
				t.Errorf("%v, want %s", err, tt.says)
			}
			if asked.Load() != tt.asked || !strings.HasPrefix(tt.name, "moved") && retried != tt.asked-1 {
				t.Errorf("asked %d times, %d of them again, want %d", asked.Load(), retried, tt.asked)
			}
		})
	}
}

// TestLarge: a file is refused before it is taken if it says that it is too large, and as soon as it is if not.
func TestLarge(t *testing.T) {
	endless := func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := w.Write(content); err != nil {
				return
			}
		}
	}
	for _, first := range [][]http.HandlerFunc{nil, {endless}} {
		address, asked := serve(t, first...)
		if _, err := (Fetcher{}).Get(t.Context(), address, int64(len(content))-1); !errors.Is(err, ErrTooLarge) || asked.Load() != 1 {
			t.Errorf("%v, asked %d times", err, asked.Load())
		}
	}
}

// TestTo: what a broken try left is not in the file.
func TestTo(t *testing.T) {
	address, _ := serve(t, cut(true), cut(false))
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := (Fetcher{Pause: time.Millisecond}).To(t.Context(), address, f, 1<<20); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(b, content) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// TestSecrets: no error has what an address must not show, whatever servers send back, and no other host is told of it.
func TestSecrets(t *testing.T) {
	told := make(chan http.Header, 1)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { told <- r.Header.Clone() }))
	defer other.Close()
	echo := func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		http.Error(w, fmt.Sprintf("%s %s may not %s", user, password, r.URL.Query().Get("token")), 403)
	}
	address, _ := serve(t, echo, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) })
	secret := strings.Replace(address, "http://", "http://alice:pa55word@", 1) + "?token=t0p+secret&seconds=1"
	_, err := Fetcher{}.Get(t.Context(), secret, 100)
	if err == nil || !strings.Contains(err.Error(), "403") || !strings.Contains(err.Error(), "seconds=1&...") {
		t.Errorf("%v", err)
	}
	errs := []error{err}
	if _, err := (Fetcher{}).Get(t.Context(), secret, 100); err != nil {
		t.Error(err)
	}
	if h := <-told; h.Get("Referer") != "" || h.Get("Authorization") != "" {
		t.Errorf("another host was told %v", h)
	}
	for _, bad := range []string{
		"http://alice:pa55word@127.0.0.1:1/?token=t0p+secret", "http://alice:pa55word@[::1/?token=t0p+secret", "ftp://alice:pa55word@h/?token=t0p+secret",
		"http://alice:pa55word@127.0.0.1:1/?t0p+secret", "http://alice:pa55word@h\x7f/",
	} {
		_, err := Fetcher{Tries: 1}.Get(t.Context(), bad, 100)
		if err == nil {
			t.Fatalf("%s can be had", bad)
		}
		errs = append(errs, err)
	}
	for _, err := range errs {
		for _, w := range []string{"alice", "pa55word", "t0p", "secret"} {
			if strings.Contains(err.Error(), w) {
				t.Errorf("%q has %s", err, w)
			}
		}
	}
}

// TestEnd: who gives up need not wait, and a certificate does not become good by asking again.
func TestEnd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	address, asked := serve(t, status(500, ""))
	start := time.Now()
	if _, err := (Fetcher{Pause: time.Minute}).Get(ctx, address, 100); !errors.Is(err, context.DeadlineExceeded) || asked.Load() != 1 {
		t.Errorf("%v, asked %d times", err, asked.Load())
	}
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	if _, err := (Fetcher{Pause: time.Minute}).Get(t.Context(), secure.URL, 100); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("it took %v", d)
	}
	if _, err := (Fetcher{}).Get(t.Context(), address+"?seconds=1e8", 100); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Error(err)
	}
}

func TestName(t *testing.T) {
	for address, want := range map[string]string{
		"http://h:6060/debug/pprof/profile?seconds=30": "http://h:6060/debug/pprof/profile?seconds=30",
		"https://u:p@h/a b":                            "https://h/a%20b",
		"https://u@h/x?key=1&seconds=5#part":           "https://h/x?seconds=5&...",
		"https://h/x?secret":                           "https://h/x?...",
		"http://h/\x1b[31m":                            "an address that is none",
	} {
		if got := Name(address); got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
}

func TestMeasuring(t *testing.T) {
	for address, want := range map[string]time.Duration{
		"http://h/x?seconds=1.5": 1500 * time.Millisecond, "http://h/x": 0, "http://h/x?seconds=-1": 0,
		"http://h" + PprofPath: PprofTime, "http://h/service" + PprofPath + "?seconds=2": 2 * time.Second,
	} {
		req, err := http.NewRequest("GET", address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := measuring(Pprof(req.URL)); got != want {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
}
