#!/bin/bash
# soak.sh RUNS [TOGETHER [SECONDS [SHARE [LIMIT]]]]: how much memory `record --calibrate -p` of a service under load takes at
# most. RUNS recordings (200) of SECONDS (60) each are made at SHARE (1%), TOGETHER (4) at a time, each of a service of its own
# that is asked 100 times a second, so that they are load to one another. Each prints the most memory that backfeed and its
# prober had resident, what they used of processors, and what the recording holds; the last lines are the quantiles.
# A line with FAIL, and exit code 1, where a recording failed, cannot be read, or took more than LIMIT megabytes (1024).
# Needs root and Linux 6.6.
set -euo pipefail
runs=${1?runs} together=${2:-4} seconds=${3:-60} share=${4:-1%} limit=${5:-1024}
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
cd "$(dirname "$0")"
. ./told.sh
(cd ../.. && go build -o "$dir/backfeed" ./cmd/backfeed && go build -o "$dir/usage" ./testdata/calibrate/usage)
go build -o "$dir/service" service.go

# lane K makes each TOGETHER-th recording, from the K-th on.
lane() {
	local k=$1 i service address out=$dir/lane$1 load used most
	mkdir "$out"
	for ((i = k; i <= runs; i += together)); do
		"$dir/service" 127.0.0.1:0 >"$out/address" &
		service=$!
		until [ -s "$out/address" ]; do sleep 0.1; done
		address=$(cat "$out/address")
		"$dir/service" load "$address" 100 "$((seconds + 5))s" >/dev/null 2>&1 &
		load=$!
		if "$dir/usage" -memory "$out/used" "$dir/backfeed" record -F 997 --calibrate="$share" -p $service -d "${seconds}s" -o "$out/out.bfr" 2>"$out/log" &&
			"$dir/backfeed" prof "$out/out.bfr" --symfs / --format json >/dev/null 2>"$out/read"; then
			read -r used most <"$out/used"
			echo "run $i: $most MB, $used s; $(told "$out/log")$( ((most <= limit)) || echo '; FAIL: more than' "$limit MB")"
		else
			echo "run $i: FAIL: $(tail -n 2 "$out/log" "$out/read" 2>/dev/null | tr '\n' ' ')"
		fi
		kill $load $service 2>/dev/null || true
		wait $load $service 2>/dev/null || true
		: >"$out/address"
	done
}

for ((k = 1; k <= together; k++)); do lane "$k" & done | tee "$dir/runs"
wait
gawk '
	/FAIL/ { bad++ }
	$3 ~ /^[0-9]+$/ { mb[++n] = $3; s[n] = $5 + 0 }
	END {
		asort(mb); asort(s)
		if (n) for (k = split("0 0.5 0.9 0.99 1", q, " "); k >= 1; k--) {
			i = 1 + int(q[k] * (n - 1) + 0.5)
			printf "%3d %% of the runs at most: %d MB, %.2f s\n", 100 * q[k], mb[i], s[i]
		}
		printf "%d runs, %d failed\n", n, bad
		exit bad > 0
	}' "$dir/runs"
