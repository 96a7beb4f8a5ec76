#!/bin/bash
# make.sh DIR [NAME...]: makes the programs of the table below, or those named, into DIR/NAME, as -sets reads them:
#   samples.bfr    PC samples in user mode of some runs, one per 100 us of processor time
#   truth.json.gz  the exact counts of one run, as callgrind writes them
#   symfs/         the images
# What is there already is left as it is. Needs Debian, valgrind, gcc, and a kernel that lets backfeed record; as root
# it installs the packages that the programs are in. A program takes about half a minute.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(realpath -m "${1:?DIR}")
shift
mkdir -p "$dir/.work"
work=$dir/.work
(cd "$here/../.." && go build -o "$work/backfeed" ./cmd/backfeed)
gcc -O2 -fno-tree-vectorize -fno-unroll-loops -fno-if-conversion -fno-if-conversion2 -gdwarf-4 -Wl,--build-id \
	-o "$work/constructed" "$here/constructed.c"
# callgrind knows no AVX-512: libc is to choose the same routines in both runs.
export GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512CD,-AVX512DQ

# Inputs, the same wherever this tree is.
cat "$here"/../../infer/*.go "$here"/../../sample/*/*.go >"$work/text"
head -c 600000 "$work/text" >"$work/short"
gzip -c "$work/text" >"$work/text.gz"
bzip2 -c "$work/text" >"$work/text.bz2"
printf 'scale=1200\n4*a(1)\ne(2)\nfor(i=0;i<20000;i++) x+=i*i%%7\nx\nquit\n' >"$work/in.bc"
cat >"$work/in.tcl" <<'END'
proc f n {if {$n<2} {return $n}; return [expr {[f [expr {$n-1}]]+[f [expr {$n-2}]]}]}
puts [f 21]; set l {}; for {set i 0} {$i<50000} {incr i} {lappend l [expr {($i*7919)%100003}]}; puts [llength [lsort -integer $l]]
END
cat >"$work/in.py" <<'END'
import json, re
words = {}
for w in re.findall(r"[A-Za-z_]+", open(__import__("sys").argv[1]).read()):
    words[w] = words.get(w, 0) + 1
