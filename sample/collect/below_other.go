//go:build !linux

package collect

import (
	"os"
	"path/filepath"

	"backfeed/sample"
)

// OpenBelow opens the regular file that path names below the directory root, to read
// it. On Linux it follows no link; elsewhere nothing runs that has to take care.
func OpenBelow(root, path string) (*os.File, error) {
	return sample.OpenRegular(filepath.Join(root, path))
}

// OpenInRoot is OpenBelow.
func OpenInRoot(root, path string) (*os.File, error) { return OpenBelow(root, path) }
