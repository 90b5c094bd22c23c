// SPDX-License-Identifier: Apache-2.0
// What is true of the machine: can storage reach device memory at all? Collected when the driver opens.
#pragma once

#include <cstdint>
#include <string>

#include "facts/root.h"

namespace sluice::facts {

struct MachineFacts {
  std::string kernel_release;       // "6.18.44"
  bool kernel_has_p2pdma = false;   // PCI_P2PDMA is built into the running kernel, as far as it tells
  bool nvfs_loaded = false;         // nvidia-fs.ko answers
  std::string nvfs_version;         // "2.27", "" when it is not loaded
  bool ring_takes_dma_buf = false;  // dma-bufs can be registered with an io_uring; only looked for among the symbols
};

// How hard to look for PCI_P2PDMA.
enum class KernelSearch : std::uint8_t {
  configuration,  // in the kernel's configuration and among the PCI devices: well under a millisecond
  symbols,        // where that says nothing, in the kernel's list of symbols too: some 50 ms, once a process
};

// Never fails: what cannot be read is not there.
MachineFacts of_machine(const Root& root, KernelSearch search = KernelSearch::configuration);

}  // namespace sluice::facts
