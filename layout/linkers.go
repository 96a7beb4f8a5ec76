package layout

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"backfeed/infer/image"
)

// Sections is what an image and its debug information tell of the sections of
// object files that the procedures of an order were in. Sections are what linkers
// move: procedures that shared one stay together.
type Sections struct {
	Own     int // procedures with a section of their own
	Shared  int // procedures that shared theirs with others: compiled without -ffunction-sections
	Unknown int // procedures of which no debug information tells
	Parts   int // sections of the image's text that the procedures lie in; linkers order each by itself

	order *Order
	units map[image.Addr]string // source files of local procedures whose name is not unique
	files map[string][]string   // the same by name
}

// Sections reads what im tells of o's sections; im is the image that o orders.
func (o *Order) Sections(im *image.Image) *Sections {
	s := &Sections{order: o, units: map[image.Addr]string{}, files: map[string][]string{}}
	lines, _ := im.Lines()
	parts, ambiguous := map[string]bool{}, map[string]bool{}
	for _, sym := range o.Symbols {
		if strings.HasPrefix(sym.Section, ".text") {
			parts[sym.Section] = true
		}
		if sym.Local && o.same[sym.Name] > 1 {
			ambiguous[sym.Name] = true
		}
		switch shared, known := sharesSection(im, lines, sym); {
		case !known:
			s.Unknown++
		case shared:
			s.Shared++
		default:
			s.Own++
		}
	}
	s.Parts = len(parts)
	for _, sym := range im.Symbols() {
		if lines == nil || !ambiguous[sym.Name] {
			continue
		}
		if unit := lines.Unit(sym.Addr).Name; fitsScript(unit) && !strings.Contains(unit, ":") { // which begins a member of an archive
			s.units[sym.Addr] = unit
			s.files[sym.Name] = append(s.files[sym.Name], unit)
		}
	}
	return s
}

// sharesSection reports whether other procedures were in the section of sym.
func sharesSection(im *image.Image, lines *image.Lines, sym image.Symbol) (shared, known bool) {
	if lines == nil {
		return false, false
	}
	lo, hi, ok := lines.Piece(sym.Addr)
	if !ok {
		return false, false
	}
	all := im.Symbols()
	i, _ := slices.BinarySearchFunc(all, lo, func(s image.Symbol, a image.Addr) int {
		if s.Addr < a {
			return -1
		}
		return 1
	})
	for ; i < len(all) && all[i].Addr < hi; i++ {
		if all[i].Addr != sym.Addr && all[i].Source == image.FromSymtab {
			return true, true
		}
	}
	return false, true
}

// Names come from images: any bytes but NUL may be in them. What a format of lines or a linker
// script cannot carry as it is, is left out, and counted by Unfit.

// fitsLine reports whether name can be a line of a file that is read as lines: llvm-bolt takes them
// whole (ReorderFunctions.cpp).
func fitsLine(name string) bool { return name != "" && !strings.ContainsAny(name, "\n\x00") }

// fitsSymbols reports whether lld takes a line for name: it trims them, and # begins a comment
// (getLines in lld/Common/Args.cpp).
func fitsSymbols(name string) bool {
	return fitsLine(name) && name[0] != '#' && strings.Trim(name, " \t\n\v\f\r") == name
}

// fitsGold reports whether gold takes a line for name, which comes behind the prefix of a section: it
// drops a carriage return at the end (Layout::read_layout_from_file).
func fitsGold(name string) bool { return fitsLine(name) && name[len(name)-1] != '\r' }

// fitsScript reports whether name can stand in a linker script, in quotes or without. There is no
// escape for a quote; whether a backslash needs another one depends on ld's version and on what
// else is in the pattern.
func fitsScript(name string) bool {
	return fitsLine(name) && !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '"' || r == '\\' })
}

// A Format is a file that says an order to a linker or a post-link tool.
type Format struct {
	Write func(io.Writer) error
	Unfit int // names of procedures that the format cannot carry, and that are left out
}

// Format returns an order in the format for lld or for bolt, or, by sections, for gold, ld or ld-script.
func (s *Sections) Format(target string) (f Format, ok bool) {
	formats := map[string]struct {
		write   func(io.Writer) error
		fits    func(string) bool
		aliases bool // are written, too
	}{
		"lld": {s.order.WriteSymbols, fitsSymbols, false}, "bolt": {s.order.WriteBOLT, fitsLine, false},
		"gold": {s.WriteGold, fitsGold, true}, "ld": {s.WriteLD, fitsScript, true}, "ld-script": {s.WriteScript, fitsScript, true},
	}
	of, ok := formats[target]
	if !ok {
		return Format{}, false
	}
	f.Write = of.write
	for _, sym := range s.order.Symbols {
		f.Unfit += unfit(of.fits, sym.Name)
		if of.aliases {
			f.Unfit += unfit(of.fits, sym.Aliases...)
		}
	}
	return f, true
}

