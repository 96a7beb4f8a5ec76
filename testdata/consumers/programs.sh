# programs.sh is sourced by scripts that measure: it brings the programs that they
# measure, and how they are built and run. It wants $program, the directory
# $dir to work in and the directory $testdata; it leaves the shell in $dir, with
# backfeed in it.
#
#   sqlite   C, its amalgamation out of the Go module github.com/mattn/go-sqlite3
#   zstd     C, out of the Go module github.com/DataDog/zstd
#   jsonnet  C++ with templates and exceptions
#   tcc      C, a compiler of many functions
#   xz       C, compresses and decompresses
#   lua      C, an interpreter with computed gotos, built with ThinLTO
#   redis    C, a server: one process
#   nginx    C, a server: one process
#   markdown Rust, markdown.rs with the crate pulldown-cmark
#   python   C, CPython: an interpreter with computed gotos
#   postgres C, a server: a process for each client
#   minisat  C++, searches: gcc alone is measured of it, as of those below
#   mawk     C, an interpreter
#   bzip2    C, compresses and decompresses
#   gzip     C, compresses and decompresses
#   godoc    Go, a server, for wall.sh alone
#
# Those from jsonnet on are source packages of Debian 12, but for godoc, which is a Go module.
llvm=/usr/lib/llvm-19/bin
if [ -z "$dir" ]; then
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
fi
mkdir -p "$dir/src"
dir=$(realpath "$dir")
(cd "$testdata/.." && go build -o "$dir/backfeed" ./cmd/backfeed)
cd "$dir"

# module prints the directory of a Go module's files.
module() {
	printf 'module none\n' >go.mod
	go mod download -json "$1" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p'
}

. "$testdata/consumers/apt.sh"

