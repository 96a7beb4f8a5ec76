package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/pprof/profile"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// TestURL: an address is a source of every command, of which no message shows more than it must.
func TestURL(t *testing.T) {
	own := testtool.Read(t, recording(t, t.TempDir(), "own", sample.ImageID{Path: "/nowhere"}))
	asked := atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch asked.Add(1); r.URL.Path {
		case "/own", "/at@sign":
			w.Write([]byte(own))
		case "/perf":
			w.Write(tinyPerf())
		case "/debug/pprof/profile":
			w.Write(tinyPprof(t, true))
		case "/later":
			if asked.Load() == 1 {
				http.Error(w, "profiling is on already", 500)
				return
			}
			w.Write([]byte(own))
		case "/page":
			w.Write([]byte("<html>sign in</html>"))
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	base, out := strings.Replace(server.URL, "http://", "http://user:pa55word@", 1), filepath.Join(t.TempDir(), "out")
	const token = "?token=t0ps3cret"
	samples := func(args ...string) uint64 {
		t.Helper()
		code, _, errs := runCLI(t, append(args, "-o", out)...)
		if code != exitDone || strings.Contains(errs, "pa55word") {
			t.Fatalf("%q: exit code %d: %s", args, code, errs)
		}
		return decode(t, out).Samples()
	}
	one := decode(t, testtool.Write(t, t.TempDir(), "own", own)).Samples()
	for _, tt := range []struct {
		want uint64
		args []string
	}{
		{one, []string{"import", base + "/own" + token}},
		{3, []string{"import", base + "/perf"}},
		{3, []string{"import", base}},
		{3, []string{"import", base + "/debug/pprof/"}},
		{2 * one, []string{"merge", base + "/own" + token, base + "/own"}},
		{4 * one, []string{"merge", base + "/own@4"}},
		{one, []string{"merge", base + "/at@sign"}},
		{2 * one, []string{"merge", base + "/at@sign@2"}},
	} {
		if got := samples(tt.args...); got != tt.want {
			t.Errorf("%q: %d samples, want %d", tt.args, got, tt.want)
		}
	}
	asked.Store(0)
	if got := samples("import", base+"/later"); got != one || asked.Load() != 2 {
		t.Errorf("%d samples of a server that answers the second time, asked %d times", got, asked.Load())
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"import", base + "/other" + token, "-o", out}, exitFailed, "404"},
		{[]string{"emit", "go", base + "/page" + token, "-o", out}, exitNothing, "neither a backfeed recording"},
		{[]string{"check", base + "/own" + token}, exitNothing, "none of"},
		{[]string{"merge", base + "/own" + token, "--half-life", "1d", "-o", out}, exitUsage, "no source is one"},
		{[]string{"merge", base + "/own" + token + "@-1", "-o", out}, exitUsage, "want a weight"},
		{[]string{"infer", base + "/own" + token, "--since", "1d"}, exitUsage, "it chooses from a store"},
		{[]string{"merge", base + "/page" + token, base + "/own", "--failure-mode", "all", "-o", out}, exitDone, "it is left out"},
	} {
		code, _, errs := runCLI(t, tt.args...)
		if code != tt.code || !strings.Contains(errs, tt.says) {
			t.Errorf("%q: exit code %d, want %d, %s: %s", tt.args, code, tt.code, tt.says, errs)
		}
		for _, secret := range []string{"pa55word", "t0ps3cret"} {
			if strings.Contains(errs, secret) {
				t.Errorf("%q shows %s: %s", tt.args, secret, errs)
			}
		}
	}
}

// TestReportOfAddress: what a report was read from is named without what is secret in its address.
func TestReportOfAddress(t *testing.T) {
	server := httptest.NewServer(http.FileServer(http.Dir("../../testdata/mix")))
	defer server.Close()
	code, stdout, stderr := runCLI(t, "report", server.URL+"/samples.bfr?token=t0ps3cret", "--symfs", "../../testdata/mix", "--format", "json")
	if code != exitDone || !strings.Contains(stdout, "samples.bfr") || strings.Contains(stdout+stderr, "t0ps3cret") {
		t.Errorf("exit code %d: %s%.400s", code, stderr, stdout)
	}
}

