package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/flagset"
	"backfeed/infer/explain"
	"backfeed/infer/machine"
)

// dispatch runs the subcommand that args name.
func (c *cli) dispatch(args []string) error {
	completing := len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
	root := c.tree(completing)
	root.SetArgs(append([]string{}, args...))
	root.SetIn(c.stdin)
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	return root.Execute()
}

// tree returns the commands as cobra has them, which finds them, and completes command lines for shells.
// A command parses its flags itself; withFlags, cobra knows them too.
func (c *cli) tree(withFlags bool) *cobra.Command {
	root := &cobra.Command{
		Use: "backfeed", Args: cobra.ArbitraryArgs, SilenceErrors: true, SilenceUsage: true, DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				c.list(c.stderr)
				return fail.Errorf(fail.Usage, "no command given")
			case args[0] == "-h" || args[0] == "--help":
				return c.runCommand(helpCmd, args[1:])
			case args[0] == "--version":
				return c.runCommand(versionCmd, args[1:])
			}
			return c.unknown(args[0], false)
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	for _, cmd := range c.commands {
		node := c.node(cmd, withFlags)
		root.AddCommand(node)
		if cmd == helpCmd {
			root.SetHelpCommand(node)
		}
	}
	return root
}

// node returns a command, and those below it, as cobra has it.
func (c *cli) node(cmd *command, withFlags bool) *cobra.Command {
	words := strings.Fields(cmd.name)
	node := &cobra.Command{
		Use: words[len(words)-1], Short: cmd.short, Hidden: cmd.hidden, Args: cobra.ArbitraryArgs, DisableFlagParsing: true,
		RunE:              func(_ *cobra.Command, args []string) error { return c.runCommand(cmd, args) },
		ValidArgsFunction: c.completeOperand(cmd),
	}
	if withFlags {
		node.DisableFlagParsing = false
		flags := flagsOf(cmd)
		node.Flags().AddFlagSet(flags.FlagSet)
		node.Flags().SetInterspersed(flags.Interspersed())
		flags.VisitAll(func(f *pflag.Flag) {
			completeFlag(node, f)
			_, f.Usage = pflag.UnquoteUsage(f) // shells show it as it is
		})
	}
	for _, sub := range cmd.sub {
		node.AddCommand(c.node(sub, withFlags))
	}
	return node
}

func (c *cli) runCommand(cmd *command, args []string) error {
	c.cmd = cmd
	return cmd.run(c, args)
}

// completeOperand returns what completes the arguments of a command that are no flags: the words that it
// takes first, or names of files.
func (c *cli) completeOperand(cmd *command) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch {
		case cmd == helpCmd && len(args) == 0:
			var all []cobra.Completion
			for _, cmd := range c.visible() {
				all = append(all, cobra.CompletionWithDesc(cmd.name, cmd.short))
			}
			for _, name := range topics {
				text, _ := topic(name)
				all = append(all, cobra.CompletionWithDesc(name, topicTitle(text)))
			}
			return all, cobra.ShellCompDirectiveNoFileComp
		case cmd == helpCmd:
			var all []cobra.Completion
			if of := find(c.commands, strings.Join(args, " ")); of != nil {
				for _, sub := range of.sub {
					all = append(all, cobra.CompletionWithDesc(strings.TrimPrefix(sub.name, of.name+" "), sub.short))
				}
			}
			return all, cobra.ShellCompDirectiveNoFileComp
		case len(cmd.sub) > 0: // cobra knows their names
			return nil, cobra.ShellCompDirectiveNoFileComp
		case cmd.operands == nil && cmd.args != "":
			return nil, cobra.ShellCompDirectiveDefault
		case len(args) == 0:
			return cmd.operands, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlag tells cobra what completes the value of a flag: its words, a directory, a file, or nothing.
func completeFlag(node *cobra.Command, f *pflag.Flag) {
	var words []cobra.Completion
	directive := cobra.ShellCompDirectiveNoFileComp
	if v, ok := f.Value.(interface{ Words() []string }); ok {
		words = v.Words()
	} else if name := flagset.Placeholder(f); f.Name == "model" {
		words = machine.Names()
	} else if name == "cause" {
		for _, cause := range explain.Causes() {
			words = append(words, cause.String())
		}
	} else {
		switch name {
		case "dir":
			directive = cobra.ShellCompDirectiveFilterDirs
		case "file", "SRC":
			directive = cobra.ShellCompDirectiveDefault
		}
	}
	node.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words, directive))
}

// visible returns the commands that lists have.
func (c *cli) visible() []*command {
	return slices.DeleteFunc(slices.Clone(c.commands), func(cmd *command) bool { return cmd.hidden })
}

// runGroup is what a command does that consists of others: args name one of them, after flags perhaps.
func runGroup(c *cli, args []string) error {
	of := c.cmd
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if sub := find(of.sub, of.name+" "+arg); sub != nil {
			return c.runCommand(sub, slices.Delete(slices.Clone(args), i, i+1))
		}
	}
	fs := c.flags()
	fs.ParseErrorsAllowlist.UnknownFlags = true
	err := fs.Parse(args)
	if err == nil && fs.NArg() > 0 {
		err = fmt.Errorf("there is no %q: want %s%s", fs.Arg(0), strings.Join(of.subNames(), ", "), didYouMean(fs.Arg(0), of.subNames()))
	} else if err == nil {
		err = fmt.Errorf("want %s", strings.Join(of.subNames(), ", "))
	}
	return c.usage(err)
}

// subNames returns the last words of the commands below cmd.
func (cmd *command) subNames() []string {
	var names []string
	for _, sub := range cmd.sub {
		names = append(names, strings.TrimPrefix(sub.name, cmd.name+" "))
	}
	return names
}

var completionCmd = &command{
	name: "completion", args: "bash|zsh|fish|powershell", short: "print a script that completes command lines in a shell",
	long: `The script completes commands, flags, the words that a flag takes, files and directories. It asks this
backfeed, so it need not be printed again for a new one. A new shell reads it from where that shell
looks for such scripts; bash needs its package bash-completion.`,
	examples: `backfeed completion bash > /usr/share/bash-completion/completions/backfeed
backfeed completion bash > ~/.local/share/bash-completion/completions/backfeed
backfeed completion zsh > /usr/local/share/zsh/site-functions/_backfeed
backfeed completion fish > ~/.config/fish/completions/backfeed.fish
backfeed completion powershell | Out-String | Invoke-Expression`,
	operands: []string{"bash", "zsh", "fish", "powershell"},
	run:      runCompletion,
}

func runCompletion(c *cli, args []string) error {
	fs := c.flags()
	out := c.output()
	if err := fs.Parse(args); err != nil || fs.NArg() != 1 {
		return c.usage(err)
	}
	root := c.tree(false)
	script := map[string]func(io.Writer) error{
		"bash":       func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh":        root.GenZshCompletion,
		"fish":       func(w io.Writer) error { return root.GenFishCompletion(w, true) },
		"powershell": root.GenPowerShellCompletionWithDesc,
	}[fs.Arg(0)]
	if script == nil {
		return c.usage(errors.New("there is no script for " + fs.Arg(0) + ": want " + strings.Join(c.cmd.operands, ", ")))
	}
	return c.write(*out, script)
}
