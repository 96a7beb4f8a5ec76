package optimize

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"backfeed/cmd/internal/emit"
	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/layout"
)

// flags are what a build is given: those of the compiler, those that it has where it links, and counters of what a stage ran,
// which gcc is given by files for each object.
type flags struct {
	compile, link string
	counters      *stage
}

// and returns f with more behind it, each word once.
func (f flags) and(more flags) flags {
	return flags{words(f.compile, more.compile), words(f.link, more.link), cmp.Or(f.counters, more.counters)}
}

func words(texts ...string) string {
	var all []string
	for _, text := range texts {
		for _, w := range strings.Fields(text) {
			if !slices.Contains(all, w) {
				all = append(all, w)
			}
		}
	}
	return strings.Join(all, " ")
}

// A step is something that is done with a program by what is known of how it ran.
type step struct {
	compilers []string // that can; "" is without a build
	rewrites  bool     // the finished program, in place of building it again
	links     bool     // it has flags for the link
	// sampled are the flags that the build before needs, which is what is sampled.
	sampled func(t *Target) flags
	// missing says what this machine lacks for it; "" is nothing.
	missing func(t *Target) string
	blind   bool // nothing has to be recorded for it
	// profile writes what the compiler or linker reads into the directory of a stage, and returns the flags that name it
	// and what is in it. nil is nothing.
	profile func(j *job, from *stage) (flags, []string, error)
}

// stepNames are the names of steps, as help has them.
var stepNames = []string{"pgo", "afdo", "order", "bolt", "propeller", "align", "huge-pages"}

// usualCandidates are what is tried of a program where its target does not say, by its compiler.
var usualCandidates = map[string][]string{
	"go":    {"pgo"},
	"clang": {"pgo", "order", "bolt", "propeller", "pgo+bolt"},
	"gcc":   {"pgo", "afdo", "order", "bolt", "pgo+bolt"},
	"rustc": {"pgo", "order", "bolt", "pgo+bolt"},
	"":      {"bolt"},
}

var compiled = []string{"clang", "gcc", "rustc"}

var linesForGCC = flags{compile: "-g"}

var steps map[string]*step

func init() { // they refer to functions that refer to them
	steps = map[string]*step{
		"pgo": {
			compilers: Compilers,
			sampled: func(t *Target) flags {
				return map[string]flags{
					"clang": {compile: "-g -fdebug-info-for-profiling"},
					"gcc":   linesForGCC,
					// cargo strips what its release profile does not ask for, lines among it, unless told otherwise after its own flags.
					"rustc": {compile: "-Cdebuginfo=1 -Cstrip=none " + linesForRustc + " -Csymbol-mangling-version=v0"},
				}[t.Compiler]
			},
			profile: profilePGO,
		},
		"afdo": {
			compilers: []string{"gcc"},
			sampled:   func(*Target) flags { return linesForGCC },
			profile:   profileLines,
		},
		"order": {
			compilers: compiled, links: true,
			sampled: func(t *Target) flags {
				f := t.linking(emit.LinkBy(t.linkerName(), t.Compiler == "rustc")...)
				if t.Compiler != "rustc" { // which gives each function a section by itself
					f.compile = "-ffunction-sections"
				}
				return f
			},
			missing: func(t *Target) string {
				switch {
				case t.linkerName() != "lld" || t.Compiler == "rustc": // which brings its own, or takes that of cc
					return ""
				case t.Compiler == "gcc": // which finds it by this name
					return lacking(lld[0])
				}
				return lacking(lld...)
			},
			profile: profileOrder,
		},
		"bolt": {
			compilers: []string{"clang", "gcc", "rustc", ""}, rewrites: true, links: true,
			sampled: func(t *Target) flags {
				f := t.linking("-Wl,--emit-relocs")
				if t.Compiler == "gcc" {
					f.compile = "-fno-reorder-blocks-and-partition"
				}
				return f
			},
			missing: func(*Target) string { return lacking(llvmBolt...) },
		},
		"propeller": {
			compilers: []string{"clang"}, links: true,
			sampled: func(*Target) flags {
				return flags{compile: "-fbasic-block-address-map", link: "-fuse-ld=lld"}
			},
			missing: func(*Target) string { return lacking(lld...) },
			profile: profilePropeller,
		},
		"align": {
			compilers: compiled, blind: true,
			profile: func(j *job, _ *stage) (flags, []string, error) {
				if j.Compiler == "rustc" {
					return flags{compile: "-Cllvm-args=-align-all-functions=6 -Cllvm-args=-align-loops=32"}, nil, nil
				}
				return flags{compile: "-falign-functions=64 -falign-loops=32"}, nil, nil
			},
		},
		"huge-pages": {
			compilers: compiled, links: true, blind: true,
			profile: func(j *job, _ *stage) (flags, []string, error) {
				return j.linking("-Wl,-z,max-page-size=2097152", "-Wl,-z,separate-code"), nil, nil
			},
		},
	}
}

