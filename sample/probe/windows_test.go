package probe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"backfeed/sample"
)

// probeGroup is one of so many sites of a file, from an offset on, of which each second
// is a branch.
func probeGroup(file string, from sample.Offset, sites int, rate float64) Group {
	g := Group{ID: sample.ImageID{Path: file}, File: file, Rate: rate, Gain: 1}
	for i := range sites {
		s := Site{ID: g.ID, Off: from + sample.Offset(8*i), Cond: NoCond}
		if i%2 == 0 {
			s.Cond = 4
		}
		g.Sites = append(g.Sites, s)
	}
	return g
}

// A simulated is a Windows of programs that are not there: time is a number, and
// windows are counted from the rates that groups expect.
type simulated struct {
	*Windows
	processors float64       // that the programs use
	now        time.Duration // since the start
	most       int           // sites in one window
}

// simulatedWait is what the kernel takes for a window beside its length.
const simulatedWait = 50 * time.Millisecond

func simulate(budget, processors float64, groups ...Group) *simulated {
	s := &simulated{Windows: &Windows{opt: Options{Budget: budget}, hit: 600, pack: 1, stretch: 1}, processors: processors}
	s.rng = rand.New(rand.NewPCG(1, 2))
	s.window = func(file string, sites []Site, pid int, length time.Duration) (*Window, error) {
		s.now += simulatedWait + length
		s.most = max(s.most, len(sites))
		w := &Window{Time: length, Hits: make([]uint64, len(sites)), Taken: make([]uint64, len(sites))}
		var rate float64 // hits per second of all sites
		for _, m := range s.groups {
			for range m.overlapping(sites) {
				rate += m.Rate / float64(len(m.Sites))
			}
		}
		each := rate / float64(len(sites)) * length.Seconds() / (1 + rate*s.hit.Seconds())
		for i := range sites {
			w.Hits[i] = uint64(each * s.rng.ExpFloat64())
			w.All += w.Hits[i]
		}
		w.Total = time.Duration(s.now.Seconds() * s.processors * 1e9)
		return w, nil
	}
	s.SetGroups(groups)
	return s
}

// overlapping returns the sites of m that are among others.
func (m *measured) overlapping(others []Site) (both []Site) {
	for _, s := range m.Sites {
		for _, o := range others {
			if s == o {
				both = append(both, s)
			}
		}
	}
	return both
}

