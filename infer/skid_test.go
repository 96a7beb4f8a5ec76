package infer

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"backfeed/infer/image"
	"backfeed/infer/truth"
	"backfeed/sample"
)

// A walkedImage is one image of a set as a random walk over its instructions: jumps and
// calls go as often as in the truth, and an instruction waits to retire as long as the samples of
// time say, which an out-of-order processor took.
type walkedImage struct {
	im    *image.Image
	id    sample.ImageID
	cpu   sample.CPU
	insts []walkedInst // by address
	rng   *rand.Rand

	starts []uint64 // by instruction: executions in the truth up to and with it
}

type walkedInst struct {
	addr      image.Addr
	wait      float64 // cycles, in the mean
	n         uint64  // executions in the truth
	to        []int32 // where it leads beside the next one
	upTo      []uint64
	call, ret bool
	ran       uint64 // executions of the walk
}

// walkedCPI is how many cycles an instruction takes in the mean; only the ratio to delays counts.
const walkedCPI = 0.7

// simulate prepares the walk of the image of s that has most samples.
func (s *set) simulate() *walkedImage {
	c := s.Rec.Counts[0]
	busiest := slices.MaxFunc(c.Images, func(a, b *sample.ImageCounts) int {
		of := func(ic *sample.ImageCounts) int {
			if s.Images[ic.ID.Key()] == nil || s.counted(ic.ID.Path) == nil {
				return 0
			}
			return int(ic.Samples())
		}
		return of(a) - of(b)
	})
	m := &walkedImage{im: s.Images[busiest.ID.Key()], id: busiest.ID, cpu: c.CPU, rng: rand.New(rand.NewPCG(3, 4))}
	it := s.counted(busiest.ID.Path)
	seen := map[image.Addr]bool{}
	for i := range m.im.Symbols() {
		p, err := m.im.Proc(i)
		if err != nil {
			continue
		}
		for b := range p.Blocks {
			for _, in := range m.im.Insts(&p.Blocks[b]) {
				if !seen[in.Addr] {
					seen[in.Addr] = true
					m.insts = append(m.insts, walkedInst{addr: in.Addr, n: it.Insts[in.Addr],
						call: in.Class&(image.DirCall|image.IndCall) != 0, ret: in.Class&image.Ret != 0})
				}
			}
		}
	}
	slices.SortFunc(m.insts, func(a, b walkedInst) int { return int(int64(a.addr) - int64(b.addr)) })
	at := map[image.Addr]int32{}
	for i := range m.insts {
		at[m.insts[i].addr] = int32(i)
	}
	for _, all := range []map[truth.Transfer]uint64{it.Jumps, it.Calls} {
		for _, j := range slices.SortedFunc(maps.Keys(all), truth.Transfer.Compare) {
			from, ok1 := at[j.From]
			to, ok2 := at[j.To]
			if !ok1 || !ok2 {
				continue
			}
			in, sum := &m.insts[from], uint64(0)
			if k := len(in.upTo); k > 0 {
				sum = in.upTo[k-1]
			}
			in.to, in.upTo = append(in.to, to), append(in.upTo, sum+all[j])
			in.n = max(in.n, sum+all[j])
		}
	}
	var samples, all uint64
	for off, n := range busiest.At {
		if a, ok := m.im.AddrOf(off); ok {
			if i, ok := at[a]; ok && m.insts[i].n > 0 {
				m.insts[i].wait += float64(n)
				samples += n
			}
		}
	}
	for i := range m.insts {
		all += m.insts[i].n
		m.starts = append(m.starts, all)
	}
	for i := range m.insts {
		if in := &m.insts[i]; in.n > 0 {
			in.wait *= walkedCPI * float64(all) / float64(samples) / float64(in.n)
		}
	}
	return m
}

// start is an instruction, drawn by executions.
func (m *walkedImage) start() int32 {
	x := m.rng.Uint64N(m.starts[len(m.starts)-1])
	return int32(sort.Search(len(m.starts), func(i int) bool { return m.starts[i] > x }))
}

// next is the instruction that runs after i; -1 if that is not known.
func (m *walkedImage) next(i int32, stack *[]int32) int32 {
	in, s := &m.insts[i], *stack
	if in.ret {
		if len(s) == 0 {
			return -1
		}
		*stack = s[:len(s)-1]
		return s[len(s)-1]
	}
	after := i + 1
	if int(after) == len(m.insts) {
		after = -1
	}
	if len(in.to) == 0 {
		return after
	}
	x := m.rng.Uint64N(in.n)
	k := sort.Search(len(in.upTo), func(k int) bool { return in.upTo[k] > x })
	if k == len(in.upTo) {
		return after
	}
	if in.call && after >= 0 && len(s) < 1000 {
		*stack = append(s, after)
	}
	return in.to[k]
}

// longest is for how many instructions a walk goes on at most: the truth has loops that
// nothing is known to leave.
const longest = 1_000_000

