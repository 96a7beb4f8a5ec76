package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"backfeed/internal/testtool"
)

// TestAgentHalfOpen: 200 half-open connections do not keep an agent of 64 descriptors
// from writing its segments, or from telling of itself.
func TestAgentHalfOpen(t *testing.T) {
	testtool.Live(t, "records")
	if os.Geteuid() != 0 {
		t.Skip("needs root, to sample the machine")
	}
	dir := t.TempDir()
	cmd := exec.Command("/bin/sh", "-c", `ulimit -n 64 && exec "$0" "$@"`, os.Args[0], "agent", "--store", filepath.Join(dir, "store"), "--flush", "1s", "--metrics", "127.0.0.1:0", "-F", "49")
	cmd.Env, cmd.Dir = append(os.Environ(), runEnv+"=1"), dir
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	url := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		re := regexp.MustCompile(`url=(http://\S+)`)
		for s := bufio.NewScanner(stderr); s.Scan(); {
			fmt.Fprintln(&said, s.Text())
			if m := re.FindStringSubmatch(s.Text()); m != nil {
				url <- m[1]
			}
		}
		ended <- cmd.Wait()
	}()
	stop := func() { cmd.Process.Signal(syscall.SIGTERM) }
	var at string
	select {
	case at = <-url:
	case err := <-ended:
		t.Skipf("the agent does not run here: %v: %s", err, said.String())
	case <-time.After(time.Minute):
		cmd.Process.Kill()
		t.Fatal("the agent says nothing")
	}
	get := func() (float64, error) {
		client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		r, err := client.Get(at)
		if err != nil {
			return 0, err
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return 0, err
		}
		return testtool.Metrics(t, string(b))["backfeed_segments_written_total"], nil
	}
	address := strings.TrimSuffix(strings.TrimPrefix(at, "http://"), "/metrics")
	deadline := time.Now().Add(2 * time.Minute)
	more := func(than float64) float64 {
		for {
			select {
			case err := <-ended:
				ended <- err
				t.Skipf("the agent does not run here: %v: %s", err, said.String())
			default:
			}
			n, err := get()
			if err == nil && n > than {
				return n
			}
			if time.Now().After(deadline) {
				stop()
				<-ended
				t.Fatalf("no more than %g segments were written; %v\n%s", n, err, said.String())
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
	before := more(0)
	testtool.DialAll(t, address, 200, "GET /metrics HTTP/1.1\r\n")
	more(before + 2)
	stop()
	if err := <-ended; err != nil || strings.Contains(said.String(), "too many open files") {
		t.Errorf("%v\n%s", err, said.String())
	}
}
