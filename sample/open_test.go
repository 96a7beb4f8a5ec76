//go:build unix

package sample

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestOpenRegular: a regular file is opened, by a link too; nothing else is, and nothing waits.
func TestOpenRegular(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(in("file"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(syscall.Mkfifo(in("pipe"), 0o600), os.Symlink("file", in("link")), os.Symlink("pipe", in("linked pipe")), os.Mkdir(in("dir"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path string
		want error
	}{
		{in("file"), nil}, {in("link"), nil},
		{in("pipe"), ErrNotRegular}, {in("linked pipe"), ErrNotRegular}, {in("dir"), ErrNotRegular}, {os.DevNull, ErrNotRegular},
		{in("none"), fs.ErrNotExist},
	} {
		f, err := OpenRegular(tt.path)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.path, err, tt.want)
		}
		if err != nil {
			continue
		}
		if b, err := io.ReadAll(f); string(b) != "text" || err != nil || f.Name() != tt.path {
			t.Errorf("%s: read %q, %v; its name is %s", tt.path, b, err, f.Name())
		}
		f.Close()
	}
}
