#!/bin/sh
# A small system of this machine's distribution, to try packages in: what Debian's minimum has, a compiler, make, pkg-config and
# Python. Usage: make_base.sh TAR; what is there already is kept. It comes over the network, once.
set -eu
tar=${1:?usage: make_base.sh TAR}
[ ! -s "$tar" ] || exit 0
command -v mmdebstrap >/dev/null || { echo "make_base.sh: mmdebstrap is not installed" >&2; exit 1; }
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:?}")
mkdir -p "$(dirname "$tar")"
trap 'rm -f "$tar.new.tar"' EXIT
mmdebstrap --quiet --mode=root --variant=minbase --include=gcc,libc6-dev,make,pkgconf,python3 "$suite" "$tar.new.tar"
mv "$tar.new.tar" "$tar"
