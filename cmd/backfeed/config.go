package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"backfeed/cmd/internal/fail"
)

// A configuration is flags in a file of YAML: below the name of a command, a key for each flag, whose value is
// what follows the flag on a command line, a list of such, or, of labels, a map:
//
//	agent:
//	  max-cpu: 0.5%
//	  pid: [12, 34]
//	  label: {service: api}

// configFile is the configuration that check reads where it is there.
const configFile = "backfeed.yaml"

// configured are the commands that read a configuration.
var configured = []string{"agent", "check"}

const configHelp = `--config names a file of YAML with a key for each flag below the name of the command: what follows the flag on a
command line, or a list, or, of labels, a map. Flags of the command line win. One file may be for several commands.`

// config defines the flag that names the configuration.
func (c *cli) config(usage string) *string {
	return c.fs.String("config", "", usage)
}

// readConfig sets flags that were not given by the file at path; with optional, it need not be there.
func (c *cli) readConfig(path string, optional bool) error {
	b, err := os.ReadFile(path)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, fail.Cause(err))
	}
	if c.cmd.name == "agent" && oldConfig(string(b)) {
		c.warn("%s: lines \"name = value\" are YAML now, \"name: value\" below \"agent:\"; the old form will go", path)
		err = c.fs.configureLines(string(b))
	} else {
		err = c.fs.configure(b, c.cmd.name)
	}
	if err != nil {
		return fail.Errorf(fail.Usage, "%s: %w", path, err)
	}
	return nil
}

// configure sets flags that were not given by the part of a configuration that is for a command.
func (fs *flagSet) configure(text []byte, command string) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if doc.Kind == 0 { // nothing but comments
		return nil
	}
	given := fs.given()
	return eachKey(doc.Content[0], "the names of commands", func(key string, section *yaml.Node) error {
		if !slices.Contains(configured, key) {
			return fmt.Errorf("line %d: %q: want %s", section.Line, key, strings.Join(configured, " or "))
		}
		if key != command || section.Tag == "!!null" {
			return nil
		}
		return eachKey(section, "the names of flags", func(name string, value *yaml.Node) error {
			return fs.configureFlag(given, name, value)
		})
	})
}

// configureFlag sets a flag by a value of a configuration.
func (fs *flagSet) configureFlag(given map[string]bool, name string, value *yaml.Node) error {
	f := fs.lookupConfigured(name)
	if f == nil {
		return fmt.Errorf("line %d: %q is no flag that can be set here", value.Line, name)
	}
	if given[f.Name] || given[strings.Join(f.Annotations[aliasKey], "")] {
		return nil
	}
	var values []string
	switch {
	case value.Kind == yaml.ScalarNode && value.Tag != "!!null":
		values = []string{value.Value}
	case value.Kind == yaml.SequenceNode && isList(f):
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
func (fs *flagSet) given() map[string]bool {
	given := map[string]bool{}
	fs.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	return given
}

// lookupConfigured returns the flag of that name that a configuration may set, or nil.
func (fs *flagSet) lookupConfigured(name string) *pflag.Flag {
	if name == "config" || name == "systemd-unit" {
		return nil
	}
	return fs.Lookup(name)
}

// oldConfig reports whether text is lines "name = value", as configurations of agent were.
func oldConfig(text string) bool {
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

// configureLines sets flags that were not given by lines "name = value".
func (fs *flagSet) configureLines(text string) error {
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
