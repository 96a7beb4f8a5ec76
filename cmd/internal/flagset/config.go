package flagset

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"
)

// Configure sets flags that were not given by the part of a configuration that is for a command.
func (fs *Set) Configure(text []byte, command string, of []string) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if doc.Kind == 0 { // nothing but comments
		return nil
	}
	given := fs.given()
	return eachKey(doc.Content[0], "the names of commands", func(key string, section *yaml.Node) error {
		if !slices.Contains(of, key) {
			return fmt.Errorf("line %d: %q: want %s", section.Line, key, strings.Join(of, " or "))
		}
		if key != command || section.Tag == "!!null" {
			return nil
		}
		return eachKey(section, "the names of flags", func(name string, value *yaml.Node) error {
			return fs.configureFlag(given, name, value)
		})
	})
}

// ConfigureSection sets flags that were not set by a section of a configuration, which is none if it is nil. Those that
// the section has and the set lacks are refused, or with lenient passed over.
func (fs *Set) ConfigureSection(section *yaml.Node, lenient bool) error {
	if section == nil || section.Tag == "!!null" {
		return nil
	}
	given := fs.given()
	return eachKey(section, "the names of flags", func(name string, value *yaml.Node) error {
		if lenient && fs.Lookup(name) == nil {
			return nil
		}
		return fs.configureFlag(given, name, value)
	})
}

// configureFlag sets a flag by a value of a configuration.
func (fs *Set) configureFlag(given map[string]bool, name string, value *yaml.Node) error {
	f := fs.lookupConfigured(name)
	if f == nil {
		return fmt.Errorf("line %d: %q is no flag that can be set here", value.Line, name)
	}
	if given[f.Name] || given[strings.Join(f.Annotations[AliasKey], "")] {
		return nil
	}
	var values []string
	switch {
	case value.Kind == yaml.ScalarNode && value.Tag != "!!null":
		values = []string{value.Value}
	case value.Kind == yaml.SequenceNode && IsList(f):
		for _, item := range value.Content {
			if item.Kind != yaml.ScalarNode {
				return fmt.Errorf("line %d: %s: want a list of plain values", item.Line, name)
			}
			values = append(values, item.Value)
		}
	case value.Kind == yaml.MappingNode && f.Value.Type() == "name=value":
		err := eachKey(value, "names", func(key string, of *yaml.Node) error {
			values = append(values, key+"="+of.Value)
			return nil
		})
		if err != nil {
			return err
		}
	default:
		return fmt.Errorf("line %d: %s: %s", value.Line, name, wanted(f, nil))
	}
	for _, v := range values {
		if err := fs.set(f, v); err != nil {
			return fmt.Errorf("line %d: %w", value.Line, err)
		}
	}
	return nil
}

// eachKey calls f for the keys of a map and their values. what are the keys, for an error.
func eachKey(node *yaml.Node, what string, f func(key string, value *yaml.Node) error) error {
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: want %s, each with what it holds", node.Line, what)
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if err := f(node.Content[i].Value, node.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// given are the flags that the command line has.
func (fs *Set) given() map[string]bool {
	given := map[string]bool{}
	fs.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	return given
}

// lookupConfigured returns the flag of that name that a configuration may set, or nil.
func (fs *Set) lookupConfigured(name string) *pflag.Flag {
	if name == "config" || name == "systemd-unit" {
		return nil
	}
	return fs.Lookup(name)
}

// OldConfig reports whether text is lines "name = value", as configurations of agent were.
func OldConfig(text string) bool {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		name, _, ok := strings.Cut(line, "=")
		switch {
		case strings.TrimSpace(line) == "":
		case !ok:
			return false
		default:
			return !strings.Contains(name, ":")
		}
	}
	return false
}

// ConfigureLines sets flags that were not given by lines "name = value".
func (fs *Set) ConfigureLines(text string) error {
	given := fs.given()
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return fmt.Errorf("line %d: want name = value", n)
		}
		node := &yaml.Node{Kind: yaml.ScalarNode, Value: strings.TrimSpace(value), Line: n}
		if err := fs.configureFlag(given, strings.TrimSpace(name), node); err != nil {
			return err
		}
	}
	return nil
}
