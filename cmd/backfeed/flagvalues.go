package main

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
func (fs *flagSet) DurationVar(p *time.Duration, name string, value time.Duration, usage string) {
	fs.DurationVarP(p, name, "", value, usage)
}

// DurationVarP is DurationVar with a letter.
func (fs *flagSet) DurationVarP(p *time.Duration, name, letter string, value time.Duration, usage string) {
	*p = value
	fs.VarP(&timeSpan{p: p}, name, letter, usage)
}

// Duration defines a flag of a time that has a unit.
func (fs *flagSet) Duration(name string, value time.Duration, usage string) *time.Duration {
	return fs.DurationP(name, "", value, usage)
}

// DurationP is Duration with a letter.
func (fs *flagSet) DurationP(name, letter string, value time.Duration, usage string) *time.Duration {
	p := new(time.Duration)
	fs.DurationVarP(p, name, letter, value, usage)
	return p
}

// secondsP defines a flag of a time that is seconds if it has no unit.
func (fs *flagSet) secondsP(name, letter, usage string) *time.Duration {
	p := new(time.Duration)
	fs.VarP(&timeSpan{p: p, seconds: true}, name, letter, usage)
	return p
}

// StringToStringVar defines a flag of labels, which may be given several times.
func (fs *flagSet) StringToStringVar(p *map[string]string, name string, value map[string]string, usage string) {
	*p = value
	fs.Var(&labels{p}, name, usage)
}

// StringToString defines a flag of labels, which may be given several times.
func (fs *flagSet) StringToString(name string, value map[string]string, usage string) *map[string]string {
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
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func (s *timeSpan) accepts(text string) bool {
	_, err := parseTimeSpan(text, s.seconds)
	return err == nil
}
func (s *timeSpan) Set(text string) error {
	d, err := parseTimeSpan(text, s.seconds)
	if err == nil {
		*s.p = d
	}
	return err
}

// longUnits are the days and weeks of a time.
var longUnits = regexp.MustCompile(`([0-9]*\.?[0-9]+)(d|w)`)

// parseTimeSpan reads a time such as 30s, 1h30m, 7d or 1w; with seconds, also 30.
func parseTimeSpan(text string, seconds bool) (time.Duration, error) {
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

// A share is a flag in percent.
type share float64

func (s *share) String() string { return strconv.FormatFloat(100*float64(*s), 'g', 6, 64) + "%" }
func (s *share) Type() string   { return "percent" }
func (s *share) accepts(text string) bool {
	var v share
	return v.Set(text) == nil
}
func (s *share) Set(text string) error {
	v, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "%")), 64)
	if err != nil || !(v > 0 && v <= 100) {
		return errors.New("want a percentage above 0, at most 100, such as 1%")
	}
	*s = share(v / 100)
	return nil
}

// A size is a flag in bytes.
type size int64

func (s *size) String() string { return report.Bytes(int64(*s)) }
func (s *size) Type() string   { return "size" }

// sizes are a number and a unit.
var sizes = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([kmgt]?)(?:i?b)?$`)

func (s *size) Set(text string) error {
	m := sizes.FindStringSubmatch(strings.ToLower(strings.TrimSpace(text)))
	if m == nil {
		return errors.New("want a number of bytes, such as 500M or 20G")
	}
	unit := map[string]int64{"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}[m[2]]
	if n, err := strconv.ParseInt(m[1], 10, 64); err == nil && n <= (1<<62)/unit {
		*s = size(n * unit)
		return nil
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil || v*float64(unit) > 1<<62 || m[2] == "" {
		return errors.New("want a number of bytes, such as 500M or 20G")
	}
	*s = size(v * float64(unit))
	return nil
}

// A fraction is a flag that is a share of 1, which may be given in percent.
type fraction float64

func (f *fraction) String() string { return strconv.FormatFloat(100*float64(*f), 'g', 6, 64) + "%" }
func (f *fraction) Type() string   { return "share" }
func (f *fraction) Set(text string) error {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return errors.New("want a share, such as 70% or 0.7")
	}
	*f = fraction(v)
	return nil
}
