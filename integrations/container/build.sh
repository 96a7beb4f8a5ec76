#!/bin/sh
# Builds an image of backfeed from this repository, for the machine's own architecture or GOARCH:
#	integrations/container/build.sh [NAME]
# with buildah, podman or docker, whichever is there; the first two as any user.
set -eu
cd "$(dirname "$0")"
name=${1:-backfeed}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
CGO_ENABLED=0 go build -C ../.. -trimpath -ldflags='-s -w' -o "$dir/backfeed" ./cmd/backfeed
for file in ${SSL_CERT_FILE:-} /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
	if [ -r "$file" ]; then
		cp "$file" "$dir/ca-certificates.crt"
		break
	fi
done
if [ ! -e "$dir/ca-certificates.crt" ]; then
	echo "no file of certificates here: install ca-certificates, or name one with SSL_CERT_FILE" >&2
	exit 1
fi
cp Containerfile "$dir"
for tool in buildah podman docker; do
	if command -v "$tool" >/dev/null; then
		"$tool" build -f "$dir/Containerfile" -t "$name" "$dir"
		exit
	fi
done
echo "none of buildah, podman and docker is here" >&2
exit 1
