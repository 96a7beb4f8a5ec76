package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/listen"
	"backfeed/cmd/internal/report"
	"backfeed/cmd/internal/web"
	"backfeed/infer/source"
)

var serveCmd = &command{
	name: "serve", args: "SRC... [--against SRC] [--symfs DIR] [--source DIR]", short: "show where time went, and why, in a browser",
	reads: symfsHelp,
	long: `It prints the address of a page, by default on 127.0.0.1 at a free port, and serves it until it is
interrupted. While it still reads, the page says what is being done, and asks again by itself until all
is there; scripts get status 503 and Retry-After. Then: what was recorded and matters most of it; procedures by lost cycles, executions, CPI and the
likeliest causes of their stalls, to filter as one types; the
hottest blocks of each, its callers and callees, its flow graph, its source and code with their stalls;
the largest stalls with their likeliest causes, each with its code; what a build would do with the
recording, what that is worth, and the commands that make its files; how executed code lies in
memory; a flame graph of call stacks, if they were recorded; how far the figures are to be trusted.
Below /pprof/ is pprof's own interface on the same samples: flame graph, top, disassembly, and graph
if Graphviz is installed. Its page of source is backfeed's own, which reads no file that the debug
information alone names.

The pages need a browser and nothing else; without scripts all but pprof's works. Who can connect
can read them, so other addresses than those of this machine are for networks that are trusted.
Requests that name another host are refused. Nothing can be changed through the server.

` + sourceHelp + `

--against names an older recording, of the same build or another: pages then show what differs, as the
command diff does of two, the blocks of a procedure before and now beside each other, and, if both have
stacks, a flame graph coloured by the change of each frame. Older images are looked up below --symfs, too. Flags that choose from stores choose from both.

Of a store, a page more has its epochs, hosts and labels, and what changed when.

--truth holds the counts to exact ones, as the command verify does.`,
	examples: `backfeed serve app.bfr
backfeed serve new.bfr --against old.bfr --symfs builds
backfeed serve /var/lib/backfeed --since 1d --source . --http localhost:8080`,
	run: runServe,
}

func runServe(c *cli, args []string) error {
	fs := c.flags()
	opt := c.inputs()
	c.names()
	c.inference(opt)
	opt.StackDepth = deepStack // of the flame graph
	address := fs.String("http", "127.0.0.1:0", "listen at `host:port`; port 0 is a free one")
	dirs := fs.StringArray("source", nil, "look up source files below `dir`; may be given several times")
	against := fs.StringArray("against", nil, "compare with the older recording `SRC`; may be given several times")
	truths := truthFiles(fs)
	if err := fs.Parse(args); err != nil || fs.NArg() == 0 {
		return c.usage(err)
	}
	host, port, err := net.SplitHostPort(*address)
	if err != nil {
		return c.usage(fmt.Errorf("--http %s: want HOST:PORT, such as 127.0.0.1:8080, [::1]:8080 or :0", *address))
	}
	if host == "" {
		host = "127.0.0.1" // not all addresses of the machine: who means them says 0.0.0.0
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return fmt.Errorf("--http %s: %w", *address, err)
	}
	defer ln.Close()
	if err := c.selects(fs.Args()); err != nil {
		return err
	}
	if !loopback(ln.Addr()) {
		c.warn("everybody who can connect to %s can read the recording and the code that it is of", ln.Addr())
	}
	loading := web.NewLoading(host)
	c.told = loading.Say
	return c.serve(ln, loading, func() error { // what is opened stays so until the process ends
		src, old, err := c.inferredAgainst(fs.Args(), *against, opt)
		if err != nil {
			return err
		}
		v, err := c.view(src, fs.Args(), *truths)
		if err != nil {
			return err
		}
		if old != nil {
			v.Against(old)
		}
		text, err := source.NewText(*dirs, input.SymfsDirs(opt.Symfs))
		if err != nil {
			return err
		}
		v.SetSource(text)
		pprof, err := v.Pprof()
		if err != nil {
			c.warn("pprof's interface is missing, the other pages are there: %v", err)
		}
		loading.Ready(web.NewSite(v, host, pprof))
		return nil
	})
}

// viewGCPercent is gcPercent while all procedures are explained, of which little is kept.
// testdata/programs/pages.sh measures what it saves on gcc's cc1.
const viewGCPercent = 50

// view explains src, which was read from files, and holds it to the truth in others if any are given.
func (c *cli) view(src *input.Session, files, truths []string) (*web.View, error) {
	c.progress("explaining %d samples", src.Profile.Samples.Used)
	defer c.clearProgress()
	boundGarbage(viewGCPercent) // of a server from here on: most of its memory stays
	v, err := web.NewView(src, report.Style{Mangled: c.mangled})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range input.Names(files) { // an address may hold a secret
		names = append(names, filepath.Base(name))
	}
	v.SetFiles(names)
	if len(truths) == 0 {
		return v, nil
	}
	exact, err := readTruth(truths)
	if err != nil {
		return nil, err
	}
	return v, v.Compare(exact)
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

	announced = 300 * time.Millisecond // until the address is printed, if all is not there before: what cannot be read at all has none
)

// serve answers requests, from before load is run, until a signal comes or load fails.
func (c *cli) serve(ln net.Listener, h http.Handler, load func() error) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	g := listen.NewGuard(ln, maxBrowsers)
	s := g.Server(h, answerTimeout, c.stderr)
	failed, loaded := make(chan error, 1), make(chan error, 1)
	go func() { failed <- s.Serve(g) }()
	go func() {
		defer func() { // main does so for its own goroutine
			if p := recover(); p != nil {
				loaded <- fmt.Errorf("internal error: %v\n%s", p, debug.Stack())
			}
		}()
		loaded <- load()
	}()
	soon := time.After(announced)
	announce := func() {
		if soon != nil {
			c.clearProgress()
			fmt.Fprintf(c.stdout, "http://%s/\n", ln.Addr())
			soon = nil
		}
	}
	for {
		select {
		case <-soon:
			announce()
		case err := <-failed:
			return err
		case err := <-loaded:
			c.clearProgress()
			if err != nil {
				s.Close()
				return err
			}
			announce()
			loaded = nil // which nothing more comes from
		case <-ctx.Done(): // while it loads, too
			return s.Close()
		}
	}
}
