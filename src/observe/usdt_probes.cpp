// SPDX-License-Identifier: Apache-2.0
// One function a probe, never inlined: so each has one place in the library, and tools attach once.
#include "observe/usdt_probes.h"

#include "observe/probe_switch.h"
#include "observe/usdt.h"

extern "C" {
// In the section that tools expect counters in; they find it by the notes.
[[gnu::section(".probes"), gnu::used]] alignas(8) constinit std::uint64_t sluice_probe_switch = 0;
}

// NOLINTBEGIN(bugprone-macro-parentheses, cppcoreguidelines-macro-usage)
#define SLUICE_VALUE(name, value) [name] "nor"(static_cast<std::uint64_t>(value))
#define SLUICE_PROBE_2(provider, name, v1, v2)                                                      \
  SLUICE_USDT(provider, name, "sluice_probe_switch", SLUICE_USDT_ARGUMENTS_2, SLUICE_VALUE(a1, v1), \
              SLUICE_VALUE(a2, v2))
#define SLUICE_PROBE_3(provider, name, v1, v2, v3)                                                  \
  SLUICE_USDT(provider, name, "sluice_probe_switch", SLUICE_USDT_ARGUMENTS_3, SLUICE_VALUE(a1, v1), \
              SLUICE_VALUE(a2, v2), SLUICE_VALUE(a3, v3))
#define SLUICE_PROBE_4(provider, name, v1, v2, v3, v4)                                              \
  SLUICE_USDT(provider, name, "sluice_probe_switch", SLUICE_USDT_ARGUMENTS_4, SLUICE_VALUE(a1, v1), \
              SLUICE_VALUE(a2, v2), SLUICE_VALUE(a3, v3), SLUICE_VALUE(a4, v4))
#define SLUICE_PROBE_6(provider, name, v1, v2, v3, v4, v5, v6)                                        \
  SLUICE_USDT(provider, name, "sluice_probe_switch", SLUICE_USDT_ARGUMENTS_6, SLUICE_VALUE(a1, v1),   \
              SLUICE_VALUE(a2, v2), SLUICE_VALUE(a3, v3), SLUICE_VALUE(a4, v4), SLUICE_VALUE(a5, v5), \
              SLUICE_VALUE(a6, v6))
#define SLUICE_PROBE_7(provider, name, v1, v2, v3, v4, v5, v6, v7)                                    \
  SLUICE_USDT(provider, name, "sluice_probe_switch", SLUICE_USDT_ARGUMENTS_7, SLUICE_VALUE(a1, v1),   \
              SLUICE_VALUE(a2, v2), SLUICE_VALUE(a3, v3), SLUICE_VALUE(a4, v4), SLUICE_VALUE(a5, v5), \
              SLUICE_VALUE(a6, v6), SLUICE_VALUE(a7, v7))
// NOLINTEND(bugprone-macro-parentheses, cppcoreguidelines-macro-usage)

