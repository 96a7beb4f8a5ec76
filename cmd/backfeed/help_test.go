package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"backfeed/cmd/internal/prose"
)

// pagesOfHelp returns README, CONTRIBUTING and the topics by their paths.
func pagesOfHelp(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("help/*.md")
	if err != nil || len(files) != len(topics) {
		t.Fatalf("%d files of topics, %d topics (%v)", len(files), len(topics), err)
	}
	pages := make(map[string]string)
	for _, f := range append(files, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")) {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		pages[f] = string(b)
	}
	return pages
}

// TestReadmeLength: README is read in two minutes.
func TestReadmeLength(t *testing.T) {
	if n := strings.Count(pagesOfHelp(t)[filepath.Join(root, "README.md")], "\n"); n > 150 {
		t.Errorf("README.md has %d lines, of 150 at most; the topics in cmd/backfeed/help have room", n)
	}
}

// TestHelpTopics: each topic is listed, printed and linked, in lines that a terminal shows.
func TestHelpTopics(t *testing.T) {
	readme := pagesOfHelp(t)[filepath.Join(root, "README.md")]
	_, list, _ := runCLI(t, "help")
	_, list, _ = strings.Cut(list, "\nTopics:")
	help := make(map[string]string)
	for _, name := range topics {
		text, ok := topic(name)
		if !ok || !strings.HasPrefix(text, "# ") {
			t.Errorf("topic %s: no text with a heading", name)
			continue
		}
		if !strings.Contains(list, "\n  "+name+" ") || !strings.Contains(list, topicTitle(text)) {
			t.Errorf("`backfeed help` does not list the topic %s", name)
		}
		if !strings.Contains(readme, "(cmd/backfeed/help/"+name+".md)") {
			t.Errorf("README.md does not link to the topic %s", name)
		}
		code, out, errs := runCLI(t, "help", name)
		if own := helpOf(t, help, name); own != "" {
			// Of a command of this name, its own help comes first.
			if !strings.HasPrefix(out, "Usage: ") && !strings.Contains(out, "\nUsage: backfeed "+name) {
				t.Errorf("`backfeed help %s` does not print the help of the command: %q", name, out)
			}
			_, out, _ = strings.Cut(out, "\n# ")
			out = "# " + out
		}
		if code != 0 || errs != "" || !strings.HasPrefix(out, "# ") {
			t.Errorf("`backfeed help %s`: exit code %d, %q, printed %q", name, code, errs, out)
		}
		// Filling moves words and drops none.
		if !strings.Contains(text, "\n|") && strings.Join(strings.Fields(text), " ") != strings.Join(strings.Fields(out), " ") {
			t.Errorf("topic %s is not printed with all its words", name)
		}
	}
}

// TestHelpWidth: no line of help is wider than 80 columns, where no terminal has another width.
func TestHelpWidth(t *testing.T) {
	pages := map[string][]string{"": {"help"}}
	for _, cmd := range everyCommand() {
		pages["help "+cmd.name] = append([]string{"help"}, strings.Fields(cmd.name)...)
	}
	for _, name := range topics {
		pages["help "+name] = []string{"help", name}
	}
	for page, args := range pages {
		lines := 0
		for line := range strings.Lines(must(t, args...)) {
			lines++
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("%s: %d columns: %s", page, n, line)
			}
			if strings.TrimRight(line, " \n") != strings.TrimRight(line, "\n") {
				t.Errorf("%s: a line ends in spaces: %q", page, line)
			}
		}
		if lines < 3 {
			t.Errorf("%s has %d lines", page, lines)
		}
	}
}

