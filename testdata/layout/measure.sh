#!/bin/bash
# measure.sh sqlite|zstd|jsonnet|tcc|xz|lua|mujs [DIR [ORDER...]]: what linkers make of backfeed's
# order of a program's functions (ours), against the link without one, orders drawn at random
# (random1, random2, random3), and lld's own sorts by the exact call graph of the very run that is
# counted (hfsort, cdsort). All links of a compiler are of the same objects; those of ORDERs alone are
# counted where some are named. All work is done in DIR, which is kept. Where layout finds that the link without an
# order is as good, ours is that.
#
# callgrind counts what is missed in an instruction cache of 32 KB, 8 ways, lines of
# 64 bytes, and hot.go the lines and pages that hold 99 % of the instructions, and the pages that hold any. Needs
# gcc-12, clang-19, lld-19, llvm-19, perf and valgrind.
set -euo pipefail
program=${1?program} dir=${2:-}
orders=("${@:3}")
[ $# -gt 2 ] || orders=(ours hfsort cdsort random1 random2 random3)
testdata=$(cd "$(dirname "$0")/.." && pwd)
. "$testdata/consumers/programs.sh"
(cd "$testdata/layout" && go build -o "$dir/hot" hot.go)

# link NAME OBJECTS FLAG... links objects that build has compiled.
link() {
	local name=$1 objects=$2 compiler=$clang
	shift 2
	"$compiler" -O2 "$objects.o"/*.o -o "$name" -fuse-ld=lld -Wl,--build-id "$@" -lm
}

# count runs a program under callgrind, in NAME.callgrind.
count() {
	$llvm/llvm-objcopy -g "$1" "$1.counted"
	nice bash run.sh counted valgrind -q --tool=callgrind --cache-sim=yes --I1=32768,8,64 --demangle=no --dump-instr=yes --dump-line=no \
		--compress-strings=no --compress-pos=no --callgrind-out-file="$1.callgrind" "$dir/$1.counted" \
		>/dev/null 2>"$1.log" || { cat "$1.log" >&2; return 1; }
}

# calls prints the calls within a counted program, as lld's --call-graph-ordering-file
# takes them.
calls() {
	awk -v name="/$1.counted" '
		function symbol(f) { sub(/\x27[0-9]+$/, "", f); return f } # without the level of recursion
		/^ob=/    { own = $0 ~ name "$" }
		/^fn=/    { fn = symbol(substr($0, 4)) }
		/^cob=/   { other = 1 }
		/^cfn=/   { callee = symbol(substr($0, 5)) }
		/^calls=/ { if (own && !other && fn != callee && (fn callee) !~ /0x/) n[fn " " callee] += substr($1, 7); other = 0 }
		END       { for (c in n) print c, n[c] }' "$1.callgrind" | sort
}

# row prints a line of the table: misses and their change against the link without
# an order, hot lines and pages, and all pages with code that ran.
row() {
	local miss='/^events:/ { for (i = 2; i <= NF; i++) if ($i == "I1mr") at = i } /^totals:/ { print $at }'
	awk -v n="$1" -v m="$(awk "$miss" "$1.callgrind")" -v m0="$(awk "$miss" "$2.callgrind")" -v hot="$(./hot "$1.callgrind" "$1.counted")" \
		'BEGIN { split(hot, h); printf "%-18s %12d %+8.1f%% %10d %10d %10d\n", n, m, 100 * (m / m0 - 1), h[1], h[2], h[3] }'
}

# measure OBJECTS links them in all orders and counts.
measure() {
	local none=-Wl,--call-graph-profile-sort=none name sort seed
	link "$1" "$1" "$none"
	record "$1"
	count "$1"
	: >"$1.order"
	./backfeed layout "$dir/$1" "$1.data" --for lld -o "$1.order" || [ $? -eq 3 ]
	link "$1-ours" "$1" -Wl,--symbol-ordering-file="$1.order" "$none"
	calls "$1" >"$1.calls"
	for sort in hfsort cdsort; do
		link "$1-$sort" "$1" -Wl,--call-graph-ordering-file="$1.calls" -Wl,--call-graph-profile-sort="$sort"
	done
	for seed in 1 2 3; do
		$llvm/llvm-nm --defined-only "$1" | awk -v seed="$seed" 'BEGIN { srand(seed) } $2 ~ /[tT]/ { print rand(), $3 }' |
			sort | awk '{ print $2 }' >"$1.random$seed"
		link "$1-random$seed" "$1" -Wl,--symbol-ordering-file="$1.random$seed" -Wl,--no-warn-symbol-ordering
	done
	for name in "${orders[@]}"; do count "$1-$name"; done
	for name in "" "${orders[@]/#/-}"; do row "$1$name" "$1" >>rows; done
}

rm -f rows
build clang "$clang" -g -fuse-ld=lld -Qunused-arguments
build gcc "$gcc" -g
measure clang
measure gcc
printf '%-18s %12s %9s %10s %10s %10s\n' link I1-misses change hot-lines hot-pages pages
cat rows
