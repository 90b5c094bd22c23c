// SPDX-License-Identifier: Apache-2.0
// LMCache's file a chunk: each is opened, registered, read or written, deregistered and closed by itself. The memory of
// all chunks is one registered buffer, and a chunk goes to an offset in it; its data lie behind a header of 4 KiB,
// which is written without cuFile.
#include "callers/loaded.h"

namespace sluice::callers {
namespace {

constexpr std::size_t kChunks = 48;
constexpr std::size_t kRoom = 512 * kKiB;  // for each in the buffer
constexpr std::size_t kHeader = 4096;
constexpr std::size_t kThreads = 4;

struct Library {
  decltype(cuFileDriverOpen)* open = nullptr;
  decltype(cuFileHandleRegister)* handle_register = nullptr;
  decltype(cuFileHandleDeregister)* handle_deregister = nullptr;
  decltype(cuFileBufRegister)* buffer_register = nullptr;
  decltype(cuFileBufDeregister)* buffer_deregister = nullptr;
  decltype(cuFileRead)* read = nullptr;
  decltype(cuFileWrite)* write = nullptr;

  Library() {
    void* const library = load_cufile({"libcufile.so"});
    find(library, "cuFileDriverOpen", open);
    find(library, "cuFileHandleRegister", handle_register);
    find(library, "cuFileHandleDeregister", handle_deregister);
    find(library, "cuFileBufRegister", buffer_register);
    find(library, "cuFileBufDeregister", buffer_deregister);
    find(library, "cuFileRead", read);
    find(library, "cuFileWrite", write);
  }
};

// Most are whole blocks, some are not.
std::size_t size_of(std::size_t chunk) {
  return chunk % 5 == 4 ? 100000 + chunk : (1 + chunk % 16) * 32 * kKiB;
}

class Chunk {
 public:
  Chunk(const Library& library, const std::string& path, int flags) : library_(library), fd_(open_file(path, flags)) {
    CUfileDescr_t description{};
    description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    description.handle.fd = fd_.get();
    succeed(library.handle_register(&handle_, &description), "cuFileHandleRegister");
  }
  ~Chunk() { library_.handle_deregister(handle_); }
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;
  CUfileHandle_t get() const { return handle_; }

 private:
  const Library& library_;
  Fd fd_;
  CUfileHandle_t handle_ = nullptr;
};

void chunks(const Library& library, const Place& place, int direct) {
  const Memory memory(MemoryKind::device, kChunks * kRoom);
  succeed(library.buffer_register(memory.address(), memory.size(), 0), "cuFileBufRegister");
  const Bytes content = support::random_bytes(memory.size(), static_cast<std::uint64_t>(direct));
  const Bytes header = support::random_bytes(kHeader, 3);
  const auto path_of = [&](std::size_t chunk) { return place.at("chunk-" + std::to_string(chunk)); };
  memory.put(0, content);
  on_pool(kThreads, kChunks, [&](std::size_t i) {
    { support::plain_write(open_file(path_of(i), O_CREAT | O_RDWR | O_TRUNC).get(), 0, header); }
    const Chunk chunk(library, path_of(i), O_CREAT | O_RDWR | direct);
    const ssize_t count =
        library.write(chunk.get(), memory.address(), size_of(i), kHeader, static_cast<off_t>(i * kRoom));
    if (count != static_cast<ssize_t>(size_of(i))) wrong("a chunk was not written: " + std::to_string(count));
  });
  memory.fill(0x5a);
  on_pool(kThreads, kChunks, [&](std::size_t i) {
    const Bytes file = content_of(path_of(i));
    require(file.size() == kHeader + size_of(i), "a chunk's file has another size");
    require_same(header, std::span(file).first(kHeader), "the header");
    require_same(std::span(content).subspan(i * kRoom, size_of(i)), std::span(file).subspan(kHeader), "a chunk's file");
    const Chunk chunk(library, path_of(i), O_RDONLY | direct);
    const ssize_t count =
        library.read(chunk.get(), memory.address(), size_of(i), kHeader, static_cast<off_t>(i * kRoom));
    if (count != static_cast<ssize_t>(size_of(i))) wrong("a chunk was not read: " + std::to_string(count));
  });
  for (std::size_t i = 0; i < kChunks; ++i) {
    require_same(std::span(content).subspan(i * kRoom, size_of(i)), memory.get(i * kRoom, size_of(i)), "a chunk");
    require_same(Bytes(kRoom - size_of(i), 0x5a), memory.get(i * kRoom + size_of(i), kRoom - size_of(i)),
                 "what lies behind a chunk");
  }
  succeed(library.buffer_deregister(memory.address()), "cuFileBufDeregister");
}

void caller(const Place& place) {
  const Library library;
  succeed(library.open(), "cuFileDriverOpen");
  chunks(library, place, O_DIRECT);
  chunks(library, place, 0);
  // It never closes the driver.
}

}  // namespace
}  // namespace sluice::callers

int main(int argc, char** argv) {
  return sluice::callers::play(argc, argv, sluice::callers::caller);
}
