// SPDX-License-Identifier: Apache-2.0
// Entry points that copy areas: rows of bytes at a pitch, and slices of rows.
#include <algorithm>

#include "answer.h"
#include "copy.h"
#include "entry_points.h"

namespace sluice::softgpu {

namespace {

// One end of such a copy: slices of `slice` rows at a distance of `pitch` bytes.
struct Area {
  unsigned type;
  Ptr base;
  std::size_t x = 0;
  std::size_t y = 0;
  std::size_t z = 0;
  std::size_t pitch = 0;
  std::size_t slice = 0;
};

struct Extent {
  std::size_t width;
  std::size_t height;
  std::size_t depth;

  bool empty() const { return width == 0 || height == 0 || depth == 0; }
};

Ptr base_of(unsigned type, const void* host, Ptr device) {
  require(type != cuda::memory_array, cuda::error_not_supported);
  require(type == cuda::memory_host || type == cuda::memory_device || type == cuda::memory_unified);
  return type == cuda::memory_host ? reinterpret_cast<Ptr>(host) : device;
}

// The bytes of the extent, a piece a row, or more where a row crosses from one mapping to the next.
Place rows_of(const Area& area, const Extent& extent) {
  const std::size_t pitch = area.pitch != 0 ? area.pitch : area.x + extent.width;
  const std::size_t slice = area.slice != 0 ? area.slice : area.y + extent.height;
  require(pitch >= area.x + extent.width);
  require(extent.depth == 1 || slice >= area.y + extent.height);
  const auto offset = [&](std::size_t row, std::size_t of_slice) { return (of_slice * slice + row) * pitch; };
  const Ptr first = area.base + offset(area.y, area.z) + area.x;
  const std::size_t reach = offset(extent.height - 1, extent.depth - 1) + extent.width;
  const Place place = area.type == cuda::memory_device ? device_place(first, reach) : place_of(first, reach);
  Place rows = place;
  rows.pieces.clear();
  rows.rows = extent.height * extent.depth;
  std::size_t piece = 0;     // of the whole
  std::uint64_t passed = 0;  // the bytes before that piece
  for (std::size_t slice_number = 0; slice_number < extent.depth; ++slice_number) {
    for (std::size_t row = 0; row < extent.height; ++row) {
      std::uint64_t at = offset(row, slice_number);
      std::uint64_t left = extent.width;
      while (left != 0) {
        while (at - passed >= place.pieces[piece].size) passed += place.pieces[piece++].size;
        const std::uint64_t within = at - passed;
        const std::uint64_t size = std::min(left, place.pieces[piece].size - within);
        rows.pieces.push_back({place.pieces[piece].bytes + within, size});
        at += size;
        left -= size;
      }
    }
  }
  return rows;
}

void move(const Area& to, const Area& from, const Extent& extent, cuda::Stream stream, CopyCall call) {
  const StreamUse use = use_stream(stream);
  if (extent.empty()) return;
  copy(use, rows_of(to, extent), rows_of(from, extent), call);
}

cuda::Result move_rows(const char* name, const cuda::Copy2D* wanted, cuda::Stream stream, CopyCall call) {
  return answer(name, [&] {
    require(wanted != nullptr);
    Area to{wanted->to_type, base_of(wanted->to_type, wanted->to_host, wanted->to_device)};
    to.x = wanted->to_x;
    to.y = wanted->to_y;
    to.pitch = wanted->to_pitch;
    Area from{wanted->from_type, base_of(wanted->from_type, wanted->from_host, wanted->from_device)};
    from.x = wanted->from_x;
    from.y = wanted->from_y;
    from.pitch = wanted->from_pitch;
    move(to, from, {wanted->width, wanted->height, 1}, stream, call);
  });
}

enum class Contexts { reserved, named };

cuda::Result move_slices(const char* name, const cuda::Copy3D* wanted, Contexts contexts, cuda::Stream stream,
                         CopyCall call) {
  return answer(name, [&] {
    require(wanted != nullptr);
    if (contexts == Contexts::named) {
      // With unified addressing the addresses say which device is meant; the contexts must only be ones.
      context_of(static_cast<cuda::Context>(wanted->to_context))->living_workspace();
      context_of(static_cast<cuda::Context>(wanted->from_context))->living_workspace();
    }
    Area to{wanted->to_type, base_of(wanted->to_type, wanted->to_host, wanted->to_device)};
    to.x = wanted->to_x;
    to.y = wanted->to_y;
    to.z = wanted->to_z;
    to.pitch = wanted->to_pitch;
    to.slice = wanted->to_height;
    Area from{wanted->from_type, base_of(wanted->from_type, wanted->from_host, wanted->from_device)};
    from.x = wanted->from_x;
    from.y = wanted->from_y;
    from.z = wanted->from_z;
    from.pitch = wanted->from_pitch;
    from.slice = wanted->from_height;
    move(to, from, {wanted->width, wanted->height, wanted->depth}, stream, call);
  });
}

}  // namespace

cuda::Result cuMemcpy2D_v2(const cuda::Copy2D* copy) {
  return move_rows(__func__, copy, default_stream, CopyCall::synchronous);
}

cuda::Result cuMemcpy2D_v2_ptds(const cuda::Copy2D* copy) {
  return move_rows("cuMemcpy2D", copy, per_thread_stream, CopyCall::synchronous);
}

cuda::Result cuMemcpy2DUnaligned_v2(const cuda::Copy2D* copy) {
  return move_rows(__func__, copy, default_stream, CopyCall::synchronous);
}

cuda::Result cuMemcpy2DUnaligned_v2_ptds(const cuda::Copy2D* copy) {
  return move_rows("cuMemcpy2DUnaligned", copy, per_thread_stream, CopyCall::synchronous);
}

cuda::Result cuMemcpy2DAsync_v2(const cuda::Copy2D* copy, cuda::Stream stream) {
  return move_rows(__func__, copy, stream, CopyCall::asynchronous);
}

cuda::Result cuMemcpy2DAsync_v2_ptsz(const cuda::Copy2D* copy, cuda::Stream stream) {
  return move_rows("cuMemcpy2DAsync", copy, per_thread_if_null(stream), CopyCall::asynchronous);
}

cuda::Result cuMemcpy3D_v2(const cuda::Copy3D* copy) {
  return move_slices(__func__, copy, Contexts::reserved, default_stream, CopyCall::synchronous);
}

cuda::Result cuMemcpy3D_v2_ptds(const cuda::Copy3D* copy) {
  return move_slices("cuMemcpy3D", copy, Contexts::reserved, per_thread_stream, CopyCall::synchronous);
}

cuda::Result cuMemcpy3DAsync_v2(const cuda::Copy3D* copy, cuda::Stream stream) {
  return move_slices(__func__, copy, Contexts::reserved, stream, CopyCall::asynchronous);
}

cuda::Result cuMemcpy3DAsync_v2_ptsz(const cuda::Copy3D* copy, cuda::Stream stream) {
  return move_slices("cuMemcpy3DAsync", copy, Contexts::reserved, per_thread_if_null(stream), CopyCall::asynchronous);
}

cuda::Result cuMemcpy3DPeer(const cuda::Copy3D* copy) {
  return move_slices(__func__, copy, Contexts::named, default_stream, CopyCall::synchronous);
}

cuda::Result cuMemcpy3DPeer_ptds(const cuda::Copy3D* copy) {
  return move_slices("cuMemcpy3DPeer", copy, Contexts::named, per_thread_stream, CopyCall::synchronous);
}

cuda::Result cuMemcpy3DPeerAsync(const cuda::Copy3D* copy, cuda::Stream stream) {
  return move_slices(__func__, copy, Contexts::named, stream, CopyCall::asynchronous);
}

cuda::Result cuMemcpy3DPeerAsync_ptsz(const cuda::Copy3D* copy, cuda::Stream stream) {
  return move_slices("cuMemcpy3DPeerAsync", copy, Contexts::named, per_thread_if_null(stream), CopyCall::asynchronous);
}

}  // namespace sluice::softgpu
