package verdict

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

const before = `# HELP http_requests_total Requests.
# TYPE http_requests_total counter
http_requests_total{handler="/a",code="200"} 100
http_requests_total{code="500", handler="/a",} 1e1
http_requests_total{handler="/b\"\\",code="200"} 50 1732500000000
go_goroutines 12
`

const after = `http_requests_total{handler="/a",code="200"} 160
http_requests_total{handler="/a",code="500"} 10
http_requests_total{handler="/b\"\\",code="200"} 90
http_requests_total{handler="/c",code="200"} 5
go_goroutines 11
`

func parse(t *testing.T, text, selector string) []Series {
	t.Helper()
	sel, err := ParseSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	all, err := ReadMetrics(strings.NewReader(text), sel)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestIncrease(t *testing.T) {
	for _, tt := range []struct {
		selector, kind string
		want           map[string]float64
	}{
		{"http_requests_total", "", map[string]float64{"": 105}},
		{"http_requests", "handler", map[string]float64{"/a": 60, `/b"\`: 40, "/c": 5}},
		{`http_requests_total{code="500"}`, "", map[string]float64{"": 0}},
		{`http_requests_total{ code="200", handler="/a" }`, "code", map[string]float64{"200": 60}},
	} {
		got, err := Increase(parse(t, before, tt.selector), parse(t, after, tt.selector), tt.kind)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s by %q: %v, %v; want %v", tt.selector, tt.kind, got, err, tt.want)
		}
	}
	for _, tt := range []struct{ before, after, want string }{
		{"n 5", "n 4", "went down from 5 to 4"},
		{"n 5\nn{a=\"b\"} 1", "n 6", `n{a="b"}: is in the snapshot before`},
		{"n 5", "n NaN", "no counter"},
		{"n 5 1000\nn 6 2000", "n 7", "2 points in time"},
	} {
		if _, err := Increase(parse(t, tt.before, "n"), parse(t, tt.after, "n"), ""); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q, %q: %v, want %q", tt.before, tt.after, err, tt.want)
		}
	}
}

func TestDuring(t *testing.T) {
	all := parse(t, "n{h=\"a\"} 0 100.0\nn{h=\"a\"} 50 200\nn{h=\"a\"} 150 300.000 # {trace=\"x\"} 1\nn{h=\"b\"} 7 300\nn{h=\"b\"} 7 100\n# EOF\n", "n")
	for _, tt := range []struct {
		from, to float64
		want     float64 // of a; NaN is not known
	}{
		{100, 200, 50}, {150, 250, 75}, {100, 300, 150}, {90, 200, math.NaN()}, {200, 301, math.NaN()},
	} {
		got, ok, err := During(all, "h", tt.from, tt.to)
		if err != nil || ok == math.IsNaN(tt.want) || ok && (math.Abs(got["a"]-tt.want) > 1e-9 || got["b"] != 0) {
			t.Errorf("%g to %g: %v, %v, %v; want %g", tt.from, tt.to, got, ok, err, tt.want)
		}
	}
	if _, ok, err := During(parse(t, "n 9 1000\nn 3 2000\nn 4 3000\n", "n"), "", 1, 3); ok || err != nil {
		t.Errorf("across a restart: %v, %v", ok, err)
	}
	if got, ok, err := During(parse(t, "n 9 1000\nn 3 2000\nn 4 3000\n", "n"), "", 2, 3); !ok || err != nil || got[""] != 1 {
		t.Errorf("after a restart: %v, %v, %v", got, ok, err)
	}
}

func TestMetricsErrors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"x", "line 1: \"x\": want a name and a value"},
		{"n 1\n\nn{a=1} 2", "line 3: label a: \"1} 2\": want a value in quotes"},
		{`n{a="1} 2`, "no quote at the end"},
		{`n{a="1" b="2"} 2`, "want , or } after label a"},
		{`n{a="1",a="2"} 2`, "label a: given twice"},
		{"n{}", "no value"},
		{"n one", `value "one": want a number`},
		{"n 1 now", `time "now": want a number`},
		{"n 1\nn 2", "line 2: n: a second value"},
	} {
		if _, err := ReadMetrics(strings.NewReader(tt.text), Selector{Name: "n"}); err == nil || !errors.Is(err, ErrMetrics) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
	}
	for _, text := range []string{"", `{a="b"}`, `n{a="b"`, `n{a="b"} 5`, "two words"} {
		if sel, err := ParseSelector(text); err == nil {
			t.Errorf("selector %q: %v", text, sel)
		}
	}
}

// FuzzMetrics: any text is an error that names a line, or series that can be written and read again.
func FuzzMetrics(f *testing.F) {
	f.Add(before, "http_requests_total")
	f.Add(after, `http_requests_total{code="200"}`)
	f.Add("n 0 100\nn 50 200 # {a=\"b\"} 1\n# EOF\n", "n")
	f.Fuzz(func(t *testing.T, text, selector string) {
		sel, err := ParseSelector(selector)
		if err != nil {
			return
		}
		all, err := ReadMetrics(strings.NewReader(text), sel)
		if err != nil {
			if !strings.Contains(err.Error(), "line") {
				t.Fatalf("no line: %v", err)
			}
			return
		}
		var b strings.Builder
		for i := range all {
			s := &all[i]
			for _, p := range s.Points {
				if math.IsNaN(p.Time) {
					fmt.Fprintf(&b, "%s %g\n", labelled(s), p.Value)
				} else {
					fmt.Fprintf(&b, "%s %g %g\n", labelled(s), p.Value, p.Time)
				}
			}
		}
		b.WriteString("# EOF\n")
		again, err := ReadMetrics(strings.NewReader(b.String()), sel)
		if err != nil || fmt.Sprint(again) != fmt.Sprint(all) {
			t.Fatalf("%q: again %v, %v; was %v", b.String(), again, err, all)
		}
		if _, err := Increase(all, all, ""); err == nil {
			During(all, "", 0, 1)
		}
	})
}

func labelled(s *Series) string {
	var parts []string
	for name, value := range s.Labels {
		parts = append(parts, name+`="`+strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value)+`"`)
	}
	return s.Name + "{" + strings.Join(parts, ",") + "}"
}
