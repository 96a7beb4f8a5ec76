package verdict

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"backfeed/cmd/internal/input"
)

// A Request is what is compared, and by what.
type Request struct {
	Sides [2]Side       // old, new
	Input input.Options // but for what a Side says
	Event string        // "" is the one of which all sets have most
	Image string        // take the samples of the image with this path, or file name, alone; "" is all
	Noise float64       // as compare.Compare takes it

	SameLoad bool // as compare.Question has it

	Units              []string  // of both sides: the number of each, or a file of metrics with times
	Counter, Kind, Per string    // as Units has them; Counter is a selector
	KindLabel          string    // as Units has it
	Deploy             time.Time // of a store: the old side is before, the new one after
}

// Versus is the word between the sources of both sides.
const Versus = "vs"

// Choose has the sides know what the arguments of a command line and the fields of r say.
func (r *Request) Choose(args []string) error {
	old, new := &r.Sides[0], &r.Sides[1]
	switch i := slices.Index(args, Versus); {
	case i > 0 && i+1 < len(args) && !slices.Contains(args[i+1:], Versus):
		old.Paths, new.Paths = args[:i], args[i+1:]
	case i >= 0:
		return errors.New("want the sources of OLD before vs, and those of NEW after it")
	case len(args) == 2:
		old.Paths, new.Paths = args[:1], args[1:]
	case len(args) == 1 && (!r.Deploy.IsZero() || old.chooses() && new.chooses()):
		if r.Deploy.IsZero() && old.Build == new.Build && maps.Equal(old.Labels, new.Labels) {
			return errors.New("OLD and NEW are the same samples of that source")
		}
		old.Paths, new.Paths = args, args
	case len(args) == 1 && (old.chooses() || new.chooses()):
		with, without := old, new
		if new.chooses() {
			with, without = new, old
		}
		name := strings.ToLower(without.Name)
		return fmt.Errorf("one source, and nothing that says what of it is %s: it would have all samples of %s, too: want --%s or --%s-build", without.Name, with.Name, name, name)
	case len(args) == 1:
		return errors.New("one source, and nothing that says what of it is OLD and what NEW: want --deploy, --old and --new, or --old-build and --new-build")
	default:
		return errors.New("want OLD and NEW, or the word vs between those of OLD and those of NEW")
	}
	if !r.Deploy.IsZero() {
		old.Until, new.Since = r.Deploy, r.Deploy
	}
	return r.chooseUnits()
}

// chooses reports whether a side says what of its sources it is.
func (s *Side) chooses() bool { return len(s.Labels) > 0 || s.Build != "" }

// Paths are the sources of both sides.
func (r *Request) Paths() []string { return slices.Concat(r.Sides[0].Paths, r.Sides[1].Paths) }

func (r *Request) chooseUnits() error {
	old, new := &r.Sides[0].Units, &r.Sides[1].Units
	switch len(r.Units) {
	case 0:
	case 1:
		old.Values, new.Values = r.Units, r.Units
	case 2:
		old.Values, new.Values = r.Units[:1], r.Units[1:]
	default:
		return errors.New("--units wants the number of OLD and that of NEW: those of several recordings go to --old-units and --new-units")
	}
	switch {
	case (len(old.Values) > 0) != (len(new.Values) > 0):
		return errors.New("the units of work are known of one side only")
	case r.Per != "" && len(old.Values) > 0:
		return errors.New("the units of work are executions by --per, or what --units, --old-units and --new-units say, not both")
	case r.Kind != "" && r.Counter == "":
		return errors.New("--kind goes with --counter")
	case r.KindLabel != "" && r.Kind == "":
		return errors.New("--kind-label says of which kind samples are: want the units of each kind, by --counter and --kind. " + noCount)
	case r.KindLabel != "" && (r.Image != "" || r.Sides[0].Build != "" || r.Sides[1].Build != ""):
		return errors.New("--kind-label is about all samples, not those of --image, --old-build and --new-build alone")
	}
	var sel Selector
	if r.Counter != "" {
		var err error
		if sel, err = ParseSelector(r.Counter); err != nil {
			return err
		}
	}
	for i := range r.Sides {
		u := &r.Sides[i].Units
		u.Counter, u.Kind, u.KindLabel, u.Proc = sel, r.Kind, r.KindLabel, r.Per
	}
	return nil
}
