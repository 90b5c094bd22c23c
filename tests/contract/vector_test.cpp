// SPDX-License-Identifier: Apache-2.0
// cuFileReadv and cuFileWritev: memory in several parts, one range of the file.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sluice.h"
#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/scratch.h"

namespace sluice::contract::vector_test {
namespace {

using namespace support;

constexpr std::size_t kFileSize = 1000003;

// The parts of a vector, each in memory of its own.
struct Parts {
  std::vector<std::unique_ptr<Memory>> memory;
  std::vector<CUfileIOVec_t> vector;

  void add(MemoryKind kind, std::size_t size) {
    memory.push_back(std::make_unique<Memory>(kind, size + 1));
    memory.back()->fill(0xee);
    vector.push_back({memory.back()->address(), size});
  }
  Bytes joined() const {
    Bytes all;
    for (std::size_t i = 0; i < vector.size(); ++i) {
      const Bytes part = memory[i]->get(0, vector[i].len);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
  void expect_nothing_behind() const {
    for (std::size_t i = 0; i < vector.size(); ++i) EXPECT_TRUE(all_bytes(0xee, memory[i]->get(vector[i].len, 1))) << i;
  }
};

class Vector : public CufileTest {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    if (readv_ == nullptr || writev_ == nullptr) GTEST_SKIP() << "this libcufile is older than the calls";
  }

  static Transfer answer(ssize_t count) { return {count, count < 0 ? errno : 0}; }
  Transfer read(CUfileHandle_t handle, const CUfileIOVec_t* vector, std::size_t count, off_t offset,
                unsigned flags = 0) const {
    errno = 0;
    return answer(readv_(handle, vector, count, offset, flags));
  }
  Transfer write(CUfileHandle_t handle, const CUfileIOVec_t* vector, std::size_t count, off_t offset,
                 unsigned flags = 0) const {
    errno = 0;
    return answer(writev_(handle, vector, count, offset, flags));
  }

  // One part of each kind, ragged and whole, one of them empty: 401,506 bytes.
  static Parts mixed_parts() {
    Parts parts;
    parts.add(MemoryKind::plain, 4096);
    if (cuda() != nullptr) {
      parts.add(MemoryKind::device, 300001);
      parts.add(MemoryKind::managed, 1);
      parts.add(MemoryKind::pinned, 65536);
      parts.add(MemoryKind::device, 0);
      parts.add(MemoryKind::device, 8192);
    }
    parts.add(MemoryKind::plain, 23680);
    return parts;
  }

  decltype(cuFileReadv)* readv_ = entry<decltype(cuFileReadv)>("cuFileReadv");
  decltype(cuFileWritev)* writev_ = entry<decltype(cuFileWritev)>("cuFileWritev");
  const ScratchFile file_{kFileSize};
};

TEST_F(Vector, IsReadInItsOrder) {
  for (const int flags : {O_RDONLY, O_RDONLY | O_DIRECT}) {
    for (const off_t offset : {0, 1, 4096, 77777}) {
      const Fd fd = file_.open(flags);
      const Handle handle(fd);
      const Parts parts = mixed_parts();
      const std::size_t total = parts.joined().size();
      EXPECT_EQ(read(handle.get(), parts.vector.data(), parts.vector.size(), offset), moved(total));
      EXPECT_TRUE(same_bytes({file_.content().data() + offset, total}, parts.joined()));
      parts.expect_nothing_behind();
    }
  }
}

TEST_F(Vector, IsWrittenInItsOrder) {
  for (const int flags : {O_RDWR, O_RDWR | O_DIRECT, O_WRONLY | O_DIRECT}) {
    const Fd fd = file_.open(flags);
    const Handle handle(fd);
    const Parts parts = mixed_parts();
    for (std::size_t i = 0; i < parts.vector.size(); ++i) {
      parts.memory[i]->put(0, random_bytes(parts.vector[i].len, i + static_cast<std::size_t>(flags)));
    }
    const Bytes written = parts.joined();
    EXPECT_EQ(write(handle.get(), parts.vector.data(), parts.vector.size(), 4095), moved(written.size()));
    Bytes expected = file_.content();
    std::copy(written.begin(), written.end(), expected.begin() + 4095);
    EXPECT_TRUE(same_bytes(expected, content_of(file_.path())));
  }
}

TEST_F(Vector, EndsShortAtTheEndOfTheFile) {
  const Fd fd = file_.open(O_RDONLY);
  const Handle handle(fd);
  Parts parts;
  for (const std::size_t size : {std::size_t{1000}, std::size_t{5000}, std::size_t{4096}}) {
    parts.add(usual_memory(), size);
  }
  EXPECT_EQ(read(handle.get(), parts.vector.data(), 3, static_cast<off_t>(kFileSize - 3000)), moved(3000));
  EXPECT_TRUE(same_bytes({file_.content().data() + kFileSize - 3000, 1000}, parts.memory[0]->get(0, 1000)));
  EXPECT_TRUE(same_bytes({file_.content().data() + kFileSize - 2000, 2000}, parts.memory[1]->get(0, 2000)));
  EXPECT_TRUE(all_bytes(0xee, parts.memory[1]->get(2000, 3001)));
  EXPECT_TRUE(all_bytes(0xee, parts.memory[2]->get()));
  EXPECT_EQ(read(handle.get(), parts.vector.data(), 3, static_cast<off_t>(kFileSize)), moved(0));
}

TEST_F(Vector, OfNoPartsMovesNothing) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const CUfileIOVec_t part{nullptr, 0};
  EXPECT_EQ(read(handle.get(), &part, 0, 0), moved(0));
  EXPECT_EQ(write(handle.get(), &part, 0, 0), moved(0));
}

TEST_F(Vector, OfEmptyPartsMovesNothing) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 4096);
  const CUfileIOVec_t parts[] = {{memory.address(), 0}, {memory.address(), 0}};
  EXPECT_EQ(read(handle.get(), parts, 2, 0), moved(0));
  EXPECT_EQ(write(handle.get(), parts, 2, static_cast<off_t>(kFileSize)), moved(0));
  EXPECT_EQ(file_size(fd.get()), kFileSize);
}

