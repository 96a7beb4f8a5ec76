package feedback

import (
	"bytes"
	"testing"

	"backfeed/infer/image"
)

func TestProbeProfile(t *testing.T) {
	p := newProgram(t, `
proc f@10 x9
block x8
	-
	c=- call ? x8
block x3
	-
block x0 none
	-
proc f.cold@10 x1
block x1
	-
proc g@20 x5
block x5
	-
proc other@30 x1
block x1
	-
`)
	p.branch(6, 0, "c", "g")
	p.branch(2, 0, "c", "other")
	f := &image.ProbeBody{Func: image.ProbeFunc{Name: "f", Checksum: 42}}
	g := image.ProbeFunc{Name: "g", Checksum: 7}
	at := func(a image.Addr, id uint32, kind image.ProbeKind, in *image.ProbeBody) image.Probe {
		return image.Probe{Addr: a, ID: id, Kind: kind, In: in}
	}
	inlined := &image.ProbeBody{Func: g, Caller: f, Site: 4}
	probes := []image.Probe{
		at(0x1000, 1, image.ProbeBlock, f),
		at(0x1004, 2, image.ProbeIndirectCall, f),
		at(0x1008, 3, image.ProbeBlock, f),
		at(0x1008, 3, image.ProbeBlock, f), // a copy at one place
		at(0x1008, 1, image.ProbeBlock, inlined),
		at(0x100c, 6, image.ProbeBlock, f), // of which nothing is known
		at(0x1100, 3, image.ProbeBlock, f), // a copy in the cold part
		at(0x1100, 1<<16, image.ProbeBlock, f),
		at(0x1200, 1, image.ProbeBlock, &image.ProbeBody{Func: g}),
		at(0x1200, 1, image.ProbeBlock, &image.ProbeBody{Caller: f, Site: 5}), // of an unnamed function
	}
	l := newLLVMWriter()
	l.stats.Probes = true
	l.probed(p.view, probes)
	var out bytes.Buffer
	if err := l.write(&out, LLVMText); err != nil {
		t.Fatal(err)
	}
	const want = `f:26:8
 1: 8
 2: 8 g:6 other:2
 3: 7
 4: g:3
  1: 3
  !CFGChecksum: 7
 !CFGChecksum: 42
g:5:5
 1: 5
 !CFGChecksum: 7
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	if l.stats.Skipped[SkipProbe] != 2 || l.stats.Skipped[SkipNoProbes] != 1 || l.stats.Procs != 3 {
		t.Errorf("stats %+v: want 2 probes, and 1 procedure of 4 left out", l.stats)
	}
}
