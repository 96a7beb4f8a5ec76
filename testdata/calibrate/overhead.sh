#!/bin/bash
# overhead.sh ROUNDS COMMAND [ARG...]: what recording and calibrating take of processors, from outside. The command, which does
# the same each time, is run ROUNDS times in each of four ways, in turn: alone, sampled, and with --calibrate=1% and 3%. What it
# used, and what backfeed and all its processes used, is what wait4 says. For each way, it prints the mean over the rounds, with its
# standard error, of: the program's time over that alone, less 1; that of backfeed over the program's alone; and the sum of both over
# that of sampling. The last is what calibration takes in all, to be held against the share that was asked for. Needs root and Linux 6.6.
# RECORD are more flags of record, such as "-d 60s", which tells it how much time there is.
set -euo pipefail
rounds=${1?rounds} && shift
ways=(alone sampled 1% 3%)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
here=$(cd "$(dirname "$0")" && pwd)
. "$here/told.sh"
(cd "$here/../.." && go build -o "$dir/backfeed" ./cmd/backfeed && go build -o "$dir/usage" ./testdata/calibrate/usage)

for ((i = 0; i < rounds; i++)); do
	for ((k = 0; k < ${#ways[@]}; k++)); do
		way=${ways[(i + k) % ${#ways[@]}]}
		run=("$dir/usage" "$dir/program" "$@") flags=()
		case $way in
		alone) ;;
		*%) flags=(--calibrate="$way") ;&
		*) run=("$dir/usage" "$dir/all" "$dir/backfeed" record -F 997 ${RECORD:-} "${flags[@]}" -o "$dir/out.bfr" -- "${run[@]}") ;;
		esac
		"${run[@]}" >/dev/null 2>"$dir/log" || { cat "$dir/log" >&2 && exit 1; }
		[ "$way" != alone ] || cp "$dir/program" "$dir/all"
		echo "$i $way $(cat "$dir/program") $(cat "$dir/all")" >>"$dir/runs"
		echo "$way: program $(cat "$dir/program") s, with backfeed $(cat "$dir/all") s; $(told "$dir/log")"
	done
done
gawk -v ways="${ways[*]}" '
	{ program[$1, $2] = $3; all[$1, $2] = $4; n = $1 + 1 }
	# percent returns the mean of x, with its standard error.
	function percent(x,  i, m, s) {
		for (i = 0; i < n; i++) m += x[i] / n
		for (i = 0; i < n; i++) s += (x[i] - m) ^ 2
		return sprintf("%.2f %% +-%.2f", 100 * m, n > 1 ? 100 * sqrt(s / (n - 1) / n) : 0)
	}
	END {
		for (k = 2; k <= split(ways, way, " "); k++) {
			w = way[k]
			for (i = 0; i < n; i++) {
				base = program[i, "alone"]
				slower[i] = program[i, w] / base - 1
				own[i] = (all[i, w] - program[i, w]) / base
				more[i] = (all[i, w] - all[i, "sampled"]) / base
			}
			printf "%s: program %s, backfeed %s, beside sampling %s\n", w, percent(slower), percent(own), percent(more)
		}
	}' "$dir/runs"
