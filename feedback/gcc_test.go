package feedback

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
)

func TestWriteGCC(t *testing.T) {
	for _, tt := range []struct {
		name string
		gcc  int
		text string
		want map[string]string // by function: its lines and inlined bodies
	}{
		{
			name: "gcc 12 reads no discriminators: a line has the count of its hottest block", gcc: 12,
			text: "proc f@10 x1\nblock x5\nf:11.1\nblock x9\nf:11\nblock x2\nf:11.7",
			want: map[string]string{"f": "1=9"},
		},
		{
			name: "gcc 13 does, as the line table has them", gcc: 13,
			text: "proc f@10 x1\nblock x5\nf:11.1\nblock x9\nf:11\nblock x2\nf:11.1028",
			want: map[string]string{"f": "1=9 1.1=5 1.1028=2"},
		},
		{
			// Of base 1: 7 before a loop, 4 executions in each of 5 turns of it, and 3 behind. 33793 is 1 + 4<<8 + 1<<15, 65537 1 + 2<<15.
			name: "gcc 16 says how many executions one of the code stands for, and numbers copies, which add up", gcc: 16,
			text: "proc f@10 x1\nblock x7\nf:11.1\nf:12\nblock x5\nf:11.33793\nblock x3\nf:11.65537\nf:12.65536",
			want: map[string]string{"f": "1.1=30 2=10"},
		},
		{
			name: "so do copies of what was inlined, and their calls are of one line", gcc: 16,
			text: "func g@20\nproc f@10 x1\nblock x7\ng:21<f:11\ng:22.32768<f:11\nblock x3\ng:21<f:11.32768\nblock x2\ng:22<f:11.65536",
			want: map[string]string{"f": "1:g(1=10 2=9)"},
		},
		{
			name: "direct calls have no targets", gcc: 12,
			text: "proc f@10 x1\nblock x5\nf:11 call g x5\nproc g@20 x5\nblock x5\ng:21",
			want: map[string]string{"f": "1=5", "g": "1=5"},
		},
		{
			name: "zeros are known, what is unknown is not there", gcc: 12,
			text: "proc f@10 x1\nblock x5\nf:11\nblock x0\nf:12\nblock x0 none\nf:13",
			want: map[string]string{"f": "1=5 2=0"},
		},
		{
			name: "a line that became a choice ran between never and each time", gcc: 12,
			text: "proc f@10 x1\nblock x8\nf:11\nf:12 compares\nf:12 chooses\nf:13 chooses\nf:13\nf:14 compares\nf:15",
			want: map[string]string{"f": "1=8 2=4 3=8 4=8 5=8"},
		},
		{
			// CHECK(top < end), a line that is a check and a failure.
			name: "gcc 12 is told of a line that ran, and of which a part failed, how often that did", gcc: 12,
			text: "proc f@10 x900\nblock x900\nf:11\nf:12\nblock x900\nf:13\nblock x0\nf:12\nblock x0 ends\nf:12\nf:15\nblock x900\nf:14\nblock x800 ends\nf:14\nblock x0\nf:13\n" +
				"edge 0>1 fallthrough x900\nedge 0>2 taken x0\nedge 1>4 taken x900\nedge 2>3 fallthrough x0",
			want: map[string]string{"f": "1=900 2=0 3=900 4=900 5=0"},
		},
		{
			name: "so is gcc 13", gcc: 13,
			text: "proc f@10 x900\nblock x900\nf:11\nf:12\nblock x0 ends\nf:12",
			want: map[string]string{"f": "1=900 2=0"},
		},
		{
			// p = a[i]; if (p == q) continue; if (p && p->x) n++; the second condition has blocks of its own, of which only the first has another line.
			name: "a condition says what nothing else of its blocks says, or is left out", gcc: 12,
			text: "proc f@10 x900\nblock x900\nf:11\nf:12\nblock x600\nf:13\nf:14\nblock x300\nf:14\nblock x200\nf:15\nblock x900\nf:16\n" +
				"edge 0>1 fallthrough x600\nedge 0>4 taken x300\nedge 1>2 fallthrough x300\nedge 1>4 taken x300\nedge 2>3 fallthrough x200\nedge 2>4 taken x100\nedge 3>4 fallthrough x200",
			want: map[string]string{"f": "1=900 3=600 4=300 5=200 6=900"},
		},
		{
			// The load of `if (c[0] == x) c[0] = c[1];` is done before the branch.
			name: "a line of which a part was moved up has the count of the rest", gcc: 14,
			text: "proc f@10 x900\nblock x900\nf:11\nf:13\nf:12\nblock x300\nf:13\nblock x900\nf:14\nedge 0>1 fallthrough x300\nedge 0>2 taken x600\nedge 1>2 fallthrough x300",
			want: map[string]string{"f": "1=900 3=300 4=900"},
		},
		{
			name: "gcc 16 is told of all", gcc: 16,
			text: "proc f@10 x900\nblock x900\nf:11\nf:13\nf:12\nblock x300\nf:13\nblock x900\nf:14\nedge 0>1 fallthrough x300\nedge 0>2 taken x600\nedge 1>2 fallthrough x300",
			want: map[string]string{"f": "1=900 2=900 3=900 4=900"},
		},
		{
			// push(x) { if (size == room) grow(); data[size++] = x; }, a line that is a check, a call and what follows.
			name: "or how often it called, if it branches to a call of its own that hardly ran", gcc: 12,
			text: "func push@30\nproc grow@40 x1\nblock x1\ngrow:41\nproc f@10 x900\nblock x900\nf:11\npush:31<f:12\nblock x1\npush:31.1<f:12 call grow x1\nblock x900\npush:31.2<f:12\nf:13\n" +
				"edge 0>1 fallthrough x1\nedge 0>2 taken x899\nedge 1>2 fallthrough x1",
			want: map[string]string{"f": "1=900 3=900 2:push(1=1)", "grow": "1=1"},
		},
		{
			name: "but if the call ran, or a branch of another line leads to it", gcc: 12,
			text: "func push@30\nproc grow@40 x90\nblock x90\ngrow:41\nproc f@10 x900\nblock x900\npush:31<f:12\nblock x90\npush:31<f:12 call grow x90\nblock x900\nf:13\nf:14\nblock x0\nf:13 call grow x0\nblock x900\nf:13\n" +
				"edge 0>1 fallthrough x90\nedge 0>2 taken x810\nedge 1>2 fallthrough x90\nedge 2>3 fallthrough x0\nedge 2>4 taken x900\nedge 3>4 fallthrough x0",
			want: map[string]string{"f": "3=900 4=900 2:push(1=900)", "grow": "1=90"},
		},
		{
			// if (i < 0) i += n: the sum is computed each time, and selected.
			name: "so did what was computed for the choice alone", gcc: 12,
			text: "proc f@10 x1\nblock x8\nf:11 reads1 writes4\nf:12 reads4 writes4\nf:12 compares reads1 writes32\nf:12 reads4 writes2\nf:12 chooses reads32 reads2 reads3 writes3",
			want: map[string]string{"f": "1=8 2=4"},
		},
		{
			// m = max(m, a[i]): what is compared is needed each time.
			name: "but not what something else reads, or an instruction of another line computed", gcc: 12,
			text: "proc f@10 x1\nblock x8\nf:12 writes2\nf:11 compares reads2 reads3 writes32\nf:11 writes5\nf:12 chooses reads32 reads2 reads3 writes3\n" +
				"block x8\nf:13 writes2\nf:14 chooses reads2 reads3 writes3\nblock x8\nf:15 writes2\nf:15 chooses reads2 reads3 writes3\nf:16 reads2",
			want: map[string]string{"f": "1=8 2=8 3=8 4=4 5=8 6=8"},
		},
		{
			name: "what gcc split off or copied is code of the function", gcc: 12,
			text: "proc f.part.0@10 x2\nblock x2\nf.part.0:12\nproc f@10 x5\nblock x5\nf:11\nproc f.constprop.0.isra.0@10 x3\nblock x3\nf.constprop.0.isra.0:11",
			want: map[string]string{"f": "1=8 2=2"},
		},
		{
			name: "a part that gcc split off and put back is code of the function, and its call is none of the source", gcc: 12,
			text: "func f@10\nfunc g@20\nproc f@10 x9\nblock x9\nf:11\nblock x7\nf:12<f:10\ng:21<f:13<f:10\nblock x2\nf:14<f:15",
			want: map[string]string{"f": "1=9 2=7 3:g(1=7) 5:f(4=2)"},
		},
		{
			// Of f's branches, 1 in 10 is taken, of g's 1 in 2.
			name: "a function whose branches are hardly taken is not there: gcc 12 lays it out as before", gcc: 12,
			text: "proc f@10 x100\nblock x100\nf:11\nblock x90\nf:12\nblock x100\nf:13\nedge 0>1 fallthrough x90\nedge 0>2 taken x10\nedge 1>2 fallthrough x90\n" +
				"proc g@20 x100\nblock x100\ng:21\nblock x50\ng:22\nblock x100\ng:23\nedge 0>1 fallthrough x50\nedge 0>2 taken x50\nedge 1>2 fallthrough x50",
			want: map[string]string{"g": "1=100 2=50 3=100"},
		},
		{
			name: "unless none would be left", gcc: 12,
			text: "proc f@10 x100\nblock x100\nf:11\nblock x90\nf:12\nblock x100\nf:13\nedge 0>1 fallthrough x90\nedge 0>2 taken x10\nedge 1>2 fallthrough x90",
			want: map[string]string{"f": "1=100 2=90 3=100"},
		},
		{
			name: "or for gcc 16, which takes what has no profile for cold", gcc: 16,
			text: "proc f@10 x100\nblock x100\nf:11\nblock x90\nf:12\nblock x100\nf:13\nedge 0>1 fallthrough x90\nedge 0>2 taken x10\nedge 1>2 fallthrough x90\nproc g@20 x1\nblock x1\ng:21",
			want: map[string]string{"f": "1=100 2=90 3=100", "g": "1=1"},
		},
		{
			name: "inlined constructors have the names of all variants", gcc: 12,
			text: "func _ZN1AC4Ev@20\nproc f@10 x1\nblock x5\n_ZN1AC4Ev:21<f:11\nblock x9\n_ZN1AC4Ev:22<f:11",
			want: map[string]string{"f": "1:_ZN1AC1Ev(0=9) 1:_ZN1AC2Ev(0=9) 1:_ZN1AC4Ev(1=5 2=9)"},
		},
		{
			name: "for gcc 16, which takes a second body at a call for a mistake, that of debug information alone", gcc: 16,
			text: "func _ZN1AC4Ev@20\nproc f@10 x1\nblock x5\n_ZN1AC4Ev:21<f:11\nblock x9\n_ZN1AC4Ev:22<f:11",
			want: map[string]string{"f": "1:_ZN1AC4Ev(1=5 2=9)"},
		},
		{
			name: "unless they did not run", gcc: 12,
			text: "func _ZN1AD4Ev@20\nproc f@10 x1\nblock x5\nf:12\nblock x0\n_ZN1AD4Ev:22<f:11",
			want: map[string]string{"f": "2=5 1:_ZN1AD4Ev(2=0)"},
		},
	} {
		b, _ := gccFile(t, newProgram(t, tt.text), tt.gcc)
		_, funcs, err := decodeAFDO(b)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		for name, f := range funcs {
			if got := brief(f); got != tt.want[name] {
				t.Errorf("%s: %s is %s, want %s", tt.name, name, got, tt.want[name])
			}
		}
		if len(funcs) != len(tt.want) {
			t.Errorf("%s: %d functions, want %d", tt.name, len(funcs), len(tt.want))
		}
	}
}

