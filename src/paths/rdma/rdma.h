// SPDX-License-Identifier: Apache-2.0
// The path `rdma`: files whose handle came with operations of its own, and memory that these have moved by RDMA.
#pragma once

#include "paths/path.h"

namespace sluice::paths {

// For memory of registered buffers. What the file system does not do by RDMA, the path `userspace` goes on with.
class Rdma final : public Path {
 public:
  constexpr Rdma() noexcept : Path({.id = SLUICE_PATH_RDMA, .taken = SLUICE_REASON_SERVED_BY_RDMA, .hands_on = true}) {}

  std::unique_ptr<SessionAttachment> of_session(const Options& options) const override;
  std::unique_ptr<Attachment> of_file(const File& file, SessionAttachment* session) const override;
  std::unique_ptr<Attachment> of_buffer(std::uint64_t address, std::uint64_t size, const facts::BufferFacts& facts,
                                        const Options& options) const override;
  bool concerns(const File& file) const noexcept override;
  std::optional<route::Reason> refuses(const Facts& facts) const noexcept override;
  route::Cutting cutting(const Facts& facts) const noexcept override;
  void try_out(const Ends& ends, Need need) const noexcept override;
  void move(std::span<Item> items, Completion& completion) const noexcept override;
  std::string words(const Facts& facts) const override;
};

extern const Rdma rdma_path;

}  // namespace sluice::paths
