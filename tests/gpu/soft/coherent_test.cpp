// SPDX-License-Identifier: Apache-2.0
// Device memory that the host reaches, and what a device says of it.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "scenario.h"

namespace sluice::gpu_suite {
namespace {

constexpr std::size_t size = std::size_t{2} << 20U;

int attribute(int number) {
  int value = -1;
  return cuDeviceGetAttribute(&value, number, 0) == cuda::success ? value : -1;
}

// As cuPointerGetAttributes tells it; null where it tells none.
void* host_pointer(Ptr pointer) {
  void* told = nullptr;
  std::array<int, 1> attributes{cuda::pointer_attribute_host_pointer};
  std::array<void*, 1> values{&told};
  return cuPointerGetAttributes(1, attributes.data(), values.data(), pointer) == cuda::success ? told : nullptr;
}

// What the kernel answers that is to store a byte there, and what it is to load.
int stored(void* place, unsigned char byte) {
  const int file = ::memfd_create("byte", MFD_CLOEXEC);
  const bool ready = ::pwrite(file, &byte, 1, 0) == 1;
  const int error = ready && ::pread(file, place, 1, 0) == 1 ? 0 : errno;
  ::close(file);
  return error;
}

bool says_coherent(int wanted) {
  return attribute(88) == wanted && attribute(100) == wanted && attribute(101) == wanted;
}

Verdict memory_is_out_of_reach() {
  Ptr pointer = 0;
  AND_THAT(says_coherent(0) && cuMemAlloc_v2(&pointer, size) == cuda::success && host_pointer(pointer) == nullptr);
  AND_THAT(stored(reinterpret_cast<void*>(pointer), 1) == EFAULT);
  return "";
}

TEST(Coherent, IsNoMemoryUnlessAskedFor) {
  EXPECT_HOLDS({}, memory_is_out_of_reach);
}

Verdict both_sides_see_the_same() {
  AND_THAT(says_coherent(1));
  // The first two share pages.
  for (const std::size_t each : {std::size_t{100}, std::size_t{5000}, size}) {
    Ptr pointer = 0;
    AND_THAT(cuMemAlloc_v2(&pointer, each) == cuda::success);
    auto* const bytes = static_cast<unsigned char*>(host_pointer(pointer + each - 1));
    AND_THAT(bytes == reinterpret_cast<unsigned char*>(pointer + each - 1));
    AND_THAT(stored(bytes, 0x5a) == 0);
    unsigned char back = 0;
    AND_THAT(cuMemcpyDtoH_v2(&back, pointer + each - 1, 1) == cuda::success && back == 0x5a);
    AND_THAT(cuMemsetD8_v2(pointer, 0xa5, each) == cuda::success && cuCtxSynchronize() == cuda::success);
    AND_THAT(*bytes == 0xa5);
  }
  return "";
}

TEST(Coherent, IsMemoryThatBothSidesSee) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_COHERENT", "1"}}, both_sides_see_the_same);
}

Verdict freed_memory_is_out_of_reach() {
  Ptr freed = 0;
  AND_THAT(cuMemAlloc_v2(&freed, size) == cuda::success && stored(reinterpret_cast<void*>(freed), 1) == 0);
  AND_THAT(cuMemFree_v2(freed) == cuda::success && host_pointer(freed) == nullptr);
  AND_THAT(stored(reinterpret_cast<void*>(freed), 1) == EFAULT);
  // A neighbour's part of a page stays.
  Ptr first = 0;
  Ptr second = 0;
  AND_THAT(cuMemAlloc_v2(&first, 512) == cuda::success && cuMemAlloc_v2(&second, 512) == cuda::success);
  AND_THAT(cuMemFree_v2(first) == cuda::success && stored(reinterpret_cast<void*>(second), 1) == 0);
  return "";
}

TEST(Coherent, EndsWithTheMemory) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_COHERENT", "1"}}, freed_memory_is_out_of_reach);
}

Verdict the_address_leads_nowhere() {
  Ptr pointer = 0;
  AND_THAT(says_coherent(1) && cuMemAlloc_v2(&pointer, size) == cuda::success && host_pointer(pointer) != nullptr);
  AND_THAT(stored(host_pointer(pointer), 1) == EFAULT);
  return "";
}

TEST(Coherent, MayBeAnAddressThatLeadsNowhere) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_COHERENT", "2"}}, the_address_leads_nowhere);
}

Verdict no_address_is_told() {
  Ptr pointer = 0;
  AND_THAT(says_coherent(1) && cuMemAlloc_v2(&pointer, size) == cuda::success && host_pointer(pointer) == nullptr);
  return "";
}

TEST(Coherent, MayBeSaidWithoutAnAddress) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_COHERENT", "3"}}, no_address_is_told);
}

}  // namespace
}  // namespace sluice::gpu_suite
