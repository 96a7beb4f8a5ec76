package main

import (
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net"
	"net/http"
	"strings"
)

// setup serves pages over the loopback interface, and asks for them.
func setup(src []byte) func() int {
	words := strings.Fields(string(src))
	page := template.Must(template.New("page").Parse(`<h1>{{.Title}}</h1><ul>{{range .Words}}<li>{{.}}</li>{{end}}</ul>`))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /page/{n}", func(w http.ResponseWriter, r *http.Request) {
		at := len(r.PathValue("n"))
		page.Execute(w, map[string]any{"Title": r.URL.Path, "Words": words[at : at+20]})
	})
	mux.HandleFunc("GET /json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(words[:30])
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go http.Serve(l, mux)
	client := &http.Client{}
	get := func(path string) int {
		resp, err := client.Get("http://" + l.Addr().String() + path)
		check(err)
		defer resp.Body.Close()
		n, err := io.Copy(io.Discard, resp.Body)
		check(err)
		return int(n)
	}
	return func() (n int) {
		for i := range 10 {
			n += get(fmt.Sprintf("/page/%d", i*i)) + get("/json")
		}
		return n
	}
}
