package collect

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"backfeed/sample"
)

// An OwnSampler samples processes as Record does, and what it sampled can be taken out meanwhile: what a System is to who
// may load programs into the kernel, it is to others.
type OwnSampler struct {
	mu    sync.Mutex
	rec   sample.Recording // not drained yet
	taken time.Time
	stats *Stats
	used  atomic.Int64 // by a tracer, in ns

	cancel context.CancelFunc
	begun  chan struct{} // closed when processes are sampled
	once   sync.Once
	ended  chan struct{} // closed when they are no more
	err    error         // of the end
}

// takeEvery is how often samples are made ready to be drained.
const takeEvery = 500 * time.Millisecond

// OpenOwn begins to sample the processes of opt by the clock of the processor. Processes begin their first instruction after
// that, if they are held.
func OpenOwn(opt Options) (*OwnSampler, error) {
	opt.Events = []string{cpuClock}
	return openOwn(func(ctx context.Context, s *OwnSampler) (*sample.Recording, *Stats, error) {
		opt.own = s
		return Record(ctx, opt)
	})
}

// openOwn runs record, which calls attached and take, until Close.
func openOwn(record func(context.Context, *OwnSampler) (*sample.Recording, *Stats, error)) (*OwnSampler, error) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &OwnSampler{taken: time.Now(), cancel: cancel, begun: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		rec, stats, err := record(ctx, s)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err = err; err == nil {
			s.rec.AddAll(rec)
			s.stats = stats
		}
	}()
	select {
	case <-s.begun:
	case <-s.ended:
		if s.err != nil {
			cancel()
			return nil, s.err
		}
	}
	return s, nil
}

// attached says that processes are sampled. Of no sampler, it does nothing, like take.
func (s *OwnSampler) attached() {
	if s != nil {
		s.once.Do(func() { close(s.begun) })
	}
}

// take takes what t has so far, which begins anew.
func (s *OwnSampler) take(t *tally) {
	if s == nil || time.Since(s.taken) < takeEvery {
		return
	}
	s.taken = time.Now()
	t.clock.weigh(t.counts)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rec.AddAll(&sample.Recording{Counts: []*sample.Counts{t.counts}})
	t.counts = sample.NewCounts(t.counts.CPU, t.counts.Event)
}

// worked says how much processor time a tracer used so far.
func (s *OwnSampler) worked(used time.Duration) {
	if s != nil {
		s.used.Store(int64(used))
	}
}

// Used is the processor time of the thread that traces, where threads are stopped for samples or walks.
func (s *OwnSampler) Used() time.Duration { return time.Duration(s.used.Load()) }

// Drain returns what was sampled since the last Drain.
func (s *OwnSampler) Drain() (*sample.Recording, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.rec
	s.rec = sample.Recording{}
	return sample.Merge(&rec), nil
}

// Close ends sampling. What was sampled until then can still be drained.
func (s *OwnSampler) Close() error {
	s.cancel()
	<-s.ended
	if errors.Is(s.err, context.Canceled) {
		return nil
	}
	return s.err
}

// Stats say how sampling went, once it was closed.
func (s *OwnSampler) Stats() *Stats { return s.stats }