TEST_F(Vector, MustBeThereAndHaveNoFlags) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 4096);
  const CUfileIOVec_t part{memory.address(), 4096};
  EXPECT_EQ(read(handle.get(), nullptr, 1, 0), failed(EINVAL));
  EXPECT_EQ(write(handle.get(), nullptr, 1, 0), failed(EINVAL));
  EXPECT_EQ(read(handle.get(), &part, 1, 0, 1), failed(EINVAL));
  EXPECT_EQ(write(handle.get(), &part, 1, 0, 1U << 31U), failed(EINVAL));
  EXPECT_TRUE(same_bytes(file_.content(), content_of(file_.path())));
}

TEST_F(Vector, MustNotBeLongerThanACountCanTell) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 4096);
  const std::size_t half = static_cast<std::size_t>(SSIZE_MAX) / 2 + 1;
  const CUfileIOVec_t parts[] = {{memory.address(), half}, {memory.address(), half}};
  EXPECT_EQ(read(handle.get(), parts, 2, 0), failed(EINVAL));
  const CUfileIOVec_t wrapping[] = {{memory.address(), SIZE_MAX}, {memory.address(), 2}};
  EXPECT_EQ(write(handle.get(), wrapping, 2, 0), failed(EINVAL));
}

TEST_F(Vector, RefusesWhatTheSimpleCallsRefuse) {
  const Memory memory(usual_memory(), 4096);
  const CUfileIOVec_t part{memory.address(), 4096};
  const Fd fd = file_.open(O_RDONLY);
  Handle handle(fd);
  EXPECT_EQ(read(nullptr, &part, 1, 0), failed(EINVAL));
  EXPECT_EQ(read(handle.get(), &part, 1, -1), failed(CU_FILE_INVALID_VALUE));
  EXPECT_EQ(write(handle.get(), &part, 1, 0), failed(EIO));
  const CUfileIOVec_t no_buffer{nullptr, 4096};
  EXPECT_EQ(read(handle.get(), &no_buffer, 1, 0), failed(EINVAL));
  const Registration registration(memory.address(), 4096);
  const CUfileIOVec_t too_long{memory.address(), 4097};
  EXPECT_EQ(read(handle.get(), &too_long, 1, 0), failed(CU_FILE_INVALID_MAPPING_RANGE));
  handle.deregister();
  EXPECT_EQ(read(handle.get(), &part, 1, 0), failed(CU_FILE_HANDLE_NOT_REGISTERED));
}

