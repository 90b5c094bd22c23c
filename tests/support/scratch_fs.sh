#!/bin/sh
# scratch_fs.sh: makes the file systems that the tests run on, and takes them away again.
#
#   scratch_fs.sh up DIR      make what this user can, write DIR/places
#   scratch_fs.sh down DIR    unmount everything below DIR, free its loop devices, remove it
#
# DIR/places has a line a place: `name=path`, or `skipped name: reason` for what could not be made. As root: ext4, xfs
# and btrfs on loop devices, tmpfs, overlayfs on ext4 and on tmpfs, FUSE (bindfs), a raw loop device, and `tiny`, a
# tmpfs of 1 MiB for tests of a full disk. An ordinary user gets the directory's own file system (`here`), /dev/shm
# and, where fusermount3 permits, FUSE.
#
# `up` first takes away what an interrupted run has left. Outside DIR only a folder of ours in /dev/shm is touched.
set -u
PATH=$PATH:/usr/sbin:/sbin

usage() { sed -n '2,/^set/p' "$0" | sed -n 's/^# \{0,1\}//p'; exit 2; }
[ $# -eq 2 ] || usage

mkdir -p "$2" || exit 1
dir=$(cd "$2" && pwd -P) || exit 1
case "$dir" in /|/tmp|/home|/root|/usr|/var|/dev|/dev/shm) echo "scratch_fs: $dir is no scratch directory" >&2; exit 1 ;; esac
places=$dir/places
shm=/dev/shm/sluice-test-$(id -u)

# Mount points below $dir, the youngest first, since overlays stand on older ones. mountinfo writes a blank as \040.
mounts_below() {
  escaped=$(printf '%s' "$dir" | sed 's/ /\\040/g')
  prefix=$escaped/ awk 'index($5, ENVIRON["prefix"]) == 1 { print $5 }' /proc/self/mountinfo | tac | sed 's/\\040/ /g'
}

unmount() {
  umount "$1" 2>/dev/null || fusermount3 -u "$1" 2>/dev/null || umount -l "$1" 2>/dev/null
}

take_down() {
  for attempt in 1 2 3; do
    [ -n "$(mounts_below)" ] || break
    mounts_below | while IFS= read -r mount; do unmount "$mount"; done
  done
  # A lazily unmounted or interrupted image may still hold its loop device.
  for image in "$dir"/*.img; do
    [ -e "$image" ] || continue
    losetup -j "$image" 2>/dev/null | cut -d: -f1 | while IFS= read -r loop; do losetup -d "$loop"; done
  done
  if [ -n "$(mounts_below)" ]; then
    echo "scratch_fs: still mounted below $dir:" >&2
    mounts_below >&2
    return 1
  fi
  # --one-file-system: should a mount have been missed, its content stays.
  rm -rf --one-file-system "$dir" "$shm"
}

made() { echo "$1=$2" >>"$places"; }
skip() { echo "skipped $1: $2" | tee -a "$places"; }
have() { command -v "$1" >/dev/null 2>&1; }

# on_loop NAME MKFS-COMMAND...: a sparse image with a file system on it, mounted at $dir/NAME.
on_loop() {
  name=$1
  shift
  if ! have "$1"; then skip "$name" "$1 is not installed"; return; fi
  image=$dir/$name.img
  mkdir -p "$dir/$name"
  if ! { truncate -s 1G "$image" && "$@" "$image"; } >"$dir/$name.log" 2>&1; then
    skip "$name" "$1 failed: $(tail -n 1 "$dir/$name.log")"
  elif ! mount -o loop "$image" "$dir/$name" 2>"$dir/$name.log"; then
    skip "$name" "not mounted: $(tail -n 1 "$dir/$name.log")"
  else
    made "$name" "$dir/$name"
  fi
}

# in_memory NAME SIZE
in_memory() {
  mkdir -p "$dir/$1"
  if mount -t tmpfs -o "size=$2" tmpfs "$dir/$1" 2>"$dir/$1.log"; then
    made "$1" "$dir/$1"
  else
    skip "$1" "not mounted: $(tail -n 1 "$dir/$1.log")"
  fi
}

# overlay NAME LOWER-PLACE
overlay() {
  below=$(sed -n "s/^$2=//p" "$places")
  if [ -z "$below" ]; then skip "$1" "there is no $2 below it"; return; fi
  mkdir -p "$dir/$1" "$below/lower" "$below/upper" "$below/work"
  if mount -t overlay -o "lowerdir=$below/lower,upperdir=$below/upper,workdir=$below/work" overlay "$dir/$1" \
      2>"$dir/$1.log"; then
    made "$1" "$dir/$1"
  else
    skip "$1" "not mounted: $(tail -n 1 "$dir/$1.log")"
  fi
}

# FUSE hands on O_SYNC request by request: over tmpfs, where there is one, that costs nothing.
fuse() {
  below=$(sed -n 's/^tmpfs=//p' "$places")
  mkdir -p "$dir/fuse" "${below:-$dir}/fuse-source"
  if ! have bindfs; then
    skip fuse "bindfs is not installed"
  elif [ ! -w /dev/fuse ]; then
    skip fuse "/dev/fuse may not be written"
  elif bindfs --no-allow-other "${below:-$dir}/fuse-source" "$dir/fuse" >"$dir/fuse.log" 2>&1; then
    made fuse "$dir/fuse"
  else
    skip fuse "bindfs failed: $(tail -n 1 "$dir/fuse.log")"
  fi
}

raw_loop() {
  truncate -s 36M "$dir/loop.img"
  if device=$(losetup --find --show "$dir/loop.img" 2>"$dir/loop.log"); then
    made loop "$device"
  else
    skip loop "no loop device: $(tail -n 1 "$dir/loop.log")"
  fi
}

build_up() {
  mkdir -p "$dir/here" || return 1
  : >"$places" || return 1
  made here "$dir/here"
  if [ "$(id -u)" -eq 0 ]; then
    on_loop ext4 mkfs.ext4 -q -F
    on_loop xfs mkfs.xfs -q -f
    on_loop btrfs mkfs.btrfs -q -f
    in_memory tmpfs 256M
    in_memory tiny 1M
    overlay overlay-ext4 ext4
    overlay overlay-tmpfs tmpfs
    raw_loop
  else
    for name in ext4 xfs btrfs tmpfs tiny overlay-ext4 overlay-tmpfs loop; do skip "$name" "needs root"; done
    if [ -w /dev/shm ]; then
      mkdir -p "$shm" && made shm "$shm"
    fi
  fi
  fuse
}

case $1 in
  up) take_down && mkdir -p "$dir" && build_up && cat "$places" ;;
  down) take_down ;;
  *) usage ;;
esac
