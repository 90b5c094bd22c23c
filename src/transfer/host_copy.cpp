// SPDX-License-Identifier: Apache-2.0
// The kernel copies within this process and checks the addresses as it goes.
#include "transfer/host_copy.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace sluice::transfer {

namespace {

using VmCall = ssize_t (*)(pid_t, const struct iovec*, unsigned long, const struct iovec*, unsigned long,
                           unsigned long);

// Where a sandbox forbids the call, memory is touched as any program would touch it.
enum class Commit { copied, fault, forbidden };

Commit transfer(VmCall move, std::byte* ours, std::uint64_t theirs, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const struct iovec local { ours + done, size - done };
    const struct iovec remote { reinterpret_cast<void*>(theirs + done), size - done };
    const ssize_t moved = move(::getpid(), &local, 1, &remote, 1, 0);
    if (moved < 0) return errno == EFAULT ? Commit::fault : Commit::forbidden;
    if (moved == 0) return Commit::fault;
    done += static_cast<std::size_t>(moved);
  }
  return Commit::copied;
}

base::Outcome answer(Commit commit, std::size_t size) {
  return commit == Commit::fault ? base::Outcome::system_error(EFAULT) : base::Outcome::bytes(size);
}

}  // namespace

base::Outcome copy_to_caller(std::uint64_t address, std::span<const std::byte> from) noexcept {
  const Commit commit = transfer(&::process_vm_writev, const_cast<std::byte*>(from.data()), address, from.size());
  if (commit == Commit::forbidden) std::memcpy(reinterpret_cast<void*>(address), from.data(), from.size());
  return answer(commit, from.size());
}

base::Outcome copy_from_caller(std::span<std::byte> to, std::uint64_t address) noexcept {
  const Commit commit = transfer(&::process_vm_readv, to.data(), address, to.size());
  if (commit == Commit::forbidden) std::memcpy(to.data(), reinterpret_cast<const void*>(address), to.size());
  return answer(commit, to.size());
}

}  // namespace sluice::transfer
