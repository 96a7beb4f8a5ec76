package verdict

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrMetrics is wrapped by every error that blames the text of metrics.
var ErrMetrics = errors.New("malformed metrics")

// A Series is the values of one counter with one set of labels.
type Series struct {
	Name   string
	Labels map[string]string
	Points []Point // by time, if that is known; otherwise one
}

// A Point is the value of a series at a time.
type Point struct {
	Time  float64 // seconds since 1970; NaN is unknown
	Value float64
}

// Bounds of what is read, far above what programs publish.
const (
	maxLine   = 1 << 20
	maxPoints = 10_000_000
)

// ReadMetrics reads the metrics that a selector is about, in Prometheus's text format (version 0.0.4)
// or OpenMetrics, of which a file may have several points in time of a series:
//
//	NAME [ "{" [ LABEL "=" QUOTED { "," LABEL "=" QUOTED } [","] ] "}" ] VALUE [ TIME ]
//
// TIME is milliseconds, of OpenMetrics, which ends with a line "# EOF", seconds. What follows it there
// is an exemplar. Other lines that begin with # are comments. An error names the line.
func ReadMetrics(in io.Reader, sel Selector) ([]Series, error) {
	sc := bufio.NewScanner(in)
	sc.Buffer(make([]byte, 1<<12), maxLine)
	at := map[string]int{} // series by key
	var all []Series
	open, n := false, 0
	for line := 1; sc.Scan(); line++ {
		text := strings.TrimSpace(sc.Text())
		if open = text == "# EOF"; text == "" || text[0] == '#' {
			continue
		}
		s, key, err := readMetric(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w: %w", line, err, ErrMetrics)
		}
		if !sel.Matches(&s) {
			continue
		}
		if n++; n > maxPoints {
			return nil, fmt.Errorf("line %d: more than %d values of one counter: %w", line, maxPoints, ErrMetrics)
		}
		i, ok := at[key]
		if !ok {
			at[key] = len(all)
			all = append(all, s)
			continue
		}
		if math.IsNaN(s.Points[0].Time) || math.IsNaN(all[i].Points[0].Time) {
			return nil, fmt.Errorf("line %d: %s: a second value, and no time that tells them apart: %w", line, s.Name, ErrMetrics)
		}
		all[i].Points = append(all[i].Points, s.Points[0])
	}
	if err := sc.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("a line of more than %d bytes: %w", maxLine, ErrMetrics)
	} else if err != nil {
		return nil, err
	}
	for i := range all {
		p := all[i].Points
		if !open {
			for k := range p {
				p[k].Time /= 1000
			}
		}
		sort.SliceStable(p, func(a, b int) bool { return p[a].Time < p[b].Time })
	}
	return all, nil
}

// readMetric reads a line. key is equal for lines of one series.
func readMetric(text string) (s Series, key string, err error) {
	end := strings.IndexAny(text, "{ \t")
	if end <= 0 {
		return s, "", fmt.Errorf("%.40q: want a name and a value", text)
	}
	s.Name, text = text[:end], text[end:]
	if !utf8.ValidString(s.Name) {
		return s, "", fmt.Errorf("name %q: want UTF-8", s.Name)
	}
	var parts []string
	if text[0] == '{' {
		if s.Labels, text, err = readLabels(text[1:]); err != nil {
			return s, "", err
		}
		for name, value := range s.Labels {
			parts = append(parts, name+"="+strconv.Quote(value))
		}
		sort.Strings(parts)
	}
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return s, "", fmt.Errorf("%s: no value", s.Name)
	}
	p := Point{Time: math.NaN()}
	if p.Value, err = strconv.ParseFloat(fields[0], 64); err != nil {
		return s, "", fmt.Errorf("%s: value %.40q: want a number", s.Name, fields[0])
	}
	if len(fields) > 1 && fields[1] != "#" {
		if p.Time, err = strconv.ParseFloat(fields[1], 64); err != nil || math.IsNaN(p.Time) || math.IsInf(p.Time, 0) {
			return s, "", fmt.Errorf("%s: time %.40q: want a number", s.Name, fields[1])
		}
	}
	s.Points = []Point{p}
	return s, s.Name + "{" + strings.Join(parts, ","), nil
}

// readLabels reads labels up to the brace that ends them, and returns what follows it.
func readLabels(text string) (labels map[string]string, rest string, err error) {
	labels = map[string]string{}
	for {
		text = strings.TrimLeft(text, " \t")
		if strings.HasPrefix(text, "}") {
			return labels, text[1:], nil
		}
		name, after, ok := strings.Cut(text, "=")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(name, `{}",`) {
			return nil, "", fmt.Errorf("%.40q: want LABEL=\"VALUE\" or }", text)
		}
		value, after, err := readQuoted(strings.TrimLeft(after, " \t"))
		if err != nil {
			return nil, "", fmt.Errorf("label %s: %w", name, err)
		}
		if _, twice := labels[name]; twice {
			return nil, "", fmt.Errorf("label %s: given twice", name)
		}
		labels[name] = value
		text = strings.TrimLeft(after, " \t")
		switch {
		case strings.HasPrefix(text, ","):
			text = text[1:]
		case !strings.HasPrefix(text, "}"):
			return nil, "", fmt.Errorf("%.40q: want , or } after label %s", text, name)
		}
	}
}

