package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"backfeed/infer/compare"
)

// A Deployed is what verdict prints of two sides of recordings.
type Deployed struct {
	Schema    string   `json:"schema"`
	Event     string   `json:"event"`
	Unit      string   `json:"unit"`         // of what is spent: "s", "cycles", "samples" and others
	Work      string   `json:"unit_of_work"` // "" if units are not known
	Outcome   string   `json:"outcome"`      // as compare.Outcome has it
	Sentence  string   `json:"sentence"`
	Per       string   `json:"per"` // what change is relative to: "unit", "unchanged code", or "all", of which there are shares only
	Change    Effect   `json:"change"`
	Predicted *float64 `json:"predicted,omitempty"`                // the change that was predicted, which whoever knows it fills in
	Needed    *int     `json:"recordings_for_1_percent,omitempty"` // of each side, to find a change of 1 %

	Sides     []DeployedSide `json:"sides"` // old, new
	Unchanged *Unchanged     `json:"unchanged_code,omitempty"`
	Kinds     *Mix           `json:"kinds_of_work,omitempty"`
	AtMix     *AtMix         `json:"kinds_weighed_alike,omitempty"` // change is that of what each kind takes
	Clear     int            `json:"clear"`                         // how many procedures' changes are clear, of all
	Rows      []DeployedRow  `json:"items"`
	Spent

	all, beyond int
	oneBuild    bool
}

// An Effect is a compare.Effect: shares of the old value.
type Effect struct {
	Change     *float64 `json:"change"` // null is not known
	Low        *float64 `json:"low"`
	High       *float64 `json:"high"`
	P          *float64 `json:"p"`
	Runs       bool     `json:"includes_runs"` // the interval holds how recordings of one build differ, not only sampling
	Detectable *float64 `json:"detectable"`    // a change that 8 of 10 such comparisons would find
}

// A DeployedSide is a side.
type DeployedSide struct {
	Side       string   `json:"side"` // "old" or "new"
	Recordings int      `json:"recordings"`
	Samples    uint64   `json:"samples"`
	Spent      float64  `json:"spent"`
	Units      *float64 `json:"units,omitempty"`
	PerUnit    *float64 `json:"spent_per_unit,omitempty"`
}

// An Unchanged is what code that is the same in both builds says of the load.
type Unchanged struct {
	Shares [2]float64 `json:"shares"` // of what is spent: old, new
	Work   *Effect    `json:"per_unit,omitempty"`
	Equal  Effect     `json:"equal_work"` // all that is spent, for as much work in it
	Mix    Mix        `json:"mix"`
}

// A Mix is how shares differ: half the sum of their differences, and the most that chance explains.
type Mix struct {
	Distance float64 `json:"distance"`
	Chance   float64 `json:"chance"`
}

// An AtMix is what else is known where the kinds of work are weighed alike on both sides.
type AtMix struct {
	Raw  Effect     `json:"as_they_came"` // the change of what units take, whatever their kinds
	Rest [2]float64 `json:"of_no_kind"`   // share of what is spent, divided by all units: old, new
}

// A DeployedRow is one procedure.
type DeployedRow struct {
	Change    float64  `json:"change"` // of what the old side spends in all
	Low       float64  `json:"low"`
	High      float64  `json:"high"`
	P         *float64 `json:"p"` // null is too few samples
	Clear     bool     `json:"clear"`
	Unchanged bool     `json:"unchanged"` // its code
	OldShare  float64  `json:"old_share"`
	NewShare  float64  `json:"new_share"`
	Old       uint64   `json:"old_samples"`
	New       uint64   `json:"new_samples"`
	Image     string   `json:"image,omitempty"`
	Name
	Lost string `json:"lost,omitempty"`
}

