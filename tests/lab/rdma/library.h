// SPDX-License-Identifier: Apache-2.0
// What lab_rdma_cufile shows by the library, each in a file of its own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "client/client.h"
#include "support/calls.h"

namespace sluice::lab {

// Rows begin with this name; the folder is the server's.
struct Shown {
  std::string name;
  std::string folder;
  rdma_files::Client& client;
};

// So much both ways between device memory and a file, each byte compared, and what it has cost.
void moves(const Shown& shown, std::uint64_t mebibytes, const std::string& port);

// Buffers that go while they are in use, and a server that stops and goes on.
void revoked(const Shown& shown, pid_t server);

// "" where all of `wanted` was moved.
std::string not_moved(support::Transfer got, std::size_t wanted);

}  // namespace sluice::lab
