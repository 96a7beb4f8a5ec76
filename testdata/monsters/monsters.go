// Command monsters makes images and recordings that are far larger in one respect than programs are, and measures
// what commands take of them:
//
//	CGO_ENABLED=0 go build -o /tmp/backfeed ./cmd/backfeed && go run ./testdata/monsters /tmp/backfeed [KIND[:COMMAND]...]
//
// Each is made at half its size, too: the exponent of time in size is log2 of the ratio of both. README.md has the table.
// With -test in the first place, each command has to end on a hundredth of it or less, and nothing is measured.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"backfeed/infer/image"
	"backfeed/sample"
)

// A kind is one way to be large.
type kind struct {
	name, what string
	n          int                          // its full size, in what
	text       func(w *bufio.Writer, n int) // assembler of x86-64; defines symbols of .text
	files      func(dir string, n int)      // instead: profiles to compare
	images     bool                         // n copies, each under another build ID
	lines      []string                     // command lines
	tested     int                          // with -test, its size; 0 is a hundredth
}

// What each image is read by; {image}, {rec}, {other} (a newer build of the same code), {dir} and {out} are filled in.
var lines = []string{
	"infer {rec} --symfs {dir} --format json -o {out}", "prof {rec} --symfs {dir}", "prof {rec} --symfs {dir} --by line", "list f0 {rec} --symfs {dir}", "topstalls {rec} --symfs {dir}",
	"report {rec} --symfs {dir} --html {out}", "emit llvm {rec} --symfs {dir} -o {out}", "emit bolt {rec} --symfs {dir} -o {out}", "emit gcc {rec} --symfs {dir} -o {out}",
	"layout {image} {rec} --symfs {dir} --for lld -o {out}", "layout {image} {rec} --symfs {dir} --for propeller --ld {out}.ld -o {out}", "layout {image} {rec} --symfs {dir} --fluff",
	"merge {rec} --symfs {dir} --onto {other} -o {out}", "diff {rec} {rec} --symfs {dir}", "check {rec} --symfs {dir}", "images {rec} --symfs {dir}",
}

var kinds = []kind{
	{name: "blocks", what: "blocks of one function", n: 200_000, text: blocks, lines: lines, tested: 800},
	{name: "symbols", what: "functions", n: 1_000_000, text: symbols, lines: lines, tested: 800},
	{name: "names", what: "functions with names of 10 kB", n: 2_000, text: names, lines: lines},
	{name: "switch", what: "cases of one switch", n: 100_000, text: cases, lines: lines, tested: 400},
	{name: "alike", what: "functions of the same code under names that change", n: 20_000, text: alike, lines: lines},
	{name: "moved", what: "blocks of one function, every second edited, the others in another order in the newer build", n: 200_000, text: moved, lines: lines, tested: 800},
	{name: "called", what: "calls of one function, of others in the newer build", n: 20_000, text: called, lines: lines},
	{name: "inlined", what: "calls inlined into each other", n: 10_000, text: inlined, lines: lines},
	{name: "images", what: "images", n: 5_000, text: func(w *bufio.Writer, _ int) { symbols(w, 4) }, images: true, lines: slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return strings.Contains(l, "list ") })},
	{name: "profile", what: "calls inlined into each other, in a profile for clang", n: 4_000, files: nested, lines: []string{"diff {a} {b} --for llvm", "diff {b} {a} --for llvm --format json"}},
}

func head(w *bufio.Writer) { fmt.Fprint(w, ".text\n.globl _start\n_start: ret\n") }

func function(w *bufio.Writer, name string, body func()) {
	fmt.Fprintf(w, ".globl %[1]s\n.type %[1]s,@function\n%[1]s:\n", name)
	body()
	fmt.Fprintf(w, "ret\n.size %[1]s,.-%[1]s\n", name)
}

// blocks are diamonds, of which some are in loops.
func blocks(w *bufio.Writer, n int) {
	head(w)
	function(w, "f0", func() {
		for i := range n / 4 {
			fmt.Fprintf(w, "b%d: test %%eax,%%edi\njz e%d\nadd $1,%%ebx\njmp j%d\ne%d: sub $1,%%ebx\nj%d: dec %%ecx\n", i, i, i, i, i)
			if i%16 == 15 {
				fmt.Fprintf(w, "jnz b%d\n", i-i%64)
			}
		}
	})
}

func symbols(w *bufio.Writer, n int) {
	head(w)
	for i := range n {
		function(w, fmt.Sprint("f", i), func() { fmt.Fprintf(w, "add $%d,%%eax\n", i) })
	}
}

