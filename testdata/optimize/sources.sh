#!/bin/bash
# sources.sh DIR: brings the programs of backfeed.yaml into DIR, and that with what they do, so that `backfeed optimize`
# there is all that is left. Needs apt-get, Go, clang-19, lld-19, bolt-19, g++-12, zlib1g-dev and, to count, valgrind.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1?directory}"
cd "$1"
dir=$PWD
cp "$here"/{backfeed.yaml,*.sh} .

. "$here/../consumers/apt.sh"

# debian unpacks what the authors released of a source package of Debian 12 into a directory.
debian() {
	[ -d lists ] || packages bookworm deb-src deb
	apt apt-get source --download-only "$1"
	mkdir -p "$2"
	tar xf "$1"_*.orig.tar.* -C "$2" --strip-components=1
}

debian redis redis
make -s -C redis/src redis-cli MALLOC=libc USE_SYSTEMD=no >redis.log 2>&1
mv redis/src/redis-cli redis-cli
make -s -C redis/src distclean >>redis.log 2>&1
awk -v n=200000 'BEGIN { srand(1); while (n--) {
	k = int(5000 * rand()); v = int(1e6 * rand()); what = int(12 * rand())
	if (what < 2) print "SET s" k, "value-" v
	else if (what < 5) print "GET s" k
	else if (what == 5) print "INCRBY n" k % 100, v
	else if (what == 6) print "HSET h" k % 200, "f" v % 300, v
	else if (what == 7) print "HGET h" k % 200, "f" v % 300
	else if (what == 8) print "ZADD z" k % 100, v, "m" v % 1000
	else if (what == 9) print "ZRANGE z" k % 100, 0, 10, "WITHSCORES"
	else if (what == 10) print "RPUSH l" k % 100, v
	else print "LRANGE l" k % 100, 0, 20 } }' >redis.requests
head -n 20000 redis.requests >redis.few

debian jsonnet jsonnet
g++-12 -o to_c_array jsonnet/stdlib/to_c_array.cpp
./to_c_array jsonnet/stdlib/std.jsonnet jsonnet/core/std.jsonnet.h
mkdir -p jsonnet/src
cp jsonnet/core/{desugarer,formatter,lexer,libjsonnet,parser,pass,static_analysis,string_utils,vm}.cpp \
	jsonnet/third_party/md5/md5.cpp "$here/../consumers/jsonnetbench.cpp" jsonnet/src
yaml=jsonnet/third_party/rapidyaml/rapidyaml
for f in "$yaml"/src/c4/yml/*.cpp "$yaml"/ext/c4core/src/c4/*.cpp; do cp "$f" "jsonnet/src/yaml_${f##*/}"; done

debian nginx nginx
(cd nginx && ./configure --without-http_rewrite_module --with-cc=clang-19 --with-cc-opt=-w >../nginx.log)
mkdir -p nginx-site/pages
for i in {1..200}; do
	seq "$((i * 7))" >"nginx-site/pages/$i.txt"
	printf '<!--# set var="n" value="%d" --><h1><!--# echo var="n" --></h1><!--# if expr="$n = 7" -->seven<!--# else -->%d<!--# endif --><!--# include virtual="/pages/%d.txt" -->\n' "$i" "$i" "$i" >"nginx-site/$i.shtml"
done
for i in {1..200}; do
	printf 'GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n' "/pages/$i.txt" '' "/$((i % 50 + 1)).shtml" '' "/none/$i" '' /kind '' \
		"/$((i % 20 + 1)).shtml" $'Accept-Encoding: gzip\r\n' "/pages/$i.txt" $'Range: bytes=20-99\r\n' /list/ ''
done >nginx.requests
gcc-12 -O2 -o pipelined "$here/pipelined.c"

# Debian's rustc, which is of the LLVM of clang-19, and a crate.
apt apt-get -y --download-only --no-install-recommends install librust-pulldown-cmark-dev
for package in debs/librust-*.deb; do dpkg-deb -x "$package" crates; done
(cd debs && apt apt-get download rustc-web libstd-rust-web-1.85 libstd-rust-web-dev cargo-web libpcre3 libhttp-parser2.9)
for package in debs/{rustc-web,libstd-rust-web,cargo-web,libpcre3,libhttp-parser2.9}[_-]*.deb; do dpkg-deb -x "$package" rust; done
printf '#!/bin/sh\nunset LD_LIBRARY_PATH\nexec clang-19 -fuse-ld=lld "$@"\n' >rust/linker # that path is not for the linker
chmod +x rust/linker
mkdir -p markdown/src markdown/.cargo
cp "$here/../consumers/markdown.rs" markdown/src/main.rs
printf '[package]\nname = "markdown"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\npulldown-cmark = { version = "0.9.2", default-features = false }\n' >markdown/Cargo.toml
printf '[source.crates-io]\nreplace-with = "debian"\n[source.debian]\ndirectory = "%s"\n' "$dir/crates/usr/share/cargo/registry" >markdown/.cargo/config.toml
cp redis/README.md text.md

debian lua5.4 lua
cp "$here/../lua/script.lua" .

mkdir -p gojq
cp "$here"/../gojq/* gojq
printf 'module gojq\n\ngo 1.24\n' >gojq/go.mod
(cd gojq && go mod tidy 2>../gojq.log)

mkdir -p caddy
printf 'package main\n\nimport (\n\tcmd "github.com/caddyserver/caddy/v2/cmd"\n\t_ "github.com/caddyserver/caddy/v2/modules/standard"\n)\n\nfunc main() { cmd.Main() }\n' >caddy/main.go
printf 'module caddy\n\ngo 1.26\n\nrequire github.com/caddyserver/caddy/v2 v2.11.9\n' >caddy/go.mod
(cd caddy && go mod tidy 2>../caddy.log)
mkdir -p caddy-site/pages caddy-site/few
for i in {1..200}; do
	seq "$((i * 7))" >"caddy-site/pages/$i.txt"
	printf '{{$n := %d}}<h1>{{$n}}</h1>{{if eq $n 7}}seven{{else}}{{$n}}{{end}} {{.Req.URL.Path | upper}} {{range splitList "," "a,b,c"}}<p>{{.}}</p>{{end}}{{include "/pages/%d.txt"}}\n' "$i" "$i" >"caddy-site/$i.html"
	printf '# Page %d\n\n*one* **two** [three](/pages/%d.txt)\n\n- a\n- b\n\n| x | y |\n| - | - |\n| 1 | 2 |\n' "$i" "$i" >"caddy-site/$i.md"
done
cp caddy-site/pages/?.txt caddy-site/few
for i in {1..200}; do
	printf 'GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n' "/pages/$i.txt" '' "/$((i % 50 + 1)).html" '' "/none/$i" '' "/kind/$i?a=b" $'Cookie: kind=1\r\nUser-Agent: browser\r\n' \
		"/$((i % 20 + 1)).html" $'Accept-Encoding: gzip\r\n' "/pages/$i.txt" $'Range: bytes=20-99\r\n' "/behind/$i.md" '' "/behind/pages/$i.txt" $'Accept-Encoding: zstd\r\n' /list/ $'Accept: application/json\r\n'
done >caddy.requests

debian python3.11 python
printf '*static*\nmath mathmodule.c\n_struct _struct.c\n_json _json.c\n' >python/Modules/Setup.local
(cd python && ./configure -q --disable-test-modules --without-ensurepip CC=clang-19 >../python.log 2>&1)
mkdir -p python-home/lib
ln -sfn "$dir/python/Lib" python-home/lib/python3.11
cp "$here/../consumers/bench.py" .
