package image

import (
	"path/filepath"
	"slices"
	"testing"

	"backfeed/internal/testtool"
)

// TestReferences: every way of reaching a procedure is seen in images at any address and
// at a fixed one.
func TestReferences(t *testing.T) {
	const program = `
int x;
__attribute__((noinline)) void called(void) { x++; }
__attribute__((noinline)) void tailcalled(void) { x += 2; }
__attribute__((noinline)) void pointed(void) { x += 3; }
__attribute__((noinline)) void taken(void) { x += 4; }
__attribute__((noinline)) void exported(void) { x += 5; }
__attribute__((noinline)) void nothing(void) { x += 6; }
__attribute__((constructor)) void starts(void) { x += 7; }
__attribute__((destructor)) void stops(void) { x += 8; }
void (*table[])(void) = { pointed };
__attribute__((noinline)) void from(void (**p)(void)) { called(); x++; *p = taken; tailcalled(); }
int main(void) { void (*p)(void); from(&p); p(); table[x](); return 0; }
`
	dir := t.TempDir()
	src := testtool.Write(t, dir, "refs.c", program)
	for _, kind := range []string{"-pie", "-no-pie"} {
		path := filepath.Join(dir, "refs"+kind)
		pic := map[string]string{"-pie": "-fPIE", "-no-pie": "-fno-pie"}[kind]
		testtool.Run(t, dir, "gcc", "-O2", pic, kind, "-Wl,--export-dynamic-symbol=exported", "-o", path, src)
		im := mustOpen(t, path, Options{})
		refs := im.References()
		for _, tt := range []struct {
			name    string
			reach   Reach
			by      []string
			address bool
		}{
			{"called", 0, []string{"from"}, false},
			{"tailcalled", 0, []string{"from"}, false},
			{"pointed", Pointed, nil, false},
			{"taken", 0, []string{"from"}, true},
			{"exported", Exported, nil, false},
			{"nothing", 0, nil, false},
			{"starts", Start, nil, false},
			{"stops", Start, nil, false},
			{"_start", Start, nil, false},
			{"main", 0, []string{"_start"}, true},
		} {
			i := im.Lookup(tt.name)
			if i < 0 {
				t.Errorf("%s: no symbol %s", kind, tt.name)
				continue
			}
			var by []string
			for _, ref := range refs.To(i) {
				by = append(by, im.Symbols()[im.Find(ref.From)].Name)
				if int(ref.To) != i || ref.Address != tt.address {
					t.Errorf("%s: %s: %+v", kind, tt.name, ref)
				}
			}
			if refs.Reach[i] != tt.reach || !slices.Equal(by, tt.by) {
				t.Errorf("%s: %s is reached by %b and from %q, want %b and %q", kind, tt.name, refs.Reach[i], by, tt.reach, tt.by)
			}
		}
	}
}
