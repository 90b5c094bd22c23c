// SPDX-License-Identifier: Apache-2.0
// How a load moves its bytes: by plain system calls, or by the library.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace sluice::lab {

// Used by one thread. Both calls move all the bytes, or throw.
class Client {
 public:
  Client() = default;
  virtual ~Client() = default;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  virtual void read(std::span<std::byte> memory, off_t offset) = 0;
  virtual void write(std::span<const std::byte> memory, off_t offset) = 0;
};

// "pread": O_DIRECT and ordinary memory. "cufile": the library, on device memory where there is a device; `memory` is
// copied from and to it. `length` is the longest transfer. Throws std::invalid_argument for any other name.
std::unique_ptr<Client> make_client(const std::string& name, const std::string& target, std::size_t length);

}  // namespace sluice::lab
