#!/bin/bash
# make.sh DIR [NAME...]: makes the programs of the table below, or those named, into DIR/NAME, as -sets reads them:
#   samples.bfr    PC samples in user mode of some runs, one per 100 us of processor time
#   truth.json.gz  the exact counts of one run, as callgrind writes them
#   symfs/         the images
# and lists of what is there, for -sets: DIR/constructed.txt, and of real programs, one by one in turn, DIR/dev.txt and
# DIR/held.txt, which nobody looks at who changes inference.
# What is there already is left as it is. Needs Debian, valgrind, gcc, gawk, Go with its module proxy, and a kernel that lets
# backfeed record; as root it installs the packages that the programs are in. A program takes about half a minute.
# make.sh -t DIR [NAME...] prints how long one run of each takes instead. With the inputs of before,
# make.sh -c DIR [NAME...] records those that are there once more, calibrated, at 10 %: three times as long in calibrated.bfr,
# its runs in calibrated.runs, and a single run in calibrated.once.bfr; and
# make.sh -m SHARE DIR [NAME...] runs each that is there again and again for a minute, with --calibrate=SHARE (0%: samples
# alone), and prints block overlap, edge overlap, the share of samples within 10 % and what calibration took; it needs jq; and
# make.sh -s DIR [NAME...] adds what callgrind simulates of caches and a branch predictor in a run: simulated.gz.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
timing='' calibrating='' simulating='' minute=''
case ${1:-} in
-t) timing=1 && shift ;;
-c) calibrating=1 && shift ;;
-s) simulating=1 && shift ;;
-m) minute=${2:?SHARE} && shift 2 ;;
esac
dir=$(realpath -m "${1:?DIR}")
shift
mkdir -p "$dir/.work"
work=$dir/.work
# It is not "$work/backfeed", which some programs read.
(cd "$root" && go build -o "$work/recorder" ./cmd/backfeed)
# callgrind knows no AVX-512: libc, Go and OpenSSL are to choose the same routines in both runs.
export GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512CD,-AVX512DQ
export OPENSSL_ia32cap=~0x200000200000000:~0xffffffffffffffff
# Nothing else is to differ between two runs either.
export GOMAXPROCS=1 GODEBUG=asyncpreemptoff=1,cpu.avx512f=off,cpu.rdtscp=off PERL_HASH_SEED=0 PYTHONHASHSEED=0 LC_ALL=C.UTF-8
export GUILE_JIT_THRESHOLD=-1 GUILE_AUTO_COMPILE=0

if [ -z "$calibrating$simulating$minute" ]; then
	(cd "$root" && go build -o "$work/backfeed" ./cmd/backfeed && go test -c -o "$work/infer.test" ./infer)
	. "$here/inputs.sh"
fi

