package main

import "github.com/google/go-jsonnet"

// setup evaluates a configuration in Jsonnet.
func setup(src []byte) func() int {
	return func() int {
		out, err := jsonnet.MakeVM().EvaluateAnonymousSnippet("config.jsonnet", string(src))
		check(err)
		return len(out)
	}
}
