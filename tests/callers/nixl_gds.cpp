// SPDX-License-Identifier: Apache-2.0
// NIXL's GDS plugin: sixteen batches of 128 entries that are set up at the start and reused for ever, transfers that
// are split at 16 MiB, interior pointers of registered buffers with offset 0. Releases differ in how they wait: the
// older for all of a batch at once and without a timeout, the newer by polls that submit again what came short.
//   usual    device and host memory
//   mapped   a range over several cuMemCreate handles
#include <sched.h>
#include <time.h>  // NOLINT(modernize-deprecated-headers): timespec is POSIX

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "callers/kit.h"
#include "callers/mapped_range.h"
#include "cufile.h"

namespace sluice::callers {
namespace {

constexpr std::size_t kBatches = 16;
constexpr unsigned kEntries = 128;
constexpr std::size_t kMostOfARequest = 16 * kMiB;

enum class Waiting { for_all, by_polls };

void succeed(CUfileError_t answer, const char* call) {
  if (answer.err != CU_FILE_SUCCESS) wrong(std::string(call) + ": " + cufileop_status_error(answer.err));
}

struct Request {
  CUfileHandle_t file = nullptr;
  char* memory = nullptr;  // often in the midst of a registered buffer
  std::size_t size = 0;
  std::size_t offset = 0;
};

// One of the sixteen.
class Batch {
 public:
  Batch() { succeed(cuFileBatchIOSetUp(&handle_, kEntries), "cuFileBatchIOSetUp"); }
  ~Batch() { cuFileBatchIODestroy(handle_); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void submit(std::span<const Request> requests, CUfileOpcode_t opcode) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      CUfileIOParams_t& entry = entries_[i];
      entry = {};
      entry.mode = CUFILE_BATCH;
      entry.fh = requests[i].file;
      entry.opcode = opcode;
      entry.cookie = &entry;
      entry.u.batch.devPtr_base = requests[i].memory;
      entry.u.batch.file_offset = static_cast<off_t>(requests[i].offset);
      entry.u.batch.size = requests[i].size;
    }
    used_ = static_cast<unsigned>(requests.size());
    succeed(cuFileBatchIOSubmit(handle_, used_, entries_.data(), 0), "cuFileBatchIOSubmit");
  }

  void wait(Waiting way) { way == Waiting::for_all ? wait_for_all() : poll(); }

  // Asked when nothing is outstanding, as a second look at a finished transfer does.
  void require_drained() {
    unsigned count = kEntries;
    succeed(cuFileBatchIOGetStatus(handle_, kEntries, &count, events_.data(), nullptr), "cuFileBatchIOGetStatus");
    require(count == 0, "a drained batch has events");
  }

 private:
  void wait_for_all() {
    unsigned found = 0;
    while (found < used_) {
      unsigned count = used_;
      succeed(cuFileBatchIOGetStatus(handle_, used_, &count, events_.data(), nullptr), "cuFileBatchIOGetStatus");
      require(count > 0 && count <= used_ - found, "cuFileBatchIOGetStatus told a wrong number of events");
      for (unsigned i = 0; i < count; ++i) {
        const auto* entry = static_cast<const CUfileIOParams_t*>(events_[i].cookie);
        require(events_[i].status == CUFILE_COMPLETE, "an entry did not complete");
        require(events_[i].ret == entry->u.batch.size, "an entry came short inside the file");
      }
      found += count;
    }
  }

  void poll() {
    std::vector<CUfileIOParams_t> rest;
    unsigned found = 0;
    while (found < used_) {
      timespec now{};
      unsigned count = used_;
      succeed(cuFileBatchIOGetStatus(handle_, 0, &count, events_.data(), &now), "cuFileBatchIOGetStatus");
      require(count <= used_ - found, "more events than entries");
      for (unsigned i = 0; i < count; ++i) {
        const auto* entry = static_cast<const CUfileIOParams_t*>(events_[i].cookie);
        require(events_[i].status == CUFILE_COMPLETE, "an entry did not complete");
        const std::size_t done = events_[i].ret;
        require(done > 0 && done <= entry->u.batch.size, "an entry moved nothing, or too much");
        if (done == entry->u.batch.size) continue;
        rest.push_back(*entry);
        rest.back().u.batch.devPtr_base = static_cast<char*>(rest.back().u.batch.devPtr_base) + done;
        rest.back().u.batch.file_offset += static_cast<off_t>(done);
        rest.back().u.batch.size -= done;
      }
      found += count;
      if (count == 0) sched_yield();  // its caller does other things meanwhile
      if (found < used_ || rest.empty()) continue;
      std::copy(rest.begin(), rest.end(), entries_.begin());
      used_ = static_cast<unsigned>(std::exchange(rest, {}).size());
      for (unsigned i = 0; i < used_; ++i) entries_[i].cookie = &entries_[i];
      found = 0;
      succeed(cuFileBatchIOSubmit(handle_, used_, entries_.data(), 0), "cuFileBatchIOSubmit of remainders");
    }
  }

