#!/usr/bin/env bash
# initramfs.sh: packs the guest's first process, a static busybox and the modules that lead to the host's tree.
#
#   initramfs.sh DIR     makes DIR/initramfs from what kernel.sh has left in DIR
#
# Exit status 77 where the machine's busybox will not do.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
dir=$(cd "$1" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$(cat "$dir/version")
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

mkdir -p "$tree"/{bin,dev,modules,proc,sys}
busybox=$(command -v busybox)
if LC_ALL=C ldd "$busybox" >/dev/null 2>&1; then
  echo "initramfs.sh: $busybox needs shared libraries; the package busybox-static has one that does not" >&2
  exit 77
fi
cp "$busybox" "$tree/bin/busybox"
cp "$here/guest/init" "$tree/init"
chmod +x "$tree/init"

# Numbered, since they are loaded in the order of their names.
number=100
for module in 9pnet_virtio 9p overlay; do
  modprobe -d "$dir/root" -S "$version" --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
  cp "$file" "$tree/modules/$number-$(basename "$file")"
  number=$((number + 1))
done

(cd "$tree" && find . | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0) | gzip -1 >"$dir/initramfs.new"
mv "$dir/initramfs.new" "$dir/initramfs"
