#!/bin/bash
# alarms.sh go|llvm TIMES HZ TIME COMMAND [ARG...]: how often `backfeed diff` calls a change clear
# that is chance alone. Runs of the command are recorded TIMES times, for TIME each, and the
# profiles are compared pair by pair. Of each recording, its samples are printed; of each pair, the
# decisions that change, those that do so clearly, and the share of the weight that changes sides.
# Needs jq, and a machine that samples (see `backfeed doctor`).
set -euo pipefail
consumer=${1?go or llvm} times=${2?how often} hz=${3?frequency} time=${4?how long} && shift 4
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
(cd "$(dirname "$0")/../.." && go build -o "$dir/backfeed" ./cmd/backfeed)

# backfeed runs it, and shows what it says where it fails.
backfeed() { "$dir/backfeed" "$@" 2>"$dir/log" || { cat "$dir/log" >&2 && return 1; }; }

for ((i = 0; i < times; i++)); do
	backfeed record -F "$hz" -d "$time" -o "$dir/$i.bfr" -- bash -c 'while "$@"; do :; done' - "$@" >/dev/null
	sed -n "s/^backfeed: \([0-9]* samples\) .*/recording $i: \1/p" "$dir/log"
	backfeed emit "$consumer" "$dir/$i.bfr" -o "$dir/$i"
done
for ((i = 0; i < times; i++)); do
	for ((j = i + 1; j < times; j++)); do
		backfeed diff --for "$consumer" "$dir/$i" "$dir/$j" --format json |
			jq -r "\"pair $i $j: \(.items | length) \(.clear) \(.moved)\""
	done
done | tee "$dir/pairs"
awk '{ n++; clear += $5 > 0; if ($6 > most) most = $6 }
	END { printf "%d of %d pairs have a clear change; at most %.1f %% of the weight changes sides\n", clear, n, 100 * most }' "$dir/pairs"
