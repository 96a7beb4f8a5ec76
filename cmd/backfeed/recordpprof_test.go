package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/sample"
)

// TestRecordPprof records this test by its own server.
func TestRecordPprof(t *testing.T) {
	done := make(chan struct{})
	defer close(done)
	go func() { // something to profile
		for x := uint32(1); ; {
			select {
			case <-done:
				return
			default:
				for range 1 << 20 {
					x = x*1103515245 + 12345
				}
				if x == 0 {
					t.Log(x)
				}
			}
		}
	}()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Error("the other host was asked") }))
	defer other.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) })
	mux.HandleFunc("/nonsense", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("nonsense")) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for b := make([]byte, 1<<20); ; {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	dir := t.TempDir()
	for _, tt := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"server", []string{"--pprof", server.URL, "-d", "1s"}, exitDone, "samples of runtime/pprof"},
		{"not there", []string{"--pprof", server.URL + "/other", "-d", "1s"}, exitFailed, "404"},
		{"moved", []string{"--pprof", server.URL + "/moved", "-d", "1s"}, exitFailed, "302"},
		{"nonsense", []string{"--pprof", server.URL + "/nonsense", "-d", "1s"}, exitFailed, "pprof: "},
		{"endless", []string{"--pprof", server.URL + "/endless", "-d", "1s"}, exitFailed, "more than"},
		{"nobody there", []string{"--pprof", "http://127.0.0.1:1", "-d", "1s"}, exitFailed, "refused"},
		{"no address", []string{"--pprof", "file:///etc/passwd"}, exitUsage, "want an address"},
		{"command", []string{"--pprof", server.URL, "--", "true"}, exitUsage, "--pprof goes alone"},
		{"processes", []string{"--pprof", server.URL, "-p", "1"}, exitUsage, "--pprof goes alone"},
		{"machine", []string{"--pprof", server.URL, "-a"}, exitUsage, "--pprof goes alone"},
		{"frequency", []string{"--pprof", server.URL, "-F", "1000"}, exitUsage, "--pprof goes alone"},
	} {
		file := filepath.Join(dir, strings.ReplaceAll(tt.name, " ", "-"))
		code, _, errs := runAs(recordCmd, append([]string{"-o", file}, tt.args...)...)
		if code != tt.code || !strings.Contains(errs, tt.says) {
			t.Errorf("%s: exit code %d, %q; want %d, %q", tt.name, code, errs, tt.code, tt.says)
		}
		b, err := os.ReadFile(file)
		if code != exitDone {
			if !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: it wrote something: %v", tt.name, err)
			}
			continue
		}
		rec, err := sample.Decode(b)
		if err != nil || rec.Counts[0].Event.Name != "cpu-clock" || rec.Samples() < 10 {
			t.Errorf("%s: %d samples, %v", tt.name, rec.Samples(), err)
		}
	}
}
