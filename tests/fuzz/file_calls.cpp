// SPDX-License-Identifier: Apache-2.0
// Registering and deregistering descriptors.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz/enumerators.h"
#include "fuzz/families.h"

namespace sluice::fuzz {
namespace {

CUfileDescr_t description_of(const Entrance& entrance) {
  CUfileDescr_t description{};
  description.type = entrance.operations != nullptr ? CU_FILE_HANDLE_TYPE_USERSPACE_FS : CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = entrance.fd;
  description.fs_ops = entrance.operations;
  return description;
}

// Registers `fd` as an ordinary descriptor; nothing is kept.
void expect_refused(Actor& actor, const char* what, int fd, std::initializer_list<int> allowed) {
  CUfileDescr_t description{};
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = fd;
  CUfileHandle_t handle = &handle;
  actor.expect(actor.call("cuFileHandleRegister", what, [&] { return cuFileHandleRegister(&handle, &description); }),
               allowed);
  actor.require(handle == &handle, "a refusal wrote to the handle's place");
}

// A pipe, a socket, a folder, a device, a pseudo file, a file opened to append.
support::Fd wrong_descriptor(std::uint64_t kind, const std::string& folder) {
  int pair[2] = {-1, -1};
  switch (kind) {
    case 0:
      if (pipe2(pair, O_CLOEXEC) == 0) close(pair[1]);
      return support::Fd(pair[0]);
    case 1:
      return support::Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    case 2:
      return support::Fd(open(folder.c_str(), O_RDONLY | O_CLOEXEC));
    case 3:
      return support::Fd(open("/dev/null", O_RDWR | O_CLOEXEC));
    case 4:
      return support::Fd(open("/proc/self/status", O_RDONLY | O_CLOEXEC));
    default:
      return support::Fd(open(folder.c_str(), O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600));
  }
}

}  // namespace

void register_file(Actor& actor) {
  Entrance& entrance = actor.any(actor.world().entrances());
  CUfileDescr_t description = description_of(entrance);
  CUfileHandle_t handle = nullptr;
  const CUfileError_t answer =
      actor.call("cuFileHandleRegister", entrance.name, [&] { return cuFileHandleRegister(&handle, &description); });
  if (answer.err == CU_FILE_SUCCESS) {
    actor.require(handle != nullptr, "success without a handle");
    entrance.handle = handle;
    return;
  }
  if (entrance.nature == Nature::fickle) {
    // The number may mean anything by now.
    actor.expect(answer, {CU_FILE_INVALID_VALUE, CU_FILE_HANDLE_ALREADY_REGISTERED, CU_FILE_INVALID_FILE_TYPE,
                          CU_FILE_INVALID_FILE_OPEN_FLAG, CU_FILE_IO_NOT_SUPPORTED, CU_FILE_HANDLE_NOT_REGISTERED});
  } else {
    actor.expect(answer, {CU_FILE_HANDLE_ALREADY_REGISTERED});
  }
  actor.require(handle == nullptr, "a refusal wrote to the handle's place");
}

void register_wrong_file(Actor& actor) {
  CUfileHandle_t handle = nullptr;
  CUfileDescr_t description = description_of(actor.world().entrances().front());
  switch (actor.draw(6)) {
    case 0:
      actor.expect(
          actor.call("cuFileHandleRegister", "NULL, &", [&] { return cuFileHandleRegister(nullptr, &description); }),
          {CU_FILE_INVALID_VALUE});
      break;
    case 1:
      actor.expect(
          actor.call("cuFileHandleRegister", "&, NULL", [&] { return cuFileHandleRegister(&handle, nullptr); }),
          {CU_FILE_INVALID_VALUE});
      break;
    case 2: {
      const int type = actor.one_of({0, 2, 3, 4, -1, 1 << 20});
      description.type = number_as<CUfileFileHandleType>(type);
      description.fs_ops = nullptr;
      actor.expect(actor.call("cuFileHandleRegister", joined("type ", type),
                              [&] { return cuFileHandleRegister(&handle, &description); }),
                   {CU_FILE_IO_NOT_SUPPORTED});
      break;
    }
    case 3:
      expect_refused(actor, "a number that was never opened", actor.one_of({-1, -1000, 1 << 30, 1000000}),
                     {CU_FILE_INVALID_VALUE});
      break;
    default: {
      const std::uint64_t kind = actor.draw(6);
      const support::Fd fd = wrong_descriptor(kind, actor.world().folder());
      const int expected = kind < 4    ? CU_FILE_INVALID_FILE_TYPE
                           : kind == 4 ? CU_FILE_HANDLE_NOT_REGISTERED
                                       : CU_FILE_INVALID_FILE_OPEN_FLAG;
      if (fd.valid())
        expect_refused(actor, "a descriptor of the wrong kind", fd.get(),
                       {expected, CU_FILE_HANDLE_ALREADY_REGISTERED});  // the number, of a file before
    }
  }
}

void deregister_file(Actor& actor) {
  CUfileHandle_t handle = nullptr;
  const char* what = "NULL";
  switch (actor.draw(5)) {
    case 0:
      break;
    case 1:
      handle = reinterpret_cast<CUfileHandle_t>(actor.any_number());
      what = "garbage";
      break;
    case 2:
      handle = actor.world().dead_handle(actor.draw(64));
      what = "a dead handle";
      break;
    default: {
      // Only who takes it off deregisters it: then it is dead for certain.
      Entrance& entrance = actor.any(actor.world().entrances());
      handle = entrance.handle.exchange(nullptr);
      what = entrance.name.c_str();
      actor.call_only("cuFileHandleDeregister", what, [&] { cuFileHandleDeregister(handle); });
      actor.world().bury(handle);
      return;
    }
  }
  actor.call_only("cuFileHandleDeregister", what, [&] { cuFileHandleDeregister(handle); });
}

void renew_fickle_descriptor(Actor& actor) {
  Entrance& entrance = actor.any(actor.world().entrances());
  if (entrance.nature != Nature::fickle) return;
  const int fresh = actor.one_in(2) ? open(entrance.file->path().c_str(), entrance.flags | O_CLOEXEC) : -1;
  const int old = entrance.fd.exchange(fresh);
  if (old >= 0) close(old);
}

}  // namespace sluice::fuzz
