// SPDX-License-Identifier: Apache-2.0
#include "server/mover.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace rdma_files {

namespace {

// As much as there is before the end of the file; throws what pread says.
std::uint64_t read_file(int fd, std::uint8_t* into, std::uint64_t length, std::uint64_t offset) {
  std::uint64_t done = 0;
  while (done < length) {
    const ssize_t got = ::pread(fd, into + done, length - done, static_cast<off_t>(offset + done));
    if (got == 0) break;
    if (got > 0) done += static_cast<std::uint64_t>(got);
    if (got < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "pread");
  }
  return done;
}

void write_file(int fd, const std::uint8_t* from, std::uint64_t length, std::uint64_t offset) {
  std::uint64_t done = 0;
  while (done < length) {
    const ssize_t put = ::pwrite(fd, from + done, length - done, static_cast<off_t>(offset + done));
    if (put > 0) done += static_cast<std::uint64_t>(put);
    if (put == 0) throw std::system_error(ENOSPC, std::generic_category(), "pwrite");
    if (put < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "pwrite");
  }
}

}  // namespace

Mover::Mover(const std::shared_ptr<Device>& device, const Peer& client, std::chrono::milliseconds time, Counts& counts)
    : client_(client),
      time_(time),
      counts_(counts),
      memory_(kChunks * kChunk),
      region_(device->registered(memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE)),
      // The client's adapter may do nothing with the server's memory.
      pair_(device, kChunks + 1, Exposure::nothing),
      own_(pair_.own()) {
  pair_.link(client);
  thread_ = std::thread([this] { run(); });
}

Mover::~Mover() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (!lost_) pair_.break_off();
  thread_.join();
}

bool Mover::take(Job job) {
  const std::scoped_lock lock(mutex_);
  if (waiting_.size() >= kWaiting || ending_) return false;
  waiting_.push_back(std::move(job));
  changed_.notify_all();
  return true;
}

void Mover::run() {
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
      if (ending_) return;
      job = std::move(waiting_.front());
      waiting_.pop_front();
    }
    const Result result = move(job);
    ++counts_.transfers;
    (job.transfer.direction == Direction::read ? counts_.bytes_read : counts_.bytes_written) += result.bytes;
    job.done(result);
  }
}

Mover::Result Mover::move(const Job& job) {
  if (lost_) return {.error = ENOTCONN, .link_lost = true};
  Result result;
  try {
    result = job.transfer.direction == Direction::read ? read_into_client(job) : write_from_client(job);
    return result;
  } catch (const std::system_error& error) {
    result.error = error.code().value();
  }
  // What is on its way comes to its end before the answer; where it does not, the link is what makes sure of that.
  try {
    while (on_their_way_ > 0) wait();
  } catch (const std::system_error& error) {
    if (!lost_) result.error = error.code().value();
  }
  result.link_lost = lost_;
  if (lost_) {
    pair_.unlink();
    ++(result.error == EACCES ? counts_.refused_keys : counts_.lost_links);
  }
  return result;
}

void Mover::post(ibv_wr_opcode operation, std::size_t slot, std::uint64_t remote, std::uint64_t length,
                 std::uint32_t key) {
  pair_.post({.operation = operation,
              .local = memory_.data() + slot * kChunk,
              .local_key = region_->lkey,
              .length = static_cast<std::uint32_t>(length),
              .remote = remote,
              .remote_key = key});
  ++(operation == IBV_WR_RDMA_READ ? counts_.rdma_reads : counts_.rdma_writes);
  ++on_their_way_;
}

void Mover::wait() {
  try {
    --on_their_way_;
    pair_.wait(after(time_));
  } catch (const std::system_error&) {
    on_their_way_ = 0;
    lost_ = true;
    throw;
  }
}

Mover::Result Mover::read_into_client(const Job& job) {
  const Transfer& asked = job.transfer;
  const std::uint64_t remote = part_of(asked.token, asked.into, asked.length).value();
  std::uint64_t done = 0;
  for (std::size_t slot = 0; done < asked.length; slot = (slot + 1) % kChunks) {
    // The oldest of them has this slot.
    if (on_their_way_ == kChunks) wait();
    const std::uint64_t wanted = std::min<std::uint64_t>(kChunk, asked.length - done);
    const std::uint64_t got =
        read_file(job.file->fd.get(), memory_.data() + slot * kChunk, wanted, asked.offset + done);
    if (got > 0) post(IBV_WR_RDMA_WRITE, slot, remote + done, got, asked.token.key);
    done += got;
    if (got < wanted) break;
  }
  if (done > 0) {
    while (on_their_way_ > 0) wait();
    post(IBV_WR_RDMA_READ, 0, remote + done - 1, 1, asked.token.key);
    wait();
  }
  return {.bytes = done};
}

Mover::Result Mover::write_from_client(const Job& job) {
  const Transfer& asked = job.transfer;
  if (!job.file->writable) return {.error = EBADF};
  const std::uint64_t remote = part_of(asked.token, asked.into, asked.length).value();
  std::uint64_t posted = 0;
  std::uint64_t done = 0;
  for (std::size_t next = 0, oldest = 0; done < asked.length; oldest = (oldest + 1) % kChunks) {
    for (; posted < asked.length && on_their_way_ < kChunks; next = (next + 1) % kChunks) {
      const std::uint64_t length = std::min<std::uint64_t>(kChunk, asked.length - posted);
      post(IBV_WR_RDMA_READ, next, remote + posted, length, asked.token.key);
      posted += length;
    }
    wait();
    const std::uint64_t length = std::min<std::uint64_t>(kChunk, asked.length - done);
    write_file(job.file->fd.get(), memory_.data() + oldest * kChunk, length, asked.offset + done);
    done += length;
  }
  return {.bytes = done};
}

}  // namespace rdma_files
