# What main.go runs: recursion, objects, paths, strings, sorting and grouping.
def fib: if . < 2 then . else (. - 1 | fib) + (. - 2 | fib) end;
def words: "the quick brown fox jumps over the lazy dog" | split(" ");
[range(200) as $i | {id: $i, word: words[$i % 9], score: ($i * 7919 % 1009)}]
| group_by(.word)
| map({key: .[0].word, value: (map(.score) | add / length)})
| from_entries as $means
| [paths] | length as $n
| (10 | fib) as $f
| [words[] | ascii_upcase + ":" + ($means[.] // 0 | tostring) | ltrimstr("T")]
| sort_by(length, .) | join(",") | length + $n + $f,
  reduce range(300) as $i ([]; if $i % 3 == 0 then . + [$i] else . end) | length
