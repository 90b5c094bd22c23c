// SPDX-License-Identifier: Apache-2.0
// What a call of the public API costs the processor, through the whole library; device memory is the soft GPU's where
// there is no other. Each thread has a file and memory of its own.
#include <benchmark/benchmark.h>

#include <exception>
#include <optional>

#include "cpu_side/repeat.h"
#include "cpu_side/subject.h"

namespace sluice::bench {
namespace {

void call(benchmark::State& state, Memory memory, void (Subject::*method)()) {
  std::optional<Subject> subject;
  try {
    subject.emplace(memory);
    ((*subject).*method)();  // what a thread needs once is not counted
    repeat(state, [&](std::uint64_t) { ((*subject).*method)(); });
  } catch (const std::exception& failure) {
    state.SkipWithError(failure.what());
  }
}

void read_host(benchmark::State& state) {
  call(state, Memory::host, &Subject::read);
}
void write_host(benchmark::State& state) {
  call(state, Memory::host, &Subject::write);
}
void read_device(benchmark::State& state) {
  call(state, Memory::device, &Subject::read);
}
void write_device(benchmark::State& state) {
  call(state, Memory::device, &Subject::write);
}
void register_file(benchmark::State& state) {
  call(state, Memory::host, &Subject::register_file);
}
void register_buffer(benchmark::State& state) {
  call(state, Memory::device, &Subject::register_buffer);
}

BENCHMARK(read_host)->Name("read 4K, host memory")->ThreadRange(1, 4)->UseRealTime();
BENCHMARK(write_host)->Name("write 4K, host memory")->ThreadRange(1, 4)->UseRealTime();
BENCHMARK(read_device)->Name("read 4K, device memory")->ThreadRange(1, 4)->UseRealTime();
BENCHMARK(write_device)->Name("write 4K, device memory")->ThreadRange(1, 4)->UseRealTime();
BENCHMARK(register_file)->Name("register and deregister a file")->ThreadRange(1, 4)->UseRealTime();
BENCHMARK(register_buffer)->Name("register and deregister a buffer")->ThreadRange(1, 4)->UseRealTime();

}  // namespace
}  // namespace sluice::bench
