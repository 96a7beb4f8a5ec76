// Demo answers a query about a log, over and over: it splits generated lines
// into fields, keeps those that a filter lets through and sums them up by
// service. It is the program that `backfeed demo` records and builds anew.
//
// It is written as such programs are: readers, filters and summaries are
// interfaces, small functions do one thing each, and errors have a path of their
// own that hardly ever runs.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"sort"
	"strconv"
)

// A reader hands out the characters of a log.
type reader interface {
	peek() (c byte, ok bool)
	advance()
	line() int
}

// A plain reader has the log in memory.
type plain struct {
	text []byte
	at   int
	row  int
}

func (p *plain) peek() (byte, bool) {
	if p.at >= len(p.text) {
		return 0, false
	}
	return p.text[p.at], true
}

func (p *plain) advance() {
	if p.text[p.at] == '\n' {
		p.row++
	}
	p.at++
}

func (p *plain) line() int { return p.row }

// A folded reader joins lines that end in a backslash.
type folded struct{ plain }

func (f *folded) peek() (byte, bool) {
	for f.at+1 < len(f.text) && f.text[f.at] == '\\' && f.text[f.at+1] == '\n' {
		f.at += 2
		f.row++
	}
	if f.at >= len(f.text) {
		return 0, false
	}
	return f.text[f.at], true
}

// kind is what a character is to the scanner.
type kind uint8

const (
	other kind = iota
	letter
	digit
	space
	quote
	end
)

// classify is a little too large to be inlined without a profile: its cost is
// 82 to the compiler, which allows 80.
func classify(c byte) kind {
	switch {
	case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '-' || c == '.' || c == '/' || c == ':' || c == '@' || c == '%':
		return letter
	case c >= '0' && c <= '9':
		return digit
	case c == ' ' || c == '\t' || c == '\r':
		return space
	case c == '"':
		return quote
	case c == '\n':
		return end
	}
	return other
}

// A field is a key and what it is set to: key=word, key=123, key="some text".
type field struct {
	key  uint32 // hash
	text []byte
	num  int64
	hash uint32 // of text
}

// A record is one line.
type record struct{ fields []field }

var (
	errKey   = errors.New("want key=value")
	errQuote = errors.New("quote does not end")
)

// A scanner splits a log into records.
type scanner struct {
	in     reader
	record record
	text   []byte // of the line: fields share it
}

// mix adds a character to a hash (FNV-1a, then a turn).
func mix(h uint32, c byte) uint32 {
	h ^= uint32(c)
	h *= 16777619
	h ^= h >> 15
	h += h << 3
	h ^= h >> 7
	return h
}

func hashOf(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = mix(h, s[i])
	}
	return h
}

// fields reads the fields of one line.
func (s *scanner) fields() error {
	for {
		s.blanks()
		c, ok := s.in.peek()
		if !ok || c == '\n' {
			return nil
		}
		f, err := s.field()
		if err != nil {
			return fmt.Errorf("line %d: %w", s.in.line(), err)
		}
		s.record.fields = append(s.record.fields, f)
	}
}

func (s *scanner) blanks() {
	for {
		c, ok := s.in.peek()
		if !ok || classify(c) != space {
			return
		}
		s.in.advance()
	}
}

func (s *scanner) skipLine() {
	for {
		c, ok := s.in.peek()
		if !ok || c == '\n' {
			return
		}
		s.in.advance()
	}
}

func (s *scanner) field() (field, error) {
	f := field{key: s.word()}
	if c, ok := s.in.peek(); !ok || c != '=' {
		return f, errKey
	}
	s.in.advance()
	start := len(s.text)
	if c, ok := s.in.peek(); ok && classify(c) == quote {
		if err := s.quoted(); err != nil {
			return f, err
		}
	} else {
		f.hash = s.value()
	}
	f.text = s.text[start:]
	f.num = number(f.text)
	return f, nil
}

// word reads a key and gives its hash.
func (s *scanner) word() uint32 {
	h := uint32(2166136261)
	for {
		c, ok := s.in.peek()
		if !ok || classify(c) != letter {
			return h
		}
		h = mix(h, c)
		s.in.advance()
	}
}

// value reads an unquoted value and gives its hash.
func (s *scanner) value() uint32 {
	h := uint32(2166136261)
	for {
		c, ok := s.in.peek()
		if k := classify(c); !ok || k != letter && k != digit {
			return h
		}
		h = mix(h, c)
		s.text = append(s.text, c)
		s.in.advance()
	}
}

func (s *scanner) quoted() error {
	s.in.advance()
	for {
		c, ok := s.in.peek()
		if !ok || c == '\n' {
			return errQuote
		}
		s.in.advance()
		if c == '"' {
			return nil
		}
		s.text = append(s.text, c)
	}
}

