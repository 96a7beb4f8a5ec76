package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// Values that stand in for each part of a document.
var standIns = []any{nil, true, "", "0x0", "none", "0xffffffffffffffff", 0, 1, -1, 1.5, json.Number("9223372036854775807"), json.Number("18446744073709551615"), json.Number("1e300"), []any{}, map[string]any{}}

// eachPart hands doc to try without each of its parts, and with each of the standIns in their places.
func eachPart(doc any, try func(what string, doc any)) {
	var walk func(v any, path string, set func(any), remove func())
	walk = func(v any, path string, set func(any), remove func()) {
		if remove != nil {
			remove()
			try("without "+path, doc)
		}
		for _, other := range standIns {
			set(other)
			try(fmt.Sprintf("%s is %v", path, other), doc)
		}
		set(v)
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				walk(e, path+"."+k, func(to any) { v[k] = to }, func() { delete(v, k) })
			}
		case []any:
			for i, e := range v[:min(len(v), 2)] {
				walk(e, fmt.Sprintf("%s[%d]", path, i), func(to any) { v[i] = to }, nil)
			}
		}
	}
	walk(doc, "", func(to any) { doc = to }, nil)
}

// parsed returns JSON as values, with its numbers as they are written.
func parsed(t testing.TB, text []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// lenient is a schema that lets properties through that it does not know, as Rules do.
func lenient(schema []byte) string {
	return strings.ReplaceAll(string(schema), `"additionalProperties": false`, `"additionalProperties": true`)
}

// TestRules: of documents without each of their parts, and with others in their places, Rules refuse those that a validator of
// JSON Schema refuses, and no others; and what they let pass can be read.
func TestRules(t *testing.T) {
	for file, schema := range map[string][]byte{"testdata/small.counts.json": JSONSchema, "testdata/small.counts1.json": jsonSchema1} {
		rules, theirs := MustParseRules(schema), testtool.Schema(t, lenient(schema))
		refused, passed := 0, 0
		try := func(what string, doc any) {
			b, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			got, want := rules.Check(b), theirs(string(b))
			if (got == nil) != (want == nil) {
				t.Errorf("%s: %s: %v, want %v", file, what, got, want)
			}
			if got == nil {
				passed++
			} else if refused++; !offsetOf.MatchString(got.Error()) {
				t.Errorf("%s: %s: %v: it does not say where", file, what, got)
			}
			if d, err := Read(bytes.NewReader(b)); err == nil {
				written(t, d)
			} else if got != nil && !strings.HasPrefix(what, ".schema") && !strings.HasPrefix(err.Error(), "schema ") && !strings.HasPrefix(err.Error(), got.Error()) {
				t.Errorf("%s: %s: %v, want %v", file, what, err, got)
			}
		}
		doc := parsed(t, []byte(testtool.Read(t, file)))
		try("whole", doc)
		eachPart(doc, try)
		if refused < 1000 || passed < 200 {
			t.Errorf("%s: %d refused and %d not: want more of both", file, refused, passed)
		}
	}
}

var offsetOf = regexp.MustCompile(`^offset 0x[0-9a-f]+: `)

// TestParseRules: a schema whose words Rules do not know is refused: they would be told, and not be checked.
func TestParseRules(t *testing.T) {
	for _, tt := range []struct{ schema, want string }{
		{`{"type": "object", "minProperties": 1}`, "minProperties"},
		{`{"items": {"oneOf": []}}`, "oneOf"},
		{`{"additionalProperties": {"not": {}}}`, "not"},
		{`{"properties": {"a": {"$ref": "#/$defs/b"}}}`, `nothing is called "#/$defs/b"`},
		{`{"pattern": "("}`, "missing closing )"},
	} {
		if _, err := ParseRules([]byte(tt.schema)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.schema, err, tt.want)
		}
	}
}

// FuzzRules: of any JSON, Rules refuse what a validator of JSON Schema does; but for names in other letters, and numbers that are
// not what they seem to a float64.
func FuzzRules(f *testing.F) {
	for _, file := range []string{"testdata/small.counts.json", "testdata/small.counts1.json"} {
		if b, err := os.ReadFile(file); err == nil {
			f.Add(b)
		}
	}
	rules, theirs := MustParseRules(JSONSchema), testtool.Schema(f, lenient(JSONSchema))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := rules.Check(b)
		if !json.Valid(b) {
			if got == nil {
				t.Errorf("no JSON passes: %q", b)
			}
			return
		}
		if bytes.ContainsAny(b, ".eE\x80") && oddNumber.Match(b) || got != nil && strings.Contains(got.Error(), "in these letters") {
			return
		}
		if want := theirs(string(b)); (got == nil) != (want == nil) {
			t.Errorf("%q: %v, want %v", b, got, want)
		}
	})
}

var oddNumber = regexp.MustCompile(`[0-9][eE]|[0-9]{15}|\.[0-9]`)
