// SPDX-License-Identifier: Apache-2.0
// From the arguments of the C calls to a batch's verbs.
#include "batch/batch_calls.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>
#include <string>

#include "base/failure.h"
#include "base/foreign_enum.h"
#include "batch/batch.h"
#include "observe/probes.h"
#include "observe/statistics.h"
#include "process/in_flight.h"
#include "request/classifier.h"

namespace sluice::batch {

using base::Failure;
using observe::Operation;

namespace {

request::Call call_of(const CUfileIOParams_t& entry) {
  return {base::number_of(entry.opcode) == CUFILE_READ ? base::Direction::read : base::Direction::write,
          entry.fh,
          entry.u.batch.devPtr_base,
          entry.u.batch.size,
          entry.u.batch.file_offset,
          entry.u.batch.devPtr_offset};
}

// Why an entry cannot be submitted; null when it can.
const char* objection(const CUfileIOParams_t& entry, const request::Call& call, const process::FileTable::Pin& file) {
  const int opcode = base::number_of(entry.opcode);
  if (base::number_of(entry.mode) != CUFILE_BATCH) return "its mode is not CUFILE_BATCH";
  if (opcode != CUFILE_READ && opcode != CUFILE_WRITE) return "its opcode is neither read nor write";
  if (!file) return "its file handle is not registered";
  if (entry.u.batch.devPtr_base == nullptr) return "its buffer is a null pointer";
  if (entry.u.batch.file_offset < 0 || entry.u.batch.devPtr_offset < 0) return "it has a negative offset";
  if (entry.u.batch.size > std::numeric_limits<off_t>::max()) return "its size is larger than any file";
  const base::Outcome refusal = request::check(*file, call);
  if (refusal.error() == CU_FILE_INVALID_VALUE) return "it ends beyond the largest offset of a file";
  // A read through a descriptor of O_PATH fails on its way.
  return refusal.ok() || refusal.error() == EPERM ? nullptr : "the file was not opened for this direction";
}

[[noreturn]] void refuse_entry(std::size_t number, const char* reason) {
  throw Failure(CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR,
                "entry " + std::to_string(number) + ": " + reason + "; nothing was submitted");
}

// An entry of no bytes has nothing to wait for, and no event: as with NVIDIA's library, where a GetStatus for which
// none is outstanding returns at once, too. Nothing of it is looked at but its mode.
bool is_dropped(const Batch& batch, const CUfileIOParams_t& entry) {
  return entry.u.batch.size == 0 && base::number_of(entry.mode) == CUFILE_BATCH &&
         batch.tells() == Batch::Events::of_what_ended_by_itself;
}

// NVIDIA's library holds one entry of each pointer against what was registered there. The others may leave it: behind
// it lies memory like any other.
bool is_first_of_its_pointer(Batch::Room& room, std::size_t place) {
  const void* const base = room.entry(place).item.call.base;
  for (std::size_t i = 0; i < place; ++i) {
    if (room.entry(i).item.call.base == base) return false;
  }
  return true;
}

void fill(process::Process& process, const Batch& batch, Batch::Room& room, std::span<const CUfileIOParams_t> entries) {
  const std::uint64_t queued = process::queue_number();
  // Numbers for what is alike: this submission's, and of that one an entry.
  static_assert(Batch::most_entries < 1U << 16U);
  request::Classifier classifier(process, room.count(), queued << 16U);
  std::size_t place = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (is_dropped(batch, entries[i])) continue;
    Entry& entry = room.entry(place++);
    const request::Call call = call_of(entries[i]);
    entry.file = classifier.file_of(entries[i].fh);
    if (const char* const reason = objection(entries[i], call, entry.file)) refuse_entry(i, reason);
    entry.item = {call, &*entry.file};
    entry.cookie = entries[i].cookie;
    entry.number = static_cast<unsigned>(i);
    entry.queued = queued;
    classifier.look_at(entry);
    if (entry.item.known == nullptr && entry.registration &&
        request::leaves_registered(*entry.registration, entry.item.call) && is_first_of_its_pointer(room, place - 1)) {
      refuse_entry(i, "it reaches beyond the registered buffer");
    }
  }
}

}  // namespace

