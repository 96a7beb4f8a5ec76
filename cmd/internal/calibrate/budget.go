package calibrate

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"time"
)

// A budget keeps all that a calibration takes below a share of the processor time of what is sampled: in that, by walks and
// windows, and beside it, by this process and that of the prober. What is done once, or now and then, is done when there is
// room for it; walks and windows go on at the rates that leave room for it.
//
// A recording whose length is known has room for what it may take until its end, so that what is done once can be done at its
// start; of others, only what was saved is spent.
type budget struct {
	share  float64
	length time.Duration // of the recording; 0 is not known

	mu       sync.Mutex
	at       time.Duration // of the last step, since the start
	used     time.Duration // processor time of what was sampled until then
	spent    spending
	chosen   time.Duration // what choices took, of spent
	again    time.Duration // that of those after the first one, without what was done once
	choices  int
	choosing bool          // a choice is going on
	toOpen   time.Duration // what it takes to open and decode what the first choice is made of
	toEnd    time.Duration // what is left for the end
	toWant   time.Duration // what it takes the next choice to find what walks want to be counted
	extend   time.Duration // what it took to add code for walks, the last time
	next     time.Duration // when another one is due, since the start
	needless bool          // it would change nothing
	last     time.Duration // what the last choice took
	beside   float64       // per second, of late: what this process takes beside choices, long walks and their tracer
	since    time.Duration // when beside was found, since the start
	before   time.Duration // of spent, what beside is of
	traced   time.Duration // of before, by a tracer
	reading  time.Duration // of spent, what it takes to read samples, which is no calibration
	quiet    time.Duration // what that took before the first choice, for how long, and in how much processor time of what was sampled
	quietly  time.Duration
	quietUse time.Duration
	saving   time.Duration // what is saved for something that is done once, of a recording whose length is not known
	aim      time.Duration // what that takes; 0 is nothing
	rates    rates
}

// A spending is what a calibration took so far, of processor time but for Stood.
type spending struct {
	Own     time.Duration // of this process: to take in samples, choose, decode code, and walk ahead of threads that stand
	Prober  time.Duration // of the process that arms probes
	Walks   time.Duration // of what is sampled: the kernel's walks
	Windows time.Duration // of what is sampled: hits of probes, and to be interrupted for them
	Stood   time.Duration // for which threads stood for long walks, beside what these take

	ahead  time.Duration // of Own: by long walks
	traced time.Duration // of Own: by their tracer beside them
}

func (s *spending) all() time.Duration { return s.Own + s.Prober + s.Walks + s.Windows + s.Stood }

// rates are shares of the processor time of what is sampled. Windows have theirs by time too.
type rates struct {
	walks, long, windows float64
	perSecond            float64 // of windows, in seconds of processor time for each second
}

const (
	// choosingShare is the part of the budget that is for choices after the first one.
	choosingShare = 0.25
	// savingShare is the part that is saved, where the length is not known, for what is done once.
	savingShare = 0.4
	// onceShare is the part of what there is room for that may be spent at once, where the length is known, and firstShare that of
	// the first choice, without which there is nothing.
	onceShare, firstShare = 0.5, 0.7
	// walkerShare is that of the beginning of walks in the kernel: with 100 ms left for it and for them, 700 walks of SQLite raised block
	// overlap from 0.81 to 0.88.
	walkerShare = 0.8
	// opened is how many times as long the first choice takes as the second, about: it opens images.
	opened = 3
	// likely is the part of the use of processors so far that a program is taken to have until the end.
	likely = 0.9
	// evenly is over how long what was spent too much, or saved, is made up for, in seconds.
	evenly = 10
	// atEnd is left at the end, for what comes then: to take in the last walks, and to end probes. To sum up walks takes endCost of each.
	atEnd, endCost = 25 * time.Millisecond, 13 * time.Microsecond
	// margin is the part of the budget that is left alone: what costs one by one is taken in each second.
	margin = 0.03
	// extendShare is the part of what there is room for that it may take to add code for walks: of a minute of SQLite at 1 %, it took 40 ms
	// where 17 ms were left for walks.
	extendShare = 0.25
	// lateFor is the part of a recording, at its end, in which nothing is chosen any more, settledFor that at its start.
	lateFor, settledFor = 5, 5
)