namespace sluice::observe::usdt {

namespace {

std::uint64_t address(const void* pointer) noexcept {
  return reinterpret_cast<std::uint64_t>(pointer);
}

// Never fires: its note tells `sluice trace PID` where the second quarter of the switch lies.
[[gnu::noinline, gnu::used]] void tell_of_recorder() noexcept {
  SLUICE_USDT("sluice_switch", "recorder", "sluice_probe_switch+2", SLUICE_USDT_ARGUMENTS_1, SLUICE_VALUE(a1, 0));
}

[[gnu::noinline]] void error(const Done& t) noexcept {
  SLUICE_PROBE_4("sluice", "error", t.fd, t.offset, t.size, t.result);
}

// The names that scripts for NVIDIA's library know: fd, offset, size, offset in the buffer, result, GPU, bounced.
[[gnu::noinline]] void px_read(const Done& t) noexcept {
  SLUICE_PROBE_7("cufio", "cufio_px_read", t.fd, t.offset, t.size, t.buffer_offset, t.result, t.device, !t.by_drive);
}
[[gnu::noinline]] void px_write(const Done& t) noexcept {
  SLUICE_PROBE_7("cufio", "cufio_px_write", t.fd, t.offset, t.size, t.buffer_offset, t.result, t.device, !t.by_drive);
}
[[gnu::noinline]] void gds_read(const Done& t) noexcept {
  SLUICE_PROBE_7("cufio", "cufio_gds_read", t.fd, t.offset, t.size, t.buffer_offset, t.result, t.device, !t.by_drive);
}
[[gnu::noinline]] void gds_write(const Done& t) noexcept {
  SLUICE_PROBE_7("cufio", "cufio_gds_write", t.fd, t.offset, t.size, t.buffer_offset, t.result, t.device, !t.by_drive);
}
[[gnu::noinline]] void gds_read_async(const Done& t) noexcept {
  SLUICE_PROBE_7("cufio", "cufio_gds_read_async", t.fd, t.offset, t.size, t.buffer_offset, t.result, t.device,
                 !t.by_drive);
}
[[gnu::noinline]] void gds_write_async(const Done& t) noexcept {
  SLUICE_PROBE_7("cufio", "cufio_gds_write_async", t.fd, t.offset, t.size, t.buffer_offset, t.result, t.device,
                 !t.by_drive);
}
[[gnu::noinline]] void px_read_async(const Done& t) noexcept {
  SLUICE_PROBE_7("cufio", "cufio_px_read_async", t.fd, t.offset, t.size, t.buffer_offset, t.result, t.device,
                 !t.by_drive);
}
[[gnu::noinline]] void px_write_async(const Done& t) noexcept {
  SLUICE_PROBE_7("cufio", "cufio_px_write_async", t.fd, t.offset, t.size, t.buffer_offset, t.result, t.device,
                 !t.by_drive);
}

void by_known_name(const Done& t) noexcept {
  const bool reads = t.direction == base::Direction::read;
  if (t.by_drive) {
    if (t.in_stream) return reads ? gds_read_async(t) : gds_write_async(t);
    return reads ? gds_read(t) : gds_write(t);
  }
  if (t.in_stream) return reads ? px_read_async(t) : px_write_async(t);
  return reads ? px_read(t) : px_write(t);
}

[[gnu::noinline]] void read_start(const Start& t) noexcept {
  SLUICE_PROBE_4("sluice", "read_start", t.fd, t.offset, t.size, t.request);
}
[[gnu::noinline]] void write_start(const Start& t) noexcept {
  SLUICE_PROBE_4("sluice", "write_start", t.fd, t.offset, t.size, t.request);
}
[[gnu::noinline]] void read_done(const Done& t) noexcept {
  SLUICE_PROBE_6("sluice", "read_done", t.fd, t.offset, t.size, t.result, t.way, t.nanoseconds);
}
[[gnu::noinline]] void write_done(const Done& t) noexcept {
  SLUICE_PROBE_6("sluice", "write_done", t.fd, t.offset, t.size, t.result, t.way, t.nanoseconds);
}

}  // namespace

void start(const Start& transfer) noexcept {
  transfer.direction == base::Direction::read ? read_start(transfer) : write_start(transfer);
}

void done(const Done& transfer) noexcept {
  transfer.direction == base::Direction::read ? read_done(transfer) : write_done(transfer);
  by_known_name(transfer);
  if (transfer.result < 0) error(transfer);
}

[[gnu::noinline]] void decide(int fd, std::uint64_t size, const char* path, const char* reason) noexcept {
  SLUICE_PROBE_4("sluice", "route", fd, size, address(path), address(reason));
}
[[gnu::noinline]] void fallback(int fd, std::uint64_t before, const char* path, const char* reason) noexcept {
  SLUICE_PROBE_4("sluice", "fallback", fd, before, address(path), address(reason));
}
[[gnu::noinline]] void file_register(int fd, bool direct) noexcept {
  SLUICE_PROBE_2("sluice", "file_register", fd, direct);
}
[[gnu::noinline]] void batch_submit(const void* batch, std::uint64_t entries) noexcept {
  SLUICE_PROBE_2("sluice", "batch_submit", address(batch), entries);
}
[[gnu::noinline]] void batch_done(const void* batch, std::uint64_t entries) noexcept {
  SLUICE_PROBE_2("sluice", "batch_done", address(batch), entries);
}
[[gnu::noinline]] void plan_submit(const void* plan, std::uint64_t items, std::uint64_t bytes) noexcept {
  SLUICE_PROBE_3("sluice", "plan_submit", address(plan), items, bytes);
}
[[gnu::noinline]] void plan_done(const void* plan, std::uint64_t items, std::uint64_t bytes) noexcept {
  SLUICE_PROBE_3("sluice", "plan_done", address(plan), items, bytes);
}
[[gnu::noinline]] void stream_call(const void* stream, const void* word, int write, std::uint64_t size) noexcept {
  SLUICE_PROBE_4("sluice", "stream_call", address(stream), write, size, address(word));
}
[[gnu::noinline]] void stream_done(const void* word, int write, std::int64_t result) noexcept {
  SLUICE_PROBE_3("sluice", "stream_done", address(word), write, result);
}

}  // namespace sluice::observe::usdt
