#!/bin/bash
# measure.sh [NAME...]: what the Go compiler makes of backfeed's profiles of programs that are not ours, or of those
# named, beside what it makes of runtime/pprof's profile of the same run. callgrind counts the instructions of some
# rounds, without collections of garbage, whose number is a matter of time. Of each build it prints a line; the last
# lines are a row of a table. RECORDINGS=3 records so many times each, LENGTH=10 for 10 s of processor time instead of 20.
# A program takes four minutes and more.
#
# Needs Go, its module proxy, valgrind, and a kernel that lets backfeed record; as root, on Linux 6.6 and later, with
# CALIBRATE=3% a calibrated recording as well, for four times as long, as walks need. KINDS="ours calibrated"
# leaves out runtime and same, which are of runtime/pprof's profile. What ALONE says precedes a recording: "flock FILE"
# where several scripts of one machine are to record one at a time.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$(cd "$here/../.." && pwd)

# name; module, "-" for none; its input; rounds to count. Those of programs/NAME/setup.go are
# built with programs/main.go, the others are in ../NAME/main.go. Nobody looked at those marked * while rules were made; those
# marked + are measured if they are named, and are not in the means of README.md.
table() {
	cat <<END
goldmark github.com/yuin/goldmark@v1.8.7 README.md 60
lua github.com/yuin/gopher-lua@v1.1.1 $here/../lua/script.lua 60
gojq github.com/itchyny/gojq@v0.12.17 $here/../gojq/script.jq 20
yaml gopkg.in/yaml.v3@v3.0.1 $tree/infer/machine/models/amd-zen4.yaml 10
deflate github.com/klauspost/compress@v1.20.3 topics 30
goja* github.com/dop251/goja@v0.0.0-20260917113740-793a2a65c13b $here/programs/goja/script.js 6
jsonnet* github.com/google/go-jsonnet@v0.22.0 $here/programs/jsonnet/config.jsonnet 4
gofmt* - $tree/infer/posterior.go 60
minify* github.com/tdewolff/minify/v2@v2.24.25 $here/programs/goja/script.js 250
chroma* github.com/alecthomas/chroma/v2@v2.27.0 $tree/infer/posterior.go 5
starlark* go.starlark.net@v0.0.0-20260908191801-89a6a09411d5 $here/programs/starlark/script.star 5
json* - topics 60
server* - topics 150
cel+ cel.dev/cel-go@v0.33.2 $here/programs/cel/rules.txt 20
dns+ github.com/miekg/dns@v1.1.73 $here/programs/dns/setup.go 4
toml+ github.com/pelletier/go-toml/v2@v2.4.3 $here/programs/toml/setup.go 20
shell+ mvdan.cc/sh/v3@v3.14.1 $here/programs/shell/script.sh 40
s2+ github.com/golang/geo@v0.0.0-20260818125358-b200a1149890 $here/programs/s2/setup.go 1
hcl+ github.com/hashicorp/hcl/v2@v2.25.0 $here/programs/hcl/setup.go 10
expr+ github.com/expr-lang/expr@v1.17.8 $here/programs/expr/setup.go 20
END
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
(cd "$tree" && go build -o "$dir/backfeed" ./cmd/backfeed)
cat "$tree"/cmd/backfeed/help/*.md >"$dir/topics"
export GOMAXPROCS=1 GODEBUG=asyncpreemptoff=1,cpu.rdtscp=off

# build NAME PROFILE: the decisions go to NAME.log, the instructions to NAME.count. Valgrind's tag lets the runtime
# tell valgrind of its stacks.
build() {
	GOMAXPROCS= go build -tags valgrind -pgo="$2" -gcflags=all=-m -o "$1" . 2>"$1.log"
	grep -o '^[^ ]*: inlining call to .*' "$1.log" | sort -u >"$1.inlined"
	GOGC=off valgrind -q --tool=callgrind --callgrind-out-file="$1.callgrind" "./$1" "$input" "$counted" >/dev/null 2>&1
	sed -n 's/^\(summary\|totals\): //p' "$1.callgrind" | head -n 1 >"$1.count"
	awk -v name="$1" -v n="$(cat "$1.count")" -v off="$(cat off.count)" -v text="$(size "$1" | awk 'NR == 2 { print $1 }')" \
		-v virt="$(grep -c 'PGO devirtualizing' "$1.log" || true)" -v inl="$(comm -13 off.inlined "$1.inlined" | wc -l)" \
		'BEGIN { printf "%-12s %12d instructions, %+6.2f %%; %d devirtualised, %d inlined that were not; %d bytes of code\n", name, n, 100 * (n / off - 1), virt, inl, text }'
}

# change NAME: its instructions against those without a profile, in percent.
change() { awk -v n="$(cat "$1.count")" -v off="$(cat off.count)" 'BEGIN { printf "%+.1f %%", 100 * (n / off - 1) }'; }

# record FILE TIMES FLAG...: records a run, which writes runtime/pprof's profile too.
record() {
	local file=$1 times=$2
	shift 2
	${ALONE:-} ./backfeed record -F 999 "$@" -o "$file.bfr" -- ./off "$input" "$times" "$file.runtime" >/dev/null 2>"$file.log" || { cat "$file.log" >&2 && return 1; }
	./backfeed emit go "$file.bfr" -o "$file.pprof" 2>/dev/null
}

# rounds SECONDS COUNTED: how many take so much processor time, where 20 times COUNTED take what is measured.
rounds() {
	local TIMEFORMAT='%U %S'
	{ time ./off "$input" $((20 * $2)) >/dev/null 2>&1; } 2>&1 |
		awk -v wanted="$1" -v n=$((20 * $2)) '{ printf "%d\n", 1 + n * wanted / ($1 + $2 > 0.01 ? $1 + $2 : 0.01) }'
}

# measure NAME MODULE INPUT COUNTED
measure() {
	local name=${1%[*+]} module=$2 kinds=${KINDS:-runtime same ours${CALIBRATE:+ calibrated}} row= kind n times
	input=$3 counted=$4
	mkdir "$dir/$name" && cd "$dir/$name"
	ln -s ../backfeed .
	if [ -d "$here/programs/$name" ]; then
		cp "$here/programs/main.go" "$here/programs/$name/setup.go" .
	else
		cp "$here/../$name/main.go" .
	fi
	go mod init "$name" >/dev/null 2>&1
	if [ "$module" != - ]; then
		go get "$module" >/dev/null 2>&1
		go mod tidy >/dev/null 2>&1
	fi
	case $input in
	topics) input=$dir/topics ;;
	/*) ;;
	*) input=$(go list -m -f '{{.Dir}}' "${module%@*}")/$input ;;
	esac
	echo "== $1"
	build off off
	times=$(rounds "${LENGTH:-20}" "$counted")
	for n in $(seq "${RECORDINGS:-1}"); do
		[ "$kinds" = calibrated ] || record "run$n" "$times"
		for kind in $kinds; do
			case $kind in
			runtime) build "runtime$n" "run$n.runtime" ;;
			same)
				./backfeed emit go "run$n.runtime" -o "run$n.same" 2>/dev/null
				build "same$n" "run$n.same"
				;;
			ours) build "ours$n" "run$n.pprof" ;;
			calibrated)
				record "calibrated$n" $((4 * times)) --calibrate="$CALIBRATE"
				cat "calibrated$n.log" && ./backfeed images "calibrated$n.bfr"
				build "calibrated$n" "calibrated$n.pprof"
				;;
			esac
		done
	done
	for kind in $kinds; do
		row+=" |"
		for n in $(seq "${RECORDINGS:-1}"); do row+=" $(change "$kind$n")"; done
	done
	echo "| $1$row |" | tee -a "$dir/rows"
	cd "$dir" && rm -rf "${dir:?}/$name"
}

while read -r name module input counted; do
	if [ $# -gt 0 ]; then
		[[ " $* " == *" ${name%[*+]} "* ]] || continue
	elif [[ $name == *+ ]]; then
		continue
	fi
	measure "$name" "$module" "$input" "$counted"
done < <(table)
echo
cat "$dir/rows"