// unfit counts the names that do not fit.
func unfit(fits func(string) bool, names ...string) (n int) {
	for _, name := range names {
		if !fits(name) {
			n++
		}
	}
	return n
}

// WriteSymbols writes the order as lld's --symbol-ordering-file takes it: a
// symbol per line. The image must have been compiled with -ffunction-sections.
// lld moves all local symbols of one name, so a name that is not unique is marked
// by a comment.
func (o *Order) WriteSymbols(w io.Writer) error {
	bw := bufio.NewWriter(w)
	written := map[string]bool{}
	for _, s := range o.Symbols {
		if written[s.Name] || !fitsSymbols(s.Name) {
			continue
		}
		written[s.Name] = true
		o.markAmbiguous(bw, s)
		fmt.Fprintln(bw, s.Name)
	}
	return bw.Flush()
}

// markAmbiguous writes a comment where one line moves several procedures.
func (o *Order) markAmbiguous(w io.Writer, s image.Symbol) {
	if s.Local && o.same[s.Name] > 1 {
		fmt.Fprintf(w, "# %d local symbols of this name, which all move\n", o.same[s.Name])
	}
}

// WriteBOLT writes the order as llvm-bolt's --function-order takes it, for
// --reorder-functions=user: a symbol per line, local ones with their number.
func (o *Order) WriteBOLT(w io.Writer) error {
	bw := bufio.NewWriter(w)
	for _, s := range o.Symbols {
		switch {
		case !fitsLine(s.Name):
		case !s.Local:
			fmt.Fprintln(bw, s.Name)
		case s.Ordinal > 0:
			fmt.Fprintf(bw, "%s/%d\n", s.Name, s.Ordinal)
		}
	}
	return bw.Flush()
}

// WriteGold writes the order as gold's --section-ordering-file takes it: a section
// or a pattern per line, the names that compilers may give to each procedure's.
// Sections that are not in the file come first, and all of one name move.
func (s *Sections) WriteGold(w io.Writer) error {
	bw := bufio.NewWriter(w)
	fmt.Fprintln(bw, "# for ld.gold --section-ordering-file, with -ffunction-sections")
	written := map[string]bool{}
	for _, sym := range s.order.Symbols {
		names := s.names(sym, fitsGold, written)
		if len(names) > 0 {
			s.order.markAmbiguous(bw, sym)
		}
		for _, name := range names {
			fmt.Fprintln(bw, globs.Replace(name))
		}
	}
	return bw.Flush()
}

// WriteLD writes the order as GNU ld's --section-ordering-file takes it, since
// binutils 2.43: statements that go before those of the linker's own script for
// .text.
func (s *Sections) WriteLD(w io.Writer) error {
	bw := bufio.NewWriter(w)
	fmt.Fprint(bw, "/* for GNU ld 2.43 or later: --section-ordering-file, with -ffunction-sections */\n.text :\n{\n")
	s.writeStatements(bw, "  ")
	fmt.Fprint(bw, "}\n")
	return bw.Flush()
}

// orderedAlign is where the code begins that WriteScript orders, in bytes: at a
// cache line.
const orderedAlign = lineSize

// WriteScript writes the order as a piece of a linker script, which GNU ld of any
// version adds to its own with -T. The code comes to lie in a section
// .text.ordered before .text.
func (s *Sections) WriteScript(w io.Writer) error {
	bw := bufio.NewWriter(w)
	fmt.Fprintf(bw, "/* for GNU ld of any version: -T, with -ffunction-sections */\nSECTIONS\n{\n  .text.ordered : ALIGN(%d)\n  {\n", orderedAlign)
	s.writeStatements(bw, "    ")
	fmt.Fprint(bw, "  }\n}\nINSERT BEFORE .text;\n")
	return bw.Flush()
}

