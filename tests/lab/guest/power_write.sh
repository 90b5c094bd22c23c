# power_write.sh: LAB_WRITERS on a new LAB_FILE_SYSTEM, until the machine is killed (power.py).
#
# The drive is /dev/vda: a file system, acknowledgements, and a journal where the file system has its own elsewhere. Where
# the drive is an NVMe drive (CUT), too, the file system lies on that, for the direct path, and its journal stays with
# virtio, by which durable writes are told from others.
. "$LAB/guest/common.sh"
load virtio_blk "$LAB_FILE_SYSTEM"
if ! wait_for 20 test -b /dev/vda2; then
  fail "the drive and its partitions appear" "there are: $(ls /sys/class/block | tr '\n' ' ')"
  exit 1
fi
if [ -n "$LAB_DRIVES" ]; then
  begin
  wait_for 20 test -b "$(drive CUT)p1"
  use_library
  export LAB_DIRECT=/mnt/power/trial
  made=$(mount_with_journal "$(drive CUT)p1" /dev/vda3 /mnt/power 2>&1)
else
  made=$(mount_new "$LAB_FILE_SYSTEM" /dev/vda1 /mnt/power 2>&1)
fi || {
  fail "$LAB_FILE_SYSTEM: is made and mounted" "$made $(tail -n 1 /tmp/mkfs.log)"
  exit 1
}
[ -z "${LAB_DIRECT:-}" ] || put_bytes "$LAB_DIRECT"
export LD_LIBRARY_PATH=$LAB_BUILD/softgpu
# shellcheck disable=SC2086 # words
"$LAB_BUILD/test-bin/lab_power" begin /mnt/power $LAB_WRITERS || exit 1
case " $LAB_WRITERS " in *" save_file "*)
  PYTHONPATH=$LAB/../../python SLUICE_LIBRARY=$LAB_BUILD/lib/libcufile.so.0 PYTHONDONTWRITEBYTECODE=1 \
    python3 "$LAB/power/save_file.py" /mnt/power /dev/vda2 /lab/out/enough-python & ;;
esac
# shellcheck disable=SC2086 # words
"$LAB_BUILD/test-bin/lab_power" write /mnt/power /dev/vda2 /lab/out/enough $LAB_WRITERS
