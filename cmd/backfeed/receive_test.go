package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/receive"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/otlp"
)

// hosts divides the samples of a recording among n hosts, one by one, as OTLP can say them: places and callers.
func hosts(rec *sample.Recording, n int) []*sample.Recording {
	all := make([]*sample.Recording, n)
	for i := range all {
		all[i] = &sample.Recording{}
	}
	next := 0
	for _, c := range rec.Counts {
		counts := make([]*sample.Counts, n)
		for i := range counts {
			counts[i] = sample.NewCounts(c.CPU, c.Event)
			for _, ic := range c.Images {
				counts[i].Image(ic.ID)
			}
		}
		each := func(samples uint64, add func(c *sample.Counts, n uint64)) {
			for i := range n {
				part := samples / uint64(n)
				if uint64(i) < samples%uint64(n) {
					part++
				}
				add(counts[(next+i)%n], part)
			}
			next += int(samples % uint64(n))
		}
		rest := map[sample.Frame]uint64{}
		for i, ic := range c.Images {
			for off, k := range ic.At {
				rest[sample.Frame{Image: i, Off: off}] = k
			}
		}
		for _, s := range c.Stacks {
			rest[s.Frames[0]] -= s.N
			each(s.N, func(c *sample.Counts, k uint64) {
				c.AddSample(s.Frames[0].Image, s.Frames[0].Off, k)
				c.AddStack(s.Frames, k)
			})
		}
		for f, k := range rest {
			each(k, func(c *sample.Counts, k uint64) { c.AddSample(f.Image, f.Off, k) })
		}
		for why, k := range c.Lost {
			each(k, func(c *sample.Counts, k uint64) { c.Lose(why, k) })
		}
		for i, part := range counts {
			all[i].Add(part)
		}
	}
	return all
}

// TestReceiveReplay sends one recording as 50 hosts would have sampled it, half of them by gRPC and half by HTTP, over loopback:
// the profiles that are emitted of what was received are those of the recording, byte for byte.
func TestReceiveReplay(t *testing.T) {
	t.Run("directory", func(t *testing.T) { replayHosts(t, filepath.Join(t.TempDir(), "store")) })
	t.Run("bucket", func(t *testing.T) { replayHosts(t, bucketStore(t)) })
}

// replayHosts sends the recording to a receiver that writes to store.
func replayHosts(t *testing.T, store string) {
	t.Helper()
	symfs, recorded := filepath.Join(root, "testdata/mix"), filepath.Join(root, "testdata/mix/samples.bfr")
	rec, err := sample.Decode([]byte(testtool.Read(t, recorded)))
	if err != nil {
		t.Fatal(err)
	}
	images, err := input.New(input.Options{Symfs: []string{symfs}})
	if err != nil {
		t.Fatal(err)
	}
	defer images.Close()
	const base = 0x400000 // as if it were linked there
	addr := func(id sample.ImageID, off sample.Offset) (uint64, bool) {
		im, err := images.Open(id)
		if err != nil {
			return 0, false
		}
		a, ok := im.AddrOf(off)
		return uint64(a) + base, ok
	}
	dir := t.TempDir()
	r, err := receive.Open(receive.Options{Store: store, GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", MaxMessage: receive.DefaultMaxMessage, Epoch: time.Hour, Flush: time.Hour, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	var sending sync.WaitGroup
	for i, host := range hosts(rec, 50) {
		b, _ := otlp.Encode(host, otlp.EncodeOptions{Addr: addr, Times: true, Start: 1790000000e9, Duration: 60e9})
		sending.Go(func() {
			var err error
			if i%2 == 0 {
				err = sent(tr, "http://"+r.GRPC.String()+"/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export", "application/grpc",
					append([]byte{0, byte(len(b) >> 24), byte(len(b) >> 16), byte(len(b) >> 8), byte(len(b))}, b...))
			} else {
				err = sent(http.DefaultTransport, "http://"+r.HTTP.String()+receive.HTTPPath, "application/x-protobuf", b)
			}
			if err != nil {
				t.Errorf("host %d: %v", i, err)
			}
		})
	}
	sending.Wait()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"emit llvm", "emit gcc", "infer --format json"} {
		var out [2]string
		for i, src := range []string{recorded, store} {
			file := filepath.Join(dir, fmt.Sprint(strings.ReplaceAll(format, " ", "-"), i))
			if code, _, errs := runCLI(t, append(strings.Fields(format), src, "--symfs", symfs, "-o", file)...); code != exitDone {
				t.Fatalf("%s %s: exit code %d, %s", format, src, code, errs)
			}
			out[i] = testtool.Read(t, file)
		}
		if out[0] != out[1] {
			t.Errorf("%s: %d bytes of the recording, %d of what was received, which differ", format, len(out[0]), len(out[1]))
		}
	}
}

// sent posts a message, and returns what the answer refuses it for.
func sent(tr http.RoundTripper, url, media string, b []byte) error {
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", media)
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	code := resp.Trailer.Get("Grpc-Status") + resp.Header.Get("Grpc-Status")
	if err != nil || resp.StatusCode != http.StatusOK || code != "" && code != "0" {
		return fmt.Errorf("%s, status %s, %q, %v", resp.Status, code, text, err)
	}
	return nil
}
