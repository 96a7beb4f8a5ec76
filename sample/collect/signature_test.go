package collect

import (
	"math/bits"
	"reflect"
	"testing"
)

// TestAddressBits: no address of code is changed, and what is left out are the bits above.
func TestAddressBits(t *testing.T) {
	b := addressBits()
	t.Logf("%#x", b)
	pc := uint64(reflect.ValueOf(TestAddressBits).Pointer())
	if pc&b != pc || bits.Len64(b) != bits.OnesCount64(b) || bits.Len64(b) < 39 { // the smallest user address space of Linux on AArch64
		t.Errorf("%#x of %#x", b, pc)
	}
}
