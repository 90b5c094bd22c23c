# project.sh: the project's own tests on real NVMe drives, arrays and mappings. LAB_SUITES chooses among them.
. "$LAB/guest/common.sh"
begin
load ext4 xfs btrfs fuse loop dm-mod raid0 raid1
places=/run/places

place ext4 ext4 "$(drive PLN0)"
place xfs xfs "$(drive PLN1)"
place btrfs btrfs "$(drive PLN2)"
mkdir -p /mnt/tiny && mount -t tmpfs -o size=1M tmpfs /mnt/tiny && echo "tiny=/mnt/tiny" >>$places

cd /tmp || exit 1
case " $LAB_SUITES " in *" unit "*) gtest unit 400 "$LAB_BUILD/bin/unit_tests" "--gtest_filter=$LAB_UNIT" ;; esac
case " $LAB_SUITES " in *" contract "*) gtest contract 900 "$LAB_BUILD/test-bin/contract_tests" "--gtest_filter=$LAB_CONTRACT" ;; esac
case " $LAB_SUITES " in *" matrix "*)
  SLUICE_TEST_SAMPLE=$LAB_SAMPLE gtest matrix 500 "$LAB_BUILD/test-bin/io_matrix" "--gtest_filter=$LAB_MATRIX" ;;
esac
