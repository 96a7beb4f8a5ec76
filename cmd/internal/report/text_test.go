package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestEscapeJSON: the values stay, and nothing is left that a terminal would not show.
func TestEscapeJSON(t *testing.T) {
	in := "a\u009b31m\u202e\x7f\u200b\ufeff\U000e0001\U0001f600ü\ufffd\n"
	var doc bytes.Buffer
	e := json.NewEncoder(&doc)
	e.SetEscapeHTML(false)
	if err := e.Encode(in); err != nil {
		t.Fatal(err)
	}
	for step := 1; step < 9; step++ { // characters come in pieces
		var out bytes.Buffer
		w := EscapeJSON(&out)
		for b := doc.Bytes(); len(b) > 0; b = b[min(step, len(b)):] {
			if _, err := w.Write(b[:min(step, len(b))]); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		const want = `"a\u009b31m\u202e\u007f\u200b\ufeff\udb40\udc01` + "\U0001f600ü\ufffd" + `\n"` + "\n"
		if out.String() != want {
			t.Errorf("by %d: %q, want %q", step, out.String(), want)
		}
		var back string
		if err := json.Unmarshal(out.Bytes(), &back); err != nil || back != in {
			t.Errorf("by %d: %q, %v", step, back, err)
		}
	}
}

// TestGuard: colours of ours pass where there are any, and nothing else that a terminal acts on.
func TestGuard(t *testing.T) {
	const in = "\x1b[1mhead\x1b[0m\tü\n\x1b]0;t\x07\u202e\xff\xe2\x82"
	for color, want := range map[bool]string{
		true:  "\x1b[1mhead\x1b[0m\tü\n" + `\x1b]0;t\a\u202e\xff\xe2\x82`,
		false: `\x1b[1mhead\x1b[0m` + "\tü\n" + `\x1b]0;t\a\u202e\xff\xe2\x82`,
	} {
		var out bytes.Buffer
		w := Guard(&out, color)
		fmt.Fprint(w, in)
		if err := w.Flush(); err != nil || out.String() != want {
			t.Errorf("colours %v: %q, want %q, %v", color, out.String(), want, err)
		}
	}
}

func TestFprintf(t *testing.T) {
	err := fmt.Errorf("a\x1b: %w", fmt.Errorf("b\nc"))
	for _, tt := range []struct {
		style Style
		want  string
	}{
		{Style{}, "   7 1.5% a\\x1b: b\\nc \"x\\u202e\" <b> a@b\n"},
		{Style{Markdown: true}, "   7 1.5% a\\\\x1b: b\\\\nc \"x\\\\u202e\" &lt;b&gt; `a@b`\n"},
	} {
		if got := Sprintf(tt.style, "%4d %s %v %q %s %s\n", 7, "1.5%", err, "x\u202e", "<b>", "a@b"); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.style, got, tt.want)
		}
	}
}

func TestMarkdownCode(t *testing.T) {
	for s, want := range map[string]string{
		"a|b\x1b": "`a\\|b\\x1b`", "a`b": "`` a`b ``", "```": "```` ``` ````", "": "`  `",
	} {
		if got := MarkdownCode(s); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}

// TestFormulas: cells that a spreadsheet would compute are told to be text; numbers are not.
func TestFormulas(t *testing.T) {
	var out strings.Builder
	rows := []struct {
		S string
		N float64
	}{{"=1+1", -3.2}, {"@f", 1}, {"-3.2", 0}, {"+1e3", 0}, {"-[Foo bar:]", 0}, {"\tx", 0}, {"＝1", 0}, {"f(=)", 0}}
	if err := WriteCSV(&out, rows); err != nil {
		t.Fatal(err)
	}
	const want = "S,N\n'=1+1,-3.2\n'@f,1\n-3.2,0\n+1e3,0\n'-[Foo bar:],0\n'\\tx,0\n'＝1,0\nf(=),0\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// TestWrap: lines end between words where they are too long, after the same blanks as they began with.
func TestWrap(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"one two three\n", "one two\nthree\n"},
		{"one two three", "one two\nthree"},
		{"12345678 9\n", "12345678\n9\n"},
		{"123456789 0\n", "123456789\n0\n"},
		{"12345678\n\nx\n", "12345678\n\nx\n"},
		{"  ab cd ef gh\n", "  ab cd\n  ef gh\n"},
		{"\x1b[1mone two\x1b[0m\nx\n", "\x1b[1mone two\x1b[0m\nx\n"},
		{"größe öäü\n", "größe\nöäü\n"},
		{"a /a/path/that/is/long b\n", "a\n/a/path/that/is/long\nb\n"},
		{"", ""},
	} {
		for _, piece := range []int{1, 5, 100} {
			var b bytes.Buffer
			w := Wrap(&b, 8)
			for rest := tt.text; rest != ""; {
				n := min(piece, len(rest))
				w.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			w.Flush()
			if b.String() != tt.want {
				t.Errorf("Wrap(%q) in pieces of %d = %q, want %q", tt.text, piece, b.String(), tt.want)
			}
		}
	}
}
