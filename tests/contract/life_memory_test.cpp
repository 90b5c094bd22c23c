// SPDX-License-Identifier: Apache-2.0
// Memory that goes and comes back at the same address while it is registered, and while a transfer uses it.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <optional>
#include <thread>

#include "contract/life/gated_file.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::contract::life_memory_test {
namespace {

using namespace support;
using life::GatedFile;

constexpr std::size_t kPiece = std::size_t{2} << 20;  // what every driver maps at once

class LifeMemory : public CufileTest {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    handle_.emplace(fd_);
  }

  const ScratchFile file_{2 * kPiece};
  const Fd fd_ = file_.open(O_RDWR);
  std::optional<Handle> handle_;
};

void* map_at(void* where, std::size_t size, int protection) {
  const int fixed = where == nullptr ? 0 : MAP_FIXED;
  return mmap(where, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
}

std::span<const unsigned char> bytes_at(const void* address, std::size_t size) {
  return {static_cast<const unsigned char*>(address), size};
}

TEST_F(LifeMemory, OfTheHostMayBeMappedAnewUnderItsRegistration) {
  void* const base = map_at(nullptr, kPiece, PROT_READ | PROT_WRITE);
  const Registration registration(base, kPiece);
  for (int round = 0; round < 3; ++round) {
    map_at(base, kPiece, PROT_NONE);
    EXPECT_EQ(read_file(handle_->get(), base, kPiece), failed(EPERM)) << "while it is away";
    map_at(base, kPiece, PROT_READ | PROT_WRITE);
    EXPECT_EQ(read_file(handle_->get(), base, kPiece - 1, 1), moved(kPiece - 1));
    EXPECT_TRUE(same_bytes({file_.content().data() + 1, kPiece - 1}, bytes_at(base, kPiece - 1)));
  }
  munmap(base, kPiece);
}

TEST_F(LifeMemory, OfTheHostMayBeRegisteredAgainAfterItsRegistrationEnded) {
  void* const base = map_at(nullptr, kPiece, PROT_READ | PROT_WRITE);
  for (int round = 0; round < 3; ++round) {
    const Registration registration(base, kPiece);
    map_at(base, kPiece, PROT_READ | PROT_WRITE);
    EXPECT_EQ(read_file(handle_->get(), base, kPiece), moved(kPiece));
    EXPECT_TRUE(same_bytes({file_.content().data(), kPiece}, bytes_at(base, kPiece)));
  }
  munmap(base, kPiece);
}

// Physical memory of device 0 behind an address that stays, as CUmemAllocationProp and CUmemAccessDesc describe it.
class Mapping {
 public:
  explicit Mapping(std::size_t reserved) : reserved_(reserved) {
    ok_ = cuda()->mem_create != nullptr && cuda()->mem_reserve(&address_, reserved_, 0, 0, 0) == 0;
  }
  ~Mapping() {
    unmap();
    if (ok_) cuda()->mem_free_reserved(address_, reserved_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  bool ok() const { return ok_; }
  void* address() const { return reinterpret_cast<void*>(address_); }
  bool map(std::size_t size) {
    if (cuda()->mem_create(&piece_, size, properties_.data(), 0) != 0) return false;
    size_ = size;
    return cuda()->mem_map(address_, size, 0, piece_, 0) == 0 &&
           cuda()->mem_set_access(address_, size, access_.data(), 1) == 0;
  }
  void unmap() {
    if (size_ == 0) return;
    cuda()->mem_unmap(address_, size_);
    cuda()->mem_release(piece_);
    size_ = 0;
  }
  Bytes get(std::size_t size) const {
    Bytes bytes(size);
    cuda()->to_host(bytes.data(), address_, size);
    return bytes;
  }

 private:
  // Kind: pinned. No exported handle. Location: a device, the first.
  std::array<int, 8> properties_{1, 0, 1, 0};
  // Location: a device, the first. Access: reading and writing.
  std::array<int, 3> access_{1, 0, 3};
  std::size_t reserved_;
  bool ok_ = false;
  CudaAddress address_ = 0;
  std::uint64_t piece_ = 0;
  std::size_t size_ = 0;
};

class LifeDeviceMemory : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    mapping_.emplace(2 * kPiece);
    if (!mapping_->ok()) GTEST_SKIP() << "no virtual memory management here";
    handle_.emplace(fd_);
    ASSERT_TRUE(mapping_->map(2 * kPiece));
  }
  void* base() const { return mapping_->address(); }
  void expect_read(std::size_t size) const {
    EXPECT_EQ(read_file(handle_->get(), base(), size), moved(size));
    EXPECT_TRUE(same_bytes({file_.content().data(), size}, mapping_->get(size)));
  }

  const ScratchFile file_{2 * kPiece};
  const Fd fd_ = file_.open(O_RDWR);
  std::optional<Handle> handle_;
  std::optional<Mapping> mapping_;
};

TEST_F(LifeDeviceMemory, ThatWentAndCameBackSmallerIsNotOverrun) {
  const Registration registration(base(), 2 * kPiece);
  expect_read(2 * kPiece);
  mapping_->unmap();
  ASSERT_TRUE(mapping_->map(kPiece));
  // A driver tells of such an address how far the reservation goes, not how far it is mapped. So a transfer may come
  // as far as there is memory; and it does no harm.
  const Transfer beyond = read_file(handle_->get(), base(), 2 * kPiece);
  EXPECT_TRUE(beyond == moved(kPiece) || beyond == failed(EPERM)) << ::testing::PrintToString(beyond);
  EXPECT_EQ(read_file(handle_->get(), base(), 4096, 0, kPiece + 4096).count, -1) << "where there is none";
  expect_read(kPiece);
}

TEST_F(LifeDeviceMemory, ThatWentAndCameBackLargerIsUsedWhole) {
  mapping_->unmap();
  ASSERT_TRUE(mapping_->map(kPiece));
  const Registration registration(base(), kPiece);
  expect_read(kPiece);
  mapping_->unmap();
  ASSERT_TRUE(mapping_->map(2 * kPiece));
  expect_read(2 * kPiece);
}

TEST_F(LifeDeviceMemory, ThatIsAwayIsRefusedUntilItIsBack) {
  const Registration registration(base(), kPiece);
  mapping_->unmap();
  for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, kPiece}) {
    EXPECT_EQ(read_file(handle_->get(), base(), size), failed(EPERM)) << size;
    EXPECT_EQ(write_file(handle_->get(), base(), size), failed(EIO)) << size;
  }
  ASSERT_TRUE(mapping_->map(kPiece));
  expect_read(kPiece);
}

