// SPDX-License-Identifier: Apache-2.0
// The functions of sluice.h.
#include "sluice.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>

#include "api/funnel.h"
#include "base/foreign_enum.h"
#include "base/version.h"
#include "batch/batch_calls.h"
#include "gpu/memory.h"
#include "observe/copy_counters.h"
#include "observe/path_counters.h"
#include "process/in_flight.h"
#include "request/explain.h"
#include "route/reasons.h"
#include "staging/staging_buffer.h"
#include "stream/streams.h"

using sluice::api::guarded;
using sluice::base::Failure;
using sluice::process::Process;

namespace {

sluice::route::Shape shape_of(const CUfileOpcode_t& opcode, const void* buf, size_t size, off_t file_offset) {
  const int direction = sluice::base::number_of(opcode);
  if (direction != CUFILE_READ && direction != CUFILE_WRITE) {
    throw Failure(CU_FILE_INVALID_VALUE, "there is no such opcode");
  }
  sluice::route::Shape shape;
  shape.direction = direction == CUFILE_READ ? sluice::base::Direction::read : sluice::base::Direction::write;
  shape.file_offset = file_offset > 0 ? static_cast<std::uint64_t>(file_offset) : 0;
  // Memory that is only meant is in step with the file.
  shape.address = buf != nullptr ? reinterpret_cast<std::uint64_t>(buf) : shape.file_offset;
  shape.size = size;
  return shape;
}

// The caller's memory, or that of a device.
sluice::facts::BufferFacts memory_at(const void* buf, int gpu) {
  if (buf != nullptr) {
    sluice::gpu::attach_driver();
    return sluice::gpu::inspect(reinterpret_cast<std::uint64_t>(buf));
  }
  const sluice::facts::BufferFacts memory = sluice::gpu::memory_of_device(gpu);
  if (memory.kind == sluice::facts::MemoryKind::plain_host) {
    throw Failure(CU_FILE_DEVICE_NOT_FOUND, "there is no device " + std::to_string(gpu));
  }
  return memory;
}

// What is known of memory that a program names; of memory that stands for a device's, nothing. Keeps the buffer.
struct Registration {
  Registration(CUfileHandle_t fh, const void* buf, size_t size) : known{fh, nullptr, buf != nullptr} {
    const auto address = reinterpret_cast<std::uint64_t>(buf);
    Process& process = Process::instance();
    const auto range =
        buf != nullptr ? process.ranges().find(address, address, std::max<size_t>(size, 1)) : std::nullopt;
    if (!range) return;
    buffer = process.buffers().pin(range->handle);
    if (buffer && address >= range->base && range->end - address >= size) known.registered = &buffer->attachments;
  }
  sluice::process::BufferTable::Pin buffer;
  sluice::request::AskedWith known;
};

sluice::facts::BufferFacts supposed_memory() {
  sluice::facts::BufferFacts memory;
  memory.kind = sluice::facts::MemoryKind::device;
  return memory;
}

sluice_explanation_t words_for(sluice_path_t path, sluice::route::Reason reason,
                               const sluice::facts::BufferFacts& memory, const std::string& detail) {
  sluice_explanation_t words{};
  const auto* const text = sluice::route::reason_text(reason);
  words.path = path;
  words.reason = reason;
  words.path_name = sluice::route::path_name(path);
  words.reason_name = text->name;
  // No drive reaches a GPU where memory stands for one.
  const bool stands_in = memory.soft && reason == SLUICE_REASON_DIRECT;
  words.sentence = stands_in ? "The kernel moves the bytes straight to the memory that stands for the soft GPU's: a "
                               "verified read has shown it."
                             : text->sentence;
  words.remedy = text->remedy;
  const int whole = std::snprintf(words.detail, sizeof words.detail, "%s", detail.c_str());
  // What was cut says so.
  if (whole >= static_cast<int>(sizeof words.detail)) std::memcpy(words.detail + sizeof words.detail - 4, "...", 4);
  return words;
}

}  // namespace

