// SPDX-License-Identifier: Apache-2.0
// The list of twins.
#include "kernels.h"

#include <algorithm>
#include <array>

#include "twins.h"

namespace sluice::softgpu {

namespace {

constexpr std::array twins{
    KernelTwin{"sluice_stream_copy", twin::stream_copy},
    KernelTwin{"sluice_gather", twin::gather},
    KernelTwin{"sluice_probe_hold", twin::probe_hold},
    KernelTwin{"sluice_probe_store", twin::probe_store},
    KernelTwin{"sluice_scatter", twin::scatter},
    KernelTwin{"sluice_serve", twin::serve},
    KernelTwin{"sluice_relay", twin::relay},
};

}  // namespace

std::span<const KernelTwin> kernel_twins() {
  return twins;
}

const KernelTwin* find_twin(std::string_view name) {
  const auto found = std::find_if(twins.begin(), twins.end(), [name](const auto& twin) { return twin.name == name; });
  return found != twins.end() ? &*found : nullptr;
}

}  // namespace sluice::softgpu
