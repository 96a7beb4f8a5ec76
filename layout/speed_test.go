package layout

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

var recording = flag.String("recording", "", "BenchmarkRecording orders the most sampled image of this `file` of backfeed")

// BenchmarkBlocks and BenchmarkProcedures show what an arc costs as graphs grow.
func BenchmarkBlocks(b *testing.B) {
	for _, n := range []int{500, 5_000, 50_000} {
		g := randomFlow(1, n)
		for _, search := range []struct {
			name  string
			order func(*Graph) []int
		}{{"extTSP", extTSP}, {"pettisHansen", pettisHansen}} {
			b.Run(fmt.Sprintf("%s/%d", search.name, len(g.Arcs)), func(b *testing.B) { benchmarkSearch(b, g, search.order) })
		}
	}
}

func BenchmarkProcedures(b *testing.B) {
	for _, n := range []int{400, 4_000, 40_000} {
		g := randomGraph(1, n)
		for _, search := range procSearches {
			b.Run(fmt.Sprintf("%s/%d", search.name, len(g.Arcs)), func(b *testing.B) { benchmarkSearch(b, g, search.order) })
		}
	}
}

func benchmarkSearch(b *testing.B, g *Graph, search func(*Graph) []int) {
	for b.Loop() {
		search(g)
	}
	b.ReportMetric(float64(b.N*len(g.Arcs))/b.Elapsed().Seconds(), "arcs/s")
}

// BenchmarkRecording orders what -recording holds: the blocks of its largest
// procedure, those of all, and the procedures.
func BenchmarkRecording(b *testing.B) {
	if *recording == "" {
		b.Skip("no -recording")
	}
	data, err := os.ReadFile(*recording)
	if err != nil {
		b.Fatal(err)
	}
	rec, err := sample.Decode(data)
	if err != nil {
		b.Fatal(err)
	}
	p, err := infer.Infer(b.Context(), rec, func(id sample.ImageID) (*image.Image, error) { return image.Open(id.Path, image.Options{}) }, infer.Options{})
	if err != nil {
		b.Fatal(err)
	}
	ip := slices.MaxFunc(p.Images, func(a, b *infer.ImageProfile) int { return cmp.Compare(a.Samples, b.Samples) })
	largest := slices.MaxFunc(ip.Procs, func(a, b *infer.Result) int { return cmp.Compare(len(a.Proc.Edges), len(b.Proc.Edges)) })
	var all []*Graph
	for _, r := range ip.Procs {
		all = append(all, Blocks(r))
	}
	for _, set := range []struct {
		name   string
		graphs []*Graph
	}{{"largest", []*Graph{Blocks(largest)}}, {"all", all}} {
		b.Run("blocks/"+set.name, func(b *testing.B) {
			arcs, linked, score := 0, 0.0, 0.0
			for _, g := range set.graphs {
				arcs += len(g.Arcs)
				linked += Score(g, g.linked())
				score += Score(g, extTSP(g))
			}
			for b.Loop() {
				for _, g := range set.graphs {
					extTSP(g)
				}
			}
			b.ReportMetric(float64(arcs), "arcs")
			b.ReportMetric(score/linked, "score/linked")
		})
	}
	g := Calls(ip.Procs)
	for _, search := range procSearches {
		b.Run("procedures/"+search.name, func(b *testing.B) {
			score := CallScore(g, addresses(g, search.order(g), procAlign))
			for b.Loop() {
				search.order(g)
			}
			b.ReportMetric(float64(len(g.Arcs)), "arcs")
			b.ReportMetric(score/CallScore(g, addresses(g, g.linked(), procAlign)), "score/linked")
		})
	}
}
