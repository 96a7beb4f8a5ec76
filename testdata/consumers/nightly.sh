#!/bin/bash
# nightly.sh [DIR [PROGRAM...]]: measures all programs of programs.sh, or those named, by measure.sh, and where none
# is named those of ../goldmark too; then says what has become worse than in figures.tsv, and ends with 1 if anything
# has. All work is done in DIR (/tmp/nightly); what was measured is DIR/figures.tsv, which replaces the committed
# file when it is to be what the next night is compared with. What was not measured keeps its old figures.
#
# A line of figures.tsv is a program, a build, and the changes of instructions and taken branches against no profile,
# in percent ("-": not counted). A figure is worse if it is higher by more than recordings of one program differ by:
# of builds by samples and calibrated ones, 5 points of taken branches and 2 of instructions (two recordings of xz:
# 2.8 and 1.7); of others, which nothing random goes into, half a point.
#
# PARTS="base clang bolt" leaves out the other parts. It needs what measure.sh and ../goldmark/measure.sh do.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(realpath -m "${1:-/tmp/nightly}") programs=("${@:2}")
mkdir -p "$dir"
all=(tcc xz lua redis nginx sqlite zstd jsonnet markdown python postgres)
[ -n "${PARTS:-}" ] || all+=(minisat mawk bzip2 gzip) # by gcc alone
failed=0
: >"$dir/now.tsv"
for program in "${programs[@]:-${all[@]}}"; do
	echo "== $program"
	rm -f "$dir/$program/rows"
	# Not all of a program's builds may work: the rows of those that did count.
	bash "$here/measure.sh" "$program" "$dir/$program" ${PARTS:-} 2>"$dir/$program.log" || { failed=1 && echo "$program: failed, see $dir/$program.log"; }
	[ ! -f "$dir/$program/rows" ] || awk -v program="$program" -v OFS='\t' '$1 != "base" && $1 != "gcc" { print program, $1, $4 + 0, $5 + 0 }' "$dir/$program/rows" >>"$dir/now.tsv"
done
if [ ${#programs[@]} -eq 0 ]; then
	echo "== programs in Go"
	CALIBRATE=3% bash "$here/../goldmark/measure.sh" >"$dir/go.out" 2>"$dir/go.log" || { failed=1 && echo "goldmark/measure.sh: failed, see $dir/go.log"; }
	# Its last lines are rows of a table: | name | of runtime/pprof's | of the same samples | of ours | calibrated |
	sed -n '/^$/,$p' "$dir/go.out" | awk -F'|' -v OFS='\t' 'NF > 4 {
		gsub(/[ *]/, "", $2)
		split("runtime same ours calibrated", kind, " ")
		for (i = 3; i < NF; i++) print "go/" $2, kind[i - 2], $i + 0, "-" }' >>"$dir/now.tsv"
fi
grep '^#' "$here/figures.tsv" >"$dir/figures.tsv"
awk -F'\t' -v OFS='\t' '!/^#/ { key = $1 OFS $2; if (!(key in line)) order[n++] = key; line[key] = $0 } END { for (i = 0; i < n; i++) print line[order[i]] }' \
	"$here/figures.tsv" "$dir/now.tsv" | sort >>"$dir/figures.tsv"
awk -F'\t' '
	function random(build) { return build !~ /counted|exact/ }
	function check(what, old, now, scatter) {
		if (old == "-" || now == "-" || now - old <= scatter) return
		printf "worse: %s, %s: %s %+.1f %%, was %+.1f %%\n", $1, $2, what, now, old
		worse++
	}
	/^#/ { next }
	FNR == NR { instructions[$1, $2] = $3; taken[$1, $2] = $4; next }
	($1, $2) in taken {
		compared++
		check("instructions", instructions[$1, $2], $3, random($2) ? 2 : 0.5)
		check("taken branches", taken[$1, $2], $4, random($2) ? 5 : 0.5)
	}
	END { printf "%d builds compared, %d figures worse\n", compared, worse; exit worse > 0 }' "$here/figures.tsv" "$dir/now.tsv" || failed=1
exit "$failed"
