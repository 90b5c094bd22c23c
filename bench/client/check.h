// SPDX-License-Identifier: Apache-2.0
// Comparing what arrived with what should have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "client/files.h"
#include "client/gpu.h"
#include "client/row.h"

namespace sluice::bench {

// How many verified requests of that size are made in each thread: enough to matter, few enough to be quick.
unsigned checks_of(std::size_t size);

// Throws Trouble, with row and place, when the bytes are not the pattern of `offset` and `salt`.
void want_pattern(std::span<const std::byte> bytes, std::uint64_t offset, std::uint64_t salt, const Row& row);

// The same for memory of the device.
void want_device_pattern(const Gpu& gpu, DevicePtr memory, std::size_t size, std::uint64_t offset, const Row& row);

// The same for what was written to a file.
void want_file_pattern(const TestFile& file, std::uint64_t at, std::size_t size, std::uint64_t salt, const Row& row);

// Throws Trouble when so large a part of the file has no room for a request of the row.
void want_room(const TestFile& file, std::uint64_t part, const Row& row);

// Copies the bytes to the device; they are there when this returns, whatever stream looks next.
void fill_device(const Gpu& gpu, DevicePtr memory, std::span<const std::byte> bytes);

// Bytes that no pattern has there, so that a read that did nothing is noticed.
void poison(const Gpu& gpu, DevicePtr memory, std::size_t size);

}  // namespace sluice::bench
