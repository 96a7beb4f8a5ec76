package gate

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/infer/source"
	"backfeed/sample"
)

// A Unit says what the numbers of a Gate are.
type Unit uint8

const (
	Share   Unit = iota // of 1
	Samples             // a number of them
	Seconds
)

// String returns the unit's name.
func (u Unit) String() string { return [...]string{"share", "samples", "seconds"}[u] }

// A Gate is one thing that was looked at.
type Gate struct {
	Name   string
	Unit   Unit    // of Value and Limit
	Value  float64 // what was found
	Limit  float64 // what was wanted: the least, or the most if AtMost is set
	AtMost bool
	Of     uint64 // samples that a Share is of; 0 is unknown
	Reason string // what a failure means, and what to do
}

// OK reports whether the value is within the limit.
func (g Gate) OK() bool {
	if g.AtMost {
		return g.Value <= g.Limit
	}
	return g.Value >= g.Limit
}

// atLeast is a gate for n of so many samples, which must not be few.
func atLeast(name string, n, of uint64, least float64, reason string) Gate {
	return Gate{name, Share, part(n, of), least, false, of, reason}
}

// atMost is a gate for n of so many samples, which must not be many.
func atMost(name string, n, of uint64, most float64, reason string) Gate {
	return Gate{name, Share, part(n, of), most, true, of, reason}
}

// part is a/b; nothing of nothing is 0.
func part(a, b uint64) float64 { return float64(a) / float64(max(b, 1)) }

// Recording judges what was recorded, of which p was inferred, and what ip, the image of it
// that is to be built, has of that: all of it, if p is of no other. Of recorded samples, otherID are
// of images of which only other builds were found.
func Recording(p *infer.Profile, ip *infer.ImageProfile, otherID, recorded uint64, lim Limits) []Gate {
	var own, known, placed uint64
	for _, r := range ip.Procs {
		if !IsLoader(ip.ID.Path) && (ip.Image.Go == "" || !strings.HasPrefix(r.Proc.Name, "runtime.") && !strings.HasPrefix(r.Proc.Name, "internal/runtime/")) {
			own += r.Samples
		}
		for i, n := range r.BlockSamples {
			placed += n
			if r.Block[i].Within >= infer.Medium {
				known += n
			}
		}
	}
	// Most recordings have none of the kernel, and counts of the program need none; what Go calls C is not Go's to build.
	user := p.Samples.Total - p.Samples.Lost[sample.LostKernel] - p.Samples.Lost[sample.LostOutsideGo]
	return []Gate{
		{"samples", Samples, float64(user), float64(lim.MinSamples), false, 0, "record for longer, at a higher rate (-F), or merge recordings"},
		atLeast("used", p.Samples.Used, user, lim.MinUsed, "samples have no place; `backfeed images` says why"),
		atMost("other build ID", otherID, recorded, lim.MaxOtherID, "the files here are not those that ran"),
		atLeast("own code", own, user, lim.MinOwn, hardlyRan(p, ip, user)),
		atLeast("known to a factor of 2", known, placed, lim.MinKnown, "too few samples are in blocks of which it is known to a factor of 2, with 90 % confidence, how often they ran beside the others of their function; more samples help, and --calibrate"),
	}
}

// hardlyRan is what it means that little of user is of ip, and where the rest is.
func hardlyRan(p *infer.Profile, ip *infer.ImageProfile, user uint64) string {
	why := "the program itself hardly ran: was it idle?"
	if n := Loading(p); 2*n >= user-min(user, ip.Samples) && n > 0 {
		return fmt.Sprintf("the program itself hardly ran: %.1f%% of the samples are in the dynamic loader, which runs before main: have each process do more", 100*part(n, user))
	}
	var most *infer.ImageProfile
	for _, other := range p.Images {
		if other != ip && (most == nil || other.Samples > most.Samples) {
			most = other
		}
	}
	if most != nil && most.Samples > ip.Samples {
		why += fmt.Sprintf(" %.1f%% of the samples are in %s (--image checks another image)", 100*part(most.Samples, user), most.ID.Path)
	}
	return why
}

