// SPDX-License-Identifier: Apache-2.0
// The control channel of examples/rdma-files: frames, requests and answers of another, and the tokens in them.
#include <algorithm>

#include "input.h"
#include "wire/frames.h"

using namespace sluice;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::uint8_t> bytes(data, size);
  if (const auto request = rdma_files::read_request(bytes)) {
    if (const auto* transfer = std::get_if<rdma_files::Transfer>(&request->what)) {
      fuzz::require(transfer->into + transfer->length <= transfer->token.size, "a transfer leaves its memory\n");
    }
    // Digits of tokens have two cases; all else comes out as it went in.
    const rdma_files::Payload again = rdma_files::packed(*request);
    fuzz::require(again.size() == size && rdma_files::read_request(again).has_value(),
                  "a request has another form, too\n");
  }
  if (const auto answer = rdma_files::read_answer(bytes)) {
    fuzz::require(std::ranges::equal(rdma_files::packed(*answer), bytes), "an answer has another form, too\n");
  }
  static_cast<void>(rdma_files::read_token(fuzz::text_of(data, size)));
  if (size >= rdma_files::kFrameHead) {
    const auto rest = rdma_files::FrameKey::rest_length(bytes.first<rdma_files::kFrameHead>());
    fuzz::require(!rest || *rest <= rdma_files::kMostPayload + rdma_files::kTagLength, "a frame without bounds\n");
  }
  static constexpr std::array<std::uint8_t, 16> kSecret{1};
  rdma_files::FrameKey key(kSecret, rdma_files::Role::client, {}, {});
  static_cast<void>(key.open(bytes));
  return 0;
}
