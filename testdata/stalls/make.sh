#!/bin/bash
# make.sh: builds stalls and records each kind of stall for about two seconds into
# KIND.bfr. Needs gcc-12 and perf; the recordings are of the machine that it runs on.
# What models of predictor and caches make of walks in each is in replayed/KIND.bfr:
#   go test ./cmd/backfeed -run TestReplay -replayed "$PWD/testdata/stalls/replayed"
set -euo pipefail
cd "$(dirname "$0")"
gcc-12 -O2 -fno-tree-vectorize -fno-unroll-loops -Wl,--build-id -o stalls stalls.c
while read -r kind n; do
	perf record -q -B -N -e cpu-clock:u -c 100000 -o "$kind.data" -- ./stalls "$kind" "$n" >/dev/null
	go run ../../cmd/backfeed merge "$kind.data" -o "$kind.bfr"
	rm "$kind.data"
done <<-END
	chase 12
	pages 30
	branch 300
	divide 240
	multiply 1500
	forward 200
	alias 3000
	code 200
	stores 200
	atomic 500
	touch 3
END
