package main

import (
	"strings"

	"cel.dev/cel-go/cel"
)

// setup compiles rules, one a line, and evaluates them for requests.
func setup(src []byte) func() int {
	env, err := cel.NewEnv(cel.Variable("req", cel.MapType(cel.StringType, cel.DynType)), cel.Variable("n", cel.IntType))
	check(err)
	var rules []cel.Program
	for line := range strings.Lines(strings.TrimSpace(string(src))) {
		ast, issues := env.Compile(line)
		check(issues.Err())
		rule, err := env.Program(ast)
		check(err)
		rules = append(rules, rule)
	}
	return func() int {
		made := 0
		for i := range 200 {
			for _, rule := range rules {
				v, _, err := rule.Eval(map[string]any{"n": i, "req": map[string]any{
					"path": "/api/v1/users", "method": "GET", "size": 4711,
					"groups": []string{"admin", "dev", "ops"}, "headers": map[string]string{"host": "example.com"},
				}})
				check(err)
				if yes, ok := v.Value().(bool); ok && yes {
					made++
				}
			}
		}
		return made
	}
}
