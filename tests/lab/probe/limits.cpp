// SPDX-License-Identifier: Apache-2.0
// What device memory refuses by its nature, whatever the target.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <system_error>

#include "lab/probe/device_memory.h"
#include "lab/probe/ring.h"
#include "lab/probe/rows.h"
#include "lab/probe/system.h"
#include "lab/probe/verbs.h"

namespace sluice::lab {

namespace {

constexpr std::size_t kLength = std::size_t{64} << 10U;
constexpr std::size_t kPage = 4096;

ssize_t try_to_map(int fd, std::size_t length, int flags, off_t offset) {
  void* address = mmap(nullptr, length, PROT_READ | PROT_WRITE, flags, fd, offset);
  if (address == MAP_FAILED) return -errno;
  munmap(address, length);
  return 0;
}

std::uint64_t number_in(const std::string& file) {
  std::uint64_t number = 0;
  std::ifstream(file) >> number;
  return number;
}

void mapping_limits(const std::string& name, const std::string& provider) {
  const File allocate(provider + "/allocate", O_RDWR);
  const std::uint64_t size = number_in(provider + "/size");
  row(name + ": a private mapping is refused", differs(try_to_map(allocate.get(), kPage, MAP_PRIVATE, 0), -EINVAL));
  row(name + ": a mapping from within the file is refused",
      differs(try_to_map(allocate.get(), kPage, MAP_SHARED, kPage), -EINVAL));
  row(name + ": more than the provider has is refused",
      differs(try_to_map(allocate.get(), size + kPage, MAP_SHARED, 0), -ENOMEM));
}

void pinning_limits(const std::string& name, const std::string& provider) {
  const DeviceMemory memory(provider, kLength);
  row(name + ": mlock is refused", differs(answer(mlock(memory.data(), kPage)), -EREMOTEIO));

  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  const iovec vector{memory.data(), kPage};
  row(name + ": vmsplice is refused", differs(answer(vmsplice(ends[1], &vector, 1, 0)), -EREMOTEIO));
  for (const int end : ends) close(end);

  Ring ring(Waiting::interrupt);
  row(name + ": io_uring refuses to register it as a buffer",
      differs(ring.register_buffer(memory.bytes(0, kLength)), -EFAULT));
  const HostMemory ordinary(kLength);
  row(name + ": io_uring registers ordinary memory", differs(ring.register_buffer(ordinary.bytes(0, kLength)), 0));
  row(name + ": a mapping can be kept from children",
      differs(answer(madvise(memory.data(), kLength, MADV_DONTFORK)), 0));
}

}  // namespace

void limits(const std::string& name) {
  const std::string provider = environment("LAB_PROVIDER");
  const std::uint64_t before = number_in(provider + "/available");
  mapping_limits(name, provider);
  pinning_limits(name, provider);
  {
    const DeviceMemory memory(provider, kLength);
    row(name + ": a mapping takes from what is available",
        number_in(provider + "/available") == before - kLength ? "" : "the number is another one");
  }
  row(name + ": what was mapped is given back",
      number_in(provider + "/available") == before ? "" : "less is available than before");
}

}  // namespace sluice::lab
