#!/bin/bash
# measure.sh sqlite|zstd|jsonnet|tcc [DIR]: what consumers make of backfeed's profiles of
# a program, against builds by no profile, by exact ones of the compiler and of
# llvm-bolt, and by the profile that perf2bolt -nl makes of the same samples. All work
# is done in DIR, which is kept.
#
# callgrind counts instructions and taken branches of the program's own code. Needs
# gcc-12, clang-19, lld-19, llvm-19, bolt-19, perf and valgrind.
set -euo pipefail
program=${1?program} dir=${2:-}
testdata=$(cd "$(dirname "$0")/.." && pwd)
. "$testdata/consumers/programs.sh"

. "$testdata/consumers/counts.sh"

bolt() { # bolt NAME PROFILE
	$llvm/llvm-bolt relocatable -data "$2" -o "$1" -reorder-blocks=ext-tsp -reorder-functions=cdsort -split-functions \
		>"$1.bolt" 2>&1 || { cat "$1.bolt" >&2; return 1; }
	echo "$1: $(grep -E 'non-empty execution profile' "$1.bolt")"
}

relocs=(-Wl,--emit-relocs -fbasic-block-address-map)
clang base -g "${relocs[@]}"
record base
$llvm/llvm-objcopy -g base relocatable

./backfeed emit llvm base.data --image "$dir/base" -o base.prof
clang sample -fprofile-sample-use=base.prof -g

./backfeed emit bolt base.data --image "$dir/base" -o base.fdata
bolt bolt base.fdata
$llvm/perf2bolt base -p base.data -nl -o nl.fdata >nl.log 2>&1
bolt bolt-nl nl.fdata
$llvm/llvm-bolt relocatable -instrument -instrumentation-file="$dir/exact.fdata" -o instrumented >instrumented.bolt 2>&1
./instrumented "${sampled[@]}" >/dev/null
bolt bolt-exact exact.fdata

./backfeed emit propeller base.data --image "$dir/base" -o clusters.txt --ld order.txt
clang propeller -g "${relocs[@]}" -fbasic-block-sections=list=clusters.txt \
	-Wl,--symbol-ordering-file=order.txt -Wl,--no-warn-symbol-ordering

clang generate -fprofile-instr-generate
LLVM_PROFILE_FILE=raw ./generate "${sampled[@]}" >/dev/null
llvm-profdata-19 merge raw -o exact.profdata
clang exact -g -fprofile-instr-use=exact.profdata

build gcc "$gcc" -g
record gcc
./backfeed emit gcc gcc.data --image "$dir/gcc" -o gcc.afdo
build gcc-afdo "$gcc" -fauto-profile=gcc.afdo
# The same samples beside callgrind's counts: what gcc makes of right ones.
count gcc >gcc.count
sed "s|^\(c*ob=.*\)/gcc.counted$|\1/gcc|" gcc.callgrind >exact.callgrind
./backfeed merge gcc.data exact.callgrind -o counted.bfr
./backfeed emit gcc counted.bfr --image "$dir/gcc" -o counted.afdo
build gcc-counted "$gcc" -fauto-profile=counted.afdo
build gcc-exact "$gcc" -fprofile-generate
./gcc-exact "${sampled[@]}" >/dev/null
build gcc-exact "$gcc" -fprofile-use # the counts lie beside the objects

for name in base sample bolt bolt-nl bolt-exact propeller exact gcc-afdo gcc-counted gcc-exact; do count "$name" >"$name.count"; done
printf '%-12s %14s %14s %9s %9s %9s\n' build instructions taken instr. taken share
for name in base sample bolt bolt-nl bolt-exact propeller exact; do row "$name" base exact; done
for name in gcc gcc-afdo gcc-counted gcc-exact; do row "$name" gcc gcc-exact; done