// NewDeployed returns a verdict as it is printed, with at most so many rows; 0 is all. spent says what a unit of time is of, and work is what
// a unit of work is called.
func NewDeployed(v *compare.Verdict, event, unit string, spent Spent, work string, lines int) *Deployed {
	doc := &Deployed{Spent: spent, Schema: "backfeed.verdict/1", Event: event, Unit: unit, Outcome: string(v.Outcome), Change: newEffect(&v.Effect),
		Clear: v.Clear, all: len(v.Rows), beyond: v.Beyond, oneBuild: v.OneBuild, Rows: []DeployedRow{}}
	switch {
	case v.PerUnit:
		doc.Per, doc.Work = "unit", work
	case v.Outcome == compare.Shares:
		doc.Per = "all"
	default:
		doc.Per = "unchanged code"
	}
	if n := v.Effect.Needs(0.01); n > 0 {
		doc.Needed = &n
	}
	for i, s := range v.Sides {
		side := DeployedSide{Side: [2]string{"old", "new"}[i], Recordings: s.Runs, Samples: s.Samples, Spent: s.Spent}
		if s.Units > 0 {
			per := s.Spent / s.Units
			side.Units, side.PerUnit = &s.Units, &per
		}
		doc.Sides = append(doc.Sides, side)
	}
	if c := v.Code; c != nil {
		doc.Unchanged = &Unchanged{Shares: c.Shares, Equal: newEffect(&c.Equal), Mix: Mix(c.Mix)}
		if c.Work != nil {
			e := newEffect(c.Work)
			doc.Unchanged.Work = &e
		}
	}
	doc.Kinds = (*Mix)(v.Kinds)
	if a := v.AtMix; a != nil {
		doc.AtMix = &AtMix{Raw: newEffect(&a.Raw), Rest: a.Rest}
	}
	rows := v.Rows
	if lines > 0 {
		rows = rows[:min(lines, len(rows))]
	}
	for _, r := range rows {
		doc.Rows = append(doc.Rows, DeployedRow{Change: r.Change, Low: r.Low, High: r.High, P: finite(r.P), Clear: r.Clear, Unchanged: r.Unchanged,
			OldShare: r.Shares[0], NewShare: r.Shares[1], Old: r.Samples[0], New: r.Samples[1], Image: r.Image, Name: NameOf(r.Proc), Lost: r.Lost})
	}
	doc.Sentence = doc.sentence()
	return doc
}

func newEffect(e *compare.Effect) Effect {
	return Effect{Change: finite(e.Change), Low: finite(e.Low), High: finite(e.High), P: finite(e.P), Runs: e.Runs, Detectable: finite(e.Detectable)}
}

// finite returns x, or nil if it is no number that JSON has.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// parts of hundred, with as many decimals as a small change needs.
func hundredths(x float64) string {
	x = math.Abs(100 * x)
	digits := 1
	switch {
	case x >= 99.95:
		digits = 0
	case x < 0.095 && x > 0:
		digits = 2
	}
	return strconv.FormatFloat(x, 'f', digits, 64)
}

// less says a change in words: "3.1 % less".
func less(x float64) string {
	switch {
	case x > 0:
		return hundredths(x) + " % more"
	case x < 0:
		return hundredths(x) + " % less"
	}
	return "as much"
}

// interval says that of an effect in words.
func (e *Effect) interval() string {
	what := "95 % interval "
	if !e.Runs {
		what += "of sampling alone "
	}
	switch {
	case e.Low == nil || e.High == nil:
		return what + "unbounded"
	case *e.Low >= 0 && *e.High >= 0:
		return what + hundredths(*e.Low) + " to " + hundredths(*e.High) + " %"
	case *e.Low <= 0 && *e.High <= 0:
		return what + hundredths(*e.High) + " to " + hundredths(*e.Low) + " %"
	}
	return what + less(*e.Low) + " to " + less(*e.High)
}

// spent is what is compared, in words.
func (doc *Deployed) spent() string {
	switch doc.Unit {
	case "s":
		return doc.time()
	case "samples", "cycles", "instructions":
		return doc.Unit
	}
	return doc.Event
}

