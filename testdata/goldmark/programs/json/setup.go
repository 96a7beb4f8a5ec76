package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"text/template"
)

type service struct {
	Name   string            `json:"name"`
	Port   int               `json:"port"`
	Share  float64           `json:"share"`
	Tags   []string          `json:"tags"`
	Labels map[string]string `json:"labels"`
}

var page = template.Must(template.New("page").Funcs(template.FuncMap{"upper": strings.ToUpper}).Parse(
	`{{range .}}<tr><td>{{.Name | upper}}</td><td>{{.Port}}</td>{{range $k, $v := .Labels}}<td>{{$k}}={{$v}}</td>{{end}}{{range .Tags}}<td>{{.}}</td>{{end}}</tr>{{end}}`))

// setup decodes JSON of some services, fills a template and encodes them again. What it reads is only what they are named after.
func setup(src []byte) func() int {
	var all []service
	for i, word := range strings.Fields(string(src)) {
		if i == 200 {
			break
		}
		all = append(all, service{word, 1000 + i, 1 / float64(i+1), []string{word, word + `"x"`}, map[string]string{"app": word, "n": strings.Repeat("y", i%9)}})
	}
	text, err := json.Marshal(all)
	check(err)
	return func() int {
		var read []service
		check(json.Unmarshal(text, &read))
		var out bytes.Buffer
		check(page.Execute(&out, read))
		again, err := json.Marshal(read)
		check(err)
		return out.Len() + len(again)
	}
}
