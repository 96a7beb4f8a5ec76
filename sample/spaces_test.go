package sample

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// play tells Spaces of changes written one per field:
//
//	map:PID:IMAGE:START-END[@OFF]   fork:PID:PARENT   exec:PID   began:PID:NS   exit:PID
//
// with numbers in hexadecimal. An IMAGE in capitals is a Loss.
func play(t *testing.T, changes string) *Spaces {
	t.Helper()
	var s Spaces
	for f := range strings.FieldsSeq(changes) {
		var pid, parent int
		var m Mapping
		verb, rest, _ := strings.Cut(f, ":")
		switch verb {
		case "map":
			part := strings.SplitN(rest, ":", 3)
			fmt.Sscanf(part[0], "%x", &pid)
			fmt.Sscanf(part[2], "%x-%x@%x", &m.Start, &m.End, &m.Off)
			if part[1] == strings.ToUpper(part[1]) {
				m.Loss = Loss(part[1])
			} else {
				m.Image = ImageID{Path: part[1]}
			}
			s.Map(pid, m)
		case "fork":
			fmt.Sscanf(rest, "%x:%x", &pid, &parent)
			s.Fork(pid, parent)
		case "exec":
			fmt.Sscanf(rest, "%x", &pid)
			s.Exec(pid)
		case "began":
			var at uint64
			fmt.Sscanf(rest, "%x:%d", &pid, &at)
			s.Began(pid, at)
		case "exit":
			fmt.Sscanf(rest, "%x", &pid)
			s.Exit(pid)
		default:
			t.Fatalf("%q: unknown change", f)
		}
	}
	return &s
}

func (s *Spaces) at(pid int, pc uint64) string {
	return placeOf(s.Find(pid, pc))
}

func placeOf(id ImageID, off Offset, loss Loss) string {
	if loss != "" {
		return string(loss)
	}
	return fmt.Sprintf("%s+%x", id.Path, uint64(off))
}

func TestAge(t *testing.T) {
	for _, tt := range []struct {
		name, changes string
		pid           int
		want          string
	}{
		{"executed", "exec:1 began:1:5000", 1, "2 true"},
		{"not seen to begin", "map:1:a:10-20", 1, "0 false"},
		{"never heard of", "", 1, "0 false"},
		{"child", "exec:1 began:1:5000 fork:2:1", 2, "2 true"},
		{"child of what ran before", "fork:2:1", 2, "0 false"},
		{"child with a program of its own", "exec:1 began:1:1000 fork:2:1 exec:2 began:2:6000", 2, "1 true"},
		{"child whose program has no time", "exec:1 began:1:1000 fork:2:1 exec:2", 2, "0 false"},
		{"clock before the beginning", "exec:1 began:1:8000", 1, "0 false"},
	} {
		us, known := play(t, tt.changes).Age(tt.pid, 7900)
		if got := fmt.Sprint(us, known); got != tt.want {
			t.Errorf("%s: %s: age %s, want %s", tt.name, tt.changes, got, tt.want)
		}
	}
}

