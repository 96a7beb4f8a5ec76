package optimize

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"backfeed/cmd/internal/emit"
	"backfeed/cmd/internal/prose"
)

// boltOptions are what llvm-bolt is asked to do.
var boltOptions = []string{"-reorder-blocks=ext-tsp", "-reorder-functions=cdsort", "-split-functions"}

// mostBolts, mostSkipped and mostNamed bound what is tried where llvm-bolt fails, or what it makes: runs of it, functions to be found
// that it is to leave alone, and those that it names.
const mostBolts, mostSkipped, mostNamed = 30, 3, 12

// bolt rewrites the program of a stage. Functions that llvm-bolt names as what it cannot take are left as they are. Where it cannot
// all the same, or its result does not work, it does so without splitting functions; or else the functions that it fails with are
// looked for, and left as they are, too.
func (j *job) bolt(ctx context.Context, from *stage) (*stage, error) {
	tool, err := program(llvmBolt...)
	if err != nil {
		return nil, err
	}
	fdata := filepath.Join(from.dir, "app.fdata")
	holds, err := j.emit(fdata, emit.BOLT, from, emit.Options{})
	if err != nil {
		return nil, err
	}
	s, err := j.beside(from)
	if err != nil {
		return nil, err
	}
	s.holds = append(s.holds, holds...)
	funcs, err := fdataFunctions(fdata)
	if err != nil {
		return nil, err
	}
	runs := 0
	var named []string
	try := func(skip []string, without string) error { // nil if it works
		if runs++; runs > mostBolts {
			return errTooMany
		}
		return j.boltOnce(ctx, tool, fdata, from, s, slices.Concat(named, skip), without)
	}
	for {
		err = try(nil, "")
		name := cannotTake(err)
		if name == "" || slices.Contains(named, name) || len(named) == mostNamed || ctx.Err() != nil {
			break
		}
		named = append(named, name)
	}
	if len(named) > 0 {
		s.notes = append(s.notes, "llvm-bolt left alone what it says that it cannot take: "+strings.Join(named, ", "))
	}
	if err == nil || ctx.Err() != nil {
		return j.bolted(s, err)
	}
	whole := err
	// Splitting is what it fails with most, and of a loop that a program spends its time in the least part of what it brings.
	const option = "-split-functions"
	if err := try(nil, option); err == nil || ctx.Err() != nil {
		s.notes = append(s.notes, fmt.Sprintf("without %s, with which llvm-bolt fails: %v", option, firstLine(whole.Error())))
		return j.bolted(s, err)
	}
	j.notify.Progress("%s: looking for what llvm-bolt fails with", j.Name)
	if skip, ok := culprits(funcs, mostSkipped, func(skip []string) error { return try(skip, "") }); ok && ctx.Err() == nil {
		s.notes = append(s.notes, fmt.Sprintf("llvm-bolt left %s alone, with which it fails: %v", strings.Join(skip, ", "), firstLine(whole.Error())))
		return j.bolted(s, nil) // the last that was tried
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, whole
}

// untakeable is how llvm-bolt names a function that it has to leave alone, such as one of computed gotos
// (bolt/test/AArch64/computed-goto.s): by one of its names, and how many others it has.
var untakeable = regexp.MustCompile(`BOLT-ERROR: .* in function (\S+?)(?:\(\*\d+\))?\. Consider adding this function to --skip-funcs`)

// cannotTake returns the function that llvm-bolt, which ended so, says that it cannot take; "" if it names none.
func cannotTake(err error) string {
	if err == nil {
		return ""
	}
	if m := untakeable.FindStringSubmatch(err.Error()); m != nil {
		return m[1]
	}
	return ""
}

// errTooMany is that a search has tried enough.
var errTooMany = errors.New("not found within the bound")

func (j *job) bolted(s *stage, err error) (*stage, error) {
	if err == nil {
		s.sum, err = sumOf(s.binary)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// boltOnce runs llvm-bolt without some functions and one of its options, and sees that the result works.
func (j *job) boltOnce(ctx context.Context, tool, fdata string, from, to *stage, skip []string, without string) error {
	words := []string{tool, from.binary, "-o", to.binary, "-data", fdata}
	for _, o := range boltOptions {
		if o != without {
			words = append(words, o)
		}
	}
	if len(skip) > 0 {
		list := filepath.Join(to.dir, "skip.txt")
		var text strings.Builder
		for _, name := range skip {
			text.WriteString(regexp.QuoteMeta(name) + "\n") // which llvm-bolt reads as an expression
		}
		if err := os.WriteFile(list, []byte(text.String()), 0o600); err != nil {
			return err
		}
		words = append(words, "-skip-funcs-file="+list)
	}
	os.Remove(to.binary)
	for i, w := range words {
		words[i] = prose.ShellWord(w)
	}
	if _, err := (command{what: "llvm-bolt", tool: true, text: strings.Join(words, " "), dir: to.dir}).run(ctx); err != nil {
		return err
	}
	return j.works(ctx, to)
}

// culprits returns functions, few of them, without which works succeeds, which it does not with all. It asks for the shortest part of
// the list, from its begin, with which it fails when all that follow are skipped: the last of that part is one of them.
func culprits(funcs []string, most int, works func(skip []string) error) (skip []string, ok bool) {
	bad := map[string]bool{}
	skipFrom := func(n int) []string { // those found, and all from the n-th on
		var all []string
		for i, f := range funcs {
			if bad[f] || i >= n {
				all = append(all, f)
			}
		}
		return all
	}
	for range most {
		low, high := 0, len(funcs) // works of low functions, fails of high
		if err := works(skipFrom(0)); err != nil {
			return nil, false // it is none of them
		}
		for high-low > 1 {
			mid := (low + high) / 2
			switch err := works(skipFrom(mid)); {
			case errors.Is(err, errTooMany):
				return nil, false
			case err == nil:
				low = mid
			default:
				high = mid
			}
		}
		if high == 0 {
			return nil, false
		}
		bad[funcs[high-1]] = true
		skip = append(skip, funcs[high-1])
		if err := works(skipFrom(len(funcs))); err == nil {
			return skip, true
		} else if errors.Is(err, errTooMany) {
			return nil, false
		}
	}
	return nil, false
}

// fdataFunctions are the functions that a profile for llvm-bolt names as where branches come from, in its order, each once: fields of a
// line are 1 if a function's name follows, the name, the offset, the same of where it leads, and counts.
func fdataFunctions(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []string
	seen := map[string]bool{}
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		fields := strings.Fields(sc.Text())
		if len(fields) < 3 || fields[0] != "1" {
			continue
		}
		name := strings.ReplaceAll(fields[1], `\ `, " ")
		if !seen[name] {
			seen[name] = true
			all = append(all, name)
		}
	}
	return all, sc.Err()
}
