package optimize

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/output"
	"backfeed/cmd/internal/report"
	"backfeed/feedback"
)

// Options say how to run.
type Options struct {
	Targets []string // names of those to do; nil is all
	DryRun  bool     // put nothing in place
	Again   bool     // also what was done with the same program before
	Now     time.Time
	Notify  report.Notify
}

// Schema names the form of a report: optimize.schema.json of cmd/backfeed.
const Schema = "backfeed.optimize/1"

// Run makes the programs of targets faster, one after the other, and says what became of each. Its error is of those that
// failed; the report is there with it too. Where ctx ends, nothing is left but what was put in place before.
func Run(ctx context.Context, c *Config, opt Options) (*report.Optimize, error) {
	for _, name := range opt.Targets {
		if !slices.ContainsFunc(c.Targets, func(t *Target) bool { return t.Name == name }) {
			return nil, fail.Errorf(fail.Usage, "no target %q in the configuration", name)
		}
	}
	doc := &report.Optimize{Schema: Schema, DryRun: opt.DryRun, Targets: []report.OptimizeTarget{}}
	var failures []error
	for _, t := range c.Targets {
		if len(opt.Targets) > 0 && !slices.Contains(opt.Targets, t.Name) {
			continue
		}
		did := report.OptimizeTarget{Name: t.Name}
		j := &job{Target: t, opt: opt, config: c, notify: opt.Notify, doc: &did, stages: map[string]*stage{}}
		err := j.run(ctx)
		j.notify.Done()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			did.State, did.Reason = report.OptimizeFailed, j.says(err)
			failures = append(failures, fail.Errorf(fail.KindOf(err), "%s: %s", t.Name, firstLine(did.Reason))) // the report has all of it
		}
		doc.Add(did)
	}
	return doc, fail.Join(failures)
}

