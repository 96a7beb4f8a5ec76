package machine

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"backfeed/infer/image"
	"backfeed/sample"
)

// A Model is a processor as schedules see it.
type Model struct {
	Name       string // as ByName takes it: "intel-skylake-x"
	Title      string // for people: "Intel Skylake-SP, Cascade Lake, Cooper Lake"
	Arch       image.Arch
	InOrder    bool // instructions issue in program order
	Width      Width
	ROB        int // micro-operations in flight; 0 where InOrder
	Mispredict int // cycles that a mispredicted branch costs
	Memory     Memory
	Buffers    Buffers

	match     []match
	fusion    fusion
	address   float64 // cycles that arithmetic takes longer to reach an address than to reach arithmetic
	stack     bool    // the stack pointer of push and pop is stepped without an operation
	units     []string
	unitSets  []unitSet // units, groups of units, then unions of groups
	unionSets int       // how many of unitSets are unions
	ops       [image.NumOps]cost
	memory    [numAccesses]cost
}

// Width is how much passes each stage in one cycle.
type Width struct {
	Fetch    int // bytes of code
	Decode   int // instructions, fused ones once; from the cache of decoded ones where there is one
	Dispatch int // micro-operations, fused ones once; InOrder: instructions issued
	Retire   int // micro-operations, fused ones once
}

// Memory has the latencies of loads by the level they hit, in cycles. L3 and DRAM
// depend on the system as much as on the processor.
type Memory struct{ L1, L2, L3, DRAM int }

// Buffers are how much a core holds. What of it hyper-threads share is not told.
type Buffers struct {
	L1I    int // bytes of the first instruction cache
	ITLB   int // pages of 4 KB in the first instruction TLB
	Uops   int // operations in the cache of decoded ones; 0 where there is none
	Stores int // stores that wait for the cache
}

// match reports which processors a model is for.
type match struct {
	vendor string
	family int
	models []span
}

// fusion reports which instructions and parts of them take one place.
type fusion struct {
	loadOp, opStore, wideBranch, branch bool
}

// cost is what a class of instructions takes.
type cost struct {
	latency float64 // cycles until its result can be used
	uops    int     // places in dispatch
	uses    []pressure
}

// pressure is cycles on any one unit of a group.
type pressure struct {
	set    int // index into Model.unitSets
	cycles float64
}

// unitSet is a group of units, of which an operation takes any, or a union of groups.
type unitSet struct {
	name  string
	units uint64 // bits: indices into Model.units
	n     int    // how many
}

// access is one kind of load or store.
type access int

const (
	loadGeneral access = iota
	loadVector
	loadPair
	storeGeneral
	storeVector
	storePair
	numAccesses
)

var accessNames = [numAccesses]string{"load", "load-vector", "load-pair", "store", "store-vector", "store-pair"}

//go:embed models/*.yaml
var files embed.FS

// models reads the embedded files, once.
var models = sync.OnceValue(func() []*Model {
	entries, err := files.ReadDir("models")
	if err != nil {
		panic(err) // embedded: cannot fail
	}
	var all []*Model
	for _, e := range entries {
		b, err := files.ReadFile(path.Join("models", e.Name()))
		if err != nil {
			panic(err)
		}
		m, err := Parse(b)
		if err != nil {
			panic(fmt.Sprintf("machine: models/%s: %v", e.Name(), err)) // TestModels reads them all
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *Model) int { return strings.Compare(a.Name, b.Name) })
	return all
})

// Names lists the models, sorted.
func Names() []string {
	var names []string
	for _, m := range models() {
		names = append(names, m.Name)
	}
	return names
}

// ByName finds a model. The error lists the names there are.
func ByName(name string) (*Model, error) {
	for _, m := range models() {
		if m.Name == name {
			return m, nil
		}
	}
	return nil, fmt.Errorf("no machine model %q; there are %s", name, strings.Join(Names(), ", "))
}

// For picks the model of a processor: by its numbers, else by what its brand
// string says, else the generic one of its instruction set, x86-64 where that is
// unknown too.
func For(cpu sample.CPU) *Model {
	for _, m := range models() {
		for _, w := range m.match {
			if w.vendor == cpu.Vendor && w.family == cpu.Family && slices.ContainsFunc(w.models, func(s span) bool { return s[0] <= cpu.Model && cpu.Model <= s[1] }) {
				return m
			}
		}
	}
	m, err := ByName(byBrand(cpu))
	if err != nil {
		panic(err) // byBrand returns names of embedded models
	}
	return m
}

// brands are words of brand strings that name a core, where a recording holds no
// numbers of family and model.
var brands = []struct{ word, model string }{
	{"neoverse-n1", "arm-neoverse-n1"}, {"neoverse-v1", "arm-neoverse-v1"}, {"neoverse-v2", "arm-neoverse-v2"},
	{"cortex-a53", "arm-cortex-a53"}, {"cortex-a55", "arm-cortex-a55"},
	{"skylake", "intel-skylake-x"}, {"cascadelake", "intel-skylake-x"}, {"icelake", "intel-icelake"}, {"sapphire", "intel-sapphirerapids"},
	{"epyc-rome", "amd-zen2"}, {"epyc-milan", "amd-zen3"}, {"epyc-genoa", "amd-zen4"}, {"epyc-turin", "amd-zen5"},
}

func byBrand(cpu sample.CPU) string {
	name := strings.ToLower(cpu.Name)
	for _, b := range brands {
		if strings.Contains(name, b.word) {
			return b.model
		}
	}
	if cpu.Arch == "aarch64" || strings.HasPrefix(cpu.Vendor, "0x") {
		return "generic-aarch64"
	}
	return "generic-x86_64"
}
