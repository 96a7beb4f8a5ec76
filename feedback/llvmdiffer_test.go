package feedback

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestReadLLVMDifferential: of 2,000 functions drawn at random, the text that is read here has what llvm-profdata reads of it:
// in each binary form that it writes, and as the text that it writes.
func TestReadLLVMDifferential(t *testing.T) {
	testtool.Need(t, "llvm-profdata-19")
	dir := t.TempDir()
	text := randomProfile(rand.New(rand.NewPCG(1, 2)), 2000)
	testtool.Write(t, dir, "in.txt", text)
	plain := readProfile(t, []byte(text))
	if len(plain) != 2000 {
		t.Fatalf("%d functions", len(plain))
	}
	forms := map[string][]string{"text": {"--text"}}
	for name, flags := range mergedProfiles {
		forms[name] = append([]string{"--extbinary"}, flags...)
	}
	for name, flags := range forms {
		testtool.Run(t, dir, append([]string{"llvm-profdata-19", "merge", "--sample", "in.txt", "-o", name}, flags...)...)
		want := plain
		if strings.HasPrefix(name, "md5") {
			want = hashNames(want)
		}
		got := readProfile(t, []byte(testtool.Read(t, dir, name)))
		if len(got) != len(want) {
			t.Errorf("%s: %d functions, want %d", name, len(got), len(want))
		}
		differ := 0
		for f := range want {
			if !reflect.DeepEqual(got[f], want[f]) {
				if differ++; differ < 4 {
					t.Errorf("%s: %s: got %+v, want %+v", name, f, got[f], want[f])
				}
			}
		}
	}
}

// randomProfile is a profile for clang with n functions, as text.
func randomProfile(r *rand.Rand, n int) string {
	var b strings.Builder
	names := []string{"main", "_ZN3app4workEi", "_ZL4lastv.__uniq.12", "a.llvm.7", "std::sort<int>(int*, int*)", "λ", "f$g@h"}
	count := func() uint64 { return 1 + r.Uint64()>>(10+r.IntN(53)) }
	id := 0
	name := func() string {
		id++
		return fmt.Sprint(names[r.IntN(len(names))], ".", id)
	}
	var body func(indent string, deep int)
	body = func(indent string, deep int) {
		line := 0
		for range r.IntN(5) {
			line += 1 + r.IntN(300)
			at := fmt.Sprint(line)
			if r.IntN(2) == 0 {
				at += fmt.Sprint(".", 1+r.IntN(1<<16))
			}
			if deep < 4 && r.IntN(3) == 0 {
				fmt.Fprintf(&b, "%s%s: %s:%d\n", indent, at, name(), count())
				body(indent+" ", deep+1)
				continue
			}
			fmt.Fprintf(&b, "%s%s: %d", indent, at, count())
			for range r.IntN(3) {
				fmt.Fprintf(&b, " %s:%d", strings.ReplaceAll(name(), " ", ""), count())
			}
			b.WriteByte('\n')
		}
	}
	for range n {
		fmt.Fprintf(&b, "%s:%d:%d\n", name(), count(), count())
		body(" ", 0)
	}
	return b.String()
}
