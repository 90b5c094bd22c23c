#!/usr/bin/env bash
# The differential test on a machine with a GPU and NVIDIA's library: nothing is built there.
#
#   tests/differential/run_on_gpu.sh BUILD_DIR INCUMBENT.so|find SECONDS OUT_DIR [ARGUMENT ...]
#
# BUILD_DIR needs lib/libcufile.so.0 and test-bin/differential_player; further arguments go to differential.py (--seed 1).
# Writes OUT_DIR/report.txt, report.json, errors.txt and all answers of the incumbent's, answers.N.xz, with which replay.py
# compares ours anywhere, later (what depends on the device apart). As root it makes an ext4 file system in memory for the files and
# tells what udev would; where the incumbent takes no file of it, the disk below TMPDIR or /var/tmp is used.
set -uo pipefail
(($# >= 4)) || { sed -n '2,/^set/p' "$0" | sed -n 's/^# \{0,1\}//p'; exit 2; }
build=$(readlink -f "$1") theirs=$2 seconds=$3 out=$4
shift 4
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
mkdir -p "$out"
out=$(readlink -f "$out")
work=$(mktemp -d) mounted=no

die() { echo "run_on_gpu: $*" >&2; exit 3; }

# shellcheck source=bench/incumbent.sh
. "$here/../../bench/incumbent.sh"

# shellcheck disable=SC2317 # the trap calls it
clean_up() {
  forget_udev
  [ "$mounted" = no ] || umount "$work/ext4" || umount -l "$work/ext4"
  rm -rf --one-file-system "$work" "$image"
}

find_theirs() {
  local folder
  for folder in /usr/local/cuda*/targets/x86_64-linux/lib /usr/local/cuda*/lib64 /usr/lib/x86_64-linux-gnu \
    "$(python3 -c 'import nvidia.cufile as it; print(list(it.__path__)[0] + "/lib")' 2>/dev/null)" /usr/local /opt; do
    [ -d "$folder" ] || continue
    theirs=$(find -L "$folder" -maxdepth 8 -name 'libcufile.so.0' ! -path "$build/*" -print -quit 2>/dev/null)
    [ -z "$theirs" ] || return 0
  done
  die "no libcufile.so.0 found: name it"
}

on_loop() {
  [ "$(id -u)" -eq 0 ] && PATH=$PATH:/usr/sbin:/sbin command -v mkfs.ext4 >/dev/null || return 1
  truncate -s 6G "$image" && PATH=$PATH:/usr/sbin:/sbin mkfs.ext4 -q -F "$image" || return 1
  mkdir -p "$work/ext4" && mount -o loop,noatime "$image" "$work/ext4" || return 1
  mounted=yes
}

# Does the incumbent take a file of this folder?
takes() {
  local folder
  folder=$(mktemp -d "$1/probe-XXXXXX") || return 1
  tell_udev "$folder"
  printf 'script probe life\nHandleRegister h0 s.rw 1 -\nend\n' |
    timeout 60 "$build/test-bin/differential_player" --library="$theirs" --folder="$folder" --seconds=50 \
      >"$work/probe" 2>"$out/errors.txt"
  rm -rf "$folder"
  sed 's/^/run_on_gpu: /' "$work/probe"
  grep -q 'HandleRegister err=0/0' "$work/probe"
}

image=$(mktemp "$([ -w /dev/shm ] && echo /dev/shm || echo "$work")/differential-XXXXXX")
trap clean_up EXIT
trap 'exit 130' INT TERM
[ "$theirs" != find ] || find_theirs
theirs=$(readlink -f "$theirs")
[ -e "$theirs" ] || die "there is no $theirs"
[ -x "$build/test-bin/differential_player" ] || die "there is no $build/test-bin/differential_player"
echo "run_on_gpu: theirs is $theirs" >&2
# The incumbent looks for its companions here.
LD_LIBRARY_PATH=$(dirname "$theirs")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

place=''
on_loop && takes "$work/ext4" && place=$work/ext4
for folder in ${place:+''} "${TMPDIR:-/tmp}" /var/tmp "$HOME"; do
  [ -z "$place" ] && [ -n "$folder" ] && takes "$folder" && place=$folder
done
[ -n "$place" ] || die "the incumbent takes no file of any folder: see $out/errors.txt"
echo "run_on_gpu: the files lie in $place ($(stat -f -c %T "$place"))" >&2
python3 -B "$here/differential.py" --player "$build/test-bin/differential_player" --ours "$build/lib/libcufile.so.0" \
  --theirs "$theirs" --folder "$place" --seconds "$seconds" --json "$out/report.json" --record "$out" "$@" \
  >"$out/report.txt" 2>>"$out/errors.txt"
status=$?
tail -n 3 "$out/errors.txt" >&2
head -n 60 "$out/report.txt"
exit "$status"