// run does all of a target. Its directory goes in the end, whatever happens.
func (j *job) run(ctx context.Context) error {
	j.dir = input.Under(j.config.Dir, j.Dir)[0]
	var err error
	if j.dir, err = filepath.Abs(j.dir); err != nil {
		return err
	}
	if st, err := os.Stat(j.dir); err != nil || !st.IsDir() {
		return fail.Errorf(fail.Usage, "dir: %s is no directory", j.Dir)
	}
	work, done, err := newWork()
	if err != nil {
		return err
	}
	defer done()
	defer j.close()
	j.work = work
	if j.Budget > 0 {
		j.until = time.Now().Add(j.Budget)
	}
	if err := j.begin(ctx); err != nil {
		return err
	}
	if j.doc.Key, err = j.key(); err != nil {
		return err
	}
	if before := j.before(); before != nil && !j.opt.Again {
		same := !j.streaming
		if !same {
			if same, err = j.alike(ctx, before); err != nil {
				return err
			}
		}
		if same {
			*j.doc = *before
			j.doc.State = report.OptimizeUnchanged
			return nil
		}
	}
	if err := j.checkOutputs(); err != nil {
		return err
	}
	if err := j.tryBase(ctx); err != nil {
		return err
	}
	all := j.candidates(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	best, err := j.choose(ctx, all)
	if err != nil {
		return err
	}
	if best == nil {
		best = j.base
	}
	if err := j.countAll(ctx, all); err != nil {
		return err
	}
	return j.keep(best)
}

// says is what an error says, without the directory that goes in the end.
func (j *job) says(err error) string { return j.without([]string{fail.Text(err)})[0] }

// without takes the directories of programs out of texts: they are others each time.
func (j *job) without(texts []string) []string {
	if j.work == "" {
		return texts
	}
	of := regexp.MustCompile(regexp.QuoteMeta(j.work) + `/([0-9]{3}/(tree/)?)?`)
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = of.ReplaceAllString(text, "")
	}
	return all
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// A tried is a candidate that works.
type tried struct {
	row  int // in the document
	made *stage
}

// candidates makes all candidates, and returns those that work. What became of each is in the document.
func (j *job) candidates(ctx context.Context) []tried {
	var todo []int
	for _, c := range j.Try {
		row := report.OptimizeCandidate{Name: c.String(), State: report.CandidateSkipped}
		if row.Why = j.unmet(c); row.Why == "" {
			todo = append(todo, len(j.doc.Candidates))
		}
		j.doc.Candidates = append(j.doc.Candidates, row)
	}
	if len(todo) == 0 {
		return nil
	}
	err := j.makeSampled(ctx)
	var all []tried
	for _, i := range todo {
		row := &j.doc.Candidates[i]
		var s *stage
		failed := err
		if failed == nil && j.over() {
			row.Why = fmt.Sprintf("the budget of %v was spent before", j.Budget)
			continue
		}
		if failed == nil {
			s, failed = j.stage(ctx, j.Try[i])
		}
		if failed == nil {
			row.Holds, row.Notes = j.without(s.holds), j.without(s.notes)
			failed = j.works(ctx, s)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(failed, errWrong):
			row.State, row.Why = report.CandidateWrong, j.says(failed)
		case failed != nil:
			row.Why = j.says(failed)
		default:
			row.State = report.CandidateMeasured
			row.SHA256 = s.sum
			all = append(all, tried{i, s})
		}
	}
	return all
}

// makeSampled makes the program that is recorded: the base, with what candidates need of it.
func (j *job) makeSampled(ctx context.Context) (err error) {
	if j.sampled != nil {
		return nil
	}
	f := j.sampledFlags(slices.DeleteFunc(slices.Clone(j.Try), func(c Candidate) bool { return j.unmet(c) != "" })...)
	if f == (flags{}) || j.Build == "" {
		j.sampled = j.base
		return nil
	}
	j.notify.Progress("building %s for being recorded", j.Name)
	if j.sampled, err = j.build(ctx, f); err != nil {
		return fmt.Errorf("with what recordings need (%s): %w", strings.TrimSpace(f.compile+" "+f.link), err)
	}
	return nil
}

// alike reports whether what ran since is what the result before was made of.
func (j *job) alike(ctx context.Context, before *report.OptimizeTarget) (bool, error) {
	r := before.Recording
	if r == nil || len(r.Hot) == 0 {
		return false, nil
	}
	if err := j.makeSampled(ctx); err != nil {
		return false, err
	}
	if err := j.record(ctx, j.sampled, true); err != nil {
		return false, err
	}
	now := j.doc.Recording
	return report.NewDecisionDiff("optimize", feedback.DecideFunctions(r.Hot, float64(r.Program)), feedback.DecideFunctions(now.Hot, float64(now.Program))).Alike(), nil
}

// over reports whether the budget is spent.
func (j *job) over() bool { return !j.until.IsZero() && time.Now().After(j.until) }

// choose measures candidates, and then the best of them against the base, by runs of their own: the best of several owes
// part of that to chance. It returns nil where none is clearly better.
func (j *job) choose(ctx context.Context, all []tried) (*stage, error) {
	if len(all) == 0 {
		return nil, nil
	}
	programs := []*stage{j.base}
	for _, c := range all {
		programs = append(programs, c.made)
	}
	times, all, err := j.measure(ctx, programs, all, max(leastPairs, j.pairs()/2))
	if err != nil {
		return nil, err
	}
	best := -1
	for i, c := range all {
		row := &j.doc.Candidates[c.row]
		row.First = measured(times.Against(i + 1))
		if best < 0 || row.First.Median < j.doc.Candidates[all[best].row].First.Median {
			best = i
		}
	}
	if best < 0 {
		return nil, nil
	}
	c := all[best]
	row := &j.doc.Candidates[c.row]
	if row.First.Median >= 1 {
		return nil, nil
	}
	if times, all, err = j.measure(ctx, []*stage{j.base, c.made}, []tried{c}, j.pairs()); err != nil || len(all) == 0 {
		return nil, err
	}
	decided := times.Against(1)
	row.Decided = measured(decided)
	j.doc.Base.Seconds = median(times.Of[0]).Seconds()
	row.Seconds = median(times.Of[1]).Seconds()
	if noise, ok := times.Noise(); ok {
		j.doc.Noise = measured(noise)
	}
	if !decided.Better() {
		return nil, nil
	}
	j.doc.Kept = row.Name
	row.State = report.CandidateKept
	return c.made, nil
}

// pairs are as many as the target wants, or else more where they take little time.
func (j *job) pairs() int {
	if j.Pairs > 0 {
		return j.Pairs
	}
	return min(max(int(comparedFor.Seconds()/(2*j.took.Seconds())), usualPairs), manyPairs)
}

func measured(c Comparison) *report.OptimizeRatio {
	return &report.OptimizeRatio{Pairs: c.Pairs, Median: c.Median, Low: c.Low, High: c.High}
}

// measure runs programs by turns, of which those of all follow the base. A candidate that fails meanwhile, or prints something
// else, is out, and the others begin again.
func (j *job) measure(ctx context.Context, programs []*stage, all []tried, rounds int) (*Times, []tried, error) {
	out := filepath.Join(j.work, "printed")
	for {
		bad, before, own := 0, loadNow(), time.Duration(0)
		times, err := Alternate(len(programs), rounds, func(i, round int) (time.Duration, error) {
			j.notify.Progress("measuring %s: round %d of %d", j.Name, round+1, rounds)
			limit := time.Duration(0)
			if i > 0 {
				limit = j.limit
			}
			u, err := command{what: "run", text: filled(j.Run, programs[i].binary, flags{}), dir: j.dir, stdout: out, limit: limit}.run(ctx)
			own += u.processor
			if err == nil && j.printed != "" {
				sum, failed := sumOf(out)
				if failed != nil {
					return 0, failed
				}
				if sum != j.printed {
					err = errors.New("run printed something else than before")
				}
			}
			if err != nil {
				bad = i
			}
			return u.processor, err
		})
		switch {
		case err == nil:
			j.doc.Machine = before.since(loadNow(), own)
			return times, all, nil
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case bad == 0:
			return nil, nil, fmt.Errorf("the program as it is: %w", err)
		}
		row := &j.doc.Candidates[all[bad-1].row]
		row.State, row.Why = report.CandidateWrong, j.says(fmt.Errorf("%w: in some runs: %w", errWrong, err))
		programs, all = slices.Delete(programs, bad, bad+1), slices.Delete(all, bad-1, bad)
		if len(all) == 0 {
			return nil, nil, nil
		}
	}
}

// countAll has callgrind count the base and what was measured, if the target names a run for it.
func (j *job) countAll(ctx context.Context, all []tried) error {
	if j.Count == "" {
		return nil
	}
	j.notify.Progress("counting instructions of %s", j.Name)
	counts, err := j.count(ctx, j.base)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		j.doc.Notes = append(j.doc.Notes, "not counted: "+report.Brief(j.says(err)))
		return nil
	}
	j.doc.Base.Counts = counts
	for _, c := range all {
		row := &j.doc.Candidates[c.row]
		j.notify.Progress("counting instructions of %s with %s", j.Name, row.Name)
		if row.Counts, err = j.count(ctx, c.made); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			row.Notes = append(row.Notes, "not counted: "+report.Brief(j.says(err)))
		}
	}
	return nil
}

