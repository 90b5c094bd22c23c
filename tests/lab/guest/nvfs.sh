# nvfs.sh: the library's path by nvidia-fs.ko. The real module stands on a stand-in for the GPU's driver (module nvidia, whose
# memory processes map through /dev/stubgpu) and hooks a disk in memory that has the hooks (nvfsdisk). The kernel's own NVMe
# driver has none, and is what the library has to refuse.
. "$LAB/guest/common.sh"
begin
load ext4 xfs
parts=$SLUICE_LAB_NVFS_PARTS
for module in "$parts/nvidia.ko" "$parts/nvfsdisk.ko" "$SLUICE_LAB_NVFS_KO"; do
  if ! said=$(insmod "$module" 2>&1); then
    fail "${module##*/}: loads" "$said; $(dmesg | tail -n 3 | paste -sd ' ')"
    exit 1
  fi
done
wait_for 20 test -b /dev/nvfsdisk0 || fail "the disk with hooks appears" "it did not"
wait_for 20 test -c /dev/nvidia-fs0 || fail "nodes of the module appear" "they did not"
echo "nvidia-fs $(cat /sys/module/nvidia_fs/version)"

export LD_LIBRARY_PATH=$LAB_BUILD/softgpu
export SLUICE_SOFTGPU_BACKING=/dev/stubgpu:0:$((48 << 20))
export SLUICE_NVFS=first CUFILE_USE_PCIP2PDMA=false
counter() { cat "/sys/module/nvfsdisk/parameters/$1"; }
held() { echo "$(cat /sys/module/nvidia/parameters/live) $(cat /sys/module/nvidia/parameters/maps)"; }

# moves NAME FILE: 4 MiB are read and compared; by which way they came the disk tells, since no drive of QEMU's has seen
# them. Writes are those of the matrix.
moves() {
  local before
  put_bytes "$2"
  same "$1: the library's path" "$(explained "$2" path)" nvfs
  same "$1: the library's reason" "$(explained "$2" reason)" direct
  before=$(counter direct)
  check "$1: bytes arrive" timeout 300 "$LAB_BUILD/bin/gdsio_verify" -f "$2" -d 0 -s 4M
  check "$1: some of them by the hooks" test "$(($(counter direct) - before))" -ge 4096
}

for system in ext4 xfs; do
  if mount_new "$system" /dev/nvfsdisk0 /mnt/hooked; then
    head -c $((8 << 20)) /dev/urandom >/mnt/hooked/file && sync
    moves "$system" /mnt/hooked/file
    export SLUICE_TEST_PLACES=/tmp/places.$system
    echo "$system=/mnt/hooked" >"$SLUICE_TEST_PLACES"
    places=$SLUICE_TEST_PLACES SLUICE_TEST_SAMPLE=2 gtest "$system matrix" 900 "$LAB_BUILD/test-bin/io_matrix" \
      "--gtest_filter=IoMatrix.${system}_*"
    umount /mnt/hooked
  else
    fail "$system on the disk with hooks: is made and mounted" "$(tail -n 1 /tmp/mkfs.log)"
  fi
done
wait_for 10 test "$(held)" = "0 0" || true
same "nothing of device memory is held when all have ended" "$(held)" "0 0"

# --- the raw disk is read this way, and written by the CPU
put_bytes /dev/nvfsdisk0
same "raw disk: the library's path" "$(explained /dev/nvfsdisk0 path)" nvfs

# --- a driver without hooks
plain=$(drive PLN0)
for target in "$plain"; do
  put_bytes "$target"
  same "the kernel's NVMe driver: the library's path" "$(explained "$target" path)" posix
  same "the kernel's NVMe driver: the library's reason" "$(explained "$target" reason)" nvfs_foreign_hooks
done
check "the module can be taken out afterwards" rmmod nvidia_fs
