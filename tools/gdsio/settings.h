// SPDX-License-Identifier: Apache-2.0
// What one run of gdsio is to do, and how flags and keys of a configuration file become that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/gpu.h"

namespace sluice::tools {

// How the bytes go, numbered as -x has them.
enum class Transfer : std::uint8_t {
  gpu_direct = 0,
  cpu_only = 1,
  cpu_gpu = 2,
  cpu_async_gpu = 3,
  cpu_cached_gpu = 4,
  gpu_async = 5,
  gpu_batch = 6,
  gpu_batch_stream = 7
};

constexpr bool uses_cufile(Transfer transfer) {
  return transfer == Transfer::gpu_direct || transfer >= Transfer::gpu_async;
}
constexpr bool is_batch(Transfer transfer) {
  return transfer >= Transfer::gpu_batch;
}

// What is done, numbered as -I has it.
enum class Operation : std::uint8_t { read = 0, write = 1, random_read = 2, random_write = 3 };

constexpr bool is_write(Operation operation) {
  return operation == Operation::write || operation == Operation::random_write;
}
constexpr bool is_random(Operation operation) {
  return operation >= Operation::random_read;
}

// Sizes of single transfers: each thread goes from `smallest` to `largest` in steps and begins anew.
struct SizeRange {
  std::uint64_t smallest = 1u << 20;
  std::uint64_t largest = 1u << 20;
  std::uint64_t step = 0;
};

// Threads that share a file, or a folder with a file for each of them.
struct JobSettings {
  std::string name;
  std::string file;
  std::string folder;
  int gpu = 0;
  std::optional<int> node;
  unsigned threads = 1;
  std::optional<std::uint64_t> size;    // of each file; the run's own when it is not given
  std::optional<std::uint64_t> offset;  // alike
};

struct Settings {
  std::vector<JobSettings> jobs;
  Transfer transfer = Transfer::gpu_direct;
  Operation operation = Operation::read;
  MemoryKind memory = MemoryKind::device;
  SizeRange sizes;
  std::optional<std::uint64_t> size;
  std::uint64_t offset = 0;
  std::optional<double> seconds;
  std::optional<unsigned> batch;
  std::optional<std::uint64_t> alignment;
  std::uint64_t seed = 0;
  unsigned same_percent = 100;  // of a batch: how many do what -I says; the others do the opposite
  bool mixed = false;
  bool buffered = false;
  bool registers = true;
  bool verify = false;
  bool unaligned = false;
  bool random_fill = false;
  bool refill = false;
  bool reach_others = false;  // -p
  bool a_line_a_job = false;
  bool json = false;
  bool path = false;
  bool cold = false;
  bool latency = false;
};

// What a number may be, and what it is: "the number of a GPU, counted from 0".
struct Allowed {
  std::uint64_t least;
  std::uint64_t most;
  std::string_view what;
};
inline constexpr Allowed gpu_numbers = {0, 1023, "the number of a GPU, counted from 0"};
inline constexpr Allowed node_numbers = {0, 1023, "the number of a NUMA node; without one the threads run anywhere"};
inline constexpr Allowed thread_counts = {1, 4096, "a number of threads, 1 to 4096"};
inline constexpr Allowed batch_sizes = {1, 4096, "a number of operations, 1 to 4096"};
inline constexpr Allowed percents = {0, 100, "per cent, 0 to 100"};
inline constexpr Allowed open_kinds = {0, 1, "0 (O_DIRECT) or 1 (buffered)"};
inline constexpr Allowed seeds = {0, UINT64_MAX, "a whole number, 0 or more"};

// Numbers, sizes and words as they are written; `spelled` is the flag or key that a sentence about them names. Throw
// ToolError with status 2.
std::uint64_t number_of(std::string_view spelled, std::string_view text, const Allowed& allowed);
SizeRange sizes_of(std::string_view spelled, std::string_view text);
Transfer transfer_of(std::string_view spelled, std::string_view text);
Operation operation_of(std::string_view spelled, std::string_view text);
MemoryKind memory_of(std::string_view spelled, std::string_view text);
double seconds_of(std::string_view spelled, std::string_view text);
bool yes_or_no(std::string_view spelled, std::string_view text);

// Whether all of it goes together. Throws ToolError with status 2.
void check_settings(const Settings& settings);

// Operations of one thread that are under way together.
unsigned depth_of(const Settings& settings, const JobSettings& job);
// Threads of a job: one, where -w counts the entries of a batch.
unsigned threads_of(const Settings& settings, const JobSettings& job);

// "GPUD", "READ".
const char* transfer_name(Transfer transfer);
const char* operation_name(Operation operation);

}  // namespace sluice::tools
