// SPDX-License-Identifier: Apache-2.0
// The library's table (src/paths/table_lines.cpp) and one line more.
#include <array>

#include "paths/memory_path.h"
#include "paths/p2pdma/p2pdma.h"
#include "paths/posix.h"
#include "paths/rdma/rdma.h"
#include "paths/table.h"
#include "paths/userspace.h"

namespace sluice::paths {

namespace {

constexpr std::array<const Path*, 5> lines{
    &memory, &rdma_path, &userspace, &p2pdma, &posix,
};

}  // namespace

constinit const std::span<const Path* const> table{lines};

}  // namespace sluice::paths
