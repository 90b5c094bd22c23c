// SPDX-License-Identifier: Apache-2.0
// The kinds that have several transfers under way: batches, and operations on streams.
#pragma once

#include <memory>

#include "gdsio/mover.h"

namespace sluice::tools {

std::unique_ptr<Mover> make_batch_mover(TransferMemory& memory, unsigned depth);
// `depth` streams, one for each piece of a call.
std::unique_ptr<Mover> make_stream_mover(const Gpu& gpu, TransferMemory& memory, unsigned depth);

}  // namespace sluice::tools
