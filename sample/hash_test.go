package sample

import (
	"bytes"
	"testing"
)

func TestHashPaths(t *testing.T) {
	build := BuildID{1, 2}
	rec := func(paths ...string) *Recording {
		c := NewCounts(CPU{}, Event{Name: "cpu-clock"})
		for i, p := range paths {
			id := ImageID{Path: p}
			if i == 0 {
				id.Build = build
			}
			c.AddSample(c.Image(id), Offset(16*i), uint64(i+1))
		}
		c.AddStackTop([]Frame{{1, 16}, {0, 4}}, Frame{0, 8}, 2)
		c.AddOrigin(Origin{Process: "tool", Thread: "ann"}, 1)
		r := &Recording{Counts: []*Counts{c}}
		r.AddRun(Run{Began: uint64(len(paths)), Host: "ann", Command: []string{"tool"}})
		return Merge(r)
	}
	of := rec("/home/ann/tool", "/tmp/perf-123.map", "/home/ann/no-build-id")
	before := of.Encode()
	got := of.HashPaths()
	if !bytes.Equal(before, of.Encode()) {
		t.Error("the recording itself has changed")
	}
	b := got.Encode()
	for _, name := range []string{"ann", "tool", "perf-123", "no-build"} {
		if bytes.Contains(b, []byte(name)) {
			t.Errorf("%q is left", name)
		}
	}
	if _, err := Decode(b); err != nil {
		t.Error(err)
	}
	if got.Samples() != of.Samples() || len(got.Counts[0].Images) != 3 {
		t.Errorf("%d samples of %d images, want those of before", got.Samples(), len(got.Counts[0].Images))
	}
	if !bytes.Equal(b, got.HashPaths().Encode()) {
		t.Error("what is hashed is hashed again")
	}
	// Recordings of machines add up after hashing as they do before it.
	other := rec("/home/ann/tool", "/tmp/perf-7.map")
	if !bytes.Equal(Merge(got, other.HashPaths()).Encode(), Merge(of, other).HashPaths().Encode()) {
		t.Error("merged and then hashed is not hashed and then merged")
	}
	if id := (ImageID{Path: "[vdso]"}); id.HashPath() != id {
		t.Error("the name of a mapping without a file is hashed")
	}
}