# debian downloads a source package, PACKAGE=VERSION, and unpacks what its authors released into TREE.
# VERSION is theirs: Debian's, which continues it, changes with each of its updates.
debian() {
	local in version
	[ -d lists ] || packages bookworm deb-src
	version=$(apt apt-cache showsrc "${1%%=*}" | awk -v released="${1#*=}-" '
		$1 == "Version:" { v = $2; sub(/^[0-9]+:/, "", v); if (index(v, released) == 1) found = $2 }
		END { print found }')
	[ -n "$version" ] || { echo "debian: no source package ${1/=/ }" >&2; return 1; }
	apt apt-get source --download-only "${1%%=*}=$version" >>apt.log
	rm -rf "$2" unpacked && mkdir unpacked
	find . -maxdepth 1 -name "${1%%=*}_*.orig.tar.*" ! -name '*.asc' -exec tar xf {} -C unpacked \;
	in=(unpacked/*) # one directory, mostly
	[ ${#in[@]} -eq 1 ] || in=(unpacked)
	mv "${in[0]}" "$2"
}

# run sampled|trained|counted COMMAND... runs the program, COMMAND, once: to be recorded, for a
# build with counters, or to be counted. Where nothing else is said, COMMAND takes the arguments
# ${sampled[@]}, ${trained[@]} (the same) or ${counted[@]}.
run() {
	local -n arguments=$1
	"${@:2}" "${arguments[@]}"
}

# served READY STOP WORKLOAD COMMAND...: COMMAND serves; once the function READY succeeds, the
# function called WORKLOAD is its client, again and again for $seconds, and the function STOP ends it.
# What it says is in server.log.
served() {
	local ready=$1 stop=$2 workload=$3 process
	"${@:4}" >server.log 2>&1 &
	process=$!
	until "$ready"; do kill -0 "$process" && sleep 0.02 || return; done
	"$workload"
	while ((SECONDS < ${seconds:-0})); do "$workload"; done
	"$stop" && wait "$process"
}

# build NAME COMPILER FLAG... compiles all sources, two at a time, and links them.
build() {
	local name=$1 compiler=("${@:2}" -O2 -ffunction-sections "${flags[@]}" -Wl,--build-id)
	if [ ${#make[@]} -gt 0 ]; then
		rm -rf "$name.tree" && cp -a tree "$name.tree"
		make -s -C "$name.tree" -j 2 "${make[@]}" CC="${compiler[*]}" LINK="${compiler[*]}" >"$name.make" 2>&1 || { tail -n 30 "$name.make" >&2; return 1; }
		cp "$name.tree/$product" "$name"
		return
	fi
	mkdir -p "$name.o"
	printf '%s\n' src/*.c src/*.cpp | grep -v '\*' | xargs -P 2 -I {} sh -c \
		'f=$1 o=$2; shift 2; exec "$@" -c "$f" -o "$o/${f##*/}.o"' sh {} "$name.o" "${compiler[@]}"
	"${compiler[@]}" "$name.o"/*.o -o "$name" "${libs[@]}"
}

# Per program: its sources, flags, and the arguments or clients of its runs. What has a makefile
# names in make what that is to make of $dir/tree, and the file that comes of it in product.
# The flags in generate and the four after it are what the compiler calls its ways with profiles.
clang=(clang-19) gcc=(gcc-12) flags=() make=() libs=(-lm) server=
measured=(base clang bolt propeller gcc afdo) # what measure.sh measures of it
bench=$testdata/consumers/bench
generate=(-fprofile-instr-generate) use=(-fprofile-instr-use) sample=(-fprofile-sample-use)
maps=(-fbasic-block-address-map) clusters=(-fbasic-block-sections=list=)
case $program in
sqlite)
	from=$(module github.com/mattn/go-sqlite3@v1.14.52)
	cp "$from/sqlite3-binding.c" src/sqlite3.c
	cp "$from/sqlite3-binding.h" src/sqlite3.h
	cp "$testdata/sqlite/sqlbench.c" src
	flags=(-DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION)
	sampled=(100000) counted=(20000)
	;;
zstd)
	from=$(module github.com/DataDog/zstd@v1.5.7)
	cp "$from"/{*.c,*.h} "$testdata/consumers/zstdbench.c" src
	cat "$from"/*.[ch] >input
	rm -f src/zstd_v0* src/zbuff* src/*cover* src/divsufsort* src/zdict.c
	flags=(-DZSTD_LEGACY_SUPPORT=0 -DZSTD_DISABLE_ASM)
	sampled=(input 3 6) counted=(input 3 3)
	;;
jsonnet)
	clang=("$llvm/clang++") gcc=(g++-12)
	debian jsonnet=0.18.0+ds jsonnet
	g++-12 -o to_c_array jsonnet/stdlib/to_c_array.cpp
	./to_c_array jsonnet/stdlib/std.jsonnet jsonnet/core/std.jsonnet.h
	cp jsonnet/core/{desugarer,formatter,lexer,libjsonnet,parser,pass,static_analysis,string_utils,vm}.cpp \
		jsonnet/third_party/md5/md5.cpp "$testdata/consumers/jsonnetbench.cpp" src
	yaml=$dir/jsonnet/third_party/rapidyaml/rapidyaml
	for f in "$yaml"/src/c4/yml/*.cpp "$yaml"/ext/c4core/src/c4/*.cpp; do cp "$f" "src/yaml_${f##*/}"; done
	flags=(-std=c++17 -w "-I$dir/jsonnet/core" "-I$dir/jsonnet/include" "-I$dir/jsonnet/third_party/md5"
		"-I$dir/jsonnet/third_party/json" "-I$yaml/src" "-I$yaml/ext/c4core/src")
	sampled=(2) counted=(1)
	;;
tcc)
	debian tcc=0.9.27+git20200814.62c30a4a tcc
	cp tcc/{tcc,libtcc,tccpp,tccgen,tccelf,tccasm,tccrun,x86_64-gen,x86_64-link,i386-asm}.c tcc/*.{h,def} src
	printf '#define TCC_VERSION "0.9.27"\n#define CONFIG_TCCDIR "%s"\n' "$dir/tcc" >src/config.h
	from=$(module github.com/mattn/go-sqlite3@v1.14.52)
	cp "$from/sqlite3-binding.c" "$from/sqlite3-binding.h" .
	flags=(-w -DTCC_TARGET_X86_64 -DONE_SOURCE=0 "-I$dir/tcc")
	include=(-I /usr/include/x86_64-linux-gnu -I src)
	sampled=("${include[@]}" -c sqlite3-binding.c -o out.o)
	counted=("${include[@]}" -DTCC_TARGET_X86_64 -c tcc/tcc.c -o out.o) # itself
	;;
xz)
	debian xz-utils=5.4.1 xz
	(cd xz && ./configure -q --disable-nls --disable-threads >configured.log 2>&1)
	cp xz/src/liblzma/{check,common,delta,lz,lzma,rangecoder,simple}/*.[ch] xz/src/xz/*.[ch] xz/src/common/{tuklib_*,mythread,sysdefs}*.[ch] xz/config.h src
	rm -f src/*tablegen.c src/*_small.c src/{stream_encoder_mt,stream_decoder_mt,outqueue}.c
	flags=(-w -DHAVE_CONFIG_H -DTUKLIB_SYMBOL_PREFIX=lzma_ -DLOCALEDIR='""' -Isrc "-I$dir/xz/src/liblzma/api")
	from=$(module github.com/mattn/go-sqlite3@v1.14.52)
	head -c 1500000 "$from/sqlite3-binding.c" >sampled.in
	tail -c 400000 "$from/sqlite3-binding.c" >counted.in
	run() {
		"${@:2}" -6 -c "${1/trained/sampled}.in" >out.xz && cat out.xz
		[ "$1" = counted ] || for _ in {1..8}; do "${@:2}" -dc out.xz; done
	}
	;;
lua)
	# Code is made when all is linked: it is the linker that is to know of blocks.
	clang+=(-flto=thin) gcc+=(-flto) maps=(-Wl,--lto-basic-block-address-map) clusters=(-Wl,--lto-basic-block-sections=)
	debian lua5.4=5.4.4 lua
	cp lua/src/*.[ch] src
	rm src/luac.c
	flags=(-DLUA_USE_POSIX)
	work() { printf "dofile('$testdata/lua/script.lua') local s = 0 for i = 1, %d do s = s + work() end print(s)" "$1"; }
	sampled=(-e "$(work 1500)") counted=(-e "$(work 300)")
	;;
mujs)
	debian mujs=1.3.2 mujs
	cp mujs/*.[ch] src
	rm src/{one,pp}.c
	cp "$testdata/consumers/work.js" .
	flags=(-w)
	sampled=(work.js 1500) counted=(work.js 150)
	;;
redis)
	server=yes
	make=(-C src redis-server MALLOC=libc USE_SYSTEMD=no OPTIMIZATION=) product=src/redis-server
	[ -d tree ] || {
		debian redis=7.0.15 tree
		cp -a tree clients
		make -s -C clients/src -j 2 redis-cli redis-benchmark MALLOC=libc USE_SYSTEMD=no >clients.log 2>&1
		cp clients/src/redis-cli client
		cp clients/src/redis-benchmark benchmark
	}
	# Requests of many kinds, to keys of which some are there.
	awk -v n=300000 'BEGIN { srand(1); while (n--) {
		k = int(5000 * rand()); v = int(1e6 * rand()); what = int(16 * rand())
		if (what < 2) print "SET s" k, "value-" v
		else if (what < 5) print "GET s" k
		else if (what == 5) print "INCRBY n" k % 100, v
		else if (what == 6) print "HSET h" k % 200, "f" v % 300, v
		else if (what == 7) print "HGET h" k % 200, "f" v % 300
		else if (what == 8) print "ZADD z" k % 100, v, "m" v % 1000
		else if (what == 9) print "ZRANGE z" k % 100, 0, 10, "WITHSCORES"
		else if (what == 10) print "RPUSH l" k % 100, v
		else if (what == 11) print "LRANGE l" k % 100, 0, 20
		else if (what == 12) print "SADD t" k % 100, "e" v % 500
		else if (what == 13) print "SISMEMBER t" k % 100, "e" v % 500
		else if (what == 14) print "EXPIRE s" k, 100000
		else print "LPOP l" k % 100 } }' >sampled.in
	head -n 60000 sampled.in >trained.in
	tail -n 20000 sampled.in >counted.in
	client() { ./client -s "$dir/socket" "$@"; }
	ready() { [ "$(client ping 2>/dev/null)" = PONG ]; }
	stop() { client shutdown nosave; }
	requests() {
		client --pipe <"$1.in" >client.log
		client debug digest
	}
	sampled() { requests sampled; }
	trained() { requests trained; }
	counted() { requests counted; }
	run() { served ready stop "$@" --port 0 --unixsocket "$dir/socket" --save '' --enable-debug-command yes; }
	;;
nginx)
	server=yes
	[ -d tree ] || {
		debian nginx=1.22.1 tree
		(cd tree && ./configure --without-http_rewrite_module --with-cc=gcc-12 --with-cc-opt=-w >configured.log)
	}
	make=(-f objs/Makefile 'CFLAGS=-w' objs/nginx) product=objs/nginx
	mkdir -p site/www/pages site/logs
	for i in {1..200}; do
		seq "$((i * 7))" >"site/www/pages/$i.txt"
		printf '<!--# set var="n" value="%d" --><h1><!--# echo var="n" --></h1><!--# if expr="$n = 7" -->seven<!--# else -->%d<!--# endif --><!--# include virtual="/pages/%d.txt" -->\n' "$i" "$i" "$i" >"site/www/$i.shtml"
	done
	cat >site/nginx.conf <<-END
		daemon off; master_process off; pid site.pid; error_log logs/error.log;
		events { worker_connections 64; }
		http {
		    types { text/html shtml html; text/plain txt; }
		    access_log logs/access.log; keepalive_requests 100000; client_body_temp_path t; proxy_temp_path t;
		    upstream self { server unix:$dir/site/socket; keepalive 4; }
		    server {
		        listen unix:$dir/site/socket; root www; ssi on; gzip on; gzip_min_length 1000;
		        location /list/ { alias www/pages/; autoindex on; autoindex_format json; }
		        location /p/ { proxy_pass http://self/; proxy_http_version 1.1; proxy_set_header Connection ""; }
		        location /kind { add_header X-Kind a; try_files /none /1.shtml; }
		    }
		}
	END
	client() { curl -sS --unix-socket "$dir/site/socket" "$@"; }
	ready() { client -o /dev/null http://x/ 2>/dev/null || [ $? = 22 ]; }
	stop() { kill -QUIT "$(cat site/site.pid)"; }
	requests() { # requests TIMES
		local again="?[1-$1]"
		client "http://x/pages/[1-200].txt$again"
		client --compressed "http://x/[1-100].shtml$again"
		client "http://x/p/pages/[1-100].txt$again" "http://x/kind$again" "http://x/none/[1-50]$again"
		client -I "http://x/[1-200].shtml$again" | sed '/^Date\|^Last-Mod\|^ETag/d'
		client http://x/list/ | sed 's/"mtime[^}]*//'
	}
	sampled() { requests 10; }
	trained() { requests 5; }
	counted() { requests 1; }
	run() { served ready stop "$@" -p "$dir/site" -c nginx.conf; }
	;;