// firstChoice is what the first choice is thought to take beside that, walkerCost what it takes to have walks in the kernel, half of it the
// kernel's own look at the program, and proberCost what the start of a prober takes, with the choice of what to arm. All are of a
// virtual machine with two processors; what they took is counted, whatever that was.
const (
	firstChoice = 10 * time.Millisecond
	walkerCost  = 60 * time.Millisecond
	proberCost  = 100 * time.Millisecond
	firstWalks  = 50 * time.Millisecond // of walks, that are of some use
)

// wantCost is what it takes for each walk to tell which places they want to be counted: 33 ms of bzip2 with 794 of them, 96 ms of SQLite
// with 1,561 and 258 ms of a Go program with 4,695, on a machine with much else to do. estimateCost is what it takes for each basic
// block to infer what samples tell, which is done where walks do not.
const wantCost, estimateCost = 55 * time.Microsecond, 40 * time.Microsecond

// step takes in what was used and spent so far. The parts say who takes some of what is left: walks in the kernel, long ones,
// windows, as shares of that.
func (b *budget) step(at, used time.Duration, spent spending, parts rates) rates {
	b.mu.Lock()
	defer b.mu.Unlock()
	beside := spent.Own - spent.ahead - b.chosen
	// The start is not like the rest, and what a choice takes is known when it ends.
	if d := (at - b.since).Seconds(); d > 0 && b.since > 0 && !b.choosing {
		const news = 0.3
		took := beside - b.before - (spent.traced - b.traced)
		b.beside += news * (max(0, (took-b.read(took, at-b.since, used-b.used)).Seconds()/d) - b.beside)
	}
	if !b.choosing {
		b.before, b.traced, b.since = beside, spent.traced, at
	}
	if b.length == 0 {
		b.saving = min(b.saving+time.Duration(savingShare*b.share*float64(used-b.used)), b.aim)
	}
	b.at, b.used, b.spent = at, used, spent
	b.rates = rates{}
	busy := used.Seconds() / max(at.Seconds(), 1)
	if sum := parts.walks + parts.long + parts.windows; busy > 0 && sum > 0 {
		free := (b.room() - b.kept() - b.saving).Seconds()
		perSecond := 0.0
		if left := (b.length - at).Seconds(); b.length > 0 {
			perSecond = free / max(left, 1)
		} else {
			perSecond = b.share*busy*(1-choosingShare) - b.beside + free/evenly
			if b.saving < b.aim {
				perSecond -= savingShare * b.share * busy
			}
		}
		if free > 0 && perSecond > 0 {
			of := perSecond / busy / sum
			b.rates = rates{of * parts.walks, of * parts.long, of * parts.windows, perSecond * parts.windows / sum}
		}
	}
	return b.rates
}

// read returns how much of what this process took in a time is what it takes to read samples: all before the first choice, and
// after it as much as before, or less: for that time, or for as much of the processor time of what is sampled, which samples are
// in proportion to. b.mu is held.
func (b *budget) read(took, in, used time.Duration) time.Duration {
	took = max(0, took)
	if b.choices == 0 {
		b.quiet += took
		b.quietly += in
		b.quietUse += used
	} else {
		perSecond, perUsed := b.quiet.Seconds()/max(b.quietly.Seconds(), 1), b.quiet.Seconds()/max(b.quietUse.Seconds(), 1)
		took = min(took, time.Duration(max(perSecond*float64(in), perUsed*float64(used))))
	}
	b.reading += took
	return took
}

// cost is what was spent beside reading samples. b.mu is held.
func (b *budget) cost() time.Duration { return b.spent.all() - b.reading }

// room is what may still be spent, beside what goes on by itself: until the end, if that is known. b.mu is held.
func (b *budget) room() time.Duration {
	used, beside := b.used.Seconds(), 0.0
	if b.length > b.at && b.at > 0 {
		left := (b.length - b.at).Seconds()
		used += likely * used / b.at.Seconds() * left
		beside = b.beside * left
	}
	return time.Duration(((1-margin)*b.share*used-beside)*1e9) - b.cost() - atEnd - b.toEnd
}

