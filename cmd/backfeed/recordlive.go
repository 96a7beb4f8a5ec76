package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"backfeed/cmd/internal/report"
	"backfeed/sample"
	"backfeed/sample/collect"
)

// A recordingLine is the progress line of a recording: samples so far, how many a second, what is
// lost, and the time that is left.
type recordingLine struct {
	c     *cli
	start time.Time
	limit time.Duration // 0 is none

	past []seenAt // of the last seconds, what the rate is made of
}

// A seenAt is how many samples there were at a time.
type seenAt struct {
	at      time.Time
	samples uint64
}

// ratedOver is the time that the rate is a mean of.
const ratedOver = 2 * time.Second

// recordingLine starts the line of a recording that begins now. It returns nil, whose methods do
// nothing, where there is no terminal to show it, or where the recorded command has that terminal:
// what it prints would be torn apart.
func (c *cli) recordingLine(limit time.Duration, command bool) *recordingLine {
	if !isTerminal(c.stderr) || command && isTerminal(c.stdout) {
		return nil
	}
	now := time.Now()
	return &recordingLine{c: c, start: now, limit: limit, past: []seenAt{{now, 0}}}
}

// show replaces the line.
func (l *recordingLine) show(p collect.Progress) {
	if l == nil {
		return
	}
	now := time.Now()
	l.past = append(l.past, seenAt{now, p.Samples})
	for len(l.past) > 2 && now.Sub(l.past[1].at) >= ratedOver {
		l.past = l.past[1:]
	}
	l.c.progress("%s", l.text(now, p))
}

func (l *recordingLine) text(now time.Time, p collect.Progress) string {
	parts := []string{fmt.Sprintf("recording: %d samples", p.Samples)}
	if d := now.Sub(l.past[0].at).Seconds(); d > 0.05 {
		parts = append(parts, fmt.Sprintf("%.0f/s", float64(p.Samples-l.past[0].samples)/d))
	}
	if p.Lost > 0 {
		parts = append(parts, fmt.Sprintf("%d lost (%s)", p.Lost, report.Share(p.Lost, p.Samples)))
	}
	gone := now.Sub(l.start)
	if l.limit > 0 {
		parts = append(parts, fmt.Sprintf("%v left of %v", max(0, l.limit-gone).Round(time.Second), l.limit))
	} else {
		parts = append(parts, fmt.Sprintf("%v so far, Ctrl-C ends it", gone.Round(time.Second)))
	}
	return strings.Join(parts, ", ")
}

// every returns how often to look at what there is, where it is otherwise looked at every so often.
func (l *recordingLine) every(d time.Duration) time.Duration {
	if l == nil {
		return d
	}
	return min(d, time.Second)
}

// showSum is show of what has been added up.
func (l *recordingLine) showSum(sum *sample.Recording) {
	if l == nil {
		return
	}
	p := collect.Progress{Samples: sum.Samples()}
	for _, n := range sum.Lost() {
		p.Lost += n
	}
	l.show(p)
}

// waitingLine shows how long a wait still takes, until stop is called.
func (c *cli) waitingLine(what string, limit time.Duration) (stop func()) {
	if !isTerminal(c.stderr) {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	start := time.Now()
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			c.progress("%s: %v left of %v", what, max(0, limit-time.Since(start)).Round(time.Second), limit)
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
		c.clearProgress()
	}
}

// tellWritten names the file that a recording was written to, and what to do with it.
func (c *cli) tellWritten(path string) {
	if path == "-" {
		return
	}
	size := ""
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
		size = fmt.Sprintf(" (%s bytes)", report.Count(float64(st.Size())))
	}
	c.warn("wrote %s%s; next, see where the time went: backfeed prof %s", path, size, shellWord(path))
}

// shellWord quotes s as a word of a shell, where it has to be.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_./:@%+=,-", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
