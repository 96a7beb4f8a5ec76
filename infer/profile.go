package infer

import (
	"backfeed/infer/document"
	"backfeed/infer/image"
	"backfeed/sample"
)

// A Freq is how often a block, an edge or a call ran during a recording.
//
// Samples of a timer tell well which blocks of a procedure run more often than others, how often a
// procedure runs among others only as well as the time of its instructions is known, and how often
// anything runs hardly at all: one execution takes a fraction of a cycle or hundreds. So there are three
// promises, each about less than the one before: Conf is about N, Among about N after one factor that all
// counts of its Profile have in common, Within after one for each procedure. None is above the next. That blocks are Medium
// within their procedure is a promise about nine in ten of those of a program, where time was sampled; one alone keeps it with
// 80 % confidence or more.
type Freq struct {
	N    float64 // the estimate, in executions: not samples, not percent
	Conf Confidence

	Among, Within Confidence
}

// Confidence is a promise about a Freq's N; what it promises is said where the counts
// document has it, which others read without this package.
type Confidence = document.Confidence

const (
	None   = document.None   // no evidence: N is 0 and means unseen, not cold
	Low    = document.Low    // from the flow around it alone
	Medium = document.Medium // within a factor 2 of the truth, with 90 % confidence
	High   = document.High   // within 10% of the truth, with 90 % confidence
)

// A Profile is all that was inferred from the Counts of one event.
type Profile struct {
	Machine string       // name of the machine model: "intel-sapphirerapids"
	Event   sample.Event // Period is the mean one, in events per sample
	GHz     float64      // clock while sampled, in cycles per ns, where Event counts time and the recording has it; 0 is unknown: see Clock
	Samples Samples
	Images  []*ImageProfile // by path, then build ID
	Places  []Place         // if Options asked for them: the most worth first
	Sites   []Site          // likewise: the most worth for its cost first

	// Common is the factor that all counts may be off by together, up or down, with 90 % confidence: TimeFactor where nothing but
	// time was sampled, less where walks or windows tell executions. 0: the event itself tells them. What single procedures are off by
	// beside is in EntryFactor.
	Common float64

	Calibrated bool // walks or probes told where branches go, or how often some code runs

	// Counted is the part of Samples.Used in procedures whose executions were counted in another run (callgrind's): among one another
	// these are as counted, and what they may be off by is Common.
	Counted float64

	ColdBelow float64 // executions: a block that had fewer, with 95 % confidence, is cold

	dispersion float64 // of the samples: see each

	missing bool    // an image that may call others was not found, or not asked for
	aside   Samples // what the recording has beside Samples, of images that were not asked for or of none
}

// A Place is a block whose exact count would make the others surer.
type Place struct {
	Image *ImageProfile
	Proc  *Result
	Block int     // index into Proc.Proc.Blocks
	Gain  float64 // expected reduction of the sum of all errors, in executions
}

// Samples says what became of the samples: Total = Used + the sum of Lost.
type Samples struct {
	Total uint64
	Used  uint64
	Lost  map[sample.Loss]uint64

	Faulted uint64 // of Used, those that are taken for time of page faults: they tell of no executions
}

const (
	LostNoImage sample.Loss = "image not found"    // no file with that build ID or path
	LostNoProc  sample.Loss = "outside procedures" // in the image, but in no procedure
	LostAside   sample.Loss = "left aside"         // in a procedure with few of them: see Options.Part
)

// An ImageProfile holds the procedures of one image that have samples or other
// evidence, and those that they are thought to call. Nothing is known of others.
type ImageProfile struct {
	ID      sample.ImageID
	Image   *image.Image
	Samples uint64    // used samples of this image
	Procs   []*Result // by address

	Counts *sample.ImageCounts // as recorded, of the event that was inferred from

	faults *pageFaults // nil if the recording tells of none
}

// A Result is the inference for one procedure. Its slices run parallel to those
// of Proc: at every block of a complete procedure, the flow in equals the flow
// out equals the block's executions.
type Result struct {
	Proc         *image.Proc
	Samples      uint64
	Seen         bool      // by samples, call stacks, branch records or known counts; otherwise by the calls in others alone
	Entries      Freq      // executions of the procedure; its confidence is about them among all procedures
	Block        []Freq    // as Proc.Blocks
	Most         []float64 // as Proc.Blocks: executions, with 95 % confidence at most; nil if nothing is known of them
	Cold         []bool    // as Proc.Blocks: cold by evidence, with 95 % confidence less than 1 in 200,000 of all executions of blocks
	BlockSamples []uint64  // as Proc.Blocks
	Edge         []Freq    // as Proc.Edges
	Call         []Freq    // as Proc.Calls

	squares  []float64    // as Proc.Blocks: of the samples at each of its places, the sum; nil once that was looked at
	expected []float64    // likewise: cycles of an execution, as machine.Model.Expected, of blocks that were asked for; nil once costs are set
	faulted  []uint64     // as Proc.Blocks: of BlockSamples, those that are taken for time of page faults; nil is none
	faults   float64      // page faults, at the place with the most of them that has samples; 0 once executions are estimated
	system   *systemCalls // nil if it makes none
	held     uint64       // samples where system calls return, beside those of page faults
	entered  []int32      // blocks whose executions may exceed those of their In edges
	trapped  []int32      // blocks whose executions may exceed those of their Out edges
}

// Instructions returns how many instructions r executed, as far as the executions of
// its blocks are known.
func (r *Result) Instructions() float64 {
	n := 0.0
	for b := range r.Proc.Blocks {
		n += r.Block[b].N * float64(r.Proc.Blocks[b].Insts)
	}
	return n
}
