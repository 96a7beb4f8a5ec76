package calibrate

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// A recorded is a made-up recording that a budget is kept in, second by second.
type recorded struct {
	share  float64
	length time.Duration // that the budget is told; 0 is none
	lasts  int           // seconds
	busy   float64       // processors that the program uses
	open   time.Duration // what the start takes
	beside time.Duration // what this process takes in a second
	traced time.Duration // what the tracer of long walks takes in a second, until there are walks in the kernel
	first  time.Duration // what the first choice takes
	choice time.Duration // what others take
	walker time.Duration // what it takes to have walks in the kernel
	opens  time.Duration // what the first choice is expected to take for the program
	excess float64       // what walks and windows take of what they are to take
}

// An outcome is what came of it.
type outcome struct {
	spent, used time.Duration
	worst       float64   // of what was spent of what might be, once so much was that a choice could be made
	choices     []float64 // when, in seconds
	walking     int       // since when there are walks in the kernel; 0 is never
	walks       time.Duration
	reading     time.Duration // of samples, which is not in spent
}

func (r recorded) play() (o outcome) {
	b := budget{share: r.share, length: r.length, aim: walkerCost, toOpen: r.opens}
	rng := rand.New(rand.NewPCG(1, 2))
	s := spending{Own: r.open}
	parts := rates{}
	next := time.Duration(0)
	for at := 1; at <= r.lasts; at++ {
		now := time.Duration(at) * time.Second
		o.used += time.Duration(r.busy * 1e9)
		s.Own += r.beside
		if parts.walks == 0 {
			s.Own, s.traced = s.Own+r.traced, s.traced+r.traced
		}
		got := b.rates
		took := func(rate float64) time.Duration {
			return time.Duration(rate * r.busy * r.excess * (0.5 + rng.Float64()) * 1e9)
		}
		s.Walks += took(got.walks)
		long := took(got.long)
		s.Own, s.ahead = s.Own+long, s.ahead+long
		s.Windows += took(got.windows)
		b.step(now, o.used, s, parts)
		if parts.walks == 0 && b.mayBegin() && b.mayWalk(walkerCost) {
			parts.walks, o.walking = 0.4, at
			b.saveFor(0)
			s.Own += r.walker
			b.began(r.walker, r.walker)
		} else if now >= next && b.mayChoose() {
			took, once := r.choice, time.Duration(0)
			if len(o.choices) == 0 {
				took = r.first
			}
			parts.long = 0.2
			if parts.walks == 0 && b.mayWalk(walkerCost+took) {
				took, once = took+r.walker, r.walker
				parts.walks, o.walking = 0.4, at
				b.saveFor(0)
			}
			s.Own += took
			b.chose(took, once)
			o.choices = append(o.choices, now.Seconds())
			next = roundAfter(now)
			b.due(next)
		}
		if allowed := r.share * o.used.Seconds(); len(o.choices) > 0 {
			o.worst = max(o.worst, (s.all()-b.reading).Seconds()/allowed)
		}
	}
	o.spent, o.walks, o.reading = s.all()-b.reading, s.Walks+s.ahead, b.reading
	return o
}

// usual is a recording of a minute of a program that uses one processor.
var usual = recorded{share: 0.03, length: time.Minute, lasts: 60, busy: 1, open: 60 * time.Millisecond, beside: 3 * time.Millisecond,
	first: 100 * time.Millisecond, choice: 30 * time.Millisecond, walker: walkerCost, excess: 1, opens: 60 * time.Millisecond}

// with returns usual with changes.
func with(change func(r *recorded)) recorded {
	r := usual
	change(&r)
	return r
}

