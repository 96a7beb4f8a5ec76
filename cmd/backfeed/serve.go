package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/listen"
	"backfeed/cmd/internal/report"
	"backfeed/infer/source"
	"backfeed/infer/truth"
)

var serveCmd = &command{
	name: "serve", args: "SRC... [--symfs DIR] [--source DIR]", short: "show where time went, and why, in a browser",
	reads: symfsHelp,
	long: `It prints the address of a page, by default on 127.0.0.1 at a free port, and serves it until it is
interrupted: procedures by samples, executions, CPI and the likeliest causes of their stalls; the
code of each with its stalls, and its flow graph; causes by procedure, image and recording; how
executed code lies in memory; how far the figures are to be trusted. Below /pprof/ is pprof's own
interface on the same samples: flame graph, top, disassembly, and graph if Graphviz is installed. Its
page of source is backfeed's own, which reads no file that the debug information alone names.

The pages need a browser and nothing else; without scripts all but pprof's works. Who can connect
can read them, so other addresses than those of this machine are for networks that are trusted.
Requests that name another host are refused. Nothing can be changed through the server.

` + sourceHelp + `

--truth holds the counts to exact ones, as the command verify does.`,
	examples: `backfeed serve app.bfr
backfeed serve /var/lib/backfeed --since 1d --source . --http localhost:8080`,
	run: runServe,
}

func runServe(c *cli, args []string) error {
	fs := c.flags()
	opt := c.inputs()
	c.names()
	c.inference(opt)
	address := fs.String("http", "127.0.0.1:0", "listen at `host:port`; port 0 is a free one")
	dirs := fs.StringArray("source", nil, "look up source files below `dir`; may be given several times")
	truth := fs.String("truth", "", "compare with the exact counts in `file`, of callgrind")
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	host, port, err := net.SplitHostPort(*address)
	if err != nil {
		return c.usage(fmt.Errorf("--http: %w", err))
	}
	if host == "" {
		host = "127.0.0.1" // not all addresses of the machine: who means them says 0.0.0.0
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return fmt.Errorf("--http %s: %w", *address, err)
	}
	defer ln.Close()
	src, err := c.inferred(fs.Args(), opt)
	if err != nil {
		return err
	}
	defer src.Close()
	v, err := c.view(src, *truth)
	if err != nil {
		return err
	}
	if v.source, err = source.NewText(*dirs, opt.Symfs); err != nil {
		return err
	}
	if !loopback(ln.Addr()) {
		c.warn("everybody who can connect to %s can read the recording and the code that it is of", ln.Addr())
	}
	pprof, err := v.pprofHandlers()
	if err != nil {
		c.warn("pprof's interface is missing: %v", err)
	}
	return c.serve(ln, newSite(v, host, pprof))
}

// view explains src, and holds it to the truth in a file if one is given.
func (c *cli) view(src *input.Session, path string) (*view, error) {
	c.progress("explaining %d samples", src.Profile.Samples.Used)
	defer c.clearProgress()
	v, err := newView(src, report.Style{Mangled: c.mangled})
	if err != nil || path == "" {
		return v, err
	}
	exact, err := input.File(path, truth.Read)
	if err != nil {
		return nil, err
	}
	return v, v.compare(exact)
}

// loopback reports whether only this machine reaches an address.
func loopback(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}

// Bounds of what is served. Graphviz may take minutes over a large graph; a browser
// opens 6 connections.
const (
	maxBrowsers   = 128 // connections
	answerTimeout = 5 * time.Minute
)

// serve answers requests until a signal comes.
func (c *cli) serve(ln net.Listener, h http.Handler) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	g := listen.NewGuard(ln, maxBrowsers)
	s := g.Server(h, answerTimeout, c.stderr)
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(g) }()
	c.clearProgress()
	fmt.Fprintf(c.stdout, "http://%s/\n", ln.Addr())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return s.Close()
	}
}

// A site is the pages of a view as an HTTP handler.
type site struct {
	*view
	host string // that it was asked to listen at, which requests may name
	mux  *http.ServeMux
}

// newSite makes the site of v; pprof may be nil.
func newSite(v *view, host string, pprof http.Handler) *site {
	s := &site{view: v, host: host, mux: http.NewServeMux()}
	s.mux.HandleFunc("GET /{$}", s.procsPage)
	s.mux.HandleFunc("GET /proc/{id}", s.procPage)
	s.mux.HandleFunc("GET /causes", s.causesPage)
	s.mux.HandleFunc("GET /confidence", s.confidencePage)
	s.mux.HandleFunc("GET /layout", s.layoutPage)
	s.mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	if pprof != nil {
		s.mux.HandleFunc("GET /pprof/source", s.sourcePage)
		s.mux.Handle("GET /pprof/", http.StripPrefix("/pprof", pprof))
	}
	return s
}

