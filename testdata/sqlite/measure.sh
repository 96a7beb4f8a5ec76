#!/bin/bash
# measure.sh [ROWS [RUNS]]: what backfeed's profiles of SQLite are worth. SQLite's
# amalgamation (out of the Go module github.com/mattn/go-sqlite3) and sqlbench.c are
# built by clang-19, recorded in RUNS runs of ROWS rows, built again with the
# profile, with an exact one of an instrumented build, and rewritten by llvm-bolt;
# callgrind counts instructions and taken branches of the program's own code, at
# a fifth of the rows. Needs clang-19, lld-19, llvm-19, bolt-19 and valgrind.
set -euo pipefail
rows=${1:-100000} runs=${2:-18}
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
(cd "$here/../.." && go build -o "$dir/backfeed" ./cmd/backfeed)
cd "$dir"
printf 'module none\n' >go.mod
amalgamation=$(go mod download -json github.com/mattn/go-sqlite3@v1.14.52 | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
cp "$amalgamation/sqlite3-binding.c" sqlite3.c
cp "$amalgamation/sqlite3-binding.h" sqlite3.h
cp "$here/sqlbench.c" .

# valgrind 3.19 reads no DWARF 5, and no debug info at all of relocatable links.
build() { # build NAME FLAG...
	local name=$1
	shift
	clang-19 -O2 -g -gdwarf-4 -fdebug-info-for-profiling -ffunction-sections -DSQLITE_THREADSAFE=0 \
		-DSQLITE_OMIT_LOAD_EXTENSION "$@" sqlbench.c sqlite3.c -o "$name" -fuse-ld=lld -lm
}

# count prints instructions and taken branches of one program's own code.
count() {
	valgrind -q --tool=callgrind --dump-instr=yes --dump-line=no --collect-jumps=yes --compress-strings=no \
		--compress-pos=no --callgrind-out-file="$1.callgrind" "./$1" $((rows / 5)) >/dev/null 2>"$1.log" || { cat "$1.log"; exit 1; }
	awk -v name="/$1" '
		/^ob=/        { own = $0 ~ name "$" }
		/^jcnd=/      { split(substr($1, 6), n, "/"); if (own) taken += n[1]; skip = 1; next }
		/^jump=/      { if (own) taken += substr($1, 6); skip = 1; next }
		/^calls=/     { skip = 1; next }
		/^0x/ && skip { skip = 0; next }
		/^0x/         { if (own) instructions += $2 }
		END           { printf "%d %d\n", instructions, taken }' "$1.callgrind"
}

build base
build relocatable -g0 -Wl,--emit-relocs
record() {
	local r
	for r in $(seq "$runs"); do ./backfeed record -F 4999 -o "$1.$r.bfr" -- "./$1" "$rows" >/dev/null; done
	./backfeed merge "$1".*.bfr -o "$1.bfr"
}
record base
record relocatable
./backfeed emit llvm base.bfr --image "$dir/base" -o base.prof
build ours -fprofile-sample-use=base.prof
./backfeed emit bolt relocatable.bfr --image "$dir/relocatable" -o bolt.fdata
/usr/lib/llvm-19/bin/llvm-bolt relocatable -data bolt.fdata -o bolted -reorder-blocks=ext-tsp -reorder-functions=cdsort \
	-split-functions -dyno-stats >bolt.log 2>&1 || { cat bolt.log; exit 1; }
grep -E 'non-empty execution profile|stale|taken branches' bolt.log || true
build generate -fprofile-instr-generate
LLVM_PROFILE_FILE=raw ./generate "$rows"
llvm-profdata-19 merge raw -o exact.profdata
build exact -fprofile-instr-use=exact.profdata

read -r i0 t0 < <(count base)
read -r _ t1 < <(count exact)
printf '%-22s %14s %14s %10s\n' build instructions 'taken branches' 'share of the instrumented build'"'"'s reduction'
for name in base ours exact bolted; do
	read -r i t < <(count "$name")
	awk -v n="$name" -v i="$i" -v t="$t" -v t0="$t0" -v t1="$t1" \
		'BEGIN { printf "%-22s %14d %14d %9.1f%%\n", n, i, t, 100 * (t0 - t) / (t0 - t1) }'
done
