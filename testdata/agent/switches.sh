#!/bin/bash
# switches.sh BACKFEED [PAIRS [ROUNDS]]: what record --off-cpu costs a program that does nothing but switch threads,
# on one processor and on two. Runs alternate with plain ones; printed are the microseconds of a round trip in
# the middle run of either, and the middle of the ratios of pairs. perf is measured too if it has --off-cpu.
# Needs root and gcc.
set -euo pipefail
backfeed=$(realpath "$1") pairs=${2:-7} rounds=${3:-100000}
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
gcc -O2 -pthread -Wl,--build-id -o switches "$here/switches.c"
ways=("$backfeed record -F 997 --callers -o r.bfr --" "$backfeed record -F 997 --off-cpu -o r.bfr --")
if perf record --off-cpu -o p.data true >/dev/null 2>&1; then
	ways+=("perf record -F 997 -e cpu-clock -g --off-cpu -o p.data --")
fi
middle() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
for cpus in 1 2; do
	for way in "${ways[@]}"; do
		for i in $(seq "$pairs"); do
			plain=$(./switches "$rounds" $cpus)
			with=$($way ./switches "$rounds" $cpus 2>/dev/null | grep -E '^[0-9.]+$')
			echo "$plain $with"
		done >times
		printf '%s processor(s), %-40s %s us, plain %s us, ratio %s\n' $cpus "$(basename "${way%% *}") ${way#* }" \
			"$(cut -d' ' -f2 times | middle)" "$(cut -d' ' -f1 times | middle)" "$(awk '{ print $2 / $1 }' times | middle)"
	done
done