// number reads digits; what is no number counts as 0.
func number(text []byte) int64 {
	var n int64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

// find gives the field with that key.
func (r *record) find(key uint32) (*field, bool) {
	for i := range r.fields {
		if r.fields[i].key == key {
			return &r.fields[i], true
		}
	}
	return nil, false
}

// A filter decides about a record.
type filter interface {
	match(r *record) bool
}

type atLeast struct {
	key uint32
	min int64
}

func (a *atLeast) match(r *record) bool {
	f, ok := r.find(a.key)
	return ok && f.num >= a.min
}

type equals struct{ key, hash uint32 }

func (e *equals) match(r *record) bool {
	f, ok := r.find(e.key)
	return ok && f.hash == e.hash
}

type not struct{ of filter }

func (n *not) match(r *record) bool { return !n.of.match(r) }

type all struct{ of []filter }

func (a *all) match(r *record) bool {
	for _, f := range a.of {
		if !f.match(r) {
			return false
		}
	}
	return true
}

// A summary takes in records.
type summary interface {
	add(r *record)
	print(w *bufio.Writer)
}

// sums adds up a number by the values of a field.
type sums struct {
	by, of uint32
	name   map[uint32]string
	n, sum map[uint32]int64
}

func newSums(by string) *sums {
	return &sums{hashOf(by), hashOf("micros"), map[uint32]string{}, map[uint32]int64{}, map[uint32]int64{}}
}

func (s *sums) add(r *record) {
	by, ok := r.find(s.by)
	if !ok {
		return
	}
	if _, seen := s.name[by.hash]; !seen {
		s.name[by.hash] = string(by.text)
	}
	s.n[by.hash]++
	if of, ok := r.find(s.of); ok {
		s.sum[by.hash] += of.num
	}
}

func (s *sums) print(w *bufio.Writer) {
	var names []string
	hash := map[string]uint32{}
	for h, name := range s.name {
		names = append(names, name)
		hash[name] = h
	}
	sort.Strings(names)
	for _, name := range names {
		h := hash[name]
		fmt.Fprintf(w, "%-10s %9d requests %12d us\n", name, s.n[h], s.sum[h])
	}
}

// spread counts the values of a number by powers of two.
type spread struct {
	of     uint32
	bucket [64]int64
}

func (s *spread) add(r *record) {
	f, ok := r.find(s.of)
	if !ok {
		return
	}
	b := 0
	for n := f.num; n > 0; n >>= 1 {
		b++
	}
	s.bucket[b]++
}

func (s *spread) print(w *bufio.Writer) {
	for b, n := range s.bucket {
		if n > 0 {
			fmt.Fprintf(w, "below 2^%-2d %9d\n", b, n)
		}
	}
}

// generate makes a log: n lines, always the same, one in a thousand malformed.
func generate(n int) []byte {
	var b []byte
	seed := uint32(1)
	draw := func(n uint32) uint32 {
		seed = seed*1664525 + 1013904223
		return (seed >> 8) % n
	}
	services := []string{"frontend", "search", "cart", "payment", "auth"}
	paths := []string{"/", "/item/list", "/item/show", "/cart/add", "/login"}
	for range n {
		b = append(b, "level="...)
		b = append(b, []string{"info", "info", "info", "warn", "debug"}[draw(5)]...)
		b = append(b, " service="...)
		b = append(b, services[draw(5)]...)
		b = append(b, " path="...)
		b = append(b, paths[draw(5)]...)
		b = append(b, " status="...)
		b = strconv.AppendInt(b, int64([]int{200, 200, 200, 204, 302, 404, 500}[draw(7)]), 10)
		b = append(b, " micros="...)
		b = strconv.AppendInt(b, int64(draw(1<<(4+draw(14)))), 10)
		b = append(b, ` agent="Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/128.0"`...)
		if draw(1000) == 0 {
			b = append(b, " ???"...)
		}
		b = append(b, '\n')
	}
	return b
}

// run answers the query once and gives how many lines could not be read.
func run(in reader, keep filter, into []summary) (bad int) {
	s := scanner{in: in}
	for {
		c, ok := in.peek()
		if !ok {
			return bad
		}
		if c == '\n' {
			in.advance()
			continue
		}
		s.record.fields, s.text = s.record.fields[:0], s.text[:0]
		if err := s.fields(); err != nil {
			s.skipLine()
			bad++
			continue
		}
		if keep.match(&s.record) {
			for _, to := range into {
				to.add(&s.record)
			}
		}
	}
}

func main() {
	n := flag.Int("n", 100, "answer the query `N` times")
	fold := flag.Bool("fold", false, "join lines that end in a backslash")
	cpuProfile := flag.String("cpuprofile", "", "write the runtime's CPU profile to `file`")
	flag.Parse()
	if *cpuProfile != "" {
		f, err := os.Create(*cpuProfile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		defer f.Close()
		defer pprof.StopCPUProfile()
	}
	text := generate(5000)
	keep := &all{[]filter{
		&not{&equals{hashOf("level"), hashOf("debug")}},
		&atLeast{hashOf("status"), 200},
		&atLeast{hashOf("micros"), 2},
	}}
	into := []summary{newSums("service"), newSums("path"), newSums("status"), &spread{of: hashOf("micros")}}
	bad := 0
	for range *n {
		var in reader = &plain{text: text}
		if *fold {
			in = &folded{plain{text: text}}
		}
		bad += run(in, keep, into)
	}
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	for _, s := range into {
		s.print(w)
	}
	fmt.Fprintf(w, "%d lines could not be read\n", bad)
}
