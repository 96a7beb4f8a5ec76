#!/bin/bash
# measure.sh DIR: how often functions that are a system call are said to run, and how often they do. It needs root, gcc,
# perf, python3, memcached and redis-server; recordings are left in DIR. The figures are in infer/EXPERIMENTS.md.
set -e
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
backfeed=${BACKFEED:-backfeed}
infer() { # RECORDING NAMES: executions of the functions named so
	"$backfeed" infer "$1" -n 0 | grep -E "  ($2)\$" | awk -v f="$1" '{print f, $NF, $1 " samples", $3 " executions"}'
}
gcc -O2 -g -o loop "$here/loop.c"
gcc -O2 -g -o echo "$here/echo.c"
for kind in read write getppid futex epoll; do
	"$backfeed" record -o $kind.bfr -- ./loop $kind 5000000 0 >/dev/null 2>&1 # 5M of each
	infer $kind.bfr "$kind|syscall|epoll_wait"
	"$backfeed" record -o $kind-work.bfr -- ./loop $kind 3000000 300 >/dev/null 2>&1 # 3M
	infer $kind-work.bfr "$kind|syscall|epoll_wait"
done
"$backfeed" record -o echo.bfr -- ./echo 500000 64 >/dev/null 2>&1 # 1M reads, 1M writes, 0.5M epoll_waits
infer echo.bfr "read|write|epoll_wait"

server() { # NAME SLEEP FLAGS...
	name=$1 sleep=$2
	shift 2
	case $name in
	memcached) memcached -u nobody -p 21711 -t 2 -m 64 & ;;
	redis) redis-server --port 21711 --save '' --appendonly no >/dev/null & ;;
	esac
	pid=$!
	command sleep 1
	out=$name-$sleep${1:+$1}.bfr
	"$backfeed" record "$@" -p $pid -o "$out" 2>/dev/null &
	recorder=$!
	perf stat -x, -o stat.csv -e syscalls:sys_enter_read,syscalls:sys_enter_write,syscalls:sys_enter_sendmsg,syscalls:sys_enter_epoll_wait -p $pid &
	counter=$!
	command sleep 1.5
	python3 "$here/load.py" $name 21711 75000 "$sleep"
	kill -INT $counter $recorder
	wait $counter || true
	wait $recorder || true
	kill $pid
	wait $pid || true
	awk -F, '/sys_enter/ {print "  counted:", $3, $1}' stat.csv
	infer "$out" "read|write|sendmsg|epoll_wait"
}
for name in memcached redis; do
	for sleep in 0 0.001; do
		server $name $sleep
		server $name $sleep -a
		server $name $sleep --calibrate
	done
done
