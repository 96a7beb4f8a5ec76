package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// TestURL: an address is a source of every command, of which no message shows more than it must.
func TestURL(t *testing.T) {
	own := testtool.Read(t, recording(t, t.TempDir(), "own", sample.ImageID{Path: "/nowhere"}))
	asked := atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch asked.Add(1); r.URL.Path {
		case "/own", "/at@sign":
			w.Write([]byte(own))
		case "/perf":
			w.Write(tinyPerf())
		case "/debug/pprof/profile":
			w.Write(tinyPprof(t, true))
		case "/later":
			if asked.Load() == 1 {
				http.Error(w, "profiling is on already", 500)
				return
			}
			w.Write([]byte(own))
		case "/page":
			w.Write([]byte("<html>sign in</html>"))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	base, out := strings.Replace(server.URL, "http://", "http://user:pa55word@", 1), filepath.Join(t.TempDir(), "out")
	const token = "?token=t0ps3cret"
	samples := func(args ...string) uint64 {
		t.Helper()
		code, _, errs := runCLI(t, append(args, "-o", out)...)
		if code != exitDone || strings.Contains(errs, "pa55word") {
			t.Fatalf("%q: exit code %d: %s", args, code, errs)
		}
		return decode(t, out).Samples()
	}
	one := decode(t, testtool.Write(t, t.TempDir(), "own", own)).Samples()
	for _, tt := range []struct {
		want uint64
		args []string
	}{
		{one, []string{"import", base + "/own" + token}},
		{3, []string{"import", base + "/perf"}},
		{3, []string{"import", base}},
		{3, []string{"import", base + "/debug/pprof/"}},
		{2 * one, []string{"merge", base + "/own" + token, base + "/own"}},
		{4 * one, []string{"merge", base + "/own@4"}},
		{one, []string{"merge", base + "/at@sign"}},
		{2 * one, []string{"merge", base + "/at@sign@2"}},
	} {
		if got := samples(tt.args...); got != tt.want {
			t.Errorf("%q: %d samples, want %d", tt.args, got, tt.want)
		}
	}
	asked.Store(0)
	if got := samples("import", base+"/later"); got != one || asked.Load() != 2 {
		t.Errorf("%d samples of a server that answers the second time, asked %d times", got, asked.Load())
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"import", base + "/other" + token, "-o", out}, exitFailed, "404"},
		{[]string{"emit", "go", base + "/page" + token, "-o", out}, exitNothing, "neither a backfeed recording"},
		{[]string{"check", base + "/own" + token}, exitNothing, "none of"},
		{[]string{"merge", base + "/own" + token, "--half-life", "1d", "-o", out}, exitUsage, "no source is one"},
		{[]string{"merge", base + "/own" + token + "@-1", "-o", out}, exitUsage, "want a weight"},
		{[]string{"infer", base + "/own" + token, "--since", "1d"}, exitUsage, "it chooses from a store"},
		{[]string{"merge", base + "/page" + token, base + "/own", "--failure-mode", "all", "-o", out}, exitDone, "it is left out"},
	} {
		code, _, errs := runCLI(t, tt.args...)
		if code != tt.code || !strings.Contains(errs, tt.says) {
			t.Errorf("%q: exit code %d, want %d, %s: %s", tt.args, code, tt.code, tt.says, errs)
		}
		for _, secret := range []string{"pa55word", "t0ps3cret"} {
			if strings.Contains(errs, secret) {
				t.Errorf("%q shows %s: %s", tt.args, secret, errs)
			}
		}
	}
}