// walk runs so many instructions, and returns their exact counts, and recordings of them: one of
// time, and for each delay one of instructions that are attributed to what waits to retire so many cycles
// after the one that was counted has retired.
func (m *walkedImage) walk(insts, period int, delays []float64) (*truth.Counts, *sample.Recording, []*sample.Recording) {
	hits := make([]map[int32]uint64, len(delays)+1)
	for i := range hits {
		hits[i] = map[int32]uint64{}
	}
	due := make([][]float64, len(delays))
	jitter := func() float64 { return float64(period) * (0.7 + 0.6*m.rng.Float64()) }
	var now float64
	clock, counter := walkedCPI*jitter(), int(jitter())
	var stack []int32
	for at, n, run := m.start(), 0, 0; n < insts; n++ {
		in := &m.insts[at]
		in.ran++
		for now += in.wait; clock < now; clock += walkedCPI * jitter() {
			hits[len(delays)][at]++
		}
		for d := range due {
			for len(due[d]) > 0 && due[d][0] < now {
				hits[d][at]++
				due[d] = due[d][1:]
			}
		}
		if n == counter {
			counter += int(jitter())
			for d, cycles := range delays {
				due[d] = append(due[d], now+cycles)
			}
		}
		at = m.next(at, &stack)
		if run++; at < 0 || m.insts[at].n == 0 || run > longest {
			at, stack, run = m.start(), stack[:0], 0
		}
	}
	exact := &truth.Counts{}
	it := exact.Image(m.id.Path)
	for i := range m.insts {
		if m.insts[i].ran > 0 {
			it.Insts[m.insts[i].addr] = m.insts[i].ran
		}
	}
	recs := make([]*sample.Recording, len(hits))
	for d, h := range hits {
		ev := sample.Event{Name: "instructions", Unit: "instructions", Period: uint64(period)}
		if d == len(delays) {
			ev = sample.Event{Name: "cycles", Unit: "cycles", Period: uint64(walkedCPI * float64(period))}
		}
		c := sample.NewCounts(m.cpu, ev)
		for i, n := range h {
			off, _ := m.im.OffsetOf(m.insts[i].addr)
			c.AddSample(c.Image(m.id), off, n)
		}
		recs[d] = sample.Merge(&sample.Recording{Counts: []*sample.Counts{c}})
	}
	return exact, recs[len(delays)], recs[:len(delays)]
}

// TestSkid: where samples of instructions skid, counts that are medium or high keep their promise, as they
// would not if samples were taken for what they say; and how often the program ran is known all the same.
// It also shows what such samples are worth beside those of time: see collect's ladder.
func TestSkid(t *testing.T) {
	delays := []float64{0, 5, 20, 50, 100, 200}
	var clocks, all float64
	means := make([]float64, len(delays))
	var claimed, naively kept
	for _, s := range append([]*set{loadMix(t).set}, loadSets(t)...) {
		s.retire()
		exact, clock, skids := s.simulate().walk(20_000_000, 2000, delays)
		score := func(rec *sample.Recording, k *kept) *truth.Accuracy {
			a := truth.Compare(NewDocument(s.infer(t, rec, Options{})), exact, s.byAddr(rec))
			if k != nil {
				k.add(a.BlockProgramWide[Medium].Samples)
				k.add(a.BlockProgramWide[High].Samples)
			}
			return a
		}
		a := score(clock, nil)
		t.Logf("%-7s time: block overlap %.3f; scale %.2f", s.Name, a.BlockOverlap, a.Scale)
		clocks += a.BlockOverlap
		all++
		for d, rec := range skids {
			a := score(rec, &claimed)
			t.Logf("%-7s instructions, %g cycles late: block overlap %.3f; scale %.2f", s.Name, delays[d], a.BlockOverlap, a.Scale)
			if a.Scale < 0.85 || a.Scale > 1.15 {
				t.Errorf("%s, %g cycles late: one execution is %.2f in truth", s.Name, delays[d], a.Scale)
			}
			means[d] += a.BlockOverlap
			rec.Counts[0].Event.Name = "instructions:pp"
			score(rec, &naively)
		}
	}
	for d, sum := range means {
		t.Logf("mean block overlap: time %.3f; instructions %g cycles late %.3f", clocks/all, delays[d], sum/all)
	}
	share := 1 / all / float64(len(delays))
	t.Logf("medium or high: %.2f of the samples, kept %.3f; were skid not thought of %.2f, kept %.3f",
		claimed.all*share, claimed.within2x/claimed.all, naively.all*share, naively.within2x/naively.all)
	if claimed.within2x < 0.9*claimed.all {
		t.Errorf("of medium and high counts %.3f are within a factor 2", claimed.within2x/claimed.all)
	}
	if naively.within2x > 0.9*naively.all {
		t.Error("skid does no harm: this tests nothing")
	}
}
