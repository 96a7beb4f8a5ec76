package gcov

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// onGCC runs a test with each gcc that is here: the usual one, and others by their names.
func onGCC(t *testing.T, test func(t *testing.T, gcc, dump string)) {
	for _, version := range []string{"", "-9", "-10", "-11", "-13", "-14", "-15", "-16"} {
		gcc, dump := "gcc"+version, "gcov-dump"+version
		if version != "" && !(testtool.Has(gcc) && testtool.Has(dump)) {
			continue
		}
		t.Run(gcc, func(t *testing.T) {
			testtool.Need(t, gcc, dump)
			test(t, gcc, dump)
		})
	}
}

// A build is that of testdata/shapes.c in a directory of its own.
type build struct {
	dir, gcc, object string
}

func newBuild(t *testing.T, gcc, object string) *build {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &build{dir, gcc, object}
	testtool.Write(t, dir, "shapes.c", testtool.Read(t, "testdata", "shapes.c"))
	testtool.Put(t, filepath.Join(dir, "o", "keep"), "")
	return b
}

// compile runs gcc, which may say nothing, on the source.
func (b *build) compile(t *testing.T, flags ...string) {
	t.Helper()
	command := append([]string{b.gcc, "-O2", "-Wcoverage-mismatch", "-Wmissing-profile", "-c", "-o", b.object, "shapes.c"}, flags...)
	if said := b.run(t, command...); said != "" {
		t.Errorf("%s:\n%s", strings.Join(command, " "), said)
	}
}

func (b *build) run(t *testing.T, command ...string) string {
	t.Helper()
	return testtool.RunWith(t, b.dir, []string{"PWD=" + b.dir}, command...) // which gcc takes for its directory
}

// path returns a file of the build by its name as gcc has it.
func (b *build) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(b.dir, name)
}

// notes returns those of a build that reads a profile, which there is none of.
func (b *build) notes(t *testing.T) *Notes {
	t.Helper()
	b.compile(t, "-fprofile-use=prof", "-Wno-missing-profile", "-ftest-coverage")
	path := strings.TrimSuffix(b.object, ".o") + ".gcno"
	n, err := ReadNotes(strings.NewReader(testtool.Read(t, b.path(path))), path)
	if err != nil {
		t.Fatal(err)
	}
	if n.Dir != b.dir {
		t.Errorf("directory %s, want %s", n.Dir, b.dir)
	}
	return n
}

// counted returns the data of a run of the program, built by gcc to count.
func (b *build) counted(t *testing.T, n *Notes) *Data {
	t.Helper()
	b.compile(t, "-fprofile-generate=gen")
	b.run(t, b.gcc, "-fprofile-generate", "-o", "shapes", b.object)
	b.run(t, b.path("shapes"))
	path := DataPath("gen", n.Dir, n.Path, n.Version)
	d, err := ReadData(strings.NewReader(testtool.Read(t, b.path(path))), path)
	if err != nil {
		t.Fatal(err)
	}
	if d.Version != n.Version || d.BigEndian != n.BigEndian {
		t.Errorf("data of gcc %s, notes of %s", d.Version, n.Version)
	}
	return d
}

// write writes data where gcc looks for them.
func (b *build) write(t *testing.T, n *Notes, d *Data) string {
	t.Helper()
	path := DataPath("prof", n.Dir, n.Path, n.Version)
	testtool.Put(t, b.path(path), encodeData(t, d))
	return path
}

