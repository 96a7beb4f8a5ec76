package truth

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"backfeed/infer/image"
)

func TestAdd(t *testing.T) {
	of := func(n uint64) *Counts {
		c := new(Counts)
		it := c.Image("/bin/a")
		it.Insts[0x10], it.Jumps[Transfer{0x10, 0x20}], it.Calls[Transfer{0x20, 0x30}] = n, n+1, n+2
		it.Events = map[string]map[image.Addr]uint64{"Bcm": {0x10: n}}
		return c
	}
	sum, other := of(1), new(Counts)
	other.Image("/bin/b").Insts[0x40] = 7
	for _, c := range []*Counts{of(10), other} {
		if err := sum.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	want := of(11)
	want.Images["/bin/a"].Jumps[Transfer{0x10, 0x20}], want.Images["/bin/a"].Calls[Transfer{0x20, 0x30}] = 13, 15
	want.Image("/bin/b").Insts[0x40] = 7
	if !reflect.DeepEqual(sum, want) {
		t.Errorf("got %v, want %v", sum.Images, want.Images)
	}
	if err := sum.Add(of(math.MaxUint64 - 2)); !errors.Is(err, ErrFormat) {
		t.Errorf("a sum beyond 64 bits: %v", err)
	}
}
