# common.sh: what the guest's scripts share; each begins with `. "$LAB/guest/common.sh"`.
#
# The job file sets LAB (tests/lab of the checkout), LAB_BUILD (the build folder) and what the case asks for. What a
# script prints is read by tests/lab/rows.py: `pass ROW`, `fail ROW -- WHY`, `skip ROW -- WHY`, `dma ...`,
# `window ...`, `count WHAT -- NUMBER`; other lines are for people.
set -u
probe=$LAB_BUILD/test-bin/lab_probe

pass() { echo "pass $1"; }
fail() { echo "fail $1 -- $2"; }
skip() { echo "skip $1 -- $2"; }

# check ROW COMMAND...: one row; what a failing command printed is its reason.
check() {
  local row=$1 said
  shift
  if said=$("$@" 2>&1); then
    pass "$row"
  else
    fail "$row" "$* answered $?: $(tail -n 3 <<<"$said" | paste -sd ' ')"
  fi
}

# same ROW GOT WANTED
same() {
  if [ "$2" = "$3" ]; then pass "$1"; else fail "$1" "\"$2\" where \"$3\" was expected"; fi
}

# needs ROW COMMAND: whether the command is there; a row that is skipped when it is not.
needs() {
  command -v "$2" >/dev/null && return 0
  skip "$1" "$2 is not installed on the host"
  return 1
}

# wait_for SECONDS COMMAND...: until the command succeeds. Fails after that time.
wait_for() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.05
  done
}

load() {
  local module
  for module in "$@"; do modprobe "$module" || fail "the module $module loads" "modprobe failed"; done
}

# The numbers of drives change from boot to boot, their serial numbers do not. Emulated processes start slowly, so what
# is asked often is asked of the shell itself: `read` takes the blanks off, and answers are left in a variable.
has_serial() { # has_serial FILE SERIAL
  local serial
  read -r serial <"$1" && [ "$serial" = "$2" ]
}
controller() { # controller SERIAL: nvmeX
  local found
  for found in /sys/class/nvme/nvme*; do
    if has_serial "$found/serial" "$1"; then echo "${found##*/}" && return; fi
  done
  return 1
}
# nvmeXn1. A drive with several controllers hangs on its subsystem, which has the same files; its paths are hidden.
name_of_drive() { # name_of_drive SERIAL
  local found
  for found in /sys/block/nvme*n*; do
    case ${found##*/} in *c*n*) continue ;; esac
    if has_serial "$found/device/serial" "$1"; then echo "${found##*/}" && return; fi
  done
  return 1
}
drive() { echo "/dev/$(name_of_drive "$1")"; }
pci_of() { basename "$(readlink -f "/sys/class/nvme/$(controller "$1")/device")"; }

drives_are_there() {
  local serial
  for serial in $LAB_DRIVES; do [ -b "$(drive "$serial" 2>/dev/null)" ] || return 1; done
}

# The drives of the case, the mark, and the first provider.
begin() {
  load nvme
  if ! wait_for 20 drives_are_there; then
    fail "the case's drives appear" "only these are there: $(cat /sys/class/nvme/*/serial | tr '\n' ' ')"
    exit 1
  fi
  LAB_MARK=$(drive MARK)
  export LAB_MARK
  local serial
  for serial in $LAB_GPUS; do
    # BAR 2 holds the controller memory buffer.
    echo "window $serial $(sed -n 3p "/sys/bus/pci/devices/$(pci_of "$serial")/resource" | cut -d' ' -f1,2)"
  done
  use_provider GPU0
}

use_provider() { # use_provider SERIAL
  export LAB_PROVIDER_NAME=$1
  LAB_PROVIDER=/sys/bus/pci/devices/$(pci_of "$1")/p2pmem
  export LAB_PROVIDER
}

# probe_it VERB NAME...: one verb of the probe, bounded. A hang is a row, not the end of the run.
probe_it() {
  timeout -k 5 300 "$probe" "$@"
  case $? in
    0 | 1) ;;
    *) fail "$2: $1 comes to an end" "the probe ended with $?" ;;
  esac
}

# mount_new FILE_SYSTEM DEVICE FOLDER
mount_new() {
  local force=-f
  [ "$1" != ext4 ] || force=-F
  mkdir -p "$3"
  "mkfs.$1" -q "$force" "$2" >/tmp/mkfs.log 2>&1 && mount -t "$1" "$2" "$3"
}

# journal_option DEVICE: how mount is told where the journal of a LAB_FILE_SYSTEM lies.
journal_option() {
  if [ "$LAB_FILE_SYSTEM" = xfs ]; then echo "logdev=$1"; else echo "journal_path=$1"; fi
}
# mount_with_journal DEVICE JOURNAL FOLDER: a new LAB_FILE_SYSTEM whose journal lies on a device of its own.
mount_with_journal() {
  mkdir -p "$3"
  if [ "$LAB_FILE_SYSTEM" = xfs ]; then
    mkfs.xfs -q -f -l "logdev=$2" "$1"
  else
    mkfs.ext4 -q -F -b 4096 -O journal_dev "$2" && mkfs.ext4 -q -F -b 4096 -J "device=$2" "$1"
  fi >/tmp/mkfs.log 2>&1 && mount -t "$LAB_FILE_SYSTEM" -o "$(journal_option "$2")" "$1" "$3"
}