// saved is the part of room that is for choices. b.mu is held.
func (b *budget) saved() time.Duration {
	return max(0, time.Duration(choosingShare*b.share*float64(b.used))-b.again)
}

// kept is the part of saved that walks and windows leave alone: for one choice at most. b.mu is held.
func (b *budget) kept() time.Duration {
	if b.needless || b.length > 0 && (b.next >= b.length || b.at > b.late() || !b.comes()) {
		return 0 // no choice is due any more
	}
	return min(b.saved(), b.expected())
}

// enough returns what a calibration has to be able to take in all for walks to begin, by what this one took so far, and which share
// of this recording that is, or what length at this share.
func (b *budget) enough() (need time.Duration, share float64, length time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	need = b.cost() + atEnd
	if b.choices == 0 {
		need += time.Duration((firstChoice + b.toOpen).Seconds() / firstShare * 1e9)
	} else {
		need += firstWalks
	}
	used := (1 - margin) * b.used.Seconds()
	if used <= 0 {
		return need, 1, 0
	}
	share = min(max(need.Seconds()/used, b.share), 1)
	return need, share, time.Duration(max(1, need.Seconds()/used/b.share) * float64(b.at))
}

// lacks says what would have left time for walks to begin, where none did. Where stops sample, so many times a second, and traced is what
// they took, a longer recording is no better if they leave less than half of the share.
func (b *budget) lacks(traced time.Duration, frequency int) string {
	need, share, length := b.enough()
	if may := b.share * b.used.Seconds(); frequency > 0 && traced.Seconds() > may/2 {
		return fmt.Sprintf("stops that sample took %v; about -F %.0f leaves half of the share for walks",
			traced.Round(time.Millisecond), max(1, math.Floor(float64(frequency)*may/2/traced.Seconds())))
	}
	by := []string{}
	if share < 1 && share > b.share {
		by = append(by, fmt.Sprintf("--calibrate=%.0f%%", math.Ceil(100*share)))
	}
	if length > b.at {
		longer := "a recording of %.0f s at the same share"
		if b.length > 0 {
			longer = "-d %.0f at the same share"
		}
		by = append(by, fmt.Sprintf(longer, math.Ceil(length.Seconds())))
	}
	of := ""
	if len(by) > 0 {
		of = ", which is " + strings.Join(by, ", or ")
	} else if b.used > 0 {
		of = ", which there was room for too late: record for longer"
	}
	return fmt.Sprintf("for walks to begin takes about %v here%s", need.Round(time.Millisecond), of)
}

// more says what has so many times as many walks, at most: to begin, which is done once, is counted as often.
func (b *budget) more(times float64) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	longer := fmt.Sprintf("a recording of %.0f s", math.Ceil(times*b.at.Seconds()))
	if b.length > 0 {
		longer = fmt.Sprintf("-d %.0f", math.Ceil(times*b.at.Seconds()))
	}
	if share := math.Ceil(100 * times * b.share); share < 100 {
		return fmt.Sprintf("there are %d with --calibrate=%.0f%% or less, or with %s at the same share", fewWalks, share, longer)
	}
	return fmt.Sprintf("there are %d with %s or less at the same share", fewWalks, longer)
}

// comes reports whether so much is likely to be saved for the next choice before it is too late for one. b.mu is held.
func (b *budget) comes() bool {
	used := b.used.Seconds()
	if left := b.late() - b.at; left > 0 && b.at > 0 {
		used += likely * used * left.Seconds() / b.at.Seconds()
	}
	return b.expected() <= time.Duration(choosingShare*b.share*used*1e9)-b.again
}

// late is when nothing is chosen any more, of a recording whose length is known.
func (b *budget) late() time.Duration { return b.length - b.length/lateFor }

// keeps says whether something is to be kept for the next choice.
func (b *budget) keeps(some bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.needless = !some
}

// due says when the next choice is, since the start.
func (b *budget) due(next time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next = next
}

