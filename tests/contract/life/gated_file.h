// SPDX-License-Identifier: Apache-2.0
// A file whose transfers stand still until they are let go: a handle with operations of its own. What a test wants to
// do to a transfer in flight it does between wait_until_inside() and open().
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

#include "support/calls.h"

namespace sluice::life {

// One at a time in a process. The kernel's file behind the descriptor is never read or written.
class GatedFile {
 public:
  explicit GatedFile(std::size_t length);
  ~GatedFile();
  GatedFile(const GatedFile&) = delete;
  GatedFile& operator=(const GatedFile&) = delete;

  CUfileHandle_t handle() const { return handle_; }
  // What a read gives, and what a write has left.
  const support::Bytes& content() const { return content_; }

  // Returns when so many transfers stand still, all told since the file was made.
  void wait_until_inside(int transfers = 1) const;
  // Lets go all that stand still, and all that come.
  void open();
  // From now on transfers stand still again.
  void close() { open_ = false; }

  // Called inside each transfer before it stands still, with the memory that the library has handed in.
  void set_visitor(std::function<void(const void*)> visitor) { visitor_ = std::move(visitor); }
  // Deregisters the handle early; the destructor then does not.
  void deregister();

 private:
  static ssize_t read(void* handle, char* buffer, size_t size, off_t offset, cufileRDMAInfo_t* info);
  static ssize_t write(void* handle, const char* buffer, size_t size, off_t offset, cufileRDMAInfo_t* info);
  void pass(const void* buffer);

  support::Bytes content_;
  support::ScratchFile file_{1};
  support::Fd fd_{file_.open(O_RDWR)};
  CUfileFSOps_t operations_{};
  CUfileHandle_t handle_ = nullptr;
  std::function<void(const void*)> visitor_;
  std::atomic<int> inside_{0};
  std::atomic<bool> open_{false};
};

}  // namespace sluice::life
