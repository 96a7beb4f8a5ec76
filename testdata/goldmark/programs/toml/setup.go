package main

import (
	"bytes"
	"fmt"

	"github.com/pelletier/go-toml/v2"
)

// setup makes a configuration. The work is to read it and to write it. It takes nothing of its input.
func setup([]byte) func() int {
	var text bytes.Buffer
	text.WriteString("title = \"x\"\n")
	for i := range 200 {
		fmt.Fprintf(&text, `[servers.s%d]
ip = "10.0.0.%[1]d"
role = "frontend"
ports = [8000, 8001, %d]
weight = %[1]d.5
enabled = %v
when = 1979-05-27T07:32:00Z
data = { a = "b", c = %[1]d }
`, i, 8000+i, i%2 == 1)
	}
	return func() int {
		var v map[string]any
		check(toml.Unmarshal(text.Bytes(), &v))
		b, err := toml.Marshal(v)
		check(err)
		return len(b)
	}
}
