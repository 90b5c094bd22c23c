# library.sh: which way the library goes on each file system and device, why, and what the drives then did. The device
# memory of the soft GPU is the provider's, so a transfer can be direct in earnest.
#
# A new file system, device or path is a line that calls `expect`.
. "$LAB/guest/common.sh"
begin
load ext4 xfs btrfs loop dm-mod raid0 raid1
use_library
plain=$(drive PLN0)
other=$(drive PLN1)

name=${plain##*/}
second=${other##*/}
expect "raw drive" "$plain" p2pdma direct direct "block device $name (nvme, pcie)"
for kind in ext4 xfs btrfs; do
  needs "$kind" "mkfs.$kind" || continue
  # btrfs may copy behind O_DIRECT, and is never tried.
  way="p2pdma direct direct"
  [ $kind != btrfs ] || way="posix unsupported_file_system copied"
  if mount_new $kind "$plain" /mnt/$kind; then
    # shellcheck disable=SC2086 # three words
    expect $kind /mnt/$kind/file $way "$kind on /mnt/$kind ($name, nvme, pcie)"
    umount /mnt/$kind
  else
    fail "$kind: is made and mounted" "$(tail -n 1 /tmp/mkfs.log)"
  fi
done
if new_array 0 64 "$plain" "$other"; then
  expect "md raid0" /dev/md0 p2pdma direct direct "block device md0 (md, over $(printf '%s\n' "$name" "$second" | sort | paste -sd '+'))"
  end_array 0
else
  fail "md raid0: can be made" "see the output"
fi
if needs "dm-linear" dmsetup; then
  new_mapping linear 64 "$plain"
  expect "dm-linear" /dev/mapper/linear posix pages_refused copied "block device dm-0 (device-mapper, over $name)"
  end_mapping linear
fi
head=$(name_of_drive SHARED)
expect "PCIe multipath" "/dev/$head" p2pdma direct direct "block device $head (nvme, pcie)"
