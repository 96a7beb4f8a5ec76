package calibrate

import (
	"debug/elf"
	"fmt"
	"math"

	"strings"
	"time"

	"backfeed/cmd/internal/report"
	"backfeed/sample"
	"backfeed/sample/collect"
)

// Drained takes in what was sampled since the last time, and sets the rates of walks and windows for the time to come.
func (k *Calibrator) Drained(rec *sample.Recording) {
	if c := Timed(rec); c != nil && c.Event.Unit == "ns" {
		k.used.Add(int64(c.Weight))
	}
	if k.sys != nil {
		for _, m := range k.sys.Moments() {
			k.run.Sampled(m)
		}
	}
	k.foresee(rec)
	k.share()
}

// share sets these rates by what was used and spent until now.
func (k *Calibrator) share() {
	k.budget.ends(k.kernelWalks().Walks)
	if k.prober.Load() != nil {
		k.budget.wants(k.toWant())
	}
	k.budget.saveFor(k.aim())
	k.budget.keeps(k.keeps())
	r := k.budget.step(time.Since(k.began), time.Duration(k.used.Load()), k.spending(), k.parts())
	k.rate.Store(math.Float64bits(r.perSecond))
	k.pace.Store(math.Float64bits(r.long))
	if k.walker != nil {
		k.walker.SetShare(r.walks) // what cannot be set is as it was
	}
	k.long.endIfDear(k.budget.share*float64(k.used.Load()), !k.walkless.Load())
}

// codeSize is how many bytes of a file are code; 0 if that is not known.
func codeSize(path string) (n uint64) {
	f, err := sample.OpenRegular(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	e, err := sample.ReadELF(f)
	if err != nil {
		return 0
	}
	for _, s := range e.Segments {
		if s.Type == elf.PT_LOAD && s.Flags&elf.PF_X != 0 {
			n += s.Filesz
		}
	}
	return n
}

// May reports whether there is room for another choice, and use. One that begins something need not be saved for as others are: the sooner
// it begins, the more it tells, and the fewer walks there are to go through.
func (k *Calibrator) May() bool {
	return k.opt.Dry || k.budget.mayChoose() && !k.needless() || k.budget.mayBegin() && k.wants()
}

// wants reports whether there is something that a choice would begin, now that there is room for it.
func (k *Calibrator) wants() bool {
	switch cost, choice := k.aim(), k.budget.nextCost(); cost {
	case 0:
		return false
	case walkerCost:
		return k.budget.mayWalk(cost + choice)
	default:
		return k.budget.mayOnce(cost + choice)
	}
}

// spending is what it took so far.
func (k *Calibrator) spending() (s spending) {
	s.Own = time.Duration(k.choices.Load())
	if k.opt.Whole {
		s.Own = collect.ProcessorTime() - k.opt.Before - k.sys.Used()
	}
	s.Prober = k.prober.Load().Used()
	s.Walks = k.kernelWalks().Time
	_, s.Windows, _ = k.run.Spent()
	if k.long != nil && k.long.walker != nil {
		t := k.long.walker.Totals()
		s.Stood, s.ahead = t.Waited, t.Time
		if k.long.own != nil {
			s.traced = max(0, k.long.own.Used()-t.Time)
		}
	}
	return s
}

// processors is how many what is sampled has used so far, in the mean.
func (k *Calibrator) processors() float64 {
	return float64(k.used.Load()) / float64(max(time.Since(k.began), time.Second))
}

// tellCost says what all of it took, and by what part.
func (k *Calibrator) tellCost() {
	s := k.spending()
	s.Own = max(0, s.Own-k.budget.reading)
	used := time.Duration(k.used.Load())
	var parts []string
	for _, p := range []struct {
		what string
		took time.Duration
	}{
		{"backfeed itself", s.Own}, {"its prober", s.Prober},
		{"the program's walks", s.Walks}, {"its windows", s.Windows}, {"its stops", s.Stood},
	} {
		if p.took > 0 {
			parts = append(parts, fmt.Sprintf("%s %v", p.what, p.took.Round(time.Millisecond)))
		}
	}
	k.opt.Notify.Warn("calibration took %v in all, of %s: %s", s.all().Round(time.Millisecond), shareOf(s.all(), used), strings.Join(parts, ", "))
	if used < leastUsed {
		return // that nothing ran is said elsewhere
	}
	if k.budget.choices == 0 || s.Walks+s.Windows+s.Stood == 0 {
		frequency := 0
		if k.opt.Alone != nil {
			frequency = k.opt.Alone.Frequency
		}
		k.opt.Notify.Warn("the time was too short for more than that: %s", k.budget.lacks(s.traced, frequency))
	} else if n := k.kernelWalks().Walks + k.long.count(); n > 0 && n < fewWalks && s.Windows == 0 {
		k.opt.Notify.Warn("%s make counts little surer: %s", report.Plural(int(n), "walk"), k.budget.more(float64(fewWalks)/float64(n)))
	}
}

// leastUsed is as little processor time of a program as is told from none.
const leastUsed = time.Millisecond

// shareOf says what part of the program's processor time took is, if it had any.
func shareOf(took, used time.Duration) string {
	if used < leastUsed {
		return "none of the program's processor time"
	}
	return fmt.Sprintf("%v of processor time (%.2f%%)", used.Round(time.Millisecond), 100*took.Seconds()/used.Seconds())
}

// fewWalks is how many walks tell clearly more than samples do: five hundred raised block overlap of SQLite from 0.68 to 0.81
// (`backfeed help calibrate`), where some tens leave most branches unseen.
const fewWalks = 300
