// SPDX-License-Identifier: Apache-2.0
// The kernel copies within this process and checks the addresses as it goes.
#include "transfer/host_copy.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/unique_fd.h"

namespace sluice::transfer {

namespace {

using VmCall = ssize_t (*)(pid_t, const struct iovec*, unsigned long, const struct iovec*, unsigned long,
                           unsigned long);

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

// Where a sandbox forbids that: into a pipe, and out of it again. A file in memory would be bound by the process's
// limit for files.
Commit through_a_pipe(const std::byte* from, std::byte* to, std::size_t size) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return Commit::forbidden;
  const base::UniqueFd out(ends[0]);
  const base::UniqueFd in(ends[1]);
  const auto refused = [] { return errno == EFAULT ? Commit::fault : Commit::forbidden; };
  for (std::size_t done = 0; done < size;) {
    const ssize_t put = ::write(in.get(), from + done, size - done);  // as much as a pipe holds
    if (put <= 0) return refused();
    for (const std::size_t end = done + static_cast<std::size_t>(put); done < end;) {
      const ssize_t got = ::read(out.get(), to + done, end - done);
      if (got <= 0) return refused();
      done += static_cast<std::size_t>(got);
    }
  }
  return Commit::copied;
}

// Where that is forbidden, too, memory is touched as any program would touch it.
Commit in_a_sandbox(const std::byte* from, std::byte* to, std::size_t size) {
  const Commit commit = through_a_pipe(from, to, size);
  if (commit == Commit::forbidden) std::memcpy(to, from, size);
  return commit;
}

base::Outcome answer(Commit commit, std::size_t size) {
  return commit == Commit::fault ? base::Outcome::system_error(EFAULT) : base::Outcome::bytes(size);
}

}  // namespace

base::Outcome copy_to_caller(std::uint64_t address, std::span<const std::byte> from) noexcept {
  Commit commit = transfer(&::process_vm_writev, const_cast<std::byte*>(from.data()), address, from.size());
  if (commit == Commit::forbidden) {
    commit = in_a_sandbox(from.data(), reinterpret_cast<std::byte*>(address), from.size());
  }
  return answer(commit, from.size());
}

base::Outcome copy_from_caller(std::span<std::byte> to, std::uint64_t address) noexcept {
  Commit commit = transfer(&::process_vm_readv, to.data(), address, to.size());
  if (commit == Commit::forbidden) {
    commit = in_a_sandbox(reinterpret_cast<const std::byte*>(address), to.data(), to.size());
  }
  return answer(commit, to.size());
}

}  // namespace sluice::transfer
