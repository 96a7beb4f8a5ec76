#!/bin/bash
# latency.sh SHARE PAIRS [RATE [SECONDS]]: how much longer a Go service takes to answer with --calibrate=SHARE than while it is sampled
# alone. PAIRS times it is sampled in both ways, one after the other and each first in turn, while RATE requests a second (200) are
# sent; quantiles, in ms, are of the SECONDS (20) after the first six, in which what is done once is done. What else the machine does
# changes from minute to minute, and within a pair by less; so it is the ratio of each quantile within pairs that counts: the last
# lines are its geometric mean, with a 95 % interval by Student's t of the logarithms. If that holds 1, nothing is shown to be added; if
# its end is high, the machine was too busy to tell. BETWEEN is a command that each recording is run by, such as "flock FILE".
# Needs root and Linux 6.6.
set -euo pipefail
share=${1?share} pairs=${2?pairs} rate=${3:-200} seconds=${4:-20}
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$dir"' EXIT
cd "$(dirname "$0")"
. ./told.sh
(cd ../.. && go build -o "$dir/backfeed" ./cmd/backfeed)
go build -o "$dir/service" service.go
"$dir/service" 127.0.0.1:0 >"$dir/address" &
service=$!
until [ -s "$dir/address" ]; do sleep 0.1; done
address=$(cat "$dir/address")
"$dir/service" load "$address" "$rate" 5s >/dev/null

# period NAME FLAG... samples the service, and prints how long it took to answer.
cat >"$dir/period" <<'END'
dir=$1 service=$2 address=$3 rate=$4 seconds=$5
shift 5
"$dir/backfeed" record -F 997 "$@" -p "$service" -d "$((seconds + 8))s" -o "$dir/out.bfr" 2>"$dir/log" &
"$dir/service" load "$address" "$rate" 6s >/dev/null
"$dir/service" load "$address" "$rate" "${seconds}s"
wait $!
END
period() {
	local name=$1 line
	shift
	line=$(${BETWEEN:-} bash "$dir/period" "$dir" $service "$address" "$rate" "$seconds" "$@")
	echo "$name: $line; load $(cut -d' ' -f1 /proc/loadavg)$([ $# -eq 0 ] || echo "; $(told "$dir/log")")"
	echo "$i $name $line" >>"$dir/periods"
}
for ((i = 0; i < pairs; i++)); do
	for k in 0 1; do
		if (((i + k) % 2)); then period calibrated --calibrate="$share"; else period alone; fi
	done
done
gawk '
	{ for (k = 5; k < NF; k += 2) ms[$1, $2, $k] = $(k + 1); for (k = 5; k < NF; k += 2) names[k] = $k; last = NF; n = $1 + 1 }
	# student is the two-sided 95 % quantile of Student t with f degrees of freedom.
	function student(f,  t) { split("12.71 4.30 3.18 2.78 2.57 2.45 2.36 2.31 2.26 2.23", t, " "); return f in t ? t[f] : 1.96 + 2.5 / f }
	END {
		for (k = 5; k < last; k += 2) {
			q = names[k]; m = s = 0
			for (i = 0; i < n; i++) m += (x[i] = log(ms[i, "calibrated", q] / ms[i, "alone", q])) / n
			for (i = 0; i < n; i++) s += (x[i] - m) ^ 2
			e = n > 1 ? student(n - 1) * sqrt(s / (n - 1) / n) : 99
			printf "%s: %.2f times, %.2f to %.2f\n", q, exp(m), exp(m - e), exp(m + e)
		}
	}' "$dir/periods"
