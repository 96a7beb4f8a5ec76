package report

import (
	"bytes"
	"math"
	"testing"

	"backfeed/internal/testtool"
)

func TestCount(t *testing.T) {
	for _, tt := range []struct {
		n    float64
		want string
	}{
		{0, "0"}, {7, "7"}, {999, "999"}, {12.34, "12.3"}, {1.5, "1.50"}, {0.125, "0.12"}, {0.00001, "1e-05"},
		{1000, "1.00k"}, {8123, "8.12k"}, {81234, "81.2k"}, {812197, "812k"},
		{999.7, "1.00k"}, {999499, "999k"}, {999999, "1.00M"}, {1.2e6, "1.20M"}, {3.456e9, "3.46G"}, {2e18, "2.00E"}, {5e21, "5000E"},
		{-812197, "-812k"}, {math.NaN(), "-"},
	} {
		if got := Count(tt.n); got != tt.want {
			t.Errorf("Count(%v) = %q, want %q", tt.n, got, tt.want)
		}
	}
}

func TestSeconds(t *testing.T) {
	for s, want := range map[float64]string{0: "0 s", 62: "62 s", 0.9999: "1 s", 0.0445: "44.5 ms", 0.99e-3: "990 us", 1.67e-6: "1.67 us", 0.93e-6: "930 ns", 3.1e-10: "0.31 ns"} {
		if got := Seconds(s); got != want {
			t.Errorf("%g s is %s, want %s", s, got, want)
		}
	}
}

func TestPercent(t *testing.T) {
	for _, tt := range []struct {
		share float64
		want  string
	}{
		{0, "0.0%"}, {0.0001, "<0.1%"}, {0.123, "12.3%"}, {0.9996, ">99.9%"}, {1, "100.0%"}, {1.5, "150.0%"},
		{-0.05, "-5.0%"}, {math.NaN(), "-"},
	} {
		if got := Percent(tt.share); got != tt.want {
			t.Errorf("Percent(%v) = %q, want %q", tt.share, got, tt.want)
		}
	}
	if got := Share(0, 0); got != "-" {
		t.Errorf("Share(0, 0) = %q, want a dash", got)
	}
	if got := Share(1, 8); got != "12.5%" {
		t.Errorf("Share(1, 8) = %q, want 12.5%%", got)
	}
}

func TestClean(t *testing.T) {
	for _, tt := range []struct{ s, want string }{
		{"main.(*T[...]).f", "main.(*T[...]).f"},
		{"größe", "größe"},
		{"a\x1b[2Jb", `a\x1b[2Jb`},
		{"two\nlines\t", `two\nlines\t`},
		{"\xff\"q\"", `\xff"q"`},
	} {
		if got := Clean(tt.s); got != tt.want {
			t.Errorf("Clean(%q) = %q, want %q", tt.s, got, tt.want)
		}
	}
}

// TestGolden shows a table and a histogram as they appear.
func TestGolden(t *testing.T) {
	var b bytes.Buffer
	table := NewTable(Right("samples"), Right("share"), Left("image"), Left("procedure"))
	table.Row("5200", "63.8%", "/usr/bin/gawk", "r_interpret")
	table.Row("17", "0.2%", "größe.so", "evil\x1b[2J")
	table.Row("1", "<0.1%", "x")
	if err := table.Write(&b, false); err != nil {
		t.Fatal(err)
	}
	b.WriteString("\n")
	h := Histogram{
		Title:  "error of block counts, share of samples",
		Legend: []string{"high", "medium", "low"},
		Bars: []Bar{
			{"below -45%", []float64{0, 0.01, 0.04}},
			{"-5% to 0%", []float64{0.30, 0.10, 0.02}},
			{"0% to 5%", []float64{0.25, 0.2, 0.0004}},
			{"5% to 10%", []float64{0, 0, 0}},
			{"above 45%", []float64{0, 0, 0.0796}},
		},
	}
	if err := h.Write(&b); err != nil {
		t.Fatal(err)
	}
	empty := Histogram{Title: "nothing", Legend: []string{"high"}, Bars: []Bar{{"0%", []float64{0}}}}
	if err := empty.Write(&b); err != nil {
		t.Fatal(err)
	}
	testtool.Golden(t, "testdata/terminal.txt", b.Bytes())
}

