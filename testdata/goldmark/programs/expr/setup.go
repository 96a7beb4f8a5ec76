package main

import (
	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"
)

type order struct {
	ID     int
	Total  float64
	Buyer  string
	Groups []string
	Items  []item
}

type item struct {
	Name  string
	Price float64
	Count int
}

// setup compiles expressions over orders, and evaluates them. It takes nothing of its input.
func setup([]byte) func() int {
	var programs []*vm.Program
	for _, code := range []string{
		`Total > 100 && Buyer startsWith "a"`,
		`sum(map(Items, .Price * .Count)) > Total / 2`,
		`filter(Items, .Count > 2 and .Name contains "e") | map(.Name) | len()`,
		`"admin" in Groups or any(Groups, # matches "^dev.*")`,
		`reduce(1..50, #acc + # * ID % 7, 0)`,
		`let best = sortBy(Items, .Price); best[0].Name + " " + upper(Buyer)`,
		`all(Items, .Price > 0) ? groupBy(Items, .Count % 3) : {}`,
	} {
		p, err := expr.Compile(code, expr.Env(order{}))
		check(err)
		programs = append(programs, p)
	}
	var orders []order
	for i := range 100 {
		o := order{ID: i, Total: float64(i * 7 % 250), Buyer: []string{"anna", "bob", "carol"}[i%3], Groups: []string{"ops", []string{"admin", "dev-a", "qa"}[i%3]}}
		for j := range 4 + i%5 {
			o.Items = append(o.Items, item{[]string{"pen", "paper", "desk", "chair"}[(i+j)%4], float64(j*13%40 + 1), (i + j) % 6})
		}
		orders = append(orders, o)
	}
	return func() int {
		made := 0
		var m vm.VM
		for _, p := range programs {
			for _, o := range orders {
				v, err := m.Run(p, o)
				check(err)
				if v != nil {
					made++
				}
			}
		}
		return made
	}
}
