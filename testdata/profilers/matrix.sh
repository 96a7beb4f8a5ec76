#!/bin/bash
# matrix.sh BACKFEED [DIR]: runs what `backfeed help profilers` names, row by row, on recordings that it makes in DIR, and prints
# a page with the first lines that each command prints. Programs are mix (testdata/mix), built by gcc and by clang, and that of
# `backfeed demo` for Go. Needs root, git, gcc, clang-19, lld-19, llvm-19, bolt-19, linux-perf and
# valgrind; takes some five minutes. A command that fails is shown with its exit code, and makes that of the script 1; exit code 3,
# by which a command says that nothing is to be done, does not.
set -euo pipefail
backfeed=$(realpath "$1") dir=$(realpath -m "${2:-$(mktemp -d)}") lines=9 columns=132
tree=$(cd "$(dirname "$0")/../.." && pwd)
bad=0
mkdir -p "$dir/bin" "$dir/go"
ln -sfn "$backfeed" "$dir/bin/backfeed"
export PATH=$dir/bin:$PATH XDG_CACHE_HOME=$dir/cache LC_ALL=C.UTF-8
cd "$dir"

{
	cp "$tree/testdata/mix/mix.c" app.c
	gcc -O2 -g -c -ftest-coverage -o app.o app.c
	gcc -Wl,--emit-relocs -o app app.o
	clang-19 -O2 -g -fdebug-info-for-profiling -fbasic-block-address-map -fuse-ld=lld -Wl,--emit-relocs -o app.clang app.c
	cp "$tree/cmd/internal/demo/testdata/demo/main.go" go/main.go
	printf 'module app\n\ngo 1.24\n' >go/go.mod
	printf 'int main(void)\n{\n\tvolatile int most = 42, zero = 0;\n\treturn most / zero;\n}\n' >fpe.c
	gcc -O1 -g -o fpe fpe.c
	cat >go/backfeed.yaml <<-'YAML'
		refresh:
		  targets:
		    app:
		      sources: [../go.bfr]
		      image: ./app
		      outputs:
		        - go: default.pgo
	YAML
	(cd go && go build -o app . && git init -q . && git add -A &&
		git -c user.name=app -c user.email=app@localhost commit -qm "app: as it was")
	backfeed record -F 4999 -o go.bfr -- go/app
	backfeed record -F 4999 -o clang.bfr -- ./app.clang 60
	backfeed record -F 4999 -o again.bfr -- ./app 60
} >made.log 2>&1 || { cat made.log; exit 1; }

# section begins a part of the page.
section() { printf '\n## %s\n' "$1"; }

# row ELSEWHERE COMMAND... runs commands of a shell, and shows the first lines of each.
row() {
	local command status
	printf '\n**%s**\n\n' "$1"
	shift
	for command; do
		status=0
		bash -c "$command" >out 2>&1 </dev/null || status=$?
		printf '    $ %s\n' "$command"
		awk -v most="$lines" -v columns="$columns" '
			/^[ \t]*$/ { next }
			++n <= most { gsub(/\t/, "  "); print "    " (length($0) > columns ? substr($0, 1, columns - 1) ">" : $0) }
			END         { if (n > most) printf "    ... %d more lines\n", n - most }' out
		((status == 0)) || echo "    exit code $status"
		((status == 0 || status == 3)) || bad=1
	done
	echo
}

cat <<EOT
# What the commands of \`backfeed help profilers\` print

