package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Rules are a JSON Schema by which a document of ours is checked whole before anything is made of it. They know the keywords
// that our schemas have, and no others. Where a schema says that there are no more properties, more pass: readers ignore
// those that they do not know.
type Rules struct{ root *rule }

// A rule is a schema of a value.
type rule struct {
	Ref                  string           `json:"$ref"`
	Type                 string           `json:"type"`
	Const                *string          `json:"const"`
	Enum                 []string         `json:"enum"`
	Pattern              string           `json:"pattern"`
	MinLength            int              `json:"minLength"` // characters
	Minimum              *float64         `json:"minimum"`
	ExclusiveMinimum     *float64         `json:"exclusiveMinimum"`
	Maximum              *float64         `json:"maximum"`
	Required             []string         `json:"required"`
	Properties           map[string]*rule `json:"properties"`
	AdditionalProperties json.RawMessage  `json:"additionalProperties"`
	Items                *rule            `json:"items"`
	Defs                 map[string]*rule `json:"$defs"`

	// What says nothing of values.
	Schema      string `json:"$schema"`
	ID          string `json:"$id"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Format      string `json:"format"` // an annotation, as the standard has it unless told otherwise

	pattern *regexp.Regexp
	more    *rule // of properties that are not listed; nil asks nothing
}

// ParseRules reads a schema.
func ParseRules(schema []byte) (*Rules, error) {
	var root rule
	d := json.NewDecoder(bytes.NewReader(schema))
	d.DisallowUnknownFields()
	if err := d.Decode(&root); err != nil {
		return nil, err
	}
	for _, r := range root.Defs {
		if err := r.resolve(root.Defs); err != nil {
			return nil, err
		}
	}
	return &Rules{&root}, root.resolve(root.Defs)
}

// MustParseRules is ParseRules of a schema that is part of the program.
func MustParseRules(schema []byte) *Rules {
	r, err := ParseRules(schema)
	if err != nil {
		panic(err)
	}
	return r
}

// resolve readies r and what is below it. References stay what they are: they may lead back to r.
func (r *rule) resolve(defs map[string]*rule) (err error) {
	if r.Ref != "" && defs[strings.TrimPrefix(r.Ref, refPrefix)] == nil {
		return fmt.Errorf("$ref: nothing is called %q", r.Ref)
	}
	if r.Pattern != "" {
		if r.pattern, err = regexp.Compile(r.Pattern); err != nil {
			return err
		}
	}
	if b := r.AdditionalProperties; len(b) > 0 && b[0] == '{' {
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		if err := d.Decode(&r.more); err != nil {
			return err
		}
		if err := r.more.resolve(defs); err != nil {
			return err
		}
	}
	if r.Items != nil {
		if err := r.Items.resolve(defs); err != nil {
			return err
		}
	}
	for _, p := range r.Properties {
		if err := p.resolve(defs); err != nil {
			return err
		}
	}
	return nil
}

const refPrefix = "#/$defs/"

// valid takes any JSON: package json checks the whole of it before it asks for more.
type valid struct{}

func (valid) UnmarshalJSON([]byte) error { return nil }

// Check reports the first thing in the document b that the schema does not allow, with its offset and its path.
// Anything but one JSON value is refused.
func (s *Rules) Check(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(new(valid)); err != nil {
		return JSONError(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("offset %#x: more than one value, want one document in a file", d.InputOffset())
	}
	c := checker{b: b, defs: s.root.Defs}
	return c.value(s.root)
}

// A checker walks through valid JSON.
type checker struct {
	b    []byte
	off  int
	defs map[string]*rule
	path []step
}

// A step leads from a value to one in it.
type step struct {
	name  string // of a property
	index int    // of an element; -1 is a property
}

// fail says what is wrong with the value at offset off, which path leads to, and more after it.
func (c *checker) fail(off int, what string, more ...step) error {
	var at strings.Builder
	for _, s := range slices.Concat(c.path, more) {
		switch {
		case s.index >= 0:
			fmt.Fprintf(&at, "[%d]", s.index)
		case !plainName.MatchString(s.name):
			fmt.Fprintf(&at, "[%.40q]", s.name)
		case at.Len() > 0:
			at.WriteString("." + s.name)
		default:
			at.WriteString(s.name)
		}
	}
	if at.Len() > 0 {
		what = at.String() + ": " + what
	}
	return fmt.Errorf("offset %#x: %s", off, what)
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,40}$`)

// space goes to the next byte that is none.
func (c *checker) space() byte {
	for c.b[c.off] <= ' ' {
		c.off++
	}
	return c.b[c.off]
}

// value checks the next value by r; nil asks nothing of it.
func (c *checker) value(r *rule) error {
	for r != nil && r.Ref != "" {
		r = c.defs[strings.TrimPrefix(r.Ref, refPrefix)]
	}
	first := c.space()
	if r != nil && r.Type != "" && !hasType(first, r.Type) {
		return c.fail(c.off, fmt.Sprintf("%s, want %s", kindOf(first), kindWords[r.Type]))
	}
	if r != nil && (r.Const != nil || len(r.Enum) > 0) && first != '"' {
		return c.fail(c.off, r.wantsWord(kindOf(first)))
	}
	switch {
	case first == '{':
		return c.object(r)
	case first == '[':
		return c.array(r)
	case first == '"':
		at := c.off
		s := c.text()
		if r != nil {
			return c.checkString(r, s, at)
		}
	case first == '-' || first >= '0' && first <= '9':
		at := c.off
		for c.off < len(c.b) && strings.IndexByte("+-.0123456789eE", c.b[c.off]) >= 0 {
			c.off++
		}
		if r != nil {
			return c.checkNumber(r, string(c.b[at:c.off]), at)
		}
	default: // true, false, null
		for c.off < len(c.b) && c.b[c.off] >= 'a' && c.b[c.off] <= 'z' {
			c.off++
		}
	}
	return nil
}

