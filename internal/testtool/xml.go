package testtool

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// WellFormed checks that a page is XML, that each id is there once, and that what leads to a part of the
// page leads somewhere. It returns the elements, for what else a test asks of them.
func WellFormed(t testing.TB, page string) (elements []xml.StartElement) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	ids, links := map[string]bool{}, map[string]bool{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("offset %d: %v", d.InputOffset(), err)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		elements = append(elements, e.Copy())
		for _, a := range e.Attr {
			switch {
			case a.Name.Local == "id" && ids[a.Value]:
				t.Errorf("id %q is there twice", a.Value)
			case a.Name.Local == "id":
				ids[a.Value] = true
			case a.Name.Local == "href" && strings.HasPrefix(a.Value, "#"):
				links[a.Value[1:]] = true
			}
		}
	}
	for to := range links {
		if !ids[to] {
			t.Errorf("a link leads to #%s, which is not there", to)
		}
	}
	return elements
}
