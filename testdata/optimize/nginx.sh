# nginx.sh TIMES SERVER starts a server, has it answer nginx.requests so many times, and prints how many bytes that were; 0 prints the answers to
# one, without what depends on the time.
at=$(mktemp -d) || exit
trap 'kill $server 2>/dev/null; rm -rf "$at"' EXIT
mkdir "$at/logs"
cat >"$at/nginx.conf" <<END
daemon off; master_process off; pid pid; error_log logs/error.log;
events { worker_connections 64; }
http {
    types { text/html shtml html; text/plain txt; }
    access_log logs/access.log combined buffer=64k; open_file_cache max=1000; keepalive_requests 100000000; client_body_temp_path t; proxy_temp_path t; fastcgi_temp_path t; uwsgi_temp_path t; scgi_temp_path t;
    server {
        listen unix:$at/socket; root $PWD/../nginx-site; ssi on; gzip on; gzip_min_length 1000;
        location /list/ { alias $PWD/../nginx-site/pages/; autoindex on; autoindex_format json; }
        location /kind { add_header X-Kind a; try_files /none /1.shtml; }
    }
}
END
"$2" -p "$at" -c nginx.conf 2>"$at/said" &
server=$!
until [ -S "$at/socket" ]; do
	kill -0 $server || { cat "$at/said" >&2; exit 1; }
	sleep 0.05
done
if [ "$1" = 0 ]; then
	../pipelined "$at/socket" 0 ../nginx.requests >"$at/answers" || exit
	grep -a -v '^Date\|^Last-Mod\|^ETag' "$at/answers" | sed 's/"mtime[^}]*//'
else
	../pipelined "$at/socket" "$1" ../nginx.requests || exit
fi
# Alone, and above all in valgrind, it may begin to wait for requests just as the signal comes, and not see it.
while kill -QUIT $server 2>/dev/null; do sleep 0.2; done &
again=$!
wait $server
ended=$?
wait $again
exit $ended
