# facts.sh: what the kernel does with device memory, target by target, when both hang on one switch. None of our library
# runs here: the library is built upon these answers.
. "$LAB/guest/common.sh"
begin
load ext4 xfs btrfs loop dm-mod raid0 raid1
modprobe null_blk nr_devices=0
mount -t configfs configfs /sys/kernel/config
plain=$(drive PLN0)
other=$(drive PLN1)

# --- the provider
use=$LAB_PROVIDER
same "provider: its memory is published" "$(cat "$use/published")" 1
same "provider: its size is the drive's controller memory buffer" "$(cat "$use/size")" $((LAB_GPU_MIB << 20))
probe_it limits "provider"

# --- the drive itself
probe_it transfers "raw drive" "$plain" direct
probe_it large "raw drive" "$plain"
probe_it passthrough "raw drive" "/dev/ng$(name_of_drive PLN0 | sed 's/^nvme//')" "$plain"
probe_it transfers "provider's own drive" "$(drive GPU0)" right
probe_it polled "drive with poll queues" "$plain" direct
probe_it polled "drive without poll queues" "$other" EOPNOTSUPP
use_provider GPU1
probe_it transfers "raw drive, second provider" "$plain" direct
use_provider GPU0

# --- file systems
for kind in ext4 xfs btrfs; do
  needs "$kind" "mkfs.$kind" || continue
  if ! mount_new "$kind" "$plain" "/mnt/$kind"; then
    fail "$kind: is made and mounted" "$(tail -n 1 /tmp/mkfs.log)"
    continue
  fi
  probe_it transfers "$kind" "/mnt/$kind/file" "$(if [ $kind = btrfs ]; then echo direct/copied/copied; else echo direct; fi)"
  probe_it edges "$kind" "/mnt/$kind" "$kind"
  if [ $kind = ext4 ]; then
    truncate -s 16M /mnt/ext4/image
    loop=$(losetup --find --show --direct-io=on /mnt/ext4/image)
    probe_it transfers "loop device on ext4" "$loop" EREMOTEIO
    losetup -d "$loop"
  fi
  umount "/mnt/$kind"
done
probe_it transfers "tmpfs" /dev/shm/file copied
probe_it transfers "overlayfs on tmpfs" /overlay-file copied

# --- devices made of others
kept=/sys/kernel/config/nullb/kept # in memory: by itself null_blk forgets what it is given
mkdir "$kept"
echo 16 >"$kept/size"
echo 1 >"$kept/memory_backed"
echo 1 >"$kept/power"
probe_it transfers "null_blk" /dev/kept EREMOTEIO
rmdir "$kept"
if needs "dm-linear" dmsetup; then
  new_mapping linear 32 "$plain"
  probe_it transfers "dm-linear" /dev/mapper/linear EREMOTEIO
  end_mapping linear
fi

for level in 0 1; do
  if new_array $level 64 "$plain" "$other"; then
    probe_it transfers "md raid$level" /dev/md$level "$(if [ $level = 1 ]; then echo 'direct*2'; else echo direct; fi)"
    end_array $level
  else
    fail "md raid$level: can be made" "see the output"
  fi
done

# --- two controllers of one drive
head=$(name_of_drive SHARED)
same "PCIe multipath: two paths stand behind one head" "$(ls "/sys/block/$head/multipath" | wc -l)" 2
probe_it transfers "PCIe multipath" "/dev/$head" direct
