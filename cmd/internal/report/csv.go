package report

import (
	"encoding"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// WriteCSV writes rows, a struct or a slice of structs, as comma-separated values
// (RFC 4180, with lines that end in a line feed alone). The head has the names that
// the fields have in JSON; those of an embedded struct are in line, those of a nested
// one come after its name and a dot. Numbers stand in full, a nil pointer is an empty
// cell, or as many as what it points to has fields, and a list or a map is JSON in one cell. Text is cleaned: a row is a line, and no cell is a formula to a
// spreadsheet.
func WriteCSV(w io.Writer, rows any) error {
	v := reflect.ValueOf(rows)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	out := csv.NewWriter(w)
	t := v.Type()
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return fmt.Errorf("no rows for CSV in %s", v.Type())
	}
	columns := csvColumns(t, "", nil)
	head := make([]string, len(columns))
	for i, c := range columns {
		head[i] = c.name
	}
	out.Write(head) // an error stays for Error
	if v.Kind() == reflect.Struct {
		writeCSVRow(out, v, columns)
	} else {
		for i := range v.Len() {
			writeCSVRow(out, v.Index(i), columns)
		}
	}
	out.Flush()
	return out.Error()
}

// A csvColumn is a field that is written.
type csvColumn struct {
	name  string
	index []int // as reflect's FieldByIndex
}

func csvColumns(t reflect.Type, prefix string, index []int) (all []csvColumn) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		at := append(index[:len(index):len(index)], i)
		nested := f.Type
		if nested.Kind() == reflect.Pointer && nested != reflect.PointerTo(t) {
			nested = nested.Elem()
		}
		inner := nested.Kind() == reflect.Struct && !isText(f.Type)
		switch {
		case inner && f.Anonymous && name == "":
			all = append(all, csvColumns(nested, prefix, at)...)
			continue
		case name == "":
			name = f.Name
		}
		if inner {
			all = append(all, csvColumns(nested, prefix+name+".", at)...)
			continue
		}
		all = append(all, csvColumn{prefix + name, at})
	}
	return all
}

var textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()

// isText reports whether values of a type are written as text: times, confidences.
func isText(t reflect.Type) bool { return t.Implements(textMarshaler) }

func writeCSVRow(out *csv.Writer, v reflect.Value, columns []csvColumn) {
	cells := make([]string, len(columns))
	for i, c := range columns {
		if f, err := v.FieldByIndexErr(c.index); err == nil { // else it is in what a nil pointer points to
			cells[i] = csvCell(f)
		}
	}
	out.Write(cells)
}

// csvCell returns a value as it stands in JSON, as far as that is one cell.
func csvCell(v reflect.Value) string {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	if isText(v.Type()) {
		b, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			return ""
		}
		return csvText(string(b))
	}
	switch v.Kind() {
	case reflect.String:
		return csvText(v.String())
	case reflect.Float32, reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case reflect.Slice, reflect.Map, reflect.Struct, reflect.Array:
		if (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0 {
			return ""
		}
		b, err := json.Marshal(v.Interface())
		if err != nil {
			return ""
		}
		return csvText(string(b))
	}
	return fmt.Sprint(v.Interface())
}
