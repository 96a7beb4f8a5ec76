# caddy.sh TIMES SERVER starts a server, has it answer caddy.requests so many times, and prints how many bytes that were; 0 prints the answers to
# one, without what depends on the time.
at=$(mktemp -d) || exit
trap 'kill $server 2>/dev/null; rm -rf "$at"' EXIT
cat >"$at/Caddyfile" <<END
{
	admin unix/$at/admin
	persist_config off
	auto_https off
	log {
		output file $at/log
	}
}
http:// {
	bind unix/$at/socket
	root $PWD/../caddy-site
	log {
		output file $at/access.log
	}
	encode zstd gzip
	route {
		header X-Kind a
		respond /kind/* "{method} {path} {query.a} {http.request.cookie.kind} {header.User-Agent}"
		handle_path /behind/* {
			reverse_proxy unix/$at/behind {
				header_up Host behind
				header_up X-For {path}
			}
		}
		redir /none/1* /1.html
		handle_path /list/* {
			root $PWD/../caddy-site/few
			file_server browse
		}
		try_files {path} {path}/index.html
		templates
		file_server
	}
}
http://behind {
	bind unix/$at/behind
	root $PWD/../caddy-site
	@page path *.md
	handle @page {
		header Content-Type text/html
		respond \`{{.Req.Header.Get "X-For"}} {{markdown (readFile .OriginalReq.URL.Path)}}\`
		templates
	}
	file_server
}
END
XDG_DATA_HOME=$at XDG_CONFIG_HOME=$at "$2" run --config "$at/Caddyfile" --adapter caddyfile >"$at/said" 2>&1 &
server=$!
until [ -S "$at/socket" ] && [ -S "$at/behind" ]; do
	kill -0 $server || { cat "$at/said" "$at/log" >&2; exit 1; }
	sleep 0.05
done
if [ "$1" = 0 ]; then
	../pipelined "$at/socket" 0 ../caddy.requests >"$at/answers" || exit
	grep -a -v '^Date\|^Last-Mod\|^Etag' "$at/answers"
else
	../pipelined "$at/socket" "$1" ../caddy.requests || exit
fi
# Not by a signal, which callgrind does not always survive.
printf 'POST /stop HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n' >"$at/stop"
../pipelined "$at/admin" 1 "$at/stop" >"$at/stopped"
wait $server