// flows returns the executions of all arcs, by function.
func flows(t *testing.T, n *Notes, d *Data) [][]int64 {
	t.Helper()
	all := make([][]int64, len(n.Functions))
	for i := range n.Functions {
		f := &n.Functions[i]
		c, ok := d.Of(f)
		if !ok || c.LineChecksum != f.LineChecksum {
			t.Fatalf("no counters of %s: %+v", f.Name, c)
		}
		var err error
		if all[i], err = f.Flows(c.Arcs); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestNotesAgainstDump: gcov-dump prints the same of notes.
func TestNotesAgainstDump(t *testing.T) {
	onGCC(t, func(t *testing.T, gcc, dump string) {
		b := newBuild(t, gcc, "o/shapes.o")
		n := b.notes(t)
		var want []string
		for line := range strings.Lines(b.run(t, dump, "-l", n.Path)) {
			line = strings.TrimPrefix(strings.TrimSpace(line), n.Path+":")
			want = append(want, strings.TrimSpace(regexp.MustCompile(`^ *([0-9a-f]{8}): *\d+:`).ReplaceAllString(line, "$1 ")))
		}
		got := dumpNotes(n)
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Fatalf("line %d: %q, gcov-dump has %q", i+1, got[i:min(i+1, len(got))], want[i:min(i+1, len(want))])
			}
		}
		if len(n.Functions) < 9 || len(got) < 200 {
			t.Errorf("%d functions, %d lines", len(n.Functions), len(got))
		}
	})
}

// dumpNotes writes notes as gcov-dump -l does, without lengths of records.
func dumpNotes(n *Notes) []string {
	var out []string
	line := func(format string, args ...any) { out = append(out, strings.TrimSpace(fmt.Sprintf(format, args...))) }
	line("note:magic `gcno':version `%s'", binary.BigEndian.AppendUint32(nil, uint32(n.Version)))
	line("stamp %d", n.Stamp)
	if n.Version.bytes() {
		line("checksum %d", n.Checksum)
	}
	line("cwd: %s", n.Dir)
	for _, f := range n.Functions {
		artificial := ""
		if f.Artificial {
			artificial = ", artificial"
		}
		line("01000000 FUNCTION ident=%d, lineno_checksum=%#08x, cfg_checksum=%#08x, `%s' %s:%d:%d-%d:%d%s", f.Ident, f.LineChecksum, f.CFGChecksum,
			f.Name, f.Source, f.StartLine, f.StartColumn, f.EndLine, f.EndColumn, artificial)
		line("01410000 BLOCKS %d blocks", f.Blocks)
		i := 0
		for b := range f.Blocks {
			if b == Exit {
				continue
			}
			var arcs []Arc
			for ; i < len(f.Arcs) && f.Arcs[i].From == b; i++ {
				arcs = append(arcs, f.Arcs[i])
			}
			line("01430000 ARCS %d arcs", len(arcs))
			for len(arcs) > 0 {
				s := fmt.Sprintf("block %d:", b)
				for _, a := range arcs[:min(4, len(arcs))] {
					s += fmt.Sprintf(" %d:%04x%s", a.To, uint32(a.Flags), flagNames(a.Flags))
				}
				line("%s", s)
				arcs = arcs[min(4, len(arcs)):]
			}
		}
		for b, lines := range f.Lines {
			if len(lines) == 0 {
				continue
			}
			line("01450000 LINES")
			s, file := "", ""
			for _, l := range lines {
				if l.File != file {
					if s != "" {
						line("%s", s)
					}
					file = l.File
					s = fmt.Sprintf("block %d:`%s':%d", b, file, l.Line)
				} else {
					s += fmt.Sprintf(", %d", l.Line)
				}
			}
			line("%s", s)
		}
	}
	return out
}

func flagNames(flags ArcFlags) string {
	var names []string
	for i, name := range []string{"tree", "fake", "fall"} {
		if flags>>i&1 != 0 {
			names = append(names, name)
		}
	}
	switch {
	case names != nil:
		return "(" + strings.Join(names, ",") + ")"
	case flags != 0: // arcs of a condition's sides, since gcc 15
		return ")"
	}
	return ""
}

