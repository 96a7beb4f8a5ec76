#!/bin/bash
# measure.sh [TIMES]: what the Go compiler decides with backfeed's profile of
# goldmark rendering its own README, and with runtime/pprof's profile of the same
# run. callgrind counts the instructions of 60 renderings. Needs Go, its module
# proxy and valgrind.
set -euo pipefail
times=${1:-4000}
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
(cd "$here/../.." && go build -o "$dir/backfeed" ./cmd/backfeed)
cd "$dir"
cp "$here/main.go" .
go mod init goldmark >/dev/null 2>&1
go get github.com/yuin/goldmark@v1.8.7 >/dev/null 2>&1
readme=$(go list -m -f '{{.Dir}}' github.com/yuin/goldmark)/README.md

# build NAME PROFILE: the decisions go to NAME.log. Valgrind's tag lets the runtime
# tell valgrind of its stacks.
build() {
	go build -tags valgrind -pgo="$2" -gcflags=all='-m=2 -d=pgodebug=1' -o "$1" . 2>"$1.log"
	[ "$2" = off ] && touch off.log
	printf '%-14s %7d calls inlined, %4d devirtualised by the profile, ' "$1" \
		"$(grep -c ': inlining call to' "$1.log")" "$(grep -c 'PGO devirtualizing' "$1.log" || true)"
	comm -13 <(inlined off) <(inlined "$1") >"$1.new"
	printf '%4d inlined that were not without it' "$(wc -l <"$1.new")"
	GOMAXPROCS=1 GODEBUG=asyncpreemptoff=1 valgrind -q --tool=callgrind --callgrind-out-file="$1.callgrind" "./$1" "$readme" 60 >/dev/null 2>&1
	printf ', %s instructions\n' "$(sed -n 's/^\(summary\|totals\): //p' "$1.callgrind" | head -n 1)"
}
inlined() { grep -o '^[^ ]*: inlining call to .*' "$1.log" | sort -u; }

build off off
./backfeed record -F 999 -o run.bfr -- ./off "$readme" "$times" runtime.pprof >/dev/null
./backfeed emit go run.bfr -o ours.pprof
build runtime runtime.pprof
build ours ours.pprof
./backfeed emit go runtime.pprof -o same.pprof
build same-samples same.pprof
echo "in ours and not with runtime/pprof: $(comm -23 ours.new runtime.new | wc -l); the other way: $(comm -13 ours.new runtime.new | wc -l)"
echo "hottest of ours:"
grep -h 'PGO devirtualizing' ours.log | sed 's/^/  /' | head -n 8
