package main

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

type config struct {
	Services []struct {
		Name  string            `hcl:"name,label"`
		Image string            `hcl:"image"`
		Port  int               `hcl:"port"`
		Tags  map[string]string `hcl:"tags"`
		Hosts []string          `hcl:"hosts"`
		Check *struct {
			Path  string `hcl:"path"`
			Every int    `hcl:"every,optional"`
		} `hcl:"check,block"`
	} `hcl:"service,block"`
}

// setup makes a configuration of services. The work is to parse it and to evaluate it. It takes nothing of its input.
func setup([]byte) func() int {
	var text strings.Builder
	for i := range 120 {
		fmt.Fprintf(&text, `service "s%d" {
  image = "registry.${domain}/s%[1]d:${upper("v%[1]d")}"
  port  = base + %[1]d * 2 %% 7
  tags  = { team = "t%d", tier = %[1]d > 40 ? "front" : "back" }
  hosts = [for h in hosts : "${h}-%[1]d.${domain}" if h != "c"]
  check {
    path  = "/health/${join("-", hosts)}"
    every = 10 + %[1]d # seconds
  }
}
`, i, i%9)
	}
	src := []byte(text.String())
	ctx := &hcl.EvalContext{
		Variables: map[string]cty.Value{
			"domain": cty.StringVal("example.com"), "base": cty.NumberIntVal(8000),
			"hosts": cty.ListVal([]cty.Value{cty.StringVal("a"), cty.StringVal("b"), cty.StringVal("c")}),
		},
		Functions: map[string]function.Function{"upper": stdlib.UpperFunc, "join": stdlib.JoinFunc},
	}
	return func() int {
		file, diags := hclsyntax.ParseConfig(src, "config.hcl", hcl.InitialPos)
		if diags.HasErrors() {
			check(diags)
		}
		var c config
		if diags := gohcl.DecodeBody(file.Body, ctx, &c); diags.HasErrors() {
			check(diags)
		}
		return len(c.Services)
	}
}
