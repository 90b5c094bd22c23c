// SPDX-License-Identifier: Apache-2.0
#include "soak/burdens.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "model/file_actor.h"
#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/memory.h"
#include "support/scratch.h"

namespace sluice::soak {

using namespace support;

namespace {

constexpr std::size_t read_bytes = 65'536;
constexpr std::size_t whole_bounce_buffer = 1'040'000;
constexpr std::size_t file_bytes = std::size_t{1} << 20U;

void must(bool good, const std::string& what) {
  if (!good) throw std::runtime_error(what);
}

void must_read_right(CUfileHandle_t handle, const Memory& memory, const ScratchFile& file, std::size_t offset) {
  const Transfer answer = read_file(handle, memory.address(), read_bytes, static_cast<off_t>(offset));
  must(answer == moved(read_bytes),
       "a read answered " + std::to_string(answer.count) + ", errno " + std::to_string(answer.error));
  must(std::equal(file.content().begin() + static_cast<std::ptrdiff_t>(offset),
                  file.content().begin() + static_cast<std::ptrdiff_t>(offset + read_bytes),
                  memory.get(0, read_bytes).begin()),
       "a read brought other bytes");
}

// Contexts are a thread's own.
std::optional<ContextScope> on_the_device() {
  if (cuda() == nullptr) return std::nullopt;
  return std::optional<ContextScope>(std::in_place, primary_context(0));
}

void run_model(const std::string& folder, std::uint64_t round, const Amounts& amounts) {
  constexpr std::size_t actors_at_once = 4;
  constexpr std::size_t part = 1'500'007;
  const auto device = on_the_device();
  const ScratchFile scratch(random_bytes(part * actors_at_once, round), folder);
  const Fd buffered = scratch.open(O_RDWR);
  const Fd direct(::open(scratch.path().c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  const Handle by_buffered(buffered);
  std::optional<Handle> by_direct;
  model::Doors doors{{"buffered", buffered.get(), by_buffered.get()}};
  if (direct.valid()) doors.push_back({"O_DIRECT", direct.get(), by_direct.emplace(direct).get()});
  std::deque<model::FileActor> actors;
  for (std::size_t i = 0; i < actors_at_once; ++i) {
    const auto begin = scratch.content().begin() + static_cast<std::ptrdiff_t>(i * part);
    const bool last = i + 1 == actors_at_once;
    actors.emplace_back(round * actors_at_once + i, doors, i * part,
                        Bytes(begin, begin + static_cast<std::ptrdiff_t>(part)), last ? 2 * part : part,
                        last ? model::Edge::at_the_end : model::Edge::inner);
  }
  std::vector<std::thread> threads;
  for (model::FileActor& actor : actors) {
    threads.emplace_back([&] {
      while (actor.steps() < amounts.steps && actor.step()) continue;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const model::FileActor& actor : actors) must(actor.complaint().empty(), actor.complaint());
}

void open_handles(const std::string& folder, std::uint64_t /*round*/, const Amounts& amounts) {
  const auto device = on_the_device();
  const ScratchFile file(random_bytes(file_bytes, 1), folder);
  const Memory memory(usual_memory(), read_bytes);
  std::vector<Fd> files;
  std::deque<Handle> handles;
  for (std::size_t i = 0; i < amounts.handles; ++i) {
    files.push_back(file.open(O_RDONLY | (i % 2 == 0 ? O_DIRECT : 0)));
    handles.emplace_back(files.back());
  }
  for (std::size_t i = 0; i < handles.size(); i += 100) {
    must_read_right(handles[i].get(), memory, file, i * 4096 % (file_bytes - read_bytes));
  }
}

void register_buffers(const std::string& /*folder*/, std::uint64_t round, const Amounts& amounts) {
  const auto device = on_the_device();
  Random random(round);
  std::deque<std::unique_ptr<Memory>> memories;
  std::deque<std::unique_ptr<Registration>> registered;
  for (std::size_t i = 0; i < amounts.registrations; ++i) {
    if (memories.size() == 16) {
      registered.pop_front();
      memories.pop_front();
    }
    memories.push_back(std::make_unique<Memory>(usual_memory(), std::size_t{4096} << random.below(10)));
    registered.push_back(std::make_unique<Registration>(*memories.back()));
  }
  registered.clear();
}

void start_threads(const std::string& folder, std::uint64_t /*round*/, const Amounts& amounts) {
  const ScratchFile file(random_bytes(file_bytes, 2), folder);
  const Fd fd = file.open(O_RDONLY | O_DIRECT);
  const Fd buffered = file.open(O_RDONLY);
  const Handle handle(fd);
  const Handle by_buffered(buffered);
  std::latch all_there(static_cast<std::ptrdiff_t>(amounts.threads));
  std::atomic<std::size_t> failed{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < amounts.threads; ++i) {
    threads.emplace_back([&, i] {
      all_there.arrive_and_wait();
      try {
        const auto device = on_the_device();
        const Memory memory(i % 2 == 0 ? MemoryKind::plain : usual_memory(), read_bytes);
        must_read_right(handle.get(), memory, file, i * 4096 % (file_bytes - read_bytes));
        // A thread's bounce buffer is used to its end, so that all of their memory is resident from the first round on.
        const Memory large(usual_memory(), whole_bounce_buffer);
        must(read_file(by_buffered.get(), large.address(), whole_bounce_buffer) == moved(whole_bounce_buffer),
             "a large read came short");
      } catch (const std::exception&) {
        ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  must(failed == 0, std::to_string(failed) + " of the threads read wrong");
}

void fork_children(const std::string& folder, std::uint64_t /*round*/, const Amounts& amounts) {
  const ScratchFile file(random_bytes(file_bytes, 3), folder);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::plain, read_bytes);
  must_read_right(handle.get(), memory, file, 0);
  std::vector<pid_t> children;
  for (std::size_t i = 0; i < amounts.children; ++i) {
    const pid_t child = fork();
    must(child >= 0, "fork failed");
    if (child == 0) {
      const Transfer answer = read_file(handle.get(), memory.address(), read_bytes, 4096);
      // Exact bytes or a clear error.
      const auto* const found = static_cast<const unsigned char*>(memory.address());
      const bool right = std::equal(found, found + read_bytes, file.content().begin() + 4096);
      _exit(answer.count < 0 || (answer == moved(read_bytes) && right) ? 0 : 1);
    }
    children.push_back(child);
  }
  std::size_t bad = 0;
  for (const pid_t child : children) {
    int status = 0;
    must(waitpid(child, &status, 0) == child, "waitpid failed");
    bad += status == 0 ? 0 : 1;
  }
  must(bad == 0, std::to_string(bad) + " children read wrong");
  must_read_right(handle.get(), memory, file, 8192);
}

constexpr Burden all[] = {{"model", run_model},
                          {"handles", open_handles},
                          {"buffers", register_buffers},
                          {"threads", start_threads},
                          {"children", fork_children}};

}  // namespace

std::span<const Burden> burdens() {
  return all;
}

}  // namespace sluice::soak
