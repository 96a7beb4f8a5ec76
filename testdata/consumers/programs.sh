# programs.sh is sourced by scripts that measure: it brings the programs that they
# measure, and how they are built and recorded. It wants $program, the directory
# $dir to work in and the directory $testdata; it leaves the shell in $dir, with
# backfeed in it.
#
#   sqlite   C, its amalgamation out of the Go module github.com/mattn/go-sqlite3
#   zstd     C, out of the Go module github.com/DataDog/zstd
#   jsonnet  C++ with templates and exceptions, Debian's source package
#   tcc      C, a compiler of many functions, Debian's source package
llvm=/usr/lib/llvm-19/bin
if [ -z "$dir" ]; then
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
fi
mkdir -p "$dir/src"
(cd "$testdata/.." && go build -o "$dir/backfeed" ./cmd/backfeed)
cd "$dir"

# module prints the directory of a Go module's files.
module() {
	printf 'module none\n' >go.mod
	go mod download -json "$1" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p'
}

# debian downloads a source package of Debian 12.
debian() {
	printf 'deb-src http://deb.debian.org/debian bookworm main\n' >sources.list
	local apt=(-qq -o "Dir::Etc::SourceList=$dir/sources.list" -o Dir::Etc::SourceParts=/dev/null
		-o "Dir::State::Lists=$dir/lists" -o APT::Sandbox::User=root)
	mkdir -p lists/partial
	apt-get "${apt[@]}" update
	apt-get "${apt[@]}" source --download-only "$1"
}

# Per program: its sources, flags, and the arguments of a sampled and of a counted run.
clang=clang-19 gcc=gcc-12
case $program in
sqlite)
	from=$(module github.com/mattn/go-sqlite3@v1.14.52)
	cp "$from/sqlite3-binding.c" src/sqlite3.c
	cp "$from/sqlite3-binding.h" src/sqlite3.h
	cp "$testdata/sqlite/sqlbench.c" src
	flags=(-DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION)
	runs=18 sampled=(100000) counted=(20000)
	;;
zstd)
	from=$(module github.com/DataDog/zstd@v1.5.7)
	cp "$from"/{*.c,*.h} "$testdata/consumers/zstdbench.c" src
	cat "$from"/*.[ch] >input
	rm -f src/zstd_v0* src/zbuff* src/*cover* src/divsufsort* src/zdict.c
	flags=(-DZSTD_LEGACY_SUPPORT=0 -DZSTD_DISABLE_ASM)
	runs=1 sampled=(input 3 60) counted=(input 3 3)
	;;
jsonnet)
	clang=$llvm/clang++ gcc=g++-12
	debian jsonnet=0.18.0+ds-3
	tar xf jsonnet_0.18.0+ds.orig.tar.xz
	from=jsonnet-0.18.0
	g++-12 -o to_c_array "$from/stdlib/to_c_array.cpp"
	./to_c_array "$from/stdlib/std.jsonnet" "$from/core/std.jsonnet.h"
	cp "$from"/core/{desugarer,formatter,lexer,libjsonnet,parser,pass,static_analysis,string_utils,vm}.cpp \
		"$from/third_party/md5/md5.cpp" "$testdata/consumers/jsonnetbench.cpp" src
	yaml=$dir/$from/third_party/rapidyaml/rapidyaml
	for f in "$yaml"/src/c4/yml/*.cpp "$yaml"/ext/c4core/src/c4/*.cpp; do cp "$f" "src/yaml_${f##*/}"; done
	flags=(-std=c++17 -w "-I$dir/$from/core" "-I$dir/$from/include" "-I$dir/$from/third_party/md5"
		"-I$dir/$from/third_party/json" "-I$yaml/src" "-I$yaml/ext/c4core/src")
	runs=1 sampled=(15) counted=(1)
	;;
tcc)
	debian tcc=0.9.27+git20200814.62c30a4a-1
	mkdir -p tcc.src
	tar xf tcc_0.9.27+git20200814.62c30a4a.orig.tar.bz2 -C tcc.src
	cp tcc.src/{tcc,libtcc,tccpp,tccgen,tccelf,tccasm,tccrun,x86_64-gen,x86_64-link,i386-asm}.c tcc.src/*.{h,def} src
	printf '#define TCC_VERSION "0.9.27"\n#define CONFIG_TCCDIR "%s"\n' "$dir/tcc.src" >src/config.h
	from=$(module github.com/mattn/go-sqlite3@v1.14.52)
	cp "$from/sqlite3-binding.c" "$from/sqlite3-binding.h" .
	flags=(-w -DTCC_TARGET_X86_64 -DONE_SOURCE=0 "-I$dir/tcc.src")
	include=(-I /usr/include/x86_64-linux-gnu -I src)
	runs=60 sampled=("${include[@]}" -c sqlite3-binding.c -o out.o)
	counted=("${include[@]}" -DTCC_TARGET_X86_64 -c tcc.src/tcc.c -o out.o) # itself
	;;
*)
	echo "measure.sh: no program $program" >&2
	exit 2
	;;
esac

# build NAME COMPILER FLAG... compiles all sources, two at a time, and links them.
build() {
	local name=$1 compiler=$2
	shift 2
	mkdir -p "$name.o"
	printf '%s\n' src/*.c src/*.cpp | grep -v '\*' | xargs -P 2 -I {} sh -c \
		'f=$1 o=$2; shift 2; exec "$@" -c "$f" -o "$o/${f##*/}.o"' sh {} "$name.o" \
		"$compiler" -O2 -ffunction-sections "${flags[@]}" "$@"
	"$compiler" -O2 "$name.o"/*.o -o "$name" -Wl,--build-id "$@" -lm
}

# record NAME samples the program's runs into NAME.data.
record() {
	perf record -q -B -N -e cpu-clock:u -F 4999 -o "$1.data" -- sh -c \
		'n=$1; shift; while [ "$n" -gt 0 ]; do "$@" || exit; n=$((n - 1)); done' sh "$runs" "./$1" "${sampled[@]}" >/dev/null
}
