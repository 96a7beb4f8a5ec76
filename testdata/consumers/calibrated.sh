#!/bin/bash
# calibrated.sh sqlite|zstd|jsonnet|tcc [DIR [SHARE]]: what exact counts in a recording
# bring. clang builds the program by the profile of a minute of samples, of the same with
# --calibrate=SHARE (1%), and of samples beside callgrind's counts of a whole run; the
# share is that of what an instrumented build takes off the taken branches. All work is
# done in DIR, which is kept. Needs what measure.sh needs, libclang-rt-19-dev, root and
# Linux 6.6.
set -euo pipefail
program=${1?program} dir=${2:-} share=${3:-1%}
testdata=$(cd "$(dirname "$0")/.." && pwd)
. "$testdata/consumers/programs.sh"
. "$testdata/consumers/counts.sh"

clang base -g
minute plain base
minute calibrated base --calibrate="$share"
truth
./backfeed merge plain.bfr base.truth/* -o counted.bfr
for name in plain calibrated counted; do
	./backfeed emit llvm "$name.bfr" --image "$dir/base" -o "$name.prof"
	clang "$name" -fprofile-sample-use="$name.prof" -g
done
clang generate -fprofile-instr-generate
LLVM_PROFILE_FILE=$dir/raw/%p bash run.sh trained "$dir/generate" >/dev/null
llvm-profdata-19 merge raw -o exact.profdata
clang exact -g -fprofile-instr-use=exact.profdata

for name in base plain calibrated counted exact; do count "$name" >"$name.count"; done
header
for name in base plain calibrated counted exact; do row "$name" base exact; done
