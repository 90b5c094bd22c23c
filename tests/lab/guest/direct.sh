# direct.sh: more of the library's direct path than library.sh has: arrays, mappings and loops with file systems on them,
# devices side by side, and drives that are polled.
. "$LAB/guest/common.sh"
begin
load ext4 xfs loop dm-mod raid0 raid1
use_library
plain=$(drive PLN0)
other=$(drive PLN1)

on_file_system() { # on_file_system NAME FILE-SYSTEM DEVICE PATH REASON direct|copied
  needs "$1" "mkfs.$2" || return
  if mount_new "$2" "$3" /mnt/direct; then
    : >/mnt/direct/file
    goes "$1" /mnt/direct/file "$4" "$5" "$6"
    umount /mnt/direct
  else
    fail "$1: is made and mounted" "$(tail -n 1 /tmp/mkfs.log)"
  fi
}

# --- what stands on drives
if new_array 0 200 "$plain" "$other"; then
  on_file_system "xfs on md raid0" xfs /dev/md0 p2pdma direct direct
  end_array 0
else
  fail "md raid0: can be made" "see the output"
fi
if new_array 1 64 "$plain" "$other"; then
  # Each byte that is written goes to both drives: counted twice, so the number is not promised.
  goes "md raid1" /dev/md1 p2pdma direct unpromised
  end_array 1
else
  fail "md raid1: can be made" "see the output"
fi
on_file_system "xfs on PCIe multipath" xfs "$(drive SHARED)" p2pdma direct direct
if needs "ext4 on dm-linear" dmsetup; then
  new_mapping linear 200 "$plain"
  on_file_system "ext4 on dm-linear" ext4 /dev/mapper/linear posix pages_refused copied
  end_mapping linear
fi
if mount_new ext4 "$plain" /mnt/under; then
  truncate -s 64M /mnt/under/image
  loop=$(losetup -f)
  losetup "$loop" /mnt/under/image
  goes "loop" "$loop" posix pages_refused copied
  losetup -d "$loop"
  umount /mnt/under
else
  fail "ext4 below a loop: is made and mounted" "$(tail -n 1 /tmp/mkfs.log)"
fi
mkdir -p /mnt/memory && mount -t tmpfs tmpfs /mnt/memory
: >/mnt/memory/file
goes "tmpfs" /mnt/memory/file posix memory_file_system copied
: >/opt/overlaid
goes "overlayfs" /opt/overlaid posix stacked_file_system copied

# --- a file whose O_DIRECT the file system serves by the CPU
# ext4 journals the data of single files only where it allocates at once.
if mount_new ext4 "$plain" /mnt/direct && umount /mnt/direct && mount -t ext4 -o nodelalloc "$plain" /mnt/direct; then
  : >/mnt/direct/journalled
  if chattr +j /mnt/direct/journalled; then
    goes "ext4, file with journalled data" /mnt/direct/journalled posix unsupported_file_system copied
  else
    fail "ext4, file with journalled data: can be made" "chattr failed"
  fi
  umount /mnt/direct
else
  fail "ext4 with a journalled file: is made and mounted" "$(tail -n 1 /tmp/mkfs.log)"
fi

# --- polling: one drive has a queue for it, the other has none
polled() { # polled NAME DRIVE VARIABLE: and how many runs ended by polling, in $runs
  local said
  said=$(env CUFILE_ENV_PATH_JSON=/tmp/polled.json "$3" timeout -k 5 300 "$LAB_BUILD/test-bin/lab_library" "$1" "$2" \
    direct fixed)
  echo "$said"
  runs=$(sed -n "s/^direct .*: [0-9]* pieces, \([0-9]*\) polled.*/\1/p" <<<"$said")
}
echo '{"properties": {"use_poll_mode": true, "poll_mode_max_size_kb": 65536}}' >/tmp/polled.json
for way in "IOPOLL SLUICE_POLL_THREAD=false" "SQPOLL+IOPOLL SLUICE_POLL_THREAD=true"; do
  # shellcheck disable=SC2086 # name and variable
  set -- $way
  polled "$1 on a drive with queues for it" "$plain" "$2"
  echo "count Runs that ended by polling, $1 -- ${runs:-0}"
  if [ "${runs:-0}" -gt 0 ]; then
    pass "$1: transfers end by polling"
  else
    fail "$1: transfers end by polling" "none did"
  fi
  polled "$1 on a drive without" "$other" "$2"
  same "$1: a drive without queues is waited for by interrupt" "${runs:-none told}" 0
done

# --- two devices, each with a drive's memory of its own
LAB_SECOND=/sys/bus/pci/devices/$(pci_of GPU1)/p2pmem
export SLUICE_SOFTGPU_DEVICES=2 SLUICE_SOFTGPU_BACKING=$LAB_PROVIDER/allocate,$LAB_SECOND/allocate
put_bytes "$plain"
for gpu in 0 1; do
  path=$(timeout 300 "$LAB_BUILD/bin/sluice" explain "$plain" --gpu $gpu --json | sed -n 's/^  "path": "\(.*\)",$/\1/p')
  same "device $gpu of two: the library's path" "$path" p2pdma
done
LAB_PROVIDER_NAME=GPU1 LAB_DEVICE=1 transfer "device 1 of two" "$plain" direct
