// SPDX-License-Identifier: Apache-2.0
// What the tests of the path `rdma` share: one served file, its handle, and what the library says of both.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "rdma/fake_verbs.h"
#include "rdma/served_file.h"
#include "sluice.h"
#include "support/calls.h"

namespace sluice::rdma_test {

using namespace support;

constexpr std::size_t kMiB = std::size_t{1} << 20U;

class RdmaPath : public CufileTest {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    regions_before_ = fake_verbs_counts().regions;
    dma_bufs_before_ = fake_verbs_counts().dma_buf_regions_made;
    served_.content = random_bytes(4 * kMiB + 5, 1);
  }
  void TearDown() override {
    handle_.reset();
    close_driver_fully();
    fake_verbs_fail(nullptr, 0, 0);
    EXPECT_EQ(fake_verbs_counts().regions, regions_before_) << "regions outlive their buffers";
    for (const char* name : {"SLUICE_OPERATION_TIMEOUT_MS", "CUFILE_ENV_PATH_JSON", "CUFILE_FORCE_COMPAT_MODE"}) {
      ::unsetenv(name);
    }
    CufileTest::TearDown();
  }

  struct Registered {
    explicit Registered(CUfileHandle_t made) : handle(made) {}
    ~Registered() { cuFileHandleDeregister(handle); }
    Registered(const Registered&) = delete;
    Registered& operator=(const Registered&) = delete;
    CUfileHandle_t handle;
  };
  CUfileHandle_t handle() {
    if (!handle_) {
      CUfileDescr_t description{};
      description.type = CU_FILE_HANDLE_TYPE_USERSPACE_FS;
      description.handle.fd = fd_.get();
      description.fs_ops = &served_.operations;
      CUfileHandle_t made = nullptr;
      EXPECT_EQ(code(cuFileHandleRegister(&made, &description)), CU_FILE_SUCCESS) << sluice_last_error();
      handle_ = std::make_unique<Registered>(made);
    }
    return handle_->handle;
  }

  struct Told {
    std::string path, reason, detail;
  };
  Told explained(const void* memory, CUfileOpcode_t opcode = CUFILE_READ) {
    sluice_explanation_t words{};
    EXPECT_EQ(code(sluice_explain(handle(), memory, 0, opcode, 4096, 0, &words)), CU_FILE_SUCCESS);
    return {words.path_name, words.reason_name, words.detail};
  }
  static std::uint64_t bytes_by(sluice_path_t path, bool reads = true) {
    std::vector<sluice_path_counter_t> counters(std::size_t{SLUICE_PATH_COUNT} * SLUICE_REASON_COUNT);
    std::size_t count = 0;
    EXPECT_EQ(code(sluice_path_counters(counters.data(), counters.size(), &count)), CU_FILE_SUCCESS);
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (counters[i].path == path) bytes += reads ? counters[i].read_bytes : counters[i].written_bytes;
    }
    return bytes;
  }
  void configure(const std::string& properties) {
    json_ = std::make_unique<ScratchFile>(1);
    const Fd file = json_->open(O_WRONLY | O_TRUNC);
    const std::string text = "{\"properties\": {" + properties + "}}";
    ASSERT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::setenv("CUFILE_ENV_PATH_JSON", json_->path().c_str(), 1);
  }
  // Every byte, in the middle of memory that stays as it was.
  void read_and_compare(const Memory& memory) {
    const std::size_t size = served_.content.size();
    memory.fill(7);
    EXPECT_EQ(read_file(handle(), memory.address(), memory.size() - 3, 0, 3), moved(size));
    EXPECT_TRUE(all_bytes(7, memory.get(0, 3)));
    EXPECT_TRUE(same_bytes(served_.content, memory.get(3, size)));
    EXPECT_TRUE(all_bytes(7, memory.get(3 + size, memory.size() - 3 - size)));
  }

  ScratchFile file_{4096};
  Fd fd_ = file_.open(O_RDWR);
  ServedFile served_;
  std::unique_ptr<Registered> handle_;
  std::unique_ptr<ScratchFile> json_;
  unsigned regions_before_ = 0;
  unsigned dma_bufs_before_ = 0;
};

}  // namespace sluice::rdma_test
