// SPDX-License-Identifier: Apache-2.0
// What a device says of network cards, and the descriptors that it gives for them.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "scenario.h"

namespace sluice::gpu_suite::rdma_test {
namespace {

auto* const cuMemGetHandleForAddressRange =
    find_call<decltype(softgpu::cuMemGetHandleForAddressRange)>("cuMemGetHandleForAddressRange");
auto* const cuFlushGPUDirectRDMAWrites =
    find_call<decltype(softgpu::cuFlushGPUDirectRDMAWrites)>("cuFlushGPUDirectRDMAWrites");

constexpr int dma_buf = 1;
constexpr std::size_t size = std::size_t{2} << 20U;
constexpr Ptr page = 4096;

int attribute(int number) {
  int value = -1;
  return cuDeviceGetAttribute(&value, number, 0) == cuda::success ? value : -1;
}

Verdict no_card_reaches_memory() {
  for (const int number : {116, 117, 118, 124}) AND_THAT(attribute(number) == 0);
  Ptr pointer = 0;
  int descriptor = -1;
  AND_THAT(cuMemAlloc_v2(&pointer, size) == cuda::success);
  AND_THAT(cuMemGetHandleForAddressRange(&descriptor, pointer, size, dma_buf, 0) == cuda::error_not_supported);
  AND_THAT(cuFlushGPUDirectRDMAWrites(0, 100) == cuda::error_not_supported);
  return "";
}

TEST(Rdma, IsNotThereUnlessAskedFor) {
  EXPECT_HOLDS({}, no_card_reaches_memory);
}

Verdict attributes_are_as_asked_for() {
  AND_THAT(attribute(116) == 1 && attribute(117) == 1 && attribute(118) == 100 && attribute(124) == 1);
  Ptr pointer = 0;
  unsigned capable = 0;
  AND_THAT(cuMemAlloc_v2(&pointer, size) == cuda::success);
  AND_THAT(cuPointerGetAttribute(&capable, cuda::pointer_attribute_is_rdma_capable, pointer) == cuda::success);
  AND_THAT(capable == 1);
  AND_THAT(cuFlushGPUDirectRDMAWrites(0, 200) == cuda::success);
  AND_THAT(cuFlushGPUDirectRDMAWrites(0, 1) == cuda::error_invalid_value);
  // The promise is one thing, the export another.
  int descriptor = -1;
  AND_THAT(cuMemGetHandleForAddressRange(&descriptor, pointer, size, dma_buf, 0) == cuda::error_not_supported);
  return "";
}

TEST(Rdma, IsSaidToBeThereWhereAskedFor) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_RDMA", "1"}, {"SLUICE_SOFTGPU_RDMA_ORDERING", "100"}, {"SLUICE_SOFTGPU_DMA_BUF", "1"}},
               attributes_are_as_asked_for);
}

Verdict there_is_no_flush() {
  AND_THAT(attribute(116) == 1 && attribute(117) == 0 && attribute(118) == 0);
  AND_THAT(cuFlushGPUDirectRDMAWrites(0, 200) == cuda::error_not_supported);
  return "";
}

TEST(Rdma, IsThereWithoutAFlushWhereAskedFor) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_RDMA", "2"}}, there_is_no_flush);
}

Verdict a_descriptor_is_the_memory() {
  Ptr before = 0;
  Ptr pointer = 0;
  AND_THAT(cuMemAlloc_v2(&before, size) == cuda::success && cuMemAlloc_v2(&pointer, size) == cuda::success);
  AND_THAT(cuMemsetD8_v2(pointer + page, 0x5a, page) == cuda::success && cuCtxSynchronize() == cuda::success);
  int descriptor = -1;
  AND_THAT(cuMemGetHandleForAddressRange(&descriptor, pointer + 1, page, dma_buf, 0) == cuda::error_invalid_value);
  AND_THAT(cuMemGetHandleForAddressRange(&descriptor, pointer, size + page, dma_buf, 0) == cuda::error_invalid_value);
  AND_THAT(cuMemGetHandleForAddressRange(&descriptor, pointer + page, page, dma_buf, 0) == cuda::success);
  const off_t place = ::lseek(descriptor, 0, SEEK_CUR);
  void* const mapped = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, place);
  AND_THAT(mapped != MAP_FAILED);
  auto* const bytes = static_cast<unsigned char*>(mapped);
  AND_THAT(bytes[0] == 0x5a && bytes[page - 1] == 0x5a);
  std::memset(bytes, 0xa5, page);
  unsigned char back = 0;
  AND_THAT(cuMemcpyDtoH_v2(&back, pointer + 2 * page - 1, 1) == cuda::success && back == 0xa5);
  AND_THAT(::munmap(mapped, page) == 0 && ::close(descriptor) == 0);
  return "";
}

// Whole pages, also where the allocation ends inside of one; not a page that has nothing of it.
Verdict the_last_page_is_exported_whole() {
  Ptr pointer = 0;
  int descriptor = -1;
  AND_THAT(cuMemAlloc_v2(&pointer, size + 100) == cuda::success);
  AND_THAT(cuMemGetHandleForAddressRange(&descriptor, pointer, size + 100, dma_buf, 0) == cuda::error_invalid_value);
  AND_THAT(cuMemGetHandleForAddressRange(&descriptor, pointer, size + 2 * page, dma_buf, 0) ==
           cuda::error_invalid_value);
  AND_THAT(cuMemGetHandleForAddressRange(&descriptor, pointer, size + page, dma_buf, 0) == cuda::success);
  AND_THAT(::close(descriptor) == 0);
  return "";
}

TEST(Rdma, ExportsTheLastPageWhole) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_DMA_BUF", "2"}}, the_last_page_is_exported_whole);
}

TEST(Rdma, GivesDescriptorsThatAreTheMemory) {
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_DMA_BUF", "2"}}, a_descriptor_is_the_memory);
}

}  // namespace
}  // namespace sluice::gpu_suite::rdma_test