// writeStatements writes an input section statement for each procedure. Of local
// ones with one name, those come first of which the source file is known, by the
// names that their object files may have. What is left of the name comes last.
func (s *Sections) writeStatements(w io.Writer, indent string) {
	written, addressed := map[string]bool{}, map[string]bool{}
	var last []string
	for _, sym := range s.order.Symbols {
		if len(s.files[sym.Name]) == 0 {
			if names := s.names(sym, fitsScript, written); len(names) > 0 {
				fmt.Fprintf(w, "%s*(%s)\n", indent, patterns(names))
			}
			continue
		}
		names := s.names(sym, fitsScript, map[string]bool{})
		if len(names) == 0 {
			continue
		}
		for _, file := range s.objects(sym) {
			fmt.Fprintf(w, "%s%s(%s)\n", indent, file, patterns(names))
		}
		if rest := s.names(sym, fitsScript, addressed); len(rest) > 0 {
			last = append(last, fmt.Sprintf("*(%s)", patterns(rest)))
		}
	}
	if len(last) > 0 {
		fmt.Fprintf(w, "%s/* in case that object files have other names */\n", indent)
	}
	for _, line := range last {
		fmt.Fprintf(w, "%s%s\n", indent, line)
	}
}

// prefixes are what compilers put before a procedure's name to name its section:
// gcc's default_function_section in varasm.c and LLVM's getSectionPrefixForGlobal in
// TargetLoweringObjectFileImpl.cpp, with what they think of it. The first one is for
// most.
var prefixes = []string{".text.", ".text.hot.", ".text.unlikely.", ".text.startup.", ".text.exit."}

// names returns the sections that sym may be in, by its names that fit, but those that
// are in written, and adds them to it.
func (s *Sections) names(sym image.Symbol, fits func(string) bool, written map[string]bool) []string {
	var out []string
	add := func(name string) {
		if !written[name] {
			written[name] = true
			out = append(out, name)
		}
	}
	for _, name := range append([]string{sym.Name}, sym.Aliases...) {
		if !fits(name) {
			continue
		}
		if base, ok := strings.CutSuffix(name, ".cold"); ok {
			add(".text.unlikely." + base) // gcc
			add(".text.split." + base)    // clang: -fsplit-machine-functions, -fbasic-block-sections
			continue
		}
		for _, prefix := range prefixes {
			if prefix == ".text.unlikely." && s.order.same[name+".cold"] > 0 {
				continue // what it holds is the cold part
			}
			add(prefix + name)
		}
		if base, _, ok := strings.Cut(name, ".__part."); ok { // clang: -fbasic-block-sections
			add(".text." + base + "." + name)
		}
	}
	return out
}

// objects returns patterns for the object file that holds sym, if its name alone does
// not say which procedure is meant and its source file is known: compilers and build
// systems name it after that, dir/f.c becomes f.o, dir/f.c.o, dir/prog-f.o.
func (s *Sections) objects(sym image.Symbol) []string {
	unit := s.units[sym.Addr]
	if unit == "" {
		return nil
	}
	name := s.tail(sym.Name, unit)
	objects := []string{strings.TrimSuffix(name, path.Ext(name)) + ".o", name + ".o"}
	var out []string
	for _, object := range slices.Compact(objects) {
		// A name without any pattern would be one more file to link: [f].o is none.
		if c := object[:1]; strings.Trim(c, "!^[]") != "" && c[0] < 0x80 {
			out = append(out, quote("["+c+"]"+globs.Replace(object[1:])))
		}
		out = append(out, quote("*[/-]"+globs.Replace(object)))
	}
	return out
}

// tail returns as much of the end of a source file's path as tells it from those of
// other procedures of that name.
func (s *Sections) tail(name, unit string) string {
	elems := strings.Split(path.Clean(unit), "/")
	for n := len(elems) - 1; n > 0; n-- {
		tail := strings.Join(elems[n:], "/")
		if !slices.ContainsFunc(s.files[name], func(f string) bool {
			return f != unit && strings.HasSuffix("/"+path.Clean(f), "/"+tail)
		}) {
			return tail
		}
	}
	return strings.TrimPrefix(path.Clean(unit), "/")
}

// globs makes a name a pattern for itself. gold knows no backslashes in patterns,
// GNU ld does.
var globs = strings.NewReplacer("[", "[[]", "*", "[*]", "?", "[?]")

// patterns joins names for a linker script.
func patterns(names []string) string {
	var out []string
	for _, name := range names {
		out = append(out, quote(globs.Replace(name)))
	}
	return strings.Join(out, " ")
}

// quote puts a pattern in quotes if it has characters that mean something else in
// a linker script.
func quote(pattern string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_.$*?[]/-", r)
	}
	if strings.ContainsFunc(pattern, func(r rune) bool { return !plain(r) }) {
		return `"` + pattern + `"`
	}
	return pattern
}
