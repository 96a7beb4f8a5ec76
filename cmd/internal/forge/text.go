package forge

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxBody is how long GitHub lets the text of a pull request be, in characters; here bytes,
// so that no count of characters exceeds it. GitLab and Gitea take more.
const maxBody = 65536

// maxTitle is how long GitLab lets a title be, in characters; GitHub takes one more.
const maxTitle = 255

// A mark is the last line of a pull request's text: what its files become. It shows no reader
// anything.
var markLine = regexp.MustCompile(`\n*<!-- backfeed-refresh: ([0-9a-f]{64}) -->\s*`)

func mark(body, digest string) string {
	line := "\n\n<!-- backfeed-refresh: " + digest + " -->\n"
	return strings.TrimSpace(cut(unmark(body), maxBody-len(line))) + line
}

// marked returns what a text is marked with, "" for none.
func marked(body string) string {
	if all := markLine.FindAllStringSubmatch(body, -1); all != nil {
		return all[len(all)-1][1]
	}
	return ""
}

func unmark(body string) string { return strings.TrimSpace(markLine.ReplaceAllString(body, "\n")) }

// shortened ends a text that was cut.
const shortened = "\n\nThe rest is left out: a forge takes 65,536 characters. The run's own report has it.\n"

// cut shortens Markdown to n bytes at the end of a line, and ends what it leaves open.
func cut(body string, n int) string {
	if len(body) <= n {
		return body
	}
	const ends = 64 // bytes that closing takes
	body = strings.ToValidUTF8(body[:n-len(shortened)-ends], "")
	if i := strings.LastIndexByte(body, '\n'); i > 0 {
		body = body[:i]
	}
	end := ""
	if fence := openFence(body); fence != "" && len(fence) < 20 {
		end = "\n" + fence
	}
	if strings.Count(body, "<details") > strings.Count(body, "</details>") {
		end += "\n\n</details>"
	}
	return body + end + shortened
}

var fenceLine = regexp.MustCompile("^ {0,3}(```+|~~~+)")

// openFence returns the fence of the block of code that text ends within, "" outside.
func openFence(text string) string {
	open := ""
	for line := range strings.Lines(text) {
		m := fenceLine.FindStringSubmatch(line)
		switch {
		case m == nil:
		case open == "":
			open = m[1]
		case strings.HasPrefix(m[1], open) && strings.TrimSpace(line) == m[1]:
			open = ""
		}
	}
	return open
}

// oneLine makes a title of any text.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return strings.Join(strings.Fields(s), " ")
}

func cutTitle(s string) string {
	if utf8.RuneCountInString(s) <= maxTitle {
		return s
	}
	return string([]rune(s)[:maxTitle-1]) + "…"
}

// noProse matches what no paragraph of words begins with, and tables.
var noProse = regexp.MustCompile("^(#|\\||[-*+] |<|```|~~~|>|\t|    |[0-9]+[.)] )|\n\\|")

// lead returns the paragraphs of Markdown before its first list, table, block of code or
// second heading: what a commit's message has room for.
func lead(body string) string {
	var kept []string
	for i, p := range strings.Split(strings.TrimSpace(strings.ReplaceAll(body, "\r\n", "\n")), "\n\n") {
		p = strings.Trim(p, "\n")
		if i == 0 && strings.HasPrefix(p, "#") {
			_, p, _ = strings.Cut(p, "\n") // the heading says what the title says
			if p == "" {
				continue
			}
		}
		if p == "" || noProse.MatchString(p) || strings.Contains(p, trailer) {
			break
		}
		kept = append(kept, p)
	}
	return strings.Join(kept, "\n\n")
}
