// SPDX-License-Identifier: Apache-2.0
// The files and buffers that a process has registered. Registering one opens the driver where it is not open. Throws
// base::Failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "cufile.h"
#include "facts/location.h"
#include "process/buffer_index.h"
#include "process/records.h"

namespace sluice::process {

class Process;

class Registrations {
 public:
  explicit Registrations(Process& process) : process_(process) {}

  // Files, by the descriptor number of the caller; `operations` is null unless the file system brings its own. They end
  // with Process::deregister_file(), since streams may still want them: the file, or nothing where there is none.
  void* register_file(int fd, const CUfileFSOps_t* operations);
  FileTable::Pin forget_file(void* handle);

  // Buffers, by their first address. What is not registered, as another thread has begun to end it, has ended when a
  // deregistration says so; the same is true of files and batches.
  void register_buffer(const void* base, std::size_t size, int flags);
  void deregister_buffer(const void* base);

  FileTable& files() noexcept { return files_; }
  BufferTable& buffers() noexcept { return buffers_; }
  BufferIndex& ranges() noexcept { return ranges_; }

  // For the last close. All is found no more when it has been taken, with the process's lock held; where there is no
  // memory for that, nothing has changed. Its end waits for the transfers that use it.
  struct Taken {
    std::vector<void*> files;
    std::vector<void*> buffers;
    std::vector<RegisteredRange> ranges;
  };
  Taken take_all_locked();
  void end(const Taken& taken, DrainMode drain_mode);

  void before_fork();
  void after_fork(bool in_child);

 private:
  // Out of what a descriptor leads to; the file, or nothing where there is none.
  facts::FileFacts facts_of(int fd, bool place_as_it_is);
  // Throws where the base of a registration is this address, and its memory is still there.
  void require_unknown(std::uint64_t address, const facts::BufferFacts& now);
  // Out of the index, into those that leave.
  RegisteredRange take_buffer(std::uint64_t base);
  void end_leaving(std::uint64_t base);
  void forget_leaving(std::span<const RegisteredRange> ranges);
  // With the process's lock held:
  void require_no_neighbour_locked(const Buffer& buffer);
  bool insert_range_locked(const RegisteredRange& range);
  // Puts `range` in the place of a registration with the same base whose memory is gone, and answers that one's handle,
  // for the caller to retire. Null when the memory is still there.
  void* take_stale_locked(const RegisteredRange& range, const facts::BufferFacts& now);
  // It is registered no more.
  static void count_out_locked(const Buffer& buffer);

  Process& process_;
  facts::Locations places_;
  FileTable files_;
  BufferTable buffers_;
  BufferIndex ranges_;
  // With the process's lock held:
  std::map<int, void*> handles_by_fd_;
  std::vector<RegisteredRange> leaving_;  // buffers that are found no more, while transfers may still touch them
};

}  // namespace sluice::process
