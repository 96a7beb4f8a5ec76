package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"backfeed/sample/wire"
)

// The index keeps the directories of all segments in one file, so that a store of
// thousands is listed without opening each. It is a cache: whatever happens to it,
// the segments tell all that it knows. Writers of segments do not touch it.
//
// Its one bucket has for each segment's name
//
//	offset  size  field
//	0       4     CRC-32C of the name and the rest, little-endian
//	4       8     size of the segment, in bytes, little-endian
//	12      -     directory
type index struct {
	path  string
	known map[string][]byte // of a bucket, copied
	fresh map[string][]byte // found missing
	names []string          // of all segments, sorted
	lost  map[string]bool   // are not there, and must not be forgotten
}

var bucket = []byte("segments")

// indexWait is how long another process may hold the index before it is done
// without.
const indexWait = 100 * time.Millisecond

// emptyIndex returns one that knows nothing.
func (s *Dir) emptyIndex() *index {
	return &index{path: filepath.Join(s.dir, indexName), known: map[string][]byte{}, fresh: map[string][]byte{}}
}

// openIndex reads the index. It is empty if it cannot be read.
func (s *Dir) openIndex() *index {
	ix := s.emptyIndex()
	if st, err := os.Stat(ix.path); err != nil || st.Size() == 0 {
		return ix
	}
	err := guard(func() error {
		db, err := bolt.Open(ix.path, fileMode, &bolt.Options{Timeout: indexWait, ReadOnly: true})
		if err != nil {
			return err
		}
		defer db.Close()
		return db.View(func(tx *bolt.Tx) error {
			b := tx.Bucket(bucket)
			if b == nil {
				return nil
			}
			return b.ForEach(func(k, v []byte) error {
				ix.known[string(k)] = slices.Clone(v)
				return nil
			})
		})
	})
	if broken(err) {
		ix.known = map[string][]byte{}
		os.Remove(ix.path)
	}
	return ix
}

// broken reports whether an error of the index is about what is in it.
func broken(err error) bool {
	var path *os.PathError
	return err != nil && !errors.Is(err, bolt.ErrTimeout) && !errors.As(err, &path)
}

// guard runs f. The index is mapped, and bbolt trusts it: what is not as it must
// be is a panic, or a fault.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("index: %v", r)
		}
	}()
	return f()
}

// get returns the directory of a segment, nil if the index does not have it.
func (ix *index) get(name string, size int64) []byte {
	v := ix.known[name]
	if len(v) < 12 || binary.LittleEndian.Uint32(v) != indexSum(name, v) || int64(binary.LittleEndian.Uint64(v[4:])) != size {
		return nil
	}
	return v[12:]
}

// put has a directory added to the index.
func (ix *index) put(name string, size int64, dir []byte) {
	v := binary.LittleEndian.AppendUint64(make([]byte, 4), uint64(size))
	v = append(v, dir...)
	binary.LittleEndian.PutUint32(v, indexSum(name, v))
	ix.fresh[name] = v
}

func indexSum(name string, v []byte) uint32 {
	return crc32.Update(wire.Checksum([]byte(name)), wire.Castagnoli, v[4:])
}

// rewrite makes the index anew, of what was put.
func (ix *index) rewrite() error {
	if err := remove(ix.path); err != nil {
		return err
	}
	ix.update()
	return nil
}

// update writes what was put, and removes what is no segment any more. It is best
// effort: what it cannot write is found missing again.
func (ix *index) update() {
	var gone []string
	for name := range ix.known {
		if _, ok := slices.BinarySearch(ix.names, name); !ok && !ix.lost[name] {
			gone = append(gone, name)
		}
	}
	if len(ix.fresh) == 0 && len(gone) == 0 {
		return
	}
	err := guard(func() error {
		db, err := bolt.Open(ix.path, fileMode, &bolt.Options{Timeout: indexWait})
		if err != nil {
			return err
		}
		defer db.Close()
		return db.Update(func(tx *bolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(bucket)
			if err != nil {
				return err
			}
			for name, v := range ix.fresh {
				if err := b.Put([]byte(name), v); err != nil {
					return err
				}
			}
			for _, name := range gone {
				if err := b.Delete([]byte(name)); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if broken(err) {
		os.Remove(ix.path)
	}
}
