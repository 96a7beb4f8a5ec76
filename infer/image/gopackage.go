package image

import "strings"

// GoPackage returns the path of the package that a function's name begins with:
// "example.com/a/b" of "example.com/a/b.(*T).Method[go.shape.int]". The linker escapes
// dots in the path's last element.
func GoPackage(name string) string {
	end := len(name)
	if i := strings.IndexAny(name, "[("); i >= 0 {
		end = i
	}
	slash := strings.LastIndexByte(name[:end], '/') + 1
	dot := strings.IndexByte(name[slash:end], '.')
	if dot < 0 {
		return ""
	}
	return strings.ReplaceAll(name[:slash+dot], "%2e", ".")
}
