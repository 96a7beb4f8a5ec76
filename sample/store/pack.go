package store

import (
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"backfeed/sample/wire"
)

var (
	compressor = sync.OnceValue(func() *zstd.Encoder {
		z, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(false))
		if err != nil {
			panic(err) // the options are at fault
		}
		return z
	})
	decompressor = sync.OnceValue(func() *zstd.Decoder {
		z, err := zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			panic(err)
		}
		return z
	})
)

// maxRatio bounds what a block is compressed by, so that reading one allocates in
// proportion to the file. Samples shrink to a third or so.
const maxRatio = 256

// pack returns the stored form of plain bytes: compressed, if that is shorter and
// within bounds.
func pack(plain []byte) []byte {
	if z := compressor().EncodeAll(plain, nil); len(z) < len(plain) && len(z) >= len(plain)/maxRatio {
		return z
	}
	return plain
}

// leave returns plain bytes as they are, for what is not written.
func leave(plain []byte) []byte { return plain }

// unpack returns the plain bytes of a block.
func unpack(stored []byte, plain int) ([]byte, error) {
	if len(stored) == plain {
		return stored, nil
	}
	b, err := decompressor().DecodeAll(stored, make([]byte, 0, plain))
	if err != nil || len(b) != plain {
		return nil, fmt.Errorf("compressed bytes: %v: %w", err, ErrFormat)
	}
	return b, nil
}

// readBlock returns the plain bytes of a block of a segment.
func readBlock(r io.ReaderAt, b block) ([]byte, error) {
	stored := make([]byte, b.stored)
	if _, err := r.ReadAt(stored, b.off); err != nil {
		return nil, err
	}
	if wire.Checksum(stored) != b.sum {
		return nil, fmt.Errorf("offset %#x: checksum of block: %w", b.off, ErrFormat)
	}
	plain, err := unpack(stored, b.plain)
	if err != nil {
		return nil, fmt.Errorf("offset %#x: %w", b.off, err)
	}
	return plain, nil
}
