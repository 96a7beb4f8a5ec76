package flagset

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"backfeed/cmd/internal/report"
)

// The methods of pflag that define flags of time and of labels are hidden by those below, whose values
// read what people write.

// DurationVar defines a flag of a time that has a unit.
func (fs *Set) DurationVar(p *time.Duration, name string, value time.Duration, usage string) {
	fs.DurationVarP(p, name, "", value, usage)
}

// DurationVarP is DurationVar with a letter.
func (fs *Set) DurationVarP(p *time.Duration, name, letter string, value time.Duration, usage string) {
	*p = value
	fs.VarP(&timeSpan{p: p}, name, letter, usage)
}

// Duration defines a flag of a time that has a unit.
func (fs *Set) Duration(name string, value time.Duration, usage string) *time.Duration {
	return fs.DurationP(name, "", value, usage)
}

// DurationP is Duration with a letter.
func (fs *Set) DurationP(name, letter string, value time.Duration, usage string) *time.Duration {
	p := new(time.Duration)
	fs.DurationVarP(p, name, letter, value, usage)
	return p
}

// SecondsP defines a flag of a time that is seconds if it has no unit.
func (fs *Set) SecondsP(name, letter, usage string) *time.Duration {
	p := new(time.Duration)
	fs.VarP(&timeSpan{p: p, seconds: true}, name, letter, usage)
	return p
}

// StringToStringVar defines a flag of labels, which may be given several times.
func (fs *Set) StringToStringVar(p *map[string]string, name string, value map[string]string, usage string) {
	*p = value
	fs.Var(&labels{p}, name, usage)
}

// StringToString defines a flag of labels, which may be given several times.
func (fs *Set) StringToString(name string, value map[string]string, usage string) *map[string]string {
	p := new(map[string]string)
	fs.StringToStringVar(p, name, value, usage)
	return p
}

// A timeSpan is a flag that is a length of time.
type timeSpan struct {
	p       *time.Duration
	seconds bool // a number without a unit is seconds
}

func (s *timeSpan) Type() string { return "duration" }
func (s *timeSpan) String() string {
	if s.p == nil || *s.p == 0 {
		return ""
	}
	return shortSpan(*s.p)
}

// shortSpan is what one writes for d.
func shortSpan(d time.Duration) string {
	if d%(24*time.Hour) == 0 {
		return strconv.FormatInt(int64(d/(24*time.Hour)), 10) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func (s *timeSpan) Accepts(text string) bool {
	_, err := ParseTimeSpan(text, s.seconds)
	return err == nil
}
func (s *timeSpan) Set(text string) error {
	d, err := ParsePositive(text, s.seconds)
	if err == nil {
		*s.p = d
	}
	return err
}

// ParsePositive is ParseTimeSpan without 0, which no flag takes: whether all is meant by it, or nothing, nobody can tell.
func ParsePositive(text string, seconds bool) (time.Duration, error) {
	d, err := ParseTimeSpan(text, seconds)
	if err == nil && d == 0 {
		err = errors.New("want a time above 0, such as 30s, 12h, 7d or 2w")
	}
	return d, err
}

// longUnits are the days and weeks of a time.
var longUnits = regexp.MustCompile(`([0-9]*\.?[0-9]+)(d|w)`)

// ParseTimeSpan reads a time such as 30s, 1h30m, 7d or 1w; with seconds, also 30.
func ParseTimeSpan(text string, seconds bool) (time.Duration, error) {
	plain := strings.TrimSpace(text)
	if n, err := strconv.ParseFloat(plain, 64); err == nil && n != 0 {
		if !seconds {
			return 0, errors.New("want a time with a unit, such as 30s, 12h, 7d or 2w")
		}
		plain += "s"
	}
	// Days are hours to package time.
	plain = longUnits.ReplaceAllStringFunc(plain, func(part string) string {
		n, err := strconv.ParseFloat(part[:len(part)-1], 64)
		hours := map[byte]float64{'d': 24, 'w': 7 * 24}[part[len(part)-1]]
		if err != nil {
			return part
		}
		return strconv.FormatFloat(n*hours, 'f', -1, 64) + "h"
	})
	d, err := time.ParseDuration(plain)
	if err != nil {
		return 0, errors.New("want a time, such as 30s, 12h, 7d or 2w")
	}
	if d < 0 {
		return 0, errors.New("want a positive time, such as 30s, 12h, 7d or 2w")
	}
	return d, nil
}

// labels are flags name=value.
type labels struct{ p *map[string]string }

func (l *labels) Type() string   { return "name=value" }
func (l *labels) String() string { return "" }

// GetSlice makes a list of it to those that ask whether it may be given again.
func (l *labels) GetSlice() []string {
	var all []string
	for name, value := range *l.p {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return all
}
func (l *labels) Set(text string) error {
	for _, pair := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return errors.New("want name=value, such as service=api")
		}
		if old, ok := (*l.p)[name]; ok && old != value {
			return fmt.Errorf("%s is %s already", name, old)
		}
		if *l.p == nil {
			*l.p = map[string]string{}
		}
		(*l.p)[name] = value
	}
	return nil
}

// A Share is a flag in percent.
type Share float64

func (s *Share) String() string { return strconv.FormatFloat(100*float64(*s), 'g', 6, 64) + "%" }
func (s *Share) Type() string   { return "percent" }
func (s *Share) Accepts(text string) bool {
	var v Share
	return v.Set(text) == nil
}
func (s *Share) Set(text string) error {
	v, ok := Percentage(text)
	if !ok || v == 0 {
		return errors.New("want a percentage above 0, at most 100, such as 1%")
	}
	*s = Share(v)
	return nil
}

// Percentage reads 0 to 100 percent, with or without the sign, as a share.
func Percentage(text string) (share float64, ok bool) {
	v, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "%")), 64)
	return v / 100, err == nil && v >= 0 && v <= 100
}

