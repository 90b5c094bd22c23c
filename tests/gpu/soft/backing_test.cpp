// SPDX-License-Identifier: Apache-2.0
// SLUICE_SOFTGPU_BACKING: device memory that is a file or device mapping.
#include <fcntl.h>
#include <sys/mman.h>

#include <array>
#include <string>
#include <vector>

#include "scenario.h"

namespace sluice::gpu_suite {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20U;

auto* backing_call() {
  using Call = cuda::Result (*)(Ptr, std::size_t, void**, std::size_t*);
  return reinterpret_cast<Call>(::dlsym(driver_library(), "cuSluiceSoftGpuBackingAddress"));
}

// A file of that many bytes, which goes with the process: it is named through the descriptor.
std::string file_of(std::size_t size) {
  const int file = ::memfd_create("backing", 0);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(size)) != 0) return "/nowhere";
  return "/proc/self/fd/" + std::to_string(file);
}

std::vector<std::uint8_t> read_file(const std::string& path, std::size_t offset, std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (::pread(file, bytes.data(), size, static_cast<off_t>(offset)) != static_cast<ssize_t>(size)) bytes.clear();
  ::close(file);
  return bytes;
}

Verdict bytes_land_in_the_file(const std::string& path, std::size_t offset) {
  Ptr pointer = 0;
  AND_THAT(cuMemAlloc_v2(&pointer, 4 * mebibyte) == cuda::success);
  AND_THAT(cuMemsetD8_v2(pointer, 0x5a, 4 * mebibyte) == cuda::success);
  AND_THAT(cuCtxSynchronize() == cuda::success);
  AND_THAT(read_file(path, offset, 4 * mebibyte) == std::vector<std::uint8_t>(4 * mebibyte, 0x5a));
  return "";
}

TEST(Backing, IsWhereTheBytesAre) {
  const std::string path = file_of(8 * mebibyte);
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_BACKING", path.c_str()}}, [&] { return bytes_land_in_the_file(path, 0); });
}

TEST(Backing, MayBeginInsideAFile) {
  const std::string path = file_of(8 * mebibyte);
  const std::string knob = path + ":2097152:4194304";
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_BACKING", knob.c_str()}}, [&] { return bytes_land_in_the_file(path, 2 * mebibyte); });
}

Verdict the_device_has(std::size_t bytes) {
  std::size_t total = 0;
  AND_THAT(cuDeviceTotalMem_v2(&total, 0) == cuda::success);
  return total == bytes ? "" : "the device has " + std::to_string(total) + " bytes";
}

TEST(Backing, SaysHowMuchMemoryTheDeviceHas) {
  const std::string eight = file_of(8 * mebibyte);
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_BACKING", eight.c_str()}}, [] { return the_device_has(8 * mebibyte); });
  const std::string four_of_eight = eight + ":0:4194304";
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_BACKING", four_of_eight.c_str()}}, [] { return the_device_has(4 * mebibyte); });
  const std::string behind_six = eight + ":6291456";
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_BACKING", behind_six.c_str()}}, [] { return the_device_has(2 * mebibyte); });
}

TEST(Backing, ThatIsAnEmptyFileGrowsToTheMemoryOfADevice) {
  const std::string empty = file_of(0);
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_BACKING", empty.c_str()}, {"SLUICE_SOFTGPU_MEMORY_MIB", "16"}},
               [] { return the_device_has(16 * mebibyte); });
}

struct flock all_for_writing() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = static_cast<off_t>(8 * mebibyte);
  return lock;
}

TEST(Backing, ThatAnotherProcessHoldsIsLeftToIt) {
  const std::string path = file_of(8 * mebibyte);
  const int holder = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct flock lock = all_for_writing();
  ASSERT_EQ(::fcntl(holder, F_OFD_SETLK, &lock), 0);
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_BACKING", path.c_str()}}, [&] {
    if (std::string wrong = bytes_land_in_the_file(path, 8 * mebibyte); !wrong.empty()) return wrong;
    AND_THAT(read_file(path, 0, 8 * mebibyte) == std::vector<std::uint8_t>(8 * mebibyte));
    return the_device_has(8 * mebibyte);
  });
  ::close(holder);
}

Verdict nobody_else_gets_it(const std::string& path) {
  const int other = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct flock lock = all_for_writing();
  AND_THAT(::fcntl(other, F_OFD_GETLK, &lock) == 0);
  ::close(other);
  AND_THAT(lock.l_type == F_WRLCK && lock.l_start == 0 && lock.l_len == static_cast<off_t>(8 * mebibyte));
  return "";
}

TEST(Backing, IsHeldWhileTheProcessLives) {
  const std::string path = file_of(8 * mebibyte);
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_BACKING", path.c_str()}}, [&] { return nobody_else_gets_it(path); });
  struct flock lock = all_for_writing();
  const int later = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::fcntl(later, F_OFD_GETLK, &lock), 0);
  ::close(later);
  EXPECT_EQ(lock.l_type, F_UNLCK);
}

