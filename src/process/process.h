// SPDX-License-Identifier: Apache-2.0
// The one driver of a process: how often it is open, which files and buffers it knows, what it is told to do. Made
// with the first call that needs it, never destroyed.
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "config/store.h"
#include "cufile.h"
#include "process/records.h"
#include "process/registration.h"

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
  // Opens where it is closed, as registering something does.
  std::shared_ptr<const DriverSession> session_or_open();
  // Null while closed.
  std::shared_ptr<const DriverSession> session();

  // Waits for streams that want the file, and for transfers.
  void deregister_file(void* handle);

  // The ways to device memory that were chosen for a kind of storage (cuFileDriverSetP2PFlags): until the last close.
  void set_p2p_mask(std::size_t kind, unsigned mask);
  unsigned p2p_mask(std::size_t kind);

  config::Store& store() noexcept { return store_; }
  Registrations& registrations() noexcept { return registrations_; }
  FileTable& files() noexcept { return registrations_.files(); }
  BufferTable& buffers() noexcept { return registrations_.buffers(); }
  BufferIndex& ranges() noexcept { return registrations_.ranges(); }
  batch::BatchTable& batches() noexcept { return *batches_; }
  plan::PlanTable& plans() noexcept { return *plans_; }
  stream::Streams& streams() noexcept { return *streams_; }

 private:
  friend class Registrations;
  Process();

  // With control_ held.
  void open_locked();
  // With control_ held: opens where it is closed, perhaps since the caller last looked.
  const std::shared_ptr<const DriverSession>& ensure_open_locked();
  // Its number is free, and what there is to be said of it said; false where there is none.
  bool end_file(void* handle);
  // What paths keep with the session.
  void attachments_before_fork();
  void attachments_after_fork();
  void prepare_fork();
  void resume_after_fork(bool in_child);

  std::mutex control_;  // everything below that is not a table of its own
  long use_count_ = 0;
  bool was_open_ = false;
  std::shared_ptr<const DriverSession> session_;
  std::array<unsigned, CU_FILE_MAX_TARGET_TYPES> p2p_masks_{};

  config::Store store_;
  Registrations registrations_;
  std::unique_ptr<batch::BatchTable> batches_;
  std::unique_ptr<plan::PlanTable> plans_;
  std::unique_ptr<stream::Streams> streams_;
};

}  // namespace sluice::process