// TestBudget: all that is spent stays within the share of what the program used, whatever choices and the rest take, and most of it is
// used where there is something to do with it.
func TestBudget(t *testing.T) {
	for _, tt := range []struct {
		name  string
		r     recorded
		least float64 // of the share that is spent in the end
	}{
		{"a minute", usual, 0.8},
		{"at 1 %", with(func(r *recorded) { r.share = 0.01 }), 0.8},
		{"of no known length", with(func(r *recorded) { r.length = 0 }), 0.7},
		{"at 1 %, of no known length, ten minutes", with(func(r *recorded) { r.share, r.length, r.lasts = 0.01, 0, 600 }), 0.75},
		{"a busy machine", with(func(r *recorded) { r.busy, r.beside = 16, 20*time.Millisecond }), 0.8},
		{"an idle program", with(func(r *recorded) { r.busy, r.lasts, r.length = 0.2, 600, 10*time.Minute }), 0.5},
		{"choices that there will be no room for", with(func(r *recorded) { r.share, r.choice, r.first = 0.01, 120*time.Millisecond, 160*time.Millisecond }), 0.85},
		{"dear choices", with(func(r *recorded) { r.choice = 400 * time.Millisecond }), 0.6},
		{"walks that take half as much again", with(func(r *recorded) { r.excess = 1.5 }), 0.8},
		{"walks that take half", with(func(r *recorded) { r.excess = 0.5 }), 0.7},
	} {
		o := tt.r.play()
		share := o.spent.Seconds() / o.used.Seconds() / tt.r.share
		t.Logf("%s: %.2f, worst %.2f, choices %v, walking %d, walks %v", tt.name, share, o.worst, o.choices, o.walking, o.walks)
		if share > 1 || share < tt.least {
			t.Errorf("%s: spent %.2f of the budget, want %.2f to 1: %+v", tt.name, share, tt.least, o)
		}
		if most := time.Duration(tt.r.lasts) * tt.r.beside; o.reading > most || o.reading < most*9/10 {
			t.Errorf("%s: reading samples is said to have taken %v, want %v", tt.name, o.reading, most)
		}
		if len(o.choices) == 0 || o.walks == 0 {
			t.Errorf("%s: nothing was done: %+v", tt.name, o)
		}
		if tt.r.length == 0 && o.worst > 1.05 { // steps are of a second
			t.Errorf("%s: %.2f of the budget was spent at some time", tt.name, o.worst)
		}
	}
}

// TestBudgetPostpones: what is dear waits until it was saved, and is not done where it never will be.
func TestBudgetPostpones(t *testing.T) {
	cheap, dear := usual.play(), with(func(r *recorded) { r.choice = 300 * time.Millisecond }).play()
	if len(dear.choices) >= len(cheap.choices) || len(dear.choices) > 2 {
		t.Errorf("choices at %v, of 0.3 s at %v", cheap.choices, dear.choices)
	}
	if cheap.walking == 0 || cheap.walking > 5 {
		t.Errorf("a minute at 3 %%: walks in the kernel from %d s on, want the start", cheap.walking)
	}
	if o := with(func(r *recorded) { r.share = 0.01 }).play(); o.walking == 0 || o.walking > 5 {
		t.Errorf("a minute at 1 %%: walks in the kernel from %d s on, want the start", o.walking)
	}
	if o := with(func(r *recorded) { r.share, r.traced = 0.01, 2*time.Millisecond }).play(); o.walking == 0 || o.walking > 5 {
		t.Errorf("a minute at 1 %%, a tracer that takes as much in a second as there is for calibration in a fifth: walks in the kernel from %d s on, want the start", o.walking)
	}
	o := with(func(r *recorded) { r.share, r.first, r.choice = 0.01, 250*time.Millisecond, 120*time.Millisecond }).play()
	if share := o.spent.Seconds() / o.used.Seconds() / 0.01; o.walking == 0 || o.walking > 15 || len(o.choices) != 1 || share > 1 || o.walks < 80*time.Millisecond {
		t.Errorf("a minute at 1 %%, a first choice that took four times what was expected, so that there is no room for another: walks in the kernel from %d s on, for %v, choices at %v, spent %.2f; want walks soon", o.walking, o.walks, o.choices, share)
	}
	if o := with(func(r *recorded) { r.share, r.busy = 0.01, 0.35 }).play(); o.walking != 0 {
		t.Errorf("a minute at 1 %% of a third of a processor: walks in the kernel from %d s on, want none: they take a third of it", o.walking)
	}
	b := budget{share: 0.03, at: 50 * time.Second, used: 50 * time.Second, choices: 3, last: 50 * time.Millisecond}
	if !b.mayChoose() {
		t.Error("a choice of 50 ms waits, with 0.4 s saved")
	}
	if b.wants(400 * time.Millisecond); b.mayChoose() {
		t.Error("a choice is made when the walks since the last one take more to go through than was saved")
	}
	o = with(func(r *recorded) { r.share, r.length, r.lasts = 0.01, 0, 600 }).play()
	if o.choices[0] < 15 || o.walking < 15 || o.walking > 100 {
		t.Errorf("at 1 %%, of no known length: choices at %v, walks in the kernel from %d s on", o.choices, o.walking)
	}
	if o := with(func(r *recorded) { r.opens = 1300 * time.Millisecond }).play(); len(o.choices) > 0 {
		t.Errorf("a program of much code, a minute at 3 %%: choices at %v, want none: the first is expected to take 1.3 s", o.choices)
	}
	o = with(func(r *recorded) { r.share, r.length, r.lasts = 0.01, 0, 15 }).play()
	if len(o.choices) > 0 || o.spent > usual.open+15*usual.beside {
		t.Errorf("15 s at 1 %%: %+v, want no choice", o)
	}
}

