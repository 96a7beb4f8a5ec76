package section

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/input"
)

// Find returns the sections of these names of a configuration, in the order of the names; nil where there is none. A
// configuration without the first is an error.
func Find(text []byte, names ...string) ([]*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	found := make([]*yaml.Node, len(names))
	if doc.Kind != 0 && doc.Content[0].Kind == yaml.MappingNode {
		top := doc.Content[0].Content
		for i := 0; i+1 < len(top); i += 2 {
			if k := slices.Index(names, top[i].Value); k >= 0 {
				found[k] = top[i+1]
			}
		}
	}
	if found[0] == nil {
		return nil, fmt.Errorf("no section %q", names[0])
	}
	return found, nil
}

// Fields reads a map whose keys are known.
func Fields(n *yaml.Node, known map[string]func(*yaml.Node) error) error {
	return Each(n, func(key string, v *yaml.Node) error {
		read := known[key]
		if read == nil {
			return fmt.Errorf("line %d: %q: want one of %s", v.Line, key, names(known))
		}
		return read(v)
	})
}

// names are the keys of a map, in words.
func names[V any](of map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(of)), ", ")
}

// Each calls f for the keys of a map and their values: its own, and those of maps that it merges where it has no such
// key itself.
func Each(n *yaml.Node, f func(key string, v *yaml.Node) error) error {
	own := map[string]bool{}
	return eachOf(n, 0, func(key string, v *yaml.Node, depth int) error {
		if depth > 0 && own[key] {
			return nil
		}
		own[key] = own[key] || depth == 0
		return f(key, v)
	})
}

// maxMerge is how deep merged maps may merge others: one that merges itself has no end.
const maxMerge = 8

// eachOf calls f for the keys of a map, and then for those of the maps that it merges, one deeper.
func eachOf(n *yaml.Node, depth int, f func(key string, v *yaml.Node, depth int) error) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: want names, each with what it holds", n.Line)
	}
	if depth > maxMerge {
		return fmt.Errorf("line %d: maps are merged more than %d deep", n.Line, maxMerge)
	}
	var merged []*yaml.Node
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case key.Tag == "!!merge":
			merged = append(merged, n.Content[i+1])
			continue
		case seen[key.Value]: // which only decoding into values refuses
			return fmt.Errorf("line %d: %q is there twice", key.Line, key.Value)
		}
		seen[key.Value] = true
		if err := f(key.Value, n.Content[i+1], depth); err != nil {
			return err
		}
	}
	for _, m := range merged {
		if err := eachOf(m, depth+1, f); err != nil {
			return err
		}
	}
	return nil
}

// Sources returns a reader of a list of SRC or SRC@WEIGHT.
func Sources(to *[]input.Source) func(*yaml.Node) error {
	return List(func(n *yaml.Node) error {
		return Scalar(n, func(text string) error {
			s, err := input.ParseSource(text)
			if err == nil && s.Path == "" {
				err = errors.New("want a recording, a store or an address")
			}
			*to = append(*to, s)
			return err
		})
	})
}

// List returns a reader of a list, or of one thing that is one.
func List(f func(*yaml.Node) error) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		if n.Kind != yaml.SequenceNode {
			return f(n)
		}
		for _, item := range n.Content {
			if err := f(item); err != nil {
				return err
			}
		}
		return nil
	}
}

// Scalar reads a plain value.
func Scalar(n *yaml.Node, f func(string) error) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return fmt.Errorf("line %d: want a plain value", n.Line)
	}
	if err := f(n.Value); err != nil {
		return fmt.Errorf("line %d: %q: %w", n.Line, n.Value, err)
	}
	return nil
}

// String returns a reader of a plain value into p.
func String(p *string) func(*yaml.Node) error {
	return func(n *yaml.Node) error { return Scalar(n, func(s string) error { *p = s; return nil }) }
}

// Span returns a reader of a time into p.
func Span(p *time.Duration) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		return Scalar(n, func(s string) (err error) { *p, err = flagset.ParsePositive(s, false); return err })
	}
}

// Bool returns a reader of true or false into p.
func Bool(p *bool) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		return Scalar(n, func(s string) (err error) { *p, err = strconv.ParseBool(s); return err })
	}
}

// Choice returns a reader of one of some words, each with what it does.
func Choice(of map[string]func()) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		return Scalar(n, func(s string) error {
			f := of[s]
			if f == nil {
				return fmt.Errorf("want one of %s", names(of))
			}
			f()
			return nil
		})
	}
}