namespace {

// From 1.18 on only a configured value limits it.
std::size_t largest_batch(const config::Config& config) {
  constexpr std::size_t key = config::key_at("properties.io_batchsize");
  const bool unlimited = config.api_version >= 1180 && !config.binds(key);
  return unlimited ? Batch::most_entries : config.size(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE);
}

}  // namespace

void* set_up_batch(process::Process& process, unsigned capacity) {
  const std::size_t most = largest_batch(*process.store().current());
  if (capacity == 0 || capacity > most) {
    throw Failure(CU_FILE_INVALID_VALUE, "a batch holds 1 to " + std::to_string(most) +
                                             " entries (properties.io_batchsize), not " + std::to_string(capacity));
  }
  const auto session = process.session_or_open();
  const bool all = session->config->flag(config::key_at("sluice.batch_all_events"));
  return process.batches().insert(
      std::make_unique<Batch>(process, capacity, all ? Batch::Events::of_all : Batch::Events::of_what_ended_by_itself));
}

void submit_batch(process::Process& process, void* handle, std::span<const CUfileIOParams_t> entries) {
  const process::InFlight in_flight;  // before the pins, as in transfer()
  const auto batch = process.batches().pin(handle);
  if (!batch) throw Failure(CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR, "no such batch");
  if (entries.empty()) throw Failure(CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR, "a submission needs at least one entry");
  const auto dropped =
      std::count_if(entries.begin(), entries.end(), [&](const auto& entry) { return is_dropped(*batch, entry); });
  Batch::Room room(*batch, entries.size() - static_cast<std::size_t>(dropped));
  if (!room || entries.size() > batch->capacity()) {
    throw Failure(CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR,
                  "more entries than the batch was set up for are outstanding; collect events first");
  }
  fill(process, *batch, room, entries);
  const std::size_t enqueued = room.count();
  if (!room.enqueue()) throw Failure(CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR, "the batch is being destroyed");
  if (enqueued == 0) return;
  observe::count(Operation::batch_enqueued, true, enqueued);
  observe::batch_submit(handle, enqueued);
  if (Batch::RunQueue::instance().schedule(*batch)) return;
  while (batch->run_some()) {
  }
}

std::size_t collect_batch(process::Process& process, void* handle, std::size_t least, std::span<CUfileIOEvents_t> into,
                          const std::optional<timespec>& timeout) {
  const process::PinScope pins;
  if (into.empty()) throw Failure(CU_FILE_INVALID_VALUE, "*nr leaves no room for events");
  if (least > into.size()) {
    throw Failure(CU_FILE_INVALID_VALUE, "min_nr is larger than the room for events in *nr");
  }
  const auto batch = process.batches().pin(handle);
  if (!batch) throw Failure(CU_FILE_INTERNAL_BATCH_GETSTATUS_ERROR, "no such batch");
  if (least > batch->capacity()) throw Failure(CU_FILE_INVALID_VALUE, "min_nr is larger than the batch");
  const std::size_t written = batch->collect(least, into, timeout);
  if (written > 0) observe::count(Operation::batch_complete, true);  // a call, however many entries
  return written;
}

bool cancel_batch(process::Process& process, void* handle) {
  const process::PinScope pins;
  const auto batch = process.batches().pin(handle);
  return batch && batch->cancel();
}

std::optional<unsigned> cancelled_in_batch(process::Process& process, void* handle) {
  const process::PinScope pins;
  const auto batch = process.batches().pin(handle);
  return batch ? std::optional(batch->cancelled_count()) : std::nullopt;
}

bool end_batch(BatchTable& batches, void* handle, process::DrainMode drain_mode) {
  if (const auto batch = batches.pin(handle)) {
    batch->end();
    Batch::RunQueue::instance().drop(*batch);
    // What was begun, and left by a group that could not end it: no worker comes for it any more.
    while (batch->run_some()) {
    }
  }
  return batches.retire(handle, drain_mode);
}

void destroy_batch(process::Process& process, void* handle) {
  if (!end_batch(process.batches(), handle, process::drain_mode_now()))
    throw Failure(CU_FILE_INVALID_VALUE, "no such batch");
}

}  // namespace sluice::batch
