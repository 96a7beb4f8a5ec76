# redis.sh requests|few SERVER starts a server, has it answer, and prints a digest of all that it holds.
at=$(mktemp -d) || exit
trap 'kill $server 2>/dev/null; rm -rf "$at"' EXIT
client() { ../redis-cli -s "$at/socket" "$@"; }
"$2" --port 0 --unixsocket "$at/socket" --save '' --enable-debug-command yes >"$at/log" 2>&1 &
server=$!
until [ "$(client ping 2>/dev/null)" = PONG ]; do
	kill -0 $server || { cat "$at/log" >&2; exit 1; }
	sleep 0.05
done
client --pipe <"../redis.$1" >"$at/answers" || exit
client debug digest || exit
client shutdown nosave
wait $server
