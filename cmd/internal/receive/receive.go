package receive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"backfeed/cmd/internal/agent"
	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/listen"
	"backfeed/sample"
	"backfeed/sample/otlp"
	"backfeed/sample/store"
)

// Ports of OTLP.
const (
	DefaultGRPC = "127.0.0.1:4317"
	DefaultHTTP = "127.0.0.1:4318"
)

// DefaultMaxMessage is what a message may have, in bytes, as it is sent and unpacked. A profiler sends some 100 KB, a
// collector's batch some MB.
const DefaultMaxMessage = 16 << 20

const (
	maxConnections = 1024             // of each port; an idle one makes room for a new one
	maxStreams     = 64               // requests at once of a connection
	readTime       = 30 * time.Second // for a request, from its first to its last byte
	answerTime     = time.Minute
	slotTime       = 5 * time.Second // a request waits for a processor; senders give up after 5 to 30 s
	inFlight       = 16              // as many messages of the largest size may be in memory, as they were sent and unpacked
	retryAfter     = 30 * time.Second
	endTime        = 10 * time.Second // for requests that are being answered when the receiver is told to end
	lookEvery      = time.Second      // whether a segment is due
)

// Options are what a receiver is told.
type Options struct {
	Store      string // directory of the store to write to
	GRPC, HTTP string // addresses to listen at; "" is none
	MaxMessage int64  // bytes
	Labels     map[string]string
	Epoch      time.Duration   // what arrived in each is merged
	Flush      time.Duration   // time from one segment to the next
	Retain     store.Retention // zero keeps all
	Metrics    string          // address to show the receiver's figures at; "" is none
	Public     bool            // other machines may read them
	Log        *slog.Logger
}

// A Receiver takes profiles into a store.
type Receiver struct {
	opt     Options
	log     *slog.Logger
	into    store.Store
	decoder otlp.Decoder
	page    metrics
	serving io.Closer // of metrics; nil is none
	servers []*http.Server
	GRPC    net.Addr // that it listens at; nil is none
	HTTP    net.Addr

	most int           // places in memory
	end  time.Duration // for requests that are being answered when it is told to end

	slots chan struct{} // who has one decodes
	held  atomic.Int64  // bytes of messages in memory

	mu       sync.Mutex
	gathered *sample.Recording // since from
	places   int               // of gathered, at most
	from     time.Time
	stuck    error     // the store took no segment, the last time
	ended    bool      // nothing more is gathered
	refusals int       // requests refused since told
	told     time.Time // when the log said how many were

	writing sync.Mutex // one segment at a time
	chores  sync.WaitGroup
	tidying atomic.Bool
}

var errEnding = errors.New("the receiver ends")

// Open listens, and begins to take profiles.
func Open(opt Options) (_ *Receiver, err error) {
	r := &Receiver{opt: opt, log: opt.Log, gathered: &sample.Recording{}, from: time.Now(), most: agent.MaxGathered, end: endTime, slots: make(chan struct{}, runtime.GOMAXPROCS(0))}
	r.page.init()
	defer func() {
		if err != nil {
			r.release()
		}
	}()
	if opt.GRPC == "" && opt.HTTP == "" {
		return nil, fail.Errorf(fail.Usage, "nothing to listen at: want --grpc or --http")
	}
	if r.into, err = store.Create(opt.Store, store.Options{Warn: func(err error) {
		r.log.Warn("part of the store is not used; backfeed store fsck says what can be repaired", "error", err)
	}}); err != nil {
		return nil, err
	}
	if opt.Metrics != "" {
		l, err := listen.Metrics(opt.Metrics, opt.Public, &r.page, r.log)
		if err != nil {
			return nil, err
		}
		r.serving = l
		r.log.Info("metrics are served", "url", "http://"+l.Addr().String()+"/metrics")
	}
	if r.GRPC, err = r.serve("grpc", opt.GRPC, r.grpc()); err != nil {
		return nil, err
	}
	if r.HTTP, err = r.serve("http", opt.HTTP, r.http()); err != nil {
		return nil, err
	}
	return r, nil
}

// serve listens at an address of the flag with that name.
func (r *Receiver) serve(flag, address string, h http.Handler) (net.Addr, error) {
	if address == "" {
		return nil, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fail.Errorf(fail.Usage, "--%s %s: want HOST:PORT, such as %s or 0.0.0.0:4317", flag, address, DefaultGRPC)
	}
	if host == "" {
		host = "127.0.0.1" // not all addresses of the machine: who means them says 0.0.0.0
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("--%s %s: %w", flag, address, err)
	}
	if a, ok := l.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		r.log.Warn("everybody who can connect can add samples to the store, which builds are made by", "address", l.Addr().String())
	}
	g := listen.NewGuard(l, maxConnections)
	srv := g.Server(h, answerTime, io.Discard)
	srv.ReadTimeout = readTime
	srv.Protocols = &http.Protocols{}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	srv.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: 256 << 10}
	r.servers = append(r.servers, srv)
	r.log.Info("profiles are received", "by", flag, "address", l.Addr().String())
	go func() {
		if err := srv.Serve(g); !errors.Is(err, http.ErrServerClosed) {
			r.log.Error("profiles are no longer received; a restart brings that back", "by", flag, "error", err)
		}
	}()
	return l.Addr(), nil
}

