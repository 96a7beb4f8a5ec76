package record

import (
	"fmt"
	"os"
	"strings"
	"time"

	"backfeed/cmd/internal/report"
	"backfeed/sample"
	"backfeed/sample/collect"
)

// Live says how a recording goes on.
type Live struct {
	Show    bool // a line of progress, once a second
	Notify  report.Notify
	Without func(*collect.Unavailable)     // gets what the kernel refuses of what was asked for
	Maps    string                         // as that of collect.SystemOptions
	Images  func([]sample.ImageID)         // gets what was seen, soon; some again and again. nil is nobody
	Opened  func(sample.ImageID, *os.File) // as that of collect.SystemOptions
}

// A line is the progress line of a recording: samples so far, how many a second, what is
// lost, and the time that is left.
type line struct {
	notify report.Notify
	start  time.Time
	limit  time.Duration // 0 is none

	past []seenAt // of the last seconds, what the rate is made of
}

// A seenAt is how many samples there were at a time.
type seenAt struct {
	at      time.Time
	samples uint64
}

// ratedOver is the time that the rate is a mean of.
const ratedOver = 2 * time.Second

// line starts the line of a recording that begins now. It returns nil, whose methods do
// nothing, where none is to be shown.
func (l Live) line(limit time.Duration) *line {
	if !l.Show {
		return nil
	}
	now := time.Now()
	return &line{notify: l.Notify, start: now, limit: limit, past: []seenAt{{now, 0}}}
}

// show replaces the line.
func (l *line) show(p collect.Progress) {
	if l == nil {
		return
	}
	now := time.Now()
	l.past = append(l.past, seenAt{now, p.Samples})
	for len(l.past) > 2 && now.Sub(l.past[1].at) >= ratedOver {
		l.past = l.past[1:]
	}
	l.notify.Progress("%s", l.text(now, p))
}

func (l *line) text(now time.Time, p collect.Progress) string {
	parts := []string{fmt.Sprintf("recording: %d samples", p.Samples)}
	if d := now.Sub(l.past[0].at).Seconds(); d > 0.05 {
		parts = append(parts, fmt.Sprintf("%.0f/s", float64(p.Samples-l.past[0].samples)/d))
	}
	if p.Lost > 0 {
		parts = append(parts, fmt.Sprintf("%d lost (%s)", p.Lost, report.Share(p.Lost, p.Samples)))
	}
	gone := now.Sub(l.start)
	if l.limit > 0 {
		parts = append(parts, fmt.Sprintf("%v left", max(0, l.limit-gone).Round(time.Second)))
	} else {
		parts = append(parts, fmt.Sprintf("%v so far, Ctrl-C ends it", gone.Round(time.Second)))
	}
	return strings.Join(parts, ", ")
}

// every returns how often to look at what there is, where it is otherwise looked at every so often.
func (l Live) every(d time.Duration) time.Duration {
	if !l.Show && l.Images == nil {
		return d
	}
	return min(d, time.Second)
}

// drained returns what takes in all that was recorded so far, of a recording that begins now.
func (l Live) drained(limit time.Duration) func(sum *sample.Recording) {
	line := l.line(limit)
	return func(sum *sample.Recording) {
		line.showSum(sum)
		if l.Images != nil {
			l.Images(report.MostFirst(sum.Seen()))
		}
	}
}

// showSum is show of what has been added up.
func (l *line) showSum(sum *sample.Recording) {
	if l == nil {
		return
	}
	p := collect.Progress{Samples: sum.Samples()}
	for _, n := range sum.Lost() {
		p.Lost += n
	}
	l.show(p)
}

// waiting shows how long a wait still takes, until stop is called.
func (l Live) waiting(what string, limit time.Duration) (stop func()) {
	if !l.Show {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	start := time.Now()
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			l.Notify.Progress("%s: %v left of %v", what, max(0, limit-time.Since(start)).Round(time.Second), limit)
			select {
			case <-quit:
				return
			case <-tick.C:
			}
		}
	}()
	return func() {
		close(quit)
		<-done
		l.Notify.Done()
	}
}
