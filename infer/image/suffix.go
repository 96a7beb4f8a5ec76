package image

import "strings"

// SourceName returns the name that a function has in its source's compilation: the
// passes append to it when they copy or split the function. A .__uniq. suffix is
// from the front end and stays.
func SourceName(name string) string {
	for {
		cut, ok := CutSuffix(name, ".llvm.", ".part.", ".cold", ".constprop.", ".isra.", ".lto_priv.")
		if !ok {
			return name
		}
		name = cut
	}
}

// CutSuffix removes the last suffix of name if it is one of those given,
// followed by nothing or a number.
func CutSuffix(name string, suffixes ...string) (string, bool) {
	for _, suffix := range suffixes {
		i := strings.LastIndex(name, suffix)
		if i <= 0 {
			continue
		}
		if rest := strings.TrimPrefix(name[i+len(suffix):], "."); strings.Trim(rest, "0123456789") == "" {
			return name[:i], true
		}
	}
	return name, false
}
