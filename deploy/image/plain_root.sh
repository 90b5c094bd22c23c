#!/bin/sh
# A root without a base image: programs of this machine under their names, the libraries that they need, the folders that a
# system has. Usage: plain_root.sh ROOT NAME|PATH...; of a PATH that is a library, only what it needs is taken.
set -eu
root=${1:?usage: plain_root.sh ROOT NAME|PATH...}
shift
PATH=$PATH:/usr/sbin:/sbin

mkdir -p "$root/usr/bin" "$root/usr/lib" "$root/etc" "$root/tmp" "$root/proc" "$root/sys" "$root/dev" "$root/run" "$root/var/lib"
chmod 1777 "$root/tmp"
for link in bin sbin lib lib64; do
  target=usr/lib
  case $link in *bin) target=usr/bin ;; esac
  [ -e "$root/$link" ] || ln -s "$target" "$root/$link"
done
[ -e "$root/usr/sbin" ] || ln -s bin "$root/usr/sbin"
printf 'root:x:0:0:root:/:/bin/sh\nnobody:x:65532:65532:nobody:/:/bin/sh\n' >"$root/etc/passwd"

# Libraries lie flat in usr/lib, where the loader looks anyway. Our own is not taken: images install it.
for wanted in "$@"; do
  path=$(command -v "$wanted") || [ -e "$wanted" ] || { echo "plain_root.sh: $wanted is not installed" >&2; exit 1; }
  path=${path:-$wanted}
  case $path in *.so.*) ;; *) [ -e "$root/usr/bin/${path##*/}" ] || cp -L "$path" "$root/usr/bin/${path##*/}" ;; esac
  ldd "$path" 2>/dev/null | sed -n 's/^.*=> \(\/[^ ]*\) .*$/\1/p; s/^[[:space:]]*\(\/[^ ]*\) .*$/\1/p' | while read -r library; do
    name=${library##*/}
    [ "$name" = libcufile.so.0 ] || [ -e "$root/usr/lib/$name" ] || cp -L "$library" "$root/usr/lib/$name"
  done
done