// of says what change is per.
func (doc *Deployed) of() string {
	than := "than OLD"
	if *doc.Change.Change == 0 { // as much
		than = "as OLD"
	}
	if doc.Per == "unit" {
		s := "per " + doc.Work + " " + than
		if doc.AtMix != nil {
			s += ", all kinds weighed alike"
		}
		return s
	}
	return than + " for as much work in unchanged code"
}

// sentence is the one that says it all.
func (doc *Deployed) sentence() string {
	if doc.Per == "all" || doc.Change.Change == nil {
		if !doc.Change.Runs {
			return fmt.Sprintf("Nothing is known of the work that was done, so only shares of the %s are compared.", doc.spent())
		}
		return fmt.Sprintf("Nothing is known of the work that was done, so only shares of the %s are compared: of %d procedures, %d differ clearly.", doc.spent(), doc.all, doc.Clear)
	}
	what := func(takes string) string {
		return fmt.Sprintf("NEW %s %s %s %s (%s)", takes, less(*doc.Change.Change), doc.spent(), doc.of(), doc.Change.interval())
	}
	switch compare.Outcome(doc.Outcome) {
	case compare.NotShown:
		return "No difference shown: " + what("takes") + "."
	case compare.Unsure:
		if doc.pooled() {
			return what("took") + ", in these recordings: units are known of all of a side together, and so not how much recordings of one build differ: nothing is claimed."
		}
		return what("took") + ", in these two recordings: how much recordings of one build differ is not known, so nothing is claimed."
	case compare.Mixed:
		return what("took") + ", which the load may explain, so nothing is claimed."
	}
	return what("takes") + "."
}

// pooled reports whether a side has several recordings, and nothing is known of each.
func (doc *Deployed) pooled() bool {
	return !doc.Change.Runs && slices.ContainsFunc(doc.Sides, func(s DeployedSide) bool { return s.Recordings > 1 })
}

// remarks are what else there is to say, a sentence or two each.
func (doc *Deployed) remarks() (all []string) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	e := &doc.Change
	switch {
	case doc.Per == "all":
		say("To compare what a unit of work takes, give units with --units, --old-units and --new-units, or --per.")
	case e.Runs && e.Detectable != nil:
		more := ""
		if doc.Needed != nil {
			more = fmt.Sprintf("; to find 1 %% so often, %d recordings like these are needed on each side", *doc.Needed)
		}
		say("A change of %s %% would have been found in 8 of 10 such comparisons%s.", hundredths(*e.Detectable), more)
	case !e.Runs && doc.pooled():
		say("Give the units of each recording, with --old-units N,N,N and --new-units N,N,N; or with --noise by how much recordings of one build differ.")
	case !e.Runs:
		say("Give several recordings, or epochs, of each build, each with its own units; or with --noise by how much recordings of one build differ.")
	}
	if doc.Outcome == string(compare.Mixed) {
		say("If the load is known to be the same, as that of a benchmark is, say so with --same-load.")
	}
	if doc.Predicted != nil {
		where := "which is outside the interval"
		if e.Low != nil && e.High != nil && *e.Low <= *doc.Predicted && *doc.Predicted <= *e.High {
			where = "which is within the interval"
		}
		say("Predicted: %s, %s.", less(*doc.Predicted), where)
	}
	if u := doc.Unchanged; u != nil {
		text := fmt.Sprintf("Unchanged code has %s of what OLD spends and %s of what NEW does", Percent(u.Shares[0]), Percent(u.Shares[1]))
		if u.Work != nil && u.Work.Change != nil {
			text += fmt.Sprintf("; it takes %s per %s (%s)", less(*u.Work.Change), doc.Work, u.Work.interval())
			if u.Equal.Change != nil {
				text += fmt.Sprintf("; for as much work in it, NEW takes %s in all (%s)", less(*u.Equal.Change), u.Equal.interval())
			}
		}
		say("%s. Its procedures' shares differ by %s, of which chance explains %s.", text, Percent(u.Mix.Distance), Percent(u.Mix.Chance))
	} else if doc.oneBuild {
		say("Both sides are the same build: what differs is the load, the machine or settings, and code cannot say which.")
	} else if doc.Per == "unit" {
		say("Too little of the code is known to be the same in both builds to see whether the load is.")
	}
	if k := doc.Kinds; k != nil {
		say("The shares of the kinds of work differ by %s, of which chance explains %s.", Percent(k.Distance), Percent(k.Chance))
	}
	if used := doc.used(doc.amount); used != "" {
		say("User and system time that the recorded commands used per %s: %s.", doc.Work, used)
	}
	if a := doc.AtMix; a != nil {
		came := "as much"
		if a.Raw.Change != nil {
			came = fmt.Sprintf("%s (%s)", less(*a.Raw.Change), a.Raw.interval())
		}
		say("As units came, whatever their kinds, one takes %s; the amounts above are per such unit. Of no kind are %s of what OLD spends and %s of what NEW does: that is divided by all units.", came, Percent(a.Rest[0]), Percent(a.Rest[1]))
	}
	return all
}