# name; package of Debian, "-" for none, or Go package with the version of its module; runs to record; command
table() {
	cat <<END
copy - 30 $work/constructed copy 300
random - 25 $work/constructed random 40
two - 4 $work/constructed two 60
twice - 50 $work/constructed twice 50
rare - 40 $work/constructed rare 60
nested - 120 $work/constructed nested 50
divide - 20 $work/constructed divide 60
costs - 15 $work/constructed costs 40
switch - 25 $work/constructed switch 20
fib - 300 $work/constructed fib 33
arms - 15 $work/constructed arms 40
chase - 3 $work/constructed chase 12
small - 1 $work/constructed small 30
indirect - 30 $work/constructed indirect 200
stores - 12 $work/constructed stores 200
hot - 40 $work/constructed hot 100
gotwice ./testdata/programs/twice 50 $work/gotwice
perl perl-base 80 perl $work/in.pl $work/text
gawk gawk 70 gawk -f $work/words.awk $work/text
mawk mawk 150 mawk -f $work/words.awk $work/text
jq jq 12 jq -nf $work/in.jq
python3 python3-minimal 80 /usr/bin/python3 $work/in.py $work/text
tclsh tcl 100 tclsh $work/in.tcl
lua lua5.4 35 lua5.4 $work/in.lua
bc bc 5 bc -lq $work/in.bc
sqlite3 sqlite3 60 sqlite3 -init $work/in.sql :memory: .quit
gzip gzip 60 gzip -9c $work/text
gunzip gzip 50 gzip -dc $work/big.gz
bzip2 bzip2 50 bzip2 -9c $work/text
bunzip2 bzip2 40 bzip2 -dc $work/text.bz2
xz xz-utils 50 xz -3c $work/short
lz4 lz4 60 lz4 -9c $work/text
zstd zstd 60 zstd -12 -c $work/text
brotli brotli 80 brotli -6 -c $work/text
sort coreutils 250 sort $work/text
wc coreutils 80 wc $work/big
od coreutils 50 od -c $work/short
sha256 coreutils 100 sha256sum $work/big
grep grep 150 grep -cE [a-z]+\\.[A-Z][a-z]+\\(.*err $work/big
sed sed 150 sed -E s/([a-z]+)\\.([A-Z][a-z]+)/\\2.\\1/g $work/short
diff diffutils 200 diff -d $work/text $work/changed
objdump binutils 80 objdump -d $work/constructed /usr/bin/sort
readelf binutils 150 readelf -aW $work/backfeed
cc1 gcc-12 40 /usr/lib/gcc/x86_64-linux-gnu/12/cc1 -quiet -imultiarch x86_64-linux-gnu -O2 $here/constructed.c -o /dev/null
xmllint libxml2-utils 250 xmllint --noout --xpath sum(//v) $work/in.xml
dot graphviz 2 dot -Tplain $work/in.dot
git git 100 git -C $root diff --stat --no-index $work/text $work/changed
ripgrep ripgrep 400 rg -j1 -c [a-z]+\\.[A-Z][a-z]+\\(.*err $work/big
bat bat 8 batcat --no-config --color=always --style=plain --paging=never -l go $work/short
fd fd-find 60 fdfind -j1 --no-ignore [0-9].*h$ /usr
hexyl hexyl 150 hexyl --color=never --no-squeezing $work/text
sd sd 400 sd -p ([a-z]+)\\.([A-Z][a-z]+) \$2.\$1 $work/text
goldmark github.com/yuin/goldmark@v1.8.7 30 $work/goldmark $work/in.md 200
gopherlua github.com/yuin/gopher-lua@v1.1.1 35 $work/gopherlua $root/testdata/lua/script.lua 100
gojq github.com/itchyny/gojq@v0.12.17 35 $work/gojq $root/testdata/gojq/script.jq 200
yaml gopkg.in/yaml.v3@v3.0.1 40 $work/yaml $root/infer/machine/models/amd-zen4.yaml 120
deflate github.com/klauspost/compress@v1.20.3 40 $work/deflate $work/in.md 150
shfmt mvdan.cc/sh/v3/cmd/shfmt@v3.12.0 80 $work/shfmt $work/in.sh
minify github.com/tdewolff/minify/v2/cmd/minify@v2.24.0 200 $work/minify --type=html $work/in.html
gofmt cmd/gofmt 25 $work/gofmt $root/infer $root/sample
gocompile cmd/compile 40 $work/gocompile -p unicode -complete -c=1 -o /dev/null $(go env GOROOT)/src/unicode/tables.go $(go env GOROOT)/src/unicode/letter.go $(go env GOROOT)/src/unicode/graphic.go $(go env GOROOT)/src/unicode/digit.go $(go env GOROOT)/src/unicode/casetables.go
backfeed ./cmd/backfeed 60 $work/backfeed.go infer $root/testdata/mix/samples.bfr --symfs $root/testdata/mix
ruby ruby 50 ruby --disable-gems $work/in.rb $work/text
php php-cli 150 php $work/in.php $work/text
guile guile-3.0 40 guile $work/in.scm
dc dc 30 dc $work/in.dc
m4 m4 80 m4 -L0 $work/in.m4
troff groff-base 35 troff -man -Tutf8 $work/in.man
gs ghostscript 150 gs -q -dNOSAFER -dBATCH -dNOPAUSE -sDEVICE=ppmraw -r100 -sOutputFile=/dev/null $work/in.ps
gnuplot gnuplot-nox 10 gnuplot $work/in.gp
glpsol glpk-utils 50 glpsol --math $work/in.mod
minisat minisat 300 minisat -verb=0 $work/in.cnf
xsltproc xsltproc 100 xsltproc $work/in.xsl $work/in.xml
cjpeg libjpeg-turbo-progs 300 cjpeg -optimize -dct float $work/in.ppm
optipng optipng 5 optipng -q -o1 -force -clobber -out $work/out.png $work/in.ppm
flac flac 100 flac -s -8 -c --force-raw-format --endian=little --sign=signed --channels=1 --bps=16 --sample-rate=44100 $work/in.raw
lame lame 15 lame --quiet -r -s 44.1 -m m $work/in.raw -
as binutils 20 as -o /dev/null $work/in.s
nm binutils 40 nm -n /usr/lib/x86_64-linux-gnu/libc.a
gold binutils 100 ld.gold -r -o /dev/null --whole-archive /usr/lib/x86_64-linux-gnu/libc.a
bfd binutils 120 ld.bfd -r -o /dev/null --whole-archive /usr/lib/x86_64-linux-gnu/libc.a
nasm nasm 25 nasm -f elf64 -o /dev/null $work/in.asm
openssl openssl 70 openssl dgst -sha3-256 $work/backfeed
tidy tidy 35 tidy -q --show-warnings no $work/in.html
END
}

# built NAME PACKAGE FILE: builds a Go program into FILE as valgrind wants it, with the main.go of testdata if PACKAGE
# is no command.
built() {
	local src=$work/src/$1 path=${2%@*}
	case $2 in
	*@*)
		mkdir -p "$src"
		cd "$src"
		[ -f go.mod ] || go mod init "$1"
		go get "$2"
		if [[ $path != */cmd/* ]]; then
			cp "$root/testdata/${1#gopher}/main.go" .
			path=.
		fi
		;;
	*) cd "$root" ;;
	esac
	go build -tags valgrind -o "$work/$3" "$path"
}

# have NAME PACKAGE COMMAND: gets the program, or says why not.
have() {
	case $2 in
	-) return 0 ;;
	*/*)
		[ -e "$3" ] || (built "$1" "$2" "$(basename "$3")") >"$work/log" 2>&1 || { echo "$1: $(tail -1 "$work/log")"; return 1; }
		;;
	*)
		dpkg-query -W "$2" >/dev/null 2>&1 || DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$2" >/dev/null 2>&1 ||
			{ echo "$1: package $2 is not to be had"; return 1; }
		;;
	esac
}

# recorded FILE RUNS COMMAND...: records, with flags, so many runs into a file.
recorded() {
	local file=$1 runs=$2
	shift 2
	# Not to /dev/null: grep does nothing then but look for one match.
	"$work/recorder" record "${flags[@]}" -o "$file" -- sh -c 'n=$1; shift; while [ $n -gt 0 ]; do "$@" >"$0"; n=$((n-1)); done' \
		"$work/out" "$runs" "$@" >/dev/null 2>"$work/log" </dev/null || true
	[ -s "$file" ] || { echo "$name: $(tail -1 "$work/log")"; return 1; }
}

# counted FLAG... -- COMMAND...: has callgrind count one run, into $work/callgrind.
counted() {
	local count=()
	while [ "$1" != -- ]; do
		count+=("$1")
		shift
	done
	shift
	# Without --skip-plt=no, what runs in procedure linkage tables is not counted.
	nice valgrind -v -v --log-file="$work/valgrind" --tool=callgrind --dump-instr=yes --dump-line=no --compress-pos=no --skip-plt=no \
		"${count[@]}" --callgrind-out-file="$work/callgrind" "$@" >"$work/out" 2>&1 </dev/null || true
}

# scored OUT COMMAND...: records a minute of it, and prints how near what is inferred is to the exact counts.
scored() {
	local out=$1 flags=()
	shift
	[ "$minute" = 0% ] || flags=(--calibrate="$minute")
	"$work/recorder" record "${flags[@]}" -d 60s -o "$out/minute.bfr" -- sh -c 'while :; do "$@" >"$0"; done' "$work/out" "$@" \
		>/dev/null 2>"$work/log" </dev/null || true
	gunzip -c "$out/truth.json.gz" >"$work/callgrind"
	if "$work/recorder" infer "$out/minute.bfr" --symfs "$out/symfs" --format json -o "$work/counts.json" 2>>"$work/log" &&
		"$work/recorder" verify "$work/counts.json" --truth "$work/callgrind" --symfs "$out/symfs" --samples "$out/minute.bfr" --format json \
			>"$work/verified" 2>>"$work/log"; then
		echo "$name $(jq -r '[.block_overlap, .edge_overlap, .within10] | map(. * 1000 | round / 1000 | tostring) | join(" ")' "$work/verified")" \
			"$(sed -n 's/^backfeed: calibration took //p' "$work/log")"
	else
		echo "$name: $(tail -1 "$work/log")"
	fi
	rm -f "$work/callgrind" "$work/counts.json"
}

# make NAME PACKAGE RUNS COMMAND...
make() {
	local name=$1 package=$2 runs=$3 out=$dir/$1 path flags=(-F 9973)
	shift 3
	if [ -n "$calibrating" ]; then
		[ -e "$out/truth.json.gz" ] && [ ! -e "$out/calibrated.runs" ] || return 0
		flags=(--calibrate=10%)
		recorded "$out/calibrated.once.bfr" 1 "$@" || true
		recorded "$out/calibrated.bfr" $((3 * runs)) "$@" || return 0
		echo $((3 * runs)) >"$out/calibrated.runs"
		sed -n "s/^backfeed: \(executions were counted.*\|.* walks .*\)/$name: \1/p" "$work/log"
		return 0
	fi
	if [ -n "$minute" ]; then
		[ ! -e "$out/truth.json.gz" ] || scored "$out" "$@"
		return 0
	fi
	if [ -n "$simulating" ]; then
		[ -e "$out/truth.json.gz" ] && [ ! -e "$out/simulated.gz" ] || return 0
		counted --cache-sim=yes --branch-sim=yes -- "$@"
		gzip -nc "$work/callgrind" >"$out/simulated.gz"
		rm -f "$work/callgrind"
		return 0
	fi
	[ -n "$timing" ] || [ ! -e "$out/truth.json.gz" ] || return 0
	have "$name" "$package" "$1" || return 0
	if [ -n "$timing" ]; then
		local TIMEFORMAT="$name: %U s, $runs runs"
		time "$@" >"$work/out" 2>"$work/log" </dev/null || { echo "$name fails:"; tail -3 "$work/log"; }
		return 0
	fi
	mkdir -p "$out/symfs"
	if [ ! -e "$out/samples.bfr" ]; then
		recorded "$out/samples.bfr" "$runs" "$@" || return 0
		echo "$runs" >"$out/runs"
	fi
	counted --collect-jumps=yes -- "$@"
	"$work/recorder" images "$out/samples.bfr" --format json | sed -n 's/.*"path": "\(\/[^"]*\)".*/\1/p' | sort -u | while read -r path; do
		[ -f "$path" ] && mkdir -p "$out/symfs$(dirname "$path")" && cp -L "$path" "$out/symfs$path"
	done
	[ ! -s "$work/callgrind" ] || gawk -f "$here/plt.awk" "$work/valgrind" "$work/callgrind" | gzip -n >"$out/truth.json.gz"
	rm -f "$work/callgrind"
	if (cd "$root/infer" && "$work/infer.test" -test.run '^TestSamplesRan$' -test.v -sets="$out") >"$work/log" 2>&1; then
		sed -n 's/^ *ran_test.go:[0-9]*: //p' "$work/log"
	else # such a set judges nothing
		sed -n 's/^ *ran_test.go:[0-9]*: /thrown out: /p' "$work/log" | tail -1
		rm -rf "$dir/.out/$name" && mkdir -p "$dir/.out" && mv "$out" "$dir/.out/$name"
	fi
	lists
}

# lists writes the three lists of what is there.
lists() {
	local name package turn=held
	local -A list=([constructed]= [dev]= [held]=)
	while read -r name package _; do
		if [ "$package" = - ] || [ "$name" = gotwice ]; then
			to=constructed
		else
			turn=$([ "$turn" = dev ] && echo held || echo dev)
			to=$turn
		fi
		[ ! -e "$dir/$name/truth.json.gz" ] || list[$to]+=${list[$to]:+,}$dir/$name
	done < <(table)
	for to in "${!list[@]}"; do echo "${list[$to]}" >"$dir/$to.txt"; done
}

while read -r name package runs command; do
	[ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
	read -ra words <<<"$command"
	make "$name" "$package" "$runs" "${words[@]}"
done < <(table)
