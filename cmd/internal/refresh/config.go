package refresh

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/section"
	"backfeed/feedback/gate"
)

// Section is the key of a configuration that is for this package.
const Section = "refresh"

// A Config is what a repository wants to keep fresh. Paths in it are below Dir, unless they are absolute.
type Config struct {
	Dir     string // of the configuration's file
	Lock    string // path of the lock
	Targets []*Target
}

// A Target is outputs that are made of one merge of samples.
type Target struct {
	Name      string
	Sources   []input.Source // of which a path may be a pattern of names
	Image     string         // file of the newest build, which older ones are carried onto; or the path or build ID of a recorded image
	Recorded  string         // path or build ID of older builds; "" is any of Image's file name
	Builds    []string       // where sampled builds are found, as --symfs
	Tree      string         // source that the samples are held against; "" is none
	Since     time.Duration
	HalfLife  time.Duration
	Normalise bool
	LeaveOut  bool // leave out a source that cannot be read
	Labels    map[string]string
	Event     string
	Model     string
	Limits    gate.Limits
	Mode      Mode
	Store     string // of Pin: the directory that profiles go to
	Outputs   []Output

	line int // of the configuration
}

// A Mode says where profiles are kept.
type Mode string

const (
	Commit Mode = "commit" // at their paths, in the repository
	Pin    Mode = "pin"    // in a store; the repository has the lock
)

// An Output is one file that a target makes.
type Output struct {
	Kind  string // of Kinds
	Path  string // where; Hash in it stands for the digits of its content
	Form  string // of llvm: text or extbinary
	For   string // of layout: who reads the order
	LD    string // of propeller: path of the order for the linker
	GCC   int    // of gcc: its major version; 0 is that of the image
	Image string // another image than the target's
}

// Hash in the path of an output stands for the first digits of the SHA-256 of its content.
const Hash = "{hash}"

// Kinds are the formats of outputs: those of emit, and an order of functions.
var Kinds = []string{"go", "llvm", "gcc", "bolt", "propeller", "layout"}

// Orders are those who read an order of functions, of an output of kind layout.
var Orders = []string{"lld", "gold", "ld", "ld-script", "bolt"}

// defaultLock is the lock where a configuration names none.
const defaultLock = "backfeed.lock"

// Parse reads the section of the configuration text, which lies in directory dir. limits returns a set with the flags of
// check that are limits, and these: a target's are set by its own section, and else by that of check.
func Parse(text []byte, dir string, limits func() (*flagset.Set, *gate.Limits)) (*Config, error) {
	found, err := section.Find(text, Section, "check")
	if err != nil {
		return nil, err
	}
	targets, check := found[0], found[1]
	c := &Config{Dir: filepath.Clean(dir), Lock: defaultLock}
	r := reader{limits: func(target *yaml.Node) (gate.Limits, error) {
		fs, lim := limits()
		err := fs.ConfigureSection(target, false)
		if err == nil {
			err = fs.ConfigureSection(check, true)
		}
		return *lim, err
	}}
	err = section.Fields(targets, map[string]func(*yaml.Node) error{
		"lock": section.String(&c.Lock),
		"targets": func(n *yaml.Node) error {
			return section.Each(n, func(name string, n *yaml.Node) error {
				t, err := r.target(name, n)
				c.Targets = append(c.Targets, t)
				return err
			})
		},
	})
	if err != nil {
		return nil, err
	}
	if len(c.Targets) == 0 {
		return nil, fmt.Errorf("line %d: %s: no targets", targets.Line, Section)
	}
	return c, c.check()
}

// check reports what does not go together.
func (c *Config) check() error {
	if c.Lock != filepath.Base(c.Lock) || c.Lock == "." || c.Lock == ".." {
		return fmt.Errorf("lock: %s: want a name beside the configuration", c.Lock)
	}
	paths := map[string]string{c.Lock: "the lock"}
	for _, t := range c.Targets {
		for _, o := range t.Outputs {
			for _, path := range o.files() {
				if !filepath.IsLocal(path) {
					return fmt.Errorf("line %d: %s: %s: outputs lie below the configuration's directory", t.line, t.Name, path)
				}
				if other := paths[filepath.Clean(path)]; other != "" {
					return fmt.Errorf("line %d: %s: %s is an output of %s, too", t.line, t.Name, path, other)
				}
				paths[filepath.Clean(path)] = t.Name
			}
		}
	}
	return nil
}

// Files are the paths of all outputs and of the lock, below Dir. Of an output with Hash in its path, the lock knows the file.
func (c *Config) Files() []string {
	all := []string{c.Lock}
	for _, t := range c.Targets {
		for _, o := range t.Outputs {
			for _, path := range o.files() {
				if t.Mode == Commit && !strings.Contains(path, Hash) {
					all = append(all, path)
				}
			}
		}
	}
	return all
}

// files are the paths that an output has.
func (o *Output) files() []string {
	if o.LD != "" {
		return []string{o.Path, o.LD}
	}
	return []string{o.Path}
}

