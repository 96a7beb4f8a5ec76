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

clang() { build "$1" "$clang" -Qunused-arguments -fuse-ld=lld -fdebug-info-for-profiling "${@:2}"; }

# count prints instructions and taken branches of one program's own code.
# valgrind 3.19 reads neither DWARF 5 nor the debug info of relocatable links, puts
# what llvm-bolt moved out of .text down to object ???, and takes a jump between
# the hot and the cold part of a function for a call.
count() {
	$llvm/llvm-objcopy -g "$1" "$1.counted"
	valgrind -q --tool=callgrind --demangle=no --dump-instr=yes --dump-line=no --collect-jumps=yes --compress-strings=no --compress-pos=no \
		--callgrind-out-file="$1.callgrind" "./$1.counted" "${counted[@]}" >/dev/null 2>"$1.log" || { cat "$1.log" >&2; return 1; }
	awk -v name="/$1.counted" '
		function symbol(f) { sub(/\x27[0-9]+$/, "", f); return f } # without the level of recursion
		function whole(f)  { sub(/\.(cold|__part).*/, "", f); return f }
		/^ob=/        { own = $0 ~ name "$" || $0 == "ob=???" }
		/^fn=/        { fn = symbol(substr($0, 4)) }
		/^cfn=/       { callee = symbol(substr($0, 5)) }
		/^jcnd=/      { split(substr($1, 6), n, "/"); if (own) taken += n[1]; skip = 1; next }
		/^jump=/      { if (own) taken += substr($1, 6); skip = 1; next }
		/^calls=/     { if (own && fn != callee && whole(fn) == whole(callee)) taken += substr($1, 7); skip = 1; next }
		/^0x/ && skip { skip = 0; next }
		/^0x/         { if (own) instructions += $2 }
		END           { printf "%d %d\n", instructions, taken }' "$1.callgrind"
}

# row NAME BASE EXACT prints a line of the table: changes against BASE, and the share
# of EXACT's reduction of taken branches.
row() {
	local i t i0 t0 t1
	read -r i t <"$1.count" && read -r i0 t0 <"$2.count" && read -r _ t1 <"$3.count"
	awk -v n="$1" -v i="$i" -v t="$t" -v i0="$i0" -v t0="$t0" -v t1="$t1" \
		'BEGIN { printf "%-12s %14d %14d %+8.1f%% %+8.1f%% %8.1f%%\n", n, i, t, 100 * (i / i0 - 1), 100 * (t / t0 - 1), 100 * (t0 - t) / (t0 - t1) }'
}

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
build gcc-exact "$gcc" -fprofile-generate
./gcc-exact "${sampled[@]}" >/dev/null
build gcc-exact "$gcc" -fprofile-use # the counts lie beside the objects

for name in base sample bolt bolt-nl bolt-exact propeller exact gcc gcc-afdo gcc-exact; do count "$name" >"$name.count"; done
printf '%-12s %14s %14s %9s %9s %9s\n' build instructions taken instr. taken share
for name in base sample bolt bolt-nl bolt-exact propeller exact; do row "$name" base exact; done
for name in gcc gcc-afdo gcc-exact; do row "$name" gcc gcc-exact; done
