// SPDX-License-Identifier: Apache-2.0
// One device: its memory, its primary context, its queues.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "address_space.h"
#include "channel.h"
#include "context.h"
#include "knobs.h"
#include "pool.h"
#include "residency.h"

namespace sluice::softgpu {

// A direction of the link between host and device, which one copy uses at a time.
enum class Direction : unsigned { to_device = 0, to_host = 1 };

// A PCI domain that no machine has, so that nothing in sysfs is taken for a device of ours.
inline constexpr int pci_domain = 0x5347;

class Device {
 public:
  Device(int ordinal, const Knobs& knobs);

  int ordinal() const { return ordinal_; }
  const Knobs& knobs() const { return knobs_; }
  DeviceMemory& memory() { return memory_; }
  std::string name() const;
  int pci_bus() const { return ordinal_ + 1; }
  std::string pci_bus_id() const;
  cuda::Uuid uuid() const;

  // The primary context, which is the same object whether active or not.
  const std::shared_ptr<Context>& primary() const { return primary_; }
  void retain_primary();
  // Throws Refusal (invalid context) when it is not held.
  void release_primary();
  void reset_primary();
  void set_primary_flags(unsigned flags);
  unsigned primary_flags() const;

  // Where cuMemAllocAsync takes memory from: the default pool unless another was set.
  const std::shared_ptr<MemoryPool>& default_pool() const { return default_pool_; }
  std::shared_ptr<MemoryPool> current_pool() const;
  void set_current_pool(std::shared_ptr<MemoryPool> pool);

  // A queue for one more stream: its own, or one of the few that SLUICE_SOFTGPU_QUEUES allows.
  std::shared_ptr<Channel> channel_for_stream(int priority);
  bool has_copy_queues() const noexcept { return !shared_channels_.empty() && knobs_.queues_for_all != 0; }
  // For work of a stream. With SLUICE_SOFTGPU_QUEUES_FOR_ALL one that has nothing in its queue moves to one that is
  // free; where none is, to the one that was given work last.
  void choose_channel(Queue kind, std::shared_ptr<Channel>& channel, bool has_none_in_it);
  void release_channel(Channel& channel) const noexcept;

  // Where kernels wait for a multiprocessor.
  Residency& residency() { return residency_; }

  // Runs a copy of so many bytes over the link, at the pace that the knobs give it.
  void over_the_link(Direction direction, std::uint64_t bytes, const std::function<void()>& copy);

 private:
  int ordinal_;
  const Knobs& knobs_;
  DeviceMemory memory_;
  std::shared_ptr<Context> primary_;
  mutable std::mutex mutex_;
  std::shared_ptr<MemoryPool> default_pool_;
  std::shared_ptr<MemoryPool> current_pool_;
  unsigned primary_users_ = 0;
  unsigned primary_flags_ = 0;
  std::vector<std::shared_ptr<Channel>> shared_channels_;  // constant after construction
  std::mutex channels_mutex_;
  std::uint64_t streams_made_ = 0;
  std::array<std::vector<std::shared_ptr<Channel>>, 2> copy_channels_;
  std::array<std::shared_ptr<Channel>, queue_kinds> used_last_;
  std::array<std::mutex, 2> links_;
  Residency residency_;
};

// The device behind an ordinal that was given by the program; throws Refusal (invalid device).
Device& device_of(cuda::Device device);

}  // namespace sluice::softgpu
