package perfdata

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestWorkers: however many goroutines read a recording, it has the same encoding, the same warnings
// or the same error.
func TestWorkers(t *testing.T) {
	t.Parallel()
	read := func(b []byte, depth, procs int) string {
		var said strings.Builder
		rec, err := Read(bytes.NewReader(b), Options{StackDepth: depth, procs: procs, Warn: func(msg string) { fmt.Fprintln(&said, msg) }})
		if err != nil {
			return err.Error()
		}
		return said.String() + string(rec.Encode())
	}
	refused := 0
	same := func(name string, b []byte) {
		for _, depth := range []int{0, -1, 64} {
			one := read(b, depth, 1)
			if strings.Contains(one, ErrFormat.Error()) {
				refused++
			}
			for _, procs := range []int{2, 3} {
				if many := read(b, depth, procs); many != one {
					t.Fatalf("%s, stacks of %d: by %d goroutines:\n%.300q\nby one:\n%.300q", name, depth, procs, many, one)
				}
			}
		}
	}
	files, err := filepath.Glob("testdata/*.data")
	if err != nil || len(files) < 2*len(recordings) {
		t.Fatalf("%d files, error %v", len(files), err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		same(file, b)
		for range 2 {
			cut := b[:r.IntN(len(b))]
			same(fmt.Sprintf("%s, %d bytes of it", file, len(cut)), cut)
			bad := bytes.Clone(b)
			bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
			same(file+", a bit changed", bad)
		}
	}
	for i := range 6 {
		b := drawn(i, 2000)
		same(fmt.Sprintf("drawn %d", i), b)
		for range 3 {
			bad := bytes.Clone(b)
			bad[r.IntN(len(bad))] ^= 0xff
			same(fmt.Sprintf("drawn %d, a byte changed", i), bad)
		}
	}
	if refused < 100 {
		t.Errorf("only %d were refused", refused)
	}
}

// drawn returns a recording of n records, by its number: a file or one for a pipe, compressed in one of two ways or not.
func drawn(i, n int) []byte {
	s := &synth{feat: map[int][]byte{}}
	drawRecords(s, rand.New(rand.NewPCG(5, uint64(i))), n)
	s.feat[featureEventDesc] = s.describe()
	switch i / 2 % 3 {
	case 1:
		s.compress(recordCompressed, 30000)
	case 2:
		s.compress(recordCompressed2, 7000)
	}
	if i%2 == 0 {
		return s.file()
	}
	return s.pipe()
}

// TestWorkersStop: an error in a recording that goes on for ever is returned, and no
// goroutine is left.
func TestWorkersStop(t *testing.T) {
	for _, procs := range []int{1, 2, 5} {
		before := runtime.NumGoroutine()
		e := newEndless(1 << 62)
		e.looked = -1 << 62
		n := 0
		in := readerFunc(func(b []byte) (int, error) {
			k, err := e.Read(b)
			if n += k; n > 3<<20 {
				clear(b[:k]) // a record of no size
			}
			return k, err
		})
		_, err := Read(in, Options{procs: procs})
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "size: 0, less than its header has") {
			t.Errorf("%d goroutines: error %v", procs, err)
		}
		for runtime.NumGoroutine() > before { // those that have ended take a moment to be gone
			runtime.Gosched()
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
