package machine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"backfeed/infer/image"

	"gopkg.in/yaml.v3"
)

// ErrFormat is wrapped by every error that blames a model's file.
var ErrFormat = errors.New("malformed machine model")

// Limits of a file: no processor comes near.
const (
	maxFile   = 1 << 18 // bytes
	maxUnits  = 64
	maxGroups = 64
	maxUnions = 1 << 10
	maxCycles = 1000
)

// A file has this form. Every table of numbers names its sources, keys of the
// table of sources. Times are in cycles.
type file struct {
	Name       string            `yaml:"name"`
	Title      string            `yaml:"title"`
	Arch       string            `yaml:"arch"` // x86_64 or aarch64
	Sources    map[string]string `yaml:"sources"`
	InOrder    bool              `yaml:"in-order"`
	Width      fileWidth         `yaml:"width"`
	Window     fileWindow        `yaml:"window"`
	Memory     fileMemory        `yaml:"memory"`
	Buffers    fileBuffers       `yaml:"buffers"`
	Fusion     fileFusion        `yaml:"fusion"`
	Forwarding fileForwarding    `yaml:"forwarding"`
	Units      []string          `yaml:"units"`
	Groups     map[string]group  `yaml:"groups"` // a unit is a group of its own name
	Classes    map[string]class  `yaml:"classes"`
}

type group []string

type fileWidth struct {
	Fetch    int    `yaml:"fetch"`
	Decode   int    `yaml:"decode"`
	Dispatch int    `yaml:"dispatch"`
	Retire   int    `yaml:"retire"`
	Source   string `yaml:"source"`
}

type fileWindow struct {
	ROB        int    `yaml:"rob"`
	Mispredict int    `yaml:"mispredict"`
	Source     string `yaml:"source"`
}

type fileMemory struct {
	L1     int    `yaml:"l1"`
	L2     int    `yaml:"l2"`
	L3     int    `yaml:"l3"`
	DRAM   int    `yaml:"dram"`
	Source string `yaml:"source"`

	Wait       float64 `yaml:"wait"` // that a load adds to its block in the median; left out where it was not measured
	WaitSource string  `yaml:"wait-source"`
}

type fileBuffers struct {
	L1I    int    `yaml:"l1i"`    // bytes
	ITLB   int    `yaml:"itlb"`   // entries
	Uops   int    `yaml:"uops"`   // in the cache of decoded ones; 0 where there is none
	Stores int    `yaml:"stores"` // entries
	Source string `yaml:"source"`
}

type fileFusion struct {
	LoadOp  bool   `yaml:"load-op"`  // a load and its arithmetic are dispatched as one
	OpStore bool   `yaml:"op-store"` // arithmetic and its store are dispatched as one
	Branch  string `yaml:"branch"`   // what a conditional jump after it fuses with: none, compare, alu
	Source  string `yaml:"source"`
}

type fileForwarding struct {
	Address float64 `yaml:"address"` // arithmetic takes so much longer to reach an address
	Chased  float64 `yaml:"chased"`  // a load's result takes so much less to reach the address of another load
	Stack   bool    `yaml:"stack"`   // push and pop do not wait for the stack pointer
	Source  string  `yaml:"source"`
}

type class struct {
	Latency *float64           `yaml:"latency"` // until the result can be used
	Uops    *int               `yaml:"uops"`    // places in dispatch; 1 if left out
	Units   map[string]float64 `yaml:"units"`   // cycles on one unit of each group
	Source  string             `yaml:"source"`
}

// Parse reads a model. Errors wrap ErrFormat and say which field is wrong;
// callers add the name of the file.
func Parse(b []byte) (*Model, error) {
	f, err := decode(b)
	if err != nil {
		return nil, err
	}
	m, err := f.model()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrFormat)
	}
	return m, nil
}

