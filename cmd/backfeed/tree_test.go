package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// everyCommand lists all commands, those below others too.
func everyCommand() []*command {
	var all []*command
	var add func([]*command)
	add = func(some []*command) {
		for _, cmd := range some {
			all = append(all, cmd)
			add(cmd.sub)
		}
	}
	add(commands)
	return all
}

// TestCommandNames: commands below others begin with their names, and run under them.
func TestCommandNames(t *testing.T) {
	below := 0
	for _, cmd := range everyCommand() {
		for _, sub := range cmd.sub {
			below++
			if !strings.HasPrefix(sub.name, cmd.name+" ") {
				t.Errorf("%q is below %q", sub.name, cmd.name)
			}
		}
		code, out, errs := runCLI(t, append(strings.Fields(cmd.name), "--help")...)
		want, _, _ := strings.Cut(out, "\n# ")
		if cmd.sub == nil && (code != exitDone || errs != "" || !strings.Contains(want, "Usage: backfeed "+cmd.name)) {
			t.Errorf("%s --help: exit code %d, %q, printed %q", cmd.name, code, errs, out)
		}
		if code, help, errs := runCLI(t, append([]string{"help"}, strings.Fields(cmd.name)...)...); code != exitDone || errs != "" || cmd.sub == nil && !strings.HasPrefix(help, want) {
			t.Errorf("help %s: exit code %d, %q, printed %q, want %q first", cmd.name, code, errs, help, want)
		}
	}
	if below < 10 {
		t.Errorf("%d commands below others", below)
	}
}

// TestFlagsBeforeName: flags may come before the name of a command below another.
func TestFlagsBeforeName(t *testing.T) {
	rec := recording(t, t.TempDir(), "a.bfr", sample.ImageID{Path: "/nowhere"})
	for _, args := range [][]string{{"emit", "--symfs", "/", "go", rec}, {"emit", "go", "--symfs", "/", rec}, {"emit", "--if-changed", "go", rec, "-o", "x"}} {
		if code, _, errs := runCLI(t, args...); code != exitNothing || !strings.Contains(errs, "/nowhere") {
			t.Errorf("%v: exit code %d: %s", args, code, errs)
		}
	}
}

// TestCompletion: shells are told commands, flags, words of flags, files and directories.
func TestCompletion(t *testing.T) {
	const files, none, dirs = ":0", ":4", ":16"
	for _, tt := range []struct {
		line      string
		want      []string // all of these
		not       string
		directive string
	}{
		{"|", []string{"record", "emit", "help"}, "__complete", none},
		{"em|", []string{"emit"}, "record", none},
		{"emit |", []string{"go", "llvm", "propeller"}, "gold", none},
		{"emit go |", nil, "llvm", files},
		{"emit llvm --f|", []string{"--format"}, "--if-changed", none},
		{"emit llvm --format |", []string{"text", "extbinary"}, "json", none},
		{"store gc --ret|", []string{"--retain", "--retain-size"}, "--repair", none},
		{"layout app app.bfr --for |", []string{"lld", "propeller"}, "llvm", none},
		{"layout --for=b|", []string{"bolt"}, "--format", none},
		{"layout --symfs |", nil, "lld", dirs},
		{"layout --relinked |", nil, "lld", files},
		{"layout |", nil, "lld", files},
		{"prof a.bfr -n |", nil, "a", none},
		{"whatcg a.bfr --cause |", []string{"dcache-miss", "mispredict"}, "d", none},
		{"prof a.bfr --model |", []string{"intel-sapphirerapids"}, "x86", none},
		{"help |", []string{"emit", "calibrate"}, "bash", none},
		{"help store |", []string{"gc", "fsck"}, "go", none},
		{"help images |", nil, "llvm", none},
		{"help store gc |", nil, "ls", none},
		{"completion |", []string{"bash", "zsh", "fish", "powershell"}, "go", none},
		{"version |", nil, "go", none},
		{"record -- |", nil, "--all", files},
		{"record prog --a|", nil, "--all", files},
	} {
		args := []string{"__completeNoDesc"}
		before, _ := strings.CutSuffix(tt.line, "|")
		args = append(args, strings.Split(before, " ")...)
		code, out, _ := runCLI(t, args...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		got, directive := lines[:len(lines)-1], lines[len(lines)-1]
		has := func(word string) bool { return strings.Contains("\n"+strings.Join(got, "\n")+"\n", "\n"+word+"\n") }
		for _, word := range tt.want {
			if !has(word) {
				t.Errorf("%s: no %s in %q", tt.line, word, got)
			}
		}
		if code != exitDone || has(tt.not) || directive != tt.directive || len(tt.want) == 0 && len(got) > 0 {
			t.Errorf("%s: exit code %d, %q, directive %s, want %s and no %q", tt.line, code, got, directive, tt.directive, tt.not)
		}
	}
}

// TestCompletionScripts: there is a script for each shell, and it asks backfeed.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if !strings.Contains(must(t, "completion", shell), "__complete") {
			t.Errorf("the script for %s does not ask backfeed", shell)
		}
	}
	if code, _, errs := runCLI(t, "completion", "csh"); code != exitUsage || !strings.Contains(errs, "no script for csh") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// shells have scripts that complete $LINE with the script $SCRIPT, and print what comes of
