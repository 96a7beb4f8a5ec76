package receive

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcgzip "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"

	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/otlp"
	"backfeed/sample/store"
)

// recordingOf has n samples at a place of its own, and a caller.
func recordingOf(host int, n uint64) *sample.Recording {
	c := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cpu-clock", Period: 50e6, Unit: "ns"})
	app := c.Image(sample.ImageID{Build: sample.BuildID{1}, Path: "app"})
	at := sample.Offset(0x1000 + host)
	c.AddSample(app, at, n)
	c.AddStack([]sample.Frame{{Image: app, Off: at}, {Image: app, Off: 0x2000}}, n)
	c.Weight = n * 50e6
	return sample.Merge(&sample.Recording{Counts: []*sample.Counts{c}})
}

func message(host int, n uint64) []byte {
	b, _ := otlp.Encode(recordingOf(host, n), otlp.EncodeOptions{Times: true, Start: 1790000000e9, Duration: 5e9})
	return b
}

// open starts a receiver that is ended with the test.
func open(t *testing.T, change func(*Options)) *Receiver {
	t.Helper()
	opt := Options{Store: filepath.Join(t.TempDir(), "store"), GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", MaxMessage: 1 << 20, Epoch: time.Hour, Flush: time.Hour, Metrics: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&opt)
	}
	r, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	r.end = time.Second
	t.Cleanup(r.release)
	return r
}

