// SPDX-License-Identifier: Apache-2.0
// What may be registered as a file, what is refused and how, and what a handle means afterwards.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

#include "support/calls.h"

namespace sluice::contract {
namespace {

using namespace support;

class FileHandle : public CufileTest {
 protected:
  // Registers and tells the code.
  static int attempt(int fd) {
    CUfileHandle_t handle = nullptr;
    const int result = register_fd(fd, &handle);
    if (result == CU_FILE_SUCCESS) cuFileHandleDeregister(handle);
    return result;
  }

  static int attempt(const char* path, int flags) {
    const Fd fd(open(path, flags | O_CLOEXEC, 0600));
    EXPECT_TRUE(fd.valid()) << path << ": " << strerror(errno);
    return attempt(fd.get());
  }

  static int attempt(const ScratchFile& file, int flags) { return attempt(file.path().c_str(), flags); }

  // Registers and reads the content back.
  static void expect_works(int fd, const Bytes& content) {
    const Handle handle(fd);
    const Memory memory(usual_memory(), content.size());
    EXPECT_EQ(read_file(handle.get(), memory.address(), content.size()), moved(content.size()));
    EXPECT_TRUE(same_bytes(content, memory.get()));
  }
};

TEST_F(FileHandle, NeedsAPlaceForTheHandleAndADescription) {
  const ScratchFile file(1);
  const Fd fd = file.open(O_RDWR);
  CUfileDescr_t description{};
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = fd.get();
  CUfileHandle_t handle = nullptr;
  EXPECT_EQ(code(cuFileHandleRegister(nullptr, &description)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileHandleRegister(&handle, nullptr)), CU_FILE_INVALID_VALUE);
}

TEST_F(FileHandle, NeedsAnOpenDescriptor) {
  cuFileDriverOpen();  // a library that opens a log of its own must not be given the number that is free below
  const ScratchFile file(1);
  Fd fd = file.open(O_RDWR);
  const int number = fd.get();
  fd.reset();
  EXPECT_EQ(attempt(-1), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(attempt(number), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(attempt(1 << 30), CU_FILE_INVALID_VALUE);
}

TEST_F(FileHandle, MustBeARegularFileOrABlockDevice) {
  int pair[2];
  ASSERT_EQ(pipe(pair), 0);
  const Fd reader(pair[0]);
  const Fd writer(pair[1]);
  EXPECT_EQ(attempt(reader.get()), CU_FILE_INVALID_FILE_TYPE);
  EXPECT_EQ(attempt(writer.get()), CU_FILE_INVALID_FILE_TYPE);
  const Fd socket_fd(socket(AF_UNIX, SOCK_STREAM, 0));
  EXPECT_EQ(attempt(socket_fd.get()), CU_FILE_INVALID_FILE_TYPE);
  EXPECT_EQ(attempt(".", O_RDONLY), CU_FILE_INVALID_FILE_TYPE);
  EXPECT_EQ(attempt("/dev/null", O_RDWR), CU_FILE_INVALID_FILE_TYPE);
  EXPECT_EQ(attempt("/dev/zero", O_RDWR), CU_FILE_INVALID_FILE_TYPE);
}

TEST_F(FileHandle, IsLeftAsItWasByARefusal) {
  const Fd folder(open(".", O_RDONLY | O_CLOEXEC));
  const Fd pseudo(open("/proc/version", O_RDONLY | O_CLOEXEC));
  for (const int fd : {-1, folder.get(), pseudo.get()}) {
    CUfileHandle_t handle = &handle;
    EXPECT_NE(register_fd(fd, &handle), CU_FILE_SUCCESS) << fd;
    EXPECT_EQ(handle, &handle) << fd;
  }
  const ScratchFile file(1);
  const Fd fd = file.open(O_RDWR);
  const Handle registered(fd);
  CUfileHandle_t second = &second;
  EXPECT_EQ(register_fd(fd.get(), &second), CU_FILE_HANDLE_ALREADY_REGISTERED);
  EXPECT_EQ(second, &second) << "of a descriptor that is registered already";
}

TEST_F(FileHandle, PseudoFilesCannotBeRegistered) {
  EXPECT_EQ(attempt("/proc/version", O_RDONLY), CU_FILE_HANDLE_NOT_REGISTERED);
  EXPECT_EQ(attempt("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY), CU_FILE_HANDLE_NOT_REGISTERED);
}

TEST_F(FileHandle, OpenedToAppendOrNotToBlockIsRefused) {
  const ScratchFile file(1);
  for (const int flag : {O_APPEND, O_NONBLOCK}) {
    EXPECT_EQ(attempt(file, O_RDWR | flag), CU_FILE_INVALID_FILE_OPEN_FLAG) << flag;
  }
}

TEST_F(FileHandle, FlagsThatContradictPositionedTransfersAreRefused) {
  const ScratchFile file(1);
  EXPECT_EQ(attempt(file, O_RDWR | O_NOFOLLOW), CU_FILE_INVALID_FILE_OPEN_FLAG);
}

TEST_F(FileHandle, OfADescriptorThatOnlyNamesAFileCanBeRegistered) {
  const ScratchFile file(4096);
  const Fd fd = file.open(O_PATH);
  const Handle handle(fd);
  ASSERT_NE(handle.get(), nullptr);
  const Memory memory(usual_memory(), 4096);
  EXPECT_EQ(read_file(handle.get(), memory.address(), 4096), failed(EPERM));
  EXPECT_EQ(read_file(handle.get(), memory.address(), 0), failed(EPERM));
  EXPECT_EQ(write_file(handle.get(), memory.address(), 4096), failed(EIO));
  const Registration registration(memory);
  EXPECT_EQ(read_file(handle.get(), memory.address(), 0), moved(0)) << "registered";
  EXPECT_EQ(read_file(handle.get(), memory.address(), 4096), failed(EPERM)) << "registered";
}

TEST_F(FileHandle, AllWaysOfOpeningForPositionedTransfersWork) {
  const ScratchFile file(1);
  for (const int access : {O_RDONLY, O_WRONLY, O_RDWR}) {
    for (const int flag : {0, O_DIRECT, O_SYNC, O_DSYNC, O_DIRECT | O_SYNC, O_NOATIME}) {
      EXPECT_EQ(attempt(file, access | flag), CU_FILE_SUCCESS) << access << " " << flag;
    }
  }
}

TEST_F(FileHandle, OfAnUnknownTypeIsNotSupported) {
  const ScratchFile file(1);
  const Fd fd = file.open(O_RDWR);
  for (const int type : {0, static_cast<int>(CU_FILE_HANDLE_TYPE_OPAQUE_WIN32), 4}) {
    CUfileDescr_t description{};
    std::memcpy(&description.type, &type, sizeof type);  // as a C program may
    description.handle.fd = fd.get();
    CUfileHandle_t handle = &handle;
    EXPECT_EQ(code(cuFileHandleRegister(&handle, &description)), CU_FILE_IO_NOT_SUPPORTED) << type;
  }
}

TEST_F(FileHandle, OfAnEmptyFileWorks) {
  const ScratchFile file;
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 4096);
  EXPECT_EQ(read_file(handle.get(), memory.address(), 4096), moved(0));
}

TEST_F(FileHandle, OfADuplicateOrASecondOpenWorks) {
  const ScratchFile file(5000);
  const Fd first = file.open(O_RDWR);
  const Fd duplicate(dup(first.get()));
  const Fd second = file.open(O_RDWR);
  const Handle handle(first);
  expect_works(duplicate.get(), file.content());
  expect_works(second.get(), file.content());
  const Memory memory(usual_memory(), 5000);
  EXPECT_EQ(read_file(handle.get(), memory.address(), 5000), moved(5000));
}

TEST_F(FileHandle, OfTheSameDescriptorIsRefusedWhileItIsRegistered) {
  const ScratchFile file(1);
  const Fd fd = file.open(O_RDWR);
  Handle handle(fd);
  CUfileHandle_t second = nullptr;
  EXPECT_EQ(register_fd(fd.get(), &second), CU_FILE_HANDLE_ALREADY_REGISTERED);
  handle.deregister();
  EXPECT_EQ(attempt(fd.get()), CU_FILE_SUCCESS);
}

TEST_F(FileHandle, WhoseDescriptorNumberNowMeansAnotherFileDoesNotHinderThat) {
  const ScratchFile old(5000);
  const ScratchFile fresh(6000);
  Fd fd = old.open(O_RDWR);
  const Handle handle(fd);
  const Fd other = fresh.open(O_RDWR);
  ASSERT_EQ(dup2(other.get(), fd.get()), fd.get());
  expect_works(fd.get(), fresh.content());
}

TEST_F(FileHandle, OfAnUnlinkedFileWorks) {
  ScratchFile file(5000);
  const Fd fd = file.open(O_RDWR | O_DIRECT);
  file.unlink();
  expect_works(fd.get(), file.content());
}

TEST_F(FileHandle, OfAFileThatNeverHadANameWorks) {
  const Fd fd(open(disk_directory().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_TRUE(fd.valid());
  const Bytes content = random_bytes(10000, 7);
  plain_write(fd.get(), 0, content);
  expect_works(fd.get(), content);
}

TEST_F(FileHandle, OfAMemfdWorks) {
  const Fd fd(memfd_create("sluice-test", MFD_CLOEXEC));
  const Bytes content = random_bytes(10000, 1);
  plain_write(fd.get(), 0, content);
  expect_works(fd.get(), content);
}

TEST_F(FileHandle, OfABlockDeviceWorks) {
  const Place* loop = find_place("loop");
  if (loop == nullptr) GTEST_SKIP() << "there is no raw loop device";
  const Fd held = hold(*loop);
  const Fd fd(open(loop->path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  ASSERT_TRUE(fd.valid());
  const Bytes content = random_bytes(12288, 2);
  const Memory memory(usual_memory(), content.size());
  memory.put(0, content);
  {
    const Handle handle(fd);
    EXPECT_EQ(write_file(handle.get(), memory.address(), content.size()), moved(content.size()));
  }
  expect_works(fd.get(), content);
}

TEST_F(FileHandle, WorksOnEveryFileSystem) {
  for (const Place& place : places()) {
    if (!place.why_not.empty() || place.name == "loop" || place.name == "tiny") continue;
    SCOPED_TRACE(place.name);
    const ScratchFile file(random_bytes(70001, 3), place.path);
    const Fd fd = file.open(O_RDWR);
    expect_works(fd.get(), file.content());
  }
}

TEST_F(FileHandle, DeregisteringWhatIsNoneIsIgnored) {
  const ScratchFile file(1);
  const Fd fd = file.open(O_RDWR);
  CUfileHandle_t handle = nullptr;
  ASSERT_EQ(register_fd(fd.get(), &handle), CU_FILE_SUCCESS);
  cuFileHandleDeregister(nullptr);
  cuFileHandleDeregister(reinterpret_cast<CUfileHandle_t>(std::uintptr_t{0x123456789}));
  cuFileHandleDeregister(reinterpret_cast<CUfileHandle_t>(UINTPTR_MAX));
  cuFileHandleDeregister(handle);
  cuFileHandleDeregister(handle);
  EXPECT_EQ(attempt(fd.get()), CU_FILE_SUCCESS);
}

TEST_F(FileHandle, GivenBackTwiceTakesNoOtherWithIt) {
  const ScratchFile file(4096);
  const Memory memory(usual_memory(), 4096);
  for (int i = 0; i < 20; ++i) {
    const Fd fd = file.open(O_RDWR);
    CUfileHandle_t old = nullptr;
    ASSERT_EQ(register_fd(fd.get(), &old), CU_FILE_SUCCESS);
    cuFileHandleDeregister(old);
    const Handle handle(fd);
    const long before = cuFileUseCount();
    cuFileHandleDeregister(old);
    EXPECT_EQ(read_file(handle.get(), memory.address(), 4096), moved(4096));
    EXPECT_EQ(cuFileUseCount(), before);
  }
}

TEST_F(FileHandle, IsNeverTakenForAnOlderOne) {
  const ScratchFile file(4096);
  const Fd fd = file.open(O_RDWR);
  const Memory memory(usual_memory(), 4096);
  std::set<CUfileHandle_t> seen;
  CUfileHandle_t old = nullptr;
  for (int i = 0; i < 300; ++i) {
    const Handle handle(fd);
    EXPECT_TRUE(seen.insert(handle.get()).second) << "round " << i;
    if (old != nullptr) {
      ASSERT_EQ(read_file(old, memory.address(), 4096), failed(CU_FILE_HANDLE_NOT_REGISTERED));
    }
    old = handle.get();
  }
}

TEST_F(FileHandle, AThousandAtATimeWork) {
  constexpr std::size_t count = 1000;
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < count + 100) GTEST_SKIP() << "only " << limit.rlim_max << " descriptors are allowed";
  rlimit raised = limit;
  raised.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &raised);
  const ScratchFile file(4096);
  std::vector<Fd> fds;
  std::vector<CUfileHandle_t> handles(count);
  for (std::size_t i = 0; i < count; ++i) {
    fds.push_back(file.open(O_RDONLY));
    ASSERT_EQ(register_fd(fds.back().get(), &handles[i]), CU_FILE_SUCCESS) << i;
  }
  EXPECT_EQ(std::set<CUfileHandle_t>(handles.begin(), handles.end()).size(), count);
  const Memory memory(usual_memory(), 4096);
  for (const CUfileHandle_t handle : handles) {
    ASSERT_EQ(read_file(handle, memory.address(), 4096), moved(4096));
    cuFileHandleDeregister(handle);
  }
  setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_F(FileHandle, WhoseDescriptorWasClosedAnswersEbadf) {
  const ScratchFile file(4096);
  Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  fd.reset();
  const Memory memory(usual_memory(), 4096);
  memory.fill(9);
  EXPECT_EQ(read_file(handle.get(), memory.address(), 4096), failed(EBADF));
  EXPECT_EQ(write_file(handle.get(), memory.address(), 4096), failed(EBADF));
  EXPECT_TRUE(all_bytes(9, memory.get()));
}

TEST_F(FileHandle, WhoseDescriptorNowMeansAnotherFileTouchesNeither) {
  const ScratchFile file(4096);
  const ScratchFile other(4096);
  Fd fd = file.open(O_RDWR);
  const int number = fd.get();
  const Handle handle(fd);
  fd.reset();
  const Fd taken = other.open(O_RDWR);
  ASSERT_EQ(taken.get(), number) << "the test relies on the lowest free number being given";
  for (const std::size_t size : {std::size_t{4096}, std::size_t{100000}, std::size_t{1 << 20}}) {
    const Memory memory(usual_memory(), size);
    memory.fill(9);
    EXPECT_EQ(read_file(handle.get(), memory.address(), size), failed(EBADF)) << size;
    EXPECT_EQ(write_file(handle.get(), memory.address(), size), failed(EBADF)) << size;
    // Of small reads into a device the descriptor is asked after its bytes.
    if (usual_memory() == MemoryKind::plain || size == 1 << 20) {
      EXPECT_TRUE(all_bytes(9, memory.get()));
    }
    EXPECT_TRUE(same_bytes(other.content(), content_of(other.path())));
  }
}

}  // namespace
}  // namespace sluice::contract