// run does what Run does, for a time.
func (s *simulated) run(t *testing.T, length time.Duration) {
	t.Helper()
	for end := s.now + length; s.now < end; {
		s.start = time.Now().Add(-s.now)
		wait, open := s.wait()
		if s.now += wait; !open {
			continue
		}
		if ms := s.next(); len(ms) > 0 {
			if err := s.open(ms); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestCalibrationBudget: whatever the budget and the load, windows use it up where the
// kernel is fast enough, and keep it on the average. Where windows that follow one
// another at once leave some of it, they arm several groups.
func TestCalibrationBudget(t *testing.T) {
	for _, tt := range []struct {
		name               string
		budget, processors float64
		rate               float64 // hits per second, of each of four groups of 12 sites
		used               float64 // at least so much of the budget
		together           int     // at least so many groups are armed in some windows
	}{
		{"usual", 0.01, 1, 1e6, 0.8, 1},
		{"rare hits", 0.01, 1, 100, 0.6, 1},
		{"dense hits", 0.01, 1, 1e8, 0.8, 1},
		{"an idle program", 0.01, 0.02, 1e6, 0, 1},
		{"little", 0.0005, 1, 1e6, 0.3, 1},
		{"much", 0.05, 1, 1e6, 0.8, 2},
		{"several processors", 0.01, 5, 1e6, 0.8, 2},
		{"more than windows can use", 1, 64, 1e6, 0, 4},
	} {
		var groups []Group
		for i := range 4 {
			groups = append(groups, probeGroup("/app", sample.Offset(1000*i), 12, tt.rate))
		}
		s := simulate(tt.budget, tt.processors, groups...)
		s.run(t, 3*time.Minute)
		windows, added, of := s.Spent()
		share := added.Seconds() / of.Seconds() / tt.budget
		t.Logf("%s: %d windows took %.2f of the budget, of up to %d groups", tt.name, windows, share, s.pack)
		// Five windows go before the load is known.
		if most := 1.05 + 5*added.Seconds()/float64(windows)/of.Seconds()/tt.budget; share > most || share < tt.used {
			t.Errorf("%s: windows took %.2f of the budget; want %.2f to %.2f", tt.name, share, tt.used, most)
		}
		if s.most < 12*tt.together || s.most > MaxSites {
			t.Errorf("%s: up to %d sites in one window; want %d groups of 12", tt.name, s.most, tt.together)
		}
		var least, most = windows, 0
		for _, m := range s.groups {
			least, most = min(least, len(m.windows)), max(most, len(m.windows))
		}
		if windows > 100 && float64(least) < 0.8*float64(most) {
			t.Errorf("%s: %d to %d windows for groups of equal worth", tt.name, least, most)
		}
	}
}

// TestCalibrationNext: groups have windows by what they are worth, and only groups that
// can be armed together are.
func TestCalibrationNext(t *testing.T) {
	dear, cheap := probeGroup("/app", 0, 12, 1e6), probeGroup("/app", 1000, 12, 1e6)
	dear.Gain = 8
	s := simulate(0.001, 1, dear, cheap)
	s.run(t, 3*time.Minute)
	if a, b := len(s.groups[0].windows), len(s.groups[1].windows); math.Abs(float64(a)/float64(b)/4-1) > 0.3 { // 8 to the power 2/3
		t.Errorf("%d and %d windows for groups of gain 8 and 1", a, b)
	}

	app := probeGroup("/app", 0, 12, 1e5)
	for _, tt := range []struct {
		name  string
		other Group
		want  int
	}{
		{"of the same file", probeGroup("/app", 1000, 12, 1e5), 2},
		{"of another file", probeGroup("/lib", 1000, 12, 1e5), 1},
		{"by itself", Group{ID: app.ID, File: app.File, Sites: probeGroup("/app", 1000, 12, 1e5).Sites, Rate: 1e5, Gain: 1, Alone: true}, 1},
		{"with a site in common", probeGroup("/app", 80, 12, 1e5), 1},
		{"of too many sites", probeGroup("/app", 1000, MaxSites-11, 1e5), 1},
		{"of as many sites as there may be", probeGroup("/app", 1000, MaxSites-12, 1e5), 2},
	} {
		s := simulate(0.01, 1, app, tt.other)
		s.pack = 8
		if got := len(s.next()); got != tt.want {
			t.Errorf("%s: %d groups at once, want %d", tt.name, got, tt.want)
		}
	}

	if s = simulate(0.01, 1); s.next() != nil {
		t.Error("a window of no groups")
	}
}

// TestCalibrationFails: a group that cannot be armed is left alone, and others go on; if
// none can be, Run ends with the reason.
func TestCalibrationFails(t *testing.T) {
	refused := errors.New("refused")
	good, bad := probeGroup("/app", 0, 12, 1e5), probeGroup("/bad", 0, 12, 1e5)
	s := simulate(0.01, 1, good, bad)
	window, tries, told := s.window, 0, 0
	s.window = func(file string, sites []Site, pid int, length time.Duration) (*Window, error) {
		if file == "/bad" {
			tries++
			return nil, refused
		}
		return window(file, sites, pid, length)
	}
	s.opt.Log = func(g *Group, w *Window, err error) {
		if err != nil && g.File == "/bad" && w == nil {
			told++
		}
	}
	s.run(t, time.Minute)
	if windows, _, _ := s.Spent(); tries != maxFailures || told != tries || windows < 20 {
		t.Errorf("tried %d times and told of %d, want %d; %d windows of the other group", tries, told, maxFailures, windows)
	}

	s = simulate(0.01, 1, bad)
	s.window = func(string, []Site, int, time.Duration) (*Window, error) { return nil, refused }
	if err := s.Run(context.Background()); !errors.Is(err, refused) {
		t.Errorf("none can be armed: %v", err)
	}

	// What failed may be of a choice that is no more.
	s = simulate(0.01, 1, bad)
	s.window = func(string, []Site, int, time.Duration) (*Window, error) {
		s.SetGroups(nil)
		return nil, refused
	}
	if err := s.open(s.next()); err != nil {
		t.Errorf("nothing to arm: %v", err)
	}
}

// TestCalibrationRun: Run ends when it is told to, with windows or without.
func TestCalibrationRun(t *testing.T) {
	for _, groups := range [][]Group{nil, {probeGroup("/app", 0, 12, 1e5)}} {
		s := simulate(0.01, 1, groups...)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		for {
			if n, _, _ := s.Spent(); n > 0 || len(groups) == 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestForgetWindows: what was forgotten is not given again, and goes on to say what to expect.
func TestForgetWindows(t *testing.T) {
	app := sample.ImageID{Path: "/app"}
	hot, cold := probeGroup("/app", 0, 2, 1e5), probeGroup("/app", 1000, 2, 1e3)
	c := &Windows{hit: 600}
	c.SetGroups([]Group{hot, cold})
	total := time.Duration(0)
	windows := func(n int, hits uint64) {
		for range n {
			total += time.Second
			c.add(c.groups[:1], sitesOf(c.groups[:1]), &Window{Hits: []uint64{hits, hits}, Taken: []uint64{hits / 4, 0}, All: 2 * hits, Time: time.Millisecond, Total: total})
		}
	}
	take := func(weight uint64) map[sample.Offset]sample.Probed {
		counts := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Unit: "ns"})
		counts.AddSample(counts.Image(app), 16, 1)
		counts.Weight = weight
		c.AddTo(counts)
		c.Forget()
		if err := counts.Check(); err != nil {
			t.Fatal(err)
		}
		return counts.Images[0].Probed
	}
	about := func(n uint64, want float64) bool { return math.Abs(float64(n)/want-1) < 0.02 }

	windows(10, 100) // of 0.88 ms of native time each
	if p := take(1e10)[0]; p.Windows != 10 || p.Outcomes != 1000 || p.Taken != 250 || p.Covered != 1e10 || !about(p.Runs, 10*100/0.88e-3) {
		t.Errorf("10 windows: %+v", p)
	}
	if got := take(1e10); len(got) != 0 {
		t.Errorf("no window since: %v", got)
	}
	windows(5, 200) // of 0.76 ms
	if p := take(5e9)[0]; p.Windows != 5 || p.Outcomes != 1000 || p.Taken != 250 || p.Covered != 5e9 || !about(p.Runs, 5*200/0.76e-3) {
		t.Errorf("5 windows more: %+v", p)
	}
	if n := len(c.groups[0].windows); n != 15 {
		t.Errorf("%d windows tell what to expect, want 15", n)
	}
	windows(200, 100)
	take(2e11)
	if n := len(c.groups[0].windows); n != windowsKept {
		t.Errorf("%d windows are kept, want %d", n, windowsKept)
	}

	// A group that is chosen no more has its windows taken, once; one that is goes on.
	windows(3, 100)
	c.SetGroups([]Group{cold})
	if p := take(3e9)[0]; p.Windows != 3 {
		t.Errorf("of a group before: %+v", p)
	}
	if got := take(3e9); len(got) != 0 {
		t.Errorf("of a group before, again: %v", got)
	}
	c.SetGroups([]Group{cold, hot})
	windows(1, 100) // cold now
	c.SetGroups([]Group{hot, cold})
	if n := len(c.groups[1].windows); n != 1 {
		t.Errorf("%d windows of a group that is chosen again, want 1", n)
	}
	if n, _, of := c.Spent(); n != 219 || of != 219*time.Second {
		t.Errorf("%d windows in %v, want all", n, of)
	}
}

// TestWindowLength: hits cost what arming does, within bounds.
func TestWindowLength(t *testing.T) {
	for _, rate := range []float64{0, 1, 1e5, 1e6, 3e6, 1e7, 1e9} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			const sites, hit = 24, 600e-9
			length := windowLength(armCost(sites), rate, 600, 1)
			hits := rate * length.Seconds() / (1 + rate*hit)
			cost := hits * hit / armCost(sites).Seconds()
			within := length > shortestWindow && length < longestWindow
			if length < shortestWindow || length > longestWindow || within && math.Abs(cost-1) > 0.01 || !within && rate < 1e6 && cost > 1 {
				t.Errorf("%v, in which hits cost %.2f times what arming does", length, cost)
			}
		})
	}
}

// TestPauseEnds: windows that cost more than there was to spend are made up for by
// time that passes, of which no further window has told.
func TestPauseEnds(t *testing.T) {
	c := &Windows{opt: Options{Budget: 0.01}, n: 5, spent: 500 * time.Millisecond, first: time.Second, total: 3 * time.Second}
	for _, tt := range []struct {
		elapsed time.Duration
		stopped bool
	}{{3 * time.Second, true}, {100 * time.Second, false}} {
		c.start = time.Now().Add(-tt.elapsed)
		c.last = c.start.Add(2 * time.Second)
		if pause := c.pause(); (pause == longestPause) != tt.stopped {
			t.Errorf("after %v: pause %v", tt.elapsed, pause)
		}
	}
}

// TestPauseLate: where the first windows are late, what the processes used before them is for
// windows too.
func TestPauseLate(t *testing.T) {
	const budget, used, spent, windows = 0.01, 10 * time.Second, 5 * time.Millisecond, 5
	now := time.Now()
	c := &Windows{
		opt: Options{Budget: budget}, n: windows, spent: spent, start: now.Add(-used),
		first: used - 500*time.Millisecond, late: used - 500*time.Millisecond, total: used, last: now,
	}
	// What was not spent so far is spent over ten seconds more.
	rate := budget + (budget*used.Seconds()-spent.Seconds())/10
	want := spent.Seconds() / windows / rate
	if got := c.pause().Seconds(); math.Abs(got/want-1) > 0.01 {
		t.Errorf("a pause of %.3f s, want %.3f", got, want)
	}
}

// TestGroupGrows: sites that join a group count from then on, those that join it while a
// window is open from the next one on.
func TestGroupGrows(t *testing.T) {
	whole := probeGroup("/app", 0, MaxSites, 1e5)
	of := func(sites int) Group {
		g := whole
		g.Sites = whole.Sites[:sites]
		return g
	}
	c := &Windows{hit: 600, pack: 1, stretch: 1}
	armed, total := []int{}, time.Duration(0)
	grow := 3
	c.window = func(_ string, sites []Site, _ int, length time.Duration) (*Window, error) {
		armed = append(armed, len(sites))
		c.SetGroups([]Group{of(grow)})
		total += time.Second
		w := &Window{Hits: make([]uint64, len(sites)), Taken: make([]uint64, len(sites)), Time: time.Millisecond, Total: total}
		for i := range sites {
			w.Hits[i] = uint64(10 + i)
		}
		return w, nil
	}
	c.SetGroups([]Group{of(2)})
	for range 3 {
		if err := c.open(c.groups[:1]); err != nil {
			t.Fatal(err)
		}
		grow = MaxSites
	}
	if fmt.Sprint(armed) != fmt.Sprint([]int{2, 3, MaxSites}) {
		t.Errorf("%v sites were armed", armed)
	}
	counts := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Unit: "ns"})
	counts.Weight = 3e9
	c.AddTo(counts)
	probed := counts.Images[0].Probed
	for i, windows := range []uint64{3, 3, 2, 1, 1} {
		if p := probed[whole.Sites[i].Off]; p.Windows != windows || whole.Sites[i].Cond != NoCond && p.Outcomes != windows*uint64(10+i) {
			t.Errorf("site %d: %+v, want %d windows", i, p, windows)
		}
	}
	// Groups that have grown since they were put together are armed apart.
	other := probeGroup("/app", 5000, 12, 1e5)
	c.groups = append(c.groups, &measured{Group: other})
	if err := c.open(c.groups); err != nil || armed[3] != MaxSites {
		t.Errorf("%v, %v sites were armed", err, armed)
	}
}

