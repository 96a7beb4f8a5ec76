package flagset

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// A Set is the flags of a command.
type Set struct {
	*pflag.FlagSet
	Warn  func(format string, args ...any) // what takes notices, of an old name of a flag; nil if nothing is parsed
	Check func() error                     // says, once a command line was read, what is wrong with it as a whole; may be nil

	interspersed bool   // flags may follow arguments
	unjoined     string // the flag, with the value, of a value that was taken for what follows the flags; "" is none
}

// New returns a set without flags, of the command of that name.
func New(name string) *Set {
	fs := &Set{FlagSet: pflag.NewFlagSet(name, pflag.ContinueOnError), interspersed: true}
	fs.SortFlags = false
	fs.Usage = func() {}
	fs.SetOutput(io.Discard)
	return fs
}

// SetInterspersed says whether flags may follow arguments.
func (fs *Set) SetInterspersed(may bool) {
	fs.interspersed = may
	fs.FlagSet.SetInterspersed(may)
}

// Interspersed reports whether flags may follow arguments.
func (fs *Set) Interspersed() bool { return fs.interspersed }

// Parse reads the flags of a command line. A flag that is no list is not given twice. A flag that is not there
// is pflag's NotExistError, and a request for help its ErrHelp.
func (fs *Set) Parse(args []string) error {
	err := fs.ParseAll(fs.Joined(args), fs.set)
	if without := (*pflag.ValueRequiredError)(nil); errors.As(err, &without) {
		f := without.GetFlag()
		return fmt.Errorf("%s: %s", flagName(f), wanted(f, nil))
	}
	if err == nil && fs.Check != nil {
		err = fs.Check()
	}
	return err
}

// set sets a flag.
func (fs *Set) set(f *pflag.Flag, value string) error {
	if now := fs.Lookup(strings.Join(f.Annotations[AliasKey], "")); now != nil {
		fs.Warn("--%s is --%s now; the old name will go", f.Name, now.Name)
		f = now
	}
	if f.Changed && !IsList(f) {
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

// Refuse returns an error if one of these flags was given, which would have no effect: why says what it needs.
func (fs *Set) Refuse(why string, names ...string) error {
	for _, name := range names {
		if fs.Changed(name) {
			return fmt.Errorf("%s has no effect: %s", flagName(fs.Lookup(name)), why)
		}
	}
	return nil
}

// IsList reports whether a flag adds up what it is given.
func IsList(f *pflag.Flag) bool {
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
		_, err = ParseTimeSpan("", false)
	case "percent":
		err = new(Share).Set("")
	case "size":
		err = new(Size).Set("")
	case "share":
		err = new(Fraction).Set("")
	case "name=value":
		err = new(labels).Set("")
	case "word":
		err = f.Value.Set("\x00")
	default:
		return "want a " + Placeholder(f)
	}
	return err.Error()
}

// An optional is a value that may be left out: then an argument that follows the flag belongs to it if it is accepted.
type optional interface{ Accepts(string) bool }

// A program is a value some of which are names of programs, too. Where a command follows the flags, such an argument begins that.
type program interface{ Program(string) bool }

// Hint says how a value is given that was taken for the beginning of a command; "" if there was none.
func (fs *Set) Hint() string {
	if fs.unjoined == "" {
		return ""
	}
	name, _, _ := strings.Cut(fs.unjoined, "=")
	return name + " takes its value as " + fs.unjoined
}

// Joined joins flags whose value may be left out with the value that follows them, where it is one:
// --calibrate 3% means what --calibrate=3% does.
func (fs *Set) Joined(args []string) []string {
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
			v, ok := f.Value.(optional)
			if !ok || !v.Accepts(args[i+1]) {
				continue
			}
			if p, ok := f.Value.(program); ok && p.Program(args[i+1]) && !fs.interspersed {
				fs.unjoined = arg + "=" + args[i+1]
				continue
			}
			i++
			all[len(all)-1] = arg + "=" + args[i]
		}
	}
	return all
}

// lastOf returns the flag that an argument ends with, to which the next may belong; nil if there is none.
func (fs *Set) lastOf(arg string) *pflag.Flag {
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

// AliasKey is the annotation of a flag that has another name now.
const AliasKey = "backfeed_alias"

// Alias keeps an old name of a flag, for a release.
func (fs *Set) Alias(old, now string) {
	f := *fs.Lookup(now)
	f.Name, f.Shorthand, f.Hidden = old, "", true
	f.Annotations = map[string][]string{AliasKey: {now}}
	fs.AddFlag(&f)
}

// groupKey is the annotation of a flag that names its group.
const groupKey = "backfeed_group"

// Grouped puts the flags that define defines into a group.
func (fs *Set) Grouped(group string, define func()) {
	known := map[string]bool{}
	fs.VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	define()
	fs.VisitAll(func(f *pflag.Flag) {
		if !known[f.Name] {
			fs.SetAnnotation(f.Name, groupKey, []string{group})
		}
	})
}

// InGroup returns the flags of a group, those of none for "".
func (fs *Set) InGroup(group string) *pflag.FlagSet {
	part := pflag.NewFlagSet(group, pflag.ContinueOnError)
	part.SortFlags = false
	fs.VisitAll(func(f *pflag.Flag) {
		if strings.Join(f.Annotations[groupKey], "") == group {
			part.AddFlag(f)
		}
	})
	return part
}

// Placeholder returns what help calls the value of a flag; "" if it takes none.
func Placeholder(f *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(f)
	return name
}
