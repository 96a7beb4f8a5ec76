package sample

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Time off the processor is kept beside samples, in Recording.Off, and in the same form: a sample is a microsecond that a
// thread was off the processor, at the place that it left user mode from. Excess has that such samples come in as
// many pieces as there were waits. It is none of Recording.Counts, so that nothing takes it for time that code ran.

// OffCPU is the event of all time off the processor; those in Recording.Off are called so, with why: see OffReasons.
const OffCPU = "off-cpu"

// Wall is the event of all time, on the processor and off it.
const Wall = "wall"

// OffReasons say why threads are off the processor.
var OffReasons = []string{
	"interruptible",   // they wait
	"uninterruptible", // they wait, and no signal ends that: for disks, mostly
	"stopped",         // by a signal or a tracer
	"runnable",        // they could run, and others do
	"unknown",         // nobody saw why: it began before the recording did, or was dropped
}

// OffPeriod is what one sample stands for, in ns.
const OffPeriod = 1000

// OffEvent is the event of time off the processor for a reason.
func OffEvent(why string) Event {
	return Event{Name: OffCPU + ":" + why, Period: OffPeriod, Unit: "ns"}
}

// IsOff reports whether an event is, or holds, time off the processor.
func IsOff(event string) bool {
	return event == OffCPU || event == Wall || strings.HasPrefix(event, OffCPU+":")
}

// Waits returns the time off the processor as a recording of its own, whose samples are microseconds of an event: that for
// one reason, OffCPU or Wall. It has the runs of r.
func (r *Recording) Waits(event string) (*Recording, error) {
	var out Recording
	for _, c := range r.Off {
		if c.Event.Name == event || !strings.Contains(event, ":") {
			out.Add(c.as(event))
		}
	}
	if len(out.Counts) == 0 {
		return nil, fmt.Errorf("no samples of event %q: nothing is known of time off the processor; want a recording of record --off-cpu", event)
	}
	if event == Wall {
		most := r.clocked()
		if most == nil {
			return nil, fmt.Errorf("event %q: nothing is known of time on the processor", event)
		}
		for _, c := range r.Counts {
			if c.Event.Name == most.Event.Name && c.MeanPeriod() > 0 {
				out.Add(c.inTime().as(event))
			}
		}
	}
	for _, c := range out.Counts {
		c.Weight = c.Delivered() * OffPeriod
	}
	out.addRuns(r.Runs, r.Unlisted)
	return Merge(&out), nil
}

// inTime returns samples of a timer as so many microseconds. What else c has it leaves out.
func (c *Counts) inTime() *Counts {
	w := c.MeanPeriod() / OffPeriod
	c = sumOf(c)
	out := c.scaleSum(w)
	for _, ic := range out.Images {
		*ic = ImageCounts{ID: ic.ID, At: ic.At}
	}
	out.Branches, out.Ranges, out.Paths, out.Targets = nil, nil, nil, nil
	out.Clocked, out.Cycles = 0, 0
	out.Returns, out.Held = 0, 0
	for o, n := range c.Origins {
		out.AddOrigin(o, uint64(w*float64(n)))
	}
	for cpu, n := range c.Processors {
		out.AddProcessor(cpu, uint64(w*float64(n)))
	}
	c.scaleSlices(out, w)
	return out
}

// clocked returns the samples of a timer, of which there are most; nil if there are none.
func (r *Recording) clocked() (most *Counts) {
	for _, c := range r.Counts {
		if c.Event.Unit == "ns" && c.MeanPeriod() > 0 && (most == nil || c.Total > most.Total) {
			most = c
		}
	}
	return most
}

// as returns c as counts of another event. It shares all else with c.
func (c *Counts) as(event string) *Counts {
	d := *c
	d.Event = Event{Name: event, Period: OffPeriod, Unit: "ns"}
	return &d
}

// AddWaits says of how many samples of c more waits they are, by how much more the variance is for it. It is that of a
// sum of independent waits: of their squares.
func (c *Counts) AddWaits(samples uint64, squares float64) {
	c.Excess = c.Excess.Add(SquareOf(max(0, squares-float64(samples))))
}

// checkOffEvent checks what time off the processor is called and weighs, of so many samples delivered, and that nothing ran in it.
func (c *Counts) checkOffEvent(delivered uint64, ran int) error {
	why, ok := strings.CutPrefix(c.Event.Name, OffCPU+":")
	if !ok || !slices.Contains(OffReasons, why) || c.Event != OffEvent(why) {
		return fmt.Errorf("%+v is no event of time off the processor", c.Event)
	}
	if ran > 0 || c.Clocked > 0 || c.Returns > 0 {
		return fmt.Errorf("what ran, in time off the processor")
	}
	if n := delivered; n < math.MaxUint64/OffPeriod && c.Weight != n*OffPeriod {
		return fmt.Errorf("%d ns of %d us", c.Weight, n)
	}
	return nil
}
