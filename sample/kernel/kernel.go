package kernel

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"backfeed/sample"
)

// kernelPath is the path of the kernel's image; a module has its name in
// brackets, as in the lists of the kernel itself.
const kernelPath = "[kernel]"

// A Map says what the kernel has at an address: itself or a module.
type Map struct{ parts []part } // by start; they do not overlap

type part struct {
	start, end uint64
	id         sample.ImageID
}

// Find returns the image at pc and the offset from the start of its code; ok is
// false where nothing is known, as in compiled BPF programs.
func (k *Map) Find(pc uint64) (id sample.ImageID, off sample.Offset, ok bool) {
	i, found := slices.BinarySearchFunc(k.parts, pc, func(p part, pc uint64) int { return cmp.Compare(p.start, pc) })
	if !found {
		i--
	}
	if i < 0 || pc >= k.parts[i].end {
		return sample.ImageID{}, 0, false
	}
	return k.parts[i].id, sample.Offset(pc - k.parts[i].start), true
}

// Symbols are the addresses that samplers need of /proc/kallsyms. All are
// 0 where the kernel hides them.
type Symbols struct {
	Text, Etext uint64 // of the kernel itself: [Text, Etext); Text is _text, or _stext where AArch64 lists no other
	Tick        uint64 // function that the timer of the scheduler's tick calls
}

// tickHandlers are the names of that function: tick_sched_timer until Linux 6.7,
// tick_nohz_highres_handler in 6.8, tick_nohz_handler since (kernel/time/tick-sched.c).
// Until 6.7 that last name is another function's, so that a name before it counts.
var tickHandlers = []string{"tick_sched_timer", "tick_nohz_highres_handler", "tick_nohz_handler"}

// parseSymbols reads what it needs of /proc/kallsyms; other lines may be anything:
//
//	ffffffff81000000 T _text
//	ffffffffc0201000 t nf_init	[nf_tables]
func parseSymbols(r io.Reader) (Symbols, error) {
	var s Symbols
	stext := uint64(0)
	best := len(tickHandlers) // of those that were found
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		addr, rest, _ := strings.Cut(sc.Text(), " ")
		_, name, _ := strings.Cut(rest, " ")
		var to *uint64
		switch name {
		case "_text":
			to = &s.Text
		case "_stext":
			to = &stext
		case "_etext":
			to = &s.Etext
		default:
			i := slices.Index(tickHandlers, name)
			if i < 0 || i > best {
				continue
			}
			to, best = &s.Tick, i
		}
		n, err := strconv.ParseUint(addr, 16, 64)
		if err != nil {
			return s, err
		}
		*to = n
	}
	if s.Text == 0 {
		s.Text = stext
	}
	return s, sc.Err()
}

// ReadSymbols reads those of this machine's kernel.
func ReadSymbols() (Symbols, error) {
	f, err := os.Open("/proc/kallsyms")
	if errors.Is(err, os.ErrNotExist) {
		return Symbols{}, nil // a kernel without
	} else if err != nil {
		return Symbols{}, err
	}
	defer f.Close()
	s, err := parseSymbols(f)
	if err != nil {
		return s, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return s, nil
}

// A Module is a line of /proc/modules.
type Module struct {
	name        string
	start, size uint64
}

// ParseModules reads /proc/modules: name, size, users, their names, state and
// address. Lines of another form, and those of a hidden address, are left out.
//
//	nf_tables 372736 98 nft_ct,nft_compat, Live 0xffffffffc0a3c000
func ParseModules(r io.Reader) ([]Module, error) {
	var modules []Module
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20) // the list of users has no limit
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		if len(f) < 6 {
			continue
		}
		size, err1 := strconv.ParseUint(f[1], 10, 64)
		start, err2 := strconv.ParseUint(f[5], 0, 64)
		if err1 == nil && err2 == nil && start != 0 && start+size > start {
			modules = append(modules, Module{f[0], start, size})
		}
	}
	return modules, sc.Err()
}

// ModuleList is where the kernel lists its modules.
const ModuleList = "/proc/modules"

// ModuleBase returns the address of the code of a module of this machine's kernel;
// 0 if it is not loaded, or hidden.
func ModuleBase(module string) uint64 {
	list, _ := os.ReadFile(ModuleList)
	modules, _ := ParseModules(bytes.NewReader(list))
	for _, m := range modules {
		if m.name == module {
			return m.start
		}
	}
	return 0
}

// BuildID returns the build ID of a module of this machine's kernel, or that of
// the kernel itself for ""; the zero one if it is unknown.
func BuildID(module string) sample.BuildID {
	path := "/sys/kernel/notes"
	if module != "" {
		path = "/sys/module/" + module + "/notes/.note.gnu.build-id"
	}
	notes, _ := os.ReadFile(path)
	return sample.NotesBuildID(notes)
}

// Empty reports whether nothing is known.
func (k *Map) Empty() bool { return len(k.parts) == 0 }

// NewMap puts the kernel and its modules in order. buildID returns the build
// ID of a module, or that of the kernel for "". Of parts that overlap, the first
// stays.
func NewMap(s Symbols, modules []Module, buildID func(module string) sample.BuildID) Map {
	var k Map
	if s.Text < s.Etext {
		k.parts = append(k.parts, part{s.Text, s.Etext, sample.ImageID{Build: buildID(""), Path: kernelPath}})
	}
	for _, m := range modules {
		k.parts = append(k.parts, part{m.start, m.start + m.size, sample.ImageID{Build: buildID(m.name), Path: "[" + m.name + "]"}})
	}
	slices.SortStableFunc(k.parts, func(a, b part) int { return cmp.Compare(a.start, b.start) })
	end := uint64(0)
	k.parts = slices.DeleteFunc(k.parts, func(p part) bool {
		if p.start < end {
			return true
		}
		end = p.end
		return false
	})
	return k
}
