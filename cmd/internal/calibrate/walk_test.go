package calibrate

import (
	"os"
	"slices"
	"testing"

	"backfeed/infer/image"
	"backfeed/sample"
	"backfeed/sample/trace"
)

// walkedProcs returns the image of the test itself with samples in three of its procedures, and
// their symbols.
func walkedProcs(t *testing.T, samples [3]uint64) (*sampledImage, []int) {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	im, err := image.Open(path, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Close() })
	ip := &sampledImage{id: sample.ImageID{Path: path}, image: im, procs: map[int]uint64{}}
	var procs []int
	for i, name := range []string{"os.Getenv", "os.OpenFile", "os.ReadFile"} {
		s := ip.image.Lookup(name)
		if s < 0 {
			t.Fatalf("no %s in %s", name, path)
		}
		procs = append(procs, s)
		if samples[i] > 0 {
			ip.procs[s] = samples[i]
		}
	}
	return ip, procs
}

// TestWalkedCode: walks go through what ran most first, by samples and by the walks that left what they
// knew for it; then through what that calls.
func TestWalkedCode(t *testing.T) {
	ip, procs := walkedProcs(t, [3]uint64{1, 5, 0})
	left := map[trace.Left]int{
		{ID: ip.id.Key(), Addr: uint64(ip.image.Symbols()[procs[2]].Addr) + 4}: 3,
		{ID: sample.ImageID{Path: "/other"}, Addr: 1}:                          9,
	}
	w := newWalkedCode(ip, left, nil)
	want := []int{procs[1], procs[2], procs[0]}
	if !slices.Equal(w.next[ran], want) {
		t.Errorf("walks would go through %d first, want %d", w.next[ran], want)
	}
	if n := w.take(ran, 1); n == 0 || n != w.many || len(w.in) != 1 || !w.in[procs[1]] {
		t.Errorf("with room for little, %d operations of %v", n, w.in)
	}
	w.take(ran, mostWalked)
	if len(w.in) != 3 || len(w.next[called]) == 0 {
		t.Errorf("%d procedures, and %d that they call", len(w.in), len(w.next[called]))
	}
	n := len(w.next[called])
	if w.take(called, mostWalked); len(w.in) < 3+n {
		t.Errorf("%d procedures, want %d or more", len(w.in), 3+n)
	}
}

// TestHottest: images are looked into until they have enough of the samples in files.
func TestHottest(t *testing.T) {
	id := func(path string) sample.ImageID { return sample.ImageID{Path: path} }
	for _, tt := range []struct {
		name string
		in   map[sample.ImageID]uint64
		want []sample.ImageID
	}{
		{"nothing", nil, nil},
		{"one has all", map[sample.ImageID]uint64{id("/a"): 1}, []sample.ImageID{id("/a")}},
		{"most first", map[sample.ImageID]uint64{id("/a"): 30, id("/b"): 50, id("/c"): 20}, []sample.ImageID{id("/b"), id("/a"), id("/c")}},
		{"not what has little", map[sample.ImageID]uint64{id("/a"): 970, id("/b"): 15, id("/c"): 10, id("/d"): 5}, []sample.ImageID{id("/a"), id("/b")}},
	} {
		rec := &sample.Recording{}
		c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Period: 1, Unit: "ns"})
		for id, n := range tt.in {
			c.AddSample(c.Image(id), 1, n)
		}
		c.AddSample(c.Image(id("[vdso]")), 1, 1000) // that is no file
		c.AddSample(c.Image(sample.ImageID{Path: "[kernel]", Build: sample.BuildID{1}}), 1, 1000)
		rec.Add(c)
		in := map[sample.ImageID]uint64{}
		if byImage(in, rec); !slices.Equal(hottest(in), tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, hottest(in), tt.want)
		}
	}
	many := map[sample.ImageID]uint64{}
	for i := range 2 * probedImages {
		many[id(string(rune('a'+i)))] = 1
	}
	if n := len(hottest(many)); n != probedImages {
		t.Errorf("%d images, want %d", n, probedImages)
	}
}

func TestMissedCode(t *testing.T) {
	ip, procs := walkedProcs(t, [3]uint64{90, 2, 8})
	at := func(i int) trace.Left {
		return trace.Left{ID: ip.id.Key(), Addr: uint64(ip.image.Symbols()[procs[i]].Addr)}
	}
	for _, tt := range []struct {
		name   string
		walked map[int]bool // nil: the image is new
		left   map[trace.Left]int
		missed bool
	}{
		{"a new image", nil, nil, true},
		{"all is known", map[int]bool{procs[0]: true, procs[1]: true, procs[2]: true}, map[trace.Left]int{at(0): 100}, false},
		{"little ran elsewhere", map[int]bool{procs[0]: true, procs[2]: true}, nil, false},
		{"much ran elsewhere", map[int]bool{procs[0]: true, procs[1]: true}, nil, true},
		{"walks would go there", map[int]bool{procs[0]: true, procs[2]: true}, map[trace.Left]int{at(1): 40}, true},
	} {
		k := &Calibrator{walked: map[sample.ImageID]map[int]bool{}}
		if tt.walked != nil {
			k.walked[ip.id.Key()] = tt.walked
		}
		w := newWalkedCode(ip, tt.left, nil)
		if got := k.missed([]*walkedCode{w}, 1000); got != tt.missed {
			t.Errorf("%s: missed is %v", tt.name, got)
		}
	}
}
