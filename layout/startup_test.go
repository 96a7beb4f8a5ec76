package layout

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
)

// TestWindows holds windows to the cases of LLVM's BPFunctionNodeTest.cpp.
func TestWindows(t *testing.T) {
	for _, tt := range []struct {
		name   string
		traces [][]int
		want   string
	}{
		{"nothing", nil, "[[] [] [] [] []]"},
		{"one", [][]int{{0, 1, 2, 3}}, "[[0 1 2] [1 2] [2] [2] []]"},
		{"two", [][]int{{0, 1, 2, 3, 4}, {4, 2}}, "[[0 1 2 3] [1 2 3] [2 3 5] [2 3] [3 4 5]]"},
	} {
		if got := fmt.Sprint(windows(tt.traces, 5)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestDropOutliers(t *testing.T) {
	groups := [][]int{{0, 1, 2}, {1, 2}, {2}, {3}, {3}}
	dropOutliers(groups)
	if got, want := fmt.Sprint(groups), "[[1] [1] [] [3] [3]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestOrderTraces: what runs in one of two kinds of starts only lies apart from what
// runs in the other, and a single start is followed as it went.
func TestOrderTraces(t *testing.T) {
	if got := orderTraces([][]int{{5, 1, 3, 0, 2}}, 8); !slices.Equal(got, []int{5, 1, 3, 0, 2}) {
		t.Errorf("one start: %v", got)
	}
	var even, odd []int
	for i := range 64 {
		if i%2 == 0 {
			even = append(even, i)
		} else {
			odd = append(odd, i)
		}
	}
	order := orderTraces([][]int{even, odd}, 64)
	changes := 0
	for k := 1; k < len(order); k++ {
		if order[k]%2 != order[k-1]%2 {
			changes++
		}
	}
	if len(order) != 64 || changes > 6 {
		t.Errorf("two starts, with 63 changes between them when they are mixed: %d in %v", changes, order)
	}
}

// procsOf makes procedures of 16-byte blocks, 4096 bytes apart: "main:4" has 4. Calls
// are "main.1>init 3": the end of block 1 calls init, 3 times.
func procsOf(names, calls string) []*infer.Result {
	var procs []*infer.Result
	index := map[string]int{}
	for i, f := range strings.Fields(names) {
		name, n := f[:strings.Index(f, ":")], 0
		scan(f[strings.Index(f, ":")+1:], &n)
		at := image.Addr(0x10000 + 0x1000*i)
		p := &image.Proc{Symbol: image.Symbol{Name: name, Addr: at, Size: uint64(16 * n)}}
		for b := range n {
			p.Blocks = append(p.Blocks, image.Block{Start: at + image.Addr(16*b), End: at + image.Addr(16*b+16), Insts: 4})
		}
		procs = append(procs, uncounted(p))
		index[name] = i
	}
	for _, f := range strings.Split(calls, ", ") {
		if f == "" {
			continue
		}
		from, rest, _ := strings.Cut(f, ">")
		to, times, _ := strings.Cut(rest, " ")
		caller, block, _ := strings.Cut(from, ".")
		var b int
		var n float64
		scan(block, &b)
		scan(times, &n)
		r := procs[index[caller]]
		r.Proc.Calls = append(r.Proc.Calls, image.Call{Block: b, Site: r.Proc.Blocks[b].End - 5, To: procs[index[to]].Proc.Addr})
		r.Call = append(r.Call, infer.Freq{N: n})
	}
	return procs
}

func TestTrace(t *testing.T) {
	for _, tt := range []struct {
		name, calls, touches string // touches: "main.2 70", main's block 2 after 70 us
		want                 string
	}{
		{"untouched", "main.1>init 3", "", "main - init - run - deep -"},
		{"called when the caller came up", "main.1>init 3", "main.3 70", "main 70 init 70 run - deep -"},
		{"called not before what stands above", "main.1>init 1, main.3>run 1", "main.0 10, main.1 20, main.2 50", "main 10 init 20 run 50 deep -"},
		{"the earliest caller counts", "main.3>deep 1, init.0>deep 1", "main.3 90, init.0 40", "main 90 init 40 run - deep 40"},
		{"and callers of callers", "main.1>run 1, run.0>deep 1", "main.0 30", "main 30 init - run 30 deep 30"},
		{"never called", "main.1>init 0.2", "main.0 30", "main 30 init - run - deep -"},
		{"what was seen is believed", "main.0>init 1", "main.0 30, init.0 80", "main 30 init 80 run - deep -"},
		{"too late", "main.0>init 1", "main.0 130", "main 130 init - run - deep -"},
		{"round in a circle", "main.0>init 1, init.0>run 1, run.0>init 1", "main.0 5", "main 5 init 5 run 5 deep -"},
	} {
		procs := procsOf("main:4 init:1 run:1 deep:1", tt.calls)
		start := Start{}
		for _, f := range strings.Split(tt.touches, ", ") {
			place, us, ok := strings.Cut(f, " ")
			if !ok {
				continue
			}
			name, block, _ := strings.Cut(place, ".")
			var b int
			var at uint64
			scan(block, &b)
			scan(us, &at)
			i := slices.IndexFunc(procs, func(r *infer.Result) bool { return r.Proc.Name == name })
			start[procs[i].Proc.Blocks[b].Start+4] = at
		}
		tr := newTrace(procs, start, 100)
		order := tr.order()
		var got []string
		for i, r := range procs {
			at := "-"
			if tr.at[i] != never {
				at = fmt.Sprint(tr.at[i])
			}
			got = append(got, r.Proc.Name+" "+at)
		}
		for k := 1; k < len(order); k++ {
			if tr.at[order[k]] < tr.at[order[k-1]] {
				t.Errorf("%s: order %v", tt.name, order)
			}
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, s, tt.want)
		}
	}
}

func TestFaults(t *testing.T) {
	procs := procsOf("a:2 b:300 c:1", "") // at 0x10000, 0x11000 (to 0x122c0), 0x12000 over it
	run := [][]bool{{true, false}, make([]bool, 300), {false}}
	count := func() string {
		p := Linked(procs)
		return fmt.Sprint(faults(p, run), leastFaults(procs, run))
	}
	if got, want := count(), "{1 1} {1 1}"; got != want {
		t.Errorf("a block: %s, want %s", got, want)
	}
	run[1][0], run[1][299] = true, true // of another page and the next
	if got, want := count(), "{3 1} {1 1}"; got != want {
		t.Errorf("three blocks of three pages: %s, want %s", got, want)
	}
	procs[2].Proc.Blocks[0] = image.Block{Start: 0x1fff8, End: 0x20008}
	run[2][0] = true // across a page, and across what one fault maps
	if got, want := count(), "{5 2} {1 1}"; got != want {
		t.Errorf("a block across pages: %s, want %s", got, want)
	}
}
