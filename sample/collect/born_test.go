package collect

import (
	"fmt"
	"testing"

	"backfeed/sample"
)

// told returns processes that were told of "fork PID PARENT TIME", "exec PID TIME",
// "map PID TIME PATH", "gone PID" and "next", the end of a round.
func told(t *testing.T, story ...string) *processes {
	t.Helper()
	var p processes
	tell(t, &p, story...)
	return &p
}

// tell tells p of such a story.
func tell(t *testing.T, p *processes, story ...string) {
	t.Helper()
	for _, s := range story {
		var what, path string
		var pid, parent int
		var time uint64
		fmt.Sscan(s, &what)
		switch what {
		case "fork":
			fmt.Sscan(s, &what, &pid, &parent, &time)
			p.fork(pid, parent, time, "")
		case "exec":
			fmt.Sscan(s, &what, &pid, &time)
			p.exec(pid, time, "")
		case "map":
			fmt.Sscan(s, &what, &pid, &time, &path)
			p.mapped(pid, time, sample.Mapping{Start: 0x1000, End: 0x2000, Image: sample.ImageID{Path: path}})
		case "gone":
			fmt.Sscan(s, &what, &pid)
			p.gone(pid)
		case "next":
			p.next()
		default:
			t.Fatalf("%q", s)
		}
	}
}

func TestBorn(t *testing.T) {
	shell := []string{"map 1 10 sh"}
	child := append(shell, "fork 2 1 100", "exec 2 110", "map 2 112 cc")
	for _, tt := range []struct {
		name  string
		story []string
		born  uint64 // of process 2; odd is an exec
		want  string // image at 0x1000
	}{
		{"before its exec", child, 98, "sh"},
		{"after its exec", child, 121, "cc"},
		{"never heard of", shell, 98, ""},
		{"second exec", append(child, "exec 2 200", "map 2 201 ld"), 205, "ld"},
		{"between two execs", append(child, "exec 2 200", "map 2 201 ld"), 121, "cc"},
		{"number used again, the first", append(child, "gone 2", "fork 2 1 300", "exec 2 310", "map 2 311 as"), 121, "cc"},
		{"number used again, before the exec", append(child, "gone 2", "fork 2 1 300", "exec 2 310", "map 2 311 as"), 298, "sh"},
		{"number used again, the second", append(child, "gone 2", "fork 2 1 300", "exec 2 310", "map 2 311 as"), 321, "as"},
		{"there from the start", []string{"map 2 10 old"}, 4, "old"},
		{"exec before the start", []string{"map 2 10 old"}, 5, "old"},
		{"exec forgotten by the sampler", append(child, "next", "next", "next"), 98, "cc"},
		{"child of what was a shell", append(child, "fork 3 2 130", "fork 2 3 140"), 138, "cc"},
		{"just gone", append(child, "gone 2", "next", "next"), 121, "cc"},
		{"long gone", append(child, "gone 2", "next", "next", "next"), 121, ""},
		{"fork told after the exec", append(shell, "exec 2 110", "map 2 112 cc", "fork 2 1 100"), 121, "cc"},
	} {
		p := told(t, tt.story...)
		got := ""
		if v := p.born(2, tt.born); v != nil {
			id, _, _ := p.spaces.Find(v.id, 0x1000)
			got = id.Path
		}
		if got != tt.want {
			t.Errorf("%s: born %d: %q, want %q", tt.name, tt.born, got, tt.want)
		}
	}
}

// TestAsked: of some processes that are asked for, they and what they start are counted.
func TestAsked(t *testing.T) {
	story := []string{"map 1 10 sh", "map 9 10 sh", "fork 2 1 100", "exec 2 110", "map 2 112 cc", "fork 3 2 120", "exec 3 130", "map 3 131 cc",
		"fork 8 9 100", "exec 8 110", "map 8 112 cc", "fork 7 8 120", "exec 7 130", "map 7 131 cc", "exec 1 200", "map 1 201 cc"}
	for _, tt := range []struct {
		some  bool
		asked []int
		want  uint64
	}{
		{false, nil, 5},
		{true, []int{1}, 3},
		{true, []int{9}, 2},
		{true, []int{1, 9}, 5},
		{true, []int{7}, 0}, // not the process of that number when it was asked for
		{true, nil, 0},
	} {
		p := processes{some: tt.some, asked: tt.asked}
		tell(t, &p, story...)
		c := sample.NewCounts(sample.CPU{}, sample.Event{})
		i := c.Image(sample.ImageID{Path: "cc"})
		if p.spaces.TellProcesses(c); c.Images[i].Processes != tt.want {
			t.Errorf("%v asked for: %d processes, want %d", tt.asked, c.Images[i].Processes, tt.want)
		}
	}
}

// TestForget: what has ended leaves nothing behind.
func TestForget(t *testing.T) {
	p := told(t, "map 1 1 sh")
	for i := range uint64(100) {
		p.fork(2, 1, 10*i+10, "")
		p.exec(2, 10*i+12, "cc")
		p.mapped(2, 10*i+13, sample.Mapping{Start: 0x1000, End: 0x2000})
		p.gone(2)
		p.next()
	}
	for range keepRounds {
		p.next()
	}
	if len(p.of) != 1 || len(p.old) != 0 {
		t.Errorf("%d processes, %d versions about to go; want that of the shell alone", len(p.of), len(p.old))
	}
}
