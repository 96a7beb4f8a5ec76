#!/bin/bash
# wall.sh PROGRAM DIR [ROUNDS]: requests per second and the 99th percentile of latency of a server's builds, against its
# build without a profile. PROGRAM is redis or postgres, whose builds `measure.sh PROGRAM DIR base clang bolt` has left in
# DIR, or godoc, in Go, which is built here: without a profile, by runtime/pprof's own, by a recording of 20 s at 999 Hz
# and by one with --calibrate=3%. Each of ROUNDS (10) starts all builds one after the other, every second round in
# reverse, and puts each under load for some seconds. Figures are ratios to the base of the same round: their median, and
# between which two of them the true one lies with 95 % confidence, as `backfeed optimize` has it. "again" is a copy
# of the base: what it shows is noise.
#
# Load is closed: so many connections (c50) wait for each answer. It comes of redis-benchmark, nine commands alike, one request
# at a time and 16 (P16), whose 99th percentiles are averaged; of wrk; of pgbench's select-only transactions. Server and
# load have a processor each. Processor time for each request is the server's, the kernel's part included: other
# processes of the machine disturb it least.
#
# Each load is a line of DIR/wall.tsv: when, the machine's load, round, build, load, requests per second, 99th percentile
# in ms, and microseconds of processor time for each request. A second call adds its rounds to those there.
# Needs what measure.sh does, Debian's wrk for godoc, and a machine with nothing else to do.
set -euo pipefail
program=${1?program} dir=${2?directory} rounds=${3:-10}
testdata=$(cd "$(dirname "$0")/.." && pwd)
. "$testdata/consumers/programs.sh"
. "$testdata/consumers/counts.sh"

# Per program: its builds but the base, how a server of them becomes $process, and its loads: functions that print requests
# per second, the 99th percentile in ms, and how many requests there were.
builds=(again bolt-nl bolt bolt-calibrated bolt-exact sample sample-calibrated exact)
from() { taskset -c 0 "$@"; }
case $program in
redis)
	loads=(c50 c50-P16)
	start() { exec "$@" --port 0 --unixsocket "$dir/socket" --save ''; }
	benchmark() { # benchmark PIPELINED REQUESTS
		from ./benchmark -s "$dir/socket" -c 50 -P "$1" -n "$2" -r 5000 --csv -t set,get,incr,rpush,lpop,sadd,hset,zadd,lrange_100 | awk -F'","' -v each="$2" '
			NR > 1 && !/needed to benchmark/ { n++; time += each / $2; p99 += $7 }
			END { if (n != 9) exit 1; print n * each / time, p99 / n, n * each }'
	}
	c50() { benchmark 1 2000; }
	c50-P16() { benchmark 16 10000; }
	;;
postgres)
	loads=(c4)
	start() { exec "$@" -D "$dir/data" -F -k "$dir/data" -c listen_addresses= -c autovacuum=off; }
	quiet() { ! pgrep -P "$process" -f '^postgres: postgres' >/dev/null; }
	fill() { "$installed/bin/pgbench" -q -i -s 5 -h "$dir/data" -U postgres postgres >fill.log 2>&1; }
	c4() {
		rm -f times.*
		from "$installed/bin/pgbench" -n -S -M prepared -c 4 -T 3 --log --log-prefix=times -h "$dir/data" -U postgres postgres >load.log 2>&1
		sort -n -k 3,3 times.* | awk -v rate="$(sed -n 's/^tps = \([0-9.]*\).*/\1/p' load.log)" '
			{ us[NR] = $3 }
			END { if (!NR || !rate) exit 1; print rate, us[int(.99 * (NR - 1)) + 1] / 1000, NR }'
	}
	rm -rf data && cp -a pristine data
	served ready stop fill start ./base
	;;
godoc)
	builds=(again runtime ours calibrated) loads=(c4)
	start() { GOMAXPROCS=1 exec "$@" "-http=${url#http://}" -goroot="$(go env GOROOT)"; }
	c4() {
		from wrk -t 1 -c 4 -s pages.lua --latency -d 5s "$url" | awk '
			function ms(t) { return t + 0 == 0 ? 0 : t ~ /us$/ ? t / 1000 : t ~ /ms$/ ? t + 0 : t * 1000 }
			/Non-2xx|Socket errors/ { exit 1 }
			$1 == "99%" { p99 = ms($2) }
			/ requests in / { n = $1 }
			$1 == "Requests/sec:" { rate = $2 }
			END { if (!n || !p99) exit 1; print rate, p99, n }'
	}
	if [ ! -f calibrated ]; then
		build base off
		seconds=20 minute ours base -F 999 >ours.log 2>&1
		seconds=20 minute calibrated base -F 999 --calibrate=3% >calibrated.log 2>&1
		for name in ours calibrated; do ./backfeed emit go "$name.bfr" --image "$dir/base" -o "$name.pprof" 2>"$name.emit"; done
		for name in runtime ours calibrated; do build "$name" "$name.pprof"; done
	fi
	;;
