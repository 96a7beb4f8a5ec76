package machine

import (
	"embed"
	"fmt"
	"maps"
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

	fusion    fusion
	address   float64 // cycles that arithmetic takes longer to reach an address than to reach arithmetic
	chased    float64 // cycles that the result of a load takes less to reach the address of another than to reach arithmetic
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
// depend on the system as much as on the processor. Wait is what a load adds to the time of its block in the median, in
// cycles; 0 where it was not measured.
type Memory struct {
	L1, L2, L3, DRAM int
	Wait             float64
}

// Buffers are how much a core holds. What of it hyper-threads share is not told.
type Buffers struct {
	L1I    int // bytes of the first instruction cache
	ITLB   int // pages of 4 KB in the first instruction TLB
	Uops   int // operations in the cache of decoded ones; 0 where there is none
	Stores int // stores that wait for the cache
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

// models reads each embedded file when it is first asked for, once: a file takes 2 ms.
var models = sync.OnceValue(func() map[string]func() *Model {
	entries, err := files.ReadDir("models")
	if err != nil {
		panic(err) // embedded: cannot fail
	}
	all := make(map[string]func() *Model, len(entries))
	for _, e := range entries {
		all[strings.TrimSuffix(e.Name(), ".yaml")] = sync.OnceValue(func() *Model {
			b, err := files.ReadFile(path.Join("models", e.Name()))
			if err != nil {
				panic(err)
			}
			m, err := Parse(b)
			if err != nil {
				panic(fmt.Sprintf("machine: models/%s: %v", e.Name(), err)) // TestModels reads them all
			}
			return m
		})
	}
	return all
})

// Names lists the models, sorted.
func Names() []string { return slices.Sorted(maps.Keys(models())) }

// ByName finds a model. The error lists the names there are.
func ByName(name string) (*Model, error) {
	if m := models()[name]; m != nil {
		return m(), nil
	}
	return nil, fmt.Errorf("no machine model %q; there are %s", name, strings.Join(Names(), ", "))
}

// For picks the model of a processor: by its numbers, else by what its brand
// string says, else the generic one of its instruction set, x86-64 where that is
// unknown too.
func For(cpu sample.CPU) *Model {
	m, err := ByName(named(cpu))
	if err != nil {
		panic(err) // TestModels: each name is of an embedded model
	}
	return m
}

// processors says which model a processor has by its numbers.
var processors = []struct {
	model, vendor string
	family        int
	models        []span
}{
	{"amd-zen2", "AuthenticAMD", 23, []span{{0x31, 0x31}, {0x47, 0x47}, {0x60, 0x60}, {0x68, 0x68}, {0x71, 0x71}, {0x90, 0x90}, {0x98, 0x98}, {0xa0, 0xa0}}},
	{"amd-zen3", "AuthenticAMD", 25, []span{{0x0, 0xf}, {0x20, 0x2f}, {0x40, 0x5f}}},
	{"amd-zen4", "AuthenticAMD", 25, []span{{0x10, 0x1f}, {0x60, 0x7f}, {0xa0, 0xaf}}},
	{"amd-zen5", "AuthenticAMD", 26, []span{{0x0, 0x2f}, {0x40, 0x6f}}},
	{"arm-cortex-a53", "0x41", 0, []span{{0xd03, 0xd03}}},
	{"arm-cortex-a55", "0x41", 0, []span{{0xd05, 0xd05}}},
	{"arm-neoverse-n1", "0x41", 0, []span{{0xd0b, 0xd0c}}},
	{"arm-neoverse-v1", "0x41", 0, []span{{0xd40, 0xd40}, {0xd44, 0xd44}}},
	{"arm-neoverse-v2", "0x41", 0, []span{{0xd4e, 0xd4f}}},
	{"intel-icelake", "GenuineIntel", 6, []span{{0x6a, 0x6a}, {0x6c, 0x6c}, {0x7d, 0x7e}, {0x8c, 0x8d}, {0xa7, 0xa7}}},
	{"intel-sapphirerapids", "GenuineIntel", 6, []span{{0x8f, 0x8f}, {0x97, 0x97}, {0x9a, 0x9a}, {0xb7, 0xb7}, {0xba, 0xba}, {0xbf, 0xbf}, {0xcf, 0xcf}}},
	{"intel-skylake-x", "GenuineIntel", 6, []span{{0x4e, 0x4e}, {0x55, 0x55}, {0x5e, 0x5e}, {0x8e, 0x8e}, {0x9e, 0x9e}, {0xa5, 0xa6}}},
}

// span is the first and last of a range.
type span [2]int

// brands are words of brand strings that name a core, where a recording holds no
// numbers of family and model.
var brands = []struct{ word, model string }{
	{"neoverse-n1", "arm-neoverse-n1"}, {"neoverse-v1", "arm-neoverse-v1"}, {"neoverse-v2", "arm-neoverse-v2"},
	{"cortex-a53", "arm-cortex-a53"}, {"cortex-a55", "arm-cortex-a55"},
	{"skylake", "intel-skylake-x"}, {"cascadelake", "intel-skylake-x"}, {"icelake", "intel-icelake"}, {"sapphire", "intel-sapphirerapids"},
	{"epyc-rome", "amd-zen2"}, {"epyc-milan", "amd-zen3"}, {"epyc-genoa", "amd-zen4"}, {"epyc-turin", "amd-zen5"},
}

// named returns the name of a processor's model.
func named(cpu sample.CPU) string {
	for _, p := range processors {
		if p.vendor == cpu.Vendor && p.family == cpu.Family && slices.ContainsFunc(p.models, func(s span) bool { return s[0] <= cpu.Model && cpu.Model <= s[1] }) {
			return p.model
		}
	}
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