// decode reads the one document that a file holds.
func decode(b []byte) (*file, error) {
	if len(b) > maxFile {
		return nil, fmt.Errorf("%d bytes, at most %d: %w", len(b), maxFile, ErrFormat)
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	var f file
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if err := d.Decode(new(file)); err != io.EOF {
		return nil, fmt.Errorf("more than one document: %w", ErrFormat)
	}
	return &f, nil
}

// model checks the file and makes a Model of it.
func (f *file) model() (*Model, error) {
	m := &Model{Name: f.Name, Title: f.Title, InOrder: f.InOrder}
	switch f.Arch {
	case "x86_64":
		m.Arch = image.X86_64
	case "aarch64":
		m.Arch = image.AArch64
	default:
		return nil, fmt.Errorf("arch: %q", f.Arch)
	}
	if f.Name == "" || f.Title == "" {
		return nil, errors.New("name, title: empty")
	}
	for _, step := range []func(*Model) error{f.numbers, f.fusions, f.groups, f.classes} {
		if err := step(m); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// source checks the source of one table of numbers.
func (f *file) source(field, name string) error {
	if f.Sources[name] == "" {
		return fmt.Errorf("%s: source: %q is not among the sources", field, name)
	}
	return nil
}

func (f *file) numbers(m *Model) error {
	w, i, l, u := f.Width, f.Window, f.Memory, f.Buffers
	for _, n := range []struct {
		field    string
		v        int
		min, max int
	}{
		{"width: fetch", w.Fetch, 1, 1024}, {"width: decode", w.Decode, 1, 64},
		{"width: dispatch", w.Dispatch, 1, 64}, {"width: retire", w.Retire, 1, 64},
		{"window: rob", i.ROB, 0, 1 << 16}, {"window: mispredict", i.Mispredict, 1, maxCycles},
		{"memory: l1", l.L1, 1, maxCycles}, {"memory: l2", l.L2, l.L1, maxCycles},
		{"memory: l3", l.L3, l.L2, maxCycles}, {"memory: dram", l.DRAM, l.L3, maxCycles},
		{"buffers: l1i", u.L1I, 1 << 10, 1 << 24}, {"buffers: itlb", u.ITLB, 1, 1 << 16},
		{"buffers: uops", u.Uops, 0, 1 << 20}, {"buffers: stores", u.Stores, 1, 1 << 12},
	} {
		if n.v < n.min || n.v > n.max {
			return fmt.Errorf("%s: %d is not between %d and %d", n.field, n.v, n.min, n.max)
		}
	}
	if (i.ROB == 0) != f.InOrder {
		return fmt.Errorf("window: rob: %d with in-order %t", i.ROB, f.InOrder)
	}
	m.Width = Width{w.Fetch, w.Decode, w.Dispatch, w.Retire}
	m.ROB, m.Mispredict = i.ROB, i.Mispredict
	if !(l.Wait >= 0 && l.Wait <= float64(l.L1)) {
		return fmt.Errorf("memory: wait: %g is not between 0 and l1", l.Wait)
	}
	m.Memory = Memory{l.L1, l.L2, l.L3, l.DRAM, l.Wait}
	m.Buffers = Buffers{u.L1I, u.ITLB, u.Uops, u.Stores}
	if l.Wait > 0 {
		if err := f.source("memory: wait", l.WaitSource); err != nil {
			return err
		}
	}
	return errors.Join(f.source("width", w.Source), f.source("window", i.Source), f.source("memory", l.Source), f.source("buffers", u.Source))
}

func (f *file) fusions(m *Model) error {
	u, fw := f.Fusion, f.Forwarding
	m.fusion.loadOp, m.fusion.opStore = u.LoadOp, u.OpStore
	switch u.Branch {
	case "none":
	case "compare":
		m.fusion.branch = true
	case "alu":
		m.fusion.branch, m.fusion.wideBranch = true, true
	default:
		return fmt.Errorf("fusion: branch: %q", u.Branch)
	}
	if !(fw.Address >= 0 && fw.Address <= maxCycles) {
		return fmt.Errorf("forwarding: address: %g", fw.Address)
	}
	if !(fw.Chased >= 0 && fw.Chased <= maxCycles) {
		return fmt.Errorf("forwarding: chased: %g", fw.Chased)
	}
	m.address, m.chased, m.stack = fw.Address, fw.Chased, fw.Stack
	return errors.Join(f.source("fusion", u.Source), f.source("forwarding", fw.Source))
}

// groups enters units, groups, and the unions of groups that bound throughput.
func (f *file) groups(m *Model) error {
	if len(f.Units) == 0 || len(f.Units) > maxUnits {
		return fmt.Errorf("units: %d, want 1 to %d", len(f.Units), maxUnits)
	}
	for i, u := range f.Units {
		if u == "" || slices.Contains(f.Units[:i], u) {
			return fmt.Errorf("units: %q: empty or twice", u)
		}
		m.unitSets = append(m.unitSets, unitSet{u, 1 << i, 1})
	}
	m.units = f.Units
	if len(f.Groups) > maxGroups {
		return fmt.Errorf("groups: %d, at most %d", len(f.Groups), maxGroups)
	}
	for _, name := range sortedKeys(f.Groups) {
		if name == "" || slices.Contains(f.Units, name) {
			return fmt.Errorf("groups: %q: empty, or the name of a unit", name)
		}
		var s uint64
		for _, u := range f.Groups[name] {
			i := slices.Index(f.Units, u)
			if i < 0 {
				return fmt.Errorf("groups: %s: unknown unit %q", name, u)
			}
			s |= 1 << i
		}
		if s == 0 {
			return fmt.Errorf("groups: %s: empty", name)
		}
		m.unitSets = append(m.unitSets, unitSet{name, s, bits.OnesCount64(s)})
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// foreign are the classes that the other instruction set alone has.
var foreign = map[image.Arch][]string{
	image.X86_64:  {"none", "alu-flags", "alu-scaled", "alu-shifted", "load-pair", "store-pair"},
	image.AArch64: {"none", "zero", "lea", "lea-complex", "setcc", "x87"},
}

// classNames returns the classes that a model of an instruction set has.
func classNames(a image.Arch) []string {
	var names []string
	for op := range image.NumOps {
		names = append(names, op.String())
	}
	names = append(names, accessNames[:]...)
	return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(foreign[a], n) })
}

func (f *file) classes(m *Model) error {
	want := classNames(m.Arch)
	for _, name := range sortedKeys(f.Classes) {
		if !slices.Contains(want, name) {
			return fmt.Errorf("classes: unknown class %q", name)
		}
	}
	for _, name := range want {
		c, ok := f.Classes[name]
		if !ok {
			return fmt.Errorf("classes: %s is missing", name)
		}
		k, err := f.cost(m, c)
		if err != nil {
			return fmt.Errorf("classes: %s: %w", name, err)
		}
		if i := slices.Index(accessNames[:], name); i >= 0 {
			m.memory[i] = k
			continue
		}
		for op := range image.NumOps {
			if op.String() == name {
				m.ops[op] = k
			}
		}
	}
	if m.chased > m.memory[loadGeneral].latency {
		return fmt.Errorf("forwarding: chased: %g, and a load takes %g cycles", m.chased, m.memory[loadGeneral].latency)
	}
	return m.unions()
}

func (f *file) cost(m *Model, c class) (cost, error) {
	k := cost{uops: 1}
	if c.Latency == nil || !(*c.Latency >= 0 && *c.Latency <= maxCycles) {
		return k, errors.New("latency: missing or out of range")
	}
	k.latency = *c.Latency
	if c.Uops != nil {
		if k.uops = *c.Uops; k.uops < 0 || k.uops > maxCycles {
			return k, fmt.Errorf("uops: %d", k.uops)
		}
	}
	for _, g := range sortedKeys(c.Units) {
		i := slices.IndexFunc(m.unitSets, func(s unitSet) bool { return s.name == g })
		if i < 0 {
			return k, fmt.Errorf("units: unknown unit or group %q", g)
		}
		n := c.Units[g]
		if !(n > 0 && n <= maxCycles) {
			return k, fmt.Errorf("units: %s: %g cycles", g, n)
		}
		k.uses = append(k.uses, pressure{i, n})
	}
	return k, f.source("class", c.Source)
}

// unions adds every union of groups that share units: an operation that may go to
// p0 or p1, and one that may go to p1 or p5, compete for three. Unions of groups
// without a unit in common bound nothing that the groups do not.
func (m *Model) unions() error {
	named := len(m.unitSets)
	for i := 0; i < len(m.unitSets); i++ {
		for j := 0; j < named; j++ {
			a, b := m.unitSets[i], m.unitSets[j]
			u := a.units | b.units
			if a.units&b.units == 0 || slices.ContainsFunc(m.unitSets, func(s unitSet) bool { return s.units == u }) {
				continue
			}
			if len(m.unitSets) == maxUnions {
				return fmt.Errorf("groups: more than %d unions", maxUnions)
			}
			m.unitSets = append(m.unitSets, unitSet{a.name + "+" + b.name, u, bits.OnesCount64(u)})
		}
	}
	m.unionSets = len(m.unitSets) - named
	return nil
}