// TestGCCParts: a function of which only a part is not inlined is entered as often as that, and if that did not run, nothing is known of it: gcc takes
// what is not entered for cold. What was inlined adds to both.
func TestGCCParts(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       map[string]uint64 // entries, by function
	}{
		{"a part is entered", "func f@10\nproc f.part.0@10 x7\nblock x7\nf.part.0:12\nproc g@20 x9\nblock x9\ng:21\nblock x2\nf:11<g:22", map[string]uint64{"f": 9, "g": 9}},
		{"its cold part does not count", "func f@10\nproc f.part.0@10 x7\nblock x7\nf.part.0:12\nproc f.part.0.cold@10 x5\nblock x5\nf.part.0:13", map[string]uint64{"f": 7}},
		{"from more places than the function", "proc f@10 x3\nblock x3\nf:11\nproc f.part.0@10 x7\nblock x7\nf.part.0:12", map[string]uint64{"f": 7}},
		{"or less", "proc f@10 x9\nblock x9\nf:11\nproc f.part.0@10 x7\nblock x7\nf.part.0:12", map[string]uint64{"f": 9}},
		{"nor does what gcc inlined everywhere", "func f@10\nfunc h@30\nproc g@20 x9\nblock x9\ng:21\nblock x4\nf:11<g:22\nblock x2\nf:11<g:23\nh:31<f:12<g:23", map[string]uint64{"f": 6, "g": 9, "h": 2}},
		{"nor the second of two calls that were inlined at one place", "func f@10\nfunc h@30\nfunc k@40\nproc g@20 x9\nblock x9\ng:21\nblock x4\nh:31<f:11<g:22\nblock x2\nk:41<f:11<g:22", map[string]uint64{"f": 4, "g": 9, "h": 4, "k": 2}},
		{"a check that did not fail", "func f@10\nproc f.part.0@10 x0\nblock x0\nf.part.0:11\nproc g@20 x9\nblock x9\ng:21", map[string]uint64{"g": 9}},
		{"a function that did not run", "proc f@10 x0\nblock x0\nf:11\nproc g@20 x9\nblock x9\ng:21", map[string]uint64{"f": 0, "g": 9}},
	} {
		b, _ := gccFile(t, newProgram(t, tt.text), 14)
		_, funcs, err := decodeAFDO(b)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		got := map[string]uint64{}
		for name, f := range funcs {
			got[name] = f.head
		}
		if !maps.Equal(got, tt.want) {
			t.Errorf("%s: entries %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestGCCGuided: what was built with a profile is straight by that, and keeps it.
func TestGCCGuided(t *testing.T) {
	const text = "proc f@10 x100\nblock x100\nf:11\nblock x90\nf:12\nblock x100\nf:13\nedge 0>1 fallthrough x90\nedge 0>2 taken x10\nedge 1>2 fallthrough x90\n" +
		"proc g@20 x100\nblock x100\ng:21\nblock x50\ng:22\nblock x100\ng:23\nedge 0>1 fallthrough x50\nedge 0>2 taken x50\nedge 1>2 fallthrough x50"
	for options, want := range map[string]int{"-O2 -fno-tracer": 1, "-O2 -fno-tracer -fauto-profile=/src/app.afdo": 2, "-O2 -fprofile-use=/src/prof": 2} {
		p := newProgram(t, text)
		p.producer = "GNU C17 12.2.0 -g " + options
		var out bytes.Buffer
		if _, err := writeGCC(&out, p.view, 12); err != nil {
			t.Fatal(err)
		}
		if _, funcs, err := decodeAFDO(out.Bytes()); err != nil || len(funcs) != want {
			t.Errorf("built with %s: %d functions, want %d; %v", options, len(funcs), want, err)
		}
	}
}

// brief returns the lines and inlined bodies of f: "LINE=COUNT LINE:CALLEE(...)".
func brief(f *function) string {
	var parts []string
	for _, at := range f.lines() {
		parts = append(parts, fmt.Sprintf("%v=%d", at, f.body[at]))
	}
	for _, c := range sortedKeys(f.inlined, compareCalls) {
		parts = append(parts, fmt.Sprintf("%v:%s(%s)", c.at, c.callee, brief(f.inlined[c])))
	}
	return strings.Join(parts, " ")
}

func TestGCCName(t *testing.T) {
	for _, tt := range []struct {
		gcc          int
		symbol, want string
	}{
		{12, "f", "f"},
		{12, "f.part.0", "f"},
		{12, "f.constprop.0.isra.0", "f"},
		{12, "main._omp_fn.0", "main"},
		{12, ".Lf", ".Lf"},
		{16, "f.constprop.0.isra.0", "f"},
		{16, "main._omp_fn.0", "main._omp_fn.0"},
		{16, "nested.0", "nested.0"},
	} {
		if got := gccName(tt.gcc, tt.symbol); got != tt.want {
			t.Errorf("gcc %d calls %s %s, want %s", tt.gcc, tt.symbol, got, tt.want)
		}
	}
}

func TestMadeByGCC(t *testing.T) {
	for producer, want := range map[string]int{
		"GNU C17 12.2.0 -mtune=generic -march=x86-64 -g -O2": 12,
		"GNU C++17 16.1.0 -O2":                               16,
		"GNU GIMPLE 13.3.0 -flto":                            13,
		"GNU Fortran2008 14.2.0":                             14,
		"Debian clang version 19.1.7 (3+b1)":                 0,
		"clang version 19.1.7 (GNU C17 12.2.0)":              0,
		"rustc version 1.63.0":                               0,
		"":                                                   0,
	} {
		if got := madeByGCC(image.Unit{Producer: producer, Lang: "c"}); got != want {
			t.Errorf("%q is of gcc %d, want %d", producer, got, want)
		}
	}
	if got := madeByGCC(image.Unit{Producer: "GNU AS 2.40", Lang: "asm"}); got != 0 {
		t.Errorf("an assembler is gcc %d", got)
	}
}

func TestGCCVersion(t *testing.T) {
	p := newProgram(t, "proc f@10 x1\nblock x5\nf:11 s9\nproc g@20 x1\nblock x5\ng:21 s5")
	p.producer = "GNU C17 14.2.0"
	if got := gccVersion(p, p.Procs); got != 14 {
		t.Errorf("gcc %d, want 14", got)
	}
	var out bytes.Buffer
	if st, err := writeGCC(&out, p.view, 15); err != nil || st.Version != 15 || len(st.Made) != 1 || st.Made[14] != p.Procs[0].Instructions()+p.Procs[1].Instructions() {
		t.Errorf("%+v, %v: want all instructions by gcc 14", st, err)
	}
	if p.producer = "clang version 19"; gccVersion(p, p.Procs) != 0 {
		t.Error("clang is taken for a gcc")
	}
}

// TestGCCSkips: why a procedure is left out says what to do about it: nothing about assembly, debug information about what
// has none, and another compiler's profile about code that another compiler made.
func TestGCCSkips(t *testing.T) {
	for _, tt := range []struct {
		producer, lang string
		want           Reason
	}{
		{"", "", SkipNoLines}, // a library that was built without -g, linked in
		{"GNU AS 2.40", "asm", SkipAssembly},
		{"clang version 19", "c", SkipLang},
	} {
		p := newProgram(t, "proc f@10 x1\nblock x1\n-")
		p.producer, p.lang = tt.producer, tt.lang
		tr := newTree()
		tr.image(p.view, gccDialect(12))
		if len(tr.skipped) != 1 || tr.skipped[tt.want] != 1 {
			t.Errorf("made by %q: %v, want 1 of %q", tt.producer, tr.skipped, tt.want)
		}
	}
}

func TestGCCRefuses(t *testing.T) {
	p := newProgram(t, "proc f@10 x1\nblock x1\n-")
	p.producer = "GNU C17 12.2.0"
	var out bytes.Buffer
	if _, err := writeGCC(&out, p.view, 12); !errors.Is(err, ErrEmpty) || !strings.Contains(err.Error(), string(SkipNoLines)) {
		t.Errorf("no lines: %v, want ErrEmpty and why", err)
	}
	if _, err := writeGCC(&out, p.view, 11); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "gcc 11 reads version 1") {
		t.Errorf("gcc 11: %v, want ErrUnfit and why", err)
	}
	if _, err := WriteGCC(&out, &infer.Profile{}, nil, GCCOptions{}); !errors.Is(err, ErrEmpty) {
		t.Errorf("no images: %v, want ErrEmpty", err)
	}
	goImage := &infer.ImageProfile{Image: &image.Image{Go: "go1.26"}}
	if _, err := WriteGCC(&out, &infer.Profile{Images: []*infer.ImageProfile{goImage}}, nil, GCCOptions{}); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "Go program") {
		t.Errorf("a Go program: %v, want ErrUnfit and why", err)
	}
	if out.Len() > 0 {
		t.Errorf("%d bytes were written", out.Len())
	}
}
