package optimize

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/feedback"
	"backfeed/infer"
)

// A job is one run of a target.
type job struct {
	*Target
	opt    Options
	config *Config
	notify report.Notify
	doc    *report.OptimizeTarget

	dir   string    // where commands run
	work  string    // where builds lie
	until time.Time // that the budget lasts; zero is for ever
	next  int       // number of the next directory below work

	streaming bool // the target's recordings are added to all the time

	base      *stage
	sampled   *stage            // the base with what candidates need of a build to be sampled
	stages    map[string]*stage // by steps
	printed   string            // sum of what the base prints; "" where that differs from run to run
	took      time.Duration     // of processor time, by a run of the base
	limit     time.Duration     // of a candidate's runs
	testLimit time.Duration     // and of its tests
}

// A stage is a program in a directory of its own, and what is known of how it runs.
type stage struct {
	dir    string // which its tree lies in, if it has one
	binary string
	flags  flags
	sum    string // of the binary
	holds  []string
	notes  []string // what was left out

	session *input.Session // what ran, once it was recorded
	image   *infer.ImageProfile
}

// profile is what ran of the program, which was inferred.
func (s *stage) profile() (*infer.ImageProfile, error) {
	if s.image == nil {
		return nil, errors.New("nothing was recorded of it")
	}
	return s.image, nil
}

// close lets go of what the stages hold.
func (j *job) close() {
	all := []*stage{j.base, j.sampled}
	for _, s := range j.stages {
		all = append(all, s)
	}
	for _, s := range all {
		if s != nil && s.session != nil {
			s.session.Close()
			s.session = nil
		}
	}
}

// newDir makes a directory for a program. All have paths of one length: what a program finds above its stack, its own path among
// it, moves the stack, and with it how fast it is.
func (j *job) newDir() (string, error) {
	j.next++
	dir := filepath.Join(j.work, fmt.Sprintf("%03d", j.next))
	return dir, os.Mkdir(dir, 0o700)
}

// build builds the program with flags, in a copy of its tree if the command does not say where it goes.
func (j *job) build(ctx context.Context, f flags) (*stage, error) {
	for _, text := range []string{f.compile, f.link} {
		if !plain.MatchString(text) {
			return nil, fmt.Errorf("flags %q are none for a shell", text)
		}
	}
	dir, err := j.newDir()
	if err != nil {
		return nil, err
	}
	s := &stage{dir: dir, flags: f, binary: filepath.Join(dir, j.programName())}
	if j.Binary != "" {
		s.binary = filepath.Join(j.builtIn(s), j.Binary)
	}
	if f.counters != nil {
		err = j.byCounters(ctx, s)
	} else {
		err = j.make(ctx, s, &s.flags, nil)
	}
	if err != nil {
		return nil, err
	}
	s.sum, err = sumOf(s.binary)
	return s, err
}

// make makes the program of a stage, whose directory is empty. What the build says goes to said, if that is not nil.
func (j *job) make(ctx context.Context, s *stage, f *flags, said io.Writer) error {
	if err := j.copyFor(s); err != nil {
		return err
	}
	return j.compile(ctx, s, f, said)
}

// copyFor copies the tree to where a stage is built, if that is not the tree itself.
func (j *job) copyFor(s *stage) error {
	if j.Binary == "" {
		return nil
	}
	if err := copyTree(j.dir, j.builtIn(s)); err != nil {
		return fmt.Errorf("copying %s: %w", j.dir, err)
	}
	return nil
}

// builtIn is the directory that the build of a stage runs in: that of the target, or a copy.
func (j *job) builtIn(s *stage) string {
	if j.Binary == "" {
		return j.dir
	}
	return filepath.Join(s.dir, "tree")
}

// compile runs the build of a stage with flags, which it changes where the compiler calls one otherwise.
func (j *job) compile(ctx context.Context, s *stage, f *flags, said io.Writer) error {
	build := func() error {
		_, err := command{what: "build", text: filled(j.Build, s.binary, *f), dir: j.builtIn(s), said: said}.run(ctx)
		return err
	}
	err := build()
	if err != nil && strings.Contains(fail.Text(err), unknownToRustc) && strings.Contains(f.compile, linesForRustc) {
		f.compile = strings.ReplaceAll(f.compile, linesForRustc, newLinesForRustc)
		err = build()
	}
	if err != nil {
		return err
	}
	if st, err := os.Stat(s.binary); err != nil || !st.Mode().IsRegular() {
		made := j.Binary
		if made == "" {
			made = binaryHere
		}
		return fail.Errorf(fail.Usage, "build `%s` made no file %s", j.Build, made)
	}
	return nil
}

