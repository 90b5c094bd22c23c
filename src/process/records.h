// SPDX-License-Identifier: Apache-2.0
// What the tables hold: one record a registered file, a registered buffer; and the terms of one driver life.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "config/config.h"
#include "facts/buffer.h"
#include "facts/file.h"
#include "gpu/bar_mapping.h"
#include "io/private_files.h"
#include "process/options.h"
#include "process/pairs.h"
#include "process/slot_table.h"

namespace sluice::process {

// From one open to its last close. Immutable; every file keeps the life that it was registered in.
struct DriverSession {
  std::shared_ptr<const config::Config> config;
  Options options;
  bool denies = false;                                       // some files, by where they are
  std::shared_ptr<Pairs> pairs = std::make_shared<Pairs>();  // what was found out on the way
};

struct File {
  File(int descriptor, facts::FileFacts known, std::shared_ptr<const DriverSession> present,
       const CUfileFSOps_t* own_operations)
      : fd(descriptor),
        operations(own_operations),
        facts(std::move(known)),
        session(std::move(present)),
        buffered(descriptor, facts.device, facts.inode, facts.sync_flags),
        disk(session->options.disk_way) {}

  const int fd;
  const CUfileFSOps_t* const operations;  // null unless the handle came with some
  const facts::FileFacts facts;
  const std::shared_ptr<const DriverSession> session;
  io::PrivateFile buffered;
  io::DiskQueue disk;
  std::atomic<bool> explained{false};                      // SLUICE_EXPLAIN has had its line
  std::array<std::atomic<paths::DirectPair*>, 8> pairs{};  // of this storage and each device; they live with the life
};

struct Buffer {
  std::uint64_t base = 0;
  std::uint64_t size = 0;
  facts::BufferFacts facts;  // of the first byte
  gpu::BarMapping mapping;   // empty unless the life asks for mappings
  bool is_whole = true;      // all of it was there; of a reservation, parts may be mapped later, or never
};

using FileTable = SlotTable<File, 0x5c, 16>;
using BufferTable = SlotTable<Buffer, 0x5b, 4>;

}  // namespace sluice::process
