# project.sh: the project's own tests on real NVMe drives, arrays and mappings. LAB_SUITES chooses among them.
. "$LAB/guest/common.sh"
begin
load ext4 xfs btrfs fuse loop dm-mod raid0 raid1
places=/run/places

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

place ext4 ext4 "$(drive PLN0)"
place xfs xfs "$(drive PLN1)"
place btrfs btrfs "$(drive PLN2)"
mkdir -p /mnt/tiny && mount -t tmpfs -o size=1M tmpfs /mnt/tiny && echo "tiny=/mnt/tiny" >>$places

cd /tmp || exit 1
case " $LAB_SUITES " in *" unit "*) gtest unit 120 "$LAB_BUILD/bin/unit_tests" "--gtest_filter=$LAB_UNIT" ;; esac
case " $LAB_SUITES " in *" contract "*) gtest contract 420 "$LAB_BUILD/test-bin/contract_tests" "--gtest_filter=$LAB_CONTRACT" ;; esac
case " $LAB_SUITES " in *" matrix "*)
  SLUICE_TEST_SAMPLE=$LAB_SAMPLE gtest matrix 240 "$LAB_BUILD/test-bin/io_matrix" "--gtest_filter=$LAB_MATRIX" ;;
esac