// TestLink: how often a site runs that fills windows is known by another of its procedure,
// as often as they ran in the same windows, and not by those of others.
func TestLink(t *testing.T) {
	c := &Windows{hit: 900, pack: 1, stretch: 1, rng: rand.New(rand.NewPCG(1, 2))}
	slow := probeGroup("/app", 100, 2, 1e5)
	slow.Alone = true
	fast := probeGroup("/app", 0, 3, 1e7)
	fast.Sites = append(fast.Sites, slow.Sites...)
	fast.Procs = []int{0, 0, 1, 0, 2}
	c.SetGroups([]Group{slow, fast})
	add := func(m *measured, hits ...uint64) {
		n := len(hits)
		c.add([]*measured{m}, []int{n}, &Window{Hits: hits, Taken: make([]uint64, n), Time: time.Millisecond, Total: c.total + time.Second})
	}
	for range 40 {
		add(c.groups[0], 500, 100) // of 0.46 ms of its own
	}
	for i := range 10 {
		add(c.groups[1], 900, 60, 90, 10, uint64(i%2))
	}
	counts := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Unit: "ns"})
	counts.Weight = uint64(c.total)
	c.AddTo(counts)
	probed := counts.Images[0].Probed
	runs := func(i int) (n, sd float64) {
		p := probed[fast.Sites[i].Off]
		return float64(p.Runs), math.Sqrt(p.Variance.Float64()) / float64(p.Runs)
	}
	by, _ := runs(3)
	for i, ratio := range []float64{90, 6} {
		if n, sd := runs(i); math.Abs(n/by/ratio-1) > 0.01 || sd < 0.1 || sd > 0.4 {
			t.Errorf("site %d: %.3g executions known to %.2f, want %v times %.3g", i, n, sd, ratio, by)
		}
	}
	if p := probed[fast.Sites[2].Off]; p.Covered != 0 || p.Windows != 10 {
		t.Errorf("a site of another procedure: %+v", p)
	}
}