// TestDefinitions: what looks like a list of terms in a command's text is read as one.
func TestDefinitions(t *testing.T) {
	found := 0
	for _, cmd := range everyCommand() {
		all := strings.Split(strings.TrimSpace(cmd.long), "\n")
		for i, line := range all[1:] {
			before := all[i]
			if !strings.HasPrefix(line, " ") || before == "" || strings.HasPrefix(before, " ") {
				continue
			}
			found++
			if _, _, ok := prose.Defined(before, true, all[i+1:]); !ok {
				t.Errorf("%s: %q has no two spaces after a term, and is filled with what follows it", cmd.name, before)
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d definitions found", found)
	}
}

// TestExamples: each command shows how it is used, by flags that it has.
func TestExamples(t *testing.T) {
	for _, cmd := range everyCommand() {
		if cmd.examples == "" {
			if len(cmd.sub) == 0 && cmd != versionCmd {
				t.Errorf("%s has no examples", cmd.name)
			}
			continue
		}
		own := false
		for line := range strings.Lines(cmd.examples) {
			words := strings.Fields(line)
			if words[0] != "backfeed" {
				continue
			}
			of := commandOf(strings.Join(words[1:], " "))
			own = own || of == cmd
			args := words[1+len(strings.Fields(of.name)):]
			if i := slices.IndexFunc(args, func(arg string) bool { return strings.ContainsAny(arg, "|>") }); i >= 0 {
				args = args[:i] // for the shell
			}
			fs := flagsOf(of)
			if err := fs.Parse(args); err != nil {
				t.Errorf("%s: %s: %v", cmd.name, line, err)
			}
			if fs.NArg() == 0 && strings.HasPrefix(of.args, "SRC") {
				t.Errorf("%s: %s: no source", cmd.name, line)
			}
		}
		if !own {
			t.Errorf("no example of %s is one", cmd.name)
		}
	}
}

var pageLink = regexp.MustCompile(`\]\(([^)#:]+)\)`)

// TestPageLinks: links between files of the repository lead somewhere, and so do the files that topics name.
func TestPageLinks(t *testing.T) {
	found := 0
	for page, text := range pagesOfHelp(t) {
		for _, m := range pageLink.FindAllStringSubmatch(text, -1) {
			found++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
		for _, name := range regexp.MustCompile(`\b(?:testdata|infer|sample|cmd)/[\w./-]+\.(?:md|sh|go|json)\b`).FindAllString(text, -1) {
			found++
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d links found", found)
	}
}

// TestPageCommands: what README and the topics say to type exists, commands and flags.
func TestPageCommands(t *testing.T) {
	invocation := regexp.MustCompile(`(?:^    |&& |\x60)backfeed ([a-z]+)([^\n\x60|>]*)`)
	flag := regexp.MustCompile(`(?:^|\s)(--?)([a-zA-Z][\w-]*)`)
	help := make(map[string]string)
	checked := 0
	for page, text := range pagesOfHelp(t) {
		text = regexp.MustCompile(`\\\n\s+`).ReplaceAllString(text, "") // lines that go on
		for line := range strings.Lines(text) {
			for _, m := range invocation.FindAllStringSubmatch(line, -1) {
				name, args := m[1], m[2]
				args, _, _ = strings.Cut(args, " #")
				args, _, _ = strings.Cut(args, " -- ")
				if name == "help" && !strings.Contains(args, "--") {
					of := strings.TrimSpace(args)
					if _, ok := topic(of); of != "" && strings.ToLower(of) == of && !ok && helpOf(t, help, of) == "" {
						t.Errorf("%s: `backfeed help %s`: neither a command nor a topic", page, of)
					}
					continue
				}
				if words := strings.Fields(args); len(words) > 0 && find(commands, name+" "+words[0]) != nil {
					name += " " + words[0]
				}
				own := helpOf(t, help, name)
				if own == "" {
					t.Errorf("%s: there is no command %s: %s", page, name, line)
					continue
				}
				for _, f := range flag.FindAllStringSubmatch(args, -1) {
					checked++
					want := `(?m)^\s+(?:-\w, )?--` + f[2] + `\b`
					if f[1] == "-" {
						want = `(?m)^\s+-` + f[2][:1] + `, `
					}
					if !regexp.MustCompile(want).MatchString(own) {
						t.Errorf("%s: %s has no flag %s%s: %s", page, name, f[1], f[2], line)
					}
				}
			}
		}
	}
	if checked < 60 {
		t.Errorf("only %d flags found", checked)
	}
}

// helpOf returns the help of a command, "" if there is none of this name.
func helpOf(t *testing.T, known map[string]string, name string) string {
	t.Helper()
	if _, ok := known[name]; !ok {
		known[name] = ""
		if cmd := find(commands, name); cmd != nil {
			_, known[name], _ = runCLI(t, append(strings.Fields(name), "--help")...)
		}
	}
	return known[name]
}