// TestProfileUse: gcc takes counters that were put on the graphs of notes without complaint, and has
// the executions of each block that they stand for: those of gcc's own run, and parts of them that
// were rounded.
func TestProfileUse(t *testing.T) {
	onGCC(t, func(t *testing.T, gcc, dump string) {
		b := newBuild(t, gcc, "o/shapes.o")
		n := b.notes(t)
		counted := b.counted(t, n)
		exact := flows(t, n, counted)

		d := NewData(n)
		for i := range n.Functions {
			if err := d.Add(&n.Functions[i], exact[i]); err != nil {
				t.Fatal(err)
			}
		}
		if d.Max != counted.Max {
			t.Errorf("largest counter: %d, gcc's run has %d", d.Max, counted.Max)
		}
		path := b.write(t, n, d)
		ours, theirs := arcCounters(b.run(t, dump, "-l", path)), arcCounters(b.run(t, dump, "-l", DataPath("gen", n.Dir, n.Path, n.Version)))
		if len(ours) != len(n.Functions) || !maps.Equal(ours, theirs) {
			t.Errorf("counters by function: %q, want %q", ours, theirs)
		}
		b.used(t, n, exact)

		var rounded [][]int64
		d = NewData(n)
		for i := range n.Functions {
			f := &n.Functions[i]
			real := make([]float64, len(exact[i]))
			for i, n := range exact[i] {
				real[i] = 0.37 * float64(max(n, 0)) // less than 0 came of setjmp
			}
			whole, err := f.Round(real)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Add(f, whole); err != nil {
				t.Fatal(err)
			}
			rounded = append(rounded, whole)
		}
		b.write(t, n, d)
		b.used(t, n, rounded)
	})
}

// arcCounters returns the lines of counters of arcs that gcov-dump prints, by the function's ident and checksums.
func arcCounters(dump string) map[string]string {
	counters := map[string]string{}
	function, arcs := "", false
	for line := range strings.Lines(dump) {
		_, line, _ := strings.Cut(strings.TrimSpace(line), ".gcda:")
		switch {
		case strings.Contains(line, "FUNCTION"):
			_, function, _ = strings.Cut(line, "FUNCTION ")
			arcs = false
		case strings.Contains(line, "COUNTERS"):
			arcs = strings.Contains(line, "COUNTERS arcs")
		}
		if arcs {
			counters[function] += line + "\n"
		}
	}
	return counters
}

var (
	dumpedFunction = regexp.MustCompile(`^;; Function \S+ \((\S+), funcdef_no`)
	dumpedArc      = regexp.MustCompile(`^Read edge from (\d+) to (\d+), count:(-?\d+)$`)
	dumpedBlock    = regexp.MustCompile(`^ Basic block +(\d+) guessed .* cnt: 10(\d+)$`) // 10 is of gcc's format; since GCC 12, of functions that ran
)

// used has gcc read the profile, and holds what it says of arcs and blocks to executions.
func (b *build) used(t *testing.T, n *Notes, flows [][]int64) {
	t.Helper()
	b.compile(t, "-fprofile-use=prof", "-fdump-ipa-profile-details=dump")
	want := map[string]bool{}
	arcs, blocks := 0, 0
	for i := range n.Functions {
		f := &n.Functions[i]
		runs := make([]int64, f.Blocks)
		for j, a := range f.Arcs {
			runs[a.To] += flows[i][j]
			if a.From == Entry {
				runs[Entry] += flows[i][j]
			}
			if a.Flags&OnTree == 0 {
				want[fmt.Sprintf("%s: Read edge from %d to %d, count:%d", f.Name, a.From, a.To, flows[i][j])] = true
				arcs++
			}
		}
		for v, n := range runs {
			want[fmt.Sprintf("%s: block %d: %d", f.Name, v, n)] = true
		}
	}
	function := ""
	for line := range strings.Lines(testtool.Read(t, b.dir, "dump")) {
		line = strings.TrimSuffix(line, "\n")
		if m := dumpedFunction.FindStringSubmatch(line); m != nil {
			function = m[1]
		}
		says := ""
		if m := dumpedBlock.FindStringSubmatch(line); m != nil {
			blocks++
			says = fmt.Sprintf("%s: block %s: %s", function, m[1], m[2])
		} else if dumpedArc.MatchString(line) {
			arcs--
			says = function + ": " + line
		}
		if says != "" && !want[says] {
			t.Errorf("gcc has %s", says)
		}
	}
	if arcs != 0 || blocks < 50 && n.Version.Major() >= 12 {
		t.Errorf("gcc reads %d counters fewer than there are, and says executions of %d blocks", arcs, blocks)
	}
}