// TestDense: of windows that hits fill, the site with the most is told, from the second on;
// how often others run is known as long as they do so in other windows.
func TestDense(t *testing.T) {
	c := &Windows{hit: 1000, pack: 1, stretch: 1}
	g := probeGroup("/app", 0, 3, 1e5)
	c.SetGroups([]Group{g})
	add := func(hits ...uint64) {
		c.add(c.groups[:1], []int{3}, &Window{Hits: hits, Taken: make([]uint64, 3), Time: time.Millisecond, Total: c.total + time.Second})
	}
	for range 20 {
		add(0, 100, 0)
	}
	add(900, 0, 50)
	if d := c.Dense(); len(d) != 0 {
		t.Errorf("after one window: %v", d)
	}
	add(900, 0, 50)
	if d := c.Dense(); len(d) != 1 || !d[g.Sites[0]] {
		t.Errorf("after two windows: %v", d)
	}
	es := c.groups[0].estimates(1e-6)
	for i, known := range []bool{false, true, false} {
		if es[i].known != known {
			t.Errorf("site %d: known is %v", i, es[i].known)
		}
	}
	if want := 20. / 22 * 100 / 0.9e-3; math.Abs(es[1].rate/want-1) > 0.01 {
		t.Errorf("%v executions per second, want %v", es[1].rate, want)
	}
	if sd := math.Sqrt(es[1].variance) / es[1].rate; sd < 0.05 || sd > 0.3 {
		t.Errorf("known to %.2f", sd)
	}
}

// TestEstimateAdd: a group of few windows that met little of a phase does not outweigh one of many.
func TestEstimateAdd(t *testing.T) {
	var e estimate
	e.add(estimate{windows: 5, of: 5})
	if e.known || e.windows != 5 {
		t.Errorf("of an unknown rate: %+v", e)
	}
	e.add(estimate{windows: 30, of: 30, rate: 100, variance: 100, known: true})
	e.add(estimate{windows: 10, of: 10, rate: 20, variance: 1, known: true})
	if e.rate != 80 || e.windows != 45 || math.Abs(e.variance-(0.75*0.75*100+0.25*0.25)) > 1e-9 {
		t.Errorf("%+v, want a rate of 80", e)
	}
}
