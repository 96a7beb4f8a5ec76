package layout

import "testing"

func TestPettisHansenCalls(t *testing.T) {
	big := graph("a>b 100, b>c 90, b>d 80, b>e 1")
	big.Nodes[2].Size = 1000
	for _, tt := range []struct {
		name string
		g    *Graph
		want string
	}{
		{"most calls first, on the side of the one that makes them", graph("a>b 10, a>c 9"), "cab"},
		{"calls in both directions add up", graph("a>b 10, a>c 6, c>a 6"), "bac"},
		{"two chains with their ends to each other", graph("a>b 10, c>d 8, a>d 5"), "cdab"},
		{"one of them turned", graph("a>b 10, c>d 8, a>c 5"), "dcab"},
		{"both turned", graph("a>b 10, c>d 8, b>d 5"), "abdc"},
		{"the calls of all in a chain count: ab and d before ab and c", graph("a>b 10, a>c 6, a>d 4, b>d 4"), "dabc"},
		{"closest in bytes: d and e to the side of b that has no big c", big, "edabc"},
		{"what calls nobody stays alone", graph("a>b 10, c>c 1000, b>a 1"), "cab"},
	} {
		if got := names(pettisHansenCalls(tt.g)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
