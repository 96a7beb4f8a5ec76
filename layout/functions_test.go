package layout

import (
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

func TestCallChains(t *testing.T) {
	big := graph("a>b 100, b>c 1000")
	big.Nodes[1].Size = maxClusterSize
	thin := graph("a>b 1000, b>c 10")
	thin.Nodes[2].Size = 1000
	for _, tt := range []struct {
		name string
		g    *Graph
		want string
	}{
		{"callees follow their callers", graph("a>c 10, c>b 9"), "acb"},
		{"the most frequent caller wins", graph("a>c 10, b>c 90"), "bca"},
		{"of equal callers the first wins", graph("a>c 50, b>c 50"), "acb"},
		{"no merging beyond 1 MiB", big, "cba"},
		{"no merging that thins out the hot: 110 per 32 bytes, then 1010 per 1032", thin, "abc"},
		{"what mostly calls itself has no caller worth following", graph("a>b 10, b>b 1000"), "ba"},
	} {
		if got := names(callChains(tt.g)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestCacheDirected(t *testing.T) {
	// Where calls leave their procedures half way, it is 8 bytes forward to a
	// neighbour, and 24 back.
	forward := graph("a>b 10, a>c 1000, d>b 900")
	for i := range forward.Arcs {
		forward.Arcs[i].Offset = 8
	}
	for _, tt := range []struct {
		name string
		g    *Graph
		want string
	}{
		{"callees follow their callers", graph("a>c 100, c>b 90, b>d 1"), "acbd"},
		{"where both orders are as good, the linked one stays", graph("a>b 10, a>c 1000, d>b 900"), "acbd"},
		{"ac and db merge, then for the call from a to b the nearer order", forward, "dbac"},
	} {
		if got := names(cacheDirected(tt.g)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestHottestFirst: of procedures that do not call each other, those come first that
// execute most instructions per byte, not those that are called most.
func TestHottestFirst(t *testing.T) {
	g := graph("a>b 0, c>d 0")
	for i, n := range []Node{{16, 9, 10}, {16, 5, 0}, {16, 1, 1000}, {32, 2, 1000}} {
		g.Nodes[i] = n
	}
	for _, search := range procSearches {
		if got := names(search.order(g)); got != "cdab" {
			t.Errorf("%s: %s, want cdab", search.name, got)
		}
	}
}

// TestFunctionsProgress: what is said rises to all, and the order is that of Functions; so with scores.
func TestFunctionsProgress(t *testing.T) {
	data, err := os.ReadFile("../testdata/mix/samples.bfr")
	if err != nil {
		t.Fatal(err)
	}
	rec, err := sample.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	im, err := image.Open("../testdata/mix/mix", image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	prof, err := infer.Infer(t.Context(), rec, func(id sample.ImageID) (*image.Image, error) {
		if id.Build != im.Build {
			return nil, os.ErrNotExist
		}
		return im, nil
	}, infer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ip := prof.Images[0]
	var said []int
	total := 0
	order := FunctionsProgress(ip, func(done, of int) { said, total = append(said, done), of })
	if len(said) < 2 || !slices.IsSorted(said) || said[0] != 0 || said[len(said)-1] != total || total != len(order.Symbols) {
		t.Errorf("said %v of %d; %d functions are in order", said, total, len(order.Symbols))
	}
	if want := Functions(ip); !reflect.DeepEqual(order.Symbols, want.Symbols) {
		t.Errorf("order %v, want %v", order.Symbols, want.Symbols)
	}
	said = nil
	scores, err := Judge(order, Functions(ip), im, nil, func(done, of int) { said, total = append(said, done), of })
	if err != nil || !slices.IsSorted(said) || len(said) != total || said[len(said)-1] != total {
		t.Errorf("Judge said %v of %d, error %v", said, total, err)
	}
	if want, _ := Judge(order, Functions(ip), im, nil, nil); !reflect.DeepEqual(scores, want) {
		t.Errorf("scores %v, want %v", scores, want)
	}
}

// TestSearchesOrderAll: an order has every node once, whatever the graph.
func TestSearchesOrderAll(t *testing.T) {
	for seed := range uint64(200) {
		g := randomGraph(seed, 1+int(seed%40))
		for _, search := range procSearches {
			name, order := search.name, search.order(g)
			if again := search.order(g); !slices.Equal(order, again) {
				t.Fatalf("seed %d: %s gives %v, then %v", seed, name, order, again)
			}
			slices.Sort(order)
			for i, j := range order {
				if i != j {
					t.Fatalf("seed %d: %s: node %d is not in the order once", seed, name, i)
				}
			}
			if len(order) != len(g.Nodes) {
				t.Fatalf("seed %d: %s: %d of %d nodes", seed, name, len(order), len(g.Nodes))
			}
		}
	}
}

// program makes an image's profile from procedures "name size entries samples"
// and calls "from>to n". Procedures lie one after the other.
func program(procs []string, calls ...string) *infer.ImageProfile {
	ip := &infer.ImageProfile{Image: &image.Image{}}
	at := map[string]*infer.Result{}
	var addr image.Addr = 0x1000
	for _, s := range procs {
		var sym image.Symbol
		var entries float64
		var samples uint64
		scan(s, &sym.Name, &sym.Size, &entries, &samples)
		sym.Addr = addr
		b := image.Block{Start: addr, End: addr + image.Addr(sym.Size), Insts: 4, Last: addr + image.Addr(sym.Size) - 1}
		r := &infer.Result{
			Proc:    &image.Proc{Symbol: sym, Blocks: []image.Block{b}, Complete: true},
			Samples: samples,
			Entries: infer.Freq{N: entries, Conf: infer.Medium, Among: infer.Medium},
			Block:   []infer.Freq{{N: entries, Conf: infer.Medium, Among: infer.Medium}},
		}
		ip.Procs = append(ip.Procs, r)
		at[sym.Name] = r
		addr += image.Addr(sym.Size)
	}
	for _, s := range calls {
		var names string
		var n float64
		scan(s, &names, &n)
		from, to, _ := strings.Cut(names, ">")
		r := at[from]
		r.Proc.Calls = append(r.Proc.Calls, image.Call{Site: r.Proc.Addr + 1, To: at[to].Proc.Addr})
		r.Call = append(r.Call, infer.Freq{N: n, Conf: infer.Medium, Among: infer.Medium})
	}
	return ip
}

func TestFunctions(t *testing.T) {
	ip := program(
		[]string{"main 64 1 10", "cold 8192 0 0", "leaf 32 1000 50", "quick 16 1000 0", "far 4096 0 0", "work 128 100 900"},
		"main>work 100", "work>leaf 1000", "leaf>quick 1000", "main>cold 0")
	o := Functions(ip)
	var got []string
	for _, s := range o.Symbols {
		got = append(got, s.Name)
	}
	// quick has no samples, but must have run: its caller did.
	want := []string{"work", "leaf", "quick", "main"}
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("order holds %v, want %v", got, want)
	}
	if o.Unseen != 2 {
		t.Errorf("%d procedures unseen, want 2", o.Unseen)
	}
	if o.After.CallScore <= o.Before.CallScore || o.After.Distance >= o.Before.Distance {
		t.Errorf("after %+v is not better than before %+v", o.After, o.Before)
	}
	if o.After.Pages != (Coverage{1, 1, 1}) || o.Before.Pages.For99 != 2 {
		t.Errorf("pages before %+v, after %+v; want 2 for 99%% and then 1", o.Before.Pages, o.After.Pages)
	}
}

func TestCalls(t *testing.T) {
	ip := program([]string{"a 64 1 1", "b 32 5 1"}, "a>b 7", "b>b 3", "a>a 0")
	ip.Procs[0].Proc.Calls = append(ip.Procs[0].Proc.Calls, image.Call{Site: 0x1002, To: 0x9000}, image.Call{Site: 0x1003})
	ip.Procs[0].Call = append(ip.Procs[0].Call, infer.Freq{N: 1}, infer.Freq{N: 1})
	g := Calls(ip.Procs)
	if want := []Arc{{0, 1, 1, 7}, {1, 1, 1, 3}}; !slices.Equal(g.Arcs, want) {
		t.Errorf("arcs %v, want %v: not of calls that never ran, leave the image or go anywhere", g.Arcs, want)
	}
	if g.Nodes[0].N != 1 || math.Abs(g.Nodes[1].N-10) > 1e-9 {
		t.Errorf("nodes %v: want 1 execution, and 10 for the calls that lead there", g.Nodes)
	}
}

func TestWriteSymbols(t *testing.T) {
	o := &Order{
		Symbols: []image.Symbol{{Name: "main"}, {Name: "helper", Local: true}, {Name: "helper", Local: true}, {Name: "only", Local: true}},
		same:    map[string]int{"main": 1, "helper": 3, "only": 1},
	}
	var got strings.Builder
	if err := o.WriteSymbols(&got); err != nil {
		t.Fatal(err)
	}
	want := "main\n# 3 local symbols of this name, which all move\nhelper\nonly\n"
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

func TestWriteBOLT(t *testing.T) {
	o := &Order{Symbols: []image.Symbol{{Name: "main"}, {Name: "helper", Local: true, Ordinal: 2}, {Name: "unnumbered", Local: true}, {Name: "helper", Local: true, Ordinal: 1}}}
	var got strings.Builder
	if err := o.WriteBOLT(&got); err != nil {
		t.Fatal(err)
	}
	if want := "main\nhelper/2\nhelper/1\n"; got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}
