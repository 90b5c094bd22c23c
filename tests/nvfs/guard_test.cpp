// SPDX-License-Identifier: Apache-2.0
// What keeps the library from believing the module: detection before any call, trials, and every success looked at.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "nvfs/path_fixture.h"

namespace sluice::nvfs_test {
namespace {

using namespace support;

class Guard : public PathTest {
 protected:
  // Reads and writes a file with its bytes all right, whatever carries them.
  void expect_right_bytes(const direct::OpenFile& open, const Pages& memory) {
    memory.fill(0);
    ASSERT_EQ(read_file(open.handle(), memory.address(), kMiB), moved(kMiB));
    EXPECT_TRUE(same_bytes(std::span(file().content()).first(kMiB), memory.get()));
    const Bytes bytes = random_bytes(kMiB, 9);
    memory.put(0, bytes);
    ASSERT_EQ(write_file(open.handle(), memory.address(), kMiB, 2 * kMiB), moved(kMiB));
    const Bytes now = content_of(file().path());
    EXPECT_TRUE(same_bytes(bytes, std::span(now).subspan(2 * kMiB, kMiB)));
  }
};

TEST_F(Guard, MakesNoCallBeforeDetection) {
  struct Case {
    Machine machine;
    const char* reason;
  };
  const Case cases[] = {
      {{.loaded = false}, "nvfs_not_loaded"},
      {{.version = "2.11"}, "nvfs_too_old"},
      {{.nodes = 0}, "nvfs_no_node"},
      {{.open_error = EACCES}, "nvfs_no_node"},
      {{.modules = "wekafsio: 1\n"}, "nvfs_no_hooks"},
      {{.modules = "lnet: 2.15\nwekafsio: 1\n"}, "nvfs_no_hooks"},
      {{.symbols = "0000000000000000 T nvme_v1_register_nvfs_dma_ops\t[nvme]\n"}, "nvfs_no_hooks"},
  };
  for (const Case& known : cases) {
    SCOPED_TRACE(known.reason);
    load(known.machine);
    {
      const Pages memory(kMiB);
      const Registration registration(memory.address(), memory.size());
      const direct::OpenFile open(file());
      EXPECT_EQ(kept_from(open.handle(), memory), known.reason);
      expect_right_bytes(open, memory);
      const FakeModule::Counts counts = module().counts();
      EXPECT_EQ(counts.maps + counts.reads + counts.writes, 0U);
    }
    close_driver_fully();
  }
}

TEST_F(Guard, LeavesTheModuleAloneUnlessItIsAskedFor) {
  use("off", "true");
  const Pages memory(kMiB);
  const Registration registration(memory.address(), memory.size());
  const direct::OpenFile open(file());
  EXPECT_STREQ(direct::explain(open.handle(), memory.address()).path_name, "p2pdma");
  EXPECT_EQ(module().counts().nodes_open, 0U);
}

TEST_F(Guard, RefusesADriverWithoutHooks) {
  module().set_hooked(false);
  const Pages memory(kMiB);
  const Registration registration(memory.address(), memory.size());
  const direct::OpenFile open(file());
  EXPECT_EQ(kept_from(open.handle(), memory), "nvfs_bytes_elsewhere");
  expect_right_bytes(open, memory);
  const FakeModule::Counts counts = module().counts();
  EXPECT_EQ(counts.writes, 0U) << "a write would put foreign bytes on the drive";
  EXPECT_EQ(counts.reads, 2U) << "the trial's, once more since a hole may be filled meanwhile";
}

TEST_F(Guard, ProvesWritesByThemselves) {
  const Pages memory(kMiB);
  const Registration registration(memory.address(), memory.size());
  const direct::OpenFile open(file());
  module().plan({Fault::Kind::nothing}, 2);  // behind the two calls of the trial read comes the trial write
  EXPECT_EQ(kept_from(open.handle(), memory, CUFILE_WRITE), "nvfs_write_lost");
  expect_right_bytes(open, memory);
  EXPECT_EQ(module().counts().writes, 1U);
}

TEST_F(Guard, TouchesNoFileOfTheCallers) {
  const Pages memory(kMiB);
  const Registration registration(memory.address(), memory.size());
  memory.fill(0x5a);
  const direct::OpenFile open(file());
  EXPECT_EQ(kept_from(open.handle(), memory, CUFILE_WRITE), "");
  const sluice_explanation_t answer = direct::explain(open.handle(), memory.address());
  EXPECT_NE(std::string(answer.detail).find("65536 bytes at 0 were verified"), std::string::npos) << answer.detail;
  EXPECT_NE(std::string(answer.detail).find("writes: 65536 bytes were verified"), std::string::npos) << answer.detail;
  EXPECT_TRUE(same_bytes(file().content(), content_of(file().path())));
  EXPECT_TRUE(all_bytes(0x5a, memory.get()));
  EXPECT_EQ(module().counts().writes, 2U) << "to a file of the library's own";
}

TEST_F(Guard, HearsALieInATransfer) {
  const Pages memory(4 * kMiB);
  const Registration registration(memory.address(), memory.size());
  const direct::OpenFile open(file());
  ASSERT_EQ(kept_from(open.handle(), memory), "");
  module().plan({Fault::Kind::lie_about_a_hole}, 1, 1000);
  ASSERT_EQ(read_file(open.handle(), memory.address(), 4 * kMiB), moved(4 * kMiB));
  EXPECT_TRUE(same_bytes(std::span(file().content()).first(4 * kMiB), memory.get()));
  EXPECT_EQ(kept_from(open.handle(), memory), "nvfs_bytes_elsewhere");
  const std::size_t reads = module().counts().reads;
  ASSERT_EQ(read_file(open.handle(), memory.address(), kMiB), moved(kMiB));
  EXPECT_EQ(module().counts().reads, reads) << "it is not spoken to any more";
}

TEST_F(Guard, AWriteThatMovedNothingEndsThePathAndGoesByTheCpu) {
  const Pages memory(kMiB);
  const Registration registration(memory.address(), memory.size());
  const direct::OpenFile open(file());
  ASSERT_EQ(kept_from(open.handle(), memory, CUFILE_WRITE), "");
  module().plan({Fault::Kind::nothing});
  const Bytes bytes = random_bytes(kMiB, 4);
  memory.put(0, bytes);
  ASSERT_EQ(write_file(open.handle(), memory.address(), kMiB), moved(kMiB));
  const Bytes now = content_of(file().path());
  EXPECT_TRUE(same_bytes(bytes, std::span(now).first(kMiB)));
  EXPECT_EQ(kept_from(open.handle(), memory, CUFILE_WRITE), "nvfs_write_lost");
  EXPECT_EQ(kept_from(open.handle(), memory), "nvfs_bytes_elsewhere");
}

TEST_F(Guard, RawDrivesAreOnlyRead) {
  const Place* const place = find_place("loop");
  if (place == nullptr) GTEST_SKIP() << "no loop device here";
  const Fd held = hold(*place);
  plain_write(Fd(open(place->path.c_str(), O_WRONLY | O_CLOEXEC)).get(), 0, random_bytes(kMiB, 2));
  const Fd fd(open(place->path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  const Handle handle(fd);
  const Pages memory(kMiB);
  const Registration registration(memory.address(), memory.size());
  EXPECT_EQ(kept_from(handle.get(), memory), "");
  EXPECT_EQ(kept_from(handle.get(), memory, CUFILE_WRITE), "nvfs_writes_not_proven");
  EXPECT_EQ(module().counts().writes, 0U);
}

TEST_F(Guard, PutsP2pdmaFirstUnlessItIsToldOtherwise) {
  const Pages memory(kMiB);
  for (const char* const order : {"behind_p2pdma", "first"}) {
    use(order, "true");
    {
      const Registration registration(memory.address(), memory.size());
      const direct::OpenFile open(file());
      const char* const path = direct::explain(open.handle(), memory.address()).path_name;
      EXPECT_STREQ(path, std::string(order) == "first" ? "nvfs" : "p2pdma");
    }
    close_driver_fully();
  }
  use("behind_p2pdma", "false");
  const Registration registration(memory.address(), memory.size());
  const direct::OpenFile open(file());
  EXPECT_EQ(kept_from(open.handle(), memory), "");
}

TEST_F(Guard, KeepsToWhatTheCpuMayNotDo) {
  setenv("CUFILE_ALLOW_COMPAT_MODE", "false", 1);
  const Pages memory(kMiB);
  {
    const Registration registration(memory.address(), memory.size());
    const direct::OpenFile open(file());
    ASSERT_EQ(read_file(open.handle(), memory.address(), kMiB), moved(kMiB));
    EXPECT_EQ(read_file(open.handle(), memory.address(), 100, 1), failed(CU_FILE_IO_NOT_SUPPORTED))
        << "an edge is the CPU's";
    const Pages stranger(kMiB);
    EXPECT_EQ(read_file(open.handle(), stranger.address(), kMiB), failed(CU_FILE_IO_NOT_SUPPORTED)) << "not registered";
  }
  close_driver_fully();
  load({.modules = "wekafsio: 1\n"});
  const Fd fd = file().open(O_RDWR | O_DIRECT);
  CUfileHandle_t handle = nullptr;
  EXPECT_EQ(register_fd(fd.get(), &handle), CU_FILE_IO_NOT_SUPPORTED);
  close_driver_fully();
  load({.loaded = false});
  EXPECT_EQ(code(cuFileDriverOpen()), CU_FILE_DRIVER_NOT_INITIALIZED);
}

}  // namespace
}  // namespace sluice::nvfs_test
