# disk.sh: large O_DIRECT reads through staging memory, in each way that they can be kept on their way: from a file system
# on a drive that has queues for polling, and from a drive that has none.
. "$LAB/guest/common.sh"
begin
load ext4
mkdir -p /run/log
echo '{"logging": {"dir": "/run/log", "level": "WARN"}}' >/run/disk.json
export CUFILE_ENV_PATH_JSON=/run/disk.json

# matrix_by WAY PLACE WHERE: the reads of the matrix there, and in $said what was logged of them.
matrix_by() {
  rm -f /run/log/*
  places=/run/places
  echo "$2=$3" >$places
  SLUICE_DISK_READS=$1 SLUICE_TEST_SAMPLE=$LAB_SAMPLE gtest "$1" 600 "$LAB_BUILD/test-bin/io_matrix" \
    "--gtest_filter=IoMatrix.$2_read"
  said=$(grep -h ' disk ' /run/log/*)
}

if mount_new ext4 "$(drive PLN0)" /mnt/ext4; then
  for way in threads io_uring iopoll; do
    matrix_by "$way" ext4 /mnt/ext4
    same "$way, ext4 on a drive with queues for polling: as asked for" "$said" ""
    matrix_by "$way" loop "$(drive SMALL)"
    case $way in
      iopoll) check "$way, a drive without: says that it cannot be" grep -q 'no queues that can be polled' <<<"$said" ;;
      *) same "$way, a drive without: as asked for" "$said" "" ;;
    esac
  done
else
  fail "ext4: is made and mounted" "$(tail -n 1 /tmp/mkfs.log)"
fi
