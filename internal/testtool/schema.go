package testtool

import (
	"errors"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema compiles a JSON schema, and returns what says how a document is not by it.
func Schema(t testing.TB, text string) (check func(document string) error) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	const name = "document.schema.json"
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return func(document string) error {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(document))
		return errors.Join(err, s.Validate(v))
	}
}
