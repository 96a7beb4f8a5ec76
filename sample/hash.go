package sample

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// hashedDir is where hashed paths lie.
const hashedDir = "/hashed/"

// HashPath returns id with a hash of its path, which is the same on every machine: the first 16 digits of its SHA-256.
// It keeps a path from those who do not know it, not from those who can guess it. Names of mappings that are of no file
// stay, and what is hashed already.
func (id ImageID) HashPath() ImageID {
	if id.Path == "" || strings.HasPrefix(id.Path, hashedDir) || NotFile(id.Path) != "" {
		return id
	}
	sum := sha256.Sum256([]byte(id.Path))
	id.Path = hashedDir + hex.EncodeToString(sum[:8])
	return id
}

// HashPaths returns what r holds with hashes in place of the paths of images, without the names of processes and without
// its runs. Images with a build ID are found by it still; those without can be told apart and no more.
func (r *Recording) HashPaths() *Recording {
	hashed := Merge(r)
	hashed.Runs, hashed.Unlisted = nil, 0
	for _, c := range slices.Concat(hashed.Counts, hashed.Off) {
		c.Origins = nil
		for _, ic := range c.Images {
			ic.ID = ic.ID.HashPath()
		}
		c.images = nil
	}
	return Merge(hashed)
}
