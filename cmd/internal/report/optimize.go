package report

import (
	"fmt"
	"io"
	"strings"

	"backfeed/sample"
)

// An Optimize is what one run of the command optimize did, as JSON: optimize.schema.json of cmd/backfeed.
type Optimize struct {
	Schema  string           `json:"schema"`
	DryRun  bool             `json:"dry_run,omitempty"` // nothing was put in place
	Better  int              `json:"better"`            // targets for which a faster program was kept
	Failed  int              `json:"failed"`
	Targets []OptimizeTarget `json:"targets"`
}

// Add adds what became of a target.
func (o *Optimize) Add(t OptimizeTarget) {
	switch t.State {
	case OptimizeBetter:
		o.Better++
	case OptimizeFailed:
		o.Failed++
	}
	o.Targets = append(o.Targets, t)
}

// Old is how many programs are in place as they were built.
func (o *Optimize) Old() (n int) {
	for i := range o.Targets {
		if o.Targets[i].Kept == "" {
			n++
		}
	}
	return n
}

// States of targets.
const (
	OptimizeBetter    = "better"    // a candidate is kept
	OptimizeKeptOld   = "old kept"  // none is clearly better
	OptimizeUnchanged = "unchanged" // it was done with the same program before
	OptimizeFailed    = "failed"    // nothing was put in place
)

// An OptimizeTarget is what became of one program.
type OptimizeTarget struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"` // of a failure
	Key    string `json:"key,omitempty"`    // of all that the result depends on and that is here: the program, and what the target says

	Base       OptimizeProgram     `json:"base"`
	Recording  *OptimizeRecording  `json:"recording,omitempty"`
	Checked    []string            `json:"checked,omitempty"` // what shows that a program works
	Candidates []OptimizeCandidate `json:"candidates,omitempty"`
	Noise      *OptimizeRatio      `json:"noise,omitempty"`   // the base against itself
	Machine    *OptimizeMachine    `json:"machine,omitempty"` // what it did while pairs ran
	Notes      []string            `json:"notes,omitempty"`

	Kept   string `json:"kept,omitempty"` // name of the candidate; "" is the base
	Output string `json:"output,omitempty"`
	SHA256 string `json:"sha256,omitempty"` // of the program there
}

// An OptimizeProgram is the program as it is built without.
type OptimizeProgram struct {
	SHA256  string          `json:"sha256,omitempty"`
	Seconds float64         `json:"seconds,omitempty"` // of processor time that run takes: median
	Counts  *OptimizeCounts `json:"counts,omitempty"`
}

// An OptimizeRecording is what profiles were made of.
type OptimizeRecording struct {
	Event   string `json:"event"`
	Samples uint64 `json:"samples"`
	Program uint64 `json:"program"` // of them, those in the program
	// Places of the program with more than samples, as sample.ObservedPlaces has them.
	Walked  int `json:"walked,omitempty"`
	Probed  int `json:"probed,omitempty"`
	Counted int `json:"counted,omitempty"`
	// Of the program, functions with their shares of all executed instructions, which the next run compares its recording with.
	Hot map[string]float64 `json:"hot,omitempty"`
}

// OptimizeCounts are what callgrind counted of the program's own code.
type OptimizeCounts struct {
	Instructions uint64 `json:"instructions"`
	Taken        uint64 `json:"taken_branches"`
}

// OptimizeMachine is what the processors did while pairs ran, in shares of their time.
type OptimizeMachine struct {
	Own    float64 `json:"own"`    // what was measured
	Others float64 `json:"others"` // other processes, and the kernel
	Idle   float64 `json:"idle"`
	Steal  float64 `json:"steal"` // the host of a virtual machine had others run
}

// busyOthers and busySteal are the shares from which on others are named as why runs differ. They are chosen, not measured:
// an idle machine's daemons and hypervisor stay well below.
const busyOthers, busySteal = 0.1, 0.02

// says is what the machine did, and what to do for surer figures.
func (m *OptimizeMachine) says() string {
	if m == nil {
		return "What the machine did meanwhile is not known: measure where nothing else runs, or set more `pairs` in backfeed.yaml."
	}
	seen := fmt.Sprintf("other processes had %s of the processors' time and the host of the virtual machine %s (steal)", Percent(m.Others), Percent(m.Steal))
	if m.Others < busyOthers && m.Steal < busySteal {
		return "The machine was not busy (" + seen + "), so that it is the runs themselves that differ: have each do more, or set more `pairs` in backfeed.yaml."
	}
	return "The machine was busy: " + seen + ". Measure again where nothing else runs (--again), or set more `pairs` in backfeed.yaml; `count` has callgrind count instructions, which load does not change."
}

// wideInterval is the width from which on an interval may hide what profiles bring to most programs: a few percent.
const wideInterval = 0.03

