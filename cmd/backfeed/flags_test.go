package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"backfeed/cmd/internal/flagset"
	"backfeed/internal/testtool"
)

// placeholders are all words that help has for values of flags, and what each stands for.
var placeholders = map[string]string{
	"ID": "of a build", "branch": "of a repository", "change": "a share, more or less than before", "N": "a number", "HZ": "samples per second", "PID": "a process", "URL": "of pprof", "SRC": "a source of samples",
	"CMD": "of a shell", "cause": "of a stall", "dir": "a directory", "file": "a file", "duration": "a length of time", "host:port": "to listen at",
	"name": "of an event, model or procedure", "name=value": "a label", "part": "of the work", "path": "of an image or cgroup", "percent": "a share", "size": "bytes",
	"share": "of 1", "from,to": "two points in time, or how long after the first sample", "time": "a point in time", "word": "one of those listed",
}

// eachFlag calls f for all flags of all commands.
func eachFlag(t *testing.T, f func(cmd *command, flags *flagset.Set, flag *pflag.Flag)) {
	n := 0
	for _, cmd := range everyCommand() {
		flags := flagsOf(cmd)
		flags.VisitAll(func(flag *pflag.Flag) { n++; f(cmd, flags, flag) })
	}
	if n < 150 {
		t.Errorf("only %d flags", n)
	}
}

// TestPlaceholders: what help calls a value is a word for values, not a piece of the sentence around it.
func TestPlaceholders(t *testing.T) {
	seen := map[string]bool{}
	eachFlag(t, func(cmd *command, _ *flagset.Set, f *pflag.Flag) {
		name := flagset.Placeholder(f)
		seen[name] = true
		_, isChoice := f.Value.(*flagset.Choice)
		switch {
		case f.Value.Type() == "bool" && name == "":
		case placeholders[name] == "":
			t.Errorf("%s --%s: %q is no placeholder: %s", cmd.name, f.Name, name, f.Usage)
		case isChoice != (name == "word"):
			t.Errorf("%s --%s: %q for a choice (%v)", cmd.name, f.Name, name, isChoice)
		}
	})
	for name := range placeholders {
		if !seen[name] {
			t.Errorf("no flag takes a %s", name)
		}
	}
}

// TestDefaults: help names no default that nobody could type.
func TestDefaults(t *testing.T) {
	for _, cmd := range everyCommand() {
		help := helpText(cmd, flagsOf(cmd), 80)
		if m := regexp.MustCompile(`\(default (\[\]|""|0s|)\)`).FindString(help); m != "" {
			t.Errorf("help %s says %q", cmd.name, m)
		}
	}
	eachFlag(t, func(cmd *command, _ *flagset.Set, f *pflag.Flag) {
		def := f.DefValue
		if def == "" || def == "[]" || f.Value.Type() == "bool" {
			return
		}
		fresh := flagsOf(cmd) // as nobody has set it
		if err := fresh.Set(f.Name, def); err != nil && !(f.Value.Type() == "int" && def == "0") {
			t.Errorf("%s --%s: its default %q cannot be given: %v", cmd.name, f.Name, def, err)
		}
	})
}

// valueFor returns two values that a flag takes.
func valueFor(t *testing.T, cmd *command, f *pflag.Flag) [2]string {
	if v, ok := f.Value.(*flagset.Choice); ok {
		return [2]string{v.Of[0], v.Of[len(v.Of)-1]}
	}
	values := map[string][2]string{
		"int": {"3", "4"}, "uint64": {"3", "4"}, "intSlice": {"3", "4"}, "string": {"a", "b"}, "stringArray": {"a", "b"}, "stringSlice": {"a", "b"},
		"bool": {"true", "false"}, "duration": {"2s", "3s"}, "time": {"2s", "3s"}, "percent": {"2%", "3%"}, "share": {"2%", "3%"}, "size": {"2K", "3K"}, "name=value": {"a=b", "c=d"}, "change": {"-2%", "3%"}, "callers": {"no", "16"}, "part": {"0/2", "1/2"}, "from,to": {"1s,2s", "2s,"},
	}
	two, ok := values[f.Value.Type()]
	if !ok {
		t.Errorf("%s --%s: values of type %s", cmd.name, f.Name, f.Value.Type())
	}
	return two
}

