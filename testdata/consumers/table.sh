#!/bin/bash
# table.sh [FIGURES]: the tables of README.md, of figures.tsv: by program the change of taken branches, or of
# instructions, and its share of what the instrumented build of the same compiler takes off, clang's for llvm-bolt
# and Propeller.
set -euo pipefail
awk -F'\t' '
	/^#/ || $1 ~ /^go\// { next }
	!($1 in seen) { seen[$1]; program[++programs] = $1 }
	{ change["instructions", $1, $2] = $3; change["taken branches", $1, $2] = $4 }
	function cell(what, p, build, exact,   it, full) {
		if (!((what, p, build) in change) || change[what, p, build] == "-") return " |"
		it = change[what, p, build]
		full = change[what, p, exact]
		if (build == exact) return sprintf(" %+.1f |", it)
		if (!((what, p, exact) in change) || full > -1) return sprintf(" %+.1f |", it) # a share of next to nothing says nothing
		sum[build] += it; of[build] += full; shares[build] += it / full; n[build]++
		return sprintf(" %+.1f; %.0f |", it, 100 * it / full)
	}
	function table(what, names, builds, exact,   i, j, count, name, build, line, head) {
		count = split(builds, build, " ")
		split(names, name, ",")
		delete sum; delete of; delete shares; delete n
		line = "| " what " |"
		for (j = 1; j <= count; j++) line = line " " name[j] " |"
		head = line "\n| --- |"
		for (j = 1; j <= count; j++) head = head " ---: |"
		for (i = 1; i <= programs; i++) {
			line = "| " program[i] " |"
			for (j = 1; j <= count; j++) line = line cell(what, program[i], build[j], exact)
			if (line ~ /[0-9]/) { if (head) print head; head = ""; print line }
		}
		line = "| mean share |"
		for (j = 1; j <= count; j++)
			line = line (build[j] == exact ? " 100 |" : n[build[j]] ? sprintf(" %.0f of %d |", 100 * (what == "instructions" ? sum[build[j]] / of[build[j]] : shares[build[j]] / n[build[j]]), n[build[j]]) : " |")
		if (length(sum)) print line "\n"
	}
	END {
		table("taken branches", "clang instrumented,samples,calibrated,callgrind'"'"'s counts", "exact sample sample-calibrated sample-counted", "exact")
		table("instructions", "clang instrumented,samples,calibrated,callgrind'"'"'s counts", "exact sample sample-calibrated sample-counted", "exact")
		table("taken branches", "llvm-bolt instrumented,samples,calibrated,callgrind'"'"'s counts,`perf2bolt -nl`", "bolt-exact bolt bolt-calibrated bolt-counted bolt-nl", "exact")
		table("taken branches", "Propeller samples,calibrated,callgrind'"'"'s counts", "propeller propeller-calibrated propeller-counted", "exact")
		table("taken branches", "gcc instrumented,samples,calibrated,callgrind'"'"'s counts", "gcc-exact gcc-afdo gcc-afdo-calibrated gcc-afdo-counted", "gcc-exact")
		table("taken branches", "gcc by `emit gcda` samples,calibrated,callgrind'"'"'s counts", "gcc-gcda gcc-gcda-calibrated gcc-gcda-counted", "gcc-exact")
		table("instructions", "gcc instrumented,samples,calibrated,callgrind'"'"'s counts", "gcc-exact gcc-afdo gcc-afdo-calibrated gcc-afdo-counted", "gcc-exact")
		table("instructions", "gcc by `emit gcda` samples,calibrated,callgrind'"'"'s counts", "gcc-gcda gcc-gcda-calibrated gcc-gcda-counted", "gcc-exact")
	}' "${1:-$(dirname "$0")/figures.tsv}"