// TestEnough: what is said to be enough for walks to begin is: of recordings so long, or with such a share.
func TestEnough(t *testing.T) {
	for _, tt := range []struct {
		name         string
		share        float64
		length, used time.Duration
		opens        time.Duration
		choices      int
	}{
		{"too short to choose", 0.01, 5 * time.Second, 5 * time.Second, 40 * time.Millisecond, 0},
		{"half of the time asleep", 0.03, 5 * time.Second, 2500 * time.Millisecond, 40 * time.Millisecond, 0},
		{"too short to walk", 0.01, 10 * time.Second, 9 * time.Second, 0, 1},
		{"nothing ran", 0.01, 5 * time.Second, 0, 0, 0},
	} {
		b := budget{share: tt.share, length: tt.length, at: tt.length, used: tt.used, toOpen: tt.opens, choices: tt.choices, spent: spending{Own: 50 * time.Millisecond}}
		need, share, length := b.enough()
		if tt.used == 0 {
			if share != 1 || length != 0 {
				t.Errorf("%s: a share of %v or %v would do; want none that is known", tt.name, share, length)
			}
			continue
		}
		busy := tt.used.Seconds() / tt.length.Seconds()
		if share <= tt.share || length <= tt.length {
			t.Errorf("%s: a share of %v or %v would do, which is not more", tt.name, share, length)
		}
		for _, may := range []float64{share * tt.used.Seconds(), tt.share * busy * length.Seconds()} {
			if may < need.Seconds() {
				t.Errorf("%s: %v s may be taken; want %v", tt.name, may, need)
			}
		}
	}
}

