// Command backfeed turns PC samples of running programs into what compilers and
// linkers read to build them better. Each subcommand is one file: a thin shell
// around the packages that do the work. Flags, paths and exit codes live here
// and nowhere else; `backfeed help` lists the subcommands.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/sample/collect"
)

// A commandGroup is commands that help lists below one title.
type commandGroup struct {
	title    string
	commands []*command
}

// commandGroups are the subcommands in the order in which help lists them.
var commandGroups = []commandGroup{
	{"To begin with", []*command{demoCmd, doctorCmd, pgoCmd, optimizeCmd}},
	{"To record, and keep recordings", []*command{recordCmd, agentCmd, receiveCmd, storeCmd, importCmd, mergeCmd}},
	{"To see where the time went", []*command{imagesCmd, profCmd, listCmd, topstallsCmd, whatcgCmd, statsCmd, serveCmd, reportCmd}},
	{"To know how often code ran", []*command{inferCmd, verifyCmd}},
	{"To build with it", []*command{checkCmd, diffCmd, verdictCmd, refreshCmd, fetchCmd, emitCmd, layoutCmd, exportCmd}},
	{"About backfeed", []*command{helpCmd, completionCmd, versionCmd}},
}

// commands are all subcommands.
var commands = ungrouped(commandGroups)

func ungrouped(groups []commandGroup) (all []*command) {
	for _, g := range groups {
		all = append(all, g.commands...)
	}
	return all
}

func main() {
	collect.BecomeProber()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is main without the process: it returns the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	c := &cli{stdin: stdin, stdout: stdout, stderr: stderr, commands: commands, groups: commandGroups}
	defer func() {
		// The last resort: whatever went wrong, the user gets a sentence.
		if p := recover(); p != nil {
			c.crashed(p)
			code = exitFailed
		}
	}()
	err := c.dispatch(args)
	c.clearProgress()
	if err == nil {
		return exitDone
	}
	c.say(fmt.Sprintf("backfeed: %s\n", fail.Text(err)))
	if u := (*collect.Unavailable)(nil); errors.As(err, &u) {
		c.verifierLog(u)
	}
	return codeOf(err)
}

// verifierLog prints what the kernel's verifier says of a program that it refuses, which is long, on demand.
func (c *cli) verifierLog(u *collect.Unavailable) {
	if u.Log != "" && os.Getenv(collect.VerifierVar) != "" {
		fmt.Fprintln(c.stderr, u.Log)
	}
}

// crashed tells of a panic. The trace is long and says nothing to most users,
// so it is shown on demand.
func (c *cli) crashed(p any) {
	c.clearProgress()
	fmt.Fprintf(c.stderr, "backfeed: internal error: %s\n", report.Clean(fmt.Sprint(p)))
	if os.Getenv("BACKFEED_TRACE") != "" {
		c.stderr.Write(debug.Stack())
		return
	}
	fmt.Fprintln(c.stderr, "This is a mistake in backfeed, whatever the input. To report it, run the command again with\n"+
		"BACKFEED_TRACE=1 set, and send what it prints, the output of `backfeed version` and, if you can, the input.")
}

var versionCmd = &command{
	name: "version", short: "say which backfeed this is", run: runVersion,
}

func runVersion(c *cli, args []string) error {
	fs := c.flags()
	if err := fs.Parse(args); err != nil || fs.NArg() > 0 {
		return c.usage(err)
	}
	fmt.Fprintf(c.stdout, "backfeed %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

// version is the module's version, or the revision that it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	setting := make(map[string]string)
	for _, s := range info.Settings {
		setting[s.Key] = s.Value
	}
	v := "(devel)"
	if r := setting["vcs.revision"]; r != "" {
		v += " " + r[:min(12, len(r))]
	}
	if setting["vcs.modified"] == "true" {
		v += "+modified"
	}
	return v
}

// unknown is the error for a command that is not there, with those it may have meant; isTopic says that it may
// have been a topic.
func (c *cli) unknown(name string, isTopic bool) error {
	var names []string
	for _, cmd := range c.visible() {
		names = append(names, cmd.name)
	}
	what := "command"
	if isTopic {
		names, what = append(names, topics...), "command or topic"
	}
	return fail.Errorf(fail.Usage, "there is no %s %q%s (`backfeed help` lists all)", what, name, didYouMean(name, names))
}

// didYouMean asks for those of the names that are near one, if there are any.
func didYouMean(name string, names []string) string {
	var near []string
	for _, n := range names {
		if quoted := "`" + n + "`"; (strings.HasPrefix(n, name) || distance(n, name) <= 2) && !slices.Contains(near, quoted) {
			near = append(near, quoted)
		}
	}
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

// distance is the Levenshtein distance of a and b: the letters to insert,
// delete or replace to make one of the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