TEST_F(Vector, WithABadPartMovesNothing) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 4096);
  memory.fill(1);
  const CUfileIOVec_t parts[] = {{memory.address(), 4096}, {nullptr, 4096}};
  EXPECT_EQ(read(handle.get(), parts, 2, 0), failed(EINVAL));
  EXPECT_TRUE(all_bytes(1, memory.get()));
  EXPECT_EQ(write(handle.get(), parts, 2, 0), failed(EINVAL));
  EXPECT_TRUE(same_bytes(file_.content(), content_of(file_.path())));
}

TEST_F(Vector, OfAThousandPartsWorks) {
  const Fd fd = file_.open(O_RDONLY | O_DIRECT);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 1000 * 997);
  std::vector<CUfileIOVec_t> parts;
  for (std::size_t i = 0; i < 1000; ++i) parts.push_back({memory.at(i * 997), 997});
  EXPECT_EQ(read(handle.get(), parts.data(), parts.size(), 5), moved(997000));
  EXPECT_TRUE(same_bytes({file_.content().data() + 5, 997000}, memory.get()));
}

// Parts of many sizes, one behind the other in one allocation but for a gap of one byte.
struct ManyParts {
  std::vector<CUfileIOVec_t> vector;
  std::vector<std::size_t> places;
  std::size_t total = 0;
  std::unique_ptr<Memory> memory;

  ManyParts(MemoryKind kind, const std::vector<std::size_t>& sizes) {
    std::size_t room = 0;
    for (const std::size_t size : sizes) room += size + 1;
    memory = std::make_unique<Memory>(kind, room);
    memory->fill(0xee);
    std::size_t place = 0;
    for (const std::size_t size : sizes) {
      vector.push_back({memory->at(place), size});
      places.push_back(place);
      place += size + 1;
      total += size;
    }
  }
  // What lies in all of them together, and whether every byte beside them is as it was.
  Bytes joined() const {
    const Bytes all = memory->get();
    Bytes parts;
    for (std::size_t i = 0; i < vector.size(); ++i) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(places[i]);
      parts.insert(parts.end(), begin, begin + static_cast<std::ptrdiff_t>(vector[i].len));
      EXPECT_EQ(all[places[i] + vector[i].len], 0xee) << "behind part " << i;
    }
    return parts;
  }
  void put(const Bytes& bytes) const {
    std::size_t from = 0;
    for (std::size_t i = 0; i < vector.size(); ++i) {
      memory->put(places[i], {bytes.data() + from, vector[i].len});
      from += vector[i].len;
    }
  }
};

std::vector<MemoryKind> kinds_of_memory() {
  std::vector<MemoryKind> kinds;
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::pinned, MemoryKind::plain}) {
    if (available(kind)) kinds.push_back(kind);
  }
  return kinds;
}

TEST_F(Vector, IsExactOnEveryFileSystemWithEveryKindOfMemory) {
  const std::vector<std::vector<std::size_t>> shapes{std::vector<std::size_t>(40, 4096),
                                                     std::vector<std::size_t>(60, 777),
                                                     {1, 4095, 0, 4096, 100000, 3, 65536, 512, 8191, 131072}};
  for (const Place& place : places()) {
    if (!place.why_not.empty() || place.name == "loop" || place.name == "tiny") continue;
    const ScratchFile file(random_bytes(500009, 11), place.path);
    for (const int mode : {0, O_DIRECT}) {
      const int raw = ::open(file.path().c_str(), O_RDWR | mode);
      if (raw < 0) continue;  // no O_DIRECT here
      ::close(raw);
      const Fd fd = file.open(O_RDWR | mode);
      const Handle handle(fd);
      Bytes expected = content_of(file.path());
      std::size_t seed = 1;
      for (const MemoryKind kind : kinds_of_memory()) {
        for (std::size_t shape = 0; shape < shapes.size(); ++shape) {
          for (const off_t offset : {0, 333}) {
            SCOPED_TRACE(place.name + (mode == 0 ? ", buffered, " : ", O_DIRECT, ") + name_of(kind) + ", shape " +
                         std::to_string(shape) + ", offset " + std::to_string(offset));
            const ManyParts parts(kind, shapes[shape]);
            ASSERT_EQ(read(handle.get(), parts.vector.data(), parts.vector.size(), offset), moved(parts.total));
            ASSERT_TRUE(same_bytes({expected.data() + offset, parts.total}, parts.joined()));
            const Bytes fresh = random_bytes(parts.total, ++seed);
            parts.put(fresh);
            ASSERT_EQ(write(handle.get(), parts.vector.data(), parts.vector.size(), offset), moved(parts.total));
            std::copy(fresh.begin(), fresh.end(), expected.begin() + offset);
          }
        }
        ASSERT_TRUE(same_bytes(expected, content_of(file.path())));
      }
    }
  }
}

