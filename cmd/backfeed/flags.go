package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
)

// A flagSet is the flags of the command that runs.
type flagSet struct {
	*pflag.FlagSet
	interspersed bool                 // flags may follow arguments
	warn         func(string, ...any) // nil for those of a command that does not run
}

// SetInterspersed says whether flags may follow arguments.
func (fs *flagSet) SetInterspersed(may bool) {
	fs.interspersed = may
	fs.FlagSet.SetInterspersed(may)
}

// flags starts the flag set of the running command.
func (c *cli) flags() *flagSet {
	c.fs = &flagSet{FlagSet: pflag.NewFlagSet(c.cmd.name, pflag.ContinueOnError), interspersed: true, warn: c.warn}
	c.fs.SortFlags = false
	c.fs.Usage = func() {}
	c.fs.SetOutput(io.Discard)
	return c.fs
}

// Parse reads the flags of a command line. A flag that is no list is not given twice.
func (fs *flagSet) Parse(args []string) error {
	err := fs.ParseAll(fs.joined(args), fs.set)
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
		return fs.unknown(unknown)
	}
	if without := (*pflag.ValueRequiredError)(nil); errors.As(err, &without) {
		f := without.GetFlag()
		return fmt.Errorf("%s: %s", flagName(f), wanted(f, nil))
	}
	if err != nil {
		return err
	}
	for _, name := range []string{"format", "for"} {
		if f := fs.Lookup(name); f != nil && (f.Value.String() == "json" || f.Value.String() == "csv") {
			return fs.refuse("JSON and CSV have both names of a procedure", "mangled")
		}
	}
	return nil
}

// set sets a flag.
func (fs *flagSet) set(f *pflag.Flag, value string) error {
	if now := fs.Lookup(strings.Join(f.Annotations[aliasKey], "")); now != nil {
		fs.warn("--%s is --%s now; the old name will go", f.Name, now.Name)
		f = now
	}
	if f.Changed && !isList(f) {
		return fmt.Errorf("%s is given twice", flagName(f))
	}
	if kind := f.Value.Type(); (kind == "int" || kind == "intSlice") && strings.HasPrefix(value, "-") { // no flag takes such
		return fmt.Errorf("%s %s: %s", flagName(f), value, wanted(f, nil))
	}
	err := fs.Set(f.Name, value)
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
		return fmt.Errorf("%s %s: %s", flagName(f), value, wanted(f, invalid.Unwrap()))
	}
	return err
}

// refuse returns an error if one of these flags was given, which would have no effect: why says what it needs.
func (fs *flagSet) refuse(why string, names ...string) error {
	for _, name := range names {
		if fs.Changed(name) {
			return fmt.Errorf("%s has no effect: %s", flagName(fs.Lookup(name)), why)
		}
	}
	return nil
}

// isList reports whether a flag adds up what it is given.
func isList(f *pflag.Flag) bool {
	_, ok := f.Value.(interface{ GetSlice() []string })
	return ok
}

// flagName is how people call a flag.
func flagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand + ", --" + f.Name
	}
	return "--" + f.Name
}

// wanted says what a flag takes: err does if it is not nil, and not of a package that knows only types.
func wanted(f *pflag.Flag, err error) string {
	switch f.Value.Type() {
	case "int", "uint64":
		return "want a whole number, such as 20"
	case "intSlice":
		return "want whole numbers, such as 1234 or 1234,5678"
	case "bool":
		return "want no value"
	}
	if err != nil {
		return err.Error()
	}
	switch f.Value.Type() {
	case "duration":
		_, err = parseTimeSpan("", false)
	case "percent":
		err = new(share).Set("")
	case "size":
		err = new(size).Set("")
	case "share":
		err = new(fraction).Set("")
	case "name=value":
		err = new(labels).Set("")
	case "word":
		err = f.Value.Set("\x00")
	default:
		return "want a " + placeholder(f)
	}
	return err.Error()
}

// unknown is the error of a flag that is not there, with those it may have meant.
func (fs *flagSet) unknown(err *pflag.NotExistError) error {
	name := err.GetSpecifiedName()
	var near []string
	fs.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && len(name) > 1 && (strings.HasPrefix(f.Name, name) || len(name) > 3 && distance(f.Name, name) <= 2) {
			near = append(near, "--"+f.Name)
		}
	})
	if len(near) > 0 {
		return fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
	}
	return err
}

// joined joins flags whose value may be left out with the value that follows them, where it is one:
// --calibrate 3% means what --calibrate=3% does.
func (fs *flagSet) joined(args []string) []string {
	var all []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		all = append(all, arg)
		if arg == "--" || !strings.HasPrefix(arg, "-") && !fs.interspersed {
			return append(all, args[i+1:]...)
		}
		f := fs.lastOf(arg)
		switch {
		case f == nil || i+1 == len(args):
		case f.NoOptDefVal == "":
			i++
			all = append(all, args[i])
		default:
			if v, ok := f.Value.(interface{ accepts(string) bool }); ok && v.accepts(args[i+1]) {
				i++
				all[len(all)-1] = arg + "=" + args[i]
			}
		}
	}
	return all
}

