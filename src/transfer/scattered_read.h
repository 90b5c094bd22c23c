// SPDX-License-Identifier: Apache-2.0
// Many reads into device memory at once, each to a place of its own: many helpers fill a staging buffer chunk by chunk,
// one launch of the scatter kernel takes the chunks to where they belong.
#pragma once

#include <span>

#include "staging/staging_buffer.h"
#include "transfer/bond.h"
#include "transfer/file_range.h"
#include "transfer/layout.h"
#include "transfer/pipeline.h"
#include "transfer/sink/kernels.h"
#include "transfer/sink/staged.h"
#include "transfer/source/page_cache.h"

namespace sluice::transfer {

// The state of such reads. Large; used again and again, for one run at a time.
class ScatteredRead {
 public:
  // With the buffer's context current. All items' memory belongs to that context; at most most_in_a_read_item bytes
  // each.
  void run(std::span<ReadItem> items, staging::StagingLease& lease, CopyEngine engine, Bond bond = Bond::none) noexcept;

 private:
  ManyTargets chunks_;
  Pipeline<ManyTargets, CachedFiles, StagedSink<ManyTargets, ScatterKernel>> pipeline_{chunks_, CachedFiles()};
};

}  // namespace sluice::transfer
