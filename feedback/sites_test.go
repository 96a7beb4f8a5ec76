package feedback

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/document"
	"backfeed/infer/image"
)

// TestWalkedTargets: where an indirect call goes is told by walks, in executions, and by stacks where they are few.
func TestWalkedTargets(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(p *program)
		want string
	}{
		{"nothing", func(*program) {}, ""},
		{"walks", func(p *program) { p.walked(30, "i", "one"); p.walked(10, "i", "two") }, "one 0.75, two 0.25"},
		{"some leave the image", func(p *program) { p.walked(30, "i", "one"); p.walked(10, "i", "libc") }, "one 0.75"},
		{"all do", func(p *program) { p.walked(10, "i", "libc") }, ""},
		{"stacks", func(p *program) { p.stack(50, "t", "i") }, "two 1.00"},
		{"few walks beside stacks", func(p *program) { p.walked(4, "i", "one"); p.stack(50, "t", "i") }, "one 0.50, two 0.50"},
		{"many", func(p *program) { p.walked(396, "i", "one"); p.stack(50, "t", "i") }, "one 0.99, two 0.01"},
		{"branch records are exact", func(p *program) { p.walked(396, "i", "one"); p.branch(5, 0, "i", "two") }, "two 1.00"},
	} {
		p := newProgram(t, `
			proc main@1 x1
			block x100
			i=main:2 s1 call ? x100
			proc one@10 x60
			block x60
			o=one:10 s5
			proc two@20 x40
			block x40
			t=two:20 s50`)
		tt.make(p)
		s := newSites(p.view)
		var got []string
		for _, to := range s.targets(p.Procs[0], 0) {
			got = append(got, fmt.Sprintf("%s %.2f", p.syms[p.Find(to.to)].Name, to.share))
		}
		if got := strings.Join(got, ", "); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		// The counts document says the same, by addresses.
		told := &Targets{of: map[*infer.ImageProfile]*sites{p.ImageProfile: s}}
		d := document.Proc{Calls: make([]document.Call, len(p.Procs[0].Proc.Calls))}
		told.Document(p.ImageProfile, p.Procs[0], &d)
		var all []string
		for _, to := range d.Calls[0].Targets {
			all = append(all, fmt.Sprintf("%s %.2f", p.syms[p.Find(image.Addr(to.To))].Name, to.Share))
		}
		if got := strings.Join(all, ", "); got != tt.want {
			t.Errorf("%s: the document has %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestGoWalkedTargets: a call of low confidence that walks show has its weight, and one that nothing shows a tenth.
func TestGoWalkedTargets(t *testing.T) {
	p := newProgram(t, `
		proc main.main@1 x1
		block x700 low
		i=main.main:2 s1 call ? x700 low
		main.main:3 s1 call main.c x700 low
		proc main.a@10 x500 low
		block x500 low
		a=main.a:10 s5
		proc main.b@20 x400 low
		block x400 low
		b=main.b:20 s50
		proc main.c@30 x400 low
		block x400 low
		main.c:30 s5`)
	p.walked(2, "i", "main.a")
	p.walked(1, "i", "main.b")
	p.stack(7, "b", "i")
	var out bytes.Buffer
	if _, err := writeGo(&out, p.ofGo(), GoOptions{NoTime: true}); err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"main.main 1 main.a": 200, "main.main 1 main.b": 500, "main.main 2 main.c": 70}
	if got := edgesOf(t, out.Bytes()); !maps.Equal(got, want) {
		t.Errorf("edges %v, want %v", got, want)
	}
}
