package report

import (
	"math"
	"reflect"
	"testing"

	"backfeed/sample"
)

// TestRunFacts: what is known of runs is said, and nothing of what is not.
func TestRunFacts(t *testing.T) {
	const began = 1_700_000_000_000 // 2023-11-14T22:13:20Z
	used := sample.Usage{User: 2_500_000, System: 250_000, Memory: 12_345_678, Minor: 70, Major: 7, Waited: 40, Preempted: 5}
	under := sample.Usage{User: 1, Memory: 12_345_678, Under: true, Minor: math.MaxUint64}
	for _, tt := range []struct {
		name     string
		runs     []sample.Run
		unlisted uint64
		want     []Fact
	}{
		{"none", nil, 0, nil},
		{"of perf.data", []sample.Run{{Host: "web1", Command: []string{"app", "..."}}}, 0, []Fact{{"command", "app ..."}, {"host", "web1"}}},
		{"whole machine", []sample.Run{{Began: began, Lasted: 60_000, Host: "web1"}}, 0, []Fact{{"host", "web1"}, {"recorded", "2023-11-14T22:13:20Z, for 60 s"}}},
		{"one", []sample.Run{{Began: began, Lasted: 2900, Host: "web1", Command: []string{"/bin/my app", "..."}, Usage: used}}, 0, []Fact{
			{"command", "</bin/my app> <...>"}, {"host", "web1"}, {"recorded", "2023-11-14T22:13:20Z, for 2.90 s"},
			{"processor time", "2.50 s in user code, 250 ms in the kernel"}, {"page faults", "77, 7 of them with reading from disk"},
			{"context switches", "45, 5 of them while it could have run on"}, {"most memory of a process", "12.3 MB"}}},
		{"two of five known, one more than counts hold", []sample.Run{
			{Lasted: 1000, Host: "a", Command: []string{"x"}, Usage: under}, {Lasted: 500, Host: "b", Command: []string{"x"}, Usage: used},
			{Host: "c"}, {Host: "d"}, {Host: "e"}}, 0, []Fact{
			{"command", "x"}, {"host", "a, b, c and 2 more"}, {"recorded", "5 runs, for 1.50 s in all"},
			{"processor time (of 2 of 5 runs)", "2.50 s in user code, 250 ms in the kernel"},
			{"page faults (of 2 of 5 runs)", "18446744073709551615, 7 of them with reading from disk"},
			{"context switches (of 2 of 5 runs)", "45, 5 of them while it could have run on"}, {"most memory of a process (of 2 of 5 runs)", "12.3 MB"}}},
		{"an upper bound, and unlisted ones", []sample.Run{{Began: began, Usage: under}, {Began: began + 5000, Usage: under}}, 3, []Fact{
			{"recorded", "2 runs, begun 2023-11-14T22:13:20Z to 2023-11-14T22:13:25Z"},
			{"further runs", "3, of which the recording has no more than their samples"},
			{"processor time (of 2 of 5 runs)", "2 us in user code, 0 s in the kernel"},
			{"page faults (of 2 of 5 runs)", "18446744073709551615, 0 of them with reading from disk"},
			{"context switches (of 2 of 5 runs)", "0, 0 of them while it could have run on"},
			{"most memory of a process (of 2 of 5 runs)", "less than 12.3 MB"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			quote := func(s string) string {
				if tt.name == "one" {
					return "<" + s + ">"
				}
				return s
			}
			if got := RunFacts(RunRows(&sample.Recording{Runs: tt.runs}), tt.unlisted, quote); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}
