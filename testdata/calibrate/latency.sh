#!/bin/bash
# latency.sh SHARE TIMES [RATE]: how long a Go service takes to answer, in ms, while it is sampled
# alone and with --calibrate=SHARE, in turn, TIMES times; RATE requests a second (200). The quantiles
# are of the 20 s after the first six. Needs root and Linux 6.6.
set -euo pipefail
share=${1?share} times=${2?times} rate=${3:-200}
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$dir"' EXIT
cd "$(dirname "$0")"
. ./told.sh
(cd ../.. && go build -o "$dir/backfeed" ./cmd/backfeed)
go build -o "$dir/service" service.go
address=127.0.0.1:7411
"$dir/service" $address &
service=$!
sleep 1
"$dir/service" load $address "$rate" 5s >/dev/null
for ((i = 0; i < times; i++)); do
	for flag in "" "--calibrate=$share"; do
		"$dir/backfeed" record -F 997 $flag -p $service -d 28s -o "$dir/out.bfr" 2>"$dir/log" &
		recorder=$!
		"$dir/service" load $address "$rate" 6s >/dev/null
		echo "${flag:-samples alone}: $("$dir/service" load $address "$rate" 20s)"
		wait $recorder
		[ -z "$flag" ] || echo "	told: $(told "$dir/log")"
	done
done
