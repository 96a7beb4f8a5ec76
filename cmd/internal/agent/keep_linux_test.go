package agent

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/sample"
	"backfeed/sample/store"
	"backfeed/testdata/tiny"
)

// TestKeepTooLarge: a program of 40 GB, nearly all of it a hole, is not copied; nor is one
// that --retain-size has no room for; nor, for long, one when the agent was told to end.
func TestKeepTooLarge(t *testing.T) {
	build := sample.BuildID{1, 19: 1}
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, tiny.ELF(build), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 40<<30); err != nil {
		t.Skip(err)
	}
	into, err := store.Create(filepath.Join(t.TempDir(), "store"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ended, end := context.WithCancel(t.Context())
	end()
	for _, tt := range []struct {
		name string
		opt  Options
		ctx  context.Context
		want string
	}{
		{"by default", Options{MaxImage: 1 << 30}, t.Context(), "more than --max-image-size 1G"},
		{"no room", Options{MaxImage: 1 << 40, Retain: store.Retention{MaxBytes: 1 << 30}}, t.Context(), "--retain-size leaves 1073741824"},
		{"no room by default", Options{MaxImage: 1 << 40}, t.Context(), "copies take 4G at most without --retain-size, which leaves 4294967296"},
		{"told to end", Options{MaxImage: 1 << 40, Retain: store.Retention{MaxBytes: 1 << 40}}, ended, "context canceled"},
	} {
		a := Agent{opt: tt.opt, into: into, work: tt.ctx}
		err := a.copy(sample.ImageID{Path: path, Build: build}, file, store.KindFile)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
	if st, err := into.Stats(); err != nil || st.CopyBytes != 0 {
		t.Errorf("%+v, %v", st, err)
	}
}
