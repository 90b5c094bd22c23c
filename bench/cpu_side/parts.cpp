// SPDX-License-Identifier: Apache-2.0
// The pure parts on the way of every request: a handle looked up, a buffer looked up, the way decided.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu_side/repeat.h"
#include "paths/table.h"
#include "process/buffer_index.h"
#include "process/slot_table.h"

namespace sluice::bench {
namespace {

constexpr std::uint64_t handles = 64;

void look_up_handle(benchmark::State& state) {
  using Table = process::SlotTable<std::uint64_t, 0x5c, 16>;
  struct Filled {
    Table table;
    std::vector<Table::Handle> all;
    Filled() {
      for (std::uint64_t i = 0; i < handles; ++i) all.push_back(table.insert(std::make_unique<std::uint64_t>(i)));
    }
  };
  static Filled filled;
  repeat(state, [&](std::uint64_t turn) {
    const Table::Pin pin = filled.table.pin(filled.all[turn % handles]);
    benchmark::DoNotOptimize(*pin);
  });
}

void look_up_buffer(benchmark::State& state) {
  constexpr std::uint64_t stride = 1 << 20;
  static process::BufferIndex index;
  if (state.thread_index() == 0) {
    for (std::uint64_t i = 1; i <= handles; ++i) index.insert({i * stride, i * stride + stride / 2, nullptr});
  }
  repeat(state, [&](std::uint64_t turn) {
    const std::uint64_t base = (turn % handles + 1) * stride;
    benchmark::DoNotOptimize(index.find(base, base + 4096, 4096));
  });
}

void decide(benchmark::State& state) {
  facts::FileFacts file;
  file.file_system = facts::FileSystem::ext4;
  file.file_system_name = "ext4";
  file.direct = true;
  facts::BufferFacts buffer;
  buffer.kind = facts::MemoryKind::device;
  buffer.device = 0;
  const paths::Options options;
  const paths::File open(-1, facts::FileFacts(file), options, nullptr);
  repeat(state, [&](std::uint64_t turn) {
    route::Shape shape;
    shape.file_offset = turn * 4096 + turn % 2;  // every second one is ragged
    shape.address = 1u << 21;
    shape.size = 1u << 20;
    benchmark::DoNotOptimize(paths::decide({open, buffer, shape.direction}, shape));
  });
}

BENCHMARK(look_up_handle)->Name("look up a handle")->ThreadRange(1, 4)->UseRealTime();
BENCHMARK(look_up_buffer)->Name("look up a buffer among 64")->ThreadRange(1, 4)->UseRealTime();
BENCHMARK(decide)->Name("decide a way")->ThreadRange(1, 4)->UseRealTime();

}  // namespace
}  // namespace sluice::bench
