package infer

import (
	"math"

	"backfeed/infer/image"
)

// turnsSureSD is the standard deviation of the logit of leaving a loop that counts from one constant to another: of 421
// such loops of 47 programs, all turned as often as the code says (TestCountedLoops). It is not less for the search to
// have room.
const turnsSureSD = 0.05

// turn tells the problems of prof of the loops that turn as often as their code says.
func (pr *posed) turn(prof *Profile) {
	for _, ip := range prof.Images {
		parallel(len(ip.Procs), func(i int) {
			if q := pr.of[ip.Procs[i]]; q != nil {
				q.turn(ip.Image.Trips(q.p))
			}
		})
	}
}

// turn has each branch leave its loop as often as it does.
func (q *problem) turn(trips []image.Trip) {
	if len(trips) == 0 {
		return
	}
	leaves := map[int32]image.Trip{} // by block
	for _, t := range trips {
		leaves[int32(t.Block)] = t
	}
	at := len(q.enter)
	for _, b := range q.branch {
		lo := q.flow.first[b]
		if t, ok := leaves[b]; ok && q.flow.first[b+1] == lo+2 {
			logit := math.Log(t.Turns - 1) // of the other out-edge
			if int(q.flow.outs[lo].edge) == t.Edge {
				logit = -logit
			}
			q.center[at], q.sure[at] = logit/math.Sqrt2, math.Sqrt2/turnsSureSD
		}
		at += q.flow.logits(b)
	}
}
