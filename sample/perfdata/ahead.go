package perfdata

import (
	"errors"
)

// Reading and decompressing go on while records are decoded: by batches, of which
// there are a few. Records are decoded in the order in which they were cut, so what
// is wrong with one is found as if each was decoded before the next was read.
const (
	batchBytes   = 256 << 10 // of bodies, which are at most 64 KB each
	batchRecords = 4096
	batches      = 4
)

// A batch is a number of records, with bodies of its own.
type batch struct {
	bodies  []byte
	records []cut
}

// A cut is a record of a batch.
type cut struct {
	record
	inside *around // that it came out of; nil if it was not compressed
}

// An ahead cuts records off a stream in a goroutine of its own.
type ahead struct {
	full chan *batch
	free chan *batch
	stop chan struct{} // closed when no more is asked for
	fill *batch
	err  error // why full was closed; io.EOF at the end
}

// readAhead is readAll by two goroutines. The second has ended when it returns: it
// waits for a reader that has nothing yet.
func (r *reader) readAhead(s *stream) error {
	a := &ahead{full: make(chan *batch, batches), free: make(chan *batch, batches), stop: make(chan struct{})}
	go func() {
		defer close(a.full)
		a.err = s.all(a.put)
		a.send()
	}()
	defer func() {
		close(a.stop)
		for range a.full {
		}
	}()
	for b := range a.full {
		for i := range b.records {
			rec := &b.records[i]
			if err := r.record(rec.record, rec.inside); err != nil {
				return s.blame(rec.inside, err)
			}
		}
		select {
		case a.free <- b:
		default:
		}
	}
	return a.err
}

// put is called for each record.
func (a *ahead) put(rec record, inside *around) error {
	if a.fill != nil && (len(a.fill.bodies)+len(rec.body) > batchBytes || len(a.fill.records) == batchRecords) {
		if err := a.send(); err != nil {
			return err
		}
	}
	if a.fill == nil {
		select {
		case a.fill = <-a.free:
			a.fill.bodies, a.fill.records = a.fill.bodies[:0], a.fill.records[:0]
		default:
			a.fill = &batch{}
		}
	}
	b := a.fill
	at := len(b.bodies)
	b.bodies = append(b.bodies, rec.body...)
	rec.body = b.bodies[at:len(b.bodies):len(b.bodies)]
	b.records = append(b.records, cut{rec, inside})
	return nil
}

// errStopped says that no more is asked for.
var errStopped = errors.New("stopped")

// send hands over what was put.
func (a *ahead) send() error {
	if a.fill == nil {
		return nil
	}
	select {
	case a.full <- a.fill:
		a.fill = nil
		return nil
	case <-a.stop:
		return errStopped
	}
}