// unsure says why no candidate was clearly better although one may be; "" if that is not so.
func (t *OptimizeTarget) unsure() string {
	var best *OptimizeRatio
	for i := range t.Candidates {
		if r := t.Candidates[i].ratio(); r != nil && (best == nil || r.Median < best.Median) {
			best = r
		}
	}
	if t.State != OptimizeKeptOld || best == nil || best.Low >= 1 || best.High-best.Low < wideInterval {
		return ""
	}
	return fmt.Sprintf("Two builds could not be told apart by less than %.1f %%: so wide is the interval of the best candidate. %s", 100*(best.High-best.Low), t.Machine.says())
}

// States of candidates.
const (
	CandidateSkipped  = "skipped"  // it could not be made
	CandidateWrong    = "wrong"    // it does not do what the base does
	CandidateMeasured = "measured" //
	CandidateKept     = "kept"     //
)

// An OptimizeCandidate is one way to make the program faster.
type OptimizeCandidate struct {
	Name    string          `json:"name"`
	State   string          `json:"state"`
	Why     string          `json:"why,omitempty"` // it is skipped or wrong
	SHA256  string          `json:"sha256,omitempty"`
	Seconds float64         `json:"seconds,omitempty"` // of processor time that run takes, where it decided: median
	First   *OptimizeRatio  `json:"first,omitempty"`   // against the base, beside all others, to choose the best
	Decided *OptimizeRatio  `json:"decided,omitempty"` // against the base alone: of the best
	Counts  *OptimizeCounts `json:"counts,omitempty"`
	Holds   []string        `json:"holds,omitempty"` // what is in its profiles
	Notes   []string        `json:"notes,omitempty"` // what was left out to have it work
}

// An OptimizeRatio is processor time over that of the base, by pairs of runs.
type OptimizeRatio struct {
	Pairs  int     `json:"pairs"`
	Median float64 `json:"median"`
	Low    float64 `json:"low"` // the true median lies between these, with 95 % confidence if there are LeastPairs or more
	High   float64 `json:"high"`
}

// LeastPairs are the fewest that have an interval of 95 % confidence: all on one side by chance are 2 of 64.
const LeastPairs = 6

// interval is that of the median; "-" of too few pairs to have one.
func (r *OptimizeRatio) interval() string {
	if r.Pairs < LeastPairs {
		return "-"
	}
	return Change(r.Low) + " to " + Change(r.High)
}

// Says is the ratio as a change, with its interval.
func (r *OptimizeRatio) Says() string { return fmt.Sprintf("%s (%s)", Change(r.Median), r.interval()) }

// Change writes a ratio as a change: "-20.1 %".
func Change(ratio float64) string { return fmt.Sprintf("%+.1f %%", 100*(ratio-1)) }

