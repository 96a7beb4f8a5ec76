#!/bin/bash
# effect.sh PROGRAM [DIR] measures on AArch64 what profiles of drawn samples gain: PROGRAM,
# sqlite or zstd, is built by clang for AArch64, counted exactly under QEMU, and SAMPLES
# (20000) samples of instructions are drawn from the counts. Of what our profiles make of it
# the script prints the instructions and the jumps taken, in the program itself, of the same
# run; for "exact" the commands were given all counts, too. Needs what .ci/run installs, and a network.
set -euo pipefail
program=$1 dir=${2:-} samples=${SAMPLES:-20000}
here=$(cd "$(dirname "$0")" && pwd)
testdata=$(dirname "$here")
. "$testdata/consumers/programs.sh"
case $program in
sqlite) args=(3000) ;;
zstd) head -c 400000 input >short && args=(short 3 2) ;;
*) echo "effect.sh knows sqlite and zstd" >&2; exit 2 ;;
esac
gcc -O2 -shared -fPIC -o count.so "$here/plugin/count.c"
(cd "$testdata/.." && go build -o "$dir/draw" ./testdata/qemu/draw)
build() { # OUT FLAGS
	clang-19 --target=aarch64-linux-gnu -fuse-ld=lld -O2 -g -fdebug-info-for-profiling -Wno-everything \
		-Wl,--emit-relocs,--build-id "${flags[@]}" -o "$@" src/*.c -lm
}
count() { # PROGRAM
	qemu-aarch64 -L /usr/aarch64-linux-gnu -plugin "./count.so,out=$1.json" "$PWD/$1" "${args[@]}" >"$1.out"
	cmp "$1.out" base.out
	python3 - "$1" "$PWD/$1.json" <<'PY'
import json, sys
it = next(v for k, v in json.load(open(sys.argv[2])).items() if k.endswith("/" + sys.argv[1]))
print(f"{sys.argv[1]:<16}{sum(it['insn'].values()):>14} instructions {sum(n for _, _, n in it['jump']):>12} jumps taken")
PY
}
build base
count base
./draw -n "$samples" -o drawn.bfr base.json
for from in drawn exact; do
	source=(drawn.bfr)
	[ "$from" = drawn ] || source+=(base.json)
	./backfeed emit llvm "${source[@]}" --image "$PWD/base" -o $from.prof
	build $from.llvm -fprofile-sample-use=$from.prof
	count $from.llvm
	./backfeed emit bolt "${source[@]}" --image "$PWD/base" -o $from.fdata
	$llvm/llvm-bolt base -o $from.bolt -data=$from.fdata -reorder-blocks=ext-tsp -reorder-functions=cdsort -split-functions >bolt.log
	count $from.bolt
done
