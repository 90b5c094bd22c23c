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