// TestGivenTwice: of two values of a flag none is lost: it is a list, or refuses the second.
func TestGivenTwice(t *testing.T) {
	lists := map[string]bool{}
	eachFlag(t, func(cmd *command, _ *flagset.Set, f *pflag.Flag) {
		two := valueFor(t, cmd, f)
		fs := flagsOf(cmd)
		fs.Warn = t.Logf
		err := fs.Parse([]string{"--" + f.Name + "=" + two[0], "--" + f.Name + "=" + two[1]})
		list, isList := fs.Lookup(f.Name).Value.(interface{ GetSlice() []string })
		switch {
		case !isList && (err == nil || !strings.Contains(err.Error(), "is given twice")):
			t.Errorf("%s --%s keeps one of two values: %v", cmd.name, f.Name, err)
		case isList && (err != nil || !slices.Equal(list.GetSlice(), two[:])):
			t.Errorf("%s --%s, a list, of %q is %q (%v)", cmd.name, f.Name, two, list.GetSlice(), err)
		case isList:
			lists[f.Name] = true
		}
	})
	for _, name := range []string{"symfs", "source", "label", "pid", "event", "cgroup", "holdout", "samples"} {
		if !lists[name] {
			t.Errorf("--%s is no list anywhere", name)
		}
	}
}

// TestZeroValues: 0 is a number of lines (all) and a limit of check (none); of all else it is neither nothing nor
// everything, nor the default, but refused.
func TestZeroValues(t *testing.T) {
	takes := map[string]bool{"lines": true, "min-samples": true}
	byCommand := map[string]string{ // what says no where the flag itself does not
		"export --depth": "x.bfr", "record --frequency": "-- x", "pgo --frequency": "-- x", "agent --frequency": "", "record --period": "--event cycles -- x", "verify --runs": "x --truth x",
		"emit gcc --gcc-version": "x.bfr", "infer --places": "x.bfr",
	}
	checked := map[string]bool{}
	eachFlag(t, func(cmd *command, _ *flagset.Set, f *pflag.Flag) {
		switch f.Value.Type() {
		case "duration", "size", "percent":
			fs := flagsOf(cmd)
			fs.Warn = t.Logf
			if err := fs.Parse([]string{"--" + f.Name + "=0"}); err == nil || !strings.Contains(err.Error(), "above 0") {
				t.Errorf("%s --%s takes 0: %v", cmd.name, f.Name, err)
			}
		case "int", "uint64":
			name := cmd.name + " --" + f.Name
			rest, ok := byCommand[name]
			if takes[f.Name] || f.Hidden {
				return
			}
			if checked[name] = true; !ok {
				t.Errorf("%s: what does it say to 0?", name)
				return
			}
			args := append(append(strings.Fields(cmd.name), "--"+f.Name+"=0"), strings.Fields(rest)...)
			if code, _, errs := runCLI(t, args...); code != exitUsage || !strings.Contains(errs, "want ") {
				t.Errorf("%q: exit code %d, %s", args, code, errs)
			}
		}
	})
	for name := range byCommand {
		if !checked[name] {
			t.Errorf("%s is no flag of a number", name)
		}
	}
}

// TestWrongValues: what a flag does not take is answered in the words of people, with an example.
func TestWrongValues(t *testing.T) {
	inner := regexp.MustCompile(`strconv|ParseInt|missing unit|invalid (argument|syntax|duration)|unknown unit|Atoi|time:`)
	eachFlag(t, func(cmd *command, flags *flagset.Set, f *pflag.Flag) {
		for _, value := range []string{"", "no such", "5x", "-", "99999999999999999999999", "-3"} {
			fs := flagsOf(cmd)
			fs.Warn = t.Logf
			err := fs.Parse([]string{"--" + f.Name + "=" + value})
			if err != nil && (inner.MatchString(err.Error()) || !strings.Contains(err.Error(), ": want ")) {
				t.Errorf("%s --%s=%s: %v", cmd.name, f.Name, value, err)
			}
			if err == nil && f.Value.Type() != "string" && !strings.HasPrefix(f.Value.Type(), "stringA") && !strings.HasPrefix(f.Value.Type(), "stringS") && !(f.Value.Type() == "intSlice" && value == "") {
				t.Errorf("%s --%s takes %q", cmd.name, f.Name, value)
			}
		}
		if f.NoOptDefVal == "" {
			err := flagsOf(cmd).Parse([]string{"--" + f.Name})
			if err == nil || !strings.Contains(err.Error(), "want ") {
				t.Errorf("%s --%s without a value: %v", cmd.name, f.Name, err)
			}
		}
	})
}

