// SPDX-License-Identifier: Apache-2.0
// A device's identity, primary context and queues.
#include "device.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>

#include "machine.h"
#include "refusal.h"

namespace sluice::softgpu {

namespace {

constexpr unsigned primary_api_version = 3020;

}  // namespace

Device::Device(int ordinal, const Knobs& knobs)
    : ordinal_(ordinal),
      knobs_(knobs),
      memory_(ordinal, knobs),
      primary_(std::make_shared<Context>(*this, ContextKind::primary, primary_api_version)),
      default_pool_(std::make_shared<MemoryPool>(ordinal, memory_)),
      current_pool_(default_pool_),
      residency_(knobs.resident_kernels) {
  for (unsigned queue = 0; queue < knobs.hardware_queues; ++queue) {
    shared_channels_.push_back(std::make_shared<Channel>());
  }
  constexpr unsigned copy_queues = 4;  // in each direction, as on an H200
  for (auto& channels : copy_channels_) {
    for (unsigned queue = 0; queue < copy_queues; ++queue) channels.push_back(std::make_shared<Channel>());
  }
}

std::string Device::name() const {
  return "Sluice soft GPU";
}

std::string Device::pci_bus_id() const {
  static constexpr std::string_view digits = "0123456789ABCDEF";
  const auto text = [](int value, int width) {
    std::string hexadecimal;
    for (int shift = 4 * (width - 1); shift >= 0; shift -= 4) {
      hexadecimal += digits[static_cast<std::size_t>((value >> shift) & 0xf)];
    }
    return hexadecimal;
  };
  return text(pci_domain, 4) + ":" + text(pci_bus(), 2) + ":00.0";
}

cuda::Uuid Device::uuid() const {
  constexpr std::string_view text = "sluice-softgpu-";
  cuda::Uuid uuid{};
  std::copy(text.begin(), text.end(), std::begin(uuid.bytes));
  uuid.bytes[text.size()] = static_cast<unsigned char>(ordinal_);
  return uuid;
}

void Device::retain_primary() {
  const std::lock_guard lock(mutex_);
  if (primary_->workspace() == nullptr) primary_->open(primary_flags_);
  ++primary_users_;
}

void Device::release_primary() {
  const std::lock_guard lock(mutex_);
  require(primary_users_ > 0, cuda::error_invalid_context);
  if (--primary_users_ == 0) primary_->close();
}

void Device::reset_primary() {
  const std::lock_guard lock(mutex_);
  primary_->close();
}

void Device::set_primary_flags(unsigned flags) {
  const std::lock_guard lock(mutex_);
  primary_flags_ = flags;
  if (const auto alive = primary_->workspace()) alive->flags().store(flags);
}

unsigned Device::primary_flags() const {
  const std::lock_guard lock(mutex_);
  return primary_flags_;
}

std::shared_ptr<MemoryPool> Device::current_pool() const {
  const std::lock_guard lock(mutex_);
  return current_pool_;
}

void Device::set_current_pool(std::shared_ptr<MemoryPool> pool) {
  const std::lock_guard lock(mutex_);
  current_pool_ = std::move(pool);
}

std::shared_ptr<Channel> Device::channel_for_stream(int priority) {
  // Streams of higher priority are in queues of their own, unless all share.
  if (shared_channels_.empty() || (priority < 0 && knobs_.queues_for_all == 0)) return std::make_shared<Channel>();
  const std::lock_guard lock(channels_mutex_);
  return shared_channels_[streams_made_++ % shared_channels_.size()];
}

void Device::choose_channel(Queue kind, std::shared_ptr<Channel>& channel, bool has_none_in_it) {
  if (!has_copy_queues()) return;
  const auto& all = kind == Queue::of_kernels ? shared_channels_ : copy_channels_[kind == Queue::to_device ? 0 : 1];
  auto& used_last = used_last_[static_cast<unsigned>(kind)];
  const std::lock_guard lock(channels_mutex_);
  if (has_none_in_it) {
    const auto free = std::find_if(all.begin(), all.end(), [](const auto& one) { return one->is_free(); });
    channel = free != all.end() ? *free : used_last;
  }
  used_last = channel;
}

void Device::release_channel(Channel& channel) const noexcept {
  const bool shared = std::any_of(shared_channels_.begin(), shared_channels_.end(),
                                  [&](const auto& one) { return one.get() == &channel; });
  if (!shared) channel.close();
}

void Device::over_the_link(Direction direction, std::uint64_t bytes, const std::function<void()>& copy) {
  if (knobs_.link_gib_per_second <= 0 && knobs_.link_latency_us <= 0) {
    copy();
    return;
  }
  using Seconds = std::chrono::duration<double>;
  constexpr double bytes_a_gib = 1024.0 * 1024.0 * 1024.0;
  double seconds = knobs_.link_latency_us * 1e-6;
  if (knobs_.link_gib_per_second > 0) {
    seconds += static_cast<double>(bytes) / (knobs_.link_gib_per_second * bytes_a_gib);
  }
  const std::lock_guard lock(links_[static_cast<unsigned>(direction)]);
  const auto until = std::chrono::steady_clock::now() + Seconds(seconds);
  copy();
  std::this_thread::sleep_until(std::chrono::time_point_cast<std::chrono::nanoseconds>(until));
}

Device& device_of(cuda::Device device) {
  auto& devices = machine().devices;
  require(device >= 0 && static_cast<std::size_t>(device) < devices.size(), cuda::error_invalid_device);
  return *devices[static_cast<std::size_t>(device)];
}

}  // namespace sluice::softgpu
