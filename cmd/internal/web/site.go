package web

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"time"

	"backfeed/cmd/internal/listen"
	"backfeed/cmd/internal/report"
)

// A Site is the pages of a view as an HTTP handler.
type Site struct {
	*View
	host string // that it was asked to listen at, which requests may name
	mux  *http.ServeMux

	patience time.Duration // how long a page waits for what is worked out in the background
}

// NewSite makes the site of v; pprof may be nil.
func NewSite(v *View, host string, pprof http.Handler) *Site {
	s := &Site{View: v, host: host, mux: http.NewServeMux(), patience: patience}
	s.mux.HandleFunc("GET /{$}", s.overviewPage)
	s.mux.HandleFunc("GET /procedures", s.procsPage)
	s.mux.HandleFunc("GET /proc/{id}", s.procPage)
	s.mux.HandleFunc("GET /causes", s.causesPage)
	s.mux.HandleFunc("GET /build", s.buildPage)
	s.mux.HandleFunc("GET /fleet", s.fleetPage)
	s.mux.HandleFunc("GET /compare", s.comparePage)
	s.mux.HandleFunc("GET /confidence", s.confidencePage)
	s.mux.HandleFunc("GET /layout", s.layoutPage)
	s.mux.HandleFunc("GET /data/{name}", s.dataFile)
	s.mux.HandleFunc("GET /flamegraph", s.flamePage)
	s.mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	if pprof != nil {
		s.mux.HandleFunc("GET /pprof/source", s.sourcePage)
		s.mux.Handle("GET /pprof/", http.StripPrefix("/pprof", pprof))
	}
	return s
}

// ServeHTTP refuses what another site may have had a browser ask, then answers.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !listen.Refused(w, r, s.host) {
		s.mux.ServeHTTP(w, r)
	}
}

// links lead to all pages.
func (s *Site) links(here string) []report.Link {
	links := []report.Link{{Href: "/", Text: "Overview"}, {Href: "/procedures", Text: "Procedures"}, {Href: "/causes", Text: "Causes"}, {Href: "/build", Text: "Build"}, {Href: "/confidence", Text: "Confidence"},
		{Href: "/layout", Text: "Layout"}, {Href: "/flamegraph", Text: "Flame graph"}, {Href: "/pprof/top", Text: "pprof"}}
	if s.old != nil {
		links = slices.Insert(links, 2, report.Link{Href: "/compare", Text: "Compare"})
	}
	if s.src.HasStore() {
		links = append(links, report.Link{Href: "/fleet", Text: "Fleet"})
	}
	for i := range links {
		links[i].Here = links[i].Href == here
	}
	return links
}

// send writes a page.
func (s *Site) send(w http.ResponseWriter, here string, p *report.Page, err error) {
	if err == nil {
		p.Links = s.links(here)
	}
	send(w, http.StatusOK, p, err)
}

// send writes a page of a server.
func send(w http.ResponseWriter, status int, p *report.Page, err error) {
	var b bytes.Buffer
	if err == nil {
		p.Served = true
		err = p.Write(&b)
	}
	if err != nil {
		http.Error(w, "the page cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", p.Policy()+"; frame-ancestors 'none'")
	w.WriteHeader(status)
	w.Write(b.Bytes())
}

// procHref leads to the page of a procedure; "" if it has none.
func procHref(p *viewed) string {
	if p == nil {
		return ""
	}
	return "/proc/" + p.id
}

func (s *Site) procPage(w http.ResponseWriter, r *http.Request) {
	p := s.byID[r.PathValue("id")]
	if p == nil {
		http.Error(w, "no such procedure with samples", http.StatusNotFound)
		return
	}
	page := report.NewPage(p.row.Name, s.lead())
	sh := &sheet{page: page}
	s.addProc(sh, p, "", false, procHref)
	s.send(w, "", page, sh.err)
}

// maxSourceProcs is how many procedures sourcePage shows the code of.
const maxSourceProcs = 10

// sourcePage stands for pprof's page of source: the code of the procedures that match a
// pattern by the names of what is inlined in them and of its files, as there.
func (s *Site) sourcePage(w http.ResponseWriter, r *http.Request) {
	re, err := regexp.Compile(r.URL.Query().Get("f"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var found []*viewed
	for _, p := range s.procs {
		if slices.ContainsFunc(s.matches[p], re.MatchString) {
			found = append(found, p)
		}
	}
	shown := found[:min(len(found), maxSourceProcs)]
	page := report.NewPage("Source", fmt.Sprintf("The code of %d of %d procedures that match %q, by cycles.", len(shown), len(found), re.String()))
	sh := &sheet{page: page}
	for _, p := range shown {
		s.addProc(sh, p, p.id, true, procHref)
	}
	s.send(w, "", page, sh.err)
}

func (s *Site) confidencePage(w http.ResponseWriter, _ *http.Request) {
	page := report.NewPage("How far the figures are to be trusted", s.lead())
	sh := &sheet{page: page}
	s.addConfidence(sh)
	s.send(w, "/confidence", page, sh.err)
}
