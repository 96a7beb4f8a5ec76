# gawk -f plt.awk LOG COUNTS: of callgrind with -v -v --skip-plt=no, whose messages are in LOG. In COUNTS, the code of
# procedure linkage tables is in no image, at addresses of the process; this prints them with it in its image.
FILENAME == ARGV[1] {
	if (/Reading syms from /)
		path = $NF
	if (/ svma .* avma /) {
		split($0, at, /svma |, avma /)
		tables(path, strtonum(at[3]) - strtonum(at[2]))
	}
	next
}
/^c?ob=/ {
	id = name = substr($0, index($0, "=") + 1)
	if (match(name, /^\([0-9]+\) ?/)) {
		id = substr(name, 1, index(name, ")"))
		name = substr(name, RLENGTH + 1)
	}
	if (name != "")
		names[id] = name
	if (/^cob=/)
		to_none = names[id] == "???"
	else {
		none = names[id] == "???"
		back = "ob=" id
	}
}
/^calls=/ {
	if (to_none && (i = table($2))) {
		print "cob=" image[i]
		$2 = sprintf("0x%x", strtonum($2) - bias[i])
	}
	to_none = 0
}
/^calls=|^jump=|^jcnd=/ {
	transfer = 1
	print
	next
}
/^0x/ {
	if (none && !transfer && (i = table($1))) {
		printf "ob=%s\n0x%x %s\n%s\n", image[i], strtonum($1) - bias[i], $2, back
		next
	}
	transfer = 0
}
{ print }

# tables notes the tables of an image that is so far from where it was linked.
function tables(path, far,   command, line, f) {
	command = "readelf -SW " path " 2>/dev/null"
	while ((command | getline line) > 0)
		if (match(line, /\] \.plt[.a-z]* /)) {
			split(substr(line, RSTART + 2), f)
			n++
			image[n] = path
			bias[n] = far
			from[n] = strtonum("0x" f[3]) + far
			to[n] = from[n] + strtonum("0x" f[5])
		}
	close(command)
}

# table returns the table that an address of the process is in, or 0.
function table(address,   a, i) {
	a = strtonum(address)
	for (i = n; i > 0; i--)
		if (a >= from[i] && a < to[i])
			return i
	return 0
}
