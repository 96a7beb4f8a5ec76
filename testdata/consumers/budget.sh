#!/bin/bash
# budget.sh sqlite|zstd|jsonnet|tcc [DIR [SHARE...]]: how near counts come to the truth by the
# share of the processor time that a calibration may take: a minute of samples alone, then one
# with --calibrate=SHARE each (0.3%, 1%, 3%, 10%). The truth is what callgrind counts in one run.
# All work is done in DIR, which is kept. Needs clang-19, lld-19, llvm-19, valgrind, jq, root and
# Linux 6.6. Run it where nothing else runs.
set -euo pipefail
program=${1?program} dir=${2:-} shares=("${@:3}")
[ ${#shares[@]} -gt 0 ] || shares=(0.3% 1% 3% 10%)
testdata=$(cd "$(dirname "$0")/.." && pwd)
. "$testdata/consumers/programs.sh"
. "$testdata/consumers/counts.sh"

# valgrind offers no AVX-512 and no RTM: without these, the C library takes the same functions
# in both runs.
export GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512VL,-AVX512F,-AVX512BW,-RTM,-Prefer_No_VZEROUPPER

clang base -g
truth

scored() { # scored NAME FLAG... scores what is inferred from a minute
	local name=$1
	minute "$name" base "${@:2}" 2>"$name.log"
	./backfeed infer "$name.bfr" --format json -o "$name.json" 2>>"$name.log"
	./backfeed verify "$name.json" --truth base.truth/* --samples "$name.bfr" --format json >"$name.verified"
	printf '%-8s %8s %8s %10s %10s  %s\n' "$name" $(jq -r '[.block_overlap, .edge_overlap, .within10] | map(. * 1000 | round / 1000 | tostring) | join(" ")' "$name.verified") \
		"$(jq -r '.blocks_within[] | select(.confidence == "medium") | .within2x * 1000 | round / 1000' "$name.verified")" \
		"$(sed -n 's/^backfeed: \([0-9]* windows\) .* took about \(.*\), at .*/\1, \2/p; s/^backfeed: \([0-9]* walks of .*\); .*/\1/p' "$name.log" | paste -sd ';')"
}

printf '%-8s %8s %8s %10s %10s  %s\n' share blocks edges within10 promise taken
scored none
for share in "${shares[@]}"; do scored "$share" --calibrate="$share"; done
