package listen

import (
	"context"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Timeouts of connections. A client of ours is a browser or a scraper on this machine or
// its network: what is slower is broken, or wants to hold a connection.
const (
	headerTimeout = 5 * time.Second  // from the connection to the end of a request's header
	idleTimeout   = 60 * time.Second // between two requests
)

// A Guard holds the connections of a server to a number of its own, so that who opens
// many takes no descriptors from the rest of the process. A new connection takes the
// place of the oldest that is not being answered: half-open ones cannot keep others out.
type Guard struct {
	net.Listener
	most int

	mu     sync.Mutex
	room   sync.Cond // of mu: a connection ended or became idle, or the listener was closed
	open   []*guarded
	closed bool
}

// A guarded is a connection of a Guard.
type guarded struct {
	net.Conn
	g    *Guard
	busy bool // a request is being answered; of g.mu
}

// NewGuard lets most connections be open at once, and no more than an eighth of the
// descriptors that this process may have.
func NewGuard(l net.Listener, most int) *Guard {
	g := &Guard{Listener: l, most: most}
	g.room.L = &g.mu
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil {
		g.most = max(1, min(most, int(min(limit.Cur/8, math.MaxInt32)))) // whose type differs by system
	}
	return g
}

// Accept waits for a connection and makes room for it.
func (g *Guard) Accept() (net.Conn, error) {
	conn, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.open) >= g.most && !g.closed {
		oldest := slices.IndexFunc(g.open, func(c *guarded) bool { return !c.busy })
		if oldest < 0 {
			g.room.Wait()
			continue
		}
		g.open[oldest].Conn.Close()
		g.open = slices.Delete(g.open, oldest, oldest+1)
	}
	if g.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	c := &guarded{Conn: conn, g: g}
	g.open = append(g.open, c)
	return c, nil
}

// Close ends the listener, not its connections.
func (g *Guard) Close() error {
	g.mu.Lock()
	g.closed = true
	g.room.Broadcast()
	g.mu.Unlock()
	return g.Listener.Close()
}

// Close ends a connection, also one that had to make room.
func (c *guarded) Close() error {
	c.g.mu.Lock()
	if i := slices.Index(c.g.open, c); i >= 0 {
		c.g.open = slices.Delete(c.g.open, i, i+1)
		c.g.room.Broadcast()
	}
	c.g.mu.Unlock()
	return c.Conn.Close()
}

func (c *guarded) answering(busy bool) {
	c.g.mu.Lock()
	c.busy = busy
	c.g.room.Broadcast()
	c.g.mu.Unlock()
}

// connKey is of the connection in the context of a request.
type connKey struct{}

// Server answers requests of a guard's connections, each within a time.
func (g *Guard) Server(h http.Handler, answer time.Duration, errors io.Writer) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c, ok := r.Context().Value(connKey{}).(*guarded); ok {
				c.answering(true)
			}
			h.ServeHTTP(w, r)
		}),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ConnState: func(c net.Conn, state http.ConnState) {
			// Not at the end of the handler: what it wrote may still be in a buffer.
			if c, ok := c.(*guarded); ok && state == http.StateIdle {
				c.answering(false)
			}
		},
		ReadHeaderTimeout: headerTimeout, ReadTimeout: 2 * headerTimeout, IdleTimeout: idleTimeout, WriteTimeout: answer,
		MaxHeaderBytes: 1 << 16, ErrorLog: log.New(errors, "backfeed: ", 0),
	}
}

// Refused answers what another site may have had a browser ask, and reports whether it
// did. listens is the host that the server was asked to listen at, names are others that
// a request may name.
func Refused(w http.ResponseWriter, r *http.Request, listens string, names ...string) bool {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if !allowedHost(r.Host, listens, names...) {
		http.Error(w, "another host was asked for", http.StatusForbidden)
		return true
	}
	// Other ports of this machine are other sites too. Not all clients are browsers, and
	// send this.
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	if r.Header.Get("Sec-Fetch-Mode") == "navigate" {
		return false
	}
	http.Error(w, "asked for by another site", http.StatusForbidden)
	return true
}

// allowedHost reports whether a request may be for host. A name that somebody else rules
// may be made to lead here, so that their page may read ours (DNS rebinding); an address
// or localhost cannot, and the name that the user gave is theirs.
func allowedHost(host, listens string, names ...string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"))
	if name == "" {
		return false
	}
	if name == "localhost" || name == strings.ToLower(listens) || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
		return true
	}
	ip, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	if own, err := netip.ParseAddr(listens); err == nil && own.IsLoopback() || listens == "localhost" {
		return ip.IsLoopback()
	}
	return true
}
