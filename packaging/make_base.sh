#!/bin/sh
# A small system of this machine's distribution, to try packages in: what Debian's minimum has, a compiler, make, pkg-config and
# Python. Usage: make_base.sh TAR; what was made of the same is kept. It comes over the network, once.
set -eu
tar=${1:?usage: make_base.sh TAR}
packages=gcc,libc6-dev,make,pkgconf,python3,python3-venv
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:?}")
mkdir -p "$(dirname "$tar")"
exec 9>"$tar.lock"
flock 9  # another one may be making it
[ ! -s "$tar" ] || [ "$(cat "$tar.made-of" 2>/dev/null)" != "$suite $packages" ] || exit 0
command -v mmdebstrap >/dev/null || { echo "make_base.sh: mmdebstrap is not installed" >&2; exit 1; }
trap 'rm -f "$tar.new.tar"' EXIT
trap 'exit 1' HUP INT TERM
mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" "$suite" "$tar.new.tar"
mv "$tar.new.tar" "$tar"
echo "$suite $packages" >"$tar.made-of"