func names(w *bufio.Writer, n int) {
	head(w)
	for i := range n {
		name := fmt.Sprint("f", i)
		if i > 0 { // mangled: one namespace within the other
			name = "_ZN" + strings.Repeat("6monstr", 1428) + fmt.Sprintf("5f%04dEv", i)
		}
		function(w, name, func() { fmt.Fprintf(w, "add $%d,%%eax\n", i) })
	}
}

func cases(w *bufio.Writer, n int) {
	head(w)
	function(w, "f0", func() {
		fmt.Fprintf(w, "cmp $%d,%%edi\nja out\nmov %%edi,%%edi\nlea table(%%rip),%%rdx\nmovslq (%%rdx,%%rdi,4),%%rax\nadd %%rdx,%%rax\njmp *%%rax\n", n-1)
		for i := range n {
			fmt.Fprintf(w, "c%d: add $%d,%%ebx\njmp out\n", i, i)
		}
		fmt.Fprint(w, "out: nop\n")
	})
	fmt.Fprint(w, ".section .rodata\n.balign 4\ntable:\n")
	for i := range n {
		fmt.Fprintf(w, ".long c%d-table\n", i)
	}
}

// alike are functions whose code says nothing, and whose names do not either once a compiler has numbered them anew:
// {number} differs between the builds.
func alike(w *bufio.Writer, n int) {
	head(w)
	for i := range n {
		function(w, fmt.Sprintf("f%d", i), func() {})
		fmt.Fprintf(w, ".type twin.{number}%d,@function\ntwin.{number}%[1]d:\ntest %%eax,%%edi\njz 1f\nadd $1,%%ebx\n1: call f0\nret\n.size twin.{number}%[1]d,.-twin.{number}%[1]d\n", i)
	}
}

// build is which build is made: the newer one is 2.
var build int

func moved(w *bufio.Writer, n int) {
	head(w)
	n /= 2
	function(w, "f0", func() {
		for k := range n {
			i := k
			switch {
			case build == 2 && k%2 == 0:
				i = k / 2
			case build == 2:
				i = n - 1 - k/2
			}
			fmt.Fprintf(w, "u%d: add $%d,%%eax\njz u%d\nsub $%d,%%ecx\njz u%d\n", i, i+1000, i, i+build<<28, i)
		}
	})
}

func called(w *bufio.Writer, n int) {
	head(w)
	big := func(blocks int) {
		for range blocks {
			w.WriteString("test %eax,%edi\njz 1f\nadd $1,%ebx\n1:\n")
		}
	}
	if build == 1 {
		function(w, "f0", func() { big(n / 2) })
	}
	if build == 2 {
		for i := range n {
			function(w, fmt.Sprint("g", i), func() { big(4) })
		}
	}
	function(w, "drive", func() {
		for i := range n {
			target := "f0"
			if build == 2 {
				target = fmt.Sprint("g", i)
			}
			fmt.Fprintf(w, "call %s\nadd $%d,%%eax\n", target, i)
		}
	})
}

// inlined is a function into which another is inlined, into which another is: as DWARF has it.
func inlined(w *bufio.Writer, n int) {
	fmt.Fprint(w, ".file 1 \"monster.c\"\n")
	head(w)
	function(w, "f0", func() {
		for i := range n {
			fmt.Fprintf(w, ".loc 1 %d\nl%d: add $1,%%eax\n", i+1, i)
		}
		fmt.Fprint(w, "end:\n")
	})
	fmt.Fprint(w, `.section .debug_abbrev,"",@progbits
.uleb128 1,0x11,1, 0x25,8, 0x13,5, 3,8, 0x10,0x17, 0x11,1, 0x12,7, 0,0
.uleb128 2,0x2e,0, 3,8, 0x20,11, 0x3a,11, 0x3b,15, 0,0
.uleb128 3,0x2e,1, 3,8, 0x11,1, 0x12,7, 0x3a,11, 0x3b,15, 0,0
.uleb128 4,0x1d,1, 0x31,0x13, 0x11,1, 0x12,7, 0x58,11, 0x59,15, 0,0
.byte 0
.section .debug_info,"",@progbits
cu: .long cuend-cubegin
cubegin: .value 4
.long .debug_abbrev
.byte 8
.uleb128 1
.asciz "GNU C17 12.2.0"
.value 12
.asciz "monster.c"
.long .debug_line
.quad _start
.quad end-_start
`)
	for i := range n {
		fmt.Fprintf(w, "a%d: .uleb128 2\n.asciz \"inner%d\"\n.byte 1,1\n.uleb128 %d\n", i, i, i+1)
	}
	fmt.Fprint(w, ".uleb128 3\n.asciz \"f0\"\n.quad f0\n.quad end-f0+1\n.byte 1\n.uleb128 1\n")
	for i := range n {
		fmt.Fprintf(w, ".uleb128 4\n.long a%d-cu\n.quad l%d\n.quad end-l%d\n.byte 1\n.uleb128 %d\n", i, i, i, i+1)
	}
	fmt.Fprintf(w, ".fill %d,1,0\ncuend:\n.section .debug_line,\"\",@progbits\n", n+2)
}