// keep puts a program at its place, and beside it what was done.
func (j *job) keep(s *stage) error {
	j.doc.Output, j.doc.SHA256 = filepath.ToSlash(j.Output), s.sum
	j.doc.State = report.OptimizeKeptOld
	if s != j.base {
		j.doc.State = report.OptimizeBetter
	}
	if j.opt.DryRun {
		return nil
	}
	to := j.under(j.Output)
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	f, err := os.Open(s.binary)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := output.WriteProgram(to, func(w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	}); err != nil {
		return err
	}
	text, err := json.MarshalIndent(report.Optimize{Schema: Schema, Targets: []report.OptimizeTarget{*j.doc}}, "", "  ")
	if err != nil {
		return err
	}
	return output.WriteFile(j.under(j.Report), nil, append(text, '\n'))
}

// checkOutputs sees that what keep makes can be made, before the program is recorded and measured for it.
func (j *job) checkOutputs() error {
	if j.opt.DryRun {
		return nil
	}
	for _, path := range []string{j.Output, j.Report} {
		if err := output.CheckBelow(j.under(path)); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) under(path string) string { return input.Under(j.config.Dir, path)[0] }

// before returns what was done with this program before, if what it made is still in place; nil if there is nothing.
func (j *job) before() *report.OptimizeTarget {
	text, err := os.ReadFile(j.under(j.Report))
	if err != nil || j.doc.Key == "" {
		return nil
	}
	var doc report.Optimize
	if err := json.Unmarshal(text, &doc); err != nil || doc.Schema != Schema || len(doc.Targets) != 1 || doc.Targets[0].Key != j.doc.Key {
		return nil
	}
	sum, err := sumOf(j.under(j.Output))
	if err != nil || sum != doc.Targets[0].SHA256 {
		return nil
	}
	return &doc.Targets[0]
}
