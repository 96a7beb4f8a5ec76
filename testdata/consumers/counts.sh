# counts.sh is sourced after programs.sh by scripts that compare builds by what
# callgrind counts in them.
clang() { build "$1" "$clang" -Qunused-arguments -fuse-ld=lld -fdebug-info-for-profiling "${@:2}"; }

# count prints instructions and taken branches of one program's own code.
# valgrind 3.19 reads neither DWARF 5 nor the debug info of relocatable links, puts
# what llvm-bolt moved out of .text down to object ???, and takes a jump between
# the hot and the cold part of a function for a call.
count() {
	$llvm/llvm-objcopy -g "$1" "$1.counted"
	valgrind -q --tool=callgrind --demangle=no --dump-instr=yes --dump-line=no --collect-jumps=yes --compress-strings=no --compress-pos=no \
		--callgrind-out-file="$1.callgrind" "./$1.counted" "${counted[@]}" >/dev/null 2>"$1.log" || { cat "$1.log" >&2; return 1; }
	awk -v name="/$1.counted" '
		function symbol(f) { sub(/\x27[0-9]+$/, "", f); return f } # without the level of recursion
		function whole(f)  { sub(/\.(cold|__part).*/, "", f); return f }
		/^ob=/        { own = $0 ~ name "$" || $0 == "ob=???" }
		/^fn=/        { fn = symbol(substr($0, 4)) }
		/^cfn=/       { callee = symbol(substr($0, 5)) }
		/^jcnd=/      { split(substr($1, 6), n, "/"); if (own) taken += n[1]; skip = 1; next }
		/^jump=/      { if (own) taken += substr($1, 6); skip = 1; next }
		/^calls=/     { if (own && fn != callee && whole(fn) == whole(callee)) taken += substr($1, 7); skip = 1; next }
		/^0x/ && skip { skip = 0; next }
		/^0x/         { if (own) instructions += $2 }
		END           { printf "%d %d\n", instructions, taken }' "$1.callgrind"
}

# minute NAME FLAG... records runs of the base for 60 s of wall-clock time into NAME.bfr.
minute() {
	./backfeed record -d 60s -o "$1.bfr" "${@:2}" -- sh -c 'while :; do "$@" >/dev/null || exit; done' sh "$dir/base" "${sampled[@]}"
}

# truth has callgrind count a whole run of the base, into base.callgrind: of a copy without debug
# info, whose code is the same.
truth() {
	$llvm/llvm-objcopy -g base stripped
	valgrind -q --tool=callgrind --dump-instr=yes --dump-line=no --collect-jumps=yes --callgrind-out-file=run.callgrind ./stripped "${sampled[@]}" >/dev/null
	sed "s|^\(c*ob=.*\)/stripped$|\1/base|" run.callgrind >base.callgrind
}

# row NAME BASE EXACT prints a line of the table: changes against BASE, and the share
# of EXACT's reduction of taken branches.
row() {
	local i t i0 t0 t1
	read -r i t <"$1.count" && read -r i0 t0 <"$2.count" && read -r _ t1 <"$3.count"
	awk -v n="$1" -v i="$i" -v t="$t" -v i0="$i0" -v t0="$t0" -v t1="$t1" \
		'BEGIN { printf "%-12s %14d %14d %+8.1f%% %+8.1f%% %8.1f%%\n", n, i, t, 100 * (i / i0 - 1), 100 * (t / t0 - 1), 100 * (t0 - t) / (t0 - t1) }'
}