// lastOf returns the flag that an argument ends with, to which the next may belong; nil if there is none.
func (fs *flagSet) lastOf(arg string) *pflag.Flag {
	if name, ok := strings.CutPrefix(arg, "--"); ok {
		return fs.Lookup(name) // none with its value
	}
	if !strings.HasPrefix(arg, "-") {
		return nil
	}
	for i := 1; i < len(arg); i++ {
		f := fs.ShorthandLookup(arg[i : i+1])
		if f == nil || f.NoOptDefVal == "" && i+1 < len(arg) { // the rest is its value
			return nil
		}
		if i+1 == len(arg) {
			return f
		}
	}
	return nil
}

// aliasKey is the annotation of a flag that has another name now.
const aliasKey = "backfeed_alias"

// alias keeps an old name of a flag, for a release.
func (fs *flagSet) alias(old, now string) {
	f := *fs.Lookup(now)
	f.Name, f.Shorthand, f.Hidden = old, "", true
	f.Annotations = map[string][]string{aliasKey: {now}}
	fs.AddFlag(&f)
}

// flagsOf returns the flags of a command that does not run: it is asked for its help, which nobody reads.
func flagsOf(cmd *command) *flagSet {
	c := &cli{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, cmd: cmd}
	if err := cmd.run(c, []string{"--help"}); err != nil || c.fs == nil {
		return &flagSet{FlagSet: pflag.NewFlagSet(cmd.name, pflag.ContinueOnError), interspersed: true}
	}
	return c.fs
}

// usage answers a command line that could not be parsed (err) or has the wrong
// number of arguments (nil). A request for help is no error.
func (c *cli) usage(err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		c.help(c.stdout)
		return nil
	}
	if err == nil {
		err = errors.New("wrong number of arguments: want " + c.operands())
	}
	return fail.Wrap(fail.Usage, fail.Lines(fmt.Errorf("%s: %w", c.cmd.name, err),
		fmt.Sprintf("usage: %s (`backfeed help %s` says more)", c.cmd.synopsis(), c.cmd.name)))
}

// Groups of flags that several commands have. Help shows them after a command's own.
const (
	sourceFlags    = "Sources"
	inferenceFlags = "Inference"
	outputFlags    = "Output"
	limitFlags     = "Limits" // of check
)

var flagGroups = []string{limitFlags, sourceFlags, inferenceFlags, outputFlags}

// groupKey is the annotation of a flag that names its group.
const groupKey = "backfeed_group"

// grouped puts the flags that define defines into a group.
func (fs *flagSet) grouped(group string, define func()) {
	known := map[string]bool{}
	fs.VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	define()
	fs.VisitAll(func(f *pflag.Flag) {
		if !known[f.Name] {
			fs.SetAnnotation(f.Name, groupKey, []string{group})
		}
	})
}

// inGroup returns the flags of a group, those of none for "".
func (fs *flagSet) inGroup(group string) *pflag.FlagSet {
	part := pflag.NewFlagSet(group, pflag.ContinueOnError)
	part.SortFlags = false
	fs.VisitAll(func(f *pflag.Flag) {
		if strings.Join(f.Annotations[groupKey], "") == group {
			part.AddFlag(f)
		}
	})
	return part
}

// A choice is a flag that takes one of a few words.
type choice struct {
	value string
	of    []string
}

// choice defines a flag whose first word is the default.
func (c *cli) choice(name, usage string, of ...string) *choice {
	v := &choice{value: of[0], of: of}
	c.fs.Var(v, name, usage+": "+strings.Join(of, ", "))
	return v
}

func (v *choice) words() []string       { return v.of }
func (v *choice) accepts(s string) bool { return slices.Contains(v.of, s) }
func (v *choice) String() string        { return v.value }
func (v *choice) Type() string          { return "word" }
func (v *choice) Set(s string) error {
	if !slices.Contains(v.of, s) {
		return fmt.Errorf("want %s", strings.Join(v.of, " or "))
	}
	v.value = s
	return nil
}

// format defines the flag of commands that print a table.
func (c *cli) format() (v *choice) {
	c.fs.grouped(outputFlags, func() { v = c.choice("format", "how to print", "text", "json", "csv", "markdown") })
	return v
}

// names defines the flag of commands that name procedures.
func (c *cli) names() {
	c.fs.grouped(outputFlags, func() {
		c.fs.BoolVar(&c.mangled, "mangled", false, "name procedures as the linker does")
	})
}

// print writes a result to file path in the format that was asked for: doc as JSON,
// rows (a struct or a slice of them) as CSV, and what text writes as text or Markdown.
func (c *cli) print(path string, format *choice, doc, rows any, text func(io.Writer, report.Style) error) error {
	switch format.value {
	case "json":
		return c.writeJSON(path, doc)
	case "csv":
		return c.write(path, func(w io.Writer) error { return report.WriteCSV(w, rows) })
	}
	style := c.style(path)
	if format.value == "markdown" {
		style = report.Style{Markdown: true, Mangled: c.mangled}
	}
	return c.writeText(path, style, text)
}

// operands are what the running command needs, as its usage line has them.
func (c *cli) operands() string {
	needed, _, _ := strings.Cut(c.cmd.args, "[")
	if needed = strings.TrimSpace(needed); needed == "" {
		return "none"
	}
	return needed
}
