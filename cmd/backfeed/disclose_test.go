package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/cmd/internal/web"
	"backfeed/infer/source"
	"backfeed/internal/testtool"
)

// secret is in files that nothing may show.
const secret = "hunter2-XYZZY-do-not-show"

// lineOf1 writes a C program whose function work says that its lines are of another file.
const lineOf1 = `volatile int v;
int main(void) { extern int work(int); return work(9); }
#line 1 "%s"
__attribute__((noinline)) int work(int n) {
	int s = 0;
	while (n-- > 0)
		if (n & v)
			s += n * v;
	return s;
}
`

// namesFile builds a program whose line table says that work is of a file, with the
// flags given to gcc, and records each of work's instructions.
func namesFile(t *testing.T, name string, flags ...string) (rec, program string) {
	t.Helper()
	dir := t.TempDir()
	if len(flags) > 0 { // that map the working directory
		dir = "."
	}
	program = filepath.Join(t.TempDir(), "program")
	testtool.Write(t, dir, "crafted.c", fmt.Sprintf(lineOf1, name))
	testtool.Run(t, dir, append([]string{"gcc", "-O1", "-g", "-Wl,--build-id", "-o", program, "crafted.c"}, flags...)...)
	im, c := openSampled(t, program)
	ln, err := im.Lines()
	if err != nil {
		t.Fatal(err)
	}
	named := false
	for _, b := range proc(t, im, "work").Blocks {
		for _, in := range im.Insts(&b) {
			off, _ := im.OffsetOf(in.Addr)
			c.AddSample(0, off, 1000)
			for _, f := range ln.Frames(in.Addr) {
				named = named || filepath.Base(f.File) == filepath.Base(name)
			}
		}
	}
	if !named {
		t.Fatalf("the line table does not name %s", name)
	}
	return save(t, c), program
}

// procLinks are the pages of procedures in the list of them.
var procLinks = regexp.MustCompile(`href="(/proc/[^"]+)">([^<]*)<`)

// procPage returns the page of a procedure.
func procPage(t *testing.T, s *web.Site, name string) string {
	t.Helper()
	for _, m := range procLinks.FindAllStringSubmatch(testtool.Body(t, testtool.Ask(s, "GET", "localhost", "/")), -1) {
		if m[2] == name {
			return m[1]
		}
	}
	t.Fatalf("no samples in %s", name)
	return ""
}

// everyPage asks a server for all that it has, with the options that a URL may set.
func everyPage(t *testing.T, s *web.Site) string {
	t.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	paths := []string{"/", "/causes", "/confidence", "/layout", "/pprof/"}
	for _, m := range procLinks.FindAllStringSubmatch(testtool.Body(t, testtool.Ask(s, "GET", "localhost", "/")), -1) {
		paths = append(paths, m[1])
	}
	for _, p := range []string{"graph", "top", "disasm", "source", "peek", "flamegraph", "saveconfig", "deleteconfig", "download", "flamegraph2", "flamegraphold", "weblist", "list", "text"} {
		for _, q := range []string{"", "?f=work", "?f=.", "?f=work&source_path=/&trim_path=/", "?f=work&g=lines", "?f=work&output=/dev/stdout", "?f=work&showcolumns=1&noinlines=0"} {
			paths = append(paths, "/pprof/"+p+q)
		}
	}
	var all strings.Builder
	for _, p := range paths {
		r, err := http.Get(server.URL + p)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString("\n" + p + "\n")
		if _, err := io.Copy(&all, r.Body); err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
	}
	return all.String()
}

