package refresh

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/fetch"
	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
)

// TestFetchKinds: a pinned file that is not there is the same kind of failure wherever it is looked for, and another than one with other bytes.
func TestFetchKinds(t *testing.T) {
	server := httptest.NewServer(http.FileServer(http.Dir(t.TempDir())))
	defer server.Close()
	other := t.TempDir()
	testtool.Write(t, other, "a-1.prof", "b")
	k := &Locked{Path: "prof/a.prof", Store: "pins", Name: "a-1.prof", SHA256: sumOf([]byte("a")), Bytes: 1}
	for _, tt := range []struct {
		name string
		opt  FetchOptions
		want fail.Kind
	}{
		{"no file", FetchOptions{}, fail.Other},
		{"none in another directory", FetchOptions{Store: t.TempDir()}, fail.Other},
		{"none at a server", FetchOptions{Store: server.URL}, fail.Other},
		{"no server is asked", FetchOptions{Store: server.URL, Offline: true}, fail.Other},
		{"other bytes", FetchOptions{Store: other}, fail.Nothing},
	} {
		tt.opt.Notify, tt.opt.Get = report.Quiet{}, fetch.Fetcher{Tries: 1}
		if err := bring(t.Context(), t.TempDir(), k, tt.opt); err == nil || fail.KindOf(err) != tt.want {
			t.Errorf("%s: error %v of kind %v, want %v", tt.name, err, fail.KindOf(err), tt.want)
		}
	}
	err := Fetch(t.Context(), filepath.Join(t.TempDir(), "backfeed.lock"), FetchOptions{Notify: report.Quiet{}})
	if err == nil || fail.KindOf(err) != fail.Other {
		t.Errorf("no lock: error %v of kind %v", err, fail.KindOf(err))
	}
}
