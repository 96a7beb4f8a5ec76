package report

import (
	"strings"
	"testing"

	"backfeed/layout"
)

// TestWriteScores: a table for each of the counts that placements are scored on.
func TestWriteScores(t *testing.T) {
	missed := 1.25
	s := layout.Scores{ExtTSP: 1234567, Transfers: 1000, Taken: 250, CallScore: 0.125, Distance: 4096, Placed: 0.5, Misses: &missed,
		Bytes: layout.Coverage{For90: 100, For99: 200, For999: 300}, Lines: layout.Coverage{For90: 2, For99: 4, For999: 5},
		Pages: layout.Coverage{For90: 1, For99: 1, For999: 2}, HugePages: layout.Coverage{For90: 1, For99: 1, For999: 1}}
	var b strings.Builder
	if err := WriteScores(&b, "/bin/app", []layout.Judged{
		{Placement: "as linked", Counts: layout.OwnCounts, Scores: s},
		{Placement: "relinked", Counts: layout.OwnCounts, Scores: layout.Scores{}},
		{Placement: "as linked", Counts: layout.HoldoutCounts, Scores: s},
	}, Style{}); err != nil {
		t.Fatal(err)
	}
	want := `/bin/app                                        as linked  relinked
ext-TSP score of blocks (more is better)            1.23M         0
jumps taken, of transfers between blocks            25.0%         -
score of calls (more is better)                      0.12         0
mean distance of a call, in bytes                   4.10k         0
bytes for 90, 99, 99.9 % of execution       100, 200, 300   0, 0, 0
cache lines of 64 bytes                           2, 4, 5   0, 0, 0
I-cache lines missed, of 1000 instructions           1.25         -
pages of 4 KiB                                    1, 1, 2   0, 0, 0
pages of 2 MiB                                    1, 1, 1   0, 0, 0
execution of what was found                         50.0%      0.0%

on the counts of the holdout                    as linked
ext-TSP score of blocks (more is better)            1.23M
jumps taken, of transfers between blocks            25.0%
score of calls (more is better)                      0.12
mean distance of a call, in bytes                   4.10k
bytes for 90, 99, 99.9 % of execution       100, 200, 300
cache lines of 64 bytes                           2, 4, 5
I-cache lines missed, of 1000 instructions           1.25
pages of 4 KiB                                    1, 1, 2
pages of 2 MiB                                    1, 1, 1
execution of what was found                         50.0%
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
