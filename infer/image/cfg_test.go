package image

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"sort"
	"strings"
	"sync"
	"testing"
)

// checkAll builds and checks every procedure of an image.
func checkAll(t *testing.T, im *Image) {
	why := map[string]int{}
	insts, bytes, incomplete := 0, 0, 0
	for i := range im.Symbols() {
		p, err := im.Proc(i)
		if err != nil {
			t.Errorf("%s: %v", im.Symbols()[i].Name, err)
			continue
		}
		if err := p.Check(); err != nil {
			t.Error(err)
		}
		if !p.Complete {
			incomplete++
			w, _, _ := strings.Cut(p.Why, " 0x")
			why[w]++
			if os.Getenv("BACKFEED_WHY") != "" {
				t.Logf("%s: %s", p.Name, p.Why)
			}
		}
		for j := range p.Blocks {
			insts += p.Blocks[j].Insts
			bytes += int(p.Blocks[j].End - p.Blocks[j].Start)
		}
	}
	var keys []string
	for k := range why {
		keys = append(keys, fmt.Sprintf("%d %s", why[k], k))
	}
	sort.Strings(keys)
	t.Logf("%d procedures, %d incomplete; %d instructions, %d bytes; %s", len(im.Symbols()), incomplete, insts, bytes, strings.Join(keys, "; "))
}

// TestProcs checks every procedure of real programs.
func TestProcs(t *testing.T) {
	paths := []string{"/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/aarch64-linux-gnu/lib/libc.so.6"}
	if !testing.Short() {
		paths = append(paths, goTool(t))
	}
	if extra := os.Getenv("BACKFEED_IMAGES"); extra != "" {
		paths = strings.Fields(extra)
	}
	for _, path := range paths {
		t.Run(path, func(t *testing.T) { checkAll(t, openTest(t, path)) })
	}
}

// TestBoundaries compares with objdump: in complete procedures, instructions begin where objdump says
// that they do, and transfer control as it says.
func TestBoundaries(t *testing.T) {
	t.Parallel()
	tests := []struct {
		tool, path string
		flow       func(line) Class
	}{
		{"objdump", "/usr/lib/x86_64-linux-gnu/libc.so.6", x86Flow},
		{"objdump", goTool(t), x86Flow},
		{"aarch64-linux-gnu-objdump", "/usr/aarch64-linux-gnu/lib/libc.so.6", armFlow},
	}
	for _, path := range strings.Fields(os.Getenv("BACKFEED_OBJDUMP")) {
		like := tests[0]
		if openTest(t, path).Arch == AArch64 {
			like = tests[2]
		}
		like.path = path
		tests = append(tests, like)
	}
	if testing.Short() {
		tests = tests[:1]
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			im := openTest(t, tt.path)
			want := make(map[Addr]Class)
			objdump(t, tt.tool, tt.path, func(l line) { want[l.addr] = tt.flow(l) })
			n, wrong, inBlocks := 0, 0, 0
			for i := range im.Symbols() {
				p, err := im.Proc(i)
				if err != nil {
					continue
				}
				for j := range p.Blocks {
					inBlocks += p.Blocks[j].Insts
				}
				if !p.Complete {
					continue
				}
				for j := range p.Blocks {
					for _, in := range im.Insts(&p.Blocks[j]) {
						n++
						class, ok := want[in.Addr]
						if ok && class == in.Class&flowClasses || isSkippedLock(im, in.Addr) {
							continue
						}
						if wrong++; wrong < 20 {
							t.Errorf("%s: %#x: class %#x, objdump has %#x, %v", p.Name, in.Addr, in.Class, class, ok)
						}
					}
				}
			}
			if n == 0 || wrong > 0 {
				t.Errorf("%d of %d instructions differ", wrong, n)
			}
			t.Logf("%d instructions of complete procedures, %d of all; objdump shows %d", n, inBlocks, len(want))
		})
	}
}

// isSkippedLock reports whether a follows a lock prefix: objdump does not know
// that a jump leads there.
func isSkippedLock(im *Image, a Addr) bool {
	b := im.read(a-1, 1)
	return b != nil && b[0] == lockPrefix && im.Arch == X86_64
}

// goTool returns the path of a Go program that is at hand: a tool of the
// distribution or, in one that has none yet, the test itself.
func goTool(t *testing.T) string {
	path := filepath.Join(runtime.GOROOT(), "pkg", "tool", runtime.GOOS+"_amd64", "asm")
	if _, err := os.Stat(path); err == nil && runtime.GOARCH == "amd64" {
		return path
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// TestProcOrder: what a procedure looks like does not depend on which others were
// asked for before, nor on how many at once.
func TestProcOrder(t *testing.T) {
	const path = "/usr/lib/x86_64-linux-gnu/libc.so.6"
	forward, back := openTest(t, path), openTest(t, path)
	n := min(len(forward.Symbols()), 600)
	want := make([]*Proc, n)
	for i := range want {
		want[i], _ = forward.Proc(i)
	}
	got := make([]*Proc, n)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := n - 1 - worker; i >= 0; i -= 4 {
				got[i], _ = back.Proc(i)
			}
		}()
	}
	wg.Wait()
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("%s differs", want[i].Name)
		}
	}
}