TEST_F(Vector, OfManyPartsEndsAtTheEndOfTheFileAndTouchesNothingBehind) {
  for (const int mode : {0, O_DIRECT}) {
    const Fd fd = file_.open(O_RDONLY | mode);
    const Handle handle(fd);
    for (const MemoryKind kind : kinds_of_memory()) {
      for (const std::size_t size : {std::size_t{512}, std::size_t{4096}, std::size_t{1000}}) {
        SCOPED_TRACE(std::string(mode == 0 ? "buffered, " : "O_DIRECT, ") + name_of(kind) + ", " +
                     std::to_string(size));
        const ManyParts parts(kind, std::vector<std::size_t>(64, size));
        const std::size_t begin = (kFileSize - 20 * size) / 4096 * 4096;
        const std::size_t there = kFileSize - begin;
        EXPECT_EQ(read(handle.get(), parts.vector.data(), 64, static_cast<off_t>(begin)), moved(there));
        const Bytes all = parts.joined();
        EXPECT_TRUE(same_bytes({file_.content().data() + begin, there}, {all.data(), there}));
        EXPECT_TRUE(all_bytes(0xee, std::span(all).subspan(there)));
      }
    }
  }
}

TEST_F(Vector, MixesDeviceAndHostMemoryPartByPart) {
  if (!available(MemoryKind::device)) GTEST_SKIP() << "this machine has no device memory";
  const ManyParts on_device(MemoryKind::device, std::vector<std::size_t>(50, 1500));
  const ManyParts on_host(MemoryKind::plain, std::vector<std::size_t>(50, 700));
  std::vector<CUfileIOVec_t> parts;
  for (std::size_t i = 0; i < 50; ++i) {
    parts.push_back(on_device.vector[i]);
    parts.push_back(on_host.vector[i]);
  }
  const Fd fd = file_.open(O_RDONLY);
  const Handle handle(fd);
  ASSERT_EQ(read(handle.get(), parts.data(), parts.size(), 9), moved(110000));
  const Bytes device = on_device.joined();
  const Bytes host = on_host.joined();
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_TRUE(same_bytes({file_.content().data() + 9 + i * 2200, 1500}, {device.data() + i * 1500, 1500})) << i;
    EXPECT_TRUE(same_bytes({file_.content().data() + 9 + i * 2200 + 1500, 700}, {host.data() + i * 700, 700})) << i;
  }
}

TEST_F(Vector, MayWriteTheSamePartTwice) {
  for (const MemoryKind kind : kinds_of_memory()) {
    const Memory memory(kind, 3000);
    const Bytes bytes = random_bytes(3000, 5);
    memory.put(0, bytes);
    const std::vector<CUfileIOVec_t> parts{{memory.at(0), 3000}, {memory.at(1000), 1000}, {memory.at(0), 3000}};
    const ScratchFile file(10000);
    const Fd fd = file.open(O_RDWR);
    const Handle handle(fd);
    ASSERT_EQ(write(handle.get(), parts.data(), 3, 100), moved(7000));
    Bytes expected = file.content();
    std::copy(bytes.begin(), bytes.end(), expected.begin() + 100);
    std::copy(bytes.begin() + 1000, bytes.begin() + 2000, expected.begin() + 3100);
    std::copy(bytes.begin(), bytes.end(), expected.begin() + 4100);
    EXPECT_TRUE(same_bytes(expected, content_of(file.path())));
  }
}

TEST_F(Vector, KeepsWhatLiesInFrontOfABadPart) {
  if (!available(MemoryKind::device)) GTEST_SKIP() << "this machine has no device memory";
  const ManyParts parts(MemoryKind::device, std::vector<std::size_t>(10, 2000));
  std::vector<CUfileIOVec_t> vector = parts.vector;
  vector.push_back({reinterpret_cast<void*>(std::uintptr_t{0x10}), 2000});
  vector.push_back(parts.vector.front());
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  EXPECT_EQ(read(handle.get(), vector.data(), 10, 0), moved(20000));
  EXPECT_EQ(read(handle.get(), vector.data(), 12, 0), moved(20000));
  EXPECT_EQ(read(handle.get(), vector.data() + 10, 2, 0), failed(EPERM));
}

