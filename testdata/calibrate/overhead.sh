#!/bin/bash
# overhead.sh SHARE PAIRS COMMAND [ARG...]: the processor time that --calibrate=SHARE adds, over what
# samples alone take. A minute of runs of the command is recorded with and without it, in turn,
# PAIRS times; the time is what the kernel says of the runs, user and system. Each pair is
# printed, and the mean with its standard error. Needs root and Linux 6.6. Run it where nothing else
# runs.
set -euo pipefail
share=${1?share} pairs=${2?pairs} && shift 2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/told.sh"
(cd "$(dirname "$0")/../.." && go build -o "$dir/backfeed" ./cmd/backfeed)

# The runs tell of themselves: "times" of a shell has their user and system time in its second line.
cat >"$dir/runs" <<'END'
out=$1 n=$2 && shift 2
for ((i = 0; i < n; i++)); do "$@" >/dev/null || exit; done
times >"$out"
END
seconds() { awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); sum += 60 * t[1] + t[2] } } END { print sum }' "$dir/times"; }

from=$(date +%s%N) n=0
until (($(date +%s%N) - from > 5000000000)); do
	"$@" >/dev/null
	n=$((n + 1))
done
n=$((n * 60000000000 / ($(date +%s%N) - from)))
echo "$n runs in each recording"

for ((i = 0; i < pairs; i++)); do
	for what in $((i % 2)) $((1 - i % 2)); do
		flags=()
		((what)) && flags=(--calibrate="$share")
		"$dir/backfeed" record -F 997 "${flags[@]}" -o "$dir/out.bfr" -- bash "$dir/runs" "$dir/times" "$n" "$@" 2>"$dir/log$what"
		took[what]=$(seconds)
	done
	echo "without ${took[0]} s, with ${took[1]} s; told: $(told "$dir/log1")" | tee -a "$dir/pairs"
done
awk '{ x = 100 * ($5 / $2 - 1); n++; sum += x; all += x * x }
	END { m = sum / n; printf "added %.2f %% +-%.2f\n", m, (n > 1) ? sqrt((all / n - m * m) / (n - 1)) : 0 }' "$dir/pairs"
