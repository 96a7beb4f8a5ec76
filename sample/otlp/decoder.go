package otlp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"backfeed/sample"
	"backfeed/sample/bound"
)

// Version is the version of the signal that is read, as senders name it in the metadata VersionHeader of a request. One
// that names none is of version 1.
const (
	Version       = "1"
	VersionHeader = "Otlp-Profiles-Development-Version"
)

// A Decoder reads messages that hosts send. Its methods may be called by several goroutines.
type Decoder struct {
	Options // without Warn
	named   builds
}

// A Batch is what one message says.
type Batch struct {
	Recording *sample.Recording
	Profiles  uint64   // in the message
	Rejected  uint64   // of these, those that are not of processor time
	Warnings  []string // what the message cannot be trusted in, a sentence each
}

// What a message may take of memory when it is read: what the profiler sends takes 10 to 15 times its size.
const (
	MemoryRate  = 32 // bytes for each byte of a message
	memoryFloor = 1 << 20
)

// Decode reads one message, in JSON or protobuf, which has no compression. Its error wraps ErrFormat if the message is to
// blame.
func (d *Decoder) Decode(b []byte, inJSON bool) (*Batch, error) {
	in := bound.Capped(int64(len(b)), memoryFloor+MemoryRate*int64(len(b)))
	var m profilesData
	var n notes
	r := reader{in: in}
	var err error
	if inJSON {
		j := jsonReader{reader: r, dec: json.NewDecoder(bytes.NewReader(b))}
		j.dec.UseNumber()
		if err = j.next(&m, "profiles"); err == nil {
			if _, more := j.dec.Token(); more != io.EOF {
				err = j.fail("profiles", wrongToken("more than one message"))
			}
		} else if err == io.EOF {
			err = fmt.Errorf("offset 0x0: empty: %w", ErrFormat)
		}
		r = j.reader
	} else {
		err = r.proto(&m, b, "profiles", 0)
	}
	rec := &sample.Recording{}
	if err == nil {
		n.unknown = r.unknown
		c := converter{opt: d.Options, depth: d.depth(), all: rec, notes: &n, named: &d.named}
		err = c.message(&m)
	}
	if err != nil {
		if errors.Is(err, bound.ErrBeyond) && !errors.Is(err, ErrFormat) {
			err = fmt.Errorf("%w: %w", err, ErrFormat)
		}
		return nil, err
	}
	return &Batch{Recording: rec, Profiles: n.profiles, Rejected: n.rejected, Warnings: n.warnings()}, nil
}
