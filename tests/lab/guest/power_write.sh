# power_write.sh: all writers of the power cut on a new LAB_FILE_SYSTEM, until the machine is killed (power.py).
. "$LAB/guest/common.sh"
load virtio_blk "$LAB_FILE_SYSTEM"
if ! wait_for 20 test -b /dev/vda2; then
  fail "the drive and its partitions appear" "there are: $(ls /sys/class/block | tr '\n' ' ')"
  exit 1
fi
if ! mount_new "$LAB_FILE_SYSTEM" /dev/vda1 /mnt/power; then
  fail "$LAB_FILE_SYSTEM: is made and mounted" "$(tail -n 1 /tmp/mkfs.log)"
  exit 1
fi
export LD_LIBRARY_PATH=$LAB_BUILD/softgpu
"$LAB_BUILD/test-bin/lab_power" begin /mnt/power || exit 1
PYTHONPATH=$LAB/../../python SLUICE_LIBRARY=$LAB_BUILD/lib/libcufile.so.0 PYTHONDONTWRITEBYTECODE=1 \
  python3 "$LAB/power/save_file.py" /mnt/power /dev/vda2 /lab/out/enough-python &
"$LAB_BUILD/test-bin/lab_power" write /mnt/power /dev/vda2 /lab/out/enough