markdown)
	[ -d lists ] || packages bookworm deb-src deb
	apt apt-get -y --download-only --no-install-recommends install 'librust-pulldown-cmark-dev=0.9.2-1*'
	for package in debs/librust-*.deb; do dpkg-deb -x "$package" crates; done
	# Debian's rustc is of the LLVM of clang-19, whose tools can then read what its builds with counters write.
	(cd debs && apt apt-get download rustc-web=1.85.* libstd-rust-web-1.85 libstd-rust-web-dev=1.85.* cargo-web=1.85.* libpcre3 libhttp-parser2.9)
	for package in debs/{rustc-web,libstd-rust-web,cargo-web,libpcre3,libhttp-parser2.9}[_-]*.deb; do dpkg-deb -x "$package" rust; done
	rust=$dir/rust
	mkdir -p tree/src .cargo
	cp "$testdata/consumers/markdown.rs" tree/src/main.rs
	cat >tree/Cargo.toml <<-END
		[package]
		name = "markdown"
		version = "1.0.0"
		edition = "2021"
		[dependencies]
		pulldown-cmark = { version = "0.9.2", default-features = false }
		[profile.release]
		debug = true # or cargo strips what rustc was told to write
	END
	cat >.cargo/config.toml <<-END
		[source.crates-io]
		replace-with = "debian"
		[source.debian]
		directory = "$dir/crates/usr/share/cargo/registry"
	END
	# build takes what rustc knows of the flags for clang. Named flags for a target are not for what is run to build.
	build() {
		local flag flags=(-Zdebug-info-for-profiling -Csymbol-mangling-version=v0 -Ccodegen-units=1 "-Clinker=$rust/linker" -Clink-arg=-Wl,--build-id)
		for flag in "${@:2}"; do
			case $flag in
			-Wl,*) flags+=("-Clink-arg=$flag") ;;
			-C* | -Z*) flags+=("$flag") ;;
			esac
		done
		RUSTC_BOOTSTRAP=1 RUSTC=$rust/usr/bin/rustc LD_LIBRARY_PATH=$rust/usr/lib/x86_64-linux-gnu:$rust/lib/x86_64-linux-gnu RUSTFLAGS="${flags[*]}" \
			"$rust/usr/bin/cargo" build -q --release --offline --manifest-path tree/Cargo.toml \
			--target x86_64-unknown-linux-gnu --target-dir "$dir/$1.target" >"$1.make" 2>&1 || { tail -n 30 "$1.make" >&2; return 1; }
		cp "$1.target/x86_64-unknown-linux-gnu/release/markdown" "$1"
	}
	# LD_LIBRARY_PATH is not for the linker. Debian's rustc has no runtime for counters: clang's is of the same LLVM.
	printf '#!/bin/sh\nunset LD_LIBRARY_PATH\nexec clang-19 -fuse-ld=lld "$@"\n' >rust/linker
	chmod +x rust/linker
	generate=("-Cprofile-generate=$dir/raw" -Zno-profiler-runtime -Clink-arg=-fprofile-generate) use=(-Cprofile-use) sample=(-Cllvm-args=-sample-profile-use-profi -Zprofile-sample-use) maps=() measured=(base clang bolt)
	text=$(module github.com/mattn/go-sqlite3@v1.14.52)/README.md
	sampled=("$text" 4000) counted=("$text" 300)
	;;