// siteOf serves a recording with source as the command serve does.
func siteOf(t *testing.T, rec string, dirs ...string) *web.Site {
	t.Helper()
	t.Setenv("HOME", t.TempDir()) // where pprof has its settings
	c := &cli{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, cmd: serveCmd}
	c.flags()
	src, err := c.inferred([]string{rec}, &input.Options{Notify: notices{c}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(src.Close)
	v, err := web.NewView(src, report.Style{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := source.NewText(dirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	v.SetSource(text)
	pprof, err := v.Pprof()
	if err != nil {
		t.Fatal(err)
	}
	return web.NewSite(v, "127.0.0.1", pprof)
}

// shownBy is all that the commands print of a recording's source.
func shownBy(t *testing.T, rec string, dirs ...string) string {
	t.Helper()
	var flags []string
	for _, d := range dirs {
		flags = append(flags, "--source", d)
	}
	out := filepath.Join(t.TempDir(), "r.html")
	var all strings.Builder
	for _, args := range [][]string{
		{"list", "work", rec}, {"list", "work", rec, "--format", "json"}, {"list", "work", rec, "--symfs", "/"}, {"report", "--html", out, rec},
	} {
		_, stdout, stderr := runCLI(t, append(args, flags...)...)
		all.WriteString(stdout + stderr)
	}
	for _, d := range dirs {
		_, stdout, stderr := runCLI(t, "check", rec, "--source", d)
		all.WriteString(stdout + stderr)
	}
	all.WriteString(testtool.Read(t, out))
	all.WriteString(everyPage(t, siteOf(t, rec, dirs...)))
	return all.String()
}

// TestDisclosesNothing: no name in a line table makes a command show a file that lies
// elsewhere than where source is read from.
func TestDisclosesNothing(t *testing.T) {
	t.Setenv("BACKFEED_TEST_SECRET", secret)
	work, other := t.TempDir(), t.TempDir()
	t.Chdir(work)
	outside := testtool.Write(t, other, "outside.c", strings.Repeat(secret+"\n", 20))
	testtool.Put(t, filepath.Join(work, ".git/config"), []byte(strings.Repeat(secret+"\n", 20)))
	testtool.Put(t, filepath.Join(work, ".env.c"), []byte(strings.Repeat(secret+"\n", 20)))
	testtool.Put(t, filepath.Join(work, "key.pem"), []byte(strings.Repeat(secret+"\n", 20)))
	testtool.Put(t, filepath.Join(work, "binary.c"), []byte("\x00\x01\n"+strings.Repeat(secret+"\n", 20)))
	link := func(to, name string) string {
		path := filepath.Join(work, name)
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := syscall.Mkfifo(filepath.Join(work, "fifo.c"), 0o666); err != nil {
		t.Skip(err)
	}
	huge, err := os.Create(filepath.Join(work, "huge.c"))
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(huge, strings.Repeat(secret+"\n", 20))
	if err := huge.Truncate(1 << 40); err != nil {
		t.Skip(err)
	}
	huge.Close()
	for _, tt := range []struct{ name, file, why string }{
		{"environment", "/proc/self/environ", "is of /proc"},
		{"environment by thread", "/proc/thread-self/environ", "is of /proc"},
		{"outside", outside, "outside the directories"},
		{"up from here", filepath.Join(work, "..", filepath.Base(other), "outside.c"), ""},
		{"relative", "../" + filepath.Base(other) + "/outside.c", ""},
		{"link to outside", link(outside, "link.c"), "leads out"},
		{"relative link to outside", link("../"+filepath.Base(other)+"/outside.c", "relative.c"), "leads out"},
		{"linked directory", filepath.Join(link(other, "dir"), "outside.c"), "leads out"},
		{"link to the environment", link("/proc/self/environ", "environ.c"), "leads out"},
		{"magic link", filepath.Join(link("/proc/self", "self"), "environ"), "leads out"},
		{"hidden directory", filepath.Join(work, ".git/config"), "is hidden"},
		{"hidden file", filepath.Join(work, ".env.c"), "is hidden"},
		{"link to a hidden file", link(".git/config", "config.c"), "is hidden"},
		{"link to a key", link("key.pem", "key.c"), "not named like"},
		{"key", filepath.Join(work, "key.pem"), "not named like"},
		{"pipe", filepath.Join(work, "fifo.c"), "not a regular file"},
		{"huge", filepath.Join(work, "huge.c"), "larger than"},
		{"not text", filepath.Join(work, "binary.c"), "not text"},
		{"directory", work, "outside"},
		{"device", "/dev/zero", "is of /proc, /sys or /dev"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec, _ := namesFile(t, tt.file)
			for _, dirs := range [][]string{nil, {other + "/none"}} {
				if dirs != nil {
					if err := os.MkdirAll(dirs[0], 0o777); err != nil {
						t.Fatal(err)
					}
				}
				all := shownBy(t, rec, dirs...)
				if i := strings.Index(all, secret); i >= 0 {
					t.Errorf("--source %q: shown:\n%s", dirs, all[max(0, i-300):i+100])
				}
				if dirs == nil && !strings.Contains(all, tt.why) {
					t.Errorf("no message with %q", tt.why)
				}
			}
		})
	}
}

// TestShowsSource: who builds and lists a program as usual sees its source.
func TestShowsSource(t *testing.T) {
	work := t.TempDir()
	t.Chdir(work)
	const text = "seen_%s line 1\nseen_%s 2\nseen_%s 3\nseen_%s 4\nseen_%s 5\nseen_%s 6\nseen_%s 7\n"
	at := func(name, mark string) string {
		testtool.Put(t, name, []byte(strings.ReplaceAll(text, "%s", mark)))
		return name
	}
	far := t.TempDir()
	real := filepath.Join(work, "real.c")
	at(real, "linked")
	if err := os.Symlink("real.c", filepath.Join(work, "alias.c")); err != nil {
		t.Fatal(err)
	}
	gomod := t.TempDir()
	t.Setenv("GOMODCACHE", gomod)
	at(filepath.Join(gomod, "example.com/m@v1.0.0/m.go"), "module")
	at(filepath.Join(far, "tree/src/y.c"), "tree")
	for _, tt := range []struct {
		name, file, mark string
		dirs, flags      []string
	}{
		{"below the working directory", at(filepath.Join(work, "src/x.c"), "here"), "here", nil, nil},
		{"by a link that stays there", filepath.Join(work, "alias.c"), "linked", nil, nil},
		{"a prefix mapped away", filepath.Join(work, "src/x.c"), "here", nil, []string{"-fdebug-prefix-map=" + work + "=."}},
		{"Go's module cache", filepath.Join(gomod, "example.com/m@v1.0.0/m.go"), "module", nil, nil},
		{"below --source by the end of its path", "/build/elsewhere/src/y.c", "tree", []string{far}, nil},
		{"of two trees the nearer", "/build/elsewhere/src/y.c", "tree", []string{work, far}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec, _ := namesFile(t, tt.file, tt.flags...)
			args := []string{"list", "work", rec}
			for _, d := range tt.dirs {
				args = append(args, "--source", d)
			}
			if out := must(t, args...); !strings.Contains(out, "seen_"+tt.mark) {
				t.Errorf("no source in\n%s", out)
			}
			s := siteOf(t, rec, tt.dirs...)
			for _, path := range []string{procPage(t, s, "work"), "/pprof/source?f=work", "/pprof/source?f=" + url.QueryEscape(filepath.Base(tt.file))} {
				if body := testtool.Body(t, testtool.Ask(s, "GET", "localhost", path)); !strings.Contains(body, "seen_"+tt.mark) {
					t.Errorf("%s: no source", path)
				}
			}
		})
	}
}