// Names of programs, of which the first that is there is used.
var (
	llvmBolt = []string{"llvm-bolt", "llvm-bolt-19", "/usr/lib/llvm-19/bin/llvm-bolt"}
	lld      = []string{"ld.lld", "ld.lld-19", "/usr/lib/llvm-19/bin/ld.lld"}
)

// lacking says that none of these programs is here; "" if one is.
func lacking(names ...string) string {
	if _, err := program(names...); err != nil {
		return err.Error()
	}
	return ""
}

// program returns the path of the first of these programs that is here.
func program(names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no %s here", names[0])
}

// sampledFlags are those that the builds of some candidates need for being sampled, each once.
func (t *Target) sampledFlags(candidates ...Candidate) (f flags) {
	for _, c := range candidates {
		for _, name := range c {
			if s := steps[name]; s.sampled != nil {
				f = f.and(s.sampled(t))
			}
		}
	}
	return f
}

// linkerName is who reads an order of functions.
func (t *Target) linkerName() string {
	switch {
	case t.Linker != "":
		return t.Linker
	case t.Compiler == "gcc":
		return "ld-script" // GNU ld of any version
	}
	return "lld"
}

// linking are flags for the linker, of which rustc is told among its own.
func (t *Target) linking(options ...string) flags {
	if t.Compiler != "rustc" {
		return flags{link: words(options...)}
	}
	var f flags
	for _, o := range options {
		f.compile = words(f.compile, "-Clink-arg="+o)
	}
	return f
}

// profilePGO makes a profile for the compiler, or has gcc be given counters, of which it makes more than of a profile.
func profilePGO(j *job, from *stage) (flags, []string, error) {
	if j.Compiler == "gcc" {
		return flags{counters: from}, nil, nil
	}
	return profileLines(j, from)
}

// profileLines makes a profile of lines for the compiler.
func profileLines(j *job, from *stage) (flags, []string, error) {
	format := map[string]struct {
		write emit.Format
		file  string
		flag  string
	}{
		"go":    {emit.Go, "default.pgo", "-pgo="},
		"clang": {emit.LLVM, "app.prof", "-fprofile-sample-use="},
		"gcc":   {emit.GCC, "app.afdo", emit.NoTracer + " -fauto-profile="},
		"rustc": {emit.LLVM, "app.prof", "-Cllvm-args=-sample-profile-use-profi -Zprofile-sample-use="},
	}[j.Compiler]
	path := filepath.Join(from.dir, format.file)
	holds, err := j.emit(path, format.write, from, emit.Options{})
	return flags{compile: format.flag + path}, holds, err
}

// profilePropeller makes the order of blocks for clang, and that of functions for lld.
func profilePropeller(j *job, from *stage) (flags, []string, error) {
	blocks, order := filepath.Join(from.dir, "blocks.txt"), filepath.Join(from.dir, "propeller-order.txt")
	holds, err := j.emit(blocks, emit.Propeller, from, emit.Options{LD: order, Write: writeTo})
	return flags{compile: "-fbasic-block-sections=list=" + blocks, link: "-Wl,--symbol-ordering-file=" + order + " -Wl,--no-warn-symbol-ordering"}, holds, err
}

