package sample

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"backfeed/internal/testtool"
)

// TestReadPprofDifferential: of 2,000 samples drawn at random, and of what Go's runtime wrote, the places and stacks that are
// read here are those that `go tool pprof -raw` prints.
func TestReadPprofDifferential(t *testing.T) {
	testtool.Need(t, "go")
	for name, b := range map[string][]byte{
		"drawn":        drawnPprof(t, rand.New(rand.NewPCG(1, 2)), 2000),
		"Go's runtime": []byte(testtool.Read(t, "testdata/busy.pprof")),
	} {
		t.Run(name, func(t *testing.T) {
			rec, err := ReadPprof(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			check(t, rec)
			dir := t.TempDir()
			testtool.Write(t, dir, "p", b)
			want := rawPprof(t, testtool.Output(t, dir, "go", "tool", "pprof", "-symbolize=none", "-raw", "p"))
			got := map[string]uint64{}
			for _, c := range rec.Counts {
				place := func(f Frame) string {
					if f.Image == Unknown {
						return "?"
					}
					id := c.Images[f.Image].ID
					return fmt.Sprintf("%s %s %#x", id.Path, id.Build, uint64(f.Off))
				}
				for i, ic := range c.Images {
					for off, n := range ic.At {
						got["at "+place(Frame{i, off})] += n
					}
				}
				for _, s := range c.Stacks {
					var frames []string
					for _, f := range s.Frames {
						frames = append(frames, place(f))
					}
					got["stack "+strings.Join(frames, ", ")] += s.N
				}
				for why, n := range c.Lost {
					got["lost: "+string(why)] += n
				}
			}
			if len(want) < 5 {
				t.Errorf("pprof prints %d places and stacks", len(want))
			}
			differ := 0
			for _, key := range slices.Sorted(maps.Keys(merged(got, want))) {
				if got[key] != want[key] {
					if differ++; differ < 5 {
						t.Errorf("%s: %d samples, pprof has %d", key, got[key], want[key])
					}
				}
			}
			t.Logf("%d of %d places, stacks and losses differ", differ, len(want))
		})
	}
}

func merged(a, b map[string]uint64) map[string]uint64 {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// rawPprof returns the samples of what pprof -raw prints by place of the leaf, by stack, and by why there is no place:
//
//	Samples:
//	samples/count cpu/nanoseconds
//	          7   70000000: 1 2
//	Locations
//	     1: 0x400139 M=1 main.hot /src/a.go:3:0 s=2
//	             main.inlinedInto /src/a.go:9:0 s=7
//	Mappings
//	1: 0x400000/0x500000/0x1000 /bin/app b1d0 [FN]
func rawPprof(t *testing.T, text string) map[string]uint64 {
	t.Helper()
	type location struct {
		addr, mapping uint64
		function      string
	}
	type mapping struct {
		lo, hi, off uint64
		name        string
		build       BuildID
	}
	type stack struct {
		n    uint64
		locs []uint64
	}
	var samples []stack
	locs, maps := map[uint64]location{}, map[uint64]mapping{}
	part := ""
	scan := bufio.NewScanner(strings.NewReader(text))
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		line := scan.Text()
		head, rest, _ := strings.Cut(line, ":")
		f := strings.Fields(rest)
		switch {
		case line == "Samples:" || line == "Locations" || line == "Mappings":
			part = line
		case part == "Samples:":
			var s stack
			if _, err := fmt.Sscan(head, &s.n); err != nil {
				continue // names of values, and labels
			}
			for _, id := range f {
				var n uint64
				fmt.Sscan(id, &n)
				s.locs = append(s.locs, n)
			}
			samples = append(samples, s)
		case part == "Locations" && len(f) > 0 && strings.HasPrefix(f[0], "0x"):
			var id uint64
			var l location
			fmt.Sscan(head, &id)
			fmt.Sscanf(f[0], "%v", &l.addr)
			f = f[1:]
			if len(f) > 0 && strings.HasPrefix(f[0], "M=") {
				fmt.Sscanf(f[0], "M=%d", &l.mapping)
				f = f[1:]
			}
			if len(f) > 0 {
				l.function = f[0]
			}
			locs[id] = l
		case part == "Mappings":
			var id uint64
			var m mapping
			fmt.Sscan(head, &id)
			if _, err := fmt.Sscanf(f[0], "%v/%v/%v", &m.lo, &m.hi, &m.off); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			for i, word := range f[1:] {
				if i == 0 && strings.ContainsAny(word, "/[") && !strings.HasPrefix(word, "[F") {
					m.name = word
				} else if !strings.HasPrefix(word, "[F") && !strings.HasPrefix(word, "[L") {
					m.build = GNUBuildID(word)
				}
			}
			maps[id] = m
		}
	}
	// place is what the specification of the format says of a location, of a return address one byte on.
	place := func(id, delta uint64) (at string, lost Loss) {
		l := locs[id]
		m, ok := maps[l.mapping]
		switch {
		case l.addr == 0:
			return "?", LostNoAddress
		case !ok || l.addr < m.lo || l.addr >= m.hi || m.name == "" && m.build.IsZero():
			return "?", LostUnmapped
		case m.name == "[vdso]":
			return "?", LostVDSO
		case strings.HasPrefix(m.name, "["):
			return "?", LostAnonymous
		}
		return fmt.Sprintf("%s %s %#x", m.name, m.build, l.addr-m.lo+m.off+delta), ""
	}
	out := map[string]uint64{}
	for _, s := range samples {
		if s.n == 0 {
			continue
		}
		if len(s.locs) == 0 {
			out["lost: "+string(LostNoAddress)] += s.n
			continue
		}
		if len(s.locs) > 1 && locs[s.locs[0]].function == "runtime.asyncPreempt" {
			s.locs = s.locs[1:]
		}
		if why := MadeUp(locs[s.locs[0]].function); why != "" {
			out["lost: "+string(why)] += s.n
			continue
		}
		made := len(s.locs) > 1 && MadeUp(locs[s.locs[1]].function) != ""
		delta := uint64(0)
		if made {
			delta = 1
		}
		at, lost := place(s.locs[0], delta)
		if lost != "" {
			out["lost: "+string(lost)] += s.n
			continue
		}
		out["at "+at] += s.n
		frames := []string{at}
		for i, id := range s.locs[1:] {
			if MadeUp(locs[id].function) != "" {
				break
			}
			delta := uint64(1)
			if injected(&profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: locs[s.locs[i]].function}}}}) {
				delta = 0
			}
			frame, _ := place(id, delta)
			frames = append(frames, frame)
		}
		out["stack "+strings.Join(frames, ", ")] += s.n
	}
	return out
}