// Rows are the run for a table of one row per candidate.
func (o *Optimize) Rows() []OptimizeRow {
	var rows []OptimizeRow
	for i := range o.Targets {
		t := &o.Targets[i]
		if len(t.Candidates) == 0 {
			rows = append(rows, OptimizeRow{Target: t.Name, TargetState: t.State, Why: t.Reason})
		}
		for _, c := range t.Candidates {
			row := OptimizeRow{Target: t.Name, TargetState: t.State, Candidate: c.Name, State: c.State, Why: c.Why}
			if r := c.ratio(); r != nil {
				row.Pairs, row.Median, row.Low, row.High = &r.Pairs, &r.Median, &r.Low, &r.High
			}
			if c.Counts != nil {
				row.Instructions, row.Taken = &c.Counts.Instructions, &c.Counts.Taken
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// An OptimizeRow is a candidate, for CSV, or a target without any.
type OptimizeRow struct {
	Target       string   `json:"target"`
	TargetState  string   `json:"target_state"`
	Candidate    string   `json:"candidate"`
	State        string   `json:"state"`
	Pairs        *int     `json:"pairs"` // nil, as those below, where it was not measured
	Median       *float64 `json:"median"`
	Low          *float64 `json:"low"`
	High         *float64 `json:"high"`
	Instructions *uint64  `json:"instructions"`
	Taken        *uint64  `json:"taken_branches"`
	Why          string   `json:"why"`
}

// ratio is what is known best of how it compares; nil is nothing.
func (c *OptimizeCandidate) ratio() *OptimizeRatio {
	if c.Decided != nil {
		return c.Decided
	}
	return c.First
}

// Text prints the run for people: as Markdown, what fits a pull request.
func (o *Optimize) Text(w io.Writer, style Style) error {
	for i := range o.Targets {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if err := o.Targets[i].text(w, style); err != nil {
			return err
		}
	}
	if o.DryRun {
		_, err := io.WriteString(w, "Nothing was put in place: --dry-run.\n")
		return err
	}
	return nil
}

// Says is what became of a program in a sentence.
func (t *OptimizeTarget) Says() string {
	switch t.State {
	case OptimizeFailed:
		return "failed, and nothing was put in place: " + t.Reason
	case OptimizeUnchanged:
		return "nothing to do: it was done with this very program before, and what was kept is in place"
	case OptimizeKeptOld:
		return "the program stays as it is built: no candidate is clearly better"
	}
	for i := range t.Candidates {
		if c := &t.Candidates[i]; c.State == CandidateKept && c.Decided != nil {
			return fmt.Sprintf("%s is kept: %s of processor time, 95 %% interval %s to %s", c.Name, Change(c.Decided.Median), Change(c.Decided.Low), Change(c.Decided.High))
		}
	}
	return t.Kept + " is kept"
}

func (t *OptimizeTarget) text(w io.Writer, style Style) error {
	line := func(format string, args ...any) error {
		_, err := Fprintf(w, style, format+"\n", args...)
		return err
	}
	says := t.Says()
	if style.Markdown {
		if err := line("### %s\n\n%s\n", t.Name, oneLine(says)); err != nil {
			return err
		}
	} else {
		first, rest, more := strings.Cut(says, "\n")
		if err := line("%s: %s", t.Name, first); err != nil {
			return err
		}
		if more {
			for l := range strings.SplitSeq(rest, "\n") {
				if err := line("    %s", l); err != nil {
					return err
				}
			}
		}
	}
	if t.State == OptimizeFailed || t.State == OptimizeUnchanged && len(t.Candidates) == 0 {
		return nil
	}
	if err := t.table(w, style); err != nil {
		return err
	}
	if style.Markdown {
		if err := line(""); err != nil {
			return err
		}
	}
	return t.evidence(line)
}

// Brief is the first line of a message and the last, which mostly has the cause.
func Brief(s string) string {
	first, _, _ := strings.Cut(s, "\n")
	if last := s[strings.LastIndexByte(s, '\n')+1:]; last != first {
		return first + ": " + last
	}
	return first
}

// oneLine joins the lines of a message.
func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "; ") }

// table prints the candidates.
func (t *OptimizeTarget) table(w io.Writer, style Style) error {
	columns := []Column{Left("candidate"), Left("state"), Right("processor time"), Right("95 % interval"), Right("pairs").Drop(2)}
	counted := t.Base.Counts != nil
	if counted {
		columns = append(columns, Right("instructions").Drop(1), Right("taken branches").Drop(1))
	}
	table := NewTable(append(columns, Sentences("why"))...)
	row := func(name, state, time, interval, pairs string, counts *OptimizeCounts, why string) {
		cells := []string{name, state, time, interval, pairs}
		if counted {
			instructions, taken := "", ""
			if counts != nil && t.Base.Counts.Instructions > 0 {
				instructions = Change(float64(counts.Instructions) / float64(t.Base.Counts.Instructions))
				taken = Change(float64(counts.Taken) / float64(max(t.Base.Counts.Taken, 1)))
			}
			cells = append(cells, instructions, taken)
		}
		table.Row(append(cells, why)...)
	}
	for i := range t.Candidates {
		c := &t.Candidates[i]
		change, interval, pairs := "", "", ""
		if r := c.ratio(); r != nil {
			change, interval, pairs = Change(r.Median), r.interval(), fmt.Sprint(r.Pairs)
		}
		why := strings.Join(append([]string{Brief(c.Why)}, c.Notes...), "; ")
		row(c.Name, c.State, change, interval, pairs, c.Counts, strings.TrimPrefix(strings.TrimSuffix(why, "; "), "; "))
	}
	if n := t.Noise; n != nil {
		row("base against itself", "", Change(n.Median), n.interval(), fmt.Sprint(n.Pairs), t.Base.Counts, "")
	}
	return table.Print(w, style)
}

// evidence says what the result rests on.
func (t *OptimizeTarget) evidence(line func(string, ...any) error) error {
	var all []string
	if t.Base.Seconds > 0 {
		all = append(all, fmt.Sprintf("A run of the program as it is takes %.2g s of processor time.", t.Base.Seconds))
	}
	if r := t.Recording; r != nil {
		text := fmt.Sprintf("Made of %d samples of %s, %s of them in the program", r.Samples, r.Event, Share(r.Program, r.Samples))
		if observed := Observed(sample.ObservedPlaces{Probed: r.Probed, Walked: r.Walked, Counted: r.Counted}); observed != "" {
			text += ", and of " + observed
		}
		all = append(all, text+".")
	}
	if len(t.Checked) > 0 {
		all = append(all, "Those measured work as the program does, by "+strings.Join(t.Checked, " and ")+".")
	}
	if unsure := t.unsure(); unsure != "" {
		all = append(all, unsure)
	}
	all = append(all, t.Notes...)
	if t.Output != "" {
		all = append(all, "At its place: "+t.Output+".")
	}
	for _, text := range all {
		if err := line("%s", oneLine(text)); err != nil {
			return err
		}
	}
	return nil
}
