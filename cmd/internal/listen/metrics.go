package listen

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"backfeed/cmd/internal/fail"
)

// Metrics shows page at /metrics of the address that the flag --metrics has, until the listener is closed. What a
// machine runs is nobody else's business, so it shows it to itself alone unless
// public is set. Requests name it by address, as localhost, by the name that it listens
// at or, if it is public, by the name of this machine.
func Metrics(address string, public bool, page http.Handler, log *slog.Logger) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fail.Errorf(fail.Usage, "--metrics %s: want HOST:PORT, such as localhost:9464 or [::1]:9464", address)
	}
	if ip := net.ParseIP(strings.Trim(host, "[]")); !public && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fail.Errorf(fail.Usage, "--metrics %s: not a loopback address, so other machines could read it; --metrics-public allows that", address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--metrics: %w", err)
	}
	var names []string // that other machines may ask for
	if public {
		names = ownNames()
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", page)
	g := NewGuard(l, maxScrapers)
	srv := g.Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !Refused(w, r, host, names...) {
			mux.ServeHTTP(w, r)
		}
	}), 10*time.Second, io.Discard)
	srv.SetKeepAlivesEnabled(false) // nothing outlives the listener
	go func() {
		if err := srv.Serve(g); !errors.Is(err, net.ErrClosed) {
			log.Error("metrics are no longer served; a restart brings them back", "error", err)
		}
	}()
	return g, nil
}

// Families writes metrics of this program in the text format of Prometheus:
// https://prometheus.io/docs/instrumenting/exposition_formats.
type Families struct{ io.Writer }

// Show begins the answer of a page of metrics.
func Show(w http.ResponseWriter) Families {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	return Families{w}
}

// Family begins a family of metrics, whose values follow.
func (f Families) Family(name, kind, help string) {
	fmt.Fprintf(f, "# HELP backfeed_%s %s\n# TYPE backfeed_%s %s\n", name, help, name, kind)
}

// One writes a family of one value.
func (f Families) One(name, kind, help string, value float64) {
	f.Family(name, kind, help)
	fmt.Fprintf(f, "backfeed_%s %s\n", name, strconv.FormatFloat(value, 'g', -1, 64))
}

// maxScrapers is how many connections may ask for metrics at once: the descriptors of who shows them are for its work.
const maxScrapers = 16

// ownNames are what this machine calls itself.
func ownNames() []string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return nil
	}
	short, _, _ := strings.Cut(name, ".")
	return []string{name, short}
}
