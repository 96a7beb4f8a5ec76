package trace

import (
	"slices"
	"testing"

	"backfeed/sample"
)

// TestWant: sites of different phases are wanted first, and only such as may be armed together.
func TestWant(t *testing.T) {
	p := newWeighed([5]float64{1, 3, 1, 5, 10})
	phase := func(off sample.Offset) int { return int(off / 0x300) }
	every := func(sample.ImageID, sample.Offset) bool { return true }
	for _, tt := range []struct {
		name string
		opt  WantOptions
		want []int // sites of each group
	}{
		{"all", WantOptions{every, 3, 9, 1e9}, []int{5}},
		{"two of each group", WantOptions{every, 2, 2, 1e9}, []int{2, 2}},
		{"that are able", WantOptions{func(_ sample.ImageID, off sample.Offset) bool { return off != 0x300 }, 3, 9, 1e9}, []int{4}},
		{"one of each phase", WantOptions{every, 1, 9, 6e5}, []int{2}},
		{"that run seldom", WantOptions{every, 3, 9, 1}, nil},
	} {
		groups := p.walked(5000).Want(nil, tt.opt)
		var got []int
		for _, g := range groups {
			got = append(got, len(g.Sites))
			for _, s := range g.Sites {
				if !tt.opt.Able(g.ID, s.Off) || s.Rate <= 0 {
					t.Errorf("%s: %+v of %+v", tt.name, s, g)
				}
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: groups of %v sites, want %v: %+v", tt.name, got, tt.want, groups)
			continue
		}
		if len(got) > 0 && phase(groups[0].Sites[0].Off) == phase(groups[0].Sites[1].Off) {
			t.Errorf("%s: two of one phase first: %+v", tt.name, groups[0])
		}
	}
	// What is known need not be asked for first.
	w := p.walked(5000)
	known := w.Want(nil, WantOptions{every, 1, 2, 1e9})[0].Sites
	var rates []Rate
	for _, s := range known {
		rates = append(rates, p.rates(int(s.Off/0x100))...)
	}
	for _, s := range w.Want(rates, WantOptions{every, 1, 2, 1e9})[0].Sites {
		if slices.ContainsFunc(known, func(o Wanted) bool { return o.Off == s.Off }) {
			t.Errorf("%#x is known, and wanted", s.Off)
		}
	}
	if none := new(Walks).Want(nil, WantOptions{every, 1, 9, 1e9}); len(none) > 0 {
		t.Errorf("no walks want %+v", none)
	}
}

// TestWantLike: of places that walks of all regions pass through equally often, one is compared.
func TestWantLike(t *testing.T) {
	at := func(path string, off sample.Offset, cells ...cell) (c candidate) {
		c = candidate{id: sample.ImageID{Path: path}, off: off, cells: cells}
		for _, v := range cells {
			c.walks, c.n = c.walks+v.walks, c.n+v.n
		}
		return c
	}
	first := at("/a", 1, cell{0, 3, 4, 6}, cell{2, 1, 1, 1})
	for _, tt := range []struct {
		name  string
		other candidate
		like  bool
	}{
		{"behind it", at("/a", 2, cell{0, 3, 4, 6}, cell{2, 1, 1, 1}), true},
		{"of another image", at("/b", 2, cell{0, 3, 4, 6}, cell{2, 1, 1, 1}), false},
		{"in another region", at("/a", 2, cell{0, 3, 4, 6}, cell{1, 1, 1, 1}), false},
		{"more often in a walk", at("/a", 2, cell{0, 3, 5, 9}, cell{2, 1, 1, 1}), false},
	} {
		if got := first.like(tt.other); got != tt.like {
			t.Errorf("%s: like %v, want %v", tt.name, got, tt.like)
		}
	}
}
