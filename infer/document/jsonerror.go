package document

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// JSONError says in words where and in which field decoding JSON failed. Other errors it returns as they are:
// those of the disk, and of values, which they quote.
func JSONError(err error) error {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("cut short: write it again")
	case errors.As(err, &syntax):
		return fmt.Errorf("offset %#x: not JSON", syntax.Offset)
	case errors.As(err, &typ):
		field := ""
		if typ.Field != "" {
			field = typ.Field + ": "
		}
		return fmt.Errorf("offset %#x: %s%s, want %s", typ.Offset, field, withArticle(typ.Value), jsonKind(typ.Type))
	}
	return err
}

// withArticle is what package json calls a value, in words.
func withArticle(value string) string {
	switch {
	case value == "bool":
		return "true or false"
	case strings.HasPrefix(value, "number "): // and the number
		return value
	case value == "array" || value == "object":
		return "an " + value
	}
	return "a " + value
}

// jsonKind says what values of a type are in JSON.
func jsonKind(t reflect.Type) string {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return "a string"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number of 0 or more"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	}
	return "an object"
}
