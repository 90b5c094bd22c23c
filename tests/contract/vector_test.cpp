// cuFileReadv and cuFileWritev: memory in several parts, one range of the file.
#include <gtest/gtest.h>

#include <cerrno>
#include <climits>
#include <memory>
#include <vector>

#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::contract {
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
  EXPECT_EQ(write(handle.get(), &part, 1, 0), failed(CU_FILE_INVALID_FILE_OPEN_FLAG));
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

}  // namespace
}  // namespace sluice::contract
