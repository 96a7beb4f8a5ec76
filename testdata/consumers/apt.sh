# apt.sh is sourced by scripts that fetch packages of Debian, with the shell in the directory $dir.

# apt calls apt-get, or what else is named, with the packages that were made known, as if none were installed.
apt() {
	"$1" -qq -o "Dir::Etc::SourceList=$dir/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$dir/lists" \
		-o "Dir::State::status=$dir/status" -o "Dir::Cache::Archives=$dir/debs" -o APT::Sandbox::User=root "${@:2}"
}

# packages SUITE KIND... makes those of Debian's SUITE known of each KIND: deb, which are built, or deb-src, which are sources.
packages() {
	printf "%s [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $1 main\n" "${@:2}" >sources.list
	mkdir -p lists/partial debs/partial
	touch status
	apt apt-get update >>apt.log
}
