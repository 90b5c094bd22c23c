// SPDX-License-Identifier: Apache-2.0
// Descriptors that are closed, used again for something else, or changed under their handle.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <thread>

#include "contract/life/gated_file.h"
#include "support/calls.h"

namespace sluice::contract::life_descriptor_test {
namespace {

using namespace support;
using life::GatedFile;

constexpr std::size_t kSize = 300001;

class LifeDescriptor : public CufileTest {
 protected:
  // Makes the number of `fd` mean another description.
  static void replace(const Fd& fd, const Fd& by) { ASSERT_EQ(dup2(by.get(), fd.get()), fd.get()); }

  // Reads and writes with ends that suit no blocks.
  void expect_round_trip(CUfileHandle_t handle) const {
    const Memory memory(usual_memory(), kSize);
    EXPECT_EQ(read_file(handle, memory.address(), kSize), moved(kSize));
    EXPECT_TRUE(same_bytes(content_of(file_.path()), memory.get()));
    const Bytes written = random_bytes(20003, 9);
    memory.put(11, written);
    EXPECT_EQ(write_file(handle, memory.address(), written.size(), 4097, 11), moved(written.size()));
    EXPECT_EQ(read_file(handle, memory.address(), written.size(), 4097, 5), moved(written.size()));
    EXPECT_TRUE(same_bytes(written, memory.get(5, written.size())));
  }

  const ScratchFile file_{kSize};
  const ScratchFile other_{kSize};
};

TEST_F(LifeDescriptor, ClosedAndOpenedAgainForTheSameFileWorks) {
  Fd fd = file_.open(O_RDWR | O_DIRECT);
  const int number = fd.get();
  const Handle handle(fd);
  expect_round_trip(handle.get());
  fd.reset();
  fd = file_.open(O_RDWR | O_DIRECT);
  ASSERT_EQ(fd.get(), number) << "the test relies on the lowest free number being given";
  expect_round_trip(handle.get());
}

TEST_F(LifeDescriptor, ThatLosesItsDirectFlagWorks) {
  const Fd fd = file_.open(O_RDWR | O_DIRECT);
  const Handle handle(fd);
  ASSERT_EQ(fcntl(fd.get(), F_SETFL, 0), 0);
  expect_round_trip(handle.get());
}

TEST_F(LifeDescriptor, ThatGetsADirectFlagWorks) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  ASSERT_EQ(fcntl(fd.get(), F_SETFL, O_DIRECT), 0);
  expect_round_trip(handle.get());
}

TEST_F(LifeDescriptor, ReplacedByADirectOneOfTheSameFileWorks) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  replace(fd, file_.open(O_RDWR | O_DIRECT));
  expect_round_trip(handle.get());
}

TEST_F(LifeDescriptor, ReplacedByAReadOnlyOneOfTheSameFileRefusesWrites) {
  for (const int flags : {0, O_DIRECT}) {
    SCOPED_TRACE(flags);
    const Fd fd = file_.open(O_RDWR | flags);
    const Handle handle(fd);
    replace(fd, file_.open(O_RDONLY | flags));
    const Memory memory(usual_memory(), 8192);
    EXPECT_EQ(read_file(handle.get(), memory.address(), 8192), moved(8192));
    EXPECT_EQ(write_file(handle.get(), memory.address(), 8192), failed(EBADF));
    EXPECT_TRUE(same_bytes(file_.content(), content_of(file_.path())));
  }
}

TEST_F(LifeDescriptor, UsedAgainForAnotherFileHasTwoHandlesThatDoNotMix) {
  const Fd fd = file_.open(O_RDWR | O_DIRECT);
  std::optional<Handle> old(fd);
  const Memory memory(usual_memory(), kSize);
  ASSERT_EQ(write_file(old->get(), memory.address(), 5001, 3), moved(5001));
  const Bytes kept = content_of(file_.path());
  replace(fd, other_.open(O_RDWR | O_DIRECT));
  const Handle fresh(fd);
  EXPECT_EQ(read_file(old->get(), memory.address(), kSize), failed(EBADF));
  EXPECT_EQ(write_file(old->get(), memory.address(), 5001, 3), failed(EBADF));
  EXPECT_EQ(read_file(fresh.get(), memory.address(), kSize), moved(kSize));
  EXPECT_TRUE(same_bytes(other_.content(), memory.get()));
  old.reset();
  EXPECT_EQ(write_file(fresh.get(), memory.address(), 5001, 3), moved(5001)) << "after the old handle's end";
  EXPECT_TRUE(same_bytes(kept, content_of(file_.path()))) << "the old file was written";
  CUfileHandle_t twice = nullptr;
  EXPECT_EQ(register_fd(fd.get(), &twice), CU_FILE_HANDLE_ALREADY_REGISTERED)
      << "the old handle's end took the new one";
}

TEST_F(LifeDescriptor, UsedAgainForSomethingThatIsNoFileAnswersEbadf) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const Fd reader(ends[0]);
  const Fd writer(ends[1]);
  for (const Fd* end : {&reader, &writer}) {
    replace(fd, *end);
    const Memory memory(usual_memory(), 4096);
    EXPECT_EQ(read_file(handle.get(), memory.address(), 4096), failed(EBADF));
    EXPECT_EQ(write_file(handle.get(), memory.address(), 4096), failed(EBADF));
  }
}

TEST_F(LifeDescriptor, ThatWasClosedLetsItsHandleAndTheDriverEnd) {
  for (const int flags : {0, O_DIRECT}) {
    Fd fd = file_.open(O_RDWR | flags);
    Handle handle(fd);
    expect_round_trip(handle.get());
    fd.reset();
    handle.deregister();
    Fd again = file_.open(O_RDWR | flags);
    const Handle left_to_the_driver(again);
    again.reset();
    EXPECT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
  }
}

TEST_F(LifeDescriptor, OfAFileThatIsReplacedByNameStaysWithItsFile) {
  const Fd fd = file_.open(O_RDWR | O_DIRECT);
  const Handle handle(fd);
  ASSERT_EQ(rename(other_.path().c_str(), file_.path().c_str()), 0);
  const Memory memory(usual_memory(), kSize);
  ASSERT_EQ(write_file(handle.get(), memory.address(), 5001, 3), moved(5001)) << "by a private description as well";
  EXPECT_TRUE(same_bytes(other_.content(), content_of(file_.path()))) << "the newcomer was written";
}

}  // namespace
}  // namespace sluice::contract::life_descriptor_test
