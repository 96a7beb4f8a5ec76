#!/bin/bash
# many.sh BACKFEED [SLEEPING [PER_SECOND [SECONDS]]]: `record -a` of a machine with so many processes that sleep, two that are busy,
# and so many a second that begin and end. Prints what the recorder says, its processor time, its greatest memory.
# Needs root, gcc and GNU time. The number of samples is to be near the rate times the seconds times the processors: what is
# lacking beyond what the recorder says it lost was lost silently.
set -euo pipefail
backfeed=$(realpath "$1") sleeping=${2:-10000} rate=${3:-1000} seconds=${4:-30}
dir=$(mktemp -d)
here=$(dirname "$(realpath "$0")")
gcc -O2 -o "$dir/many" "$here/many.c"
setsid bash -c 'echo -10 >/proc/self/autogroup; exec "$@"' many "$dir/many" "$sleeping" "$rate" "$((seconds + 10))" >"$dir/ran" &
many=$! busy=()
trap 'kill -- -$many "${busy[@]}" 2>/dev/null || true; rm -rf "$dir"' EXIT
until grep -q sleeping "$dir/ran"; do sleep 0.1; done
for _ in 1 2; do
	sh -c 'while :; do :; done' &
	busy+=($!)
done
echo "$(ps -e | wc -l) processes"
/usr/bin/time -f '%e s, %U s user and %S s system, %M kB at most' "$backfeed" record -a -F 199 -d "${seconds}s" -o "$dir/many.bfr"
kill "${busy[@]}"
wait $many || true
cat "$dir/ran"
