// SPDX-License-Identifier: Apache-2.0
// What the probe can be asked: each verb prints rows, named after the row it is given.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace sluice::lab {

// What transfers between device memory and a target are expected to do.
struct Expectation {
  enum class Kind : std::uint8_t {
    direct,   // the bytes are right, and another drive's DMA moved them
    copied,   // the bytes are right, and no drive's DMA reached device memory
    right,    // the bytes are right; which way they went is not asked
    refused,  // `error`, and nothing moves
    lost,     // full success is reported, and the bytes have not arrived
  };
  Kind kind = Kind::direct;
  ssize_t error = 0;
  // How often the array below the target stores each byte.
  unsigned mirrors = 1;
};

// "direct", "direct*2" (two mirrors), "copied", "right", "lost", or the name of an errno. Throws std::invalid_argument.
Expectation expectation_of(const std::string& word);

struct Expectations {
  Expectation reads;
  Expectation writes;
  Expectation sector_reads;  // into memory that is aligned to 512 bytes and not to 4096
};

// "READS", "READS/WRITES" or "READS/WRITES/SECTOR-READS"; what is left out is as the word before it, but for sector
// reads, which are as reads.
Expectations expectations_of(const std::string& words);

// Reads and writes of every kind between device memory and a block device or file, opened with O_DIRECT.
void transfers(const std::string& name, const std::string& target, const Expectations& expectations);

// One read of 16 MiB.
void large_transfer(const std::string& name, const std::string& target);

// Transfers to a new file in the folder at its ends, its holes and out of alignment; `file_system` is "ext4", ...
void edges(const std::string& name, const std::string& folder, const std::string& file_system);

// What mapping and pinning device memory refuses.
void limits(const std::string& name);

// Reads by a ring that polls: "direct" where the drive has queues for that, else the name of an errno.
void polled(const std::string& name, const std::string& target, const Expectation& expectation);

// A read command handed to the drive by ioctl; `node` is the drive's character device.
void passthrough(const std::string& name, const std::string& node, const std::string& drive);

}  // namespace sluice::lab
