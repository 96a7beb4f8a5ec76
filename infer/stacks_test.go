package infer

import (
	"reflect"
	"testing"

	"backfeed/infer/image"
	"backfeed/sample"
)

// TestStacks: the word at the stack pointer becomes the caller where a procedure
// has not set up a frame, and goes elsewhere.
func TestStacks(t *testing.T) {
	im, err := image.Open("../testdata/mix/mix", image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	id := sample.ImageID{Build: im.Build, Path: "/usr/bin/mix"}
	p := &Profile{Images: []*ImageProfile{{ID: id, Image: im}}}

	// find returns the first place in main where the return address lies so far from
	// the stack pointer.
	find := func(want int64) image.Addr {
		i := im.Lookup("main")
		if i < 0 {
			t.Fatal("no main")
		}
		main := im.Symbols()[i]
		for a := main.Addr; a < main.Addr+image.Addr(main.Size); a++ {
			if at, known := im.ReturnAt(a); known && at == (image.StackPlace{Off: want}) {
				return a
			}
		}
		t.Fatalf("in main, the return address is never %d bytes from the stack pointer", want)
		return 0
	}

	c := sample.NewCounts(sample.CPU{}, sample.Event{})
	prog, other := c.Image(id), c.Image(sample.ImageID{Path: "/lib/other.so"})
	frame := func(a image.Addr) sample.Frame {
		off, ok := im.OffsetOf(a)
		if !ok {
			t.Fatalf("%#x is not in the file", a)
		}
		return sample.Frame{Image: prog, Off: off}
	}
	none := sample.Frame{Image: sample.Unknown}
	entry, pushed, body := frame(find(0)), frame(find(8)), frame(find(16))
	top, outer := sample.Frame{Image: other, Off: 0x77}, sample.Frame{Image: other, Off: 0x99}
	foreign := sample.Frame{Image: other, Off: 8}
	for _, tt := range []struct {
		name   string
		frames []sample.Frame
		top    sample.Frame
		want   []sample.Frame
	}{
		{"entry", []sample.Frame{entry, outer}, top, []sample.Frame{entry, top, outer}},
		{"entry, nothing found by frame pointers", []sample.Frame{entry}, top, []sample.Frame{entry, top}},
		{"entry, no word", []sample.Frame{entry, outer}, none, []sample.Frame{entry, outer}},
		{"frame pointer saved", []sample.Frame{pushed, outer}, top, []sample.Frame{pushed, top, outer}},
		{"frame pointer saved, nothing found by it", []sample.Frame{pushed}, top, []sample.Frame{pushed, top}},
		{"frame pointer set up", []sample.Frame{pushed, top, outer}, top, []sample.Frame{pushed, top, outer}},
		{"frame set up", []sample.Frame{body, outer}, top, []sample.Frame{body, outer}},
		{"image not at hand", []sample.Frame{foreign, outer}, top, []sample.Frame{foreign, outer}},
		{"outside code", []sample.Frame{{Image: prog, Off: 1}, outer}, top, []sample.Frame{{Image: prog, Off: 1}, outer}},
	} {
		c.Stacks = nil
		c.AddStackTop(tt.frames, tt.top, 3)
		want := []sample.Stack{{Frames: tt.want, Top: none, N: 3}}
		if got := p.Stacks(c); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", tt.name, got, want)
		}
		if s := c.Stacks[0]; s.Top != tt.top || !reflect.DeepEqual(s.Frames, tt.frames) {
			t.Errorf("%s: the counts have changed: %v", tt.name, s)
		}
	}
}
