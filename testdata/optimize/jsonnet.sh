# jsonnet.sh FLAGS LDFLAGS BINARY builds libjsonnet with a program that calls it. Objects lie beside the program.
set -e
include="-Icore -Iinclude -Ithird_party/md5 -Ithird_party/json -Ithird_party/rapidyaml/rapidyaml/src -Ithird_party/rapidyaml/rapidyaml/ext/c4core/src"
for f in src/*.cpp; do
	echo "g++-12 -std=c++17 -w -O2 $1 $include -c $f -o $3.${f##*/}.o"
done | xargs -P 2 -I {} sh -c {}
g++-12 -O2 $1 $2 -o "$3" "$3".*.o
rm -f "$3".*.o
