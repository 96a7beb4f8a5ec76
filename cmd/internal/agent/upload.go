package agent

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"backfeed/sample/store"
)

const (
	// mostSpread bounds the time over which machines spread what they send at the end of an epoch; it is a quarter of
	// the epoch where that is less.
	mostSpread = 15 * time.Minute
	// firstWait is how long sending is put off after a failure, about; it doubles up to longestWait.
	firstWait   = 10 * time.Second
	longestWait = 10 * time.Minute
	// defaultSpool bounds what waits to be sent, in bytes, where nothing else was asked for.
	defaultSpool = 1 << 30
)

// An uploader sends what an agent's own store has closed to a bucket, and keeps it until it is there.
type uploader struct {
	spool  *store.Dir
	bucket *store.Bucket
	log    *slog.Logger
	spread time.Duration // over which the end of an epoch is sent
	limit  int64         // bytes that may wait

	wake chan struct{} // there is something to send
	idle sync.WaitGroup
	work context.Context
	end  context.CancelFunc

	mu  sync.Mutex
	now uploads

	hold    sync.Mutex // while a segment is taken to be sent, or dropped
	sending string     // the name of that which is sent; "" is none
}

// uploads are what an uploader tells of itself.
type uploads struct {
	segments, bytes, images uint64 // sent
	failures                uint64 // of tries
	dropped, droppedSamples uint64 // segments given up, and what was in them
	waiting                 int    // segments
	waitingBytes            int64
	oldest, last            time.Time // start of the oldest epoch that waits, and when something arrived; zero is none
}

// newUploader begins to send.
func newUploader(spool *store.Dir, bucket *store.Bucket, epoch time.Duration, limit int64, log *slog.Logger) *uploader {
	if limit <= 0 {
		limit = defaultSpool
	}
	u := &uploader{spool: spool, bucket: bucket, log: log, spread: min(epoch/4, mostSpread), limit: limit, wake: make(chan struct{}, 1)}
	u.work, u.end = context.WithCancel(context.Background())
	u.look()
	u.idle.Go(u.run)
	return u
}

// status returns what has been sent, and what waits.
func (u *uploader) status() uploads {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.now
}

func (u *uploader) note(f func(*uploads)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f(&u.now)
}

// ended moves the segments of epochs that ended by then, from where they are sent, and drops the oldest where there
// is no room.
func (u *uploader) ended(by time.Time) error {
	if _, err := u.spool.Ship(by); err != nil {
		return err
	}
	u.bound()
	select {
	case u.wake <- struct{}{}:
	default:
	}
	return nil
}

// bound drops the oldest segments while there are more bytes than may wait, but for one that is being sent.
func (u *uploader) bound() {
	all := u.look()
	var sum int64
	for _, p := range all {
		sum += p.Bytes
	}
	for _, p := range all {
		if sum <= u.limit {
			break
		}
		u.hold.Lock()
		if p.Name != u.sending {
			sum -= p.Bytes
			u.drop(p, "the bucket took none for too long, and --retain-size has no more room")
		}
		u.hold.Unlock()
	}
	u.look()
}

// drop removes a segment that was not sent.
func (u *uploader) drop(p store.Parcel, why string) {
	_, samples, err := p.Open()
	if errors.Is(err, fs.ErrNotExist) { // sent meanwhile
		return
	}
	if err := p.Remove(); err != nil {
		u.log.Error("a segment could not be removed", "error", err)
		return
	}
	u.log.Error("a segment was dropped before it was sent: "+why, "epoch", p.Epoch.String(), "samples", samples, "bytes", p.Bytes)
	u.note(func(s *uploads) { s.dropped++; s.droppedSamples += samples })
}

// look lists what waits.
func (u *uploader) look() []store.Parcel {
	all, err := u.spool.Outbox()
	if err != nil {
		u.log.Error("what is to be sent could not be listed", "error", err)
	}
	u.note(func(s *uploads) {
		s.waiting, s.waitingBytes, s.oldest = len(all), 0, time.Time{}
		for i, p := range all {
			if i == 0 {
				s.oldest = p.Epoch.From()
			}
			s.waitingBytes += p.Bytes
		}
	})
	return all
}

// run sends until the work ends. All machines end an epoch at the same time: each waits for a time of its own.
func (u *uploader) run() {
	wait := firstWait
	for {
		select {
		case <-u.work.Done():
			return
		case <-u.wake:
		case <-time.After(longestWait):
		}
		if !u.pause(rand.N(u.spread + 1)) {
			return
		}
		for {
			err := u.send(u.work)
			if err == nil {
				wait = firstWait
				break
			}
			if u.work.Err() != nil {
				return
			}
			s := u.status()
			u.log.Warn("not sent; it is kept and tried again", "error", err, "segments", s.waiting, "bytes", s.waitingBytes)
			u.note(func(s *uploads) { s.failures++ })
			if !u.pause(wait/2 + rand.N(wait)) {
				return
			}
			wait = min(2*wait, longestWait)
		}
	}
}

// pause waits, and reports whether the work goes on.
func (u *uploader) pause(d time.Duration) bool {
	select {
	case <-u.work.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// send sends all that waits, the oldest first, and then copies of images.
func (u *uploader) send(ctx context.Context) error {
	defer u.take(store.Parcel{})
	for _, p := range u.look() {
		data, err := u.take(p)
		switch {
		case errors.Is(err, fs.ErrNotExist): // dropped meanwhile
			continue
		case errors.Is(err, store.ErrFormat), errors.Is(err, store.ErrTorn):
			u.drop(p, err.Error())
			continue
		case err != nil:
			return err
		}
		if err := u.bucket.PutSegment(ctx, data); err != nil {
			return err
		}
		if err := p.Remove(); err != nil { // it is sent again, which changes nothing
			return err
		}
		u.note(func(s *uploads) { s.segments++; s.bytes += uint64(p.Bytes); s.last = time.Now() })
	}
	u.look()
	return u.sendCopies(ctx)
}

// take opens a segment to send it: until the next is taken, it is not dropped. The zero one is none.
func (u *uploader) take(p store.Parcel) (data []byte, err error) {
	u.hold.Lock()
	defer u.hold.Unlock()
	if u.sending = p.Name; p.Name != "" {
		data, _, err = p.Open()
	}
	return data, err
}

// sendCopies sends the copies of images that the bucket lacks.
func (u *uploader) sendCopies(ctx context.Context) error {
	copies, err := u.spool.Copies()
	if err != nil {
		return err
	}
	for _, c := range copies {
		f, err := os.Open(c.Path)
		if err != nil {
			continue
		}
		err = u.bucket.KeepImage(ctx, c.ID, f, c.Kind)
		f.Close()
		if err != nil {
			return err
		}
		if err := os.Remove(c.Path); err != nil {
			return err
		}
		u.note(func(s *uploads) { s.images++ })
	}
	return nil
}

// close ships all that there is, and sends what can be sent until ctx ends. The rest is sent by the next agent.
func (u *uploader) close(ctx context.Context) {
	u.end()
	u.idle.Wait()
	if err := u.ended(time.Time{}); err != nil {
		u.log.Error("what was recorded last stays in the spool", "error", err)
	}
	if err := u.send(ctx); err != nil {
		s := u.status()
		u.log.Warn("not all was sent; the next agent with this spool does", "error", err, "segments", s.waiting)
	}
}
