package section

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"
)

// A thing is what a section of these tests holds.
type thing struct {
	Name  string
	Wait  time.Duration
	Big   bool
	Words []string
	Kind  int
}

func read(text string) (*thing, error) {
	found, err := Find([]byte(text), "thing", "other")
	if err != nil {
		return nil, err
	}
	t := new(thing)
	return t, Fields(found[0], map[string]func(*yaml.Node) error{
		"name": String(&t.Name), "wait": Span(&t.Wait), "big": Bool(&t.Big),
		"words": List(func(n *yaml.Node) error {
			return Scalar(n, func(s string) error { t.Words = append(t.Words, s); return nil })
		}),
		"kind": Choice(map[string]func(){"one": func() { t.Kind = 1 }, "two": func() { t.Kind = 2 }}),
	})
}

func TestRead(t *testing.T) {
	for text, want := range map[string]thing{
		"thing: {}": {},
		"other: [x]\nthing: {name: a, wait: 7d, big: true, words: [a, b], kind: two}": {"a", 7 * 24 * time.Hour, true, []string{"a", "b"}, 2},
		"thing: {words: a}": {Words: []string{"a"}},
		"d: &d {name: a, kind: one}\nthing:\n  <<: *d\n  name: b": {Name: "b", Kind: 1},
		"d: &d [a, b]\nn: &n x\nthing: {words: *d, name: *n}":     {Name: "x", Words: []string{"a", "b"}},
	} {
		got, err := read(text)
		if err != nil || !reflect.DeepEqual(got, &want) {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
}

// TestReadRefuses: an error names the line, and what is wanted there.
func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 `no section "thing"`,
		"[thing]":                          `no section "thing"`,
		"a: [":                             "line 1",
		"thing: a":                         "line 1: want names",
		"thing:\n  nam: a":                 `line 2: "nam": want one of big, kind, name, wait, words`,
		"thing:\n  name: a\n  name: b":     `line 3: "name" is there twice`,
		"thing:\n  name: [a]":              "line 2: want a plain value",
		"thing:\n  name:":                  "line 2: want a plain value",
		"thing: {wait: 5}":                 "want a time",
		"thing: {big: 7}":                  "invalid syntax",
		"thing: {kind: three}":             `"three": want one of one, two`,
		"thing: {words: [a, [b]]}":         "want a plain value",
		"x: &x {<<: *x}\nthing: *x":        fmt.Sprintf("merged more than %d deep", maxMerge),
		"x: &x {name: a}\nthing: {<<: [a]": "line",
	} {
		if got, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", text, got, err, want)
		}
	}
}
