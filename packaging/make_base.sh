#!/bin/sh
# A small system of this machine's distribution, to try packages in: what Debian's minimum has, a compiler, make, pkg-config and
# Python. Usage: make_base.sh TAR; what was made of the same is kept. It comes over the network, once.
set -eu
tar=${1:?usage: make_base.sh TAR}
packages=gcc,libc6-dev,make,pkgconf,python3,python3-venv
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:?}")
[ ! -s "$tar" ] || [ "$(cat "$tar.made-of" 2>/dev/null)" != "$suite $packages" ] || exit 0
command -v mmdebstrap >/dev/null || { echo "make_base.sh: mmdebstrap is not installed" >&2; exit 1; }
mkdir -p "$(dirname "$tar")"
new=$tar.$$.tar  # another one may be making it
trap 'rm -f "$new"' EXIT
mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" "$suite" "$new"
mv "$new" "$tar"
echo "$suite $packages" >"$tar.made-of"