// nested are profiles for clang of calls that are inlined into each other.
func nested(dir string, n int) {
	for k, name := range []string{"a", "b"} {
		var b strings.Builder
		fmt.Fprintf(&b, "f:%d:1\n", 1000*n)
		for i := range n {
			fmt.Fprintf(&b, "%s%d: inner%d:%d\n", strings.Repeat(" ", i+1), i%9+1, i, 1000*(n-i))
		}
		fmt.Fprintf(&b, "%s1: %d\n", strings.Repeat(" ", n+1), 1000+900*k)
		put(filepath.Join(dir, name), []byte(b.String()))
	}
}

func put(path string, b []byte) {
	if err := os.WriteFile(path, b, 0o755); err != nil {
		log.Fatal(err)
	}
}

// assemble makes an image of assembler text; number tells builds apart.
func assemble(dir, name, number string, text func(w *bufio.Writer)) string {
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	build = int(number[0] - '0')
	text(w)
	w.Flush()
	src, object, path := filepath.Join(dir, name+".s"), filepath.Join(dir, name+".o"), filepath.Join(dir, name)
	put(src, bytes.ReplaceAll(append(b.Bytes(), "\n.section .note,\"\",@progbits\n.asciz \""+number+"\"\n"...), []byte("{number}"), []byte(number)))
	tool("as", "-o", object, src)
	tool("ld", "--build-id=sha1", "--emit-relocs", "-o", path, object)
	os.Remove(src)
	os.Remove(object)
	return path
}

func tool(name string, args ...string) {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		log.Fatalf("%s: %v: %.1000s", name, err, out)
	}
}

// most bounds the places with samples: so many has a recording of minutes.
const most = 20_000

// record makes a recording with samples all over the code of images.
func record(path string, images []string) {
	c := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cpu-clock", Period: 1000000, Unit: "ns"})
	for _, file := range images {
		im, err := image.Open(file, image.Options{})
		if err != nil {
			log.Fatal(err)
		}
		i := c.Image(sample.ImageID{Build: im.Build, Path: file})
		ss := im.Symbols()
		var places []image.Addr
		for k := range ss {
			if ss[k].Size == 0 {
				continue
			}
			p, err := im.Proc(k)
			if err != nil {
				continue
			}
			for b := range p.Blocks {
				for _, in := range im.Insts(&p.Blocks[b]) {
					places = append(places, in.Addr)
				}
			}
			if len(places) > 100*most {
				break
			}
		}
		for k := 0; k < len(places); k += max(1, len(places)*len(images)/most) {
			if off, ok := im.OffsetOf(places[k]); ok {
				c.AddSample(i, off, uint64(1+k%7))
			}
		}
		im.Close()
	}
	rec := &sample.Recording{}
	rec.Add(c)
	put(path, sample.Merge(rec).Encode())
}

// make makes a monster of size n in dir.
func (k *kind) make(dir string, n int) {
	if k.files != nil {
		k.files(dir, n)
		return
	}
	im, newer := assemble(dir, "image", "1", func(w *bufio.Writer) { k.text(w, n) }), filepath.Join(dir, "newer")
	if err := os.Mkdir(newer, 0o755); err != nil {
		log.Fatal(err)
	}
	assemble(newer, "image", "2", func(w *bufio.Writer) { k.text(w, n) })
	all := []string{im}
	if k.images {
		b, err := os.ReadFile(im)
		if err != nil {
			log.Fatal(err)
		}
		opened, err := image.Open(im, image.Options{})
		if err != nil {
			log.Fatal(err)
		}
		id := slices.Clone(opened.Build[:])
		opened.Close()
		for i := 1; i < n; i++ {
			path, with := filepath.Join(dir, fmt.Sprint("image", i)), slices.Clone(id)
			with[0], with[1] = byte(i), byte(i>>8)
			put(path, bytes.Replace(b, id, with, 1))
			all = append(all, path)
		}
	}
	record(filepath.Join(dir, "samples.bfr"), all)
}

