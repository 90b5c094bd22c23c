// SPDX-License-Identifier: Apache-2.0
#include "gpu/peers.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <optional>

#include "gpu/cuda_api.h"
#include "gpu/memory.h"

namespace sluice::gpu {

namespace {

std::string address_of(int ordinal) {
  std::string address = pci_address(ordinal);
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return address;
}

// What a driver has answered once about two devices holds for the process: who asks with each large read does not call
// the driver, which another thread may keep busy.
class Answers {
 public:
  template <typename Ask>
  bool of(int one, int other, const Ask& ask) noexcept {
    if (!is_known(one) || !is_known(other)) return ask().value_or(false);
    std::atomic<Answer>& kept = answers_[static_cast<std::size_t>(one) * max_devices + static_cast<std::size_t>(other)];
    const Answer before = kept.load(std::memory_order_relaxed);
    if (before != Answer::unknown) return before == Answer::yes;
    const std::optional<bool> answer = ask();
    if (answer) kept.store(*answer ? Answer::yes : Answer::no, std::memory_order_relaxed);
    return answer.value_or(false);
  }

 private:
  enum class Answer : std::uint8_t { unknown, yes, no };
  static bool is_known(int ordinal) noexcept { return ordinal >= 0 && static_cast<std::size_t>(ordinal) < max_devices; }
  std::array<std::atomic<Answer>, max_devices * max_devices> answers_{};
};
Answers reach;
Answers nvlink;

bool has_attribute(const CudaApi& driver, int attribute, int one, int other) noexcept {
  int value = 0;
  return driver.device_get_p2p_attribute(&value, attribute, one, other) == cuda::success && value != 0;
}

}  // namespace

std::vector<PeerFacts> peer_facts() {
  const CudaApi* const driver = gpu::driver();
  std::vector<PeerFacts> facts;
  if (driver == nullptr || driver->device_get_p2p_attribute == nullptr) return facts;
  const int count = device_count();
  for (int one = 0; one < count; ++one) {
    for (int other = one + 1; other < count; ++other) {
      const auto both = [&](int attribute) {
        return has_attribute(*driver, attribute, one, other) && has_attribute(*driver, attribute, other, one);
      };
      facts.push_back({address_of(one), address_of(other), both(cuda::p2p_access_supported),
                       both(cuda::p2p_native_atomic_supported)});
    }
  }
  return facts;
}

bool can_reach(int one, int other) noexcept {
  const CudaApi* const driver = gpu::driver();
  if (driver == nullptr || driver->device_can_access_peer == nullptr) return false;
  return reach.of(one, other, [&] {
    int can = 0;
    const cuda::Result result = driver->device_can_access_peer(&can, one, other);
    return result == cuda::success ? std::optional(can != 0) : std::nullopt;
  });
}

bool is_joined_by_nvlink(int one, int other) noexcept {
  if (!can_reach(one, other)) return false;
  const CudaApi& driver = *gpu::driver();
  if (driver.soft || driver.device_get_p2p_attribute == nullptr) return driver.soft;
  return nvlink.of(one, other, [&] {
    int value = 0;
    const int attribute = cuda::p2p_native_atomic_supported;
    const cuda::Result result = driver.device_get_p2p_attribute(&value, attribute, one, other);
    return result == cuda::success ? std::optional(value != 0) : std::nullopt;
  });
}

bool is_in_use(int ordinal) noexcept {
  const CudaApi* const driver = gpu::driver();
  cuda::Device device = 0;
  unsigned flags = 0;
  int active = 0;
  return driver != nullptr && driver->primary_get_state != nullptr &&
         driver->device_get(&device, ordinal) == cuda::success &&
         driver->primary_get_state(device, &flags, &active) == cuda::success && active != 0;
}

}  // namespace sluice::gpu