// How rustc is asked for line information that is good for profiles: until 1.97, and since. Which rustc a build takes only its answer tells.
const (
	linesForRustc    = "-Zdebug-info-for-profiling"
	newLinesForRustc = "-Zdebuginfo-for-profiling"
	unknownToRustc   = "unknown unstable option: `debug-info-for-profiling`"
)

// programName is what a program is called that a build may put anywhere.
func (j *job) programName() string {
	if j.Binary != "" {
		return filepath.Base(j.Binary)
	}
	return filepath.Base(j.Output)
}

// beside makes a stage with everything of another but its program, which is to be at the returned stage's path.
func (j *job) beside(from *stage) (*stage, error) {
	dir, err := j.newDir()
	if err != nil {
		return nil, err
	}
	s := &stage{dir: dir, flags: from.flags, holds: from.holds, notes: slices.Clone(from.notes)}
	if j.Build == "" || j.Binary == "" {
		s.binary = filepath.Join(dir, j.programName())
		return s, nil
	}
	if err := copyTree(j.builtIn(from), j.builtIn(s)); err != nil {
		return nil, err
	}
	s.binary = filepath.Join(j.builtIn(s), j.Binary)
	return s, os.Remove(s.binary)
}

// begin makes the base, and sees that it works.
func (j *job) begin(ctx context.Context) (err error) {
	if j.Build != "" {
		j.notify.Progress("building %s", j.Name)
		if j.base, err = j.build(ctx, flags{}); err != nil {
			return err
		}
	} else {
		path := input.Under(j.dir, j.Binary)[0]
		info, err := os.Stat(path)
		if err != nil {
			return fail.Errorf(fail.Usage, "binary: %s: %w", j.Binary, fail.Cause(err))
		}
		if !info.Mode().IsRegular() {
			return fail.Errorf(fail.Usage, "binary: %s is no file", j.Binary)
		}
		if j.base, err = j.beside(&stage{}); err != nil {
			return err
		}
		if err := copyFile(path, j.base.binary, info); err != nil {
			return err
		}
		if j.base.sum, err = sumOf(j.base.binary); err != nil {
			return err
		}
	}
	j.doc.Base = report.OptimizeProgram{SHA256: j.base.sum}
	return nil
}

// shortestRun is the processor time below which a run measures little but its start.
var shortestRun = 20 * time.Millisecond

// A candidate's runs may take so much longer than the base's, and any run so much.
const patience = 10

var patienceLeast = 10 * time.Second

// tryBase runs and tests the base.
func (j *job) tryBase(ctx context.Context) error {
	j.notify.Progress("running %s as it is", j.Name)
	var sums [2]string
	var took usage
	for i := range sums {
		out := filepath.Join(j.work, "printed")
		u, err := command{what: "run", text: filled(j.Run, j.base.binary, flags{}), dir: j.dir, stdout: out}.run(ctx)
		if err != nil {
			return err
		}
		if sums[i], err = sumOf(out); err != nil {
			return err
		}
		took.processor, took.wall = max(took.processor, u.processor), max(took.wall, u.wall)
	}
	if took.processor < shortestRun {
		return fail.Errorf(fail.Usage, "run `%s` takes %v of processor time, most of which is its start: have it do more", j.Run, took.processor.Round(time.Millisecond))
	}
	j.took = took.processor
	j.limit = patienceLeast + patience*took.wall
	j.doc.Base.Seconds = took.processor.Seconds()
	if st, err := os.Stat(filepath.Join(j.work, "printed")); err != nil {
		return err
	} else if st.Size() == 0 && j.Test == "" {
		return fail.Errorf(fail.Usage, "run `%s` prints nothing to standard output, so that it does not show that a program works: have it print there what it did, or name a command that shows it, as test", j.Run)
	}
	if sums[0] == sums[1] {
		j.printed = sums[0]
		j.doc.Checked = append(j.doc.Checked, "what run prints")
	} else if j.Test == "" {
		return fail.Errorf(fail.Usage, "run `%s` prints something else each time, so that it does not show that a program works: name a command that does, as test", j.Run)
	}
	if j.Test == "" {
		return nil
	}
	j.doc.Checked = append(j.doc.Checked, "test")
	u, err := command{what: "test", text: filled(j.Test, j.base.binary, flags{}), dir: j.dir}.run(ctx)
	if err != nil {
		return fmt.Errorf("the program as it is fails: %w", err)
	}
	j.testLimit = patienceLeast + patience*u.wall
	return nil
}