python)
	[ -d tree ] || {
		debian python3.11=3.11.2 tree
		printf '*static*\nmath mathmodule.c\n_struct _struct.c\n_json _json.c\n' >tree/Modules/Setup.local
		(cd tree && ./configure -q --disable-test-modules --without-ensurepip CC=gcc-12 >configured.log 2>&1)
	}
	make=(python 'OPT=-DNDEBUG -fwrapv -w') product=python
	mkdir -p home/lib && ln -sfn "$dir/tree/Lib" home/lib/python3.11
	run() {
		local times=20
		[ "$1" != counted ] || times=2
		PYTHONHOME=$dir/home PYTHONHASHSEED=0 "${@:2}" -S -B "$bench.py" "$times"
	}
	;;
postgres)
	server=yes
	# Debian's postgresql-15 has initdb, psql, and the files of the installation. None of them likes to be called by root.
	installed=/usr/lib/postgresql/15
	[ -d tree ] || {
		debian postgresql-15=15.18 tree
		(cd tree && ./configure -q --prefix="$installed" --datadir=/usr/share/postgresql/15 --libdir="$installed/lib" --with-system-tzdata=/usr/share/zoneinfo \
			--without-readline --without-zlib --without-icu CC=gcc-12 >configured.log 2>&1)
		sed -i 's/check_root(progname);/(void)check_root;/' tree/src/backend/main/main.c
		# With several jobs, its makefile lacks a rule, and makes links to headers twice.
		sed -i 's|^\(.*\)/src/port/libpgport_srv.a: .*|&\n\1/src/common/libpgcommon_srv.a: \| submake-libpgport|' tree/src/backend/Makefile
		make -s -C tree/src/backend generated-headers >>configured.log 2>&1
	}
	make=(-C src/backend COPT=-w) product=src/backend/postgres # CFLAGS here would undo those of single files
	rm -rf pristine && mkdir pristine && chown nobody pristine && chmod a+x "$dir"
	setpriv --reuid=nobody --clear-groups "$installed/bin/initdb" -D "$dir/pristine" --no-sync --locale=C --auth=trust -U postgres >initdb.log
	chown -R "$(id -u)" pristine
	client() { psql -q -h "$dir/data" -U postgres "$@"; }
	ready() { client -c '' 2>/dev/null; }
	stop() { kill -INT "$(head -n 1 data/postmaster.pid)"; }
	# What is sampled is served by a process for each client; what is counted is one process alone.
	sampled() { client -f "$bench.sql"; }
	run() {
		rm -rf data && cp -a pristine data
		case $1 in
		sampled) served ready stop "$@" -D "$dir/data" -F -k "$dir/data" -c listen_addresses= ;;
		*) "${@:2}" --single -D "$dir/data" -F postgres <"$bench.sql" 2>server.log ;;
		esac
	}
	;;
