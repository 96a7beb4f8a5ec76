package bound

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestUnpack: what gzip makes a thousandth of is refused early, and a small file may
// be as repetitive as it likes.
func TestUnpack(t *testing.T) {
	for _, tt := range []struct {
		size int
		ok   bool
	}{{1000, true}, {unpackFloor, true}, {2 * unpackFloor, false}} {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		z.Write(make([]byte, tt.size))
		z.Close()
		in, r := Stream(&packed)
		zr, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, in.Unpack(zr))
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrBeyond) {
			t.Errorf("%d bytes: %v", tt.size, err)
		}
		if tt.ok && n != int64(tt.size) || n > in.Unpacked() {
			t.Errorf("%d bytes came out of %d", n, tt.size)
		}
	}
}

func TestHold(t *testing.T) {
	in := Sized(1 << 20)
	all := int64(holdFloor + holdRate<<20)
	if err := in.Hold(all); err != nil {
		t.Fatal(err)
	}
	err := in.Hold(1)
	if !errors.Is(err, ErrBeyond) {
		t.Fatalf("one byte more: %v", err)
	}
	if want := "192 MiB of memory for 1024 KiB of the file: out of proportion"; err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	in.Release(10)
	if err := in.Hold(10); err != nil {
		t.Errorf("what was given back: %v", err)
	}
	if err := Sized(math.MaxInt64).Hold(1); err != nil {
		t.Errorf("the size of a sparse file: %v", err)
	}
}

// TestMemory: the budget of the process is what the heap has, whoever holds it.
func TestMemory(t *testing.T) {
	used := heap()
	if err := within(1<<20, used+64<<20); err != nil {
		t.Error(err)
	}
	if err := within(128<<20, used+64<<20); !errors.Is(err, ErrBeyond) {
		t.Errorf("128 MiB where there are 64: %v", err)
	}
	if err := Memory(1 << 50); !errors.Is(err, ErrBeyond) {
		t.Errorf("a petabyte: %v", err)
	}
	var none *Input
	if err := none.Hold(1 << 50); !errors.Is(err, ErrBeyond) {
		t.Errorf("a petabyte for no file: %v", err)
	}
}

// TestLimits reads what a kernel says of the memory of the machine and of control groups.
func TestLimits(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(path), 0o700)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if n := available(put("meminfo", "MemTotal:       2000 kB\nMemAvailable:    1000 kB\n")); n != 1000<<10 {
		t.Errorf("%d bytes available", n)
	}
	own := put("cgroup", "1:name=systemd:/other\n0::/ci/job\n")
	put("ci/job/memory.max", "max\n")
	if n := controlGroup(own, dir); n != math.MaxInt64 {
		t.Errorf("no limit is %d", n)
	}
	put("ci/memory.max", "4096\n")
	if n := controlGroup(own, dir); n != 4096 {
		t.Errorf("the limit of the group around ours is %d", n)
	}
	old := put("cgroup1", "7:memory:/docker/1\n0::/\n")
	put("memory/docker/1/memory.limit_in_bytes", "8192\n")
	put("memory/memory.limit_in_bytes", "9223372036854771712\n") // none
	if n := controlGroup(old, dir); n != 8192 {
		t.Errorf("the limit of a group of version 1 is %d", n)
	}
	if n := available(filepath.Join(dir, "none")); n != math.MaxInt64 {
		t.Errorf("nothing known is %d", n)
	}
	if got := strings.Join([]string{Bytes(17), Bytes(20 << 10), Bytes(3 << 30)}, ", "); got != "17 bytes, 20 KiB, 3072 MiB" {
		t.Error(got)
	}
}

// TestWatch: a context ends when there is more memory in use than it was given, with that cause, and
// not when there is less.
func TestWatch(t *testing.T) {
	enough, end := Watch(t.Context(), Used()+1<<40)
	defer end()
	ctx, stop := Watch(t.Context(), Used()+32<<20)
	defer stop()
	full := make([]byte, 64<<20)
	for i := range full {
		full[i] = 1
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, ErrBeyond) || full[0] != 1 {
		t.Errorf("ended by %v", err)
	}
	if err := enough.Err(); err != nil {
		t.Errorf("with memory enough: %v", err)
	}
	runtime.KeepAlive(full)
}