// nextCost is what the next choice is taken to take beside what it begins.
func (b *budget) nextCost() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.expected()
}

// mayOnce reports whether there is room for something that takes so long and is done once.
func (b *budget) mayOnce(cost time.Duration) bool { return cost <= b.once() }

// mayWalk is mayOnce of what it takes to have walks in the kernel, for which more of the room may be spent: without them, little
// else is done with it.
func (b *budget) mayWalk(cost time.Duration) bool { return cost <= b.atOnce(walkerShare) }

// expected is what the next choice is taken to take: there is more to choose from each time, and as many more walks to go through. b.mu
// is held.
func (b *budget) expected() time.Duration { return max(b.last*3/2, b.last/2+b.toWant) }

// wants says what it takes to find what walks want to be counted, if the next choice does.
func (b *budget) wants(cost time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.toWant = cost
}

// settles is when it is known what goes on by itself: sooner of recordings that are short, or may be.
func (b *budget) settles() time.Duration {
	if b.length == 0 {
		return 3 * time.Second / 2
	}
	return min(3*time.Second, b.length/settledFor)
}

// mayChoose reports whether there is room for another choice, and time for it to be of use.
func (b *budget) mayChoose() bool {
	b.mu.Lock()
	opening := b.toOpen
	first, next, may := b.choices == 0, b.expected(), min(b.saved(), b.room())
	settled := b.at >= b.settles()
	late := b.length > 0 && b.at > b.late()
	b.mu.Unlock()
	if first {
		return settled && firstChoice+opening <= b.atOnce(firstShare)
	}
	return next <= may && !late
}

// mayBegin reports whether a choice may begin something: there was one, and it is of use yet.
func (b *budget) mayBegin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.choices > 0 && !(b.length > 0 && b.at > b.late())
}

// mayExtend reports whether there is room to add code for walks, and enough left of it for walks through that.
func (b *budget) mayExtend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.length > 0 && b.at > b.late() {
		return false
	}
	return 2*b.extend <= b.saved() && time.Duration(b.extend.Seconds()/extendShare*1e9) <= b.room() // half of saved is for choices
}

// extends says what it takes to add code for walks, as far as that is known before it was done.
func (b *budget) extends(cost time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.extend = cost
}

// roomy reports whether there is so much room.
func (b *budget) roomy(room time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.room() >= room
}

// chooses says that a choice begins, or that code is added for walks.
func (b *budget) chooses() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.choosing = true
}

// extended takes in what it took to add code for walks.
func (b *budget) extended(took time.Duration) {
	b.mu.Lock()
	b.extend = took
	b.mu.Unlock()
	b.began(took, 0)
}

// began takes in what it took to begin something beside choices, of which so much was done once.
func (b *budget) began(took, once time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.choosing = false
	b.chosen += took
	b.again += took - once
}

// once is what there is room for that is done once.
func (b *budget) once() time.Duration { return b.atOnce(onceShare) }

// atOnce is what may be spent at once: such a share of what there is room for, where the length is known; else, of what there was until now.
func (b *budget) atOnce(share float64) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.length > 0 {
		return max(0, time.Duration(share*float64(b.room())))
	}
	return max(0, min(b.room(), time.Duration(share*b.share*float64(b.used))))
}

// saveFor has so much saved for something that is done once; 0 is nothing.
func (b *budget) saveFor(cost time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.aim = cost
	b.saving = min(b.saving, cost)
}

// ends says how many walks there are to sum up at the end.
func (b *budget) ends(walks uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.toEnd = time.Duration(walks) * endCost
}

// opens says how much the first choice takes to open images and decode what has samples.
func (b *budget) opens(cost time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.toOpen = cost
}

// hasChosen reports whether there was a choice.
func (b *budget) hasChosen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.choices > 0
}

// chose takes in what a choice took, of which so much was done once.
func (b *budget) chose(took, once time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.choosing = false
	b.chosen += took
	b.last = took - once
	if b.choices++; b.choices > 1 {
		b.again += b.last
	} else {
		b.last /= opened
	}
}
