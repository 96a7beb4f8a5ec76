#!/bin/bash
# curves.sh [DIR [PROGRAM...]]: how near counts come to the exact ones, as Markdown: what long walks pass through, by how long they are,
# by how many and by their own speed, without any inference (TestCurves); and what is inferred from a minute each by samples alone and
# with --calibrate=0.3%, 1%, 3% and 10%. Programs are those of ../consumers/programs.sh, sqlite and zstd if none is named, and the exact
# counts those of ../consumers/budget.sh, which this runs. All work is done in DIR, which is kept. It takes about 9 minutes a program, and
# needs what budget.sh needs. Run it where nothing else runs.
set -euo pipefail
dir=${1:-} && shift || true
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "$dir" ]; then
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
fi
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
(cd "$here/../.." && go test -c -o "$dir/walks" ./cmd/backfeed)
export GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512VL,-AVX512F,-AVX512BW,-RTM,-Prefer_No_VZEROUPPER

[ $# -gt 0 ] || set -- sqlite zstd
for program; do
	"$here/../consumers/budget.sh" "$program" "$dir/$program" >"$dir/$program.budget"
	# One process was counted; the arguments are those of that run.
	counts=("$dir/$program/base.truth"/*)
	[ ${#counts[@]} -eq 1 ] || { echo "$program: ${#counts[@]} processes, want one" >&2; exit 1; }
	read -ra args < <(sed -n 's/^cmd: *[^ ]* *//p' "${counts[0]}")
	(cd "$dir/$program" && "$dir/walks" -test.run '^TestCurves$' -test.v -measure -speeds="$dir/$program/base ${args[*]}" -curve-counts="${counts[0]}") |
		tee "$dir/$program.walks" | sed -n "s/^ *| base,/| $program,/; s/^ *|/|/p; s/^ *$//p"
	awk -v name="$program" '
		NR == 1 { print "\n| " name ", share | block overlap | edge overlap | within 10 % | taken |"; print "| ---: | ---: | ---: | ---: | --- |"; next }
		{ taken = ""; for (i = 6; i <= NF; i++) taken = taken (i > 6 ? " " : "") $i; print "| " $1 " | " $2 " | " $3 " | " $4 " | " taken " |" }' "$dir/$program.budget"
done
