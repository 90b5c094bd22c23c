#!/bin/sh
# with_backing.sh DEVICES COMMAND...: runs a command whose soft GPU has its memory in files that I/O can reach, one for
# each of so many devices, so that the direct path is open to it. The files vanish with the command.
set -u
[ $# -ge 2 ] || { sed -n '2,3s/^# //p' "$0"; exit 2; }
devices=$1
shift
backing=""
files=""
# shellcheck disable=SC2086 # names without blanks
trap 'rm -f $files' EXIT
trap 'exit 1' HUP INT TERM
while [ "$devices" -gt 0 ]; do
  file=$(mktemp /dev/shm/sluice-backing.XXXXXX) || exit 1
  files="$files $file"
  backing="$backing${backing:+,}$file"
  devices=$((devices - 1))
done
SLUICE_SOFTGPU_BACKING=$backing CUFILE_USE_PCIP2PDMA=true "$@"
