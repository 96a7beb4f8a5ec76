package optimize

import (
	"path/filepath"
	"strings"
	"testing"

	"backfeed/cmd/internal/output"
	"backfeed/internal/testtool"
)

// TestBuildNotes: the notes of a build are those that it writes, in a copy or where it runs, and none of them stays in the directory of the
// target. Those that were there before are not of it, and stay. A build that writes none, as of what is compiled already, is refused.
func TestBuildNotes(t *testing.T) {
	testtool.Need(t, "sh")
	const old, compile = "notes of another build", `case "$1" in *-fprofile-use=*-ftest-coverage*) ;; *) exit 1 ;; esac; echo >"$2"; cp "$NOTES" `
	// Of gcc 12.2, which ran in /src and compiled no function.
	notes := testtool.Write(t, t.TempDir(), "notes", "oncg*22B\x01\x02\x03\x04\x00\x00\x00\x00\x05\x00\x00\x00/src\x00\x01\x00\x00\x00")
	t.Setenv("NOTES", notes)
	for _, tt := range []struct{ name, binary, script, want string }{
		{"beside the program", "", compile + `"$2-x.gcno"`, ""},
		{"where it runs", "", compile + "x.gcno", ""},
		{"in a copy", "app", compile + "x.gcno", ""},
		{"over those of another build", "app", compile + "old.gcno", ""},
		{"nothing compiled", "app", `echo >"$2"`, "left no notes of gcc (*.gcno)"},
		{"nothing compiled where it runs", "", `echo >"$2"`, "left no notes of gcc (*.gcno)"},
		{"fails", "", compile + "x.gcno; echo no such flag; exit 1", "no such flag"},
		{"no notes of gcc", "", `echo >"$2"; echo x >x.gcno`, "x.gcno: offset 0x0"},
	} {
		dir := t.TempDir()
		testtool.Write(t, dir, "make.sh", tt.script+"\n")
		testtool.Write(t, dir, "old.gcno", old)
		program := tt.binary
		if program == "" {
			program = binaryHere
		}
		before := tree(t, dir)
		j := &job{Target: &Target{Name: "app", Compiler: "gcc", Build: `sh make.sh "{flags}" ` + program, Binary: tt.binary, Output: "fast"}, dir: dir, work: t.TempDir()}
		at, err := j.newDir()
		if err != nil {
			t.Fatal(err)
		}
		s := &stage{dir: at, binary: filepath.Join(at, "app")}
		if tt.binary != "" {
			s.binary = filepath.Join(at, "tree", tt.binary)
		}
		got, err := j.buildNotes(t.Context(), s, flags{compile: countersFlags("there")})
		switch {
		case tt.want == "" && (err != nil || len(got) != 1 || got[0].Dir != "/src"):
			t.Errorf("%s: %d notes, %v", tt.name, len(got), err)
		case tt.want != "" && (err == nil || !strings.Contains(j.says(err), tt.want)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		after := tree(t, dir)
		if line := func(tree string) string { _, rest, _ := strings.Cut(tree, "\n"); return rest }; line(after) != line(before) { // but the directory's own time
			t.Errorf("%s: the directory was\n%s and is\n%s", tt.name, before, after)
		}
	}
}

// TestMissed: gcc looks for counters of all objects, in whatever language it says so; those that it does not find and that were written
// are missed.
func TestMissed(t *testing.T) {
	const says = "/src/x.c: In function 'f':\n/src/x.c:1:5: warning: '/w/002//w/001/x.gcda' profile count data file not found [-Wmissing-profile]\n    1 | int f;\n" +
		"y.c:9:1: Warnung: »/w/002/#src#y.gcda« nicht gefunden [-Wmissing-profile]\n" +
		"y.c:9:1: Warnung: »/w/002/#src#y.gcda« nicht gefunden [-Wmissing-profile]\n"
	for _, tt := range []struct {
		said  string
		wrote string
		notes int
		n, of int
	}{
		{"", "/w/002/#src#x.gcda", 1, 0, 1},
		{says, "/w/002/#src#z.gcda", 3, 0, 1},
		{says, "/w/002/#src#z.gcda /w/002//src/z.gcda", 3, 0, 1}, // one object, spelled twice
		{says, "/w/002/#src#z.gcda /w/002/#else#y.gcda", 3, 1, 2},
		{says, "/w/002/#else#x.gcda /w/002/#else#y.gcda", 2, 2, 2},
		{says, "/w/002/#src#z.gcda", 9, 0, 1}, // what -flto writes where it links
	} {
		var files []output.File
		for path := range strings.FieldsSeq(tt.wrote) {
			files = append(files, output.File{Path: path})
		}
		n, of, first := missed(tt.said, "/w/002", files, tt.notes)
		if n != tt.n || of != tt.of || tt.said != "" && first != "/w/002//w/001/x.gcda" {
			t.Errorf("%s: %d of %d, first %q, want %d of %d", tt.wrote, n, of, first, tt.n, tt.of)
		}
	}
}