// What one call has counted of each kind of carrier, and on all paths.
class VectorCounted : public Vector {
 protected:
  void SetUp() override {
    Vector::SetUp();
    if (IsSkipped()) return;
    if (!available(MemoryKind::device)) GTEST_SKIP() << "this machine has no device memory";
    for (const char* const name : {"SLUICE_MODE", "SLUICE_VERIFY", "SLUICE_SOFTGPU_FAIL", "SLUICE_SOFTGPU_BACKING"}) {
      if (std::getenv(name) != nullptr) GTEST_SKIP() << name << " lets parts go one by one";
    }
    if (entry<decltype(sluice_path_counters)>("sluice_path_counters") == nullptr) GTEST_SKIP() << "nothing is counted";
    cuFileDriverOpen();
  }

  static std::uint64_t carried() {
    sluice_carrier_counts_t counts{};
    entry<decltype(sluice_carrier_counters)>("sluice_carrier_counters")(&counts);
    return counts.kernel + counts.scatter_kernel + counts.many_copies + counts.copy_engine + counts.slab +
           counts.resident_kernel + counts.cpu_window;
  }
  static std::uint64_t on_all_paths() {
    auto* const ask = entry<decltype(sluice_path_counters)>("sluice_path_counters");
    std::size_t count = 0;
    ask(nullptr, 0, &count);
    std::vector<sluice_path_counter_t> counters(count);
    ask(counters.data(), count, &count);
    std::uint64_t sum = 0;
    for (const sluice_path_counter_t& counter : counters) sum += counter.reads + counter.writes;
    return sum;
  }
};

TEST_F(VectorCounted, ManySmallDevicePartsAreOneTransfer) {
  const ManyParts parts(MemoryKind::device, std::vector<std::size_t>(100, 3000));
  for (const int mode : {0, O_DIRECT}) {
    const Fd fd = file_.open(O_RDONLY | mode);
    const Handle handle(fd);
    content_of(file_.path());  // now the page cache has it
    const std::uint64_t carried_before = carried();
    const std::uint64_t paths_before = on_all_paths();
    // What a disk has to bring goes in groups of fewer.
    const std::size_t count = mode == 0 ? 100 : 30;
    ASSERT_EQ(read(handle.get(), parts.vector.data(), count, 0), moved(count * 3000));
    EXPECT_EQ(carried() - carried_before, 1U) << mode;
    EXPECT_EQ(on_all_paths() - paths_before, 1U) << mode;
  }
}

TEST_F(VectorCounted, ManySmallDevicePartsAreWrittenAsOneTransfer) {
  const ManyParts parts(MemoryKind::device, std::vector<std::size_t>(100, 3000));
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const std::uint64_t carried_before = carried();
  const std::uint64_t paths_before = on_all_paths();
  ASSERT_EQ(write(handle.get(), parts.vector.data(), 100, 0), moved(300000));
  EXPECT_EQ(carried() - carried_before, 1U);
  EXPECT_EQ(on_all_paths() - paths_before, 1U);
}

TEST_F(VectorCounted, ManyHostPartsAreOneTransfer) {
  const ManyParts parts(MemoryKind::plain, std::vector<std::size_t>(200, 1000));
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const std::uint64_t paths_before = on_all_paths();
  ASSERT_EQ(read(handle.get(), parts.vector.data(), 200, 0), moved(200000));
  EXPECT_EQ(on_all_paths() - paths_before, 1U);
  ASSERT_EQ(write(handle.get(), parts.vector.data(), 200, 0), moved(200000));
  EXPECT_EQ(on_all_paths() - paths_before, 2U);
}

TEST_F(VectorCounted, RaggedPartsOfADirectFileAreOneTransfer) {
  for (const MemoryKind kind : {MemoryKind::plain, MemoryKind::device}) {
    const ManyParts parts(kind, std::vector<std::size_t>(100, 1001));
    const Fd fd = file_.open(O_RDWR | O_DIRECT);
    const Handle handle(fd);
    if (kind == MemoryKind::plain) {
      const std::uint64_t before = on_all_paths();
      ASSERT_EQ(read(handle.get(), parts.vector.data(), 100, 77), moved(100100));
      EXPECT_EQ(on_all_paths() - before, 1U);
    }
    const std::uint64_t before = on_all_paths();
    ASSERT_EQ(write(handle.get(), parts.vector.data(), 100, 77), moved(100100));
    EXPECT_EQ(on_all_paths() - before, 1U) << static_cast<int>(kind);
  }
}

}  // namespace
}  // namespace sluice::contract::vector_test
