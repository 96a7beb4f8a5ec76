#!/bin/bash
# soak.sh BACKFEED [MINUTES [KILLS [DIR]]]: an agent at work beside processes that
# come and go, killed by SIGKILL at random times, every other time about when it is
# to write a segment. After each kill the store must be clean by `backfeed store
# fsck` and hold every sample that the agent's log says was written, and beyond them
# at most the one segment whose line in the log the kill came before. The last run
# is told to end, and loses nothing. Prints a line for each run; a line with FAIL,
# and exit code 1, where something does not add up. A store that DIR holds is gone
# on with. Needs root, jq and curl.
set -euo pipefail
backfeed=$(realpath "$1") minutes=${2:-60} kills=${3:-20} dir=${4:-$(mktemp -d)}
mkdir -p "$dir"
store=$dir/store port=$((20000 + RANDOM % 10000)) flush=10
hz=199 cpus=$(nproc)
bad=0 stored=0 agent='' churn=''

churning() { # 20 processes a second, and a compiler now and then
	local n=0
	while sleep 0.05; do
		if ((++n % 200 == 0)) && command -v gcc >/dev/null; then
			echo 'int main(void) { return 0; }' | gcc -O2 -x c - -o /dev/null
		fi
	done
}

stop_all() {
	local pid
	for pid in $agent $churn; do kill "$pid" 2>/dev/null || true; done
}
trap stop_all EXIT

fail() { echo "FAIL run $run: $*"; bad=1; }

start_agent() {
	log=$dir/run$run.log
	"$backfeed" agent --store "$store" -F $hz --max-cpu 2% --kernel --flush ${flush}s --epoch 5m --log-level debug \
		--metrics "127.0.0.1:$port" 2>"$log" &
	agent=$!
	began=$(date +%s)
}

# logged prints what the log tells: samples and segments written, segments that do
# not hold just what was drained since the one before, and samples drained since
# the last.
logged() {
	awk '
		{ n = 0 }
		match($0, / samples=[0-9]+/) { n = substr($0, RSTART + 9, RLENGTH - 9) }
		/ msg=drain /             { drained += n }
		/ msg="segment written" / { written += n; segments++; if (n != drained) wrong++; drained = 0 }
		END                       { printf "%d %d %d %d\n", written, segments, wrong, drained }' "$log"
}

# metric prints a number of the agent's status page as it last was.
metric() { awk -v name="backfeed_$1" 'index($0, name " ") == 1 { print $NF }' "$dir/metrics"; }

# look notes what the agent tells of itself, and holds it to its sums.
look() {
	local drained seen tries=0
	# Between the end of a drain and the look at the counters lie some milliseconds, or seconds where others have all
	# processors. What is lost stays so.
	while :; do
		curl -sf "http://127.0.0.1:$port/metrics" >"$dir/metrics" || fail "no metrics"
		seen=$(($(metric 'samples_total{mode="user"}') + $(metric 'samples_total{mode="kernel"}')))
		drained=$(($(metric drained_samples_total) + $(metric filtered_samples_total) + $(metric 'lost_samples_total{reason="map full"}')))
		((seen < drained || seen - drained > hz * cpus)) && ((++tries < 30)) || break
		sleep 1
	done
	memory=$(awk '/^VmHWM/ { print $2 }' "/proc/$agent/status")
	((seen >= drained && seen - drained <= hz * cpus)) || fail "$seen samples seen, $drained drained"
	(($(metric lost_records_total) == 0)) || fail "$(metric lost_records_total) records lost"
}

# check compares log, status page and store of a run that has ended.
check() {
	local written segments wrong rest samples extra
	read -r written segments wrong rest < <(logged)
	((wrong == 0)) || fail "$wrong segments do not hold what was drained"
	(($(metric stored_samples_total) <= written)) || fail "$(metric stored_samples_total) samples stored, $written logged"
	if grep -q level=ERROR "$log"; then fail "$(grep level=ERROR "$log" | head -3)"; fi
	"$backfeed" store fsck "$store" --format json >"$dir/fsck.json" 2>"$dir/fsck.err" ||
		fail "fsck: $(cat "$dir/fsck.json" "$dir/fsck.err")"
	samples=$(jq .samples "$dir/fsck.json")
	extra=$((samples - stored - written))
	((extra == 0 || extra == rest)) || fail "$samples samples in the store, $stored before and $written written"
	[ "$1" = killed ] || ((rest == 0 && extra == 0)) || fail "$rest samples not written"
	stored=$samples
	echo "$(date +%T) run $run, $1 after $(($(date +%s) - began)) s: $written samples in $segments segments," \
		"$rest after the last, stored of these $extra; in the store $samples in $(jq .segments "$dir/fsck.json") segments," \
		"unfinished $(jq '.unfinished | length' "$dir/fsck.json"), superseded $(jq '.superseded | length' "$dir/fsck.json");" \
		"most memory $memory kB, CPU $(metric own_cpu_seconds_total) s"
}

run=0
if [ -d "$store" ]; then
	stored=$("$backfeed" store fsck "$store" --format json | jq .samples)
fi
churning &
churn=$!
mean=$((minutes * 60 / (kills + 1)))
for ((run = 1; run <= kills; run++)); do
	start_agent
	sleep $((mean / 2 + RANDOM % mean))
	look
	if ((run % 2 == 0)); then # wait for a segment, then for when the next is due
		before=$(grep -c 'segment written' "$log" || true)
		until (($(grep -c 'segment written' "$log" || true) > before)); do sleep 0.02; done
		ms=$((1000 * flush - 45 + RANDOM % 60)) # a segment is written in 10 to 20 ms
		sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))"
	fi
	kill -KILL $agent
	wait $agent 2>/dev/null || true
	check killed
done
start_agent
sleep $mean
look
kill -TERM $agent
wait $agent || fail "exit code $?"
check ended
((bad == 0)) && echo "clean after each of $kills kills"
exit $bad
