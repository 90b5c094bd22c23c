// SPDX-License-Identifier: Apache-2.0
// Transfers in the order of a stream. Streams live as long as the actors: to destroy one in use is the caller's fault.
#include <algorithm>
#include <atomic>
#include <cerrno>

#include "fuzz/families.h"
#include "support/calls.h"

namespace sluice::fuzz {
namespace {

// What a call points to, in memory that a stream may write.
struct Arguments {
  std::size_t size;
  off_t file_offset;
  off_t buffer_offset;
  ssize_t moved;
};

constexpr ssize_t kUntouched = -77;

CUstream any_stream(Actor& actor) {
  // The stream of this actor, the default stream, and its two spellings.
  switch (actor.draw(4)) {
    case 0:
      return nullptr;
    case 1:
      return reinterpret_cast<CUstream>(std::uintptr_t{1} + actor.draw(2));
    default:
      return actor.stream();
  }
}

// A default stream is one of the current context; without one it is none.
bool has_no_context(CUstream stream) {
  support::CudaContext current = nullptr;
  return reinterpret_cast<std::uintptr_t>(stream) <= 2 &&
         (support::cuda()->context_current(&current) != 0 || current == nullptr);
}

void expect_refusal(Actor& actor, CUfileError_t answer, CUfileHandle_t handle, CUstream stream) {
  constexpr int invalid_context = 201;
  const bool possible = answer.err == CU_FILE_HANDLE_NOT_REGISTERED ||
                        (answer.err == CU_FILE_INVALID_VALUE && handle == nullptr) ||
                        (answer.err == CU_FILE_CUDA_DRIVER_ERROR &&
                         static_cast<int>(answer.cu_err) == invalid_context && has_no_context(stream));
  actor.require(possible, joined("answered ", static_cast<int>(answer.err), " with ", static_cast<int>(answer.cu_err)));
}

// By a handle that had been deregistered: nothing was put into the stream, which may be none at all.
bool was_refused_at_once(Arguments& arguments) {
  return std::atomic_ref(arguments.moved).load() == -CU_FILE_HANDLE_NOT_REGISTERED;
}

Entrance& entrance_of(Actor& actor, Nature nature) {
  auto& all = actor.world().entrances();
  for (;;) {
    Entrance& drawn = actor.any(all);
    if (drawn.nature == nature) return drawn;
  }
}

}  // namespace

void read_on_stream(Actor& actor) {
  if (support::cuda() == nullptr) return;
  const Entrance& entrance = entrance_of(actor, Nature::truth);
  const Bytes& content = *entrance.content;
  const support::Memory& memory = actor.memory();
  const CUfileHandle_t handle = entrance.handle;
  const CUstream stream = any_stream(actor);
  auto& arguments = *static_cast<Arguments*>(actor.staging());
  arguments = {actor.any_size(), static_cast<off_t>(actor.draw(content.size() + 5000)),
               static_cast<off_t>(actor.draw(9000)), kUntouched};
  const CUfileError_t answer =
      actor.call("cuFileReadAsync",
                 joined(entrance.name, ", ", support::name_of(memory.kind()), ", size ", arguments.size, " at ",
                        arguments.file_offset),
                 [&] {
                   return cuFileReadAsync(handle, memory.address(), &arguments.size, &arguments.file_offset,
                                          &arguments.buffer_offset, &arguments.moved, stream);
                 });
  if (answer.err != CU_FILE_SUCCESS) {
    expect_refusal(actor, answer, handle, stream);
    const bool nothing = arguments.size == 0 && arguments.moved == 0;
    actor.require(arguments.moved == kUntouched || arguments.moved == -EINVAL || nothing,
                  "a refused call wrote another count");
    return;
  }
  if (was_refused_at_once(arguments)) return;
  // Of no bytes, no handle and no stream are looked at.
  const bool is_over = support::cuda()->stream_synchronize(stream) == 0;
  actor.require(is_over || arguments.size == 0, "the stream is broken");
  if (arguments.moved < 0) {
    actor.require(arguments.moved == -CU_FILE_INVALID_MAPPING_SIZE || arguments.moved == -CU_FILE_HANDLE_NOT_REGISTERED,
                  joined("the count is ", arguments.moved));
    return;
  }
  const std::size_t offset = std::min(content.size(), static_cast<std::size_t>(arguments.file_offset));
  const std::size_t wanted = std::min(arguments.size, content.size() - offset);
  actor.require(arguments.moved == static_cast<ssize_t>(wanted), joined(arguments.moved, " bytes, not ", wanted));
  const Bytes found = memory.get(static_cast<std::size_t>(arguments.buffer_offset), wanted);
  actor.require(std::equal(found.begin(), found.end(), content.begin() + static_cast<std::ptrdiff_t>(offset)),
                "a stream brought wrong bytes");
}

void write_on_stream(Actor& actor) {
  if (support::cuda() == nullptr) return;
  const Entrance& entrance = entrance_of(actor, Nature::slices);
  Bytes& model = actor.slice(entrance);
  const support::Memory& memory = actor.memory();
  const CUfileHandle_t handle = entrance.handle;
  const CUstream stream = any_stream(actor);
  const std::size_t within = actor.draw(World::kSliceSize);
  auto& arguments = *static_cast<Arguments*>(actor.staging());
  arguments = {std::min(actor.any_size(), World::kSliceSize - within),
               static_cast<off_t>(actor.slice_offset() + within), static_cast<off_t>(actor.draw(9000)), kUntouched};
  const Bytes fresh = support::random_bytes(arguments.size, actor.draw(1U << 31U));
  memory.put(static_cast<std::size_t>(arguments.buffer_offset), fresh);
  const CUfileError_t answer = actor.call(
      "cuFileWriteAsync", joined(entrance.name, ", size ", arguments.size, " at ", arguments.file_offset), [&] {
        return cuFileWriteAsync(handle, memory.address(), &arguments.size, &arguments.file_offset,
                                &arguments.buffer_offset, &arguments.moved, stream);
      });
  if (answer.err == CU_FILE_SUCCESS && !was_refused_at_once(arguments)) {
    // Of no bytes, no handle and no stream are looked at.
    const bool is_over = support::cuda()->stream_synchronize(stream) == 0;
    actor.require(is_over || arguments.size == 0, "the stream is broken");
    if (arguments.moved >= 0) {
      actor.require(arguments.moved == static_cast<ssize_t>(fresh.size()), joined("a short write: ", arguments.moved));
      std::copy(fresh.begin(), fresh.end(), model.begin() + static_cast<std::ptrdiff_t>(within));
    } else {
      actor.require(
          arguments.moved == -CU_FILE_INVALID_MAPPING_SIZE || arguments.moved == -CU_FILE_HANDLE_NOT_REGISTERED,
          joined("the count is ", arguments.moved));
    }
  } else if (answer.err != CU_FILE_SUCCESS) {
    expect_refusal(actor, answer, handle, stream);
  }
  const Bytes found = support::plain_read(actor.world().plain_fd(entrance), actor.slice_offset(), World::kSliceSize);
  actor.require(found == model, "the file does not hold what this actor wrote into its slice");
  model = found;
}

void use_stream_wrongly(Actor& actor) {
  const Entrance& entrance = entrance_of(actor, Nature::truth);
  auto& arguments = *static_cast<Arguments*>(actor.staging());
  arguments = {1 + actor.draw(5000), 0, 0, kUntouched};
  CUfileHandle_t handle = entrance.handle;
  void* base = actor.memory().address();
  std::size_t* size = &arguments.size;
  off_t* file_offset = &arguments.file_offset;
  off_t* buffer_offset = &arguments.buffer_offset;
  ssize_t* moved = &arguments.moved;
  const std::uint64_t which = actor.draw(8);
  switch (which) {
    case 0:
      handle = nullptr;
      break;
    case 1:
      base = nullptr;
      break;
    case 2:
      size = nullptr;
      break;
    case 3:
      file_offset = nullptr;
      break;
    case 4:
      buffer_offset = nullptr;
      break;
    case 5:
      moved = nullptr;
      break;
    case 6:
      handle = actor.world().dead_handle(actor.draw(64));
      break;
    default:
      handle = reinterpret_cast<CUfileHandle_t>(actor.any_number() | 1U << 31U);
  }
  const CUfileError_t answer = actor.call("cuFileReadAsync", joined("wrong in ", which), [&] {
    return cuFileReadAsync(handle, base, size, file_offset, buffer_offset, moved, actor.stream());
  });
  if (which == 6) {  // it has been registered once
    actor.expect(answer, {CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE});
  } else {
    actor.expect(answer, {CU_FILE_INVALID_VALUE});
  }
  const ssize_t told = answer.err == CU_FILE_SUCCESS ? -CU_FILE_HANDLE_NOT_REGISTERED : -EINVAL;
  actor.require(arguments.moved == (moved == nullptr ? kUntouched : told), joined("the count is ", arguments.moved));
}

void register_stream(Actor& actor) {
  const CUstream stream = any_stream(actor);
  const auto flags = static_cast<unsigned>(actor.one_in(4) ? actor.any_number() : actor.draw(16));
  const CUfileError_t answer =
      actor.call("cuFileStreamRegister", joined("flags ", flags), [&] { return cuFileStreamRegister(stream, flags); });
  actor.expect(answer, {CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE});
}

void deregister_stream(Actor& actor) {
  const CUstream stream = any_stream(actor);
  actor.expect(actor.call("cuFileStreamDeregister", "", [&] { return cuFileStreamDeregister(stream); }),
               {CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE});
}

}  // namespace sluice::fuzz