// TestLacks: what is advised is what helps: no share of more than all, no length where there is none, and fewer samples where these are
// what took the time.
func TestLacks(t *testing.T) {
	for _, tt := range []struct {
		name      string
		b         *budget
		traced    time.Duration
		frequency int
		want      string
	}{
		{"share or length", &budget{share: 0.01, length: 10 * time.Second, at: 10 * time.Second, used: 9 * time.Second, choices: 1, spent: spending{Own: 50 * time.Millisecond}},
			0, 0, "for walks to begin takes about 125ms here, which is --calibrate=2%, or -d 15 at the same share"},
		{"a command that ended", &budget{share: 0.01, at: 10 * time.Second, used: 9 * time.Second, choices: 1, spent: spending{Own: 50 * time.Millisecond}},
			0, 0, "for walks to begin takes about 125ms here, which is --calibrate=2%, or a recording of 15 s at the same share"},
		{"no share would do", &budget{share: 1, length: time.Second, at: time.Second, used: 20 * time.Millisecond, choices: 1},
			0, 0, "for walks to begin takes about 75ms here, which is -d 4 at the same share"},
		{"there was room, and then it ended", &budget{share: 0.3, at: time.Second, used: 600 * time.Millisecond, choices: 1, spent: spending{Own: 20 * time.Millisecond}},
			0, 0, "for walks to begin takes about 95ms here, which there was room for too late: record for longer"},
		{"nothing ran", &budget{share: 0.01, at: 10 * time.Second}, 0, 0, "for walks to begin takes about 39ms here"},
		{"stops that sample", &budget{share: 1, at: 28 * time.Second, used: 23 * time.Second, spent: spending{Own: 27 * time.Second}},
			26 * time.Second, 997, "stops that sample took 26s; about -F 440 leaves half of the share for walks"},
		{"few such stops", &budget{share: 0.1, at: 2 * time.Second, used: 2 * time.Second, choices: 1, spent: spending{Own: 180 * time.Millisecond}},
			50 * time.Millisecond, 997, ""},
	} {
		got := tt.b.lacks(tt.traced, tt.frequency)
		if tt.want != "" && got != tt.want || tt.want == "" && strings.Contains(got, "-F") {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestMore: what is advised for more walks is a share or a length that there is.
func TestMore(t *testing.T) {
	for _, tt := range []struct {
		b     *budget
		times float64
		want  string
	}{
		{&budget{share: 0.01, length: 10 * time.Second, at: 10 * time.Second}, 6, "there are 300 with --calibrate=6% or less, or with -d 60 at the same share"},
		{&budget{share: 0.3, at: 10 * time.Second}, 6, "there are 300 with a recording of 60 s or less at the same share"},
	} {
		if got := tt.b.more(tt.times); got != tt.want {
			t.Errorf("%v times: %q, want %q", tt.times, got, tt.want)
		}
	}
}

// TestNoWindows: a long recording is not told to be longer.
func TestNoWindows(t *testing.T) {
	for _, tt := range []struct {
		groups int
		used   time.Duration
		want   string
	}{
		{0, 3 * time.Second, "too short"},
		{24, 3 * time.Second, "too short"},
		{24, 80 * time.Second, "for the 24 groups chosen"},
		{0, 80 * time.Second, "no place was worth it"},
	} {
		got := noWindows(tt.groups, tt.used)
		if long := strings.Contains(got, "record for"); !strings.Contains(got, tt.want) || long != (tt.used < longEnough) {
			t.Errorf("%d groups, %v: %q, want %q in it", tt.groups, tt.used, got, tt.want)
		}
	}
}

// TestShareOf: of a program that took no time, nothing is a share.
func TestShareOf(t *testing.T) {
	for _, tt := range []struct {
		took, used time.Duration
		want       string
	}{
		{209 * time.Millisecond, 0, "none of the program's processor time"},
		{209 * time.Millisecond, 10 * time.Microsecond, "none of the program's processor time"},
		{90 * time.Millisecond, 9 * time.Second, "9s of processor time (1.00%)"},
	} {
		if got := shareOf(tt.took, tt.used); got != tt.want {
			t.Errorf("%v of %v is %q, want %q", tt.took, tt.used, got, tt.want)
		}
	}
}

// TestKept: something is kept for another choice as long as one can come, and code is added for walks as long as most of what is left is
// for walks through it.
func TestKept(t *testing.T) {
	for _, tt := range []struct {
		name   string
		at     time.Duration
		spent  time.Duration
		extend time.Duration
		kept   bool
		may    bool
	}{
		{"early", 30 * time.Second, 100 * time.Millisecond, 20 * time.Millisecond, true, true},
		{"too late for a choice", 50 * time.Second, 100 * time.Millisecond, 20 * time.Millisecond, false, false},
		{"little is left", 30 * time.Second, 480 * time.Millisecond, 20 * time.Millisecond, true, false},
		{"dear code", 30 * time.Second, 300 * time.Millisecond, 70 * time.Millisecond, true, false},
		{"nothing is known of what code takes", 30 * time.Second, 480 * time.Millisecond, 0, true, true},
	} {
		b := budget{share: 0.01, length: time.Minute, at: tt.at, used: tt.at, choices: 1, last: 20 * time.Millisecond, spent: spending{Own: tt.spent}}
		b.extends(tt.extend)
		if kept := b.kept() > 0; kept != tt.kept {
			t.Errorf("%s: something is kept for a choice: %v, want %v", tt.name, kept, tt.kept)
		}
		if may := b.mayExtend(); may != tt.may {
			t.Errorf("%s: code may be added: %v, want %v", tt.name, may, tt.may)
		}
	}
}
