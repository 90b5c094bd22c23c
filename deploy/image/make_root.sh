#!/bin/sh
# The root of an image, without a base image: the driver, the tools, the library, what makes and grows file systems, and the
# libraries that these need. Usage: make_root.sh BUILD ROOT; ROOT is made. `tar -C ROOT -c . | podman import - NAME` makes the image.
set -eu
build=${1:?usage: make_root.sh BUILD ROOT}
root=${2:?usage: make_root.sh BUILD ROOT}
PATH=$PATH:/usr/sbin:/sbin
programs="sh cp mkdir cat ls mount umount blkid mkfs.xfs xfs_growfs xfs_io mkfs.ext4 resize2fs modprobe"

mkdir -p "$root/usr/bin" "$root/usr/lib/sluice/kit" "$root/usr/share/sluice" "$root/etc" "$root/tmp" "$root/proc" "$root/sys" \
  "$root/dev" "$root/run" "$root/var/lib"
for link in bin sbin lib lib64; do
  target=usr/lib
  case $link in *bin) target=usr/bin ;; esac
  [ -e "$root/$link" ] || ln -s "$target" "$root/$link"
done
[ -e "$root/usr/sbin" ] || ln -s bin "$root/usr/sbin"

# Libraries lie flat in usr/lib, where the loader looks anyway.
take_libraries() {
  ldd "$1" 2>/dev/null | sed -n 's/^.*=> \(\/[^ ]*\) .*$/\1/p; s/^[[:space:]]*\(\/[^ ]*\) .*$/\1/p' | while read -r library; do
    name=${library##*/}
    [ -e "$root/usr/lib/$name" ] || cp -L "$library" "$root/usr/lib/$name"
  done
}

for program in $programs; do
  path=$(command -v "$program") || { echo "make_root.sh: $program is not installed" >&2; exit 1; }
  # xfs_growfs is a script around xfs_spaceman or xfs_growfs proper, as the distribution has it.
  cp -L "$path" "$root/usr/bin/$program"
  take_libraries "$path"
done
for program in sluice-csi sluice; do
  strip -o "$root/usr/bin/$program" "$build/bin/$program"
  take_libraries "$build/bin/$program"
done
for folder in "$root/usr/lib" "$root/usr/lib/sluice/kit"; do strip -o "$folder/libcufile.so.0" "$build/lib/libcufile.so.0"; done
cp "$build/share/sluice/cufile.json" "$root/usr/share/sluice/"
cp "$build/share/sluice/cufile.json" "$root/usr/lib/sluice/kit/"
printf 'root:x:0:0:root:/:/bin/sh\nnobody:x:65532:65532:nobody:/:/bin/sh\n' >"$root/etc/passwd"
