package main

import (
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/sample"
	"backfeed/sample/store"
)

// secretKey is what no output may have.
const secretKey = "a-secret-that-nobody-sees"

// bucketStore serves an empty bucket, and returns the address of a store in it.
func bucketStore(t *testing.T) string {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIATESTKEYID")
	t.Setenv("AWS_SECRET_ACCESS_KEY", secretKey)
	backend := s3mem.New()
	if err := backend.CreateBucket("fleet"); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(gofakes3.New(backend, gofakes3.WithoutVersioning()).Server())
	t.Cleanup(srv.Close)
	return "s3://fleet/prefix?endpoint=" + srv.URL
}

// TestBucket: a bucket is a store as a directory is, for all that read one, before and after it is compacted.
func TestBucket(t *testing.T) {
	dir, address := filepath.Join(t.TempDir(), "store"), bucketStore(t)
	path, program := programRecording(t)
	own, mix := decode(t, path), decode(t, filepath.Join(mixDir, "samples.bfr"))
	for _, c := range mix.Counts { // samples of unlike periods are evened out, with other rounding errors where only some images are got
		c.Event.Period, c.Weight = own.Counts[0].Event.Period, 0
	}
	for i, rec := range []*sample.Recording{among(t, own), called(own), mix} {
		for _, into := range []string{dir, address} {
			s, err := store.Create(into, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			at := time.Date(2026, 1, 2, i, 30, 0, 0, time.UTC)
			if err := s.Put(sample.EpochAt(at, time.Hour), rec, map[string]string{"host": "h" + strconv.Itoa(i%2)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	readers := []string{
		"emit go {} --image " + program + " -o -", "prof {} --by image --format csv", "images {} --format csv",
		"emit llvm {} --symfs " + mixDir + " --image " + filepath.Join(mixDir, "mix") + " -o -", "emit go {} --label host=h0 --image " + program + " -o -",
		"emit llvm {} --since 2026-01-02T02:00:00Z --symfs " + mixDir + " -o -", "merge {} --half-life 1h -o " + filepath.Join(t.TempDir(), "merged.bfr"),
	}
	wanted := map[string]string{}
	same := func(when string) {
		t.Helper()
		for _, line := range readers {
			want, ok := wanted[line]
			if !ok {
				want = must(t, strings.Fields(strings.ReplaceAll(line, "{}", dir))...)
				wanted[line] = want
			}
			code, got, errs := runCLI(t, strings.Fields(strings.ReplaceAll(line, "{}", address))...)
			if got = strings.ReplaceAll(got, input.Name(address), dir); code != exitDone || got != want {
				t.Errorf("%s, %s: exit code %d, %d bytes are not the %d that the directory makes: %s", when, line, code, len(got), len(want), errs)
			}
		}
		for _, line := range []string{"store ls {}", "store stats {}", "store fsck {}", "store gc {} --retain 100000h"} {
			if out := must(t, strings.Fields(strings.ReplaceAll(line, "{}", address))...); strings.Contains(out, secretKey) {
				t.Errorf("%s: %s", line, out)
			}
		}
	}
	same("as put")
	for _, part := range []string{"0/2", "1/2"} {
		must(t, "store", "compact", address, "--shard", part)
	}
	same("compacted")
	must(t, "store", "compact", address, "--into", "24h", "--forget", "host")
	if rows := itemsOf[report.SegmentRow](t, "backfeed.store.ls/2", must(t, "store", "ls", address, "--format", "json")); len(rows) != 1 || rows[0].Puts != 3 || len(rows[0].Labels) > 0 {
		t.Errorf("%+v", rows)
	}
	line := readers[0]
	if got := must(t, strings.Fields(strings.ReplaceAll(line, "{}", address))...); got != wanted[line] {
		t.Errorf("%s: not the same of one day", line)
	}
}

// TestBucketRefused: what cannot be had is said without what is secret.
func TestBucketRefused(t *testing.T) {
	address := bucketStore(t)
	for _, tt := range []struct {
		path string
		code int
		says string
	}{
		{"s3://user:" + secretKey + "@fleet/x", exitUsage, "no keys in an address"},
		{"s3://", exitUsage, "want an address such as"},
		{"s3://fleet/x?token=" + secretKey, exitUsage, "want endpoint= or region="},
		{"s3://fleet/x?endpoint=nowhere", exitUsage, "want an endpoint such as"},
		{strings.Replace(address, "fleet", "missing", 1), exitFailed, "NoSuchBucket"},
		{address, exitNothing, "s3://fleet/prefix: no samples"},
	} {
		code, out, errs := runCLI(t, "infer", tt.path)
		if code != tt.code || !strings.Contains(errs, tt.says) || strings.Contains(errs+out, secretKey) {
			t.Errorf("%s: exit code %d, want %d: %s", input.Name(tt.path), code, tt.code, errs)
		}
	}
	if code, _, errs := runCLI(t, "store", "compact", t.TempDir(), "--shard", "0/2"); code != exitUsage || !strings.Contains(errs, "in a bucket") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
