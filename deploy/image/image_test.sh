#!/bin/sh
# The image's root, made without a network: every program in it starts there, and all of it packs into 100 MB, the driver into 10.
set -eu
build=${1:?usage: image_test.sh BUILD}
skip() {
  echo "skipped: $*"
  exit 77
}
[ "$(id -u)" -eq 0 ] || skip "chroot needs root"
for program in sluice-csi sluice; do [ -x "$build/bin/$program" ] || skip "$program is not built"; done
PATH=$PATH:/usr/sbin:/sbin
for program in mkfs.xfs mkfs.ext4 modprobe; do command -v "$program" >/dev/null || skip "$program is not installed"; done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(dirname "$0")/make_root.sh" "$build" "$folder/root"
# Again, over what is there: a second build of an image changes nothing.
"$(dirname "$0")/make_root.sh" "$build" "$folder/root"

inside() { chroot "$folder/root" "$@"; }
inside sluice-csi --version
inside sluice version >/dev/null
for program in mkfs.xfs mkfs.ext4 blkid xfs_io; do inside "$program" -V >/dev/null 2>&1 || { echo "$program does not start"; exit 1; }; done
if ldconfig -p | grep -q 'libssl\.so\.3 '; then
  for library in libssl.so.3 libcrypto.so.3; do [ -e "$folder/root/usr/lib/$library" ] || { echo "$library is missing"; exit 1; }; done
fi
inside xfs_growfs -V >/dev/null
inside resize2fs 2>&1 | grep -q Usage
inside sh -c 'mkdir -p /kit && cp -a /usr/lib/sluice/kit/. /kit/ && ls /kit/libcufile.so.0 /kit/cufile.json' >/dev/null

driver=$(stat -c %s "$folder/root/usr/bin/sluice-csi")
packed=$(tar -C "$folder/root" -c . | gzip -1 | wc -c)
echo "driver $driver bytes, packed $packed bytes"
[ "$driver" -le 10485760 ]
[ "$packed" -le 104857600 ]