func TestSpaces(t *testing.T) {
	for _, tt := range []struct {
		name, changes string
		pid           int
		pc            uint64
		want          string
	}{
		{"offset counts", "map:1:a:1000-2000@400", 1, 0x1010, "a+410"},
		{"first byte", "map:1:a:1000-2000", 1, 0x1000, "a+0"},
		{"end is outside", "map:1:a:1000-2000", 1, 0x2000, "unmapped"},
		{"below", "map:1:a:1000-2000", 1, 0xfff, "unmapped"},
		{"gap", "map:1:a:1000-2000 map:1:b:3000-4000", 1, 0x2800, "unmapped"},
		{"unknown process", "map:1:a:1000-2000", 2, 0x1000, "unmapped"},
		{"loss", "map:1:VDSO:1000-2000", 1, 0x1000, "VDSO"},
		{"empty mapping", "map:1:a:1000-2000 map:1:b:1800-1800", 1, 0x1800, "a+800"},

		{"replaced", "map:1:a:1000-2000 map:1:b:1000-2000", 1, 0x1800, "b+800"},
		{"hole cut, left", "map:1:a:1000-4000@0 map:1:b:2000-3000@0", 1, 0x1fff, "a+fff"},
		{"hole cut, middle", "map:1:a:1000-4000@0 map:1:b:2000-3000@0", 1, 0x2000, "b+0"},
		{"hole cut, right", "map:1:a:1000-4000@0 map:1:b:2000-3000@0", 1, 0x3000, "a+2000"},
		{"covers several", "map:1:a:1000-2000 map:1:b:2000-3000 map:1:c:3000-4000 map:1:d:1800-3800", 1, 0x2800, "d+1000"},
		{"covers several, left", "map:1:a:1000-2000 map:1:b:2000-3000 map:1:c:3000-4000 map:1:d:1800-3800", 1, 0x17ff, "a+7ff"},
		{"covers several, right", "map:1:a:1000-2000 map:1:b:2000-3000 map:1:c:3000-4000 map:1:d:1800-3800", 1, 0x3800, "c+800"},

		{"child inherits", "map:1:a:1000-2000 fork:2:1", 2, 0x1000, "a+0"},
		{"child's change is its own", "map:1:a:1000-2000 fork:2:1 map:2:b:1000-2000", 1, 0x1000, "a+0"},
		{"parent's change is its own", "map:1:a:1000-2000 fork:2:1 map:1:b:1000-2000", 2, 0x1000, "a+0"},
		{"grandchild", "map:1:a:1000-2000 fork:2:1 fork:3:2 map:2:b:1000-2000", 3, 0x1000, "a+0"},
		{"process number used again", "map:1:a:1000-2000 map:2:b:1000-2000 fork:2:1", 2, 0x1000, "a+0"},

		{"exec forgets", "map:1:a:1000-2000 exec:1", 1, 0x1000, "unmapped"},
		{"exec leaves the parent alone", "map:1:a:1000-2000 fork:2:1 exec:2 map:2:b:1000-2000", 1, 0x1000, "a+0"},
		{"exec, then maps", "map:1:a:1000-2000 exec:1 map:1:b:1000-2000", 1, 0x1000, "b+0"},

		{"last thread ends", "map:1:a:1000-2000 exit:1", 1, 0x1000, "unmapped"},
		{"one of two threads ends", "map:1:a:1000-2000 fork:1:1 exit:1", 1, 0x1000, "a+0"},
		{"both threads end", "map:1:a:1000-2000 fork:1:1 exit:1 exit:1", 1, 0x1000, "unmapped"},
		{"exec ends all threads but one", "map:1:a:1000-2000 fork:1:1 exec:1 map:1:b:1000-2000 exit:1", 1, 0x1000, "unmapped"},
	} {
		if got := play(t, tt.changes).at(tt.pid, tt.pc); got != tt.want {
			t.Errorf("%s: at %#x of process %d: %s, want %s", tt.name, tt.pc, tt.pid, got, tt.want)
		}
	}
}

// TestSpacesAtRandom compares with one entry per byte of tiny address spaces.
func TestSpacesAtRandom(t *testing.T) {
	const size, processes = 64, 4
	r := rand.New(rand.NewPCG(1, 2))
	var s Spaces
	var plain [processes][size]string
	for i := range plain {
		for pc := range plain[i] {
			plain[i][pc] = string(LostUnmapped)
		}
	}
	var old []View // and what was there
	var was [][size]string
	var finder Finder
	for step := range 5000 {
		pid, parent := r.IntN(processes), r.IntN(processes)
		switch r.IntN(10) {
		case 0:
			s.Fork(pid, parent)
			plain[pid] = plain[parent]
		case 1:
			s.Exec(pid)
			for pc := range plain[pid] {
				plain[pid][pc] = string(LostUnmapped)
			}
		default:
			a, b := uint64(r.IntN(size)), uint64(r.IntN(size))
			m := Mapping{Start: min(a, b), End: max(a, b), Off: Offset(r.IntN(1000)), Image: ImageID{Path: fmt.Sprint(step)}}
			s.Map(pid, m)
			for pc := m.Start; pc < m.End; pc++ {
				plain[pid][pc] = fmt.Sprintf("%d+%x", step, uint64(m.Off)+pc-m.Start)
			}
		}
		for range 20 {
			pid, pc := r.IntN(processes), r.IntN(size)
			if got := s.at(pid, uint64(pc)); got != plain[pid][pc] {
				t.Fatalf("step %d: at %#x of process %d: %s, want %s", step, pc, pid, got, plain[pid][pc])
			}
		}
		if pid := r.IntN(processes); step%50 == 0 {
			old, was = append(old, s.View(pid)), append(was, plain[pid])
		}
		for range 5 { // Views stay as they were
			k, pc := r.IntN(len(old)), r.IntN(size)
			if got := placeOf(finder.Find(old[k], uint64(pc))); got != was[k][pc] {
				t.Fatalf("step %d: at %#x of view %d: %s, want %s", step, pc, k, got, was[k][pc])
			}
		}
	}
}

func BenchmarkSpacesFind(b *testing.B) {
	var s Spaces
	for i := range uint64(200) {
		s.Map(1, Mapping{Start: i << 20, End: (i + 1) << 20, Image: ImageID{Path: "a"}})
	}
	for i := uint64(0); b.Loop(); i++ {
		s.Find(1, i*0x1357%(200<<20))
	}
}