// Text writes the sentence, what both sides are, and the table of procedures.
func (doc *Deployed) Text(w io.Writer, style Style) error {
	if _, err := Fprintf(w, style, "%s\n\n", doc.Sentence); err != nil {
		return err
	}
	columns := []Column{Left("side"), Right("recordings"), Right("samples"), Right(doc.spent())}
	if doc.Work != "" {
		columns = append(columns, Right("units"), Right("per "+doc.Work))
	}
	sides := NewTable(columns...)
	for _, s := range doc.Sides {
		cells := []string{strings.ToUpper(s.Side), strconv.Itoa(s.Recordings), Integer(s.Samples), doc.amount(s.Spent)}
		if doc.Work != "" {
			cells = append(cells, Count(orNaN(s.Units)), doc.amount(orNaN(s.PerUnit)))
		}
		sides.Row(cells...)
	}
	if err := sides.Print(w, style); err != nil {
		return err
	}
	for _, r := range doc.remarks() {
		if _, err := Fprintf(w, style, "\n%s\n", r); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	t := NewTable(Right("change"), Right("from").Drop(2), Right("to").Drop(2), Left("clear"), Right("old share").Drop(3), Right("new share").Drop(3),
		Left("code").Drop(4), Paths("image").Drop(1), Procedures("procedure").Main())
	for _, r := range doc.Rows {
		code := ""
		if r.Unchanged {
			code = "same"
		}
		t.Row(points(r.Change), points(r.Low), points(r.High), yesNo(r.Clear), Percent(r.OldShare), Percent(r.NewShare), code, r.Image, r.Or(r.Lost, style))
	}
	if err := t.Print(w, style); err != nil {
		return err
	}
	_, err := Fprintf(w, style, "\n%s\n", doc.footer())
	return err
}

// footer says what the rows are.
func (doc *Deployed) footer() string {
	s := fmt.Sprintf("A change is of what OLD spends in all, with its 95 %% interval. Of %d procedures, ", doc.all)
	if !doc.Change.Runs {
		return s + fmt.Sprintf("%d differ by more than sampling, and none is called clear: how recordings of one build differ is not known.", doc.beyond)
	}
	s += fmt.Sprintf("%d changed clearly; at most one in twenty of these is expected to be chance.", doc.Clear)
	if doc.AtMix != nil {
		s += " Another mix of kinds may be why: it is per unit as it came."
	}
	return s
}

// points is a signed part of all, in percent with two decimals.
func points(x float64) string { return strconv.FormatFloat(100*x, 'f', 2, 64) + "%" }

// amount is a number of what is spent, with its unit.
func (doc *Deployed) amount(x float64) string {
	if doc.Unit != "s" || math.IsNaN(x) {
		return Count(x)
	}
	for _, u := range []struct {
		least float64
		name  string
	}{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}} {
		if x > 0 && round3(x) >= u.least {
			return Ratio(x/u.least) + " " + u.name
		}
	}
	return Count(x*1e9) + " ns"
}