print(len(json.dumps(sorted(words.items(), key=lambda p: -p[1]))))
END
cat >"$work/in.sql" <<'END'
create table t(a integer primary key, b, c);
with recursive n(i) as (select 1 union all select i+1 from n where i<60000) insert into t select i, i*7919%100003, 'x'||i from n;
create index tb on t(b);
select count(*), sum(a), max(c) from t where b between 100 and 90000;
select b%13 k, count(*), avg(a) from t group by k order by 2 desc;
END
cat >"$work/in.lua" <<'END'
local t = {} for i = 1, 300000 do t[i] = (i * 7919) % 100003 end table.sort(t)
local q = {} for i = 1, 60000 do q[#q + 1] = tostring(i) .. ":" end print(t[7], #table.concat(q))
END
cat >"$work/in.pl" <<'END'
my %h; open F, $ARGV[0]; while (<F>) { while (/([A-Za-z_]+)/g) { $h{$1}++ } }
print "$_ $h{$_}\n" for sort { $h{$b} <=> $h{$a} || $a cmp $b } keys %h;
END
{ echo 'digraph {'; for i in $(seq 160); do echo "n$i -> n$((i * 7 % 161)); n$i -> n$((i * 3 % 161));"; done; echo '}'; } >"$work/in.dot"
{ echo '<r>'; for i in $(seq 20000); do echo "<e id=\"$i\"><v>$((i * 7919 % 10007))</v></e>"; done; echo '</r>'; } >"$work/in.xml"

# name, package ("-": none), runs to record, command
table() {
	cat <<END
copy - 8 $work/constructed copy 300
random - 10 $work/constructed random 40
two - 3 $work/constructed two 60
twice - 15 $work/constructed twice 50
rare - 10 $work/constructed rare 60
nested - 30 $work/constructed nested 50
divide - 10 $work/constructed divide 60
costs - 10 $work/constructed costs 40
switch - 10 $work/constructed switch 20
fib - 60 $work/constructed fib 33
perl perl-base 40 perl $work/in.pl $work/text
gawk gawk 30 gawk {for(i=1;i<=NF;i++)h[\$i]++}END{for(k_in_h)print_k,h[k]} $work/text
mawk mawk 40 mawk {for(i=1;i<=NF;i++)h[\$i]++}END{n=0;for(k_in_h)n+=h[k];print_n} $work/text
jq jq 12 jq -n [range(90000)|{a:.,b:(.*7%13)}]|group_by(.b)|map({k:.[0].b,s:(map(.a)|add)})
python3 python3-minimal 30 python3 $work/in.py $work/text
tclsh tcl 40 tclsh $work/in.tcl
lua lua5.4 12 lua5.4 $work/in.lua
bc bc 10 bc -lq $work/in.bc
sqlite3 sqlite3 20 sqlite3 :memory: .read_$work/in.sql
gzip gzip 25 gzip -9c $work/text
gunzip gzip 150 gzip -dc $work/text.gz
bzip2 bzip2 15 bzip2 -9c $work/text
bunzip2 bzip2 40 bzip2 -dc $work/text.bz2
xz xz-utils 20 xz -3c $work/short
lz4 lz4 60 lz4 -9c $work/text
zstd zstd 12 zstd -12 -c $work/text
brotli brotli 15 brotli -6 -c $work/text
sort coreutils 80 sort $work/text
wc coreutils 100 wc $work/text
od coreutils 20 od -c $work/short
sha256 coreutils 120 sha256sum $work/text
grep grep 150 grep -cE [a-z]+_[a-z]+\\(.*err $work/text
sed sed 15 sed -E s/([a-z]+)\\.([A-Z][a-z]+)/\\2.\\1/g $work/short
diff diffutils 60 diff $work/text $work/short
objdump binutils 12 objdump -d $work/constructed /usr/bin/sort
readelf binutils 12 readelf -aW $work/backfeed
cc1 gcc-12 8 /usr/lib/gcc/x86_64-linux-gnu/12/cc1 -quiet -imultiarch x86_64-linux-gnu -O2 $here/constructed.c -o /dev/null
xmllint libxml2-utils 40 xmllint --noout --xpath sum(//v) $work/in.xml
dot graphviz 8 dot -Tplain $work/in.dot
git git 12 git -C $here/../.. diff --stat --no-index $work/text $work/short
ripgrep ripgrep 200 rg -j1 -c [a-z]+_[a-z]+\\(.*err $work/text
END
}

# make NAME PACKAGE RUNS COMMAND...: an underscore in an argument of a program of one line is a blank.
make() {
	local name=$1 package=$2 runs=$3 out=$dir/$1 path
	shift 3
	[ ! -e "$out/truth.json.gz" ] || return 0
	if [ "$package" != - ] && ! dpkg-query -W "$package" >/dev/null 2>&1; then
		DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$package" >/dev/null 2>&1 ||
			{ echo "$name: package $package is not to be had"; return 0; }
	fi
	local -a command=("${@//_in_h/ in h}")
	command=("${command[@]//print_/print }")
	command=("${command[@]//.read_/.read }")
	rm -rf "$out"
	mkdir -p "$out/symfs"
	"$work/backfeed" record -F 9973 -o "$out/samples.bfr" -- sh -c 'n=$1; shift; while [ $n -gt 0 ]; do "$@"; n=$((n-1)); done' - "$runs" "${command[@]}" \
		>/dev/null 2>"$work/log" || true
	[ -s "$out/samples.bfr" ] || { echo "$name: $(tail -1 "$work/log")"; return 0; }
	echo "$runs" >"$out/runs"
	nice valgrind -q --tool=callgrind --dump-instr=yes --collect-jumps=yes --dump-line=no --compress-pos=no \
		--callgrind-out-file="$work/callgrind" "${command[@]}" >/dev/null 2>&1 || true
	"$work/backfeed" images "$out/samples.bfr" --format json | sed -n 's/.*"path": "\(\/[^"]*\)".*/\1/p' | sort -u | while read -r path; do
		[ -f "$path" ] && mkdir -p "$out/symfs$(dirname "$path")" && cp -L "$path" "$out/symfs$path"
	done
	gzip -c "$work/callgrind" >"$out/truth.json.gz"
	echo "$name: $("$work/backfeed" images "$out/samples.bfr" --format csv | awk -F, 'NR>1{n+=$4}END{print n+0}') samples"
}

while read -r name package runs command; do
	[ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
	read -ra words <<<"$command"
	make "$name" "$package" "$runs" "${words[@]}"
done < <(table)