// TestAliases: old names of flags do what the new ones do, say so, and stand in no help.
func TestAliases(t *testing.T) {
	for _, tt := range []struct{ cmd, old, now string }{
		{"agent", "events", "event"}, {"record", "events", "event"}, {"whatcg", "stall", "cause"}, {"diff", "consumer", "for"}, {"check", "min-shape", "min-known"},
		{"import", "image", "binary"}, {"list", "all", "unfolded"}, {"report", "procedures", "lines"},
	} {
		cmd := find(commands, tt.cmd)
		fs := flagsOf(cmd)
		var said string
		fs.Warn = func(format string, args ...any) { said += strings.ReplaceAll(format, "%s", "·") }
		value := valueFor(t, cmd, fs.Lookup(tt.now))[1]
		if err := fs.Parse([]string{"--" + tt.old + "=" + value}); err != nil || !strings.Contains(fs.Lookup(tt.now).Value.String(), value) || !fs.Changed(tt.now) || said == "" {
			t.Errorf("%s --%s %s: %v, --%s is %s, said %q", tt.cmd, tt.old, value, err, tt.now, fs.Lookup(tt.now).Value, said)
		}
		if help := helpText(cmd, flagsOf(cmd), 80); strings.Contains(help, "--"+tt.old+" ") {
			t.Errorf("help of %s has --%s", tt.cmd, tt.old)
		}
	}
	dir := t.TempDir()
	counts, truth := testtool.Write(t, dir, "counts.json", countsJSON), testtool.Write(t, dir, "truth.json", truthJSON)
	_, want, _ := runCLI(t, "verify", counts, "--truth", truth)
	if code, out, errs := runCLI(t, "verify", counts, truth); code != exitDone || out != want || !strings.Contains(errs, "named by --truth FILE now") {
		t.Errorf("verify COUNTS TRUTH: exit code %d: %s", code, errs)
	}
	eachFlag(t, func(cmd *command, _ *flagset.Set, f *pflag.Flag) {
		if f.Hidden != (f.Annotations[flagset.AliasKey] != nil) {
			t.Errorf("%s --%s is hidden, and no old name", cmd.name, f.Name)
		}
	})
}

// TestOneName: one thing has one name in all commands.
func TestOneName(t *testing.T) {
	for _, cmd := range everyCommand() {
		fs := flagsOf(cmd)
		for _, old := range []string{"events", "stall", "consumer"} {
			if f := fs.Lookup(old); f != nil && !f.Hidden {
				t.Errorf("%s has --%s", cmd.name, old)
			}
		}
		if strings.Contains(cmd.args, "TRUTH") || strings.Contains(cmd.args, "FORMAT") {
			t.Errorf("%s takes %s", cmd.name, cmd.args)
		}
	}
}

// TestSameFlags: flags of one name take one kind of value in all commands, and letters are of one flag.
func TestSameFlags(t *testing.T) {
	lists := map[string]bool{"event": true, "source": true} // where several can be taken, and where one alone
	kinds, letters := map[string]string{}, map[string]string{}
	eachFlag(t, func(cmd *command, _ *flagset.Set, f *pflag.Flag) {
		if f.Hidden {
			return
		}
		kind := flagset.Placeholder(f) + " " + f.Shorthand
		if cmd == emitGCDACmd && f.Name == "output" {
			kind = "file o" // it writes many, below a directory
		}
		if !lists[f.Name] {
			kind += " " + f.Value.Type()
		}
		if was, ok := kinds[f.Name]; ok && was != kind {
			t.Errorf("%s --%s takes %q, elsewhere %q", cmd.name, f.Name, kind, was)
		}
		kinds[f.Name] = kind
		if was, ok := letters[f.Shorthand]; f.Shorthand != "" && ok && was != f.Name {
			t.Errorf("%s -%s is --%s, elsewhere --%s", cmd.name, f.Shorthand, f.Name, was)
		}
		letters[f.Shorthand] = f.Name
	})
}