// it. There is none for PowerShell, which Debian has no package of.
var shells = map[string]string{
	// What bash-completion does before the script's own function runs: it splits the line into words.
	"bash": `source "$SCRIPT"
_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${COMP_WORDS[COMP_CWORD]}; prev=${COMP_WORDS[COMP_CWORD-1]}; }
__ltrim_colon_completions() { :; }
COMP_TYPE=9 COMP_LINE=$LINE COMP_POINT=${#LINE} COMP_WORDS=($LINE)
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
__start_backfeed backfeed "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
echo "got: ${COMPREPLY[*]} ."
`,
	// Completion needs a terminal: a second zsh has one, and shows the line after the tab key.
	"zsh": `zmodload zsh/zpty
zpty inner zsh -f -i
zpty -w inner 'PROMPT= RPROMPT= TERM=dumb; unsetopt zle_bracketed_paste prompt_sp; autoload -Uz compinit && compinit -u -D && source "$SCRIPT"
show() { print -r -- "got: $BUFFER ." }; zle -N show; bindkey "^X" show; print rea""dy'
zpty -r inner text '*ready*'
zpty -w -n inner "$LINE"$'\t\x18'
zpty -r inner text '*got: * .*'
print -r -- "$text"
`,
	"fish": `source $SCRIPT
for word in (complete -C $LINE)
	echo got: (string split -f 1 \t -- $word) .
end
`,
}

// TestCompletionInShells: a shell that reads its script completes a command and a flag.
func TestCompletionInShells(t *testing.T) {
	for shell, ask := range shells {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			testtool.Need(t, shell)
			dir, bin := t.TempDir(), t.TempDir()
			if err := os.Symlink(self(t), filepath.Join(bin, "backfeed")); err != nil {
				t.Fatal(err)
			}
			script := filepath.Join(dir, "script")
			must(t, "completion", shell, "-o", script)
			for line, want := range map[string]string{
				"backfeed emit pro":            "propeller",
				"backfeed store gc --retain-s": "--retain-size",
			} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				cmd := exec.CommandContext(ctx, shell, testtool.Write(t, dir, "ask", ask))
				cmd.Env = append(os.Environ(), runEnv+"=1", "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+dir, "SCRIPT="+script, "LINE="+line)
				out, err := cmd.CombinedOutput()
				if err != nil || !regexp.MustCompile(`got: .*`+want+`=? +\.`).Match(out) {
					t.Errorf("%s: no %s: %v\n%s", line, want, err, out)
				}
			}
		})
	}
}

// TestMan: each command and topic has a page, and man shows all of it.
func TestMan(t *testing.T) {
	dir := t.TempDir()
	must(t, "help", "--man", dir)
	pages := []string{"man1/backfeed.1"}
	for _, cmd := range everyCommand() {
		name := "man1/" + manName(cmd) + ".1"
		pages = append(pages, name)

	}
	for _, name := range topics {
		pages = append(pages, "man7/backfeed-"+name+".7")
	}
	man := testtool.Has("man")
	if !man {
		t.Log("without man to show the pages with")
	}
	shown := func(page string) string {
		cmd := testtool.Command(t, "man", "--warnings=mac", "-l", page)
		cmd.Env = append(os.Environ(), "MANWIDTH=80", "MAN_KEEP_FORMATTING=", "PAGER=cat", "MANPAGER=cat", "LC_ALL=C.UTF-8")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v", page, err)
		}
		return string(out)
	}
	for i, page := range pages {
		path := filepath.Join(dir, page)
		if text := testtool.Read(t, path); !strings.Contains(text, ".TH") || !strings.Contains(text, "DESCRIPTION") && !strings.Contains(text, "SYNOPSIS") {
			t.Errorf("%s is no page: %.200s", page, text)
		}
		if !man || testing.Short() && i%8 > 0 {
			continue
		}
		text := shown(path)
		if !strings.Contains(text, "NAME") || strings.Contains(text, "warning:") {
			t.Errorf("man shows of %s:\n%s", page, text)
		}
		for line := range strings.Lines(text) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 100 {
				t.Errorf("%s: %d columns: %s", page, n, line)
			}
		}
	}
	if !man {
		return
	}
	text := shown(filepath.Join(dir, "man1/backfeed-store-gc.1"))
	for _, want := range []string{"backfeed store gc STORE", "--retain duration", "--most", "backfeed store gc /var/lib/backfeed --retain 720h", "markdown", "EXIT STATUS"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("the page of store gc does not say %q:\n%s", want, text)
		}
	}
	if text := shown(filepath.Join(dir, "man7/backfeed-commands.7")); !strings.Contains(text, "go|llvm") || !strings.Contains(text, "quality gate") {
		t.Errorf("the page of commands lacks its tables:\n%s", text)
	}
	if found, err := filepath.Glob(filepath.Join(dir, "man?", "*")); err != nil || len(found) != len(pages) {
		t.Errorf("%d pages, want %d (%v)", len(found), len(pages), err)
	}
}