// TestProfileServers: servers of profiles are sources of commands, chosen from by flags; what they have without addresses
// makes a profile for Go and nothing else.
func TestProfileServers(t *testing.T) {
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		asked = string(body)
		if strings.HasPrefix(r.URL.Path, "/querier.v1.") {
			w.Header().Set("Content-Type", "application/proto")
			w.Write(namedPprof(t))
			return
		}
		p := tinyPprof(t, true)
		answer := append(binary.AppendUvarint([]byte{6<<3 | 2}, uint64(len(p))), p...) // QueryResponse.pprof
		w.Header().Set("Content-Type", "application/grpc-web+proto")
		w.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(answer))), answer...))
		w.Write([]byte("\x80\x00\x00\x00\x10grpc-status: 0\r\n"))
	}))
	defer server.Close()
	parca := strings.Replace(server.URL, "http://", "parca://t0ps3cret@", 1)
	pyroscope := strings.Replace(server.URL, "http://", "pyroscope://", 1)
	out := filepath.Join(t.TempDir(), "out")
	for _, tt := range []struct {
		args []string
		code int
		says string // by the command, or to the server
	}{
		{[]string{"import", parca, "--since", "2h", "--label", "comm=app", "-o", out}, exitDone, `delta{comm="app"}`},
		{[]string{"merge", parca + "/@2", parca + "?query=a:b", "-o", out}, exitDone, "9 samples"},
		{[]string{"import", parca, "--since", "1h", "--until", "2h", "-o", out}, exitFailed, "is no time"},
		{[]string{"import", pyroscope, "-o", out}, exitNothing, "`backfeed emit go` makes a profile"},
		{[]string{"emit", "llvm", pyroscope, "-o", out}, exitNothing, "all else needs addresses"},
		{[]string{"emit", "go", pyroscope, parca, "-o", out}, exitNothing, "do not add up"},
		{[]string{"emit", "go", pyroscope, "--image", "app", "-o", out}, exitUsage, "has no images"},
		{[]string{"emit", "go", pyroscope, pyroscope, "--label", "service_name=app", "-o", out}, exitDone, `{service_name="app"}`},
		{[]string{"emit", "go", pyroscope, "-o", out}, exitDone, "nothing was inferred"},
	} {
		code, _, errs := runCLI(t, tt.args...)
		if code != tt.code || !strings.Contains(errs+asked, tt.says) {
			t.Errorf("%q: exit code %d, want %d, %s: %s%q", tt.args, code, tt.code, tt.says, errs, asked)
		}
		if strings.Contains(errs, "t0ps3cret") {
			t.Errorf("%q shows the token: %s", tt.args, errs)
		}
	}
}

// namedPprof is a profile of a Go program by functions and lines alone, as Pyroscope answers.
func namedPprof(t *testing.T) []byte {
	t.Helper()
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 10000000,
		Mapping: []*profile.Mapping{{ID: 1, File: "app", HasFunctions: true}},
	}
	for i, name := range []string{"main.f", "main.main"} {
		f := &profile.Function{ID: uint64(i + 1), Name: name, Filename: "main.go", StartLine: int64(10 * (i + 1))}
		p.Function = append(p.Function, f)
		p.Location = append(p.Location, &profile.Location{ID: uint64(i + 1), Mapping: p.Mapping[0], Line: []profile.Line{{Function: f, Line: f.StartLine + 1}}})
	}
	p.Sample = []*profile.Sample{{Location: p.Location, Value: []int64{30000000}}}
	var b bytes.Buffer
	if err := p.WriteUncompressed(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