*)
	echo "wall.sh: nothing puts $program under load" >&2
	exit 2
	;;
esac
cp base again
for i in "${!builds[@]}"; do [ -f "${builds[i]}" ] || { echo "wall.sh: there is no ${builds[i]}" >&2; unset "builds[i]"; }; done
clock=$(getconf CLK_TCK)

# used prints the microseconds of processor time that the server's threads have had, and those of its processes that ended,
# as PostgreSQL's for each connection do some time after its client: quiet, if there is such a function, waits for them.
used() {
	! declare -F quiet >/dev/null || until quiet; do sleep 0.01; done
	{ cat "/proc/$process/task/"*/schedstat; sed 's/.*) //' "/proc/$process/stat"; } |
		awk -v clock="$clock" 'NF == 3 { us += $1 / 1000 } NF > 3 { us += ($14 + $15) * 1e6 / clock } END { printf "%d", us }'
}

# loaded is what served calls while $build runs as $process.
loaded() {
	local load figures before
	"${loads[0]}" >warm.log || return
	for load in "${loads[@]}"; do
		before=$(used)
		figures=$("$load") || return
		echo "$figures $before $(used)" | awk -v OFS='\t' -v round="$(date +%s) $(cut -d' ' -f1 /proc/loadavg) $round" -v build="$build" -v kind="$load" '
			{ gsub(" ", OFS, round); print round, build, kind, $1, $2, ($5 - $4) / $3 }' >>wall.tsv
	done
	answered=yes
}

for ((n = 0; n < rounds; n++)); do
	round=$$.$n # of this call
	order=(base "${builds[@]}")
	((n % 2 == 0)) || mapfile -t order < <(printf '%s\n' "${order[@]}" | tac)
	for build in "${order[@]}"; do
		answered=
		served ready stop loaded start taskset -c "$(($(nproc) - 1))" "$dir/$build" || true # how a server ends says nothing of its load
		[ -n "$answered" ] || { echo "wall.sh: $build: no answer, see $dir/server.log" >&2; exit 1; }
	done
done

awk -F'\t' '
	# cut is how many of n ratios may be left out at both ends: see sureOf in cmd/internal/optimize/paired.go.
	function cut(n,   outside, ways, k) {
		ways = outside = 2 * 2 ^ -n
		while (outside <= .05 && k < int((n - 1) / 2)) {
			ways *= (n - k) / (k + 1)
			if (outside + ways > .05) break
			outside += ways
			k++
		}
		return k + 0
	}
	function interval(what, build, kind,   n, i, j, r, v, k) {
		for (i = 1; i <= rounds; i++) {
			if (!((what, base, kind, round[i]) in figure) || !((what, build, kind, round[i]) in figure)) continue
			v = figure[what, build, kind, round[i]] / figure[what, base, kind, round[i]]
			for (j = n++; j > 0 && r[j] > v; j--) r[j + 1] = r[j]
			r[j + 1] = v
		}
		if (n < 6) return n " rounds, 6 have an interval"
		k = cut(n)
		return sprintf("%+6.1f %% (%+.1f to %+.1f)", 100 * ((r[int((n + 1) / 2)] + r[int(n / 2) + 1]) / 2 - 1), 100 * (r[1 + k] - 1), 100 * (r[n - k] - 1))
	}
	{
		if (!($3 in rank)) { rank[$3]; round[++rounds] = $3 }
		if (!(($4, $5) in seen)) { seen[$4, $5]; if ($4 != base) row[++rows] = $4 SUBSEP $5 }
		figure["rate", $4, $5, $3] = $6; figure["p99", $4, $5, $3] = $7; figure["used", $4, $5, $3] = $8
		if ($4 == base) { rate[$5] += $6; p99[$5] += $7; used[$5] += $8; busy[$5] += $2; n[$5]++ }
	}
	END {
		for (l in n) printf "base, %s: %.0f requests a second, p99 %.2f ms, %.1f us of processor time each, in the mean of %d rounds; load of the machine %.1f\n", l, rate[l] / n[l], p99[l] / n[l], used[l] / n[l], n[l], busy[l] / n[l]
		printf "%-18s %-8s %-26s %-26s %s\n", "build", "load", "requests per second", "p99", "processor time for each"
		for (i = 1; i <= rows; i++) {
			split(row[i], it, SUBSEP)
			printf "%-18s %-8s %-26s %-26s %s\n", it[1], it[2], interval("rate", it[1], it[2]), interval("p99", it[1], it[2]), interval("used", it[1], it[2])
		}
	}' base=base wall.tsv
