// SPDX-License-Identifier: Apache-2.0
// The table. By itself, so that a test can have another one.
#include <array>

#include "paths/nvfs/nvfs.h"
#include "paths/p2pdma/p2pdma.h"
#include "paths/posix.h"
#include "paths/rdma/rdma.h"
#include "paths/table.h"
#include "paths/userspace.h"

namespace sluice::paths {

namespace {

constexpr std::array<const Path*, 6> lines{
    &rdma_path, &userspace, &nvfs_before_p2pdma, &p2pdma, &nvfs_behind_p2pdma, &posix,
};

}  // namespace

constinit const std::span<const Path* const> table{lines};

}  // namespace sluice::paths
