#!/bin/bash
# pages.sh SET PROGRAM: memory and time of infer, report --html and serve on a recorded set, and the size of the report.
# README.md has the figures of gcc's cc1.
set -euo pipefail
set=$(realpath "$1/$2"); cd "$(dirname "$0")/../.."; out=$(mktemp -d); trap 'rm -rf "$out"' EXIT
go build -o "$out/backfeed" ./cmd/backfeed
export BACKFEED_CACHE=off # what is kept would be measured in place of what is inferred
run() { /usr/bin/time -f '%M KB, %e s' "$out/backfeed" "$@" "$set/samples.bfr" --symfs "$set/symfs" 2>&1 >/dev/null | tail -1; }
echo "infer: $(run infer)"
echo "report: $(run report --html "$out/page.html"), $(stat -c %s "$out/page.html") bytes"
"$out/backfeed" serve "$set/samples.bfr" --symfs "$set/symfs" >"$out/address" 2>/dev/null &
server=$!
until [ -s "$out/address" ]; do kill -0 $server; sleep 0.2; done # fails if it ended
curl -s -o /dev/null -w 'page that says what is being read: %{time_total} s\n' "$(cat "$out/address")"
until curl -sf -o /dev/null "$(cat "$out/address")"; do kill -0 $server; sleep 0.2; done # status 503 until all is read
curl -s -o /dev/null -w 'first page: %{time_total} s\n' "$(cat "$out/address")"
echo "serve: $(grep VmHWM /proc/$server/status)"
kill $server
