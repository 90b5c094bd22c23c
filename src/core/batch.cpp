// Batches, plain and right: what the contract answers, without concurrency inside a submission.
#include "core/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/foreign_enum.h"
#include "core/in_flight.h"
#include "core/transfer.h"
#include "observe/log.h"
#include "observe/statistics.h"

namespace sluice::core {

using base::Failure;
using base::Outcome;
using observe::Operation;

namespace {

timespec deadline_after(const timespec& timeout) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  now.tv_sec += timeout.tv_sec;
  now.tv_nsec += timeout.tv_nsec;
  if (now.tv_nsec >= 1000000000) {
    now.tv_sec += 1;
    now.tv_nsec -= 1000000000;
  }
  return now;
}

Call call_of(const CUfileIOParams_t& entry) {
  return {entry.opcode == CUFILE_READ ? base::Direction::read : base::Direction::write,
          entry.fh,
          entry.u.batch.devPtr_base,
          entry.u.batch.size,
          entry.u.batch.file_offset,
          entry.u.batch.devPtr_offset};
}

// Why an entry cannot be submitted; empty when it can.
std::string objection(const CUfileIOParams_t& entry, const FileTable::Pin& file) {
  const int opcode = base::number_of(entry.opcode);
  if (base::number_of(entry.mode) != CUFILE_BATCH) return "its mode is not CUFILE_BATCH";
  if (opcode != CUFILE_READ && opcode != CUFILE_WRITE) return "its opcode is neither read nor write";
  if (!file) return "its file handle is not registered";
  if (entry.u.batch.devPtr_base == nullptr) return "its buffer is a null pointer";
  if (entry.u.batch.file_offset < 0 || entry.u.batch.devPtr_offset < 0) return "it has a negative offset";
  if (!check(*file, call_of(entry)).ok()) return "the file was not opened for this direction";
  return {};
}

// Some programs never look at an event's status: the log has the cause, too.
void log_failed_entry(std::size_t number, Outcome outcome) {
  if (!observe::log_enabled(config::LogLevel::error)) return;
  const int error = outcome.error();
  const char* const system = error < CUFILEOP_BASE_ERR ? ::strerrordesc_np(error) : nullptr;
  observe::log(config::LogLevel::error, "batch",
               fmt::format("entry {} of a submission failed: {} ({})", number,
                           system != nullptr ? system : CUFILE_ERRSTR(error), error));
}

}  // namespace

bool Batch::reserve(unsigned count) {
  const std::lock_guard lock(mutex_);
  if (count > capacity_ - outstanding_) return false;
  outstanding_ += count;
  return true;
}

void Batch::post(const CUfileIOEvents_t& event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
  }
  posted_.advance();
}

std::size_t Batch::collect(std::size_t least, std::span<CUfileIOEvents_t> into,
                           const std::optional<timespec>& timeout) {
  const std::optional<timespec> deadline = timeout ? std::optional(deadline_after(*timeout)) : std::nullopt;
  std::size_t written = 0;
  for (;;) {
    const std::uint32_t seen = posted_.now();
    {
      const std::lock_guard lock(mutex_);
      while (written < into.size() && !events_.empty()) {
        into[written++] = events_.front();
        events_.pop_front();
        --outstanding_;
      }
      if (written >= least || outstanding_ == 0) return written;
    }
    if (!posted_.wait_beyond(seen, deadline)) return written;
  }
}

void* set_up_batch(Driver& driver, unsigned capacity) {
  const auto life = driver.life_or_open();
  const std::size_t most = life->config->size(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE);
  if (capacity == 0 || capacity > most) {
    throw Failure(CU_FILE_INVALID_VALUE, "a batch holds 1 to " + std::to_string(most) +
                                             " entries (properties.io_batchsize), not " + std::to_string(capacity));
  }
  return driver.batches().insert(std::make_unique<Batch>(capacity));
}

void submit_batch(Driver& driver, void* handle, std::span<const CUfileIOParams_t> entries) {
  const InFlight in_flight;  // before the pins, as in transfer()
  const auto batch = driver.batches().pin(handle);
  if (!batch) throw Failure(CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR, "no such batch");
  if (entries.empty()) throw Failure(CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR, "a submission needs at least one entry");
  std::vector<FileTable::Pin> files;
  files.reserve(entries.size());
  for (const CUfileIOParams_t& entry : entries) {
    files.push_back(driver.files().pin(entry.fh));
    if (const std::string reason = objection(entry, files.back()); !reason.empty()) {
      throw Failure(CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR,
                    "entry " + std::to_string(files.size() - 1) + ": " + reason + "; nothing was submitted");
    }
  }
  if (!batch->reserve(static_cast<unsigned>(entries.size()))) {
    throw Failure(CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR,
                  "more entries than the batch was set up for are outstanding; collect events first");
  }
  observe::count(Operation::batch_enqueued, true, entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Call call = call_of(entries[i]);
    const Outcome outcome = transfer(driver, *files[i], call, Origin::batch);
    CUfileIOEvents_t event{};
    if (!outcome.ok()) log_failed_entry(i, outcome);
    event.cookie = entries[i].cookie;
    event.status = outcome.ok() ? CUFILE_COMPLETE : CUFILE_FAILED;
    event.ret = static_cast<std::size_t>(outcome.value());
    batch->post(event);
  }
}

std::size_t collect_batch(Driver& driver, void* handle, std::size_t least, std::span<CUfileIOEvents_t> into,
                          const std::optional<timespec>& timeout) {
  const auto batch = driver.batches().pin(handle);
  if (!batch) throw Failure(CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR, "no such batch");
  if (least > into.size()) {
    throw Failure(CU_FILE_INVALID_VALUE, "min_nr is larger than the room for events in *nr");
  }
  const std::size_t written = batch->collect(least, into, timeout);
  observe::count(Operation::batch_complete, true, written);
  return written;
}

void destroy_batch(Driver& driver, void* handle) {
  const Patience patience = waiting_can_end() ? Patience::until_the_last_user_left : Patience::none;
  if (!driver.batches().retire(handle, patience)) throw Failure(CU_FILE_INVALID_VALUE, "no such batch");
}

}  // namespace sluice::core
