package report

import (
	"regexp"

	"backfeed/infer/image"
)

// A Name is what documents and tables call a procedure: as the source has it, and as
// the linker does where that is another name. Overloads and instances of a template
// have one Procedure, and are told apart by Mangled.
type Name struct {
	Procedure string `json:"procedure,omitempty"` // as image.DemangleShort; empty is unknown
	Mangled   string `json:"mangled,omitempty"`   // the linker's name, where it is not Procedure
}

// NameOf is the name of the procedure that the linker calls so.
func NameOf(linker string) Name {
	plain := image.DemangleShort(linker)
	if plain == linker {
		return Name{Procedure: linker}
	}
	return Name{plain, linker}
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
	return n.Procedure
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
	return linker == name || image.DemangleShort(linker) == name || image.Demangle(linker) == name
}

// Or returns what a table calls samples: the name of their procedure or, in
// parentheses, why they have none.
func (n Name) Or(lost string, s Style) string {
	if lost != "" {
		return "(" + lost + ")"
	}
	return n.In(s)
}