// drawnPprof is a profile with n samples in files, some of which have no name or no build ID, and in what is no file.
func drawnPprof(t *testing.T, r *rand.Rand, n int) []byte {
	t.Helper()
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
		Period:     1000,
	}
	names := []string{"/bin/app", "/usr/lib/libc.so.6", "/opt/a/b.so", "[vdso]", "[heap]", ""}
	start := uint64(0x400000)
	for i := range 40 {
		size := uint64(1+r.IntN(64)) << 12
		m := &profile.Mapping{ID: uint64(i + 1), Start: start, Limit: start + size, Offset: uint64(r.IntN(100)) << 12, File: names[r.IntN(len(names))]}
		switch {
		case strings.HasPrefix(m.File, "["):
		case m.File != "" && r.IntN(3) == 0: // by its name alone
			m.File += fmt.Sprint(".", i)
		default:
			m.BuildID = fmt.Sprintf("%040x", r.Uint64()|1)
		}
		p.Mapping = append(p.Mapping, m)
		start += size + uint64(r.IntN(3))<<12
	}
	for i := range 30 {
		p.Function = append(p.Function, &profile.Function{ID: uint64(i + 1), Name: fmt.Sprint("main.f", i), Filename: "a.go", StartLine: int64(i)})
	}
	for i := range 600 {
		m := p.Mapping[r.IntN(len(p.Mapping))]
		l := &profile.Location{ID: uint64(i + 1), Mapping: m, Address: m.Start + r.Uint64N(m.Limit-m.Start)}
		for range r.IntN(3) {
			l.Line = append(l.Line, profile.Line{Function: p.Function[r.IntN(len(p.Function))], Line: int64(r.IntN(100))})
		}
		p.Location = append(p.Location, l)
	}
	for range n {
		s := &profile.Sample{Value: []int64{r.Int64N(1 << r.IntN(30)), 0}}
		s.Value[1] = s.Value[0] * p.Period
		for range 1 + r.IntN(9) {
			s.Location = append(s.Location, p.Location[r.IntN(len(p.Location))])
		}
		p.Sample = append(p.Sample, s)
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
