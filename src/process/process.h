// SPDX-License-Identifier: Apache-2.0
// The one driver of a process: how often it is open, which files and buffers it knows, what it is told to do. Made
// with the first call that needs it, never destroyed.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "config/store.h"
#include "cufile.h"
#include "facts/location.h"
#include "process/buffer_index.h"
#include "process/records.h"

namespace sluice::batch {
class BatchTable;
}

namespace sluice::plan {
class PlanTable;
}

namespace sluice::stream {
class Streams;
}

namespace sluice::process {

class Process {
 public:
  static Process& instance();

  // Life cycle. Opens are counted; the last close ends all handles, buffers, batches, plans and streams, waiting for
  // what is in flight. Throws base::Failure.
  void open();
  void close();
  long use_count();
  bool is_open() { return use_count() > 0; }
  bool was_open();  // once at least, by now
  // Opens when nobody has, as registering something does.
  std::shared_ptr<const DriverSession> session_or_open();
  // Null while closed.
  std::shared_ptr<const DriverSession> session();

  // Files, by the descriptor number of the caller; `operations` is null unless the file system brings its own.
  void* register_file(int fd, const CUfileFSOps_t* operations);
  void deregister_file(void* handle);

  // Buffers, by their first address. What is not registered, as another thread has begun to end it, has ended when a
  // deregistration says so; the same is true of files and batches.
  void register_buffer(const void* base, std::size_t size, int flags);
  void deregister_buffer(const void* base);

  // The ways to device memory that were chosen for a kind of storage (cuFileDriverSetP2PFlags): until the last close.
  void set_p2p_mask(std::size_t kind, unsigned mask);
  unsigned p2p_mask(std::size_t kind);

  config::Store& store() noexcept { return store_; }
  FileTable& files() noexcept { return files_; }
  BufferTable& buffers() noexcept { return buffers_; }
  BufferIndex& ranges() noexcept { return ranges_; }
  batch::BatchTable& batches() noexcept { return *batches_; }
  plan::PlanTable& plans() noexcept { return *plans_; }
  stream::Streams& streams() noexcept { return *streams_; }

 private:
  Process();

  // With control_ held.
  void open_locked();
  // With control_ held: opens when nobody has, or when another thread has closed since the caller last looked.
  const std::shared_ptr<const DriverSession>& ensure_open_locked();
  // Out of what a descriptor leads to; the file, or nothing where there is none.
  facts::FileFacts facts_of(int fd, bool place_as_it_is);
  FileTable::Pin forget_file(void* handle);
  // The same with what there is to be said of it; false where there is none.
  bool end_file(void* handle);
  // Out of the index, into those that leave. Throws base::Failure where there is none.
  RegisteredRange take_buffer(std::uint64_t base);
  void end_leaving(std::uint64_t base);
  void forget_leaving(std::span<const RegisteredRange> ranges);
  // Throws where the base of a registration is this address, and its memory is still there.
  void require_unknown(std::uint64_t address, const facts::BufferFacts& now);
  void require_no_neighbour_locked(const Buffer& buffer);
  // With control_ held: puts `range` in the place of a registration with the same base whose memory is gone, and
  // answers that one's handle, for the caller to retire. Null when the memory is still there.
  bool insert_range_locked(const RegisteredRange& range);
  void* take_stale_locked(const RegisteredRange& range, const facts::BufferFacts& now);
  // It is registered no more.
  static void count_out_locked(const Buffer& buffer);
  // Ending something waits for the transfers that use it, for as long as that can come to an end.
  static DrainMode drain_mode_now() noexcept;
  // What paths keep with the session.
  void attachments_before_fork();
  void attachments_after_fork();
  void prepare_fork();
  void resume_after_fork(bool in_child);

  std::mutex control_;  // everything below that is not a table of its own
  long use_count_ = 0;
  bool was_open_ = false;
  std::shared_ptr<const DriverSession> session_;
  std::map<int, void*> handles_by_fd_;
  std::vector<RegisteredRange> leaving_;  // buffers that nobody finds any more, while transfers may still touch them
  std::array<unsigned, CU_FILE_MAX_TARGET_TYPES> p2p_masks_{};

  config::Store store_;
  facts::Locations places_;
  FileTable files_;
  BufferTable buffers_;
  BufferIndex ranges_;
  std::unique_ptr<batch::BatchTable> batches_;
  std::unique_ptr<plan::PlanTable> plans_;
  std::unique_ptr<stream::Streams> streams_;
};

}  // namespace sluice::process
