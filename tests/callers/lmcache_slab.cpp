// SPDX-License-Identifier: Apache-2.0
// LMCache's slab: one large file by O_DIRECT, allocated at once; staging slots of up to 16 MiB, each registered; a
// stream that is registered; many ReadAsync or WriteAsync, then one synchronise, and only then the counts.
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>

#include "callers/loaded.h"

namespace sluice::callers {
namespace {

constexpr std::size_t kSlab = 24 * kMiB;
constexpr std::size_t kSlot = 12 * kMiB;
constexpr std::size_t kSlots = 2;

struct Library {
  decltype(cuFileDriverOpen)* open = nullptr;
  decltype(cuFileDriverClose)* close = nullptr;
  decltype(cuFileHandleRegister)* handle_register = nullptr;
  decltype(cuFileHandleDeregister)* handle_deregister = nullptr;
  decltype(cuFileBufRegister)* buffer_register = nullptr;
  decltype(cuFileBufDeregister)* buffer_deregister = nullptr;
  decltype(cuFileStreamRegister)* stream_register = nullptr;
  decltype(cuFileStreamDeregister)* stream_deregister = nullptr;
  decltype(cuFileReadAsync)* read = nullptr;
  decltype(cuFileWriteAsync)* write = nullptr;

  Library() {
    void* const library = load_cufile({"libcufile.so"});
    find(library, "cuFileDriverOpen", open);
    find(library, "cuFileDriverClose", close);
    find(library, "cuFileHandleRegister", handle_register);
    find(library, "cuFileHandleDeregister", handle_deregister);
    find(library, "cuFileBufRegister", buffer_register);
    find(library, "cuFileBufDeregister", buffer_deregister);
    find(library, "cuFileStreamRegister", stream_register);
    find(library, "cuFileStreamDeregister", stream_deregister);
    find(library, "cuFileReadAsync", read);
    find(library, "cuFileWriteAsync", write);
  }
};

// What has to stay where it is until the stream has come by.
struct Submission {
  std::size_t size = 0;
  off_t file_offset = 0;
  off_t buffer_offset = 0;
  ssize_t done = 0;
};

// One object of the cache: where it lies in the slab and in its slot.
struct Object {
  std::size_t slot;
  std::size_t in_slot;
  std::size_t in_slab;
  std::size_t size;
};

// 4 KiB aligned throughout, as the slab's allocator hands them out; neighbours in a slot are none in the slab.
std::vector<Object> objects() {
  constexpr std::array<std::size_t, 5> sizes{1 * kMiB, 64 * kKiB, 4 * kKiB, 2 * kMiB + 4 * kKiB, 256 * kKiB};
  std::vector<Object> found;
  std::size_t slab_end = kSlab;
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    for (std::size_t at = 0;;) {
      const std::size_t size = sizes[found.size() % sizes.size()];
      if (at + size > kSlot) break;
      slab_end -= size;
      found.push_back({slot, at, slab_end, size});
      at += size;
    }
  }
  return found;
}

void caller(const Place& place) {
  const Library library;
  const std::string path = place.at("slab");
  const Fd fd = open_file(path, O_CREAT | O_RDWR | O_DIRECT);
  if (const int error = posix_fallocate(fd.get(), 0, kSlab); error != 0) {
    wrong(std::string("posix_fallocate: ") + std::strerror(error));
  }
  succeed(library.open(), "cuFileDriverOpen");
  CUfileDescr_t description{};
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = fd.get();
  CUfileHandle_t file = nullptr;
  succeed(library.handle_register(&file, &description), "cuFileHandleRegister");

  std::deque<Memory> slots;
  for (std::size_t i = 0; i < kSlots; ++i) {
    const Memory& slot = slots.emplace_back(MemoryKind::device, kSlot);
    require(reinterpret_cast<std::uintptr_t>(slot.address()) % 4096 == 0, "a slot that is not aligned");
    succeed(library.buffer_register(slot.address(), kSlot, 0), "cuFileBufRegister");
  }

  // Flags 0, and those of newer releases: everything is known at submission.
  for (const unsigned flags : {0U, 7U}) {
    const support::Stream stream;
    succeed(library.stream_register(stream.get(), flags), "cuFileStreamRegister");
    const auto all = [&](auto* transfer, const char* call) {
      std::deque<Submission> submissions;
      for (const Object& each : objects()) {
        Submission& one = submissions.emplace_back(
            Submission{each.size, static_cast<off_t>(each.in_slab), static_cast<off_t>(each.in_slot), 0});
        succeed(transfer(file, slots[each.slot].address(), &one.size, &one.file_offset, &one.buffer_offset, &one.done,
                         stream.get()),
                call);
      }
      stream.synchronize();
      for (const Submission& one : submissions) {
        if (one.done != static_cast<ssize_t>(one.size)) {
          wrong(std::string(call) + " moved " + std::to_string(one.done) + " of " + std::to_string(one.size));
        }
      }
    };
    std::vector<Bytes> contents;
    for (std::size_t i = 0; i < kSlots; ++i) {
      contents.push_back(support::random_bytes(kSlot, 10 * flags + i));
      slots[i].put(0, contents[i]);
    }
    all(library.write, "cuFileWriteAsync");
    const Bytes slab = content_of(path);
    require(slab.size() == kSlab, "the slab has changed its size");
    for (const Object& each : objects()) {
      require_same(std::span(contents[each.slot]).subspan(each.in_slot, each.size),
                   std::span(slab).subspan(each.in_slab, each.size), "what was written");
    }
    for (const Memory& slot : slots) slot.fill(0x5a);
    all(library.read, "cuFileReadAsync");
    for (const Object& each : objects()) {
      require_same(std::span(contents[each.slot]).subspan(each.in_slot, each.size),
                   slots[each.slot].get(each.in_slot, each.size), "what was read");
    }
    succeed(library.stream_deregister(stream.get()), "cuFileStreamDeregister");
  }

  for (const Memory& slot : slots) succeed(library.buffer_deregister(slot.address()), "cuFileBufDeregister");
  library.handle_deregister(file);
  succeed(library.close(), "cuFileDriverClose");
}

}  // namespace
}  // namespace sluice::callers

int main(int argc, char** argv) {
  return sluice::callers::play(argc, argv, sluice::callers::caller);
}