// errWrong is that a candidate does not do what the base does.
var errWrong = errors.New("it does not do what the old program does")

// works runs and tests a program as the base was.
func (j *job) works(ctx context.Context, s *stage) error {
	out := filepath.Join(j.work, "printed")
	if _, err := (command{what: "run", text: filled(j.Run, s.binary, flags{}), dir: j.dir, stdout: out, limit: j.limit}).run(ctx); err != nil {
		return j.wrong(ctx, err)
	}
	if j.printed != "" {
		sum, err := sumOf(out)
		if err != nil {
			return err
		}
		if sum != j.printed {
			return fmt.Errorf("%w: run prints something else", errWrong)
		}
	}
	if j.Test == "" {
		return nil
	}
	_, err := command{what: "test", text: filled(j.Test, s.binary, flags{}), dir: j.dir, limit: j.testLimit}.run(ctx)
	return j.wrong(ctx, err)
}

// wrong is what a failed run or test of a candidate means, unless all was to end.
func (j *job) wrong(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %w", errWrong, err)
}

// record records a program, unless its target names recordings that it is to be built with, and infers what ran.
func (j *job) record(ctx context.Context, s *stage, sources bool) error {
	if s.session != nil {
		return nil
	}
	var err error
	if sources && len(j.Sources) > 0 {
		s.session, err = j.read(ctx, s)
	} else {
		s.session, err = j.recorded(ctx, s)
	}
	if err != nil {
		return err
	}
	if err := s.session.InferOnly(ctx, s.binary); err != nil {
		if r := j.doc.Recording; r != nil && r.Program == 0 {
			err = fail.Errorf(fail.KindOf(err), "no sample is of the program: see that run starts %s, and does not replace or copy it", binaryHere)
		}
		return err
	}
	if s.image, err = s.session.Image(s.binary); err == nil && s == j.sampled {
		j.doc.Recording.Hot = feedback.HotFunctions(s.image)
	}
	return err
}

// read adds up the recordings that the target names, and moves samples of other builds onto the program.
func (j *job) read(ctx context.Context, s *stage) (*input.Session, error) {
	opt := input.Options{Symfs: input.Under(j.config.Dir, j.Builds...), SymfsAs: "builds", Images: []string{s.binary}, Infer: infer.Options{Executions: true}, Notify: report.Quiet{}}
	if j.Since > 0 {
		opt.Since = j.opt.Now.Add(-j.Since)
	}
	sources, err := input.Expand(j.config.Dir, j.Sources, false)
	if err != nil {
		return nil, err
	}
	session, err := input.Merge(ctx, sources, input.MergeOptions{}, opt)
	if err != nil {
		return nil, err
	}
	if _, err := session.Onto(s.binary, j.Recorded); err != nil {
		session.Close()
		return nil, err
	}
	j.tellRecording(session.Recording, s)
	return session, nil
}

// stage makes the program of some steps.
func (j *job) stage(ctx context.Context, c Candidate) (*stage, error) {
	if len(c) == 0 {
		return j.sampled, nil
	}
	if s := j.stages[c.String()]; s != nil {
		return s, nil
	}
	from, err := j.stage(ctx, c[:len(c)-1])
	if err != nil {
		return nil, err
	}
	name := c[len(c)-1]
	if !steps[name].blind {
		if err := j.record(ctx, from, len(c) == 1); err != nil {
			return nil, err
		}
	}
	j.notify.Progress("building %s with %s", j.Name, c)
	s, err := j.apply(ctx, name, from)
	if err != nil {
		return nil, err
	}
	j.stages[c.String()] = s
	return s, nil
}

// method names how candidates are made: where it is another, what was done before is done again. 2: pgo of gcc is by counters.
const method = "2"

// key says what a result depends on that is here: the program as it is built, what the target says, and recordings that it names. Where
// these are of a store or an address, only what is in them says whether they are as they were.
func (j *job) key() (string, error) {
	h := sha256.New()
	said, err := json.Marshal(j.Target)
	if err != nil {
		return "", err
	}
	for _, part := range []string{Schema, method, string(said), j.base.sum} {
		h.Write([]byte(strconv.Quote(part)))
	}
	if len(j.Sources) > 0 {
		sources, err := input.Expand(j.config.Dir, j.Sources, false)
		if err != nil {
			return "", err
		}
		for _, s := range sources {
			sum, err := sumOf(s.Path)
			if err != nil {
				j.streaming = true
				continue
			}
			h.Write([]byte(sum))
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
