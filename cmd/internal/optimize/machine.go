package optimize

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"backfeed/cmd/internal/report"
)

// tick is what /proc/stat counts in: USER_HZ is 100 on all that Linux runs on.
const tick = time.Second / 100

// A load is what all processors did since the machine began: the line "cpu" of /proc/stat, see proc(5).
type load struct {
	idle, steal, all time.Duration
}

// loadNow returns the zero load where it is not known.
func loadNow() load {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return load{}
	}
	l, err := parseLoad(string(text))
	if err != nil {
		return load{}
	}
	return l
}

// parseLoad reads the first line: user, nice, system, idle, iowait, irq, softirq and steal. What guests took is in user, too.
func parseLoad(text string) (l load, err error) {
	line, _, _ := strings.Cut(text, "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return load{}, errors.New("/proc/stat: line 1: want cpu and 8 times")
	}
	for i, word := range f[1:9] {
		n, err := strconv.ParseUint(word, 10, 36)
		if err != nil {
			return load{}, fmt.Errorf("/proc/stat: line 1: time %d: %w", i+1, err)
		}
		d := time.Duration(n) * tick
		l.all += d
		switch i {
		case 3, 4:
			l.idle += d
		case 7:
			l.steal = d
		}
	}
	return l, nil
}

// since says what the machine did from l to now, of which own is what the measured programs took; nil where that is not known.
func (l load) since(now load, own time.Duration) *report.OptimizeMachine {
	all := (now.all - l.all).Seconds()
	if l.all == 0 || !(all > 0) {
		return nil
	}
	idle, steal := (now.idle - l.idle).Seconds(), (now.steal - l.steal).Seconds()
	m := &report.OptimizeMachine{Own: own.Seconds() / all, Idle: idle / all, Steal: steal / all}
	m.Others = max(0, 1-m.Own-m.Idle-m.Steal)
	return m
}
