package web

import (
	"net/http"
	"sync/atomic"

	"backfeed/cmd/internal/listen"
	"backfeed/cmd/internal/report"
)

// A Loading answers requests while what they ask for is being read, with a page that says so and asks
// again by itself, without scripts too; and then as the Site that it was given.
type Loading struct {
	host string
	what atomic.Pointer[string]
	site atomic.Pointer[Site]
}

// NewLoading makes one of a site that will listen at host.
func NewLoading(host string) *Loading { return &Loading{host: host} }

// Say says what is being done.
func (l *Loading) Say(what string) { l.what.Store(&what) }

// Ready has s answer from now on.
func (l *Loading) Ready(s *Site) { l.site.Store(s) }

// ServeHTTP refuses what a Site refuses.
func (l *Loading) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s := l.site.Load(); s != nil {
		s.ServeHTTP(w, r)
		return
	}
	if listen.Refused(w, r, l.host) {
		return
	}
	doing := "reading the recording"
	if what := l.what.Load(); what != nil {
		doing = *what
	}
	page := report.NewPage("Being read", "The pages are not here yet. This one asks again by itself until they are.")
	sh := &sheet{page: page}
	sh.add("doing", "What is being done", text("%s", doing))
	w.Header().Set("Refresh", "1")
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Cache-Control", "no-store")
	send(w, http.StatusServiceUnavailable, page, sh.err) // which says to what is no browser that it is no answer
}
