// SPDX-License-Identifier: Apache-2.0
// The calls of GDRCopy over the soft GPU's memory, for the libgdrapi.so.2 that lies beside this library. Of each
// connection one call at a time, as with GDRCopy: nothing here keeps two threads apart.
#include <cerrno>
#include <map>
#include <memory>
#include <utility>

#include "address_space.h"
#include "answer.h"
#include "entry_points.h"
#include "gpu/gdr_abi.h"
#include "host_view.h"
#include "machine.h"

namespace sluice::softgpu {

namespace {

// As long as the memory is there.
struct Pinned {
  std::weak_ptr<DeviceStorage> storage;
  std::uint64_t start = 0;  // whole pages of the device
  std::uint64_t size = 0;
  std::shared_ptr<HostView> view;  // null while it is not mapped
  std::uint64_t mapped = 0;        // bytes of it
};

struct Opened {
  std::map<unsigned long, Pinned> pieces;
  unsigned long last = 0;
};

std::uint64_t in_host_pages(std::uint64_t size) {
  return (size + host_page_size() - 1) / host_page_size() * host_page_size();
}

Opened& opened(gdr::Connection* connection) {
  require(connection != nullptr);
  return *reinterpret_cast<Opened*>(connection);
}

Pinned& pinned(gdr::Connection* connection, gdr::Handle handle) {
  auto& pieces = opened(connection).pieces;
  const auto found = pieces.find(handle.value);
  require(found != pieces.end());
  return found->second;
}

template <typename Body>
int answer_errno(const char* name, Body&& body) noexcept {
  switch (answer(name, body)) {
    case cuda::success:
      return 0;
    case cuda::error_invalid_value:
      return EINVAL;
    case cuda::error_out_of_memory:
      return ENOMEM;
    case cuda::error_not_ready:
      return EAGAIN;
    case cuda::error_illegal_state:
      return EBUSY;
    case cuda::error_not_initialized:
      return ENODEV;
    default:
      return EIO;
  }
}

gdr::Connection* open_connection() {
  gdr::Connection* connection = nullptr;
  if (machine_was_lost()) return nullptr;
  answer_early("gdr_open", [&] { connection = reinterpret_cast<gdr::Connection*>(new Opened); });
  return connection;
}

int close_connection(gdr::Connection* connection) {
  return answer_errno("gdr_close", [&] { delete &opened(connection); });
}

// Memory of one cuMemAlloc alone, as a driver pins it without further ado. The pages around it come along.
int pin_buffer(gdr::Connection* connection, unsigned long address, std::size_t size, std::uint64_t /*token*/,
               std::uint32_t /*space*/, gdr::Handle* handle) {
  return answer_errno("gdr_pin_buffer", [&] {
    require(handle != nullptr && size != 0);
    const auto memory = machine().allocations.find(address);
    require(memory != nullptr && memory->kind == MemoryKind::device && size <= memory->end() - address);
    Pinned piece;
    piece.storage = std::static_pointer_cast<DeviceStorage>(memory->storage);
    piece.start = address / gdr::page * gdr::page;
    piece.size = (address + size + gdr::page - 1) / gdr::page * gdr::page - piece.start;
    Opened& all = opened(connection);
    handle->value = ++all.last;
    all.pieces.emplace(handle->value, std::move(piece));
  });
}

// GDRCopy wants the mapping gone before, and says nothing of one that is not: here that is an error.
int unpin_buffer(gdr::Connection* connection, gdr::Handle handle) {
  return answer_errno("gdr_unpin_buffer", [&] {
    require(pinned(connection, handle).view == nullptr, cuda::error_illegal_state);
    opened(connection).pieces.erase(handle.value);
  });
}

int get_info(gdr::Connection* connection, gdr::Handle handle, gdr::Info* info) {
  return answer_errno("gdr_get_info_v2", [&] {
    require(info != nullptr);
    const Pinned& piece = pinned(connection, handle);
    *info = {};
    info->start = piece.start;
    info->size = piece.size;
    info->page_size = gdr::page;
    info->mapped = piece.view != nullptr ? 1 : 0;
    info->mapping_type = piece.view != nullptr ? gdr::mapping_caching : gdr::mapping_none;
  });
}

int map_pinned(gdr::Connection* connection, gdr::Handle handle, void** address, std::size_t size) {
  return answer_errno("gdr_map", [&] {
    Pinned& piece = pinned(connection, handle);
    const std::uint64_t rounded = in_host_pages(size);
    require(address != nullptr && size != 0 && rounded <= piece.size);
    require(piece.view == nullptr, cuda::error_not_ready);
    const auto storage = piece.storage.lock();
    require(storage != nullptr);
    piece.view = storage->view_from(piece.start, rounded);
    piece.mapped = rounded;
    *address = piece.view->place();
  });
}

int unmap_pinned(gdr::Connection* connection, gdr::Handle handle, void* address, std::size_t size) {
  return answer_errno("gdr_unmap", [&] {
    Pinned& piece = pinned(connection, handle);
    require(piece.view != nullptr && piece.view->place() == address);
    require(in_host_pages(size) == piece.mapped);
    piece.view.reset();
  });
}

constexpr gdr::Calls calls{open_connection, close_connection, pin_buffer,  unpin_buffer,
                           get_info,        map_pinned,       unmap_pinned};

}  // namespace

const gdr::Calls* cuSluiceSoftGpuGdrCalls() {
  return &calls;
}

}  // namespace sluice::softgpu
