// SPDX-License-Identifier: Apache-2.0
// The machine code comes along for the usual devices; any other device's driver compiles the text, which takes some
// fifty milliseconds a kernel where it does not remember having done so.
#include "gpu/loading.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <array>
#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "base/signals_blocked.h"
#include "base/spin_backoff.h"
#include "gpu/cuda_api.h"
#include "gpu/kernels.h"
#include "gpu/own_streams.h"
#include "observe/log.h"

namespace sluice::gpu {

namespace {

struct Entry {
  const char* text;
  const char* name;
  std::atomic<cuda::Function> Kernels::*function;
};

const std::array entries{Entry{kernels::gather, "sluice_gather", &Kernels::gather},
                         Entry{kernels::relay, "sluice_relay", &Kernels::relay},
                         Entry{kernels::scatter, "sluice_scatter", &Kernels::scatter},
                         Entry{kernels::serve, "sluice_serve", &Kernels::serve},
                         Entry{kernels::stream_copy, "sluice_stream_copy", &Kernels::stream_copy}};

cuda::Module load_machine_code(const CudaApi& driver) noexcept {
  cuda::Module machine_code = nullptr;
  if (driver.soft || driver.module_load_data(&machine_code, kernels::machine_code()) != cuda::success) return nullptr;
  return machine_code;
}

cuda::Function load_one(const CudaApi& driver, cuda::Module machine_code, const Entry& entry) noexcept {
  cuda::Function function = nullptr;
  if (machine_code != nullptr && driver.module_get_function(&function, machine_code, entry.name) == cuda::success) {
    return function;
  }
  cuda::Module module = nullptr;
  if (driver.module_load_data(&module, entry.text) != cuda::success) return nullptr;
  return driver.module_get_function(&function, module, entry.name) == cuda::success ? function : nullptr;
}

// Asked before each piece of code. What a transfer began that waits for nothing goes on until a call has waited in
// vain.
bool goes_on(Kernels& kernels, bool is_first) noexcept {
  const std::lock_guard lock(kernels.deciding);
  const bool takes_long = kernels.were_awaited_in_vain.load(std::memory_order_relaxed);
  if (kernels.waiting > 0 || (!kernels.began_awaited && (is_first || !takes_long))) return true;
  kernels.begun.store(false, std::memory_order_release);
  return false;
}

// Of ours for later, and room for the program's: drivers wait with streams as they do with code. False: some are left.
bool make_streams(Kernels& kernels) noexcept {
  StreamRoom room(kernels);
  bool is_first = true;
  do {
    if (!goes_on(kernels, std::exchange(is_first, false))) return false;
  } while (make_stream_ahead(kernels) || room.grow());
  return true;
}

// Streams; the machine code, and then each kernel: a driver may load it when it is asked for. False: some are left.
bool load_all(const CudaApi& driver, Kernels& kernels) noexcept {
  bool is_first = kernels.pieces > 0;
  if (!is_first && !make_streams(kernels)) return false;
  for (; kernels.pieces <= entries.size(); ++kernels.pieces) {
    if (!goes_on(kernels, std::exchange(is_first, false))) return false;
    if (kernels.pieces == 0) {
      kernels.machine_code = load_machine_code(driver);
      continue;
    }
    const Entry& entry = entries[kernels.pieces - 1];
    (kernels.*entry.function).store(load_one(driver, kernels.machine_code, entry), std::memory_order_release);
  }
  return true;
}

std::atomic<unsigned> threads_loading{0};
std::array<std::atomic<bool>, max_devices> loaded_on{};

// Of every context that there ever was; none is taken away. Every call on a stream looks here, without a lock.
std::atomic<Kernels*> newest{nullptr};

Kernels* find(cuda::Context context, unsigned long long context_id) noexcept {
  Kernels* kernels = newest.load(std::memory_order_acquire);
  while (kernels != nullptr && (kernels->context != context || kernels->context_id != context_id)) {
    kernels = kernels->before;
  }
  return kernels;
}

void remember_device(const CudaApi& driver, const Kernels& kernels) noexcept {
  cuda::Device device = -1;
  if (kernels.gather.load(std::memory_order_relaxed) == nullptr ||
      kernels.relay.load(std::memory_order_relaxed) == nullptr || driver.ctx_get_device(&device) != cuda::success ||
      device < 0 || static_cast<std::size_t>(device) >= max_devices) {
    return;
  }
  loaded_on[static_cast<std::size_t>(device)].store(true, std::memory_order_relaxed);
}

// Loaded or not, nothing will change any more: threads that wait hear of it.
void end_loading(Kernels& kernels) noexcept {
  kernels.tried.store(true, std::memory_order_release);
  kernels.news.advance();
}

// On a thread of its own: loading may wait for kernels of the program that are running, and such a kernel may wait for
// the bytes that we are to read.
void load(const CudaApi& driver, Kernels& kernels) noexcept {
  cuda::Context popped = nullptr;
  int mode = cuda::capture_relaxed;
  driver.exchange_capture_mode(&mode);
  bool is_over = true;
  if (driver.ctx_push(kernels.context) == cuda::success) {
    is_over = load_all(driver, kernels);
    remember_device(driver, kernels);
    driver.ctx_pop(&popped);
  }
  if (is_over) {
    end_loading(kernels);
  } else {
    kernels.news.advance();
  }
  threads_loading.fetch_sub(1, std::memory_order_release);
}

void log_refusal(const std::exception& failure) noexcept {
  try {
    observe::log_failure(config::LogLevel::warn, "gpu", "our kernels are not loaded, copies take longer",
                         failure.what());
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory to say so
  }
}

// All signals blocked in the thread, from its first moment on.
void start_loading(const CudaApi& driver, Kernels& kernels) {
  const base::SignalsBlocked blocked;
  std::thread thread(load, std::cref(driver), std::ref(kernels));
  ::pthread_setname_np(thread.native_handle(), "sluice-load");
  thread.detach();
}

}  // namespace

Kernels* kernels_of(cuda::Context context, unsigned long long context_id) noexcept {
  if (Kernels* const known = find(context, context_id)) return known;
  static std::mutex adding;
  const std::lock_guard lock(adding);
  if (Kernels* const known = find(context, context_id)) return known;
  auto* const kernels = new (std::nothrow) Kernels(context, context_id);
  if (kernels == nullptr) return nullptr;
  kernels->before = newest.load(std::memory_order_relaxed);
  newest.store(kernels, std::memory_order_release);
  return kernels;
}

Kernels* current_kernels() noexcept {
  const CudaApi* const driver = gpu::driver();
  cuda::Context context = nullptr;
  unsigned long long id = 0;
  if (driver == nullptr || driver->ctx_get_current(&context) != cuda::success || context == nullptr) return nullptr;
  if (driver->ctx_get_id != nullptr && driver->ctx_get_id(context, &id) != cuda::success) return nullptr;
  return kernels_of(context, id);
}

void begin_loading(Kernels& kernels) noexcept {
  kernels.began_awaited = kernels.waiting > 0;
  kernels.begun.store(true, std::memory_order_release);
  const CudaApi* const driver = gpu::driver();
  if (driver == nullptr || driver->module_load_data == nullptr || driver->module_get_function == nullptr ||
      driver->launch_kernel == nullptr) {
    return end_loading(kernels);
  }
  threads_loading.fetch_add(1, std::memory_order_relaxed);
  try {
    start_loading(*driver, kernels);
  } catch (const std::exception& failure) {
    threads_loading.fetch_sub(1, std::memory_order_relaxed);
    end_loading(kernels);
    log_refusal(failure);
  }
}

std::optional<KernelLoadHold> KernelLoadHold::in(Kernels& kernels) noexcept {
  const std::lock_guard lock(kernels.deciding);
  if (kernels.begun.load(std::memory_order_relaxed)) return std::nullopt;
  ++kernels.load_holds;
  return KernelLoadHold(kernels);
}

KernelLoadHold::~KernelLoadHold() {
  if (kernels_ == nullptr) return;
  const std::lock_guard lock(kernels_->deciding);
  --kernels_->load_holds;
}

bool are_loaded(cuda::Context context, unsigned long long context_id) noexcept {
  const Kernels* const known = find(context, context_id);
  return known != nullptr && known->tried.load(std::memory_order_acquire);
}

bool were_loaded_on(int ordinal) noexcept {
  return ordinal >= 0 && static_cast<std::size_t>(ordinal) < max_devices &&
         loaded_on[static_cast<std::size_t>(ordinal)].load(std::memory_order_relaxed);
}

bool is_loading() noexcept {
  return threads_loading.load(std::memory_order_acquire) > 0;
}

void loading_after_fork_in_child() noexcept {
  threads_loading.store(0, std::memory_order_relaxed);
}

bool wait_for(const Kernels& kernels, int milliseconds) noexcept {
  const timespec deadline = base::deadline_in(std::chrono::milliseconds(milliseconds));
  const auto is_over = [&] {
    return kernels.tried.load(std::memory_order_acquire) || !kernels.begun.load(std::memory_order_acquire);
  };
  for (bool in_time = true; in_time;) {
    const std::uint32_t seen = kernels.news.now();
    if (is_over()) return true;
    in_time = kernels.news.wait_beyond(seen, deadline);
  }
  return is_over();
}

KernelLoadWait::KernelLoadWait(Kernels& kernels) noexcept : kernels_(kernels) {
  const std::lock_guard lock(kernels.deciding);
  ++kernels.waiting;
}

KernelLoadWait::~KernelLoadWait() {
  const std::lock_guard lock(kernels_.deciding);
  --kernels_.waiting;
}

bool KernelLoadWait::until_tried(int milliseconds) noexcept {
  if (!wait_for(kernels_, milliseconds)) kernels_.were_awaited_in_vain.store(true, std::memory_order_relaxed);
  return kernels_.tried.load(std::memory_order_acquire);
}

}  // namespace sluice::gpu