# new_array LEVEL MEBIBYTES DEVICE DEVICE: /dev/mdLEVEL of level 0 or 1, with so much of each device and no metadata of its
# own. Made through sysfs: mdadm is not needed.
new_array() {
  local of=/sys/block/md$1/md member slot=0
  echo "md$1" >/sys/module/md_mod/parameters/new_array || return
  echo none >"$of/metadata_version"
  echo "raid$1" >"$of/level" || return
  [ "$1" = 1 ] || echo 65536 >"$of/chunk_size"
  echo 2 >"$of/raid_disks"
  for member in "$3" "$4"; do
    cat "/sys/class/block/${member##*/}/dev" >"$of/new_dev" || return
    echo $(($2 * 1024)) >"$of/dev-${member##*/}/size"
    echo $slot >"$of/dev-${member##*/}/slot" || return
    slot=$((slot + 1))
  done
  if [ "$1" = 1 ]; then
    echo $(($2 * 1024)) >"$of/component_size"
    echo none >"$of/resync_start"
  fi
  echo active >"$of/array_state"
}
end_array() { echo clear >"/sys/block/md$1/md/array_state"; }

# new_mapping NAME MEBIBYTES DEVICE: /dev/mapper/NAME, linear.
new_mapping() {
  dmsetup create "$1" --noudevsync --table "0 $(($2 * 2048)) linear $3 0" && dmsetup mknodes "$1"
}
end_mapping() { dmsetup remove --noudevsync "$1"; }

# What the library says of a file, by one key of `sluice explain`.
explained() { # explained FILE KEY
  LD_LIBRARY_PATH=$LAB_BUILD/softgpu timeout 300 "$LAB_BUILD/bin/sluice" explain "$1" --gpu 0 --json |
    sed -n "s/^  \"$2\": \"\(.*\)\",\$/\1/p"
}
# knows ROW FILE WANTED: the facts that the library finds below a file.
knows() {
  local said
  said=$(explained "$2" detail)
  same "$1: the library knows what it is" "${said%%, opened*}" "$3"
}

# The library, on a soft GPU whose memory is the provider's.
use_library() {
  export LD_LIBRARY_PATH=$LAB_BUILD/softgpu
  export SLUICE_SOFTGPU_BACKING=$LAB_PROVIDER/allocate
  export CUFILE_USE_PCIP2PDMA=true
}

# transfer NAME FILE direct|copied: the library's transfers, and what the drives then did.
transfer() {
  local fixed=""
  [ ! -b "$2" ] || fixed=fixed
  # shellcheck disable=SC2086 # no word at all where the file can grow
  timeout -k 5 300 "$LAB_BUILD/test-bin/lab_library" "$1" "$2" "$3" $fixed
  case $? in
    0 | 1) ;;
    *) fail "$1: the transfers come to an end" "lab_library ended with $?" ;;
  esac
}

# put_bytes FILE: stored bytes to make a trial with; on a striped array, on each of its drives.
put_bytes() { head -c 262144 /dev/urandom | dd of="$1" bs=65536 conv=notrunc,fsync iflag=fullblock status=none; }

# decides NAME FILE PATH REASON: which way the library goes, and why.
decides() {
  put_bytes "$2"
  same "$1: the library's path" "$(explained "$2" path)" "$3"
  same "$1: the library's reason" "$(explained "$2" reason)" "$4"
}

# goes NAME FILE PATH REASON direct|copied: the same, and that it does.
goes() {
  decides "$1" "$2" "$3" "$4"
  transfer "$1" "$2" "$5"
}

# expect NAME FILE PATH REASON direct|copied FACTS: the same, and what the library knows of the file.
expect() {
  [ -b "$2" ] || : >"$2"
  knows "$1" "$2" "$6"
  goes "$1" "$2" "$3" "$4" "$5"
}

# Of the project's own tests; places=FILE first.
# gtest PREFIX SECONDS COMMAND...: a row for each of its tests; the whole output stays in out/PREFIX.log.
gtest() {
  local prefix=$1 limit=$2 log=/lab/out/$1.log status=0
  shift 2
  LD_LIBRARY_PATH=$LAB_BUILD/softgpu SLUICE_TEST_PLACES=$places timeout -k 5 "$limit" "$@" >"$log" 2>&1 || status=$?
  awk -v prefix="$prefix" '
    function name() { line = $0; sub(/^\[[^]]*\] /, "", line); sub(/ \([0-9]+ ms\)$/, "", line); return line }
    /^\[ RUN / { said = "" }
    /^\[       OK \] .*ms\)$/ { print "pass " prefix ": " name() }
    /^\[  SKIPPED \] .*ms\)$/ { print "skip " prefix ": " name() " -- " said }
    /^\[  FAILED  \] .*ms\)$/ { print "fail " prefix ": " name() " -- " said }
    !/^\[/ && NF { said = (said == "" || length(said) > 300) ? $0 : said " " $0 }
    / Skipped$/ { said = "" }
  ' "$log"
  # 1 is a test that failed, which has its row.
  case $status in
    0 | 1) grep -q '^\[ RUN ' "$log" || fail "$prefix: runs tests" "it ran none" ;;
    *) fail "$prefix: comes to its end" "it ended with $status; see out/$prefix.log" ;;
  esac
}

# place NAME FILE_SYSTEM DEVICE
place() {
  if ! command -v "mkfs.$2" >/dev/null; then
    echo "skipped $1: mkfs.$2 is not installed" >>$places
  elif mount_new "$2" "$3" "/mnt/$1"; then
    echo "$1=/mnt/$1" >>$places
  else
    fail "$1: is made and mounted" "$(tail -n 1 /tmp/mkfs.log)"
  fi
}
