package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/cmd/internal/web"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// sourceOf infers a recording of one of the programs of testdata.
func sourceOf(t *testing.T, program, rec string) *input.Session {
	t.Helper()
	args := alone(t, filepath.Join(program, rec), filepath.Join(program, program))
	c := &cli{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, cmd: serveCmd}
	c.flags()
	src, err := c.inferred(args[:1], &input.Options{Symfs: args[2:3], Notify: notices{c}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(src.Close)
	return src
}

// TestServe: the command prints where it listens, answers there and ends when told.
func TestServe(t *testing.T) {
	src := sourceOf(t, "stalls", "chase.bfr")
	c := &cli{stderr: io.Discard}
	v, err := web.NewView(src, report.Style{})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	out, in := io.Pipe()
	c.stdout = in
	done := make(chan error, 1)
	loading, begin := web.NewLoading("127.0.0.1"), make(chan bool)
	go func() {
		done <- c.serve(ln, loading, func() error {
			<-begin
			loading.Ready(web.NewSite(v, "127.0.0.1", nil))
			close(begin)
			return nil
		})
	}()
	line := make([]byte, 100)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(string(line[:n]))
	loading.Say("explaining <b>many</b> samples")
	r, err := http.Get(url + "procedures")
	if err != nil {
		t.Fatal(err)
	}
	if body := testtool.Body(t, r); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Refresh") == "" || r.Header.Get("Retry-After") == "" || !strings.Contains(body, "explaining &lt;b&gt;many") {
		t.Errorf("while it reads: status %d, %v, %s", r.StatusCode, r.Header, body)
	}
	begin <- true
	<-begin
	if r, err = http.Get(url); err != nil {
		t.Fatal(err)
	}
	if body := testtool.Body(t, r); r.StatusCode != 200 || !strings.Contains(body, "chase") {
		t.Errorf("%s: status %d", url, r.StatusCode)
	}
	r.Body.Close()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("it does not end")
	}
}

// TestServeUsage: what makes no sense is refused before anything is read.
func TestServeUsage(t *testing.T) {
	for _, args := range [][]string{
		{"serve"}, {"serve", "x.bfr", "--http", "nonsense"},
		{"report"}, {"report", "x.bfr", "--source", "."}, {"report", "x.bfr", "--html", "x.html", "--format", "json"}, {"report", "--html", "x.html"}, {"report", "--html", "x.html", "-n", "-1", "x.bfr"},
	} {
		if code, _, stderr := runCLI(t, args...); code != exitUsage {
			t.Errorf("%q: exit code %d, %s", args, code, stderr)
		}
	}
	if code, _, stderr := runCLI(t, "serve", "nowhere.bfr"); code != exitFailed || !strings.Contains(stderr, "nowhere.bfr") {
		t.Errorf("no such file: exit code %d, %s", code, stderr)
	}
}

// TestReportSource: a report has the source that the user asked for, and no other.
func TestReportSource(t *testing.T) {
	path, _ := programRecording(t)
	out := filepath.Join(t.TempDir(), "r.html")
	const line = "<code>func distance(a, b string) int {</code>" // of distance, in main.go
	must(t, "report", "--html", out, path, "-n", "2")
	if text := testtool.Read(t, out); strings.Contains(text, line) || !strings.Contains(text, "main.go:") {
		t.Error("source without --source, or not even its name")
	}
	must(t, "report", "--html", out, path, "-n", "2", "--source", root)
	if !strings.Contains(testtool.Read(t, out), line) {
		t.Error("no source with --source")
	}
}

// TestReportFile runs the command.
func TestReportFile(t *testing.T) {
	path, _ := programRecording(t)
	out := filepath.Join(t.TempDir(), "r.html")
	must(t, "report", "--html", out, path, "-n", "2")
	if text := testtool.Read(t, out); !strings.Contains(text, "distance") || !strings.Contains(text, "</html>") {
		t.Errorf("%d bytes without the procedure", len(text))
	}
}

// TestReportAgainst: of two recordings, what both have is compared, as diff does it: no samples of the kernel where one has none.
func TestReportAgainst(t *testing.T) {
	path, _ := programRecording(t)
	rec, err := sample.Decode([]byte(testtool.Read(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	with, without := filepath.Join(t.TempDir(), "with.bfr"), filepath.Join(t.TempDir(), "without.bfr")
	for path, r := range map[string]*sample.Recording{with: rec, without: rec.Without(rec.Counts[0].Event.Name, sample.ImageID.OfKernel, sample.LostKernel, "")} {
		if path == with {
			r.Counts[0].Lose(sample.LostKernel, r.Samples())
		}
		if err := os.WriteFile(path, r.Encode(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"report", without, "--html", "-", "--against", with}, {"report", with, "--html", "-", "--against", without}, {"diff", with, without}} {
		code, _, stderr := runCLI(t, args...)
		if code != exitDone || !strings.Contains(stderr, "the kernel was not sampled in "+without) {
			t.Errorf("%q: exit code %d, %s", args, code, stderr)
		}
	}
}