// stored is what the store has once the receiver has ended.
func stored(t *testing.T, r *Receiver) *sample.Recording {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(r.opt.Store, store.Options{Warn: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := s.Read(store.Query{})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// A sender sends a message by one of the ways there are. Its error is a status of gRPC.
type sender func(b []byte) (rejected int64, said string, err error)

// byGRPC is a client of grpc-go and the collector's library.
func byGRPC(t testing.TB, r *Receiver, opts ...grpc.CallOption) sender {
	conn, err := grpc.NewClient(r.GRPC.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	client := pprofileotlp.NewGRPCClient(conn)
	return func(b []byte) (int64, string, error) {
		req := pprofileotlp.NewExportRequest()
		if err := req.UnmarshalProto(b); err != nil {
			return 0, "", err
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		resp, err := client.Export(ctx, req, opts...)
		if err != nil {
			return 0, "", err
		}
		return resp.PartialSuccess().RejectedProfiles(), resp.PartialSuccess().ErrorMessage(), nil
	}
}

func gzipped(b []byte) []byte {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(b)
	w.Close()
	return z.Bytes()
}

// post sends a body, and returns the code and the body of the answer.
func post(t testing.TB, r *Receiver, b []byte, headers ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+r.HTTP.String()+HTTPPath, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		} else {
			req.Header.Add(headers[i], headers[i+1])
		}
	}
	if v := req.Header["Content-Type"]; len(v) > 1 {
		req.Header["Content-Type"] = v[1:]
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(text)
}

func asJSON(t testing.TB, b []byte) []byte {
	p, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(b)
	if err != nil {
		t.Fatal(err)
	}
	text, err := (&pprofile.JSONMarshaler{}).MarshalProfiles(p)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// byHTTP posts protobuf or JSON, compressed or not.
func byHTTP(t testing.TB, r *Receiver, inJSON, packed bool) sender {
	return func(b []byte) (int64, string, error) {
		headers := []string{}
		if inJSON {
			b = asJSON(t, b)
			headers = append(headers, "Content-Type", "application/json")
		}
		if packed {
			b = gzipped(b)
			headers = append(headers, "Content-Encoding", "gzip")
		}
		code, h, text := post(t, r, b, headers...)
		if code != http.StatusOK {
			return 0, "", fmt.Errorf("%d: %s", code, text)
		}
		resp := pprofileotlp.NewExportResponse()
		var err error
		if inJSON {
			err = resp.UnmarshalJSON([]byte(text))
		} else {
			err = resp.UnmarshalProto([]byte(text))
		}
		if want := map[bool]string{true: "application/json", false: "application/x-protobuf"}[inJSON]; err == nil && h.Get("Content-Type") != want {
			err = fmt.Errorf("answered in %s", h.Get("Content-Type"))
		}
		return resp.PartialSuccess().RejectedProfiles(), resp.PartialSuccess().ErrorMessage(), err
	}
}

func ways(t testing.TB, r *Receiver) map[string]sender {
	return map[string]sender{
		"gRPC":                 byGRPC(t, r),
		"gRPC, gzip":           byGRPC(t, r, grpc.UseCompressor(grpcgzip.Name)),
		"HTTP, protobuf":       byHTTP(t, r, false, false),
		"HTTP, protobuf, gzip": byHTTP(t, r, false, true),
		"HTTP, JSON":           byHTTP(t, r, true, false),
		"HTTP, JSON, gzip":     byHTTP(t, r, true, true),
	}
}

// TestReceive: many hosts send at once, in all ways, and the store has the sum.
func TestReceive(t *testing.T) {
	r := open(t, nil)
	const hosts, messages = 24, 5
	var senders sync.WaitGroup
	all := &sample.Recording{}
	host := 0
	for way, send := range ways(t, r) {
		for range hosts / 6 {
			host++
			host := host
			for range messages {
				all.AddAll(recordingOf(host, 3))
			}
			senders.Go(func() {
				for range messages {
					if rejected, said, err := send(message(host, 3)); err != nil || rejected != 0 || said != "" {
						t.Errorf("%s: %d rejected, %q, %v", way, rejected, said, err)
					}
				}
			})
		}
	}
	senders.Wait()
	page := httpGet(t, "http://"+r.serving.(net.Listener).Addr().String()+"/metrics")
	figures := testtool.Metrics(t, page)
	for name, want := range map[string]float64{
		`backfeed_requests_total{protocol="grpc",code="0"}`: hosts / 3 * messages, `backfeed_requests_total{protocol="http",code="200"}`: hosts / 3 * 2 * messages,
		"backfeed_received_samples_total": hosts * messages * 3, "backfeed_received_profiles_total": hosts * messages,
	} {
		if figures[name] != want {
			t.Errorf("%s: %g, want %g", name, figures[name], want)
		}
	}
	if got, want := stored(t, r).Encode(), sample.Merge(all).Encode(); !bytes.Equal(got, want) {
		t.Errorf("the store has\n%s\nwant\n%s", sample.Dump(got), sample.Dump(want))
	}
}

func httpGet(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return testtool.Body(t, resp)
}

// TestPartial: what is not counted is said in the answer, in the words of the protocol.
func TestPartial(t *testing.T) {
	r := open(t, nil)
	p := pprofile.NewProfiles()
	d := p.Dictionary()
	for _, s := range []string{"", "off_cpu", "nanoseconds"} {
		d.StringTable().Append(s)
	}
	d.StackTable().AppendEmpty()
	pr := p.ResourceProfiles().AppendEmpty().ScopeProfiles().AppendEmpty().Profiles().AppendEmpty()
	pr.SampleType().SetTypeStrindex(1)
	pr.SampleType().SetUnitStrindex(2)
	pr.Samples().AppendEmpty().Values().Append(5)
	b, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(p)
	if err != nil {
		t.Fatal(err)
	}
	for way, send := range ways(t, r) {
		rejected, said, err := send(b)
		if want := `1 samples are in profiles of "off_cpu/nanoseconds", which are not of processor time: not counted`; err != nil || rejected != 1 || said != want {
			t.Errorf("%s: %d rejected, %q, %v", way, rejected, said, err)
		}
	}
	if n := stored(t, r).Samples(); n != 0 {
		t.Errorf("%d samples stored", n)
	}
}

// rawGRPC sends a body by HTTP/2 as it is, and returns the status of gRPC.
func rawGRPC(t *testing.T, r *Receiver, b []byte, headers ...string) (code, msg string) {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	path := exportPath
	if len(headers) > 1 && headers[0] == "path" {
		path, headers = headers[1], headers[2:]
	}
	req, err := http.NewRequest(http.MethodPost, "http://"+r.GRPC.String()+path, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return "", err.Error()
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	if code = resp.Header.Get("Grpc-Status"); code != "" {
		return code, resp.Header.Get("Grpc-Message")
	}
	return resp.Trailer.Get("Grpc-Status"), resp.Trailer.Get("Grpc-Message")
}

// framed is a message as gRPC sends it.
func framed(flag byte, b []byte) []byte {
	n := len(b)
	return append([]byte{flag, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, b...)
}

// TestRefuses: what is refused, how, and that nothing of it is counted.
func TestRefuses(t *testing.T) {
	r := open(t, nil)
	good := message(1, 3)
	bomb := gzipped(make([]byte, 1<<26))
	large := make([]byte, 1<<20+1)
	truncated := good[:len(good)-1]
	for _, tt := range []struct {
		name    string
		b       []byte
		headers []string
		code    int
		want    string
	}{
		{"truncated", truncated, nil, 400, "188 bytes, 187 are left"},
		{"truncated, gzip", gzipped(good)[:40], []string{"Content-Encoding", "gzip"}, 400, "unexpected EOF"},
		{"no gzip", good, []string{"Content-Encoding", "gzip"}, 400, "gzip: invalid header"},
		{"zstd", good, []string{"Content-Encoding", "zstd"}, 415, `compressed with "zstd", want gzip or nothing`},
		{"oversize", large, nil, 413, "a message of 1048577 bytes, more than 1024 KiB (--max-message)"},
		{"gzip bomb", bomb, []string{"Content-Encoding", "gzip"}, 413, "a message of more than 1024 KiB (--max-message)"},
		{"version", good, []string{"otlp-profiles-development-version", "2"}, 400, "otlp-profiles-development-version: want 1"},
		{"versions", good, []string{"otlp-profiles-development-version", "1", "otlp-profiles-development-version", "1"}, 400, "otlp-profiles-development-version: want 1"},
		{"text", []byte("hello"), []string{"Content-Type", "text/plain"}, 415, "want the content type application/x-protobuf or application/json"},
		{"no JSON", []byte("hello"), []string{"Content-Type", "application/json"}, 400, "invalid character"},
		{"nothing in JSON", nil, []string{"Content-Type", "application/json"}, 400, "empty"},
		{"two in JSON", []byte("{}{}"), []string{"Content-Type", "application/json; charset=utf-8"}, 400, "more than one message"},
	} {
		code, _, text := post(t, r, tt.b, tt.headers...)
		if code != tt.code || !strings.Contains(text, tt.want) {
			t.Errorf("%s: %d %q, want %d %q", tt.name, code, text, tt.code, tt.want)
		}
		if len(tt.headers) > 1 && strings.Contains(tt.headers[1], "json") {
			var s struct {
				Code    int
				Message string
			}
			if err := json.Unmarshal([]byte(text), &s); err != nil || s.Code != codeInvalid || s.Message == "" {
				t.Errorf("%s: answered %s: %v", tt.name, text, err)
			}
		}
	}
	if resp := httpStatus(t, "http://"+r.HTTP.String()+HTTPPath); resp != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", resp)
	}
	if resp := httpStatus(t, "http://"+r.HTTP.String()+"/v1/traces"); resp != http.StatusNotFound {
		t.Errorf("another signal: %d", resp)
	}
	if resp := httpStatus(t, "http://"+r.GRPC.String()+"/"); resp != http.StatusUnsupportedMediaType {
		t.Errorf("no gRPC: %d", resp)
	}
	for _, tt := range []struct {
		name    string
		b       []byte
		headers []string
		code    string
		want    string
	}{
		{"truncated message", framed(0, truncated), nil, "3", "188 bytes, 187 are left"},
		{"truncated frame", framed(0, good)[:20], nil, "3", "unexpected EOF"},
		{"no frame", nil, nil, "3", "length of the message: EOF"},
		{"two messages", append(framed(0, good), framed(0, good)...), nil, "3", "more than one message"},
		{"oversize", framed(0, large), nil, "8", "a message of 1048577 bytes"},
		{"lying about its size", []byte{0, 0x7f, 0, 0, 0}, nil, "8", "a message of 2130706432 bytes"},
		{"gzip bomb", framed(1, bomb), []string{"Grpc-Encoding", "gzip"}, "8", "a message of more than"},
		{"zstd", framed(1, good), []string{"Grpc-Encoding", "zstd"}, "12", `compressed with "zstd"`},
		{"version", framed(0, good), []string{"otlp-profiles-development-version", "2"}, "3", "want 1"},
		{"JSON", framed(0, good), []string{"Content-Type", "application/grpc+json"}, "12", "want protobuf"},
		{"method", framed(0, good), []string{"path", "/opentelemetry.proto.collector.trace.v1.TraceService/Export"}, "12", "no such method"},
	} {
		if code, msg := rawGRPC(t, r, tt.b, tt.headers...); code != tt.code || !strings.Contains(msg, tt.want) {
			t.Errorf("gRPC, %s: %s %q, want %s %q", tt.name, code, msg, tt.code, tt.want)
		}
	}
	if code, msg := rawGRPC(t, r, framed(0, good)); code != "0" {
		t.Errorf("a good one: %s %s", code, msg)
	}
	if got := stored(t, r).Samples(); got != 3 {
		t.Errorf("%d samples stored, want those of the good one", got)
	}
}

// TestRefusedIsLogged: who runs the receiver sees that a sender is refused, and why, without a line for each request.
func TestRefusedIsLogged(t *testing.T) {
	var log strings.Builder
	r := open(t, func(opt *Options) { opt.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	for range 3 {
		if code, _, _ := post(t, r, message(1, 3), "Content-Encoding", "zstd"); code != 415 {
			t.Errorf("answered %d", code)
		}
	}
	if code, _ := rawGRPC(t, r, framed(1, message(1, 3)), "Grpc-Encoding", "zstd"); code != "12" {
		t.Errorf("gRPC answered %s", code)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"requests are refused: what they bring is not stored\" requests=1 by=http", `code=415 error="compressed with \"zstd\", want gzip or nothing"`, "more requests were refused\" requests=3"} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("not once %q in\n%s", want, &log)
		}
	}
}

func httpStatus(t *testing.T, url string) int {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestSlow: who connects and says nothing, or stops in the middle, keeps nobody out, and is gone in the end.
func TestSlow(t *testing.T) {
	r := open(t, nil)
	for _, addr := range []net.Addr{r.HTTP, r.GRPC} {
		testtool.DialAll(t, addr.String(), 40, "")
		testtool.DialAll(t, addr.String(), 40, "POST "+HTTPPath+" HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-protobuf\r\nContent-Length: 1000\r\n\r\nabc")
		testtool.DialAll(t, addr.String(), 40, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	}
	for way, send := range ways(t, r) {
		if _, _, err := send(message(1, 1)); err != nil {
			t.Errorf("%s: %v", way, err)
		}
	}
	if held := r.held.Load(); held > 40*2*(16<<10) {
		t.Errorf("%d bytes are held for those who say nothing", held)
	}
	start := time.Now()
	r.Close()
	if d := time.Since(start); d > 10*r.end {
		t.Errorf("ended after %v", d)
	}
	if n := stored(t, r).Samples(); n != 6 {
		t.Errorf("%d samples stored, want 6", n)
	}
}

// TestFull: while the store takes nothing, senders are told to try again; and nothing that was acknowledged is lost.
func TestFull(t *testing.T) {
	r := open(t, nil)
	all := ways(t, r)
	for way, send := range all {
		if _, _, err := send(message(1, 1)); err != nil {
			t.Errorf("%s: %v", way, err)
		}
	}
	segments := filepath.Join(r.opt.Store, "segments")
	if err := os.Rename(segments, segments+".gone"); err != nil {
		t.Fatal(err)
	}
	if err := r.write(time.Now()); err == nil {
		t.Fatal("written to no directory")
	}
	for way, send := range all {
		_, _, err := send(message(1, 1))
		if err == nil || strings.HasPrefix(way, "gRPC") && status.Code(err) != codes.Unavailable || strings.HasPrefix(way, "HTTP") && !strings.HasPrefix(err.Error(), "503") {
			t.Errorf("%s: %v", way, err)
		}
	}
	if code, h, _ := post(t, r, message(1, 1)); code != http.StatusServiceUnavailable || h.Get("Retry-After") == "" {
		t.Errorf("%d, Retry-After %q", code, h.Get("Retry-After"))
	}
	if err := os.Rename(segments+".gone", segments); err != nil {
		t.Fatal(err)
	}
	r.step(time.Now())
	for way, send := range all {
		if _, _, err := send(message(1, 1)); err != nil {
			t.Errorf("%s: %v", way, err)
		}
	}
	if got, want := stored(t, r).Encode(), recordingOf(1, 12).Encode(); !bytes.Equal(got, want) {
		t.Errorf("the store has\n%s", sample.Dump(got))
	}
}

// TestLost: what the store does not take at the end, is said.
func TestLost(t *testing.T) {
	r := open(t, nil)
	if _, _, err := byHTTP(t, r, false, false)(message(1, 7)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(r.opt.Store, "segments")); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "7 samples are lost") {
		t.Errorf("got %v", err)
	}
}

// TestEnd: a receiver that ends while hosts send has all that it acknowledged in the store.
func TestEnd(t *testing.T) {
	r := open(t, func(o *Options) { o.Flush = time.Millisecond })
	signals := make(chan os.Signal, 1)
	var run, senders sync.WaitGroup
	run.Go(func() { r.Run(signals) })
	var acknowledged, sent atomic.Uint64
	for _, send := range ways(t, r) {
		senders.Go(func() {
			for i := range 10_000 {
				sent.Add(2)
				if _, _, err := send(message(i, 2)); err != nil {
					return
				}
				acknowledged.Add(2)
			}
		})
	}
	time.Sleep(300 * time.Millisecond)
	signals <- os.Interrupt
	run.Wait()
	got := stored(t, r).Samples()
	senders.Wait()
	if got < acknowledged.Load() || got > sent.Load() || acknowledged.Load() == 0 {
		t.Errorf("%d samples stored, of %d that were acknowledged and %d that were sent", got, acknowledged.Load(), sent.Load())
	}
}

// TestGathered: what is in memory is written when it is too much, without a clock.
func TestGathered(t *testing.T) {
	r := open(t, nil)
	r.most = 5000
	send := byHTTP(t, r, false, false)
	total := uint64(0)
	for i := range 60 {
		c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Period: 50e6, Unit: "ns"})
		app := c.Image(sample.ImageID{Build: sample.BuildID{1}, Path: "app"})
		for k := range 400 {
			c.AddSample(app, sample.Offset(0x1000+i*400+k), 1)
			total++
		}
		b, _ := otlp.Encode(&sample.Recording{Counts: []*sample.Counts{c}}, otlp.EncodeOptions{})
		if _, _, err := send(b); err != nil {
			t.Fatal(err)
		}
	}
	r.mu.Lock()
	places := r.places
	r.mu.Unlock()
	if places > r.most {
		t.Errorf("%d places in memory", places)
	}
	if got := stored(t, r).Samples(); got != total {
		t.Errorf("%d samples stored, want %d", got, total)
	}
}

// TestOpenRefuses: addresses that are none, or taken.
func TestOpenRefuses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tt := range []struct{ grpc, http, want string }{
		{"", "", "nothing to listen at"},
		{"localhost", "", "--grpc localhost: want HOST:PORT"},
		{"", l.Addr().String(), "--http " + l.Addr().String() + ": "},
	} {
		r, err := Open(Options{Store: filepath.Join(t.TempDir(), "store"), GRPC: tt.grpc, HTTP: tt.http, Epoch: time.Hour, Flush: time.Hour, Log: slog.New(slog.DiscardHandler)})
		if err == nil {
			r.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q, %q: %v, want %s", tt.grpc, tt.http, err, tt.want)
		}
	}
}

// TestRefused: an error of the disk is not the sender's fault.
func TestRefused(t *testing.T) {
	if r := refused(later(errors.New("x"))); r.http != http.StatusServiceUnavailable || r.grpc != codeUnavailable {
		t.Error(r)
	}
	if got := percentEncoded("a%\né"); got != "a%25%0A%C3%A9" {
		t.Error(got)
	}
}