extern "C" {

const char* sluice_version(void) {
  return SLUICE_VERSION_TEXT;
}

CUfileError_t sluice_explain(CUfileHandle_t fh, const void* buf, int gpu, CUfileOpcode_t opcode, size_t size,
                             off_t file_offset, sluice_explanation_t* out) {
  return guarded("sluice_explain", [&] {
    if (out == nullptr) throw Failure(CU_FILE_INVALID_VALUE, "nowhere to write the explanation");
    const sluice::route::Shape shape = shape_of(opcode, buf, size, file_offset);
    const sluice::process::PinScope pins;
    const auto file = Process::instance().files().pin(fh);
    if (!file) throw Failure(CU_FILE_HANDLE_NOT_REGISTERED, "this handle is not registered");
    const sluice::facts::BufferFacts memory = memory_at(buf, gpu);
    const Registration registration(fh, buf, size);
    const auto explanation = sluice::request::explain(*file, memory, shape, registration.known);
    *out = words_for(explanation.choice.path, explanation.choice.reason, memory, explanation.detail);
  });
}

CUfileError_t sluice_explain_all(CUfileHandle_t fh, const void* buf, int gpu, CUfileOpcode_t opcode, size_t size,
                                 off_t file_offset, sluice_explanation_visitor_t visit, void* context) {
  return guarded("sluice_explain_all", [&] {
    if (visit == nullptr) throw Failure(CU_FILE_INVALID_VALUE, "no visitor to tell the explanations");
    const sluice::route::Shape shape = shape_of(opcode, buf, size, file_offset);
    const sluice::process::PinScope pins;
    const auto file = Process::instance().files().pin(fh);
    if (!file) throw Failure(CU_FILE_HANDLE_NOT_REGISTERED, "this handle is not registered");
    const bool supposed = buf == nullptr && gpu == SLUICE_GPU_SUPPOSED;
    const sluice::facts::BufferFacts memory = supposed ? supposed_memory() : memory_at(buf, gpu);
    const Registration registration(fh, buf, size);
    const auto found = sluice::request::all_reasons(*file, memory, shape, registration.known);
    for (const sluice::route::Reason reason : found.reasons) {
      const sluice_explanation_t words = words_for(found.path, reason, memory, found.detail);
      visit(&words, found.detail.c_str(), context);
    }
  });
}

CUfileError_t sluice_carrier_counters(sluice_carrier_counts_t* counters) {
  return guarded("sluice_carrier_counters", [&] {
    if (counters == nullptr) throw Failure(CU_FILE_INVALID_VALUE, "nowhere to write the counters");
    *counters = sluice::observe::copy_counters();
    counters->rings = sluice::staging::staging_buffer_count();
    counters->stations = sluice::stream::stream_channel_count();
  });
}

CUfileError_t sluice_stream_read_early(CUstream stream, int allowed) {
  return guarded("sluice_stream_read_early", [&] {
    static_cast<void>(allowed);
    Process::instance().streams().want_registered(stream);
  });
}

long sluice_batch_cancelled(CUfileBatchHandle_t batch) {
  long count = -1;
  guarded("sluice_batch_cancelled", [&] {
    const auto cancelled = sluice::batch::cancelled_in_batch(Process::instance(), batch);
    if (!cancelled) throw Failure(CU_FILE_INVALID_VALUE, "no such batch");
    count = static_cast<long>(*cancelled);
  });
  return count;
}

CUfileError_t sluice_path_counters(sluice_path_counter_t* counters, size_t room, size_t* count) {
  return guarded("sluice_path_counters", [&] {
    if (count == nullptr || (counters == nullptr && room > 0)) {
      throw Failure(CU_FILE_INVALID_VALUE, "nowhere to write the counters");
    }
    const auto entries = sluice::observe::path_counters();
    std::copy_n(entries.begin(), std::min(room, entries.size()), counters);
    *count = entries.size();
  });
}

CUfileError_t sluice_direct_pairs(sluice_direct_pair_visitor_t visit, void* context) {
  return guarded("sluice_direct_pairs", [&] {
    if (visit == nullptr) throw Failure(CU_FILE_INVALID_VALUE, "no visitor to tell the pairs");
    const auto session = Process::instance().session();
    if (session == nullptr) return;
    for (const sluice::paths::PairReport& report : session->pair_reports()) {
      sluice_direct_pair_t pair{};
      pair.gpu = report.device;
      const sluice::cuda::Uuid uuid = sluice::gpu::uuid_of(report.device);
      std::copy_n(std::begin(uuid.bytes), sizeof pair.gpu_uuid, std::begin(pair.gpu_uuid));
      pair.storage = report.storage.c_str();
      pair.reason = report.reason;
      pair.sentence = report.words.c_str();
      pair.transfers = report.transfers;
      pair.polled = report.polled;
      pair.rerouted = report.rerouted;
      pair.path = report.path;
      visit(&pair, context);
    }
  });
}

const char* sluice_path_name(sluice_path_t path) {
  return sluice::route::path_name(path);
}

const char* sluice_reason_name(sluice_reason_t reason) {
  const auto* const text = sluice::route::reason_text(reason);
  return text == nullptr ? nullptr : text->name;
}

const char* sluice_reason_sentence(sluice_reason_t reason) {
  const auto* const text = sluice::route::reason_text(reason);
  return text == nullptr ? nullptr : text->sentence;
}

const char* sluice_reason_remedy(sluice_reason_t reason) {
  const auto* const text = sluice::route::reason_text(reason);
  return text == nullptr ? nullptr : text->remedy;
}

}  // extern "C"
