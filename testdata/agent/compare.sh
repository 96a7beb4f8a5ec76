#!/bin/bash
# compare.sh BACKFEED [SECONDS [ROUNDS]]: whether `backfeed record -a` and `perf record
# -a` see the same. SQLite works all the time; both record it in turn, ROUNDS times
# each, at 997 Hz. Prints the overlap of each pair of recordings, by instruction and
# by procedure: pairs of perf and backfeed should reach what pairs of perf reach.
# Needs root, perf and gcc.
set -euo pipefail
backfeed=$(realpath "$1") seconds=${2:-20} rounds=${3:-3}
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
work=
trap '[ -z "$work" ] || kill "$work"; rm -rf "$dir"' EXIT
cd "$dir"
printf 'module none\n' >go.mod
amalgamation=$(go mod download -json github.com/mattn/go-sqlite3@v1.14.52 | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
cp "$amalgamation/sqlite3-binding.c" sqlite3.c
cp "$amalgamation/sqlite3-binding.h" sqlite3.h
gcc -O2 -Wl,--build-id -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -I. "$here/../sqlite/sqlbench.c" sqlite3.c -o sqlbench -lm

cpu=$(($(nproc) - 1))
nice -n -15 taskset -c $cpu bash -c 'trap "kill \$!" EXIT; while :; do ./sqlbench 20000 & wait $!; done' &
work=$!
for r in $(seq "$rounds"); do
	perf record -q -a -B -N -e cpu-clock:u -F 997 -o perf.data -- sleep "$seconds" >/dev/null 2>&1
	"$backfeed" import perf.data -o "perf$r.bfr" >/dev/null
	"$backfeed" record -a -F 997 -d "${seconds}s" -o "backfeed$r.bfr" >/dev/null
done
cd "$here/../.."
go run testdata/agent/overlap.go -image sqlbench "$dir"/perf?.bfr "$dir"/backfeed?.bfr
