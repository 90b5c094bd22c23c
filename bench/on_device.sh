#!/usr/bin/env bash
# The comparison with the incumbent, or with an earlier library of ours, on a machine with a GPU; root, no network,
# nothing is built.
#
#   bench/on_device.sh PACK OUT [SUBSET]
#
# PACK    a folder made by tests/gpu/pack.sh
# OUT     where results go: comparison.json (also the state to go on from), tables.md, machine.txt
# SUBSET  which rows, as bench/compare.py --rows has them: patterns of KIND/ROW (default: all)
#
# Environment: BUDGET seconds (default 480), PAIRS (10), SECONDS_EACH (0.2), PROCESSES (2: how often the clients are started
# anew), SIZE of each file (4G), WRITE_SIZE (1G),
# KINDS (default "cached virtio loop tmpfs", less those that SUBSET cannot mean), CUDA (the toolkit's folder),
# DISK (a folder on ext4 on the disk), CONFIG (a cufile.json for both libraries, or none; default: the toolkit's),
# STATE (an earlier comparison.json, to go on from), VERSION (of ours), EARLIER (the folder of an earlier libcufile.so.0 of
# ours, against which each row is held to ASKED, default 0.98, of the speed; CUDA is not needed then).
set -euo pipefail
pack=$(readlink -f "$1") out=$2 subset=${3:-*}
mkdir -p "$out"
out=$(readlink -f "$out")
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
size=${SIZE:-4G} write_size=${WRITE_SIZE:-1G}
began=$SECONDS

die() { printf 'on_device: %s\n' "$*" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || die "root is needed, for the loop device and the udev records"
# shellcheck source=bench/incumbent.sh
. "$here/incumbent.sh"
toolkit='' against=()
if [ -n "${EARLIER:-}" ]; then
  theirs=$(readlink -f "$EARLIER")
  [ -e "$theirs/libcufile.so.0" ] || die "EARLIER=$EARLIER has no libcufile.so.0"
  against=(--asked "${ASKED:-0.98}")
else
  find_incumbent
fi

disk=$(mktemp -d "${DISK:-/var/tmp}/sluice-bench.XXXXXX")
memory=$(mktemp -d /tmp/sluice-bench-memory.XXXXXX)
mounts=() loop=''

# shellcheck disable=SC2317 # the trap calls it
clean_up() {
  local mount
  set +e
  for mount in "${mounts[@]}"; do
    # The image's own file system is free only when the loop device is.
    [ "$mount" != "$memory/image" ] || [ -z "$loop" ] || losetup -d "$loop"
    umount "$mount" || umount -l "$mount"
  done
  forget_udev
  rmdir "$memory/loop" "$memory/tmpfs" "$memory/image" 2>/dev/null
  rm -rf --one-file-system "$disk" "$memory"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# A tmpfs of its own: /dev/shm may be sized for the memory that the machine showed when it started.
in_memory() { # in_memory NAME SIZE
  mkdir -p "$memory/$1"
  mount -t tmpfs -o "size=$2" tmpfs "$memory/$1"
  mounts=("$memory/$1" "${mounts[@]}")
}

wants() { # wants KIND: may the subset mean it?
  local pattern patterns
  IFS=, read -ra patterns <<<"$subset"
  for pattern in "${patterns[@]}"; do
    # One without a kind means all of them. The part before the slash is a pattern, too.
    # shellcheck disable=SC2053
    [[ $pattern != */* || $1 == ${pattern%%/*} ]] && return 0
  done
  return 1
}

kinds=${KINDS:-cached virtio loop tmpfs}
files=()
for kind in $kinds; do
  wants "$kind" || continue
  case $kind in
    cached | virtio)
      [ "$(stat -f -c %T "$disk")" = ext2/ext3 ] || die "$disk is not on ext4: name a folder by DISK"
      tell_udev "$disk"
      files+=(--file "$kind=$disk/$kind")
      ;;
    loop)
      in_memory image 16G
      truncate -s 8G "$memory/image/disk"
      loop=$(losetup --find --show --direct-io=on "$memory/image/disk")
      mkfs.ext4 -q -F "$loop"
      mkdir -p "$memory/loop"
      mount -o data=ordered "$loop" "$memory/loop"
      mounts=("$memory/loop" "${mounts[@]}")
      tell_udev "$memory/loop"
      files+=(--file "loop=$memory/loop/file")
      ;;
    tmpfs)
      in_memory tmpfs 16G
      # What it is held against there: the incumbent on cached pages of an ordinary file.
      case " ${files[*]} " in *" cached="*) ;; *) tell_udev "$disk" && files+=(--file "cached=$disk/cached") ;; esac
      files+=(--file "tmpfs=$memory/tmpfs/file")
      ;;
    *) die "no such kind of file: $kind" ;;
  esac
done
((${#files[@]} > 0)) || die "$subset means no kind of file"

driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 || true)
{
  uname -a
  nvidia-smi 2>/dev/null || true
  lscpu | sed -n '1,25p'
  free -g
  df -hT "$disk" "$memory"
  readlink -f "$theirs/libcufile.so.0"
} >"$out/machine.txt" 2>&1

state=$out/comparison.json
[ -z "${STATE:-}" ] || cp "$STATE" "$state"
config=${CONFIG:-$([ -z "$toolkit" ] || find -L "$toolkit" -maxdepth 5 -name cufile.json -print -quit 2>/dev/null || true)}
[ "$config" != none ] || config=
status=0
(cd "$disk" && python3 -B "$here/compare.py" --program "$pack/bin/cufile_bench" \
  --ours "$pack/lib" --theirs "$theirs" "${against[@]}" ${config:+--config "$config"} "${files[@]}" --size "$size" \
  --write-size "$write_size" --rows "$subset" --state "$state" --pairs "${PAIRS:-10}" \
  --seconds "${SECONDS_EACH:-0.2}" --processes "${PROCESSES:-2}" --budget $((${BUDGET:-480} - (SECONDS - began))) \
  --version "gpu=${gpu:-unknown}" --version "driver=${driver:-unknown}" --version "sluice=${VERSION:-unknown}" \
  --version "incumbent=$(basename "$(readlink -f "$theirs/libcufile.so.0")")" --version "kernel=$(uname -r)") \
  >"$out/tables.md" 2>"$out/complaints.txt" || status=$?
cat "$out/tables.md"
cat "$out/complaints.txt" >&2
exit $status