// Run works until a signal comes.
func (r *Receiver) Run(signals <-chan os.Signal) os.Signal {
	return agent.Until(signals, min(lookEvery, r.opt.Flush), r.step)
}

// step does what is due at the time now.
func (r *Receiver) step(now time.Time) {
	r.mu.Lock()
	ended := sample.EpochAt(r.from, r.opt.Epoch) != sample.EpochAt(now, r.opt.Epoch)
	due := ended || now.Sub(r.from) >= r.opt.Flush || r.stuck != nil
	r.mu.Unlock()
	if due {
		r.write(now)
	}
	if ended && r.tidying.CompareAndSwap(false, true) {
		r.chores.Go(func() {
			defer r.tidying.Store(false)
			agent.Tidy(r.into, r.opt.Retain, now, r.log)
			if st, err := r.into.Stats(); err == nil {
				r.page.size(st.Bytes + st.CopyBytes)
			}
		})
	}
}

// refuse has the log know of a request that is refused for good: of the first at once, of the others how many they are with
// one that comes a --flush later, for a sender that does it wrong does so with each.
func (r *Receiver) refuse(by string, req *http.Request, code int, why *refusal) {
	r.log.Debug("refused", "by", by, "from", req.RemoteAddr, "code", code, "error", why.err)
	if why.grpc == codeUnavailable {
		return // it is sent again
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusals++
	if now := time.Now(); r.told.IsZero() || now.Sub(r.told) >= r.opt.Flush {
		r.log.Warn("requests are refused: what they bring is not stored", "requests", r.refusals, "by", by, "from", req.RemoteAddr, "code", code, "error", why.err)
		r.refusals, r.told = 0, now
	}
}

// gather counts what was received. From here on, it is ours to keep.
func (r *Receiver) gather(rec *sample.Recording) error {
	places := agent.Places(rec)
	r.mu.Lock()
	full := r.places > 0 && r.places+places > r.most
	stuck := r.stuck
	r.mu.Unlock()
	if full && stuck == nil {
		r.write(time.Now()) // while the sender waits
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ended:
		return errEnding
	case r.stuck != nil:
		return fmt.Errorf("the store takes nothing: %w", r.stuck)
	}
	r.gathered.AddAll(rec)
	r.places += places
	r.page.gathered(r.places)
	return nil
}

// write makes a segment of what is gathered. What the store does not take, for
// want of space, stays for the next time, and nothing else is taken until then.
func (r *Receiver) write(now time.Time) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	rec, places, from := r.gathered, r.places, r.from
	r.gathered, r.places, r.from = &sample.Recording{}, 0, now
	r.mu.Unlock()
	n := rec.Samples()
	if n == 0 {
		r.mu.Lock()
		r.stuck = nil
		r.mu.Unlock()
		return nil
	}
	err := r.into.Put(sample.EpochAt(from, r.opt.Epoch), rec, r.opt.Labels)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stuck = err; err != nil {
		r.log.Error("segment not written; its samples stay in memory, and nothing else is received until it is", "error", err, "samples", n)
		rec.AddAll(r.gathered) // what came meanwhile
		r.gathered, r.places, r.from = rec, places+r.places, from
		r.page.failed()
		return err
	}
	r.page.wrote(n, now, r.places)
	r.log.Info("segment written", "samples", n, "images", len(rec.ByImage()))
	return nil
}

// Close answers what is being received, and writes what is left.
func (r *Receiver) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), r.end)
	defer cancel()
	for _, s := range r.servers {
		if s.Shutdown(ctx) != nil {
			s.Close()
		}
	}
	r.mu.Lock()
	r.ended = true // what is still on its way is not acknowledged
	if r.refusals > 0 {
		r.log.Warn("more requests were refused", "requests", r.refusals)
	}
	r.mu.Unlock()
	err := r.write(time.Now())
	r.chores.Wait()
	r.release()
	if err != nil {
		return fmt.Errorf("%d samples are lost: %w", r.gathered.Samples(), err)
	}
	return nil
}

// release lets go of all but samples.
func (r *Receiver) release() {
	for _, s := range r.servers {
		s.Close()
	}
	if r.serving != nil {
		r.serving.Close()
	}
}
