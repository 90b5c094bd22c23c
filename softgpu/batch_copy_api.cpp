// SPDX-License-Identifier: Apache-2.0
// Entry points that take many copies at once.
#include "answer.h"
#include "copy.h"
#include "entry_points.h"

namespace sluice::softgpu {

namespace {

struct Batch {
  Ptr* to;
  Ptr* from;
  std::size_t* sizes;
  std::size_t count;
  cuda::CopyAttributes* attributes;
  std::size_t* firsts;  // of the copies that each attribute is for
  std::size_t attribute_count;
};

// Which copy is to blame; `no_copy` where none is.
constexpr std::size_t no_copy = ~std::size_t{0};

void check(const Batch& batch) {
  require(batch.count != 0 && batch.to != nullptr && batch.from != nullptr && batch.sizes != nullptr);
  require(batch.attribute_count != 0 && batch.attributes != nullptr && batch.firsts != nullptr);
  require(batch.attribute_count <= batch.count && batch.firsts[0] == 0);
  for (std::size_t index = 0; index < batch.attribute_count; ++index) {
    const int source = batch.attributes[index].source_access;
    require(source >= cuda::source_in_stream_order && source <= cuda::source_at_any_time);
    require(batch.firsts[index] < batch.count && (index == 0 || batch.firsts[index] > batch.firsts[index - 1]));
  }
}

cuda::Result move(const char* name, const Batch& batch, std::size_t* failed, cuda::Stream stream) {
  return answer(name, [&] {
    check(batch);
    const StreamUse use = use_stream(stream);
    require(use.stream->kind() != StreamKind::legacy);
    require(!use.captured(), cuda::error_stream_capture_unsupported);  // the capture goes on without it
    std::vector<PlannedCopy> copies;
    std::size_t attribute = 0;
    for (std::size_t index = 0; index < batch.count; ++index) {
      if (attribute + 1 < batch.attribute_count && batch.firsts[attribute + 1] == index) ++attribute;
      if (failed != nullptr) *failed = index;
      require(batch.sizes[index] != 0);
      copies.push_back({place_of(batch.to[index], batch.sizes[index]), place_of(batch.from[index], batch.sizes[index]),
                        static_cast<cuda::SourceAccess>(batch.attributes[attribute].source_access)});
    }
    if (failed != nullptr) *failed = no_copy;
    copy_batch(use, std::move(copies));
  });
}

}  // namespace

cuda::Result cuMemcpyBatchAsync(Ptr* to, Ptr* from, std::size_t* sizes, std::size_t count,
                                cuda::CopyAttributes* attributes, std::size_t* firsts, std::size_t attribute_count,
                                std::size_t* failed, cuda::Stream stream) {
  return move(__func__, {to, from, sizes, count, attributes, firsts, attribute_count}, failed, stream);
}

cuda::Result cuMemcpyBatchAsync_ptsz(Ptr* to, Ptr* from, std::size_t* sizes, std::size_t count,
                                     cuda::CopyAttributes* attributes, std::size_t* firsts, std::size_t attribute_count,
                                     std::size_t* failed, cuda::Stream stream) {
  return move("cuMemcpyBatchAsync", {to, from, sizes, count, attributes, firsts, attribute_count}, failed,
              per_thread_if_null(stream));
}

cuda::Result cuMemcpyBatchAsync_v2(Ptr* to, Ptr* from, std::size_t* sizes, std::size_t count,
                                   cuda::CopyAttributes* attributes, std::size_t* firsts, std::size_t attribute_count,
                                   cuda::Stream stream) {
  return move(__func__, {to, from, sizes, count, attributes, firsts, attribute_count}, nullptr, stream);
}

cuda::Result cuMemcpyBatchAsync_v2_ptsz(Ptr* to, Ptr* from, std::size_t* sizes, std::size_t count,
                                        cuda::CopyAttributes* attributes, std::size_t* firsts,
                                        std::size_t attribute_count, cuda::Stream stream) {
  return move("cuMemcpyBatchAsync", {to, from, sizes, count, attributes, firsts, attribute_count}, nullptr,
              per_thread_if_null(stream));
}

}  // namespace sluice::softgpu
