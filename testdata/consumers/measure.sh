#!/bin/bash
# measure.sh PROGRAM [DIR [PART...]]: what consumers make of backfeed's profiles of a program of
# programs.sh, against builds by no profile and by exact ones of the compiler and of llvm-bolt. The
# profiles are of samples of 20 s of processor time; of 30 s with --calibrate=3% ("-calibrated"); of servers, of samples of 60 s and 90 s
# under load, in which the clients and the kernel take most of their processors' time; of the samples beside
# callgrind's counts of one run of what was sampled ("-counted"); and of what perf2bolt -nl makes of
# the same samples ("bolt-nl"). gcc reads counters ("gcc-gcda") and .afdo files ("gcc-afdo"). All work is done in DIR, which is kept. A PART is base, clang,
# bolt, propeller, gcc or afdo, all by default; the next three need base, and afdo needs gcc. Each row is in DIR/rows too.
#
# callgrind counts instructions and taken branches of the program's own code; shares are those of
# what the instrumented build takes off, of taken branches and of instructions. A build that
# does not print what the base prints is an error. Needs gcc-12, clang-19, lld-19, llvm-19, bolt-19,
# libclang-rt-19-dev, perf and valgrind; --calibrate needs root and Linux 6.6. markdown brings its
# rustc, which has no map of blocks for Propeller.
set -euo pipefail
program=${1?program} dir=${2:-} parts=("${@:3}")
testdata=$(cd "$(dirname "$0")/.." && pwd)
. "$testdata/consumers/programs.sh"
. "$testdata/consumers/counts.sh"
[ ${#parts[@]} -gt 0 ] || parts=("${measured[@]}")

measured() { # measured NAME BASE EXACT counts a build and prints its row
	count "$1" >"$1.count"
	row "$@" | tee -a rows
}

# bolted NAME FLAG... has llvm-bolt make NAME. What it cannot take, computed gotos of an interpreter's loop, it names, one
# function at a time: these are skipped, and are in DIR/skipped.
bolted() {
	local skip="" name
	until $llvm/llvm-bolt relocatable -o "$1" "${@:2}" ${skip:+"-skip-funcs=$skip"} >"$1.bolt" 2>&1; do
		name=$(sed -nE 's|^BOLT-ERROR: unable to get new address .* in function ([^ /.]+).*|\1.*|p' "$1.bolt")
		[ -n "$name" ] && [[ ",$skip," != *",$name,"* ]] || { cat "$1.bolt" >&2; return 1; }
		skip+=${skip:+,}$name
	done
	[ -z "$skip" ] || echo "$1: $skip" >>skipped
}

# bolt NAME PROFILE
bolt() {
	bolted "$1" -data "$2" -reorder-blocks=ext-tsp -reorder-functions=cdsort -split-functions
	measured "$1" base exact
}

# recordings BASE records samples and a calibrated run of it, and has it counted: its sources are
# then ${samples[@]}, ${calibrated[@]} and ${exact[@]}.
recordings() {
	seconds=${server:+60} record "$1"
	seconds=$((${server:+3*}30)) minute "$1" "$1" -F 4999 --calibrate=3% >"$1.record" 2>&1 || { cat "$1.record" >&2; return 1; }
	truth "$1"
}

# emit FORMAT BASE SUFFIX FILE FLAG... writes the profile of what SUFFIX names.
emit() {
	local sources=("$2.data")
	case $3 in
	-calibrated) sources=("$2.bfr") ;;
	-counted) sources+=("$2.truth"/*) ;;
	esac
	./backfeed emit "$1" "${sources[@]}" --image "$dir/$2" -o "$4" "${@:5}" 2>"$4.log" || { cat "$4.log" >&2; return 1; }
}

header
relocs=("-Wl,--emit-relocs" "${maps[@]}")
for part in "${parts[@]}"; do
	case $part in
	base)
		rm -f rows *.count
		clang base -g "${relocs[@]}"
		count base >base.count
		recordings base
		row base base base | tee -a rows
		;;
	clang)
		clang generate "${generate[@]}"
		rm -rf raw && LLVM_PROFILE_FILE=$dir/raw/%p bash run.sh trained "$dir/generate" >/dev/null 2>&1
		llvm-profdata-19 merge raw -o exact.profdata
		clang exact -g "${use[@]}=$dir/exact.profdata"
		count exact >exact.count
		row exact base exact | tee -a rows
		for from in "" -calibrated -counted; do
			emit llvm base "$from" "sample$from.prof"
			clang "sample$from" -g "${sample[@]}=$dir/sample$from.prof"
			measured "sample$from" base exact
		done
		;;
	bolt)
		$llvm/llvm-objcopy -g base relocatable
		rm -f skipped
		for from in "" -calibrated -counted; do
			emit bolt base "$from" "base$from.fdata"
			bolt "bolt$from" "base$from.fdata"
		done
		$llvm/perf2bolt base -p base.data -nl -o nl.fdata >nl.log 2>&1
		bolt bolt-nl nl.fdata
		rm -f exact.*.fdata # one for each process
		bolted instrumented -instrument -instrumentation-file="$dir/exact" -instrumentation-file-append-pid
		bash run.sh trained "$dir/instrumented" >/dev/null 2>&1
		$llvm/merge-fdata exact.*.fdata >exact.fdata 2>merged.log
		bolt bolt-exact exact.fdata
		;;
	propeller)
		for from in "" -calibrated -counted; do
			emit propeller base "$from" "clusters$from.txt" --ld "order$from.txt"
			clang "propeller$from" -g "${relocs[@]}" "${clusters[@]}$dir/clusters$from.txt" \
				"-Wl,--symbol-ordering-file=$dir/order$from.txt" -Wl,--no-warn-symbol-ordering
			measured "propeller$from" base exact
		done
		;;
	gcc)
		build gcc "${gcc[@]}" -g
		count gcc >gcc.count
		recordings gcc
		# gcc looks for its counts by the paths of objects, so all builds that write or read any are of one name.
		# Notes are of the graphs that are counted: those of the build that counts do for all.
		notes=gcc-counts.o
		[ ${#make[@]} -eq 0 ] || notes=gcc-counts.tree
		rm -rf "$notes" notes gcda
		build gcc-counts "${gcc[@]}" "-fprofile-generate=$dir/gcda" -ftest-coverage
		bash run.sh trained "$dir/gcc-counts" >/dev/null 2>&1
		for from in "" -calibrated -counted; do
			rm -rf "counters$from"
			emit gcda gcc "$from" "counters$from" --notes "$notes"
		done
		mv "$notes" notes
		row gcc gcc gcc | tee -a rows
		for counters in gcda counters counters-calibrated counters-counted; do
			name=gcc-${counters/counters/gcda} warned=-Wcoverage-mismatch
			[ "$counters" != gcda ] || name=gcc-exact warned=-Wno-coverage-mismatch
			build gcc-counts "${gcc[@]}" "-fprofile-use=$dir/$counters" -Wno-missing-profile "$warned"
			cp gcc-counts "$name"
			measured "$name" gcc gcc-exact
		done
		;;
	afdo)
		for from in "" -calibrated -counted; do
			emit gcc gcc "$from" "gcc$from.afdo"
			build "gcc-afdo$from" "${gcc[@]}" "-fauto-profile=$dir/gcc$from.afdo" -fno-tracer
			measured "gcc-afdo$from" gcc gcc-exact
		done
		;;
	esac
done
