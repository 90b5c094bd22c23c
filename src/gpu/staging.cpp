// Streams, counters and kernel are made once a ring and never given back: at exit the driver may be gone before us.
#include "gpu/staging.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "gpu/kernels.h"
#include "observe/log.h"

namespace sluice::gpu {

namespace {

constexpr std::size_t counter_bytes = 64;
constexpr unsigned threads_a_block = 512;

// The kernels in a context. Never taken away again: rings point to them.
struct Loaded {
  cuda::Context context;
  unsigned long long context_id;
  Kernels kernels;

  Loaded(cuda::Context where, unsigned long long id) : context(where), context_id(id) {}
};

void load_one(const Driver& driver, const char* text, const char* name, std::atomic<cuda::Function>& into) noexcept {
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  if (driver.module_load_data(&module, text) == cuda::success &&
      driver.module_get_function(&function, module, name) == cuda::success) {
    into.store(function, std::memory_order_release);
  }
}

// Loading may wait for kernels of the program that are running, and such a kernel may wait for the bytes that we are
// to read: the thread that reads must not wait for either.
void load(const Driver& driver, Loaded& loaded) noexcept {
  cuda::Context popped = nullptr;
  if (driver.ctx_push(loaded.context) != cuda::success) return;
  load_one(driver, kernels::gather, "sluice_gather", loaded.kernels.gather);
  load_one(driver, kernels::scatter, "sluice_scatter", loaded.kernels.scatter);
  driver.ctx_pop(&popped);
}

void start_loading(const Driver& driver, Loaded& loaded) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread thread(load, std::cref(driver), std::ref(loaded));
    ::pthread_setname_np(thread.native_handle(), "sluice-load");
    thread.detach();
  } catch (const std::system_error& failure) {
    observe::log(config::LogLevel::warn, "gpu",
                 std::string("the gather kernel is not loaded, copies take longer: ") + failure.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

const Kernels* kernels_in(const Driver& driver, cuda::Context context, unsigned long long id) {
  static std::mutex mutex;
  static auto* const known = new std::list<Loaded>;
  const std::lock_guard lock(mutex);
  const auto found = std::find_if(known->begin(), known->end(), [&](const Loaded& loaded) {
    return loaded.context == context && loaded.context_id == id;
  });
  if (found != known->end()) return &found->kernels;
  Loaded& loaded = known->emplace_back(context, id);
  if (driver.module_load_data != nullptr && driver.module_get_function != nullptr && driver.launch_kernel != nullptr) {
    start_loading(driver, loaded);
  }
  return &loaded.kernels;
}

}  // namespace

int Staging::attach(cuda::Context context, unsigned long long context_id, std::span<std::byte> memory) noexcept {
  const Driver* const driver = gpu::driver();
  if (driver == nullptr) return cuda::error_not_initialized;
  if (driver->stream_write_value_32 == nullptr || driver->mem_host_get_device_pointer == nullptr ||
      driver->stream_query == nullptr || driver->mem_alloc == nullptr) {
    return cuda::error_not_supported;
  }
  // What a ring had in a context that is gone went with it; the registration may have survived.
  if (driver_ != nullptr) driver->mem_host_unregister(memory.data());
  *this = {};
  int result = driver->mem_host_register(memory.data(), memory.size(), cuda::host_register_portable);
  if (result != cuda::success) return result;
  driver_ = driver;
  memory_ = memory;
  result = driver->mem_host_get_device_pointer(&device_base_, memory.data(), 0);
  if (result == cuda::success) result = driver->stream_create(&copies_, cuda::stream_non_blocking);
  if (result == cuda::success) result = driver->stream_create(&kernels_, cuda::stream_non_blocking);
  if (result == cuda::success) result = driver->mem_alloc(&counters_, counter_bytes);
  // Zeros by the copy engine: a fill is a kernel, and a device may be too busy to begin one.
  if (result == cuda::success) result = driver->memcpy_htod_async(counters_, memory.data(), counter_bytes, copies_);
  if (result == cuda::success) result = driver->stream_synchronize(copies_);
  if (result != cuda::success) {
    driver->mem_host_unregister(memory.data());
    *this = {};
    return result;
  }
  try {
    kernels_there_ = kernels_in(*driver, context, context_id);
  } catch (...) {
    driver->mem_host_unregister(memory.data());
    *this = {};
    return cuda::error_out_of_memory;
  }
  context_ = context;
  context_id_ = context_id;
  return cuda::success;
}

int Staging::launch(const Gather& gather) noexcept {
  cuda::DevicePtr places = seen_by_device(gather.places);
  cuda::DevicePtr target = gather.target;
  cuda::DevicePtr tickets = seen_by_device(gather.tickets);
  cuda::DevicePtr drained = seen_by_device(gather.drained);
  cuda::DevicePtr words = seen_by_device(gather.words);
  cuda::DevicePtr counters = counters_;
  std::array<std::uint32_t, 7> numbers{gather.chunk_bytes, gather.stride,       gather.skip,  gather.chunks,
                                       gather.place_count, gather.first_number, gather.serial};
  std::array<void*, 13> arguments{&places,     &target,     &tickets,    &drained,    &words,
                                  &counters,   &numbers[0], &numbers[1], &numbers[2], &numbers[3],
                                  &numbers[4], &numbers[5], &numbers[6]};
  const unsigned blocks = std::clamp(gather.chunks, 1U, std::max(1U, gather.most_blocks));
  return driver_->launch_kernel(kernels_there_->gather.load(std::memory_order_acquire), blocks, 1, 1, threads_a_block,
                                1, 1, 0, kernels_, arguments.data(), nullptr);
}

int Staging::launch(const Scatter& scatter) noexcept {
  cuda::DevicePtr places = seen_by_device(scatter.places);
  cuda::DevicePtr targets = seen_by_device(scatter.targets);
  cuda::DevicePtr tickets = seen_by_device(scatter.tickets);
  cuda::DevicePtr drained = seen_by_device(scatter.drained);
  cuda::DevicePtr words = seen_by_device(scatter.words);
  cuda::DevicePtr counters = counters_;
  std::array<std::uint32_t, 5> numbers{scatter.stride, scatter.chunks, scatter.place_count, scatter.first_number,
                                       scatter.serial};
  std::array<void*, 11> arguments{&places,     &targets,    &tickets,    &drained,    &words,     &counters,
                                  &numbers[0], &numbers[1], &numbers[2], &numbers[3], &numbers[4]};
  // Measured on an H200: a chunk is a block's work, so small ones want many small blocks. More of the others would only
  // take processors from the program's own kernels.
  constexpr unsigned most_blocks = 32;
  const bool small = scatter.chunk_bytes <= 4096;
  const unsigned blocks = std::clamp(scatter.chunks, 1U, scatter.chunk_bytes <= 16384 ? 64U : most_blocks);
  return driver_->launch_kernel(kernels_there_->scatter.load(std::memory_order_acquire), blocks, 1, 1,
                                small ? 128 : threads_a_block, 1, 1, 0, kernels_, arguments.data(), nullptr);
}

bool Staging::can_copy_many() const noexcept {
  return driver_->memcpy_batch_async_v2 != nullptr || driver_->memcpy_batch_async != nullptr;
}

int Staging::copy_to_device(std::span<const Copy> copies) noexcept {
  constexpr std::size_t most = 64;
  if (copies.size() < 2 || copies.size() > most || !can_copy_many()) {
    int result = cuda::success;
    for (const Copy& copy : copies) {
      if (result == cuda::success) result = copy_to_device(copy.to, {copy.from, copy.size});
    }
    return result;
  }
  std::array<cuda::DevicePtr, most> to;
  std::array<cuda::DevicePtr, most> from;
  std::array<std::size_t, most> sizes;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    to[i] = copies[i].to;
    from[i] = reinterpret_cast<cuda::DevicePtr>(copies[i].from);
    sizes[i] = copies[i].size;
  }
  cuda::CopyAttributes attributes{};
  attributes.source_access = cuda::source_in_stream_order;
  std::size_t first = 0;
  if (driver_->memcpy_batch_async_v2 != nullptr) {
    return driver_->memcpy_batch_async_v2(to.data(), from.data(), sizes.data(), copies.size(), &attributes, &first, 1,
                                          copies_);
  }
  std::size_t failed = 0;
  return driver_->memcpy_batch_async(to.data(), from.data(), sizes.data(), copies.size(), &attributes, &first, 1,
                                     &failed, copies_);
}

int Staging::copy_to_device(cuda::DevicePtr to, std::span<const std::byte> from) noexcept {
  return driver_->memcpy_htod_async(to, from.data(), from.size(), copies_);
}

int Staging::copy_from_device(std::span<std::byte> to, cuda::DevicePtr from) noexcept {
  return driver_->memcpy_dtoh_async(to.data(), from, to.size(), copies_);
}

int Staging::mark(const std::uint32_t* word, std::uint32_t value) noexcept {
  return driver_->stream_write_value_32(copies_, seen_by_device(word), value, cuda::write_value_default);
}

int Staging::health() const noexcept {
  for (const cuda::Stream stream : {copies_, kernels_}) {
    const int result = driver_->stream_query(stream);
    if (result != cuda::success && result != cuda::error_not_ready) return result;
  }
  return cuda::success;
}

int Staging::finish_copies() noexcept {
  return driver_->stream_synchronize(copies_);
}

}  // namespace sluice::gpu
