package collect

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const bashMaps = `55d0c8b60000-55d0c8b8f000 r--p 00000000 08:01 1835342                    /usr/bin/bash
55d0c8b8f000-55d0c8c68000 r-xp 0002f000 08:01 1835342                    /usr/bin/bash
55d0ca000000-55d0ca021000 rw-p 00000000 00:00 0                          [heap]
7f1c40000000-7f1c40021000 rwxp 00000000 00:00 0 
7f1c44600000-7f1c44755000 r-xp 00026000 fe:10 99                         /opt/my app/lib\012x.so (deleted)
7ffd0a9f2000-7ffd0a9f4000 r-xp 00000000 00:00 0                          [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
`

func TestParseMaps(t *testing.T) {
	maps, err := parseMaps(strings.NewReader(bashMaps), 7)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range maps {
		got = append(got, fmt.Sprintf("%d %x+%x @%x %x:%x/%d %q %s", m.pid, m.start, m.size, m.fileOff, m.maj, m.min, m.inode, m.path, lossOf(m.path)))
	}
	want := []string{
		`7 55d0c8b8f000+d9000 @2f000 8:1/1835342 "/usr/bin/bash" `,
		`7 7f1c40000000+21000 @0 0:0/0 "" anonymous memory`,
		`7 7f1c44600000+155000 @26000 fe:10/99 "/opt/my app/lib\nx.so (deleted)" `,
		`7 7ffd0a9f2000+2000 @0 0:0/0 "[vdso]" vdso`,
		`7 ffffffffff600000+1000 @0 0:0/0 "[vsyscall]" anonymous memory`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func FuzzParseMaps(f *testing.F) {
	f.Add(bashMaps)
	f.Add("1-2 x")
	f.Fuzz(func(t *testing.T, text string) {
		maps, err := parseMaps(strings.NewReader(text), 1)
		if err == nil && len(maps) > strings.Count(text, "\n")+1 {
			t.Errorf("%d mappings from %q", len(maps), text)
		}
	})
}
