# topology.sh: the same transfers wherever the drives hang; LAB_EXPECTATION says what the kernel makes of it.
. "$LAB/guest/common.sh"
begin
probe_it transfers "$LAB_TOPOLOGY" "$(drive PLN0)" "$LAB_EXPECTATION"
probe_it transfers "$LAB_TOPOLOGY, provider's own drive" "$(drive GPU0)" right

# The library finds out by its trial, and goes the way on which no byte is lost. QEMU's trace tells bus addresses behind
# an IOMMU as the drive sees them: what is direct there is not promised as such.
use_library
case $LAB_EXPECTATION in
  direct) goes "$LAB_TOPOLOGY, library" "$(drive PLN0)" p2pdma direct direct ;;
  right) goes "$LAB_TOPOLOGY, library" "$(drive PLN0)" p2pdma direct unpromised ;;
  EINVAL) goes "$LAB_TOPOLOGY, library" "$(drive PLN0)" posix unreachable_device copied ;;
  lost) goes "$LAB_TOPOLOGY, library" "$(drive PLN0)" posix data_lost unpromised ;;
esac

# A drive with an IOMMU domain of its own, in pass-through, does reach the device. An array of both loses the bytes of
# one drive: a trial that reads from the other alone would not notice. Of a mirror no trial can choose the drive.
if [ -n "${LAB_MIXED:-}" ]; then
  load raid0 raid1
  good=$(pci_of PLN1)
  echo "$good" >/sys/bus/pci/drivers/nvme/unbind
  echo identity >"/sys/bus/pci/devices/$good/iommu_group/type"
  echo "$good" >/sys/bus/pci/drivers/nvme/bind
  wait_for 20 drives_are_there || fail "a drive in pass-through: comes back" "not within 20 s"
  decides "a drive in pass-through" "$(drive PLN1)" p2pdma direct
  if new_array 0 64 "$(drive PLN1)" "$(drive PLN0)"; then
    goes "md raid0 of a drive that arrives and one that does not" /dev/md0 posix data_lost unpromised
    end_array 0
    new_array 1 64 "$(drive PLN1)" "$(drive PLN0)"
    decides "md raid1 of the same" /dev/md1 posix not_proven
    end_array 1
  else
    fail "md raid0 of drives in different domains: can be made" "see the output"
  fi
fi