// What types are called.
var kindWords = map[string]string{"object": "an object", "array": "an array", "string": "a string", "boolean": "true or false", "number": "a number", "integer": "a whole number"}

// kindOf says what a value is that begins so.
func kindOf(first byte) string {
	switch {
	case first == 't' || first == 'f':
		return kindWords["boolean"]
	case first == 'n':
		return "null"
	}
	for _, kind := range []string{"object", "array", "string"} {
		if hasType(first, kind) {
			return kindWords[kind]
		}
	}
	return kindWords["number"]
}

func hasType(first byte, kind string) bool {
	switch kind {
	case "object":
		return first == '{'
	case "array":
		return first == '['
	case "string":
		return first == '"'
	case "boolean":
		return first == 't' || first == 'f'
	case "number", "integer":
		return first == '-' || first >= '0' && first <= '9'
	}
	return false
}

// text reads a string.
func (c *checker) text() string {
	at, plain := c.off, true
	for c.off++; c.b[c.off] != '"'; c.off++ {
		if c.b[c.off] == '\\' {
			c.off++
			plain = false
		} else if c.b[c.off] >= utf8.RuneSelf {
			plain = false
		}
	}
	c.off++
	if plain {
		return string(c.b[at+1 : c.off-1])
	}
	var s string
	json.Unmarshal(c.b[at:c.off], &s) // it is valid
	return s
}

func (c *checker) array(r *rule) error {
	var items *rule
	if r != nil {
		items = r.Items
	}
	c.off++
	for i := 0; c.space() != ']'; i++ {
		if c.b[c.off] == ',' {
			c.off++
		}
		c.path = append(c.path, step{index: i})
		if err := c.value(items); err != nil {
			return err
		}
		c.path = c.path[:len(c.path)-1]
	}
	c.off++
	return nil
}

func (c *checker) object(r *rule) error {
	start := c.off
	var need []string
	if r != nil {
		need = slices.Clone(r.Required)
	}
	c.off++
	for c.space() != '}' {
		if c.b[c.off] == ',' {
			c.off++
			c.space()
		}
		at := c.off
		name := c.text()
		of, err := c.property(r, name, at)
		if err != nil {
			return err
		}
		c.space()
		c.off++ // the colon
		c.path = append(c.path, step{name, -1})
		if err := c.value(of); err != nil {
			return err
		}
		c.path = c.path[:len(c.path)-1]
		need = slices.DeleteFunc(need, func(n string) bool { return n == name })
	}
	c.off++
	if len(need) > 0 {
		return c.fail(start, "missing", step{need[0], -1})
	}
	return nil
}

// property returns the rule of a property. Package json, which reads the document after this, takes names in any case, so
// one that is only nearly ours is refused: it would be read and not checked.
func (c *checker) property(r *rule, name string, at int) (*rule, error) {
	if r == nil {
		return nil, nil
	}
	if of := r.Properties[name]; of != nil {
		return of, nil
	}
	for known := range r.Properties {
		if strings.EqualFold(known, name) {
			return nil, c.fail(at, fmt.Sprintf("want %q, in these letters", known), step{name, -1})
		}
	}
	return r.more, nil
}

// wantsWord says what else than got r takes.
func (r *rule) wantsWord(got string) string {
	if r.Const != nil {
		return fmt.Sprintf("%s, want %q", got, *r.Const)
	}
	want := strings.Join(r.Enum, ", ")
	if i := strings.LastIndex(want, ", "); i >= 0 {
		want = want[:i] + " or " + want[i+2:]
	}
	return fmt.Sprintf("%s, want %s", got, want)
}

func (c *checker) checkString(r *rule, s string, at int) error {
	switch {
	case r.Const != nil && s != *r.Const, len(r.Enum) > 0 && !slices.Contains(r.Enum, s):
		return c.fail(at, r.wantsWord(fmt.Sprintf("%.40q", s)))
	case r.pattern != nil && !r.pattern.MatchString(s):
		return c.fail(at, fmt.Sprintf("%.40q, want what matches %s", s, r.Pattern))
	case r.MinLength > 0 && utf8.RuneCountInString(s) < r.MinLength:
		return c.fail(at, fmt.Sprintf("%q, want %d characters or more", s, r.MinLength))
	}
	return nil
}

func (c *checker) checkNumber(r *rule, text string, at int) error {
	v, err := strconv.ParseFloat(text, 64) // beyond what it holds, ±Inf
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return c.fail(at, fmt.Sprintf("%.40s: not a number", text))
	}
	switch {
	case r.Type == "integer" && v != math.Trunc(v):
		return c.fail(at, fmt.Sprintf("%.40s, want a whole number", text))
	case r.Minimum != nil && v < *r.Minimum:
		return c.fail(at, fmt.Sprintf("%.40s, want %v or more", text, *r.Minimum))
	case r.ExclusiveMinimum != nil && v <= *r.ExclusiveMinimum:
		return c.fail(at, fmt.Sprintf("%.40s, want more than %v", text, *r.ExclusiveMinimum))
	case r.Maximum != nil && v > *r.Maximum:
		return c.fail(at, fmt.Sprintf("%.40s, want %v or less", text, *r.Maximum))
	}
	return nil
}