Verdict io_reaches_device_memory() {
  Ptr pointer = 0;
  AND_THAT(cuMemAlloc_v2(&pointer, 2 * mebibyte) == cuda::success);
  void* alias = nullptr;
  std::size_t length = 0;
  AND_THAT(backing_call()(pointer + 4096, 3 * mebibyte, &alias, &length) == cuda::success);
  AND_THAT(length == 2 * mebibyte - 4096);
  AND_THAT(reinterpret_cast<std::uintptr_t>(alias) % 4096 == 0);
  const int source = ::memfd_create("source", MFD_CLOEXEC);
  std::array<char, 5> text{'h', 'e', 'l', 'l', 'o'};
  AND_THAT(::pwrite(source, text.data(), text.size(), 0) == 5);
  AND_THAT(::pread(source, alias, text.size(), 0) == 5);
  std::array<char, 5> seen{};
  AND_THAT(cuMemcpyDtoH_v2(seen.data(), pointer + 4096, seen.size()) == cuda::success);
  AND_THAT(seen == text);
  AND_THAT(::pread(source, reinterpret_cast<void*>(pointer), 5, 0) == -1);  // the address itself stays out of reach
  return "";
}

TEST(Backing, HasAnAddressThatFilesCanBeReadInto) {
  const std::string path = file_of(8 * mebibyte);
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_BACKING", path.c_str()}}, io_reaches_device_memory);
}

Verdict mappings_have_addresses_of_their_own() {
  const cuda::AllocationProperties properties{
      cuda::allocation_pinned, cuda::handle_type_none, {cuda::location_device, 0}, nullptr, 0, 0, 0, {}};
  const std::size_t chunk = 2 * mebibyte;
  Ptr start = 0;
  std::array<cuda::AllocationHandle, 2> memory{};
  AND_THAT(cuMemAddressReserve(&start, 2 * chunk, 0, 0, 0) == cuda::success);
  for (auto& handle : memory) AND_THAT(cuMemCreate(&handle, chunk, &properties, 0) == cuda::success);
  AND_THAT(cuMemMap(start, chunk, 0, memory[1], 0) == cuda::success);
  AND_THAT(cuMemMap(start + chunk, chunk, 0, memory[0], 0) == cuda::success);
  void* first = nullptr;
  void* second = nullptr;
  std::size_t length = 0;
  AND_THAT(backing_call()(start, 2 * chunk, &first, &length) == cuda::success && length == chunk);
  AND_THAT(backing_call()(start + chunk, chunk, &second, &length) == cuda::success && length == chunk);
  AND_THAT(static_cast<char*>(second) + chunk == first);  // mapped the other way round
  return "";
}

TEST(Backing, OfAMappingGoesAsFarAsTheMapping) {
  const std::string path = file_of(8 * mebibyte);
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_BACKING", path.c_str()}}, mappings_have_addresses_of_their_own);
}

Verdict there_is_no_backing_address() {
  Ptr pointer = 0;
  void* alias = nullptr;
  std::size_t length = 0;
  AND_THAT(cuMemAlloc_v2(&pointer, mebibyte) == cuda::success);
  AND_THAT(backing_call()(pointer, 1, &alias, &length) == cuda::error_not_supported);
  AND_THAT(backing_call()(0x1000, 1, &alias, &length) == cuda::error_invalid_value);
  void* pinned = nullptr;
  AND_THAT(cuMemHostAlloc(&pinned, 4096, 0) == cuda::success);
  AND_THAT(backing_call()(reinterpret_cast<Ptr>(pinned), 1, &alias, &length) == cuda::error_not_supported);
  return "";
}

TEST(Backing, HasNoAddressWhereThereIsNone) {
  EXPECT_HOLDS({}, there_is_no_backing_address);
}

Verdict only_the_second_device_is_backed() {
  cuda::Context other = nullptr;
  Ptr first = 0;
  Ptr second = 0;
  void* alias = nullptr;
  std::size_t length = 0;
  AND_THAT(cuMemAlloc_v2(&first, mebibyte) == cuda::success);
  AND_THAT(cuDevicePrimaryCtxRetain(&other, 1) == cuda::success && cuCtxSetCurrent(other) == cuda::success);
  AND_THAT(cuMemAlloc_v2(&second, mebibyte) == cuda::success);
  AND_THAT(backing_call()(first, 1, &alias, &length) == cuda::error_not_supported);
  AND_THAT(backing_call()(second, 1, &alias, &length) == cuda::success);
  return "";
}

TEST(Backing, IsOneADevice) {
  const std::string knob = "," + file_of(8 * mebibyte);
  EXPECT_HOLDS({{"SLUICE_SOFTGPU_BACKING", knob.c_str()}, {"SLUICE_SOFTGPU_DEVICES", "2"}},
               only_the_second_device_is_backed);
}

TEST(Backing, ThatIsNotThereIsAnError) {
  EXPECT_EXIT(
      {
        ::setenv("SLUICE_SOFTGPU_BACKING", "/nowhere/at/all", 1);
        ::_exit(cuInit(0) == cuda::error_operating_system ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace sluice::gpu_suite