// profileOrder makes an order of functions for the linker.
func profileOrder(j *job, from *stage) (flags, []string, error) {
	linker := j.linkerName()
	ip, err := from.profile()
	if err != nil {
		return flags{}, nil, err
	}
	if err := emit.Unordered(linker, ip.Image); err != nil {
		return flags{}, nil, err
	}
	order := layout.Functions(ip)
	order.Beside(from.session.Profile.Images)
	order.Settle(nil)
	format, ok := order.Sections(ip.Image).Format(linker)
	if !ok || len(order.Symbols) == 0 {
		return flags{}, nil, fail.Errorf(fail.Nothing, "no function that a linker could move ran: %d ran without a symbol of the program's own", order.Unnamed)
	}
	gain := order.Gain()
	if gain.Worse() {
		return flags{}, nil, emit.Unclear(ip.ID, linker, gain)
	}
	path := filepath.Join(from.dir, "order.txt")
	link := []string{emit.OrderOption(linker, path)}
	if linker == "lld" {
		link = append(link, "-Wl,--no-warn-symbol-ordering")
	}
	return j.linking(link...), []string{emit.Ordered(ip.ID, order, gain)}, writeTo(path, format.Write)
}

// emit writes a profile of what a stage ran.
func (j *job) emit(path string, write emit.Format, from *stage, opt emit.Options) (holds []string, err error) {
	ip, err := from.profile()
	if err != nil {
		return nil, err
	}
	opt.Image = emit.NameOf(ip.ID)
	err = writeTo(path, func(w io.Writer) (err error) {
		holds, err = write(w, from.session, opt)
		return err
	})
	return holds, err
}

// writeTo makes a file of the directory that goes in the end.
func writeTo(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// apply makes the program of a candidate's last step out of the stage before. Where gcc cannot be given counters, it is given a profile of lines.
func (j *job) apply(ctx context.Context, name string, from *stage) (*stage, error) {
	s := steps[name]
	if s.rewrites {
		return j.bolt(ctx, from)
	}
	next, err := j.rebuild(ctx, s.profile, from)
	if err == nil || ctx.Err() != nil || name != "pgo" || j.Compiler != "gcc" {
		return next, err
	}
	j.notify.Progress("building %s with lines, as it cannot be by counters", j.Name)
	why := err
	if next, err = j.rebuild(ctx, profileLines, from); err != nil {
		return nil, fmt.Errorf("%w; and by counters: %w", err, why)
	}
	next.notes = append(next.notes, "by lines, as afdo: it could not be by counters: "+report.Brief(j.says(why)))
	return next, nil
}

// rebuild builds the program of a stage again, by what profile makes of how it ran.
func (j *job) rebuild(ctx context.Context, profile func(*job, *stage) (flags, []string, error), from *stage) (*stage, error) {
	f, holds, err := profile(j, from)
	if err != nil {
		return nil, err
	}
	next, err := j.build(ctx, from.flags.and(f))
	if err != nil {
		return nil, err
	}
	if f.counters != nil {
		holds = next.holds
	}
	next.holds, next.notes = slices.Concat(from.holds, holds), slices.Clone(from.notes)
	if next.sum == from.sum {
		return nil, fmt.Errorf("the build with it made the same program: see that %s reaches every compilation, and %s the link", flagsHere, ldflagsHere)
	}
	return next, nil
}

// unmet says what a candidate lacks on this machine; "" is nothing.
func (t *Target) unmet(c Candidate) string {
	lacks := map[string]bool{}
	for _, name := range c {
		if s := steps[name]; s.missing != nil {
			if what := s.missing(t); what != "" {
				lacks[what] = true
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(lacks)), ", ")
}
