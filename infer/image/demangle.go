package image

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// maxMangled bounds, in bytes, the names that are demangled, and those that come of
// them: a few back references can ask for text without end.
const maxMangled = 4096

// Demangle returns a linker name as the source has it, with scope and parameters, if it
// is one of C++ or Rust; otherwise the name as it is.
func Demangle(name string) string {
	if len(name) > maxMangled {
		return name
	}
	plain, err := demangle.ToString(name, demangle.MaxLength(12)) // of 2^12 bytes
	if err != nil {
		return name
	}
	return plain
}

// DemangleShort is Demangle without parameters, results and template arguments.
func DemangleShort(name string) string {
	if len(name) > maxMangled {
		return name
	}
	plain, err := demangle.ToString(name, demangle.MaxLength(12), demangle.NoParams, demangle.NoTemplateParams)
	if err != nil {
		return name
	}
	if strings.HasPrefix(name, "_R") {
		plain = noArguments.Replace(plain)
	}
	return plain
}

// noArguments takes the brackets off of which demangle leaves out what is between them, in names of Rust's v0 mangling.
var noArguments = strings.NewReplacer("::<>", "", "<>", "")

// DemangleInstance is DemangleShort with template arguments.
func DemangleInstance(name string) string {
	if len(name) > maxMangled {
		return name
	}
	plain, err := demangle.ToString(name, demangle.MaxLength(12), demangle.NoParams)
	if err != nil {
		return name
	}
	return plain
}

// OwnName is what a function is called in the class, namespace or function that it is in, without parameters and template
// arguments: all that DWARF has where a name is not linked, as of functions of anonymous namespaces. name is a linker name, or one of DWARF.
func OwnName(name string) string {
	name = DemangleShort(SourceName(name))
	name, _, _ = strings.Cut(name, " [clone")
	depth, begin := 0, 0
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case strings.HasPrefix(name[i:], "operator") && depth == 0: // what follows may be brackets, and is the end
			return name[begin:]
		case c == '(' || c == '{' || c == '[' || c == '<':
			depth++
		case c == ')' || c == '}' || c == ']' || c == '>':
			depth--
		case c == ':' && depth == 0:
			begin = i + 1
		}
	}
	name = name[begin:]
	if i := strings.IndexByte(name, '<'); i > 0 {
		name = name[:i]
	}
	return name
}
