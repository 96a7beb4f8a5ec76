package kernel

import (
	"bufio"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"backfeed/sample"
)

// A Code is the code of the kernel itself, or of one of its modules, as it lies in the memory of a machine.
type Code struct {
	ID      sample.ImageID
	Machine elf.Machine
	Parts   []Part   // what belongs into a file of it, by address; they do not overlap
	Symbols []Symbol // of its code, by address, and of one address by name
}

// A Part is a stretch of memory that becomes a section. The first of a Code is its text: offsets of samples count
// from where that starts.
type Part struct {
	Name       string
	Start, End uint64
	Exec       bool
}

// A Symbol is a name of /proc/kallsyms. Its Size reaches to the next one, as the list has none.
type Symbol struct {
	Name       string
	Addr, Size uint64
	Type       byte // t, T, w or W
}

var (
	// ErrHidden is returned where the kernel shows addresses as zeros.
	ErrHidden = errors.New("the kernel hides its addresses from this process, which lacks CAP_SYSLOG, or kernel.kptr_restrict is 2")
	// ErrNotRunning is wrapped where the machine runs another kernel, or not the module.
	ErrNotRunning = errors.New("not what runs on this machine")
)

// moduleOf returns the name of a module, or "" for the kernel itself.
func moduleOf(id sample.ImageID) string {
	if id.Path == kernelPath {
		return ""
	}
	return strings.Trim(id.Path, "[]")
}

// ReadCode reads of this machine's kernel where the code of id is, and what its parts are called.
func ReadCode(id sample.ImageID) (*Code, error) {
	machine, known := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	module := moduleOf(id)
	if here := BuildID(module); id.Build.IsZero() || here != id.Build || !known {
		return nil, fmt.Errorf("%w: its build ID is %v there", ErrNotRunning, here)
	}
	var bounds Module
	if module != "" {
		f, err := os.Open(ModuleList)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		modules, err := ParseModules(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", ModuleList, err)
		}
		i := slices.IndexFunc(modules, func(m Module) bool { return m.name == module })
		if i < 0 {
			return nil, ErrHidden // the build ID is known, so it is loaded
		}
		bounds = modules[i]
	}
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c, err := parseCode(f, bounds)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	c.ID, c.Machine = id, machine
	return c, nil
}

// pageSize is the least that may have other rights than its neighbours, on all processors.
const pageSize = 4096

// Sections of data that say more of code, by the symbols of their bounds: jump tables and constants, where the
// kernel goes on after a fault, and which traps of it are mere warnings.
var dataParts = []struct {
	name       string
	start, end string
}{
	{".rodata", "__start_rodata", "__end_rodata"},
	{"__ex_table", "__start___ex_table", "__stop___ex_table"},
	{"__bug_table", "__start___bug_table", "__stop___bug_table"},
}

// parseCode reads the symbols of a module, or those of the kernel itself if it has no name. Lines are as those
// of parseSymbols. The text of a module ends with its last page of code: more is not said.
func parseCode(r io.Reader, module Module) (*Code, error) {
	bounds := map[string]uint64{}
	var all []Symbol
	hidden := true
	sc := bufio.NewScanner(r)
	for n := 1; sc.Scan(); n++ {
		f := strings.Fields(sc.Text())
		if len(f) < 3 || len(f[1]) != 1 {
			continue
		}
		of := ""
		if len(f) > 3 {
			of = strings.Trim(f[3], "[]")
		}
		if of != module.name {
			continue
		}
		addr, err := strconv.ParseUint(f[0], 16, 64)
		if err != nil {
			return nil, fmt.Errorf("line %d: address: %w", n, err)
		}
		hidden = hidden && addr == 0
		bounds[f[2]] = addr
		if strings.Contains("tTwW", f[1]) {
			all = append(all, Symbol{Name: f[2], Addr: addr, Type: f[1][0]})
		}
	}
	if err := sc.Err(); err != nil {
		return nil, err
	}
	if hidden {
		return nil, ErrHidden
	}
	slices.SortFunc(all, func(a, b Symbol) int { return cmp.Or(cmp.Compare(a.Addr, b.Addr), strings.Compare(a.Name, b.Name)) })
	text := Part{Name: ".text", Exec: true}
	if module.name == "" {
		text.Start, text.End = cmp.Or(bounds["_text"], bounds["_stext"]), bounds["_etext"]
	} else if text.Start = module.start; len(all) > 0 {
		text.End = min((all[len(all)-1].Addr|(pageSize-1))+1, module.start+module.size)
	}
	if text.Start >= text.End {
		return nil, errors.New("no code: the bounds of its text are not listed")
	}
	c := &Code{Parts: []Part{text}}
	for _, s := range all {
		if text.Start <= s.Addr && s.Addr < text.End {
			c.Symbols = append(c.Symbols, s)
		}
	}
	end := text.End
	for i := len(c.Symbols) - 1; i >= 0; i-- {
		if i+1 < len(c.Symbols) && c.Symbols[i+1].Addr != c.Symbols[i].Addr {
			end = c.Symbols[i+1].Addr
		}
		c.Symbols[i].Size = end - c.Symbols[i].Addr
	}
	if module.name == "" {
		c.addData(bounds)
	}
	return c, nil
}

// mostData bounds a part of data, in bytes: that of Debian's kernels is 16 MB.
const mostData = 64 << 20

// addData adds the parts of data whose bounds are listed. One whose end is not ends where the next one starts.
func (c *Code) addData(bounds map[string]uint64) {
	for i, d := range dataParts {
		p := Part{Name: d.name, Start: bounds[d.start], End: bounds[d.end]}
		for _, other := range dataParts[i+1:] {
			if at := bounds[other.start]; at > p.Start && (p.End == 0 || at < p.End) {
				p.End = at
			}
		}
		free := !slices.ContainsFunc(c.Parts, func(q Part) bool { return p.Start < q.End && q.Start < p.End })
		if p.Start != 0 && p.Start < p.End && p.End-p.Start <= mostData && free {
			c.Parts = append(c.Parts, p)
		}
	}
	slices.SortFunc(c.Parts[1:], func(a, b Part) int { return cmp.Compare(a.Start, b.Start) })
}
