// SPDX-License-Identifier: Apache-2.0
// What the stand-in for libibverbs shows to tests beside its own functions: faults, what is alive, and the other side
// of a link, which reaches memory as an adapter would: by queue pair, key and range.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// The next `count` calls of that function fail with `error`; -1: all of them. "ibv_reg_mr", ...; a null name: none
// does.
void fake_verbs_fail(const char* function, int error, int count);
// Ports: 0 is fake0's only one (10.0.0.1), 1 and 2 are fake1's (10.0.1.1 and 10.0.1.2). All are up at first.
void fake_verbs_set_port(unsigned port, bool up);

struct FakeCounts {
  unsigned contexts, domains, completion_queues, queue_pairs, regions;
  unsigned regions_made, dma_buf_regions_made;
};
FakeCounts fake_verbs_counts();

// Reads or writes, by a queue pair's number, memory of its domain. 0, or what the sender is told: ENOTCONN: no such
// queue pair, or it is not connected; EACCES: no such key there, or not that right; ERANGE: outside of the region.
int fake_verbs_remote_write(std::uint32_t qp, std::uint32_t rkey, std::uint64_t address, const void* from,
                            std::size_t size);
int fake_verbs_remote_read(std::uint32_t qp, std::uint32_t rkey, std::uint64_t address, void* into, std::size_t size);

// What a queue pair was connected to: the other's number, 0 where it is not connected.
std::uint32_t fake_verbs_other_end(std::uint32_t qp);
}
