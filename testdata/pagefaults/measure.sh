#!/bin/bash
# measure.sh DIR [SECONDS]: how near what is inferred of programs that run for a moment, again and again, is to the exact counts of one run, where the
# recording tells of page faults and where it does not (record --event cpu-clock); with SECONDS, which run that long, calibrated at 3 % too. It needs a
# machine whose page faults take 3 us or more, and valgrind, jq, gawk, perl, git and python3. Files are left in DIR. The figures are in infer/EXPERIMENTS.md.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
seconds=${2:-}
mkdir -p "$1"
cd "$1"
backfeed=${BACKFEED:-backfeed}
# callgrind knows no AVX-512: libc is to choose the same routines in all runs.
export GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512CD,-AVX512DQ PERL_HASH_SEED=0 PYTHONHASHSEED=0 LC_ALL=C.UTF-8
seq 60000 | awk '{ print "k" $1 % 977, $1 * 7919 % 10007, "the quick brown fox" }' >text

# scored NAME FLAGS -- COMMAND...: records it, and prints the overlap of blocks and of edges.
scored() {
	local out=$1 flags=()
	shift
	while [ "$1" != -- ]; do
		flags+=("$1") && shift
	done
	shift
	"$backfeed" record "${flags[@]}" -d "${seconds:-4}s" -o "$out.bfr" -- sh -c 'while :; do "$@" >/dev/null; done' x "$@" 2>"$out.log" || true
	BACKFEED_CACHE=off "$backfeed" infer "$out.bfr" --format json -o "$out.json" 2>>"$out.log"
	"$backfeed" verify "$out.json" --truth "$out.callgrind" --format json 2>>"$out.log" |
		jq -r '[.block_overlap, .edge_overlap] | map(. * 1000 | round / 1000 | tostring) | join(" ")'
}

# measure NAME COMMAND...
measure() {
	local name=$1
	shift
	valgrind -q --tool=callgrind --dump-instr=yes --collect-jumps=yes --dump-line=no --callgrind-out-file="$name.callgrind" "$@" >/dev/null 2>&1
	for kind in without with; do
		cp "$name.callgrind" "$name-$kind.callgrind"
		flags=(-F 9973)
		[ $kind = with ] || flags+=(--event cpu-clock)
		echo "$name $kind: $(scored "$name-$kind" "${flags[@]}" -- "$@")"
	done
	if [ -n "$seconds" ]; then
		cp "$name.callgrind" "$name-calibrated.callgrind"
		echo "$name calibrated: $(scored "$name-calibrated" --calibrate=3% -- "$@")"
	fi
}
measure git git -C "$here" log --oneline -50
measure gawk gawk '{ n[$1]++ } END { for (i in n) print i, n[i] }' text
measure perl perl -e 'my %h; $h{$_ % 97} += $_ for 1..5000; print join ",", sort values %h'
measure python /usr/bin/python3 -c 'import json, re'
measure bash bash -c 'for i in 1 2 3 4 5 6 7 8 9; do x="$x$i"; done; echo ${x/3/z}'
measure jq jq -n '[range(300)] | add'
measure xz xz -1 -k -c text
