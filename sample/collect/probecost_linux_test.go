//go:build amd64 || arm64

package collect

import (
	"context"
	"math"
	"os/exec"
	"regexp"
	"slices"
	"sort"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"backfeed/sample/probe"
)

// groupsOf makes groups of sites: those that are hit often, those that are hit now and
// then, and those that never are. It has a look at each.
func groupsOf(t *testing.T, p *Prober, file string, sites []probe.Site) (groups []probe.Group) {
	t.Helper()
	const often = 1e5 // times a second
	var hot, warm, cold probe.Group
	for _, site := range sites {
		w, err := p.Window(file, []probe.Site{site}, 0, 5*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		native := max(w.Time-time.Duration(w.Hits[0])*p.HitCost(), w.Time/6, 1)
		rate := float64(w.Hits[0]) / native.Seconds()
		g := &cold
		if rate > often {
			g = &hot
		} else if rate > 0 {
			g = &warm
		}
		if len(g.Sites) < 10 || g == &cold && len(g.Sites) < probe.MaxSites {
			g.Sites, g.Rate = append(g.Sites, site), g.Rate+rate
		}
	}
	one, ten := cold, cold // what a window costs, and what a site does
	one.Sites, ten.Sites = cold.Sites[:min(1, len(cold.Sites))], cold.Sites[:min(10, len(cold.Sites))]
	for _, g := range []probe.Group{hot, warm, one, ten, cold} {
		if len(g.Sites) > 0 {
			g.File, g.Gain = file, 1
			groups = append(groups, g)
			t.Logf("%d sites, %.3g hits/s", len(g.Sites), g.Rate)
		}
	}
	return groups
}

// armed is when a window was, and what it hit.
type armed struct {
	from, to uint64 // CLOCK_MONOTONIC, in ns
	hits     uint64
	sites    int
	g        *probe.Group
}

// A timedProber notes when its windows were.
type timedProber struct {
	*Prober
	windows *[]armed
	first   time.Duration // processor time of the processes at the first of them
}

func (p *timedProber) Window(file string, sites []probe.Site, pid int, length time.Duration) (*probe.Window, error) {
	*p.windows = append(*p.windows, armed{from: monotonic()})
	w, err := p.Prober.Window(file, sites, pid, length)
	(*p.windows)[len(*p.windows)-1].to = monotonic()
	if err == nil && p.first == 0 {
		p.first = w.Total
	}
	return w, err
}

// TestMeasureAdded: the processor time that windows added to a program, against
// what probe.Windows say of them. A unit of the program's work that meets a window
// takes longer than those around it.
func TestMeasureAdded(t *testing.T) {
	measuring(t, "the processor time that a calibration adds")
	const during = 45 * time.Second
	exe := program(t, "unit")
	for _, budget := range []float64{0.01, 0.03} {
		work := launch(t, exe)
		s := system(t, SystemOptions{Frequency: 97, Probes: true, PIDs: []int{work.cmd.Process.Pid}})
		p := prober(t, s)
		groups := groupsOf(t, p, exe, allSites(t, p, exe, listing(t, exe, regexp.MustCompile(""))))
		var windows []armed
		timed := &timedProber{Prober: p, windows: &windows}
		c := probe.NewWindows(timed, probe.Options{Budget: budget, Log: func(g *probe.Group, w *probe.Window, err error) {
			if err != nil {
				t.Error(err)
				return
			}
			last := &windows[len(windows)-1]
			last.g, last.hits, last.sites = g, w.All, len(g.Sites)
		}})
		c.SetGroups(groups)
		ctx, cancel := context.WithTimeout(context.Background(), during)
		defer cancel()
		if err := c.Run(ctx); err != nil {
			t.Fatal(err)
		}
		work.cmd.Process.Signal(syscall.SIGTERM)
		units := work.end()
		report(t, budget, c, timed.first, groups, windows, units)
		p.Close()
		s.Close()
	}
}

// report tells of windows of each group what they added.
func report(t *testing.T, budget float64, c *probe.Windows, first time.Duration, groups []probe.Group, windows []armed, units [][]float64) {
	const around = 150e6                            // ns
	own := func(u []float64, from, to uint64) int { // -1: before, 1: behind
		if u[1] < float64(from) {
			return -1
		} else if u[0] > float64(to) {
			return 1
		}
		return 0
	}
	// excess is what units took longer in a stretch than the others near it.
	excess := func(from, to uint64) (ns float64, ok bool) {
		var in, n, all, near float64
		first := sort.Search(len(units), func(i int) bool { return units[i][1] >= float64(from)-around })
		for _, u := range units[first:] {
			if u[0] > float64(to)+around {
				break
			}
			if own(u, from, to) == 0 {
				in, n = in+u[2], n+1
				continue
			}
			if !slices.ContainsFunc(windows, func(w armed) bool { return own(u, w.from, w.to) == 0 }) {
				all, near = all+u[2], near+1
			}
		}
		return in - n*all/near, near >= 10
	}
	var all []float64 // of windows that arm several groups too
	for _, w := range windows {
		if x, ok := excess(w.from, w.to); ok && w.g != nil {
			all = append(all, x/1e6)
		}
	}
	for i := range groups {
		var added, idle, says []float64
		for _, w := range windows {
			if w.g == nil || !slices.Equal(w.g.Sites, groups[i].Sites) {
				continue
			}
			if x, ok := excess(w.from, w.to); ok {
				added = append(added, x/1e6)
				says = append(says, float64(c.Cost(w.hits, w.sites))/1e6)
			}
			// As long, just before: nothing is armed there, as a rule.
			if from, to := 2*w.from-w.to, w.from-1; !slices.ContainsFunc(windows, func(o armed) bool { return o.from < to && o.to > from }) {
				if x, ok := excess(from, to); ok {
					idle = append(idle, x/1e6)
				}
			}
		}
		m, e := meanOf(added)
		claim, _ := meanOf(says)
		null, eNull := meanOf(idle)
		t.Logf("budget %.0f %%, %d sites, %.3g hits/s: %d windows added %.2f +-%.2f ms each, says %.2f ms; without a window %.2f +-%.2f ms",
			100*budget, len(groups[i].Sites), groups[i].Rate, len(added), m, e, claim, null, eNull)
	}
	n, spent, of := c.Spent()
	m, e := meanOf(all)
	share := 100 * float64(n) / 1e3 / (of - first).Seconds()
	t.Logf("budget %.0f %%: %d windows, added %.2f %% +-%.2f, says %.2f %%; %v a hit", 100*budget, n,
		m*share, e*share, 100*spent.Seconds()/(of-first).Seconds(), c.Cost(1, 0)-c.Cost(0, 0))
}

// meanOf returns the mean and its standard error.
func meanOf(v []float64) (mean, err float64) {
	n := float64(len(v))
	for _, x := range v {
		mean += x / n
	}
	for _, x := range v {
		err += (x - mean) * (x - mean) / n / n
	}
	return mean, math.Sqrt(err)
}

// TestMeasureSwitches: what following switches costs each of them.
func TestMeasureSwitches(t *testing.T) {
	measuring(t, "the cost of following switches")
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		t.Skip(err)
	}
	defer stats.Close()
	s := system(t, SystemOptions{Frequency: 97, Probes: true})
	// trips returns how long it takes to send a byte through cat and back.
	trips := func() time.Duration {
		cat := talkTo(t, exec.Command("cat"))
		const n = 100000
		start := time.Now()
		for range n {
			cat.say("x")
			cat.hear()
		}
		return time.Since(start) / n
	}
	for range 3 {
		p, err := OpenProber(s)
		if err != nil {
			t.Fatal(err)
		}
		with := trips()
		runs, took := programTime(t, "switched")
		p.Close()
		t.Logf("a trip of 2 switches or more takes %v, without a prober %v; %d switches of %.0f ns",
			with, trips(), runs, float64(took)/float64(max(runs, 1)))
	}
}

// programTime returns how often a program of the kernel's side ran, and how long in all.
func programTime(t *testing.T, name string) (runs uint64, took time.Duration) {
	t.Helper()
	for id := ebpf.ProgramID(0); ; {
		var err error
		if id, err = ebpf.ProgramGetNextID(id); err != nil {
			return runs, took
		}
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue
		}
		info, errInfo := p.Info()
		st, errStats := p.Stats()
		if errInfo == nil && errStats == nil && info.Name == name && st.RunCount > runs {
			runs, took = st.RunCount, st.Runtime
		}
		p.Close()
	}
}
