#!/bin/bash
# paths.sh sqlite|zstd|jsonnet|tcc [DIR [SHARE]]: what other tools make of the paths of walks,
# which backfeed export writes as branch records of perf, beside backfeed's own profiles of
# the same recording: of a minute with --calibrate=SHARE (1%). All work is done in DIR, which is
# kept. Needs what measure.sh needs, root and Linux 6.1.
set -euo pipefail
program=${1?program} dir=${2:-} share=${3:-1%}
testdata=$(cd "$(dirname "$0")/.." && pwd)
. "$testdata/consumers/programs.sh"
. "$testdata/consumers/counts.sh"

bolt() { # bolt NAME PROFILE
	$llvm/llvm-bolt relocatable -data "$2" -o "$1" -reorder-blocks=ext-tsp -reorder-functions=cdsort -split-functions \
		>"$1.bolt" 2>&1 || { cat "$1.bolt" >&2; return 1; }
}

clang base -g -Wl,--emit-relocs
minute walked base --calibrate="$share"
$llvm/llvm-objcopy -g base relocatable

./backfeed emit bolt walked.bfr --image "$dir/base" -o own.fdata
bolt bolt-own own.fdata
for depth in 32 64; do
	./backfeed export walked.bfr --depth "$depth" -o "walked$depth.data"
	$llvm/perf2bolt base -p "walked$depth.data" -o "walked$depth.fdata" >"perf2bolt$depth.log" 2>&1
	bolt "bolt-walked$depth" "walked$depth.fdata"
done

./backfeed emit llvm walked.bfr --image "$dir/base" -o own.prof
clang own -fprofile-sample-use=own.prof -g
./backfeed export walked.bfr --image "$dir/base" --format perf-script -o walked.script
$llvm/llvm-profgen --binary=base --perfscript=walked.script --output=walked.prof
clang walked -fprofile-sample-use=walked.prof -g
./backfeed export walked.bfr --image "$dir/base" --format perf-script --call-chains -o chains.script
$llvm/llvm-profgen --binary=base --perfscript=chains.script --output=chains.prof
clang chains -fprofile-sample-use=chains.prof -g

for name in base bolt-own bolt-walked32 bolt-walked64 own walked chains; do count "$name" >"$name.count"; done
header
for name in base bolt-own bolt-walked32 bolt-walked64 own walked chains; do row "$name" base own; done
