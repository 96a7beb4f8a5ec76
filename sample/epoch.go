package sample

import "time"

// An Epoch is a stretch of time whose counts are merged, kept and dropped
// together. It is a name for counts rather than a measurement: a clock that is
// set puts samples into another epoch and loses none.
type Epoch struct {
	Start  int64 // seconds since 1970, UTC
	Length int64 // seconds
}

// EpochAt returns the epoch of that length that t lies in. Epochs of one length
// follow each other without a gap, from 1970 on, on all machines at the same
// time.
func EpochAt(t time.Time, length time.Duration) Epoch {
	n := max(int64(length/time.Second), 1)
	s := t.Unix() % n
	if s < 0 {
		s += n
	}
	return Epoch{Start: t.Unix() - s, Length: n}
}

// From is when the epoch begins.
func (e Epoch) From() time.Time { return time.Unix(e.Start, 0).UTC() }

// To is when the next one begins.
func (e Epoch) To() time.Time { return time.Unix(e.Start+e.Length, 0).UTC() }

// String returns the start and the length, as in "20261120T160000Z+1h0m0s".
func (e Epoch) String() string {
	return e.From().Format("20060102T150405Z") + "+" + (time.Duration(e.Length) * time.Second).String()
}