// fill returns what fills the lines with what make made in dir.
func fill(dir string) *strings.Replacer {
	in := func(elem ...string) string { return filepath.Join(append([]string{dir}, elem...)...) }
	return strings.NewReplacer("{a}", in("a"), "{b}", in("b"), "{image}", in("image"), "{other}", in("newer", "image"), "{rec}", in("samples.bfr"), "{dir}", dir, "{out}", in("out"))
}

// A cost is what a command took.
type cost struct {
	seconds float64 // of processors
	mb      float64 // resident at most
	in      float64 // MB of input
	code    int
	said    string
}

// limit is what a command may take before it counts as one that does not end.
const limit = 5 * time.Minute

func measure(program string, args []string, in float64) cost {
	var said bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = io.Discard, &said
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	late := time.AfterFunc(limit, func() { cmd.Process.Kill() })
	cmd.Wait()
	late.Stop()
	u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return cost{(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), float64(u.Maxrss) / 1024, in, cmd.ProcessState.ExitCode(), said.String()}
}

// size returns the MB of the files that a command line names.
func size(args []string) (mb float64) {
	for _, a := range args {
		if st, err := os.Stat(a); err == nil && st.Mode().IsRegular() && filepath.Base(a) != "out" {
			mb += float64(st.Size()) / 1e6
		}
	}
	return mb
}

func main() {
	log.SetFlags(0)
	args := os.Args[1:]
	if len(args) == 4 && args[0] == "-make" { // in a process of its own, whose memory would count as that of what it starts
		i, n := slices.IndexFunc(kinds, func(k kind) bool { return k.name == args[1] }), 0
		fmt.Sscan(args[2], &n)
		kinds[i].make(args[3], n)
		return
	}
	test := len(args) > 0 && args[0] == "-test"
	if test {
		args = args[1:]
	}
	if len(args) == 0 {
		log.Fatal("usage: monsters [-test] BACKFEED [KIND[:COMMAND]...]")
	}
	program, asked := args[0], args[1:]
	failed := false
	if !test {
		fmt.Println("| monster | command | exit | input, MB | time, s | of half | exponent | memory, MB | of half |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	}
	for _, k := range kinds {
		if len(asked) > 0 {
			k.lines = slices.DeleteFunc(slices.Clone(k.lines), func(line string) bool {
				return !slices.Contains(asked, k.name) && !slices.Contains(asked, k.name+":"+strings.Fields(line)[0])
			})
		}
		if len(k.lines) == 0 {
			continue
		}
		sizes := []int{k.n / 2, k.n}
		if test {
			sizes = []int{max(2, cmp.Or(k.tested, k.n/100))}
		}
		var costs [2][]cost
		for i, n := range sizes {
			dir, err := os.MkdirTemp("", "monsters-")
			if err != nil {
				log.Fatal(err)
			}
			tool(os.Args[0], "-make", k.name, fmt.Sprint(n), dir)
			for _, line := range k.lines {
				args := strings.Fields(fill(dir).Replace(line))
				c := measure(program, args, size(args))
				costs[i] = append(costs[i], c)
				if c.code < 0 || strings.Contains(c.said, "internal error") || c.code == 2 {
					fmt.Fprintf(os.Stderr, "%s of %d: backfeed %s: exit code %d after %.1f s and %.0f MB: %.400s\n", k.name, n, line, c.code, c.seconds, c.mb, c.said)
					failed = true
				}
			}
			os.RemoveAll(dir)
		}
		if test {
			continue
		}
		for i, line := range k.lines {
			half, full := costs[0][i], costs[1][i]
			exponent := "-"
			if half.seconds >= 0.2 {
				exponent = fmt.Sprintf("%.2f", math.Log2(full.seconds/half.seconds))
			}
			short := strings.NewReplacer(" --symfs {dir}", "", " -o {out}", "", " --ld {out}.ld", "", "{rec}", "REC", "{image}", "IMAGE", "{other}", "NEW", "{out}", "FILE", "{a}", "A", "{b}", "B").Replace(line)
			fmt.Printf("| %d %s | %s | %d | %.1f | %.1f | %.1f | %s | %.0f | %.0f |\n", k.n, k.what, short, full.code, full.in, full.seconds, half.seconds, exponent, full.mb, half.mb)
		}
	}
	if failed {
		os.Exit(1)
	}
}
