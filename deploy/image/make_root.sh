#!/bin/sh
# The root of the image for Kubernetes, without a base image: the driver, the tools, the library, what makes and grows file
# systems, and the libraries that these need. Usage: make_root.sh BUILD ROOT; ROOT is made. `tar -C ROOT -c . | podman import
# - NAME` makes the image.
set -eu
build=${1:?usage: make_root.sh BUILD ROOT}
root=${2:?usage: make_root.sh BUILD ROOT}

"$(dirname "$0")/plain_root.sh" "$root" sh cp mkdir cat ls mount umount blkid mkfs.xfs xfs_growfs xfs_io mkfs.ext4 resize2fs \
  modprobe "$build/bin/sluice-csi" "$build/bin/sluice" "$build/lib/libcufile.so.0"
# The driver loads it by itself, to ask the API server (--dra); what it needs in turn comes with it.
ssl=$(ldconfig -p 2>/dev/null | sed -n 's/^.*libssl\.so\.3 .*=> //p' | head -n 1)
if [ -n "$ssl" ]; then
  "$(dirname "$0")/plain_root.sh" "$root" "$ssl"
  cp -L "$ssl" "$root/usr/lib/libssl.so.3"
fi
mkdir -p "$root/usr/lib/sluice/kit" "$root/usr/share/sluice"
for program in sluice-csi sluice; do strip -o "$root/usr/bin/$program" "$build/bin/$program"; done
for folder in "$root/usr/lib" "$root/usr/lib/sluice/kit"; do strip -o "$folder/libcufile.so.0" "$build/lib/libcufile.so.0"; done
cp "$build/share/sluice/cufile.json" "$(dirname "$0")/../../LICENSE" "$(dirname "$0")/../../packaging/NOTICES" "$root/usr/share/sluice/"
cp "$build/share/sluice/cufile.json" "$root/usr/lib/sluice/kit/"