  CUfileBatchHandle_t handle_ = nullptr;
  std::array<CUfileIOParams_t, kEntries> entries_{};
  std::array<CUfileIOEvents_t, kEntries> events_{};
  unsigned used_ = 0;
};

class Engine {
 public:
  Engine() {
    succeed(cuFileDriverOpen(), "cuFileDriverOpen");
    pool_ = std::make_unique<std::array<Batch, kBatches>>();
  }
  ~Engine() {
    pool_.reset();
    cuFileDriverClose();
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  static CUfileHandle_t register_file(const Fd& fd) {
    CUfileDescr_t description{};
    description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    description.handle.fd = fd.get();
    CUfileHandle_t handle = nullptr;
    succeed(cuFileHandleRegister(&handle, &description), "cuFileHandleRegister");
    return handle;
  }

  // All of it at once: the batches that it takes are posted before the first is looked at.
  void transfer(std::span<const Request> wanted, CUfileOpcode_t opcode, Waiting way) {
    std::vector<Request> requests;
    for (const Request& each : wanted) {
      for (std::size_t at = 0; at < each.size; at += kMostOfARequest) {
        requests.push_back({each.file, each.memory + at, std::min(kMostOfARequest, each.size - at), each.offset + at});
      }
    }
    std::size_t posted = 0;
    for (std::size_t at = 0; at < requests.size(); at += kEntries, ++posted) {
      require(posted < kBatches, "this test posts more than the pool has");
      pool_->at(posted).submit(std::span(requests).subspan(at, std::min<std::size_t>(kEntries, requests.size() - at)),
                               opcode);
    }
    for (std::size_t i = 0; i < posted; ++i) pool_->at(i).wait(way);
    for (std::size_t i = 0; i < posted; ++i) pool_->at(i).require_drained();
  }

 private:
  std::unique_ptr<std::array<Batch, kBatches>> pool_;
};

// Writes the content out of one half of the memory and reads it into the other, in pieces of these lengths in turn.
template <typename Range>
void round_trip(Engine& engine, CUfileHandle_t file, const Range& memory, std::size_t length,
                const std::vector<std::size_t>& lengths, Waiting way, const std::string& path) {
  const Bytes content = support::random_bytes(length, length + lengths.size());
  char* const base = static_cast<char*>(memory.address());
  std::vector<Request> out;
  for (std::size_t at = 0, turn = 0; at < length; ++turn) {
    const std::size_t size = std::min(lengths[turn % lengths.size()], length - at);
    out.push_back({file, base + at, size, at});
    at += size;
  }
  std::vector<Request> in = out;
  for (Request& each : in) each.memory += length;
  memory.fill(0x5a);
  memory.put(0, content);
  engine.transfer(out, CUFILE_WRITE, way);
  const Bytes written = content_of(path);
  require(written.size() >= length, "the file is too short");
  require_same(content, std::span(written).first(length), "what was written");
  engine.transfer(in, CUFILE_READ, way);
  require_same(content, memory.get(length, length), "what was read");
  require_same(content, memory.get(0, length), "what was written from");
}

template <typename Range>
void play_over(Engine& engine, const Place& place, const Range& memory, int direct, std::span<const Waiting> ways) {
  const std::string path = place.at("agent.bin");
  const Fd fd = open_file(path, O_CREAT | O_RDWR | O_TRUNC | direct);
  const CUfileHandle_t file = Engine::register_file(fd);
  succeed(cuFileBufRegister(memory.address(), memory.size(), 0), "cuFileBufRegister");
  for (const Waiting way : ways) {
    // One descriptor, cut at 16 MiB.
    round_trip(engine, file, memory, memory.size() / 2, {memory.size() / 2}, way, path);
    // What falls on no block.
    round_trip(engine, file, memory, 1 * kMiB + 1234, {4096, 100, 70001, 512, 65536, 1, 262144}, way, path);
    // Neighbours that share blocks, all of them in the same batches.
    round_trip(engine, file, memory, 200 * kKiB + 1, {777}, way, path);
  }
  // All sixteen batches under way at a time.
  round_trip(engine, file, memory, kBatches * kEntries * 4 * kKiB, {4 * kKiB}, ways.front(), path);
  succeed(cuFileBufDeregister(memory.address()), "cuFileBufDeregister");
  cuFileHandleDeregister(file);
}

// An event that says COMPLETE for bytes that were not written would be a silent loss.
void a_refused_write_is_told(const Place& place) {
  const std::string path = place.at("read_only.bin");
  { const Fd made = open_file(path, O_CREAT | O_RDWR); }
  const Fd fd = open_file(path, O_RDONLY);
  const CUfileHandle_t file = Engine::register_file(fd);
  const Memory memory(MemoryKind::device, 64 * kKiB);
  Batch batch;
  bool told = false;
  try {
    const Request request{file, static_cast<char*>(memory.address()), memory.size(), 0};
    batch.submit({&request, 1}, CUFILE_WRITE);
    batch.wait(Waiting::for_all);
  } catch (const std::runtime_error&) {
    told = true;
  }
  require(told, "a write to a file that was opened for reading completed");
  cuFileHandleDeregister(file);
}

void caller(const Place& place) {
  Engine engine;
  constexpr std::array both{Waiting::for_all, Waiting::by_polls};
  constexpr std::array one{Waiting::by_polls};
  if (place.part == "mapped") {
    if (!MappedRange::available()) throw Skipped("this driver has no virtual memory management");
    play_over(engine, place, MappedRange(18, 2 * kMiB), O_DIRECT, both);
    return;
  }
  constexpr std::size_t size = 2 * (16 * kMiB + 4096);  // a request and a little, twice
  play_over(engine, place, Memory(MemoryKind::device, size), O_DIRECT, both);
  play_over(engine, place, Memory(MemoryKind::device, size), 0, one);
  play_over(engine, place, Memory(MemoryKind::plain, size), O_DIRECT, one);
  a_refused_write_is_told(place);
}

}  // namespace
}  // namespace sluice::callers

int main(int argc, char** argv) {
  return sluice::callers::play(argc, argv, sluice::callers::caller);
}
