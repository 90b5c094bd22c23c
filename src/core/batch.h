// Batches. A submission is executed in order by the thread that submits it; its events wait to be collected, each
// once. Several threads may use one batch at a time.
#pragma once

#include <time.h>

#include <deque>
#include <mutex>
#include <optional>
#include <span>

#include "base/event_count.h"
#include "core/driver.h"
#include "core/slot_table.h"
#include "cufile.h"

namespace sluice::core {

class Batch {
 public:
  explicit Batch(unsigned capacity) : capacity_(capacity) {}

  // Room for `count` more entries, or false. Entries hold their room until their event is collected.
  bool reserve(unsigned count);
  void post(const CUfileIOEvents_t& event);

  // Moves up to into.size() events out, after waiting for `least` of them (never for more than are outstanding).
  // `timeout` nullopt waits for ever. The number of events written.
  std::size_t collect(std::size_t least, std::span<CUfileIOEvents_t> into, const std::optional<timespec>& timeout);

 private:
  const unsigned capacity_;
  std::mutex mutex_;
  unsigned outstanding_ = 0;  // reserved, not yet collected
  std::deque<CUfileIOEvents_t> events_;
  base::EventCount posted_;
};

class BatchTable : public SlotTable<Batch, 0x5d, 4> {};

// The C API's verbs; all throw base::Failure with the code of the call.
void* set_up_batch(Driver& driver, unsigned capacity);
// Checks every entry first: one that is wrong refuses all, and nothing is started.
void submit_batch(Driver& driver, void* handle, std::span<const CUfileIOParams_t> entries);
std::size_t collect_batch(Driver& driver, void* handle, std::size_t least, std::span<CUfileIOEvents_t> into,
                          const std::optional<timespec>& timeout);
// There is no verb for cancelling: every entry has its result by the time that submit_batch() returns, and its event
// stays to be collected.
void destroy_batch(Driver& driver, void* handle);

}  // namespace sluice::core
