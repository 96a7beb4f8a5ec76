#!/bin/bash
# paths.sh sqlite|zstd|jsonnet|tcc [DIR [SHARE]]: what other tools make of the paths of walks,
# which backfeed export writes as branch records of perf, beside backfeed's own profiles of
# the same recording: of a minute with --calibrate=SHARE (1%). All work is done in DIR, which is
# kept. Needs what measure.sh needs, root and Linux 6.1. create_llvm_prof of google/autofdo is measured if it is
# found: by CREATE_LLVM_PROF or in PATH; it is in no package of Debian.
set -euo pipefail
program=${1?program} dir=${2:-} share=${3:-1%}
testdata=$(cd "$(dirname "$0")/.." && pwd)
. "$testdata/consumers/programs.sh"
. "$testdata/consumers/counts.sh"

bolt() { # bolt NAME PROFILE
	$llvm/llvm-bolt relocatable -data "$2" -o "$1" -reorder-blocks=ext-tsp -reorder-functions=cdsort -split-functions \
		>"$1.bolt" 2>&1 || { cat "$1.bolt" >&2; return 1; }
}

clang base -g -Wl,--emit-relocs "${maps[@]}"
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

builds=(base bolt-own bolt-walked32 bolt-walked64 own walked chains)

if create=$(command -v "${CREATE_LLVM_PROF:-create_llvm_prof}"); then
	./backfeed export walked.bfr --image "$dir/base" -o autofdo.data
	"$create" --binary=base --profile=autofdo.data --format=extbinary --out=autofdo.prof 2>autofdo.log
	$llvm/llvm-profdata overlap --sample autofdo.prof own.prof | tee autofdo.overlap
	$llvm/llvm-profdata overlap --sample autofdo.prof walked.prof >>autofdo.overlap
	clang autofdo -fprofile-sample-use=autofdo.prof -g
	relinked() { # relinked NAME CLUSTERS ORDER
		clang "$1" -g "${maps[@]}" "${clusters[@]}$dir/$2" "-Wl,--symbol-ordering-file=$dir/$3" -Wl,--no-warn-symbol-ordering
	}
	./backfeed emit propeller walked.bfr --image "$dir/base" -o own.clusters --ld own.order
	relinked propeller-own own.clusters own.order
	"$create" --binary=base --profile=autofdo.data --format=propeller --out=autofdo.clusters --propeller_symorder=autofdo.order 2>propeller.log
	relinked propeller-autofdo autofdo.clusters autofdo.order
	builds+=(autofdo propeller-own propeller-autofdo)
fi

for name in "${builds[@]}"; do count "$name" >"$name.count"; done
header
for name in "${builds[@]}"; do row "$name" base own; done