minisat)
	gcc=(g++-12) measured=(gcc afdo)
	debian minisat2=2.2.1 minisat
	cp minisat/minisat/core/{Main,Solver}.cc minisat/minisat/utils/{Options,System}.cc src
	for f in src/*.cc; do mv "$f" "${f%.cc}.cpp"; done
	flags=(-w -D__STDC_LIMIT_MACROS -D__STDC_FORMAT_MACROS -fpermissive "-I$dir/minisat") libs=(-lz)
	# Formulas of three literals a clause, near where half of them can be satisfied.
	for seed in {1..4}; do
		awk -v seed="$seed" -v n=220 'BEGIN { srand(seed); m = int(4.26 * n); print "p cnf", n, m
			while (m--) { for (i = 0; i < 3; i++) printf "%d ", (rand() < 0.5 ? -1 : 1) * (1 + int(n * rand())); print 0 } }' >"$seed.cnf"
	done
	run() {
		local seed seeds=(1 2 3)
		[ "$1" != counted ] || seeds=(4)
		for seed in "${seeds[@]}"; do "${@:2}" -verb=0 "$seed.cnf" model >/dev/null || [ $? -lt 30 ] && cat model; done
	}
	;;
mawk)
	measured=(gcc afdo)
	[ -d tree ] || {
		debian mawk=1.3.4.20200120 tree
		(cd tree && CC=gcc-12 ./configure -q >configured.log 2>&1)
	}
	make=(mawk CFLAGS=-w) product=mawk
	cat >words.awk <<-'END'
		{ gsub(/[^A-Za-z_ ]/, " "); for (i = 1; i <= NF; i++) n[tolower($i)]++; chars += length($0) }
		/static/ { s[substr($2, 1, 3)] += NF }
		END { for (w in n) { all++; sum += n[w] * length(w) }; for (w in s) t += s[w]; print NR, all, sum, t, chars }
	END
	from=$(module github.com/mattn/go-sqlite3@v1.14.52)
	tail -c 1000000 "$from/sqlite3-binding.c" >counted.in
	sampled=(-f words.awk "$from/sqlite3-binding.c") counted=(-f words.awk counted.in)
	;;
bzip2 | gzip)
	measured=(gcc afdo)
	from=$(module github.com/mattn/go-sqlite3@v1.14.52)
	head -c 3000000 "$from/sqlite3-binding.c" >sampled.in
	tail -c 1000000 "$from/sqlite3-binding.c" >counted.in
	run() {
		"${@:2}" -6 -c <"${1/trained/sampled}.in" >small && cksum small
		[ "$1" = counted ] || for _ in {1..3}; do "${@:2}" -dc <small >large; done
		"${@:2}" -dc <small
	}
	if [ "$program" = bzip2 ]; then
		debian bzip2=1.0.8 bzip2
		cp bzip2/{blocksort,bzip2,bzlib,compress,crctable,decompress,huffman,randtable}.c bzip2/*.h src
		flags=(-w -D_FILE_OFFSET_BITS=64 -fno-tree-loop-vectorize) # gcc 12 fails to vectorise compress.c by an .afdo file
	else
		[ -d tree ] || {
			debian gzip=1.12 tree
			# Its library, of functions that the C library lacks, and its version are the same in all builds.
			(cd tree && CC=gcc-12 ./configure -q && make -s version.h version.c && make -s -C lib) >configured.log 2>&1
		}
		make=(CFLAGS=-w gzip) product=a.out # its makefile has the name in LINK
	fi
	;;
godoc)
	server=yes
	url=http://127.0.0.1:6061
	[ -f go.mod ] || {
		go mod init godoc
		go get golang.org/x/tools/cmd/godoc@v0.1.0-deprecated
	} >module.log 2>&1
	build() { go build -pgo="$2" -o "$1" golang.org/x/tools/cmd/godoc; }
	printf 'local pages, i = {"errors", "io", "path", "sort", "bufio", "context"}, 0
request = function()
  i = i %% #pages + 1
  return wrk.format("GET", "/pkg/" .. pages[i] .. "/")
end
' >pages.lua
	client() { wrk -t 1 -c 4 -s pages.lua --latency "$@" "$url"; }
	ready() { curl -sf -m 10 -o /dev/null "$url/pkg/errors/"; }
	stop() { kill "$(pgrep -P "$process" -x base || echo "$process")"; }
	# Its first run under load has runtime/pprof sample, too.
	sampled() {
		[ -f runtime.pprof ] || curl -s -o runtime.pprof "$url/debug/pprof/profile?seconds=$((seconds - 5))" &
		client -d "${seconds}s" >client.log && wait $! && answered=yes
	}
	# Only a signal ends it, so how it ends says nothing.
	run() {
		answered=
		GOMAXPROCS=1 served ready stop "$1" "${@:2}" "-http=${url#http://}" -goroot="$(go env GOROOT)" || [ -n "$answered" ]
	}
	;;
*)
	echo "measure.sh: no program $program" >&2
	exit 2
	;;
esac
[ -n "${trained+set}" ] || [ -z "${sampled+set}" ] || trained=("${sampled[@]}")

# run.sh is called by other programs: run.sh WORKLOAD COMMAND...
{ declare -p dir bench; declare -p sampled trained counted url 2>/dev/null || true; declare -f; } >functions.sh
echo '. "'"$dir"'/functions.sh" && run "$@"' >run.sh

# looped SECONDS COMMAND... runs it again and again, for so long of its processor time and at most
# three times as long; it is what those who record call.
looped=(bash -c '
	end=$1 used=0
	shift
	. ./functions.sh
	while ((used < end && SECONDS < 3 * end)); do
		run sampled "$@" >/dev/null || exit
		times >times.out # of the shell, then of its children: 1m2.345s 0m6.789s
		{ read -r && read -r user system; } <times.out
		user=${user%.*} system=${system%.*}
		used=$((60 * ${user%m*} + ${user#*m} + 60 * ${system%m*} + ${system#*m}))
	done' bash)

# recorded SECONDS BUILD RECORDER... has RECORDER, to which a command is added, record runs of BUILD
# for so long: of a server, one run under load, without its clients; what it and RECORDER said is in BUILD.served. What ALONE in the environment says
# precedes it: "flock FILE" where several scripts of one machine are to record one at a time.
recorded() {
	if [ -n "$server" ]; then
		seconds=$1 ${ALONE:-} bash run.sh sampled "${@:3}" "$dir/$2" >/dev/null
		cp server.log "$2.served"
	else
		${ALONE:-} "${@:3}" "${looped[@]}" "$1" "$dir/$2"
	fi
}

# record NAME samples runs of a build into NAME.data.
record() { recorded "${seconds:-20}" "$1" perf record -q -B -N -e cpu-clock:u -F 4999 -o "$dir/$1.data" --; }
