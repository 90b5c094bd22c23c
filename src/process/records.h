// SPDX-License-Identifier: Apache-2.0
// What the tables hold: one record a registered file, a registered buffer; and the terms of one driver life.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "config/config.h"
#include "facts/buffer.h"
#include "facts/file.h"
#include "paths/attachment.h"
#include "paths/file.h"
#include "paths/options.h"
#include "paths/table.h"
#include "process/measured.h"
#include "process/slot_table.h"
#include "topology/route_table.h"

namespace sluice::process {

using paths::Options;

// From one open to its last close. Immutable; every file keeps the session that it was registered in.
struct DriverSession {
  std::shared_ptr<const config::Config> config;
  Options options;
  // By the mounted file systems of a profile: options of their own. Files refer to them.
  std::vector<std::pair<const config::MeasuredMount*, Options>> options_there;
  bool denies = false;                           // some files, by where they are
  paths::SessionAttachments attachments;         // what paths have found out on the way
  std::unique_ptr<topology::RouteTable> routes;  // of dynamic routing; filled on the way

  const Options& options_for(const facts::FileFacts& file) const noexcept;
  // Oldest first.
  std::vector<paths::PairReport> pair_reports() const;
};

struct File : paths::File {
  File(int descriptor, facts::FileFacts&& known, std::shared_ptr<const DriverSession> present,
       const CUfileFSOps_t* own_operations)
      : File(descriptor, known, present, present->options_for(known), own_operations) {}

  const std::shared_ptr<const DriverSession> session;
  const bool explains;                 // SLUICE_EXPLAIN is set: each transfer asks
  std::atomic<bool> explained{false};  // SLUICE_EXPLAIN has had its line

 private:
  File(int descriptor, facts::FileFacts& known, std::shared_ptr<const DriverSession>& present, const Options& wanted,
       const CUfileFSOps_t* own_operations)
      : paths::File(descriptor, std::move(known), wanted, own_operations),
        session(std::move(present)),
        explains(session->config->explain) {
    paths::attach_to_file(*this, session->attachments);
  }
};

struct Buffer {
  std::uint64_t base = 0;
  std::uint64_t size = 0;
  facts::BufferFacts facts;  // of the first byte
  bool is_whole = true;      // all of it was there; of a reservation, parts may be mapped later, or never
  paths::Attachments attachments;
  std::uint64_t said = 0;  // bytes as the program has said; of the host's memory more than there are addresses
};

using FileTable = SlotTable<File, 0x5c, 16>;
using BufferTable = SlotTable<Buffer, 0x5b, 4>;

}  // namespace sluice::process
