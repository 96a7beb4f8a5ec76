package feedback

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// sieve is a C program with a diamond, a loop, a call through a pointer, tail
// calls, two static functions of one name and calls that leave the image.
const sieve = `
proc main@1 x1
block x1
	main:2
	main:3 call work x10
	main:4 call puts x1
proc work@10 x10
block x10
	work:11
	br=work:12
block x7
	work:13 call helper x7
block x3
	work:14
	ptr=work:15 call ? x3
block x10
	work:16
	end=work:17 tail last x10
edge 0>1 fallthrough x7
edge 0>2 taken x3
edge 1>3 taken x7
edge 2>3 fallthrough x3
edge 3>0 taken x0
proc helper@20 x7 local
block x7
	h1=helper:21
proc puts@1 x1 plt
proc helper@30 x2 local
block x2
	h2=helper:31
proc last@40 x10
block x10
	last:41
proc vague@50 x5 incomplete
block x5
	vague:51 call last x5
proc unknown@60 x0 none
block x0 none
	unknown:61
`

func newSieve(t *testing.T) *program {
	p := newProgram(t, sieve)
	helpers := 0
	for i := range p.syms {
		if p.syms[i].Local {
			helpers++
			p.syms[i].Ordinal = helpers
		}
	}
	p.stack(2, "h1", "ptr")
	p.stack(1, "h2", "ptr")
	p.branch(40, 10, "br", "work")
	return p
}

func TestWriteBOLT(t *testing.T) {
	p := newSieve(t)
	// LBR saw br go to the block behind the diamond's left arm.
	to := p.Procs[1].Proc.Blocks[2].Start
	p.counts.AddBranch(sample.Branch{From: sample.Frame{Off: sample.Offset(p.labels["br"])}, To: sample.Frame{Off: sample.Offset(to)}}, 6, 2)
	var out bytes.Buffer
	stats, err := writeBOLT(&out, p.view)
	if err != nil {
		t.Fatal(err)
	}
	testtool.Golden(t, "testdata/sieve.fdata", out.Bytes())
	want := BOLTStats{Image: p.ID, Procs: 5, Edges: 4, Calls: 5, Entries: 2, Skipped: Skipped{
		SkipImport: 1, SkipIncomplete: 1, SkipUnknown: 1, SkipNoSymbol: 1,
	}}
	if stats.Procs != want.Procs || stats.Edges != want.Edges || stats.Calls != want.Calls || stats.Entries != want.Entries {
		t.Errorf("stats %+v, want %+v", stats, want)
	}
	for why, n := range want.Skipped {
		if stats.Skipped[why] != n {
			t.Errorf("%s: %d, want %d", why, stats.Skipped[why], n)
		}
	}
}

func TestBOLTNames(t *testing.T) {
	names, unfit := boltNames([]image.Symbol{
		{Name: "f", Addr: 1, Local: true, Ordinal: 2},
		{Name: "f", Addr: 2},
		{Name: "f", Addr: 3, Local: true, Ordinal: 1},
		{Name: "g", Addr: 6, Local: true},
		{Name: "puts@plt", Addr: 4, Source: image.FromPLT},
		{Name: `operator new \`, Addr: 5},
		{Name: "two\nlines", Addr: 7},
		{Name: "f/1", Addr: 8},
	})
	for a, want := range map[image.Addr]string{1: "f/2", 2: "f", 3: "f/1", 4: "", 6: "", 5: `operator\ new\ \\`, 7: "", 8: ""} {
		if names[a] != want {
			t.Errorf("name of %#x is %q, want %q", a, names[a], want)
		}
	}
	if !unfit[7] || !unfit[8] || len(unfit) != 2 {
		t.Errorf("names that do not fit: %v, want those of two lines and of a local symbol", unfit)
	}
}

func TestBOLTRefuses(t *testing.T) {
	gopher := &infer.ImageProfile{ID: sample.ImageID{Path: "/bin/gopher"}, Image: &image.Image{Go: "go1.26"}, Samples: 10}
	p := &infer.Profile{Images: []*infer.ImageProfile{gopher}}
	var out bytes.Buffer
	if _, err := WriteBOLT(&out, p, nil, BOLTOptions{Image: "/bin/gopher"}); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "pclntab") {
		t.Errorf("Go program: %v, want ErrUnfit and why", err)
	}
	if _, err := WriteBOLT(&out, p, nil, BOLTOptions{}); !errors.Is(err, ErrUnfit) {
		t.Errorf("nothing but a Go program: %v, want ErrUnfit", err)
	}
	if _, err := WriteBOLT(&out, p, nil, BOLTOptions{Image: "/bin/other"}); !errors.Is(err, ErrEmpty) || !strings.Contains(err.Error(), "/bin/other") {
		t.Errorf("an image that is not there: %v, want ErrEmpty and its name", err)
	}
	if out.Len() > 0 {
		t.Errorf("%d bytes written", out.Len())
	}
}

// TestBOLTPick: of two images, the one that keeps its relocations is the choice, however many samples a library has.
func TestBOLTPick(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "f.c")
	if err := os.WriteFile(src, []byte("int f(int x) { return x ? f(x - 1) : 0; }\nint main(int n, char **v) { return f(n); }\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	built := func(name string, samples uint64, flags ...string) *infer.ImageProfile {
		path := filepath.Join(dir, name)
		testtool.Run(t, dir, append(append([]string{"gcc"}, flags...), "-O1", "-o", path, src)...)
		im, err := image.Open(path, image.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { im.Close() })
		return &infer.ImageProfile{ID: sample.ImageID{Path: path}, Image: im, Samples: samples}
	}
	app, lib := built("app", 30, "-Wl,--emit-relocs"), built("lib.so", 50, "-shared", "-fPIC")
	gopher := &infer.ImageProfile{ID: sample.ImageID{Path: "/bin/gopher"}, Image: &image.Image{Go: "go1.26"}, Samples: 90}
	for _, tt := range []struct {
		name   string
		images []*infer.ImageProfile
		asked  string
		want   *infer.ImageProfile
	}{
		{"one with relocations", []*infer.ImageProfile{gopher, lib, app}, "", app},
		{"none with relocations", []*infer.ImageProfile{gopher, lib}, "", lib},
		{"asked for", []*infer.ImageProfile{lib, app}, lib.ID.Path, lib},
	} {
		if got, err := pickForBOLT(&infer.Profile{Images: tt.images}, tt.asked); err != nil || got != tt.want {
			t.Errorf("%s: %v, %v, want %s", tt.name, got, err, tt.want.ID.Path)
		}
	}
}
