#!/bin/bash
# measure.sh [goldmark|lua|gojq|yaml|deflate [TIMES [COUNTED]]]: what the Go compiler
# decides with backfeed's profile of a program that is not ours, and with
# runtime/pprof's profile of the same run: goldmark rendering its own README, gopher-lua
# and gojq running scripts, yaml.v3 and klauspost/compress at files of backfeed. callgrind
# counts the instructions of COUNTED rounds, without collections of garbage, whose number
# is a matter of time. Needs Go, its module proxy and valgrind.
set -euo pipefail
program=${1:-goldmark}
here=$(cd "$(dirname "$0")" && pwd)
case $program in
goldmark) module=github.com/yuin/goldmark@v1.8.7 input=README.md times=12000 counted=60 ;;
lua) module=github.com/yuin/gopher-lua@v1.1.1 input=$here/../lua/script.lua times=9000 counted=60 ;;
gojq) module=github.com/itchyny/gojq@v0.12.17 input=$here/../gojq/script.jq times=8000 counted=20 ;;
yaml) module=gopkg.in/yaml.v3@v3.0.1 input=$here/../../infer/machine/models/amd-zen4.yaml times=4500 counted=10 ;;
deflate) module=github.com/klauspost/compress@v1.20.3 input=topics times=14000 counted=30 ;;
*) echo "measure.sh: no program $program" >&2 && exit 2 ;;
esac
times=${2:-$times}
counted=${3:-$counted}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
(cd "$here/../.." && go build -o "$dir/backfeed" ./cmd/backfeed)
cd "$dir"
cp "$here/../$program/main.go" .
go mod init "$program" >/dev/null 2>&1
go get "$module" >/dev/null 2>&1
case $input in
topics)
	cat "$here"/../../cmd/backfeed/help/*.md >topics.md
	input=$dir/topics.md
	;;
/*) ;;
*) input=$(go list -m -f '{{.Dir}}' "${module%@*}")/$input ;;
esac

# build NAME PROFILE: the decisions go to NAME.log. Valgrind's tag lets the runtime
# tell valgrind of its stacks.
build() {
	go build -tags valgrind -pgo="$2" -gcflags=all='-m=2 -d=pgodebug=1' -o "$1" . 2>"$1.log"
	[ "$2" = off ] && touch off.log
	printf '%-14s %7d calls inlined, %4d devirtualised by the profile, ' "$1" \
		"$(grep -c ': inlining call to' "$1.log")" "$(grep -c 'PGO devirtualizing' "$1.log" || true)"
	comm -13 <(inlined off) <(inlined "$1") >"$1.new"
	printf '%4d inlined that were not without it' "$(wc -l <"$1.new")"
	GOMAXPROCS=1 GOGC=off GODEBUG=asyncpreemptoff=1 valgrind -q --tool=callgrind --callgrind-out-file="$1.callgrind" "./$1" "$input" "$counted" >/dev/null 2>&1
	printf ', %s instructions\n' "$(sed -n 's/^\(summary\|totals\): //p' "$1.callgrind" | head -n 1)"
}
inlined() { grep -o '^[^ ]*: inlining call to .*' "$1.log" | sort -u; }

build off off
./backfeed record -F 999 -o run.bfr -- ./off "$input" "$times" runtime.pprof >/dev/null
./backfeed emit go run.bfr -o ours.pprof
build runtime runtime.pprof
build ours ours.pprof
./backfeed emit go runtime.pprof -o same.pprof
build same-samples same.pprof
echo "in ours and not with runtime/pprof: $(comm -23 ours.new runtime.new | wc -l); the other way: $(comm -13 ours.new runtime.new | wc -l)"
echo "hottest of ours:"
grep -h 'PGO devirtualizing' ours.log | sed 's/^/  /' | head -n 8
