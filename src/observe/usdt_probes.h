// SPDX-License-Identifier: Apache-2.0
// The static probes of the library, each at one place: provider `sluice`, and for the transfers the names that
// NVIDIA's library documents (provider `cufio`). docs/guide/tracing.md lists their arguments. Called when a tool
// listens; between listening and not, they cost a call.
#pragma once

#include <cstdint>

#include "base/strong.h"

namespace sluice::observe::usdt {

struct Start {
  base::Direction direction;
  int fd;
  std::uint64_t offset;
  std::uint64_t size;
  std::uint64_t request;
};

struct Done {
  base::Direction direction;
  int fd;
  std::uint64_t offset;
  std::uint64_t size;
  std::int64_t result;  // a count, or -errno
  std::uint64_t way;    // path << 8 | reason
  std::uint64_t nanoseconds;
  std::int64_t buffer_offset;
  int device;  // -1: host memory
  bool by_drive;
  bool in_stream;
};

void start(const Start& transfer) noexcept;
void done(const Done& transfer) noexcept;  // also error(), where the result is one

void decide(int fd, std::uint64_t size, const char* path, const char* reason) noexcept;
void fallback(int fd, std::uint64_t before, const char* path, const char* reason) noexcept;
void file_register(int fd, bool direct) noexcept;
void batch_submit(const void* batch, std::uint64_t entries) noexcept;
void batch_done(const void* batch, std::uint64_t entries) noexcept;
void plan_submit(const void* plan, std::uint64_t items, std::uint64_t bytes) noexcept;
void plan_done(const void* plan, std::uint64_t items, std::uint64_t bytes) noexcept;
void stream_call(const void* stream, const void* word, int write, std::uint64_t size) noexcept;
void stream_done(const void* word, int write, std::int64_t result) noexcept;

}  // namespace sluice::observe::usdt