// ServeHTTP refuses what another site may have had a browser ask, then answers.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !listen.Refused(w, r, s.host) {
		s.mux.ServeHTTP(w, r)
	}
}

// links lead to all pages.
func (s *site) links(here string) []report.Link {
	links := []report.Link{{Href: "/", Text: "Procedures"}, {Href: "/causes", Text: "Causes"}, {Href: "/confidence", Text: "Confidence"},
		{Href: "/layout", Text: "Layout"}, {Href: "/pprof/flamegraph", Text: "Flame graph"}, {Href: "/pprof/top", Text: "pprof"}}
	for i := range links {
		links[i].Here = links[i].Href == here
	}
	return links
}

// send writes a page.
func (s *site) send(w http.ResponseWriter, here string, p *report.Page, err error) {
	var b bytes.Buffer
	if err == nil {
		p.Links = s.links(here)
		err = p.Write(&b)
	}
	if err != nil {
		http.Error(w, "the page cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", p.Policy()+"; frame-ancestors 'none'")
	w.Write(b.Bytes())
}

// perPage is how many procedures a page lists.
const perPage = 200

func (s *site) procsPage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	order, find := q.Get("sort"), q.Get("find")
	procs := s.listed(order, find)
	from, _ := strconv.Atoi(q.Get("from")) // what is no number is the start
	from = min(max(0, from), max(0, len(procs)-1))
	to := min(len(procs), from+perPage)
	list := &report.ProcList{Heads: report.ProcHeads(), Find: find, Order: order}
	for i, o := range procOrders {
		if o.less != nil {
			list.Heads[i].Href = "/?" + listQuery(o.name, find, 0)
			list.Heads[i].Sorted = o.name == order
		}
	}
	if from > 0 {
		list.Before = "/?" + listQuery(order, find, max(0, from-perPage))
	}
	if to < len(procs) {
		list.After = "/?" + listQuery(order, find, to)
	}
	for _, p := range procs[from:to] {
		row := p.row
		row.Href = "/proc/" + p.id
		list.Rows = append(list.Rows, row)
	}
	list.Caption = fmt.Sprintf("%d to %d of %d procedures with samples", min(from+1, to), to, len(procs))
	page := report.NewPage("Where the time went", s.lead())
	sh := &sheet{page: page}
	sh.add("procedures", "Procedures", list.HTML)
	sh.add("images", "Images", table(s.imageTable(), ""))
	s.send(w, "/", page, sh.err)
}

// listQuery asks for a part of the list.
func listQuery(order, find string, from int) string {
	q := url.Values{}
	if order != "" {
		q.Set("sort", order)
	}
	if find != "" {
		q.Set("find", find)
	}
	if from > 0 {
		q.Set("from", strconv.Itoa(from))
	}
	return q.Encode()
}

func (s *site) procPage(w http.ResponseWriter, r *http.Request) {
	p := s.byID[r.PathValue("id")]
	if p == nil {
		http.Error(w, "no such procedure with samples", http.StatusNotFound)
		return
	}
	page := report.NewPage(p.row.Name, s.lead())
	sh := &sheet{page: page}
	s.addProc(sh, p, "", false)
	s.send(w, "", page, sh.err)
}

// maxSourceProcs is how many procedures sourcePage shows the code of.
const maxSourceProcs = 10

// sourcePage stands for pprof's page of source: the code of the procedures that match a
// pattern by the names of what is inlined in them and of its files, as there.
func (s *site) sourcePage(w http.ResponseWriter, r *http.Request) {
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
		s.addProc(sh, p, p.id, true)
	}
	s.send(w, "", page, sh.err)
}

func (s *site) causesPage(w http.ResponseWriter, _ *http.Request) {
	page := report.NewPage("What the cycles went to", s.lead())
	sh := &sheet{page: page}
	s.addCauses(sh)
	s.addImageCauses(sh)
	s.send(w, "/causes", page, sh.err)
}

func (s *site) confidencePage(w http.ResponseWriter, _ *http.Request) {
	page := report.NewPage("How far the figures are to be trusted", s.lead())
	sh := &sheet{page: page}
	s.addConfidence(sh)
	s.send(w, "/confidence", page, sh.err)
}

func (s *site) layoutPage(w http.ResponseWriter, r *http.Request) {
	i := s.hottestImage()
	if text := r.URL.Query().Get("image"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n >= len(s.images) {
			http.Error(w, "no such image with samples", http.StatusNotFound)
			return
		}
		i = n
	}
	page, err := s.heatMap(i)
	if err == nil && len(s.images) > 1 {
		var others []report.Link
		for k, ip := range s.src.Profile.Images {
			others = append(others, report.Link{Href: "/layout?image=" + strconv.Itoa(k), Text: path.Base(ip.ID.Path), Here: k == i})
		}
		page.More = others
	}
	s.send(w, "/layout", page, err)
}
