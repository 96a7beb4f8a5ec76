package image

import "github.com/ianlancetaylor/demangle"

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
	return plain
}