func TestHead(t *testing.T) {
	var b bytes.Buffer
	NewTable(Left("image")).Write(&b, true)
	if want := "\x1b[1mimage\x1b[0m\n"; b.String() != want {
		t.Errorf("coloured head = %q, want %q", b.String(), want)
	}
}

// TestPrint shows a table where it has to fit, and as Markdown.
func TestPrint(t *testing.T) {
	table := NewTable(Right("samples"), Left("image"), Left("procedure"))
	table.Row("5200", "/usr/lib/x86_64-linux-gnu/libc.so.6", "std::vector<int>::push_back(int const&) [clone .cold]")
	table.Row("17", "a|b", "`f`_*@x*\\")
	for _, tt := range []struct {
		name  string
		style Style
		want  string
	}{
		{"narrow", Style{Width: 50}, "" +
			"samples  image                procedure\n" +
			"   5200  /usr/lib/…libc.so.6  std::vect…one .cold]\n" +
			"     17  a|b                  `f`_*@x*\\\n"},
		{"too narrow", Style{Width: 10}, "" +
			"samples  image   procedure\n" +
			"   5200  /u…o.6  std:…old]\n" +
			"     17  a|b     `f`_*@x*\\\n"},
		{"markdown", Style{Markdown: true, Color: true, Width: 10}, "" +
			"| samples | image | procedure |\n" +
			"| ---: | --- | --- |\n" +
			"| 5200 | /usr/lib/x86\\_64-linux-gnu/libc.so.6 | std::vector&lt;int&gt;::push\\_back(int const&amp;) \\[clone .cold\\] |\n" +
			"| 17 | a\\|b | `` `f`_*@x*\\ `` |\n"},
	} {
		var b bytes.Buffer
		if err := table.Print(&b, tt.style); err != nil || b.String() != tt.want {
			t.Errorf("%s: %v\ngot:\n%s\nwant:\n%s", tt.name, err, &b, tt.want)
		}
	}
}

// TestFit: where a table has no room, columns are left out by their order, and words shortened; the
// main column keeps most.
func TestFit(t *testing.T) {
	table := NewTable(Right("share"), Right("sum").Drop(2), Right("cycles").Drop(1), Procedures("procedure"), Left("line").Drop(3), Instructions("instruction").Main())
	table.Row("10.2%", "10.2%", "8.12k", "std::_Rb_tree<int, std::pair<int const, int> >::_M_insert_unique(int const&)", "stl_tree.h:2095", "mov 0xffa(%rip),%eax  # 0x402000 <node::count>")
	table.Row("1.0%", "11.2%", "81", "github.com/someone/project/internal/pkg.(*Type).Method", "a.go:7", "call 0x402000 <std::vector<int>::push_back>")
	for _, tt := range []struct {
		width int
		want  string
	}{
		{0, "" +
			"share    sum  cycles  procedure                                                                     line             instruction\n" +
			"10.2%  10.2%   8.12k  std::_Rb_tree<int, std::pair<int const, int> >::_M_insert_unique(int const&)  stl_tree.h:2095  mov 0xffa(%rip),%eax  # 0x402000 <node::count>\n" +
			" 1.0%  11.2%      81  github.com/someone/project/internal/pkg.(*Type).Method                        a.go:7           call 0x402000 <std::vector<int>::push_back>\n"},
		{120, "" +
			"share    sum  cycles  procedure                                line             instruction\n" +
			"10.2%  10.2%   8.12k  std::_Rb_tree<…>::_M_insert_unique       stl_tree.h:2095  mov 0xffa(%rip),%eax  # 0x402000\n" +
			" 1.0%  11.2%      81  github.com/someone/…/pkg.(*Type).Method  a.go:7           call 0x402000 <std::vector…>::push_back>\n"},
		{80, "" +
			"share    sum  cycles  procedure         line          instruction\n" +
			"10.2%  10.2%   8.12k  std…nsert_unique  stl_t…h:2095  mov 0xffa(%rip),%eax\n" +
			" 1.0%  11.2%      81  git…Type).Method  a.go:7        call 0x402000 <std…h_back>\n"},
		{64, "" +
			"share  procedure          instruction\n" +
			"10.2%  std…insert_unique  mov 0xffa(%rip),%eax  # 0x402000\n" +
			" 1.0%  git…*Type).Method  call 0x402000 <std::vecto…::push_back>\n" +
			"Hidden for want of room: sum, cycles, line.\n"},
	} {
		var b bytes.Buffer
		if err := table.Print(&b, Style{Width: tt.width}); err != nil || b.String() != tt.want {
			t.Errorf("%d: %v\ngot:\n%s\nwant:\n%s", tt.width, err, &b, tt.want)
		}
	}
}

