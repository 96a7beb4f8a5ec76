package input

import (
	"maps"
	"slices"
	"time"
)

// Words returns the words of a command line that reads and infers the same again: sources and flags. What may be
// secret in an address is left out, as Name does.
func (s *Session) Words() []string {
	words := Names(s.paths)
	flag := func(name string, values ...string) {
		for _, v := range values {
			if v != "" {
				words = append(words, "--"+name, v)
			}
		}
	}
	flag("symfs", s.opt.Symfs...)
	for _, t := range []struct {
		name string
		at   time.Time
	}{{"since", s.opt.Since}, {"until", s.opt.Until}} {
		if !t.at.IsZero() {
			flag(t.name, t.at.UTC().Format(time.RFC3339))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.opt.Labels)) {
		flag("label", name+"="+s.opt.Labels[name])
	}
	flag("between", s.opt.Between.String())
	flag("event", s.opt.Infer.Event)
	flag("model", s.opt.Infer.Model)
	return words
}