// readQuoted reads a value in quotes, in which \\, \" and \n stand for what they do in Go.
func readQuoted(text string) (value, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		return "", "", fmt.Errorf("%.40q: want a value in quotes", text)
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), text[i+1:], nil
		case c == '\\' && i+1 < len(text):
			i++
			switch text[i] {
			case 'n':
				b.WriteByte('\n')
			case '\\', '"':
				b.WriteByte(text[i])
			default:
				b.WriteString(text[i-1 : i+1])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", "", fmt.Errorf("%.40q: no quote at the end", text)
}

// A Selector chooses series: those of the name that have all of the labels.
type Selector struct {
	Name   string
	Labels map[string]string
}

// ParseSelector reads a selector as Prometheus has them: http_requests_total, or
// http_requests_total{code="200"}.
func ParseSelector(text string) (Selector, error) {
	name, labels, ok := strings.Cut(strings.TrimSpace(text), "{")
	s := Selector{Name: strings.TrimSpace(name)}
	if s.Name == "" || strings.ContainsAny(s.Name, " \t\",}") {
		return s, fmt.Errorf("%q: want the name of a counter", text)
	}
	if !ok {
		return s, nil
	}
	var rest string
	var err error
	if s.Labels, rest, err = readLabels(labels); err != nil {
		return s, fmt.Errorf("%q: %w", text, err)
	}
	if strings.TrimSpace(rest) != "" {
		return s, fmt.Errorf("%q: %q follows the labels", text, rest)
	}
	return s, nil
}

// Matches reports whether s is chosen. OpenMetrics has counters with _total, which their users may leave out.
func (sel Selector) Matches(s *Series) bool {
	if s.Name != sel.Name && s.Name != sel.Name+"_total" {
		return false
	}
	for name, value := range sel.Labels {
		if s.Labels[name] != value {
			return false
		}
	}
	return true
}

// key tells series of one counter apart.
func (s *Series) key() string {
	var parts []string
	for name, value := range s.Labels {
		parts = append(parts, name+"="+strconv.Quote(value))
	}
	sort.Strings(parts)
	return s.Name + "{" + strings.Join(parts, ",") + "}"
}

// Increase returns how much the counters of a selector rose between two snapshots, by the
// value of a label of theirs, or, for "", in all. One that was not there before began at 0.
func Increase(before, after []Series, kind string) (map[string]float64, error) {
	old := map[string]float64{}
	for i := range before {
		if n := len(before[i].Points); n != 1 {
			return nil, fmt.Errorf("%s: %d points in time, want one: a snapshot", before[i].key(), n)
		}
		old[before[i].key()] = before[i].Points[0].Value
	}
	by := map[string]float64{}
	for i := range after {
		s := &after[i]
		if n := len(s.Points); n != 1 {
			return nil, fmt.Errorf("%s: %d points in time, want one: a snapshot", s.key(), n)
		}
		if err := s.add(by, kind, old[s.key()], s.Points[0].Value); err != nil {
			return nil, err
		}
		delete(old, s.key())
	}
	for _, key := range sortedKeys(old) {
		return nil, fmt.Errorf("%s: is in the snapshot before, and not in the one after: what published it was restarted", key)
	}
	return by, nil
}

// add adds the rise of s from one value to another to what it is a kind of.
func (s *Series) add(by map[string]float64, kind string, from, to float64) error {
	switch d := to - from; {
	case math.IsNaN(d) || math.IsInf(d, 0) || from < 0:
		return fmt.Errorf("%s: from %g to %g: no counter", s.key(), from, to)
	case d < 0:
		return fmt.Errorf("%s: went down from %g to %g: what published it was restarted, and nobody knows what it did before", s.key(), from, to)
	default:
		by[s.Labels[kind]] += d
	}
	return nil
}

// During returns how much the counters of a selector rose in a stretch of time, in seconds since 1970,
// by the value of a label, or, for "", in all. Between two points they rise evenly. ok is false if the
// points of a series do not reach from the start to the end.
func During(all []Series, kind string, from, to float64) (by map[string]float64, ok bool, err error) {
	by = map[string]float64{}
	for i := range all {
		s := &all[i]
		a, ok1 := s.at(from)
		b, ok2 := s.at(to)
		if !ok1 || !ok2 {
			return nil, false, nil
		}
		for k := 1; k < len(s.Points); k++ { // a restart within the stretch
			p, q := s.Points[k-1], s.Points[k]
			if q.Value < p.Value && q.Time > from && p.Time < to {
				return nil, false, nil
			}
		}
		if err := s.add(by, kind, a, b); err != nil {
			return nil, false, err
		}
	}
	return by, len(all) > 0, nil
}

// at is the value at a time.
func (s *Series) at(t float64) (float64, bool) {
	i := sort.Search(len(s.Points), func(i int) bool { return s.Points[i].Time >= t })
	switch {
	case i == len(s.Points):
		return 0, false
	case s.Points[i].Time == t:
		return s.Points[i].Value, true
	case i == 0:
		return 0, false
	}
	p, q := s.Points[i-1], s.Points[i]
	return p.Value + (q.Value-p.Value)*(t-p.Time)/(q.Time-p.Time), true
}

func sortedKeys(m map[string]float64) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
