package otlp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"backfeed/sample/bound"
)

// A jsonReader reads messages in OTLP's JSON, one after another: protobuf's mapping to JSON, with integers of 64 bits
// as strings or numbers.
type jsonReader struct {
	reader
	dec  *json.Decoder
	base int64 // where what is decoded begins in the file
}

// next reads one message. Its error is io.EOF where there is none.
func (r *jsonReader) next(m node, path string) error {
	t, err := r.dec.Token()
	if err == io.EOF {
		return err
	}
	if err != nil {
		return r.fail(path, err)
	}
	return r.object(m, t, path)
}

// fail says where the decoder is.
func (r *jsonReader) fail(path string, err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if errors.Is(err, bound.ErrBeyond) || errors.As(err, new(*json.SyntaxError)) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrFormat) || errors.As(err, new(wrongToken)) {
		return fmt.Errorf("offset %#x: %s: %w: %w", r.base+r.dec.InputOffset(), path, err, ErrFormat)
	}
	return err // the disk's, or that of what unpacks
}

// A wrongToken is the error about a value of another kind than the field's.
type wrongToken string

func (e wrongToken) Error() string { return string(e) }

func unexpected(t json.Token, want string) error {
	what := map[bool]string{true: "null"}[t == nil]
	switch t := t.(type) {
	case json.Delim:
		what = t.String()
	case string:
		what = strconv.Quote(t[:min(len(t), 32)])
	case json.Number:
		what = t.String()[:min(len(t), 32)]
	case bool:
		what = strconv.FormatBool(t)
	}
	return wrongToken(what + ", want " + want)
}

// object reads an object whose first token is t into m. null leaves m as it is.
func (r *jsonReader) object(m node, t json.Token, path string) error {
	if t == nil {
		return nil
	}
	if t != json.Delim('{') {
		return r.fail(path, unexpected(t, "an object"))
	}
	for {
		t, err := r.dec.Token()
		if err != nil {
			return r.fail(path, err)
		}
		if t == json.Delim('}') {
			return nil
		}
		name := t.(string) // or the decoder would have failed
		to := fieldNamed(m, name)
		if to == nil {
			r.noteUnknown(path + "." + name[:min(len(name), 64)])
			to = skipped{}
		}
		if err := r.value(to, path+"."+name[:min(len(name), 64)]); err != nil {
			return err
		}
	}
}

// fieldNamed is where the field with that name goes, or nil.
func fieldNamed(m node, name string) any {
	for i := range m.fields() {
		if known, to := m.field(i + 1); known == name {
			return to
		}
	}
	return nil
}

// value reads the value of a field.
func (r *jsonReader) value(to any, path string) error {
	t, err := r.dec.Token()
	if err != nil {
		return r.fail(path, err)
	}
	switch to := to.(type) {
	case skipped:
		return r.skip(t, path)
	case node:
		return r.object(to, t, path)
	case grower:
		return r.list(t, path, func(t json.Token) error {
			m, err := to.grow(r.in)
			if err != nil {
				return r.fail(path, err)
			}
			return r.object(m, t, path)
		})
	case *[]string:
		return r.list(t, path, func(t json.Token) error {
			s, ok := t.(string)
			if !ok {
				return r.fail(path, unexpected(t, "a string"))
			}
			if err := r.in.Hold(2*stringSize + int64(len(s))); err != nil {
				return r.fail(path, err)
			}
			*to = append(*to, s)
			return nil
		})
	case *[]int32:
		return jsonIntegers(r, to, t, path, 32)
	case *[]int64:
		return jsonIntegers(r, to, t, path, 64)
	case *times:
		return r.list(t, path, func(t json.Token) error {
			*to++
			_, err := r.unsigned(t, path)
			return err
		})
	}
	if t == nil {
		return nil
	}
	switch to := to.(type) {
	case *string:
		s, ok := t.(string)
		if !ok {
			return r.fail(path, unexpected(t, "a string"))
		}
		if err := r.in.Hold(int64(len(s))); err != nil {
			return r.fail(path, err)
		}
		*to = s
	case *uint64:
		*to, err = r.unsigned(t, path)
	case *fixed64:
		var v uint64
		v, err = r.unsigned(t, path)
		*to = fixed64(v)
	case *int64:
		*to, err = r.signed(t, path, 64)
	case *int32:
		var v int64
		v, err = r.signed(t, path, 32)
		*to = int32(v)
	}
	return err
}

// list passes the elements of an array whose first token is t to each, by their first tokens.
func (r *jsonReader) list(t json.Token, path string, each func(json.Token) error) error {
	if t == nil {
		return nil
	}
	if t != json.Delim('[') {
		return r.fail(path, unexpected(t, "an array"))
	}
	for {
		t, err := r.dec.Token()
		if err != nil {
			return r.fail(path, err)
		}
		if t == json.Delim(']') {
			return nil
		}
		if err := each(t); err != nil {
			return err
		}
	}
}

func jsonIntegers[T int32 | int64](r *jsonReader, to *[]T, t json.Token, path string, size int) error {
	return r.list(t, path, func(t json.Token) error {
		v, err := r.signed(t, path, size)
		if err != nil {
			return err
		}
		if err := r.in.Hold(int64(size) / 4); err != nil {
			return r.fail(path, err)
		}
		*to = append(*to, T(v))
		return nil
	})
}

func digits(t json.Token) string {
	switch t := t.(type) {
	case json.Number:
		return t.String()
	case string:
		return t
	}
	return ""
}

func (r *jsonReader) unsigned(t json.Token, path string) (uint64, error) {
	v, err := strconv.ParseUint(digits(t), 10, 64)
	if err != nil {
		return 0, r.fail(path, unexpected(t, "an integer from 0 to 2^64 - 1"))
	}
	return v, nil
}

func (r *jsonReader) signed(t json.Token, path string, size int) (int64, error) {
	v, err := strconv.ParseInt(digits(t), 10, size)
	if err != nil {
		return 0, r.fail(path, unexpected(t, fmt.Sprintf("an integer of %d bits", size)))
	}
	return v, nil
}

// skip reads over a value whose first token is t.
func (r *jsonReader) skip(t json.Token, path string) error {
	for depth := 0; ; {
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
		var err error
		if t, err = r.dec.Token(); err != nil {
			return r.fail(path, err)
		}
	}
}
