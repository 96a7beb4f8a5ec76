#!/bin/bash
# rounds.sh go|clang|bolt [ROUNDS]: a profile of a build that was made with a profile, and so on: ROUNDS (10) times, the
# last build is recorded under another load than the round before, backfeed refresh makes the profile, and the next is built by it. Of
# each round it prints what refresh did, how many decisions changed, and the instructions and taken branches of a fixed load by
# callgrind, against the build without a profile. With bolt, the program is recorded as it was before llvm-bolt.
#
# Needs Go, its module proxy, valgrind and a kernel that lets backfeed record; clang needs clang-19, bolt llvm-bolt (bolt-19) as well.
set -euo pipefail
kind=$1 rounds=${2:-10}
here=$(cd "$(dirname "$0")" && pwd)
testdata=$(cd "$here/.." && pwd)
dir=
program=zstd
if [ "$kind" = go ]; then
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	(cd "$testdata/.." && go build -o "$dir/backfeed" ./cmd/backfeed)
	cd "$dir"
	cp "$testdata/goldmark/main.go" .
	go mod init rounds >/dev/null 2>&1
	go get github.com/yuin/goldmark@v1.8.7 >/dev/null 2>&1
	go mod tidy >/dev/null 2>&1
	export GOMAXPROCS=1
	readme=$(go list -m -f '{{.Dir}}' github.com/yuin/goldmark)/README.md
	cat "$testdata"/../cmd/backfeed/help/*.md >topics.md
else
	. "$testdata/consumers/programs.sh"
	. "$testdata/consumers/counts.sh"
fi
mkdir -p builds p

# load ROUND: the arguments of the recorded run; they differ from round to round.
load() {
	case $kind-$(($1 % 3)) in
	go-0) echo "$readme 12000" ;;
	go-1) echo "topics.md 2400" ;;
	go-2) echo "$testdata/../README.md 14000" ;;
	*-0) echo "input 3 60" ;;
	*-1) echo "input 1 120" ;;
	*-2) echo "input 6 24" ;;
	esac
}

# make_build PROFILE...: builds the program as builds/app. Without an argument, without a profile.
make_build() {
	case $kind in
	go) go build -tags valgrind -pgo="${1:-off}" -o app . ;;
	clang)
		rm -rf app.o
		build app "$clang" -g -fdebug-info-for-profiling ${1:+-fprofile-sample-use="$1" -Wno-profile-instr-unprofiled}
		;;
	bolt)
		[ -e plain ] || { build plain "$clang" -g && "$clang" -O2 plain.o/*.o -o plain -Wl,--build-id,--emit-relocs -lm; }
		if [ $# -eq 0 ]; then
			cp plain app
		else
			"$llvm/llvm-bolt" plain -o app -data "$1" -reorder-blocks=ext-tsp -reorder-functions=cdsort >bolt.log 2>&1
		fi
		;;
	esac
}

# measure NAME: prints the instructions and the taken branches of a fixed load; of Go, whose jumps callgrind does not tell apart by
# object, no branches.
measure() {
	if [ "$kind" != go ]; then
		count "$1"
		return
	fi
	GOGC=off GODEBUG=asyncpreemptoff=1,cpu.rdtscp=off valgrind -q --tool=callgrind --callgrind-out-file=callgrind.out "./$1" "$readme" 40 >/dev/null 2>&1
	echo "$(sed -n 's/^\(summary\|totals\): //p' callgrind.out | head -n 1) 0"
}

image=app
[ "$kind" != bolt ] || image=plain
run=app
[ "$kind" != bolt ] || run=plain # of what llvm-bolt has rewritten, refresh makes no profile for it
format=$kind
[ "$kind" != clang ] || format=llvm
make_build
cat >backfeed.yaml <<END
refresh:
  targets:
    app:
      sources: "now/*.bfr"
      image: $image
      recorded: $dir/app
      builds: [builds]
      normalise: true
      outputs: {$format: p/profile}
END
base=$(measure app)
echo "| round | load | refresh | decisions that change | clear | carried | instructions, taken branches |"
echo "| ---: | --- | --- | ---: | ---: | ---: | ---: |"
for round in $(seq "$rounds"); do
	id=$(printf '%02d' "$round")
	cp app "builds/app$id"
	./backfeed record -F 999 -o "r$id.bfr" -- "./$run" $(load "$round") >/dev/null 2>"record.log" || { cat record.log >&2 && exit 1; }
	rm -rf now && mkdir now && cp "r$id.bfr" now/
	for before in 1 2; do # the last three rounds
		[ "$round" -le "$before" ] || cp "r$(printf '%02d' $((round - before))).bfr" now/
	done
	./backfeed refresh --format json >refresh.json 2>refresh.log || { cat refresh.log >&2 && exit 1; }
	make_build p/profile
	python3 - "$round" "$(load "$round" | sed 's:[^ ]*/::')" "$base" "$(measure app)" <<'END'
import json, sys
t = json.load(open("refresh.json"))["targets"][0]
o = t["outputs"][0]
c = o.get("changes") or {"items": [], "clear": 0}
base, now = [[int(x) for x in a.split()[:2]] for a in sys.argv[3:5]]
change = ", ".join("%+.2f %%" % (100 * (n / b - 1)) for b, n in zip(base, now) if b)
carried = "%.1f %%" % (100 * t["carried"]) if "carried" in t else ""
print("| %s | %s | %s | %d | %d | %s | %s |" % (sys.argv[1], sys.argv[2], o["state"], len(c["items"]), c["clear"], carried, change))
END
done