// A Size is a flag in bytes.
type Size int64

func (s *Size) Type() string { return "size" }
func (s *Size) String() string {
	if *s == 0 {
		return ""
	}
	return report.Bytes(int64(*s))
}

// sizes are a number and a unit.
var sizes = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([kmgt]?)(?:i?b)?$`)

func (s *Size) Set(text string) error {
	m := sizes.FindStringSubmatch(strings.ToLower(strings.TrimSpace(text)))
	if m == nil {
		return errors.New("want a number of bytes, such as 500M or 20G")
	}
	unit := map[string]int64{"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}[m[2]]
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err == nil && n <= (1<<62)/unit {
		n *= unit
	} else {
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil || v*float64(unit) > 1<<62 || m[2] == "" {
			return errors.New("want a number of bytes, such as 500M or 20G")
		}
		n = int64(v * float64(unit))
	}
	if n == 0 {
		return errors.New("want a number of bytes above 0, such as 500M or 20G")
	}
	*s = Size(n)
	return nil
}

// A Part is a flag that is the I-th of N parts; the zero Part is all.
type Part struct{ I, N int }

func (p *Part) String() string {
	if p.N == 0 {
		return ""
	}
	return strconv.Itoa(p.I) + "/" + strconv.Itoa(p.N)
}
func (p *Part) Type() string { return "part" }
func (p *Part) Set(text string) error {
	first, of, _ := strings.Cut(text, "/")
	i, err1 := strconv.Atoi(first)
	n, err2 := strconv.Atoi(of)
	if err1 != nil || err2 != nil || i < 0 || i >= n || n > 1<<20 {
		return errors.New("want a part, such as 0/4 of 0/4 to 3/4")
	}
	*p = Part{i, n}
	return nil
}

// A Fraction is a flag that is a share of 1, which may be given in percent.
type Fraction float64

func (f *Fraction) String() string { return strconv.FormatFloat(100*float64(*f), 'g', 6, 64) + "%" }
func (f *Fraction) Type() string   { return "share" }
func (f *Fraction) Set(text string) error {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return errors.New("want a share, such as 70% or 0.7")
	}
	*f = Fraction(v)
	return nil
}

// A Relative is a flag that is a change, as a share of what changes: -3% or +0.03.
type Relative float64

func (r *Relative) String() string {
	return strconv.FormatFloat(100*float64(*r), 'g', 6, 64) + "%"
}
func (r *Relative) Type() string { return "change" }
func (r *Relative) Set(text string) error {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v > -1 && v <= 100) {
		return errors.New("want a change, such as -3% or 0.03")
	}
	*r = Relative(v)
	return nil
}

// A Choice is a flag that takes one of a few words.
type Choice struct {
	Value string
	Of    []string
}

func (v *Choice) Words() []string       { return v.Of }
func (v *Choice) Accepts(s string) bool { return slices.Contains(v.Of, s) }
func (v *Choice) String() string        { return v.Value }
func (v *Choice) Type() string          { return "word" }
func (v *Choice) Set(s string) error {
	if !slices.Contains(v.Of, s) {
		return fmt.Errorf("want %s", strings.Join(v.Of, " or "))
	}
	v.Value = s
	return nil
}

// A Moment is a flag: a time, or how long ago it was.
type Moment time.Time

// momentLayouts are the forms of a time, which is local unless it says otherwise.
var momentLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"}

func (m *Moment) String() string { return "" } // for pflag: there is no default to show
func (m *Moment) Type() string   { return "time" }
func (m *Moment) Set(text string) error {
	if d, err := ParseTimeSpan(strings.TrimPrefix(text, "-"), false); err == nil && d > 0 {
		*m = Moment(time.Now().Add(-d))
		return nil
	}
	t, err := ParseTime(text)
	if err != nil {
		return fmt.Errorf("%w, or how long ago it was, such as 36h or 7d", err)
	}
	*m = Moment(t)
	return nil
}

// ParseTime reads a time such as 2006-01-02T15:04.
func ParseTime(text string) (time.Time, error) {
	for _, layout := range momentLayouts {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errors.New("want a time such as 2006-01-02T15:04")
}
