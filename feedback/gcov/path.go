package gcov

import (
	"path/filepath"
	"strings"
)

// DataPath returns the file that gcc reads with -fprofile-use=dir where it writes these notes: run in
// the directory cwd, it names its auxiliary files as notes without ".gcno". Both have to be as gcc has
// them, notes in the spelling of -o: "./x.o" and "x.o" lead to different files. An empty dir is
// -fprofile-use without one.
//
// Since GCC 9 a relative name is made absolute and mangled, and an absolute one is neither (coverage_init
// in coverage.cc, mangle_path in gcov-io.cc; PR lto/85759):
//
//	-o o/x.o       in /src:  dir/#src#o#x.gcda
//	-o ../o/x.o    in /src:  dir/#src#^#o#x.gcda
//	-o /src/o/x.o         :  dir//src/o/x.gcda
//
// GCC 9 and 10 mangle the name of the notes too, which are written into cwd then; those of a file
// "#src#o#x.gcno" are taken for such. GCC 8 mangles nothing: dir/o/x.gcda.
// -fprofile-prefix-path, which gcc 11 knows, is not considered.
func DataPath(dir, cwd, notes string, v Version) string {
	aux := strings.TrimSuffix(notes, ".gcno")
	absolute := strings.HasPrefix(aux, "/")
	switch mangled := strings.HasPrefix(filepath.Base(aux), "#"); {
	case dir == "" && absolute:
		return aux + ".gcda"
	case dir == "":
		return cwd + "/" + aux + ".gcda"
	case v.Major() < sinceMangling:
	case mangled:
		aux = filepath.Base(aux)
	case !absolute:
		aux = mangle(cwd + "/" + aux)
	}
	return dir + "/" + aux + ".gcda"
}

// mangle returns a path as the name of one file, as mangle_path of gcov-io.cc does.
func mangle(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if p == ".." {
			parts[i] = "^"
		}
	}
	return strings.Join(parts, "#")
}

// DataPaths returns the files that gcc may read with -fprofile-use=dir for the object of these notes,
// where it is not known whether -o named that by an absolute path or by one from Notes.Dir: the
// latter first, as most builds do. gcc itself says which it is: without -Wno-missing-profile, a build
// of notes prints "profile count data file not found" with its name.
func (n *Notes) DataPaths(dir string) []string {
	path := n.Path
	if !filepath.IsAbs(path) {
		if n.Dir == "" {
			return []string{DataPath(dir, n.Dir, path, n.Version)}
		}
		path = filepath.Join(n.Dir, path)
	}
	relative := DataPath(dir, "", strings.TrimPrefix(filepath.ToSlash(path), "/"), n.Version)
	absolute := DataPath(dir, "", path, n.Version)
	if relative == absolute {
		return []string{relative}
	}
	return []string{relative, absolute}
}

// NamedAs returns which of names gcc gave its auxiliary files, those of the notes without ".gcno": the spelling of -o
// without its extension. The ident of a function that other objects cannot call is a checksum of its source, its name
// and that (coverage_compute_profile_id in coverage.cc). Notes without such functions do not say it, nor do those of
// sources whose names were changed (-fprofile-prefix-map).
func (n *Notes) NamedAs(names []string) (name string, ok bool) {
	for i := range n.Functions {
		f := &n.Functions[i]
		if f.Ident == checksum(0, f.Name)&identBits {
			continue
		}
		crc := checksum(checksum(0, f.Source), f.Name)
		for _, name := range names {
			if f.Ident == checksum(crc, name)&identBits {
				return name, true
			}
		}
	}
	return "", false
}

// identBits are those of a checksum that an ident has.
const identBits = 1<<31 - 1

// checksum is gcc's of a string and the NUL behind it (coverage_checksum_string in coverage.cc, crc32_string in
// tree.cc): CRC-32, the most significant bit first.
func checksum(crc uint32, s string) uint32 {
	for i := range len(s) {
		crc = crc<<8 ^ crcs[crc>>24^uint32(s[i])]
	}
	return crc<<8 ^ crcs[crc>>24]
}

// crcs are checksums of single bytes.
var crcs = func() (table [256]uint32) {
	for i := range table {
		crc := uint32(i) << 24
		for range 8 {
			crc = crc<<1 ^ crc>>31*0x04c11db7
		}
		table[i] = crc
	}
	return table
}()
