// SPDX-License-Identifier: Apache-2.0
// An item by itself, from its arguments to its answer.
#pragma once

#include "process/process.h"
#include "request/account.h"
#include "request/item.h"
#include "request/run.h"

namespace sluice::request {

// Checks in the order of the contract, resolves the memory, decides, moves; the item has ended. What was refused before
// it was begun has no way.
Way run_one(process::Process& process, Item& item, const Options& options) noexcept;

// What a stream is told of one that has ended. NVIDIA's library has codes of its own there: so have we.
base::Outcome in_stream(process::Process& process, const Item& item, const Options& options) noexcept;

}  // namespace sluice::request
