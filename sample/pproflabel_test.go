package sample

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// TestReadPprofLabel: samples by the values of one label, whatever else is beside it.
func TestReadPprofLabel(t *testing.T) {
	p := cpuProfile() // of 7, 2, 1, 3 samples and more
	p.Sample[0].Label = map[string][]string{"handler": {"/a"}, "request": {"17"}}
	p.Sample[1].Label = map[string][]string{"handler": {"/b"}}
	p.Sample[2].Label = map[string][]string{"handler": {"/a", "/b"}} // of no single kind
	p.Sample[3].Label = map[string][]string{"handler": {"/a"}}
	p.Sample[4].Label = map[string][]string{"request": {"18"}}
	p.Sample[5].NumLabel = map[string][]int64{"bytes": {4096}}
	zipped, plain := encodePprof(t, p)
	for _, b := range [][]byte{zipped, plain} {
		by, err := ReadPprofLabel(bytes.NewReader(b), "handler")
		if want := map[string]Labelled{"cpu-clock": {"/a": 10, "/b": 2, "": 1 + 4 + 5 + 6 + 8 + 9 + 1 + 1}}; err != nil || !reflect.DeepEqual(by, want) {
			t.Errorf("%v, %v; want %v", by, err, want)
		}
		if by, err = ReadPprofLabel(bytes.NewReader(b), "no such"); err != nil || !reflect.DeepEqual(by, map[string]Labelled{"cpu-clock": {"": 47}}) {
			t.Errorf("a label that none has: %v, %v", by, err)
		}
		if _, err = ReadPprofLabel(bytes.NewReader(b), "bytes"); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "sample 5: label bytes: a number") {
			t.Errorf("a label that is a number: %v", err)
		}
	}
	// The labels are left out of what else is read.
	if r, err := ParseProfile(bytes.NewReader(plain)); err != nil || len(r.Sample[0].Label) > 0 {
		t.Errorf("%v, %v", r.Sample[0].Label, err)
	}
	for _, n := range []int{maxPprofKinds, maxPprofKinds + 1} {
		q := cpuProfile()
		for i := range n {
			q.Sample = append(q.Sample, &profile.Sample{Location: q.Sample[0].Location, Value: []int64{1, 1}, Label: map[string][]string{"request": {fmt.Sprint(i)}}})
		}
		_, plain := encodePprof(t, q)
		if _, err := ReadPprofLabel(bytes.NewReader(plain), "request"); errors.Is(err, ErrManyKinds) != (n > maxPprofKinds) {
			t.Errorf("%d values: %v", n, err)
		}
	}
}

// TestReadPprofLabelOfRuntime reads the labels that Go's runtime/pprof writes.
func TestReadPprofLabelOfRuntime(t *testing.T) {
	var out bytes.Buffer
	if err := pprof.StartCPUProfile(&out); err != nil {
		t.Skip(err)
	}
	for _, handler := range []string{"/a", "/b"} {
		pprof.Do(context.Background(), pprof.Labels("handler", handler, "request", "17"), func(context.Context) {
			for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
				fmt.Fprintf(&strings.Builder{}, "%d", end.UnixNano())
			}
		})
	}
	pprof.StopCPUProfile()
	by, err := ReadPprofLabel(&out, "handler")
	if err != nil {
		t.Fatal(err)
	}
	clock := by["cpu-clock"]
	var all uint64
	for _, n := range clock {
		all += n
	}
	if all < 10 {
		t.Skipf("%d samples in 0.6 s: this machine was too busy", all)
	}
	for value := range clock {
		if value != "/a" && value != "/b" && value != "" {
			t.Errorf("a value %q", value)
		}
	}
	if (clock["/a"]+clock["/b"])*2 < all || clock["/a"] == 0 && clock["/b"] == 0 {
		t.Errorf("%v: most samples have no label", clock)
	}
}
