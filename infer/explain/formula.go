package explain

import (
	"math"
	"strconv"
	"strings"
)

// A quantity is a number made of counts of events, and how it changes with each of them: what
// chance makes of their samples is carried to what is made of them (the delta method).
type quantity struct {
	n  float64
	by map[*eventCounts]float64 // derivatives by the numbers of events
}

// combine returns n, with a times the derivatives of p and b times those of q.
func combine(n float64, p quantity, a float64, q quantity, b float64) quantity {
	r := quantity{n, map[*eventCounts]float64{}}
	for e, d := range p.by {
		r.by[e] += a * d
	}
	for e, d := range q.by {
		r.by[e] += b * d
	}
	return r
}

// A formula is arithmetic in the notation of perf's MetricExpr, with blanks between all words: numbers, events in
// lower case, metrics with a capital letter and _ for each blank, #slots for how many operations the processor can take in a
// cycle, + - * /, parentheses, max( a , b ), and a if b < c else d.
type formula struct {
	words []string
	at    int
	value func(word string) (quantity, bool) // of an event, a metric or #slots; not ok where there is none
	ok    bool
}

// calculate returns the value of text; it is not ok where value lacks a part of it, or something is divided by nothing.
func calculate(text string, value func(word string) (quantity, bool)) (quantity, bool) {
	f := &formula{words: strings.Fields(text), value: value, ok: true}
	q := f.choice()
	return q, f.ok && f.at == len(f.words) && !math.IsNaN(q.n) && !math.IsInf(q.n, 0)
}

// next reports whether the next word is w, and passes it if so.
func (f *formula) next(w string) bool {
	if f.at < len(f.words) && f.words[f.at] == w {
		f.at++
		return true
	}
	return false
}

func (f *formula) want(w string) { f.ok = f.next(w) && f.ok }

func (f *formula) choice() quantity {
	q := f.sum()
	if !f.next("if") {
		return q
	}
	a := f.sum()
	f.want("<")
	b := f.sum()
	f.want("else")
	if other := f.choice(); !(a.n < b.n) {
		return other
	}
	return q
}

func (f *formula) sum() quantity {
	q := f.product()
	for {
		switch {
		case f.next("+"):
			p := f.product()
			q = combine(q.n+p.n, q, 1, p, 1)
		case f.next("-"):
			p := f.product()
			q = combine(q.n-p.n, q, 1, p, -1)
		default:
			return q
		}
	}
}

func (f *formula) product() quantity {
	q := f.factor()
	for {
		switch {
		case f.next("*"):
			p := f.factor()
			q = combine(q.n*p.n, q, p.n, p, q.n)
		case f.next("/"):
			p := f.factor()
			q = combine(q.n/p.n, q, 1/p.n, p, -q.n/(p.n*p.n))
		default:
			return q
		}
	}
}

func (f *formula) factor() quantity {
	if f.at == len(f.words) {
		f.ok = false
		return quantity{}
	}
	word := f.words[f.at]
	f.at++
	switch {
	case word == "(":
		q := f.choice()
		f.want(")")
		return q
	case word == "max(":
		q := f.choice()
		f.want(",")
		p := f.choice()
		f.want(")")
		if q.n < p.n {
			return p
		}
		return q
	case word[0] >= '0' && word[0] <= '9':
		n, err := strconv.ParseFloat(word, 64)
		f.ok = f.ok && err == nil
		return quantity{n: n}
	}
	q, ok := f.value(word)
	f.ok = f.ok && ok
	return q
}

// namesIn lists the events of a formula, or the metrics, in the order of their first use.
func namesIn(text string, metrics bool) (names []string) {
	seen := map[string]bool{"if": true, "else": true, "max(": true}
	for _, w := range strings.Fields(text) {
		letter := w[0] >= 'a' && w[0] <= 'z' && !metrics || w[0] >= 'A' && w[0] <= 'Z' && metrics
		if letter && !seen[w] {
			seen[w] = true
			names = append(names, w)
		}
	}
	return names
}