// TestNearFlags: a flag that is not there is told from those that are near.
func TestNearFlags(t *testing.T) {
	for line, want := range map[string]string{
		"prof --lable a=b x": "did you mean --label?", "layout --start x y": "did you mean --startup?", "prof --nothing x": "unknown flag: --nothing\n", "prof -Q x": "'Q' in -Q\n",
	} {
		if code, _, errs := runCLI(t, strings.Fields(line)...); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d: %s", line, code, errs)
		}
	}
}

// TestOptional: each value that may be left out may follow its flag; where it was taken for a command, an error says how it is given.
func TestOptional(t *testing.T) {
	n := 0
	eachFlag(t, func(cmd *command, flags *flagset.Set, f *pflag.Flag) {
		if f.NoOptDefVal == "" || f.Value.Type() == "bool" {
			return
		}
		n++
		want := "--" + f.Name + "=" + f.NoOptDefVal
		if got := flags.Joined([]string{"--" + f.Name, f.NoOptDefVal}); len(got) != 1 || got[0] != want {
			t.Errorf("%s --%s %s: %v", cmd.name, f.Name, f.NoOptDefVal, got)
		}
	})
	if n < 8 {
		t.Errorf("%d flags have a value that may be left out", n)
	}
	const hint = "--callers takes its value as --callers=go"
	for args, want := range map[string]bool{"record -a --callers go": true, "record -p 1 --callers go -d 8s": true, "record -a --callers ls": false, "record -a go --callers": false} {
		if code, _, errs := runCLI(t, strings.Fields(args)...); code != exitUsage || strings.Contains(errs, hint) != want {
			t.Errorf("%s: exit code %d: %s", args, code, errs)
		}
	}
}

// TestJoined: a value that may be left out may follow its flag, where it is one.
func TestJoined(t *testing.T) {
	for _, tt := range []struct{ cmd, args, want string }{
		{"record", "--calibrate 3% prog", "--calibrate=3% prog"},
		{"record", "--calibrate prog 3%", "--calibrate prog 3%"},
		{"record", "--calibrate -- 3%", "--calibrate -- 3%"},
		{"record", "-F 99 --calibrate 0.5 -- prog --calibrate 3%", "-F 99 --calibrate=0.5 -- prog --calibrate 3%"},
		{"record", "prog --calibrate 3%", "prog --calibrate 3%"},
		{"record", "--calibrate-log --calibrate 3% prog", "--calibrate-log --calibrate 3% prog"},
		{"record", "-aF 99 --calibrate 3%", "-aF 99 --calibrate=3%"},
		{"record", "-F99 --calibrate 3%", "-F99 --calibrate=3%"},
		{"layout", "app a.bfr --startup 200ms", "app a.bfr --startup=200ms"},
		{"layout", "--startup app a.bfr", "--startup app a.bfr"},
		{"layout", "app a.bfr --startup", "app a.bfr --startup"},
		{"layout", "app --fluff --startup=1s 200ms", "app --fluff --startup=1s 200ms"},
		{"agent", "--keep-images debug", "--keep-images=debug"},
		{"agent", "--keep-images --retain 3d", "--keep-images --retain 3d"},
		{"record", "-p 1 --callers all -d 8s", "-p 1 --callers=all -d 8s"},
		{"record", "--callers 16 prog 16", "--callers=16 prog 16"},
		{"record", "--callers go test", "--callers go test"},
		{"agent", "--callers go", "--callers=go"},
		{"import", "--callers no perf.data", "--callers=no perf.data"},
		{"merge", "--callers go perf.data", "--callers go perf.data"},
	} {
		if got := strings.Join(flagsOf(find(commands, tt.cmd)).Joined(strings.Fields(tt.args)), " "); got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.cmd, tt.args, got, tt.want)
		}
	}
}
