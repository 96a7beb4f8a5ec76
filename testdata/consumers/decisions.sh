#!/bin/bash
# decisions.sh sqlite|zstd|jsonnet|tcc|goldmark|gojq OLD [DIR]: what clang, or Go's compiler, decides by a profile of the
# counts that another build of backfeed, OLD, infers from the same samples, and by this one's, beside what it decides by
# exact counts of the same code. Choices are calls inlined, with line and column, indirect calls promoted, and loops
# unrolled, peeled and vectorised; those that are the same without a profile are left aside. All work is done in DIR, which is kept.
#
# Needs perf and valgrind; clang-19, lld-19 and llvm-19 or Go and its module proxy.
set -euo pipefail
program=${1?program} old=$(realpath "${2?another build of backfeed}") dir=${3:-}
testdata=$(cd "$(dirname "$0")/.." && pwd)

# agree NAME WHAT: of the choices that the profile of NAME, or exact counts, change against no profile, those that both do.
agree() {
	local what=$2 it
	for it in off "$1" exact; do grep "^$what " "$it.made" | sort -u >"$it.some" || true; done
	for it in "$1" exact; do
		{ comm -13 off.some "$it.some" | sed 's/^/+/' && comm -23 off.some "$it.some" | sed 's/^/-/'; } | sort >"$it.changed"
	done
	awk -v name="$1" -v what="$what" -v mine="$(wc -l <"$1.changed")" -v exact="$(wc -l <exact.changed)" \
		-v both="$(comm -12 "$1.changed" exact.changed | wc -l)" \
		'BEGIN { n = mine + exact - both; printf "%-6s %-12s changes %5d, exact counts %5d, both %5d: agreement %.3f\n", name, what, mine, exact, both, n ? both / n : 1 }'
}

case $program in
goldmark | gojq)
	dir=${dir:-$(mktemp -d)} && mkdir -p "$dir"
	case $program in
	goldmark) module=github.com/yuin/goldmark@v1.8.7 runs=20 rounds=200 ;;
	gojq) module=github.com/itchyny/gojq@v0.12.17 runs=20 rounds=40 ;;
	esac
	(cd "$testdata/.." && go build -o "$dir/backfeed" ./cmd/backfeed)
	cd "$dir"
	cp "$testdata/$program/main.go" .
	[ -f go.mod ] || go mod init "$program" >/dev/null 2>&1
	go get "$module" >/dev/null 2>&1
	input=$testdata/gojq/script.jq
	[ "$program" = gojq ] || input=$(go list -m -f '{{.Dir}}' "${module%@*}")/README.md
	export GOMAXPROCS=1 GODEBUG=asyncpreemptoff=1,cpu.rdtscp=off
	# compiled NAME PROFILE: the calls that were inlined and devirtualised.
	compiled() {
		env -u GODEBUG go build -tags valgrind -pgo="$2" -gcflags=all='-m=2 -d=pgodebug=1' -o "$1" . 2>"$1.log"
		sed -nE 's/^([^ ]*): inlining call to (.*)/inline \1 \2/p; s/^([^ ]*): PGO devirtualizing (.*)/devirtualise \1 \2/p' "$1.log" | sort -u >"$1.made"
	}
	compiled off off
	perf record -q -B -N -e cpu-clock:u -F 4999 -o base.data -- sh -c \
		'n=$1; shift; while [ "$n" -gt 0 ]; do "$@" || exit; n=$((n - 1)); done' sh "$runs" ./off "$input" "$rounds" >/dev/null
	valgrind -q --tool=callgrind --dump-instr=yes --dump-line=no --collect-jumps=yes --callgrind-out-file=exact.callgrind ./off "$input" "$rounds" >/dev/null 2>&1
	"$old" emit go base.data --image "$PWD/off" -o old.prof
	./backfeed emit go base.data --image "$PWD/off" -o now.prof
	./backfeed emit go base.data exact.callgrind --image "$PWD/off" -o exact.prof
	for name in old now exact; do compiled "$name" "$name.prof"; done
	for name in off old now exact; do
		GOGC=off valgrind -q --tool=callgrind --callgrind-out-file="$name.run" "./$name" "$input" 20 >/dev/null 2>&1
	done
	for name in old now; do
		for what in inline devirtualise; do agree "$name" "$what"; done
	done
	for name in off old now exact; do
		printf '%-6s %s instructions\n' "$name" "$(sed -n 's/^\(summary\|totals\): //p' "$name.run" | head -n 1)"
	done
	;;
*)
	. "$testdata/consumers/programs.sh"
	. "$testdata/consumers/counts.sh"
	# compiled NAME FLAG... builds, with the compiler's remarks on its choices.
	compiled() {
		clang "$1" -g -fsave-optimization-record "${@:2}"
		cat "$1.o"/*.opt.yaml | awk '
			/^--- /               { passed = $2 == "!Passed"; args = "" }
			/^Pass:/              { pass = $2 }
			/^Name:/              { name = $2 }
			/^DebugLoc:/          { at = $0; gsub(/DebugLoc: *|[{}]|File:|Line:|Column:|\x27| /, "", at) }
			/^Function:/          { fn = $2 }
			/Callee:|UnrollCount:|PeelCount:|VectorizationFactor:|InterleaveCount:/ { gsub(/[ \x27-]/, ""); args = args " " $0 }
			/^\.\.\./ && passed {
				if (pass == "inline" || pass == "sample-profile-inline") print "inline", fn, at, args
				else if (pass ~ /^loop-/ && name ~ /Unrolled|Peeled|Vectorized/) print "loop", name, fn, at, args
				else if (pass ~ /pgo-icall-prom|icall/) print "promote", fn, at, args
			}' | sort -u >"$1.made"
	}
	clang base -g
	record base
	truth
	"$old" emit llvm base.data --image "$dir/base" -o old.prof
	./backfeed emit llvm base.data --image "$dir/base" -o now.prof
	./backfeed emit llvm base.data base.truth/* --image "$dir/base" -o exact.prof
	compiled off
	for name in old now exact; do compiled "$name" "-fprofile-sample-use=$name.prof"; done
	for name in old now; do
		for what in inline loop promote; do agree "$name" "$what"; done
	done
	for name in off old now exact; do count "$name" >"$name.count"; done
	for name in off old now exact; do row "$name" off exact; done
	;;
esac