// A reader reads targets.
type reader struct {
	limits func(*yaml.Node) (gate.Limits, error)
}

func (r *reader) target(name string, n *yaml.Node) (*Target, error) {
	t := &Target{Name: name, Mode: Commit, line: n.Line}
	var limits *yaml.Node
	err := section.Fields(n, map[string]func(*yaml.Node) error{
		"sources":      section.Sources(&t.Sources),
		"image":        section.String(&t.Image),
		"recorded":     section.String(&t.Recorded),
		"builds":       section.List(func(n *yaml.Node) error { t.Builds = append(t.Builds, n.Value); return nil }),
		"source":       section.String(&t.Tree),
		"since":        section.Span(&t.Since),
		"half-life":    section.Span(&t.HalfLife),
		"normalise":    section.Bool(&t.Normalise),
		"failure-mode": section.Choice(map[string]func(){"any": func() { t.LeaveOut = false }, "all": func() { t.LeaveOut = true }}),
		"label": func(n *yaml.Node) error {
			t.Labels = map[string]string{}
			return section.Each(n, func(key string, v *yaml.Node) error {
				return section.Scalar(v, func(s string) error { t.Labels[key] = s; return nil })
			})
		},
		"event":  section.String(&t.Event),
		"model":  section.String(&t.Model),
		"limits": func(n *yaml.Node) error { limits = n; return nil },
		"mode":   section.Choice(map[string]func(){string(Commit): func() { t.Mode = Commit }, string(Pin): func() { t.Mode = Pin }}),
		"store":  section.String(&t.Store),
		"outputs": section.List(func(n *yaml.Node) error {
			o, err := outputOf(n)
			t.Outputs = append(t.Outputs, o)
			return err
		}),
	})
	if err == nil {
		t.Limits, err = r.limits(limits)
	}
	switch {
	case err != nil:
	case len(t.Sources) == 0:
		err = fmt.Errorf("line %d: no sources", n.Line)
	case t.Image == "" && slices.ContainsFunc(t.Outputs, func(o Output) bool { return o.Image == "" }):
		err = fmt.Errorf("line %d: no image: the file of the newest build, or the path of a recorded one", n.Line)
	case len(t.Outputs) == 0:
		err = fmt.Errorf("line %d: no outputs", n.Line)
	case (t.Mode == Pin) != (t.Store != ""):
		err = fmt.Errorf("line %d: mode pin, and no other, wants a store: the directory that profiles go to", n.Line)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// outputOf reads a map of one kind with its path, and what else there is to say.
func outputOf(n *yaml.Node) (o Output, err error) {
	keys := map[string]func(*yaml.Node) error{
		"format": section.String(&o.Form), "for": section.String(&o.For), "ld": section.String(&o.LD), "image": section.String(&o.Image),
		"gcc-version": func(n *yaml.Node) error {
			return section.Scalar(n, func(s string) (err error) {
				if o.GCC, err = strconv.Atoi(s); err == nil && o.GCC < 12 {
					err = errors.New("want 12 or later")
				}
				return err
			})
		},
	}
	for _, kind := range Kinds {
		keys[kind] = func(n *yaml.Node) error {
			if o.Kind != "" {
				return fmt.Errorf("line %d: an output is %s or %s: make it two", n.Line, o.Kind, kind)
			}
			o.Kind = kind
			return section.String(&o.Path)(n)
		}
	}
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if key := n.Content[i]; key.Value == "gcda" {
			return o, fmt.Errorf("line %d: gcda: gcc's counters are no output, as they are for one source, directory and gcc, and the next edit makes them errors: "+
				"`backfeed emit gcda` makes them in the build that reads them (`backfeed help c`), and gcc is an output that outlasts edits", key.Line)
		}
	}
	if err := section.Fields(n, keys); err != nil {
		return o, err
	}
	switch {
	case o.Kind == "" || o.Path == "":
		err = fmt.Errorf("want one of %s with the path of a file", strings.Join(Kinds, ", "))
	case o.Form != "" && (o.Kind != "llvm" || o.Form != "text" && o.Form != "extbinary"):
		err = errors.New("format: llvm has text and extbinary, and no other kind has one")
	case (o.Kind == "propeller") != (o.LD != ""):
		err = errors.New("propeller, and no other, wants ld, the path of the order for the linker")
	case o.GCC != 0 && o.Kind != "gcc":
		err = errors.New("gcc-version goes with gcc")
	case o.Kind == "layout" && !slices.Contains(Orders, o.For):
		err = fmt.Errorf("layout wants for: %s", strings.Join(Orders, ", "))
	case o.Kind != "layout" && o.For != "":
		err = errors.New("for goes with layout")
	case strings.Contains(o.LD, Hash) || strings.Count(o.Path, Hash) > 1 || strings.Contains(filepath.Dir(o.Path), Hash):
		err = fmt.Errorf("%s may stand once, in the last element of an output's path", Hash)
	}
	if err != nil {
		err = fmt.Errorf("line %d: %w", n.Line, err)
	}
	return o, err
}