// TestSentences: what has no room in the last column goes on below.
func TestSentences(t *testing.T) {
	table := NewTable(Left("what"), Sentences("found"))
	table.Row("cycles", "perf_event_open: no such file or directory on this machine")
	table.Row("timer", "works")
	var b bytes.Buffer
	want := "" +
		"what    found\n" +
		"cycles  perf_event_open: no such file or\n" +
		"        directory on this machine\n" +
		"timer   works\n"
	if err := table.Print(&b, Style{Width: 40}); err != nil || b.String() != want {
		t.Errorf("%v\ngot:\n%s\nwant:\n%s", err, &b, want)
	}
}

// TestPrintHistogram: in Markdown, columns hold in code only.
func TestPrintHistogram(t *testing.T) {
	h := Histogram{Title: "errors", Legend: []string{"high"}, Bars: []Bar{{"0%", []float64{1}}}}
	var plain, md bytes.Buffer
	h.Print(&plain, Style{})
	h.Print(&md, Style{Markdown: true})
	if want := "```\n" + plain.String() + "```\n"; md.String() != want || plain.Len() == 0 {
		t.Errorf("got:\n%s\nwant:\n%s", &md, want)
	}
}

// TestListing shows rows with notes between them.
func TestListing(t *testing.T) {
	l := NewListing(Right("samples"), Right("pc"), Left("instruction"))
	l.Note(Dim, 2, "a.c:1  while (n--)")
	l.Row("5", "0x10", "sub $0x1,%rsi")
	l.Note(Loud, 1, "▒▒▒ 3.1 dcache-miss\x1b")
	l.Row("1234", "0x14", "mov (%rdi),%rdi")
	l.Note(Plain, 0, "... the rest is cold")
	for _, tt := range []struct {
		name  string
		style Style
		want  string
	}{
		{"plain", Style{}, "" +
			"samples    pc  instruction\n" +
			"               a.c:1  while (n--)\n" +
			"      5  0x10  sub $0x1,%rsi\n" +
			"         ▒▒▒ 3.1 dcache-miss\\x1b\n" +
			"   1234  0x14  mov (%rdi),%rdi\n" +
			"... the rest is cold\n"},
		{"narrow, in colour", Style{Width: 20, Color: true}, "" +
			"\x1b[1msamples    pc  inst…\x1b[0m\n" +
			"\x1b[2m               a.c:…\x1b[0m\n" +
			"      5  0x10  sub …\n" +
			"\x1b[33m         ▒▒▒ 3.1 dc…\x1b[0m\n" +
			"   1234  0x14  mov …\n" +
			"... the rest is cold\n"},
	} {
		var b bytes.Buffer
		if err := l.Print(&b, tt.style); err != nil || b.String() != tt.want {
			t.Errorf("%s: %v\ngot:\n%q\nwant:\n%q", tt.name, err, &b, tt.want)
		}
	}
	var plain, md bytes.Buffer
	l.Print(&plain, Style{})
	l.Print(&md, Style{Markdown: true, Color: true, Width: 20})
	if md.String() != "```\n"+plain.String()+"```\n" {
		t.Errorf("Markdown:\n%s", &md)
	}
}
