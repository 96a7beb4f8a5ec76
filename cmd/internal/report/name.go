package report

import (
	"cmp"
	"regexp"

	"backfeed/infer/image"
)

// A Name is what documents and tables call a procedure: as the source has it, and as
// the linker does where that is another name. Overloads and instances of a template
// have one Procedure, and are told apart by Mangled; in tables of text, by what tellApart adds.
type Name struct {
	Procedure string `json:"procedure,omitempty"` // as image.DemangleShort; empty is unknown
	Mangled   string `json:"mangled,omitempty"`   // the linker's name, where it is not Procedure

	apart string // instead of Procedure in a table that has another of its name; "" if it has not
}

// NameOf is the name of the procedure that the linker calls so.
func NameOf(linker string) Name {
	plain := image.DemangleShort(linker)
	if plain == linker {
		return Name{Procedure: linker}
	}
	return Name{Procedure: plain, Mangled: linker}
}

// Linker returns the name that the linker knows.
func (n Name) Linker() string {
	if n.Mangled != "" {
		return n.Mangled
	}
	return n.Procedure
}

// In returns the name as tables of that style have it.
func (n Name) In(s Style) string {
	if s.Mangled {
		return n.Linker()
	}
	return cmp.Or(n.apart, n.Procedure)
}

// A placed name is one of a table, of a procedure that lies somewhere in an image.
type placed struct {
	*Name
	image string
	addr  image.Addr
}

// tellApart has a table say more of procedures of an image that would be called the same: with the least that tells them apart of
// template arguments, parameters and addresses.
func tellApart(all []placed) {
	type called struct{ image, name string }
	groups := map[called][]placed{}
	for _, p := range all {
		if p.Procedure != "" && p.addr != 0 {
			at := called{p.image, p.Procedure}
			groups[at] = append(groups[at], p)
		}
	}
	at := func(linker string, a image.Addr) string {
		return NameOf(linker).Procedure + " at " + Hex(a)
	}
	for _, same := range groups {
		if len(same) == 1 {
			continue
		}
		for _, form := range []func(string, image.Addr) string{
			func(linker string, _ image.Addr) string { return image.DemangleInstance(linker) },
			func(linker string, _ image.Addr) string { return image.Demangle(linker) },
			at,
		} {
			names := map[string]bool{}
			for _, p := range same {
				p.apart = form(p.Linker(), p.addr)
				names[p.apart] = true
			}
			if len(names) == len(same) {
				break
			}
		}
	}
}

// NameOf returns the name of the procedure that the linker calls so, in this style.
func (s Style) NameOf(linker string) string { return NameOf(linker).In(s) }

// mangledName finds names of C++ and Rust in text.
var mangledName = regexp.MustCompile(`\b_[ZR][\w.$]+`)

// Demangled returns text with the names of procedures in it as NameOf(...).Procedure.
func Demangled(text string) string {
	return mangledName.ReplaceAllStringFunc(text, image.DemangleShort)
}

// Names returns text with the names of procedures in it as tables of this style have them.
func (s Style) Names(text string) string {
	if s.Mangled {
		return text
	}
	return Demangled(text)
}

// IsNamed reports whether a user who writes name means the procedure that the linker
// calls so: it is the linker's name, or the source's, with or without parameters and
// template arguments.
func IsNamed(linker, name string) bool {
	return linker == name || image.DemangleShort(linker) == name || image.DemangleInstance(linker) == name || image.Demangle(linker) == name
}

// Or returns what a table calls samples: the name of their procedure or, in
// parentheses, why they have none.
func (n Name) Or(lost string, s Style) string {
	if lost != "" {
		return "(" + lost + ")"
	}
	return n.In(s)
}