// TestInconsistent: gcc complains of the counters of those functions that Flows refuses.
func TestInconsistent(t *testing.T) {
	inFunction := regexp.MustCompile(`In function .(\w+).:`)
	onGCC(t, func(t *testing.T, gcc, dump string) {
		b := newBuild(t, gcc, "o/shapes.o")
		n := b.notes(t)
		r := rand.New(rand.NewPCG(7, 8))
		good, bad := 0, 0
		for range 4 {
			d := NewData(n)
			want := map[string]bool{}
			for i := range n.Functions {
				f := &n.Functions[i]
				c := Counts{Ident: f.Ident, LineChecksum: f.LineChecksum, CFGChecksum: f.CFGChecksum}
				for range f.Counted() {
					c.Arcs = append(c.Arcs, r.Int64N(3))
				}
				_, err := f.Flows(c.Arcs)
				want[f.Name] = err != nil
				d.Functions = append(d.Functions, c)
			}
			b.write(t, n, d)
			cmd := testtool.Command(t, gcc, "-O2", "-c", "-o", b.object, "shapes.c", "-fprofile-use=prof")
			cmd.Dir, cmd.Env = b.dir, append(cmd.Environ(), "PWD="+b.dir, "LC_ALL=C")
			out, _ := cmd.CombinedOutput() // gcc fails where it complains
			got, function := map[string]bool{}, ""
			for line := range strings.Lines(string(out)) {
				if m := inFunction.FindStringSubmatch(line); m != nil {
					function = m[1]
				}
				if strings.Contains(line, "corrupted profile info") {
					got[function] = true
				}
			}
			for name, fails := range want {
				if fails {
					bad++
				} else {
					good++
				}
				if got[name] != fails {
					t.Errorf("%s: refused by Flows: %v, by gcc: %v\n%s", name, fails, got[name], out)
				}
			}
		}
		if good == 0 || bad == 0 {
			t.Errorf("%d functions have consistent counters, %d have not", good, bad)
		}
	})
}

// TestWhereGCCLooks: DataPath is where gcc looks and where its runtime writes, however the object is named.
func TestWhereGCCLooks(t *testing.T) {
	onGCC(t, func(t *testing.T, gcc, dump string) {
		for _, object := range []string{"x.o", "o/x.o", "./o/x.o", "o/../o/x.y.o", "absolute"} {
			b := newBuild(t, gcc, object)
			if object == "absolute" {
				b.object = b.path("o/x.o")
			}
			n := b.notes(t)
			path := DataPath("prof", n.Dir, n.Path, n.Version)
			said := b.run(t, gcc, "-O2", "-c", "-o", b.object, "shapes.c", "-fprofile-use=prof", "-Wmissing-profile")
			if !strings.Contains(said, path) {
				t.Errorf("-o %s: %s, and gcc says\n%s", b.object, path, said)
			}
			b.counted(t, n)
			path = DataPath("", n.Dir, n.Path, n.Version)
			said = b.run(t, gcc, "-O2", "-c", "-o", b.object, "shapes.c", "-fprofile-use", "-Wmissing-profile")
			if !strings.Contains(said, path) {
				t.Errorf("-o %s: %s, and gcc says\n%s", b.object, path, said)
			}
		}
	})
}