TEST_F(LifeDeviceMemory, ThatCameBackMayBeRegisteredThoughNobodyDeregisteredTheOld) {
  ASSERT_EQ(code(cuFileBufRegister(base(), kPiece, 0)), CU_FILE_SUCCESS);
  mapping_->unmap();
  ASSERT_TRUE(mapping_->map(2 * kPiece));
  EXPECT_EQ(code(cuFileBufRegister(base(), 2 * kPiece, 0)), CU_FILE_SUCCESS)
      << "the old registration is of memory that is gone";
  EXPECT_EQ(code(cuFileBufRegister(base(), 2 * kPiece, 0)), CU_FILE_MEMORY_ALREADY_REGISTERED);
  expect_read(2 * kPiece);
  EXPECT_EQ(code(cuFileBufDeregister(base())), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileBufDeregister(base())), CU_FILE_MEMORY_NOT_REGISTERED) << "one address, one registration";
}

TEST_F(LifeDeviceMemory, ThatGoesWhileATransferStandsStillCostsTheTransferOnly) {
  GatedFile gated(kPiece);
  Transfer transfer;
  std::thread reader([&] { transfer = read_file(gated.handle(), base(), kPiece); });
  gated.wait_until_inside();
  mapping_->unmap();
  gated.open();
  reader.join();
  EXPECT_EQ(transfer.count, -1) << "the memory was gone when the bytes came";
  ASSERT_TRUE(mapping_->map(kPiece));
  expect_read(kPiece);
}

}  // namespace
}  // namespace sluice::contract::life_memory_test
