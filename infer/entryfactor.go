package infer

import "backfeed/infer/document"

// FewTotal is the number of samples below which a recording tells of few procedures how often they run.
const FewTotal = 2000

// EntrySamples returns the samples of r that tell how often it was entered: those in blocks that run at most entryTurns times as often.
// What a loop turns for each entry is known less well than what it turns in all. Where page faults are told apart, as many are left out once
// more: they take longer at times, and so do the first touches of pages after them. What is emulated tells nothing. Where system calls return, samples
// tell no more than a few do: for how long the kernel holds up interrupts differs by calls.
func (r *Result) EntrySamples() (sum uint64) {
	for b, n := range r.own() {
		if r.faulted != nil {
			n -= min(n, r.faulted[b])
		}
		if r.Block[b].N <= entryTurns*r.Entries.N && !r.Proc.Blocks[b].Emulated {
			sum += n
		}
	}
	return sum - min(sum, r.held) + min(sum, r.held, fewSamples-1)
}

// With 10, of procedures with 8 such samples or more 95 % are within TimeFactor, of those with 8 samples and fewer of such 65 %. With 2
// and 100 it is hardly another: see README.md.
const entryTurns = 10

// EntryFactor is what the executions of r may be off by, up or down, with 90 % confidence: in all where nothing but time was
// sampled, and beside Common where executions were seen. It is 0 where they were counted in another run or the event itself tells
// them, and where nothing is known.
func (p *Profile) EntryFactor(r *Result) float64 {
	switch {
	case p.Common == 0 || p.Counted > 0 || r.Entries.Conf == None:
		return 0
	case p.seen() && r.Entries.Conf == Medium:
		return 2
	case p.seen() && r.Entries.Conf == High:
		return 1.1
	}
	return p.EntryFactorOf(uint64(float64(r.EntrySamples()) / p.each()))
}

// seen reports whether walks or windows told how often code runs, so that Common is less than what time has.
func (p *Profile) seen() bool { return document.Seen(p.CommonFactor()) }

// EntryFactorOf is EntryFactor of a procedure with so many samples that tell of it.
func (p *Profile) EntryFactorOf(samples uint64) float64 {
	f := EntryFactor(samples, p.Told())
	if float64(p.Samples.Faulted) > manyFaulted*float64(p.Samples.Used) {
		f = coldEntryFactor(samples, p.Told())
	}
	if p.seen() && f <= TimeFactor {
		return seenEntryFactor(samples)
	}
	return f
}

// seenEntryFactor is EntryFactor of a procedure with fewSamples that tell of it or more, in a recording in which walks or windows told how
// often some code runs: what it is off by beside the others. Of ten programs recorded with 3 % for calibration, 95 % of 583 procedures
// with fewer than manyEntries such samples are within 16, and of 485 with as many or more 95 % within 5; of those of three of them whose
// Common was less than TimeFactor, 92 % within 20 and 99 %. With fewer samples it is as by time: 94 % are within 500 and 80. See README.md.
func seenEntryFactor(samples uint64) float64 {
	if samples < manyEntries {
		return 20
	}
	return 5
}

// manyEntries is the number of samples from which on they tell of a procedure in its place among the others, which walks know.
const manyEntries = 128

// manyFaulted is the part of samples that page faults have from which on most time may go into first touches of pages that fault in the
// hypervisor alone, which no guest sees: under PVM they take 2 us of a page of a file, 9 of another. Processes that live for a
// tenth of a second spend most of their time so.
const manyFaulted = 0.3

// coldEntryFactor is EntryFactor of such a recording. Of five programs that were started again and again there, 9 in 10
// procedures with 32 such samples or more are within 8 to 60, but of bash's, of those with 8 or more within 65 to 460; see README.md.
func coldEntryFactor(samples, total uint64) float64 {
	if samples < 4*fewSamples {
		return max(500, EntryFactor(samples, total))
	}
	return max(80, EntryFactor(samples, total))
}

// Told is how many samples tell as much as those used do: as many, or fewer where some count for several.
func (p *Profile) Told() uint64 { return uint64(float64(p.Samples.Used) / p.each()) }

// EntryFactor is what the executions of a procedure with so many samples that tell of them (see EntrySamples), in a recording of so
// many in all, may be off by: what TimeFactor is for all together, and what it has for itself. A
// procedure that no such sample is in runs as often as what calls it, which may be once or in the innermost loop; of one with two samples,
// code that ran seldom and waited long looks as code that ran often. Over the programs of testdata/sets, thinned to 200 samples and more:
// see TestEntryFactor and README.md.
func EntryFactor(samples, total uint64) float64 {
	thin := total < FewTotal
	switch {
	case samples < 3 && thin:
		return 3000
	case samples < 3:
		return 500
	case thin:
		return 200
	case samples < fewSamples:
		return 80
	}
	return TimeFactor
}