\`matrix.sh\` ran them: $(awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo), $(nproc) processors, Linux $(uname -r | cut -d- -f1), $(date +%F).
Each row is what one has elsewhere, and what backfeed printed, of which the first $lines lines that are not empty, cut at $columns columns.
EOT

section "What runs, and where time goes"
row "\`perf record\`, SpeedShop's \`ssrun\`; stacks by \`.eh_frame\` in the kernel" \
	'backfeed record --callers -F 4999 -o app.bfr -- ./app 60 >/dev/null'
row "DCPI's \`dcpid\` and Morph's monitor" \
	'backfeed agent --store store --flush 10s --max-cpu 1% & ./app 120 >/dev/null; kill %1; wait %1' \
	'backfeed store ls store'
row "\`perf report\`, \`dcpiprof\`, \`prof\` of pcsamp, \`pprof -top\`" \
	'backfeed prof app.bfr' 'backfeed prof app.bfr --by image'
row "\`perf report --sort comm\`" 'backfeed prof app.bfr --by thread'
row "time lines, calipers of SpeedShop" \
	'backfeed prof app.bfr --by time' 'backfeed prof app.bfr --between 1s,2s'
row "usertime, \`perf report --children\`" 'backfeed prof app.bfr --experiment usertime'
row "\`perf annotate\`, \`dcpilist\`, \`pprof -list\`" 'backfeed list lookup app.bfr'
row "\`perf record -a --kcore\`, \`perf annotate\` of the kernel" \
	'backfeed record -a --kernel -d 10s --copy-to images -o all.bfr & dd if=/dev/zero of=/dev/null bs=512 count=20000000 2>/dev/null; wait' \
	'backfeed prof all.bfr --symfs images' \
	'backfeed list read_zero all.bfr --symfs images'
row "\`ssusage\`" 'backfeed prof app.bfr --by run'
row "\`perf record --off-cpu\`, \`offcputime\`" \
	'backfeed record --off-cpu -o off.bfr -- sh -c "./app 20 | gzip >/dev/null; sleep 1"' \
	'backfeed prof off.bfr --event off-cpu' 'backfeed prof off.bfr --event wall'
row "events, several in turn" \
	'backfeed record --event page-faults,cpu-clock -o events.bfr -- ./app 20 >/dev/null' \
	'backfeed prof events.bfr --all-events'

section "How often code runs"
row "DCPI's frequencies of blocks and edges, with confidence" 'backfeed infer app.bfr'
row "SpeedShop's ideal" 'backfeed prof app.bfr --experiment ideal' 'backfeed prof app.bfr --experiment ideal --inclusive'
row "instruction mix of pixie and prof" 'backfeed prof app.bfr --experiment mix'
row "\`dcpix\`, pixie, callgrind: exact counts" \
	'valgrind -q --tool=callgrind --dump-instr=yes --collect-jumps=yes --dump-line=no --callgrind-out-file=app.callgrind ./app 2 >/dev/null' \
	'backfeed infer app.bfr --format json -o app.json' \
	'backfeed verify app.json --truth app.callgrind'
row "AutoFDO's counts by branch records" \
	'backfeed record --calibrate=3% -o calibrated.bfr -- ./app 400 >/dev/null' \
	'backfeed infer calibrated.bfr --format json -o calibrated.json' \
	'backfeed verify calibrated.json --truth app.callgrind'

section "Why code waits"
row "\`dcpiwhatcg\`: cycles by cause" 'backfeed whatcg app.bfr' 'backfeed whatcg app.bfr --proc lookup'
row "\`dcpiwhatcg -stall\`, procedures by one cause" 'backfeed whatcg app.bfr --cause dcache-miss'
row "\`dcpitopstalls\`" 'backfeed topstalls app.bfr'
row "SpeedShop's fpe" \
	"perf record -q -e signal:signal_generate --filter 'sig == 8' -g --buildid-all -o fpe.data -- ./fpe; true" 'backfeed prof fpe.data --experiment fpe'

section "What changed"
row "\`dcpistats\`: what varies between runs" 'backfeed stats app.bfr again.bfr'
row "\`perf diff\`, \`pprof -diff_base\`" 'backfeed diff app.bfr again.bfr'
row "a canary's verdict" 'backfeed verdict app.bfr again.bfr'

section "What is built of it"
row "\`runtime/pprof\` for \`go build -pgo\`" \
	'backfeed emit go go.bfr -o default.pgo' 'cd go && backfeed pgo -o default.pgo -- ./app >/dev/null'
row "\`llvm-profgen\`, \`create_llvm_prof\`, \`create_gcov\`" \
	'backfeed emit llvm clang.bfr -o app.prof && llvm-profdata-19 show --sample app.prof' \
	'backfeed emit gcc app.bfr -o app.gcov'
row "runs of \`gcc -fprofile-generate\`" 'backfeed emit gcda app.bfr --notes . -o prof && find prof -name "*.gcda"'
row "\`perf2bolt\`, with branch records or \`-nl\`" \
	'backfeed emit bolt app.bfr -o app.fdata && llvm-bolt-19 ./app -data app.fdata -reorder-blocks=ext-tsp -o app.bolt' \
	'backfeed export calibrated.bfr --format perf-script -o branches.txt && llvm-profgen-19 --perfscript=branches.txt --binary=app --output=profgen.prof --format=text && head -8 profgen.prof'
row "Propeller's profiles" 'backfeed emit propeller clang.bfr --ld order.txt && cat order.txt'
row "Morph's editor: branch alignment, fluff removal, procedures' order" \
	'backfeed layout app app.bfr' 'backfeed layout app app.bfr --align' 'backfeed layout app app.bfr --fluff'
row "Morph's manager: builds again, by itself" \
	'backfeed optimize --build "gcc -O2 -g {flags} -o {binary} app.c {ldflags}" --compiler gcc --try pgo -o app.fast -- {binary} 40' \
	'cd go && backfeed refresh'
exit $bad
