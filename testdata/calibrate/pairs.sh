#!/bin/bash
# pairs.sh OTHER TRUTH ROUNDS COMMAND [ARG...]: what two versions of backfeed make of the same share, OTHER and that of this tree.
# The command, which goes on for a minute at least, is recorded for a minute with --calibrate=1% and 3% by either, in turn, ROUNDS
# times; TRUTH are exact counts that `backfeed verify` reads. For each it prints the block overlap, what backfeed says that it took,
# and what it, all its processes and the command used, reading samples included, by wait4. Needs root and Linux 6.6.
# Where other work wants the processors too, the command gets one to itself by PRIORITY, a nice value of its and of its autogroup
# (-15); the latter says nothing where /proc/sys/kernel/sched_autogroup_enabled is 0, the former hardly any where it is 1.
set -euo pipefail
other=${1?other} truth=${2?truth} rounds=${3?rounds} && shift 3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
here=$(cd "$(dirname "$0")" && pwd)
. "$here/told.sh"
(cd "$here/../.." && go build -o "$dir/backfeed" ./cmd/backfeed && go build -o "$dir/usage" ./testdata/calibrate/usage)
favoured=(setsid -w bash -c '[ -z "$0" ] || { echo "$0" >/proc/self/autogroup; renice -n "$0" -p $$ >/dev/null; }; exec "$@"' "${PRIORITY:-}")

for ((i = 1; i <= rounds; i++)); do
	for share in 1% 3%; do
		for by in "$other" "$dir/backfeed"; do
			"${favoured[@]}" "$dir/usage" "$dir/all" "$by" record -d 60s --calibrate="$share" -o "$dir/out.bfr" -- "$@" >/dev/null 2>"$dir/log"
			"$dir/backfeed" infer "$dir/out.bfr" --format json -o "$dir/out.json" 2>>"$dir/log"
			overlap=$("$dir/backfeed" verify "$dir/out.json" --truth "$truth" --format json | jq '.block_overlap * 1000 | round / 1000')
			[ "$by" = "$other" ] && name=other || name=this
			echo "$i $share $name: $overlap; $(told "$dir/log"); all $(cat "$dir/all") s"
		done
	done
done
