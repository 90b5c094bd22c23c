// SPDX-License-Identifier: Apache-2.0
// A client of our own at NVIDIA's kernel driver (resource manager, RM): objects of the program's CUDA are imported into
// it by descriptor, and nothing of the program's own state is touched. Only what gpu/uvm_provider.h needs; by the
// structures that the open kernel modules publish.
#pragma once

#include <cstdint>
#include <string>

#include "base/unique_fd.h"
#include "gpu/cuda_abi.h"

namespace sluice::gpu {

using RmHandle = std::uint32_t;

class RmClient {
 public:
  // Opens the control device, makes a client, and in it the device with this UUID. One step after the other; where one
  // is refused, refusal() says which and by what, and nothing else may be called.
  explicit RmClient(const cuda::Uuid& uuid);
  ~RmClient();
  RmClient(const RmClient&) = delete;
  RmClient& operator=(const RmClient&) = delete;

  const std::string& refusal() const noexcept { return refusal_; }

  struct Imported {
    RmHandle memory = 0;
    std::string refusal;  // empty when there is a memory
  };
  // The memory behind a descriptor that cuMemExportToShareableHandle gave. An allocation that the driver has made of
  // several pieces is refused: which bytes lie in which piece is not told.
  Imported import_memory(int fd);
  void free_object(RmHandle object) noexcept;

  int control_fd() const noexcept { return control_.get(); }
  RmHandle client() const noexcept { return client_; }

 private:
  struct Answer {
    int error = 0;             // errno of the call itself
    std::uint32_t status = 0;  // RM's
    bool ok() const noexcept { return error == 0 && status == 0; }
  };
  static std::string say(const char* step, const Answer& answer);
  Answer make_client() noexcept;
  Answer find_device(const cuda::Uuid& uuid, std::uint32_t& instance) noexcept;
  Answer make_object(RmHandle parent, RmHandle object, std::uint32_t kind, void* parameters,
                     std::uint32_t size) noexcept;
  Answer control(std::uint32_t command, void* parameters, std::uint32_t size) noexcept;
  Answer import_piece(int fd, std::uint16_t index, RmHandle object) noexcept;

  base::UniqueFd control_;
  RmHandle client_ = 0;
  RmHandle next_ = 0;
  std::string refusal_;
};

}  // namespace sluice::gpu
