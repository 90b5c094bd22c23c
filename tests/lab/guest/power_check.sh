# power_check.sh: mounts what each power cut has left, and says what of it is lost. /lab/out/cuts has a line each: its
# number, where it begins on the drive, its size, that of the journal behind it (0: it is inside), and WRITER=NUMBER of
# what was acknowledged.
. "$LAB/guest/common.sh"
load virtio_blk "$LAB_FILE_SYSTEM" loop
if ! wait_for 20 test -b /dev/vda; then
  fail "the drive appears" "there are: $(ls /sys/class/block | tr '\n' ' ')"
  exit 1
fi
mkdir -p /mnt/power
export LD_LIBRARY_PATH=$LAB_BUILD/softgpu
while read -r number begin size journal acknowledged; do
  options=loop,offset=$begin,sizelimit=$size
  if [ "$journal" -gt 0 ]; then
    device=$(losetup -f)
    losetup -o $((begin + size)) --sizelimit "$journal" "$device" /dev/vda || continue
    options=$options,$(journal_option "$device")
  fi
  if mount -t "$LAB_FILE_SYSTEM" -o "$options" /dev/vda /mnt/power; then
    # shellcheck disable=SC2086 # words
    "$LAB_BUILD/test-bin/lab_power" check /mnt/power $acknowledged | sed "s/^\(held\|lost\) /\1 $number /"
    umount /mnt/power && echo "looked $number"
  else
    echo "lost $number mount -- the file system cannot be mounted"
  fi
  [ "$journal" -eq 0 ] || losetup -d "$device"
done </lab/out/cuts
