package listen

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"backfeed/internal/testtool"
)

// TestGuard: connections that ask nothing give way, those that are answered do not.
func TestGuard(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	g := NewGuard(ln, 4)
	begun, end := make(chan bool), make(chan bool)
	srv := g.Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			begun <- true
			<-end
		}
		io.WriteString(w, "answer")
	}), time.Minute, io.Discard)
	go srv.Serve(g)
	defer srv.Close()
	url := "http://" + ln.Addr().String()
	slow := make(chan string, 4)
	for range 3 {
		go func() {
			r, err := http.Get(url + "/slow")
			if err != nil {
				slow <- err.Error()
				return
			}
			b, _ := io.ReadAll(r.Body)
			r.Body.Close()
			slow <- string(b)
		}()
		<-begun
	}
	for _, text := range []string{"", "GET / HTTP/1.1\r\nHost: x\r\n"} { // no request, and half of one
		testtool.DialAll(t, ln.Addr().String(), 50, text)
		if r, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(url); err != nil {
			t.Errorf("beside 50 connections that sent %q: %v", text, err)
		} else if body := bodyOf(t, r); body != "answer" {
			t.Errorf("got %q", body)
		}
		g.mu.Lock()
		if len(g.open) > g.most {
			t.Errorf("%d connections are open, want %d at most", len(g.open), g.most)
		}
		g.mu.Unlock()
	}
	// All are being answered: the next waits for the first that ends, and is answered then.
	go http.Get(url + "/slow")
	<-begun
	next := make(chan error, 1)
	go func() {
		r, err := http.Get(url)
		if err == nil {
			r.Body.Close()
		}
		next <- err
	}()
	close(end)
	if err := <-next; err != nil {
		t.Errorf("when there is room again: %v", err)
	}
	for range 3 {
		if got := <-slow; got != "answer" {
			t.Errorf("a connection that was being answered got %q", got)
		}
	}
}

// TestGuardCloses: a server that waits for room ends when its listener does.
func TestGuardCloses(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	g := NewGuard(ln, 1)
	begun, end := make(chan bool), make(chan bool)
	srv := g.Server(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { begun <- true; <-end }), time.Minute, io.Discard)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(g) }()
	defer close(end)
	testtool.DialAll(t, ln.Addr().String(), 1, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-begun
	testtool.DialAll(t, ln.Addr().String(), 2, "")
	srv.Close()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Error("it still waits")
	}
}

// TestTimeouts: no connection may stay for ever.
func TestTimeouts(t *testing.T) {
	s := (&Guard{}).Server(nil, time.Second, io.Discard)
	if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.IdleTimeout <= 0 || s.WriteTimeout <= 0 || s.MaxHeaderBytes <= 0 {
		t.Errorf("a connection may stay: %+v", s)
	}
}

// TestAllowedHost: a request may name the server as it was asked to listen, and by addresses
// that reach it.
func TestAllowedHost(t *testing.T) {
	for _, tt := range []struct {
		listens, asks string
		ok            bool
	}{
		{"0.0.0.0", "192.0.2.7:80", true},
		{"0.0.0.0", "evil.example", false},
		{"build.example", "build.example:80", true},
		{"build.example", "evil.example", false},
		{"localhost", "192.0.2.7", false},
		{"127.0.0.1", "", false},
	} {
		if got := allowedHost(tt.asks, tt.listens); got != tt.ok {
			t.Errorf("at %s, %q is allowed: %v, want %v", tt.listens, tt.asks, got, tt.ok)
		}
	}
}

func bodyOf(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