// IsLoader reports whether the image at path is a dynamic loader, by its name: ld-linux-x86-64.so.2, ld-musl-x86_64.so.1, ld-2.31.so. What
// runs in it is neither the program nor what that calls: it maps libraries and binds their symbols, mostly before main.
func IsLoader(path string) bool {
	base := filepath.Base(path)
	return (strings.HasPrefix(base, "ld-") || strings.HasPrefix(base, "ld64.") || strings.HasPrefix(base, "ld.")) && strings.Contains(base, ".so")
}

// Loading returns the samples in dynamic loaders.
func Loading(p *infer.Profile) (n uint64) {
	for _, ip := range p.Images {
		if IsLoader(ip.ID.Path) {
			n += ip.Samples
		}
	}
	return n
}

// Age judges how long ago the newest samples were taken, to a minute.
func Age(age time.Duration, lim Limits) Gate {
	age = max(age, 0).Round(time.Minute)
	return Gate{"age", Seconds, age.Seconds(), lim.MaxAge.Seconds(), true, 0, "the program has changed since, and so has its work"}
}

// A sourceLine is a line as profiles name it.
type sourceLine struct {
	function string
	offset   int // relative to the function's first line
}

// Build judges what im, a newer build of the program, has of the procedures and lines of ip
// that were sampled. Either without lines is an error.
func Build(ip *infer.ImageProfile, im *image.Image, lim Limits) ([]Gate, error) {
	old, err := ip.Image.Lines()
	if err != nil {
		return nil, err
	}
	now, err := im.Lines()
	if err != nil {
		return nil, err
	}
	index := map[string][]int{} // several where files have statics of one name, or a stripped Go program a function and its wrapper of the other ABI
	for i, s := range im.Symbols() {
		index[s.Name] = append(index[s.Name], i)
	}
	var all, known, placed, same uint64
	inlined, gone := map[string]bool{}, map[string]uint64{}
	for _, r := range ip.Procs {
		if r.Samples == 0 {
			continue
		}
		all += r.Samples
		if len(index[r.Proc.Name]) == 0 {
			gone[r.Proc.Name] += r.Samples
			continue
		}
		known += r.Samples
		lines := map[sourceLine]bool{}
		for _, i := range index[r.Proc.Name] {
			p, err := im.Proc(i)
			if err != nil {
				continue // its lines are unknown, and count as changed
			}
			for b := range p.Blocks {
				for _, in := range im.Insts(&p.Blocks[b]) {
					for _, f := range now.Frames(in.Addr) {
						inlined[f.Func] = true
						lines[sourceLine{f.Func, f.Line - f.StartLine}] = true
					}
				}
			}
		}
		for b, n := range r.BlockSamples {
			if fs := old.Frames(r.Proc.Blocks[b].Start); n > 0 && len(fs) > 0 {
				placed += n
				if lines[sourceLine{fs[0].Func, fs[0].Line - fs[0].StartLine}] {
					same += n
				}
			}
		}
	}
	for name, n := range gone { // a build by a profile has some of them in their callers alone
		if inlined[name] {
			known += n
		}
	}
	return []Gate{
		atLeast("procedures", known, all, lim.MinProcedures, "the newer build lacks procedures that were hot"),
		atLeast("lines", same, placed, lim.MinLines, "hot lines have moved within their functions"),
	}, nil
}

// Carried judges which share of the samples of older builds could be carried over to the newest.
func Carried(share float64, lim Limits) Gate {
	return Gate{"carried over", Share, share, lim.MinProcedures, false, 0, "the newest build lacks code that was hot, or has all of it inlined, as one that is built by another profile: sample it and leave older recordings out, or let image name a sampled build"}
}

// Tree judges what the source tree at dir has of the code that was sampled.
func Tree(n *source.Fates, dir string, lim Limits) []Gate {
	own := n.Own()
	return []Gate{
		atLeast("source tree", own, own+n[source.Outside], lim.MinSource, fmt.Sprintf("it ran little that is in %s: is it this program's source?", dir)),
		atMost("files gone", n[source.FileGone], own, lim.MaxFilesGone, "the tree lacks files that were hot"),
		atMost("functions gone", n[source.FunctionGone], own, lim.MaxFunctionsGone, "its files lack functions that were hot"),
		atMost("functions moved", n[source.MovedLines], own, lim.MaxMoved, "its functions stand on other lines"),
		atMost("lines beyond", n[source.BeyondEnd], own, lim.MaxBeyond, "hot lines are beyond the end of their functions"),
	}
}
