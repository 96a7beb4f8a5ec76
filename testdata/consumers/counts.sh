# counts.sh is sourced after programs.sh by scripts that compare builds by what
# callgrind counts in them.
clang() { build "$1" "${clang[@]}" -Qunused-arguments -fuse-ld=lld -fdebug-info-for-profiling "${@:2}"; }

# count prints instructions and taken branches of one program's own code, and leaves
# what it printed itself in NAME.out.
# valgrind 3.19 reads neither DWARF 5 nor the debug info of relocatable links, puts
# what llvm-bolt moved out of .text down to object ???, and takes a jump between
# the hot and the cold part of a function for a call.
count() {
	$llvm/llvm-objcopy -g "$1" "$1.counted"
	rm -rf "$1.callgrind" && mkdir "$1.callgrind" # a file for each process
	bash run.sh counted valgrind -q --tool=callgrind --demangle=no --dump-instr=yes --dump-line=no --collect-jumps=yes --compress-strings=no --compress-pos=no \
		--callgrind-out-file="$dir/$1.callgrind/%p" "$dir/$1.counted" >"$1.out" 2>"$1.log" || { cat "$1.log" >&2; return 1; }
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
		END           { printf "%d %d\n", instructions, taken }' "$1.callgrind"/*
}

# minute NAME BUILD FLAG... records a minute of runs of a build, or as many seconds of processor
# time as $seconds says, into NAME.bfr.
minute() { recorded "${seconds:-60}" "$2" "$dir/backfeed" record -o "$dir/$1.bfr" "${@:3}" --; }

# truth [BUILD] has callgrind count a whole run of BUILD, the base, into the files BUILD.truth/*, one
# for each process: of a copy without debug info, whose code is the same.
truth() {
	local name=${1:-base}
	$llvm/llvm-objcopy -g "$name" stripped
	rm -rf "$name.truth" && mkdir "$name.truth"
	bash run.sh trained valgrind -q --tool=callgrind --dump-instr=yes --dump-line=no --collect-jumps=yes \
		--callgrind-out-file="$dir/$name.truth/%p" "$dir/stripped" >/dev/null 2>truth.log || { cat truth.log >&2; return 1; }
	sed -i "s|^\(c*ob=.*\)/stripped$|\1/$name|" "$name.truth"/*
}

header() { printf '%-20s %14s %14s %9s %9s %9s %9s\n' build instructions taken instr. taken 'of taken' 'of instr.'; }

# row NAME BASE EXACT prints a line of the table: changes against BASE, and the shares of EXACT's
# reductions of taken branches and of instructions, if EXACT was counted. What prints other things than BASE is an error.
row() {
	local i t i0 t0 i1 t1
	cmp "$1.out" "$2.out" >&2
	read -r i t <"$1.count" && read -r i0 t0 <"$2.count"
	i1=$i0 t1=$t0
	[ ! -f "$3.count" ] || read -r i1 t1 <"$3.count"
	awk -v n="$1" -v i="$i" -v t="$t" -v i0="$i0" -v t0="$t0" -v i1="$i1" -v t1="$t1" 'BEGIN {
		printf "%-20s %14d %14d %+8.1f%% %+8.1f%%%s%s\n", n, i, t, 100 * (i / i0 - 1), 100 * (t / t0 - 1), share(t0, t, t1), share(i0, i, i1) }
		function share(from, to, exact) { return from == exact ? sprintf("%10s", "-") : sprintf(" %8.1f%%", 100 * (from - to) / (from - exact)) }'
}
