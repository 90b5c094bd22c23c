// SPDX-License-Identifier: Apache-2.0
// The calls, and their structures in our own words. Sizes and offsets are the kernel's, so they are asserted.
#include "gpu/rm_client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace sluice::gpu {

namespace {

constexpr const char* control_device = "/dev/nvidiactl";

struct FreeCall {
  std::uint32_t root;
  std::uint32_t parent;
  std::uint32_t object;
  std::uint32_t status;
};
static_assert(sizeof(FreeCall) == 16);

struct MakeCall {
  std::uint32_t root;
  std::uint32_t parent;
  std::uint32_t object;
  std::uint32_t kind;
  std::uint64_t parameters;
  std::uint32_t size;
  std::uint32_t status;
};
static_assert(sizeof(MakeCall) == 32);

struct ControlCall {
  std::uint32_t client;
  std::uint32_t object;
  std::uint32_t command;
  std::uint32_t flags;
  std::uint64_t parameters;
  std::uint32_t size;
  std::uint32_t status;
};
static_assert(sizeof(ControlCall) == 32);

constexpr unsigned long free_call = _IOWR('F', 0x29, FreeCall);
constexpr unsigned long control_call = _IOWR('F', 0x2a, ControlCall);
constexpr unsigned long make_call = _IOWR('F', 0x2b, MakeCall);

// Kinds of objects.
constexpr std::uint32_t root_client = 0x41;
constexpr std::uint32_t device_object = 0x80;
constexpr std::uint32_t subdevice_object = 0x2080;

struct DeviceParameters {
  std::uint32_t instance;
  std::uint32_t share;
  std::uint32_t target_client;
  std::uint32_t target_device;
  std::uint32_t flags;
  alignas(8) std::uint64_t va_size;
  std::uint64_t va_start;
  std::uint64_t va_limit;
  std::uint32_t va_mode;
};
static_assert(sizeof(DeviceParameters) == 56);

// Which device has a UUID.
constexpr std::uint32_t command_uuid_info = 0x274;
struct UuidInfo {
  std::array<unsigned char, 256> uuid;
  std::uint32_t flags;
  std::uint32_t gpu;
  std::uint32_t device_instance;
  std::uint32_t subdevice_instance;
};
static_assert(sizeof(UuidInfo) == 272);
constexpr std::uint32_t uuid_is_binary = 2;

// Objects from a descriptor that exports them.
constexpr std::uint32_t command_import = 0x3d0c;
struct Import {
  std::int32_t fd;
  std::uint32_t parent;
  std::array<std::uint32_t, 128> objects;
  std::array<std::uint8_t, 128> kinds;
  std::uint16_t count;
  std::uint16_t index;
};
static_assert(sizeof(Import) == 652);

// Numbers of our objects within our client: any will do that no other object has there.
constexpr RmHandle device_number = 0x51c0'0001;
constexpr RmHandle subdevice_number = 0x51c0'0002;
constexpr RmHandle first_memory_number = 0x51c1'0000;

}  // namespace

std::string RmClient::say(const char* step, const Answer& answer) {
  if (answer.error == 0) return fmt::format("{}: RM answered status 0x{:x}", step, answer.status);
  const char* const name = ::strerrorname_np(answer.error);
  return fmt::format("{}: {}", step, name != nullptr ? name : "an unknown error");
}

RmClient::RmClient(const cuda::Uuid& uuid)
    : control_(::open(control_device, O_RDWR | O_CLOEXEC)), next_(first_memory_number) {
  if (!control_) {
    refusal_ = say("opening /dev/nvidiactl", {errno, 0});
    return;
  }
  if (const Answer answer = make_client(); !answer.ok()) {
    refusal_ = say("making an RM client", answer);
    return;
  }
  std::uint32_t instance = 0;
  if (const Answer answer = find_device(uuid, instance); !answer.ok()) {
    refusal_ = say("finding the device by its UUID", answer);
    return;
  }
  DeviceParameters device{};
  device.instance = instance;
  device.share = client_;
  if (const Answer answer = make_object(client_, device_number, device_object, &device, sizeof device); !answer.ok()) {
    refusal_ = say("making the device object", answer);
    return;
  }
  std::uint32_t subdevice = 0;
  const Answer answer = make_object(device_number, subdevice_number, subdevice_object, &subdevice, sizeof subdevice);
  if (!answer.ok()) refusal_ = say("making the subdevice object", answer);
}

RmClient::~RmClient() {
  if (client_ != 0) free_object(client_);
}

RmClient::Answer RmClient::make_client() noexcept {
  MakeCall call{};
  call.kind = root_client;
  if (::ioctl(control_.get(), make_call, &call) != 0) return {errno, 0};
  if (call.status == 0) client_ = call.object;
  return {0, call.status};
}

RmClient::Answer RmClient::find_device(const cuda::Uuid& uuid, std::uint32_t& instance) noexcept {
  UuidInfo info{};
  std::memcpy(info.uuid.data(), uuid.bytes, sizeof uuid.bytes);
  info.flags = uuid_is_binary;
  const Answer answer = control(command_uuid_info, &info, sizeof info);
  instance = info.device_instance;
  return answer;
}

RmClient::Answer RmClient::make_object(RmHandle parent, RmHandle object, std::uint32_t kind, void* parameters,
                                       std::uint32_t size) noexcept {
  MakeCall call{client_, parent, object, kind, reinterpret_cast<std::uint64_t>(parameters), size, 0};
  if (::ioctl(control_.get(), make_call, &call) != 0) return {errno, 0};
  return {0, call.status};
}

RmClient::Answer RmClient::control(std::uint32_t command, void* parameters, std::uint32_t size) noexcept {
  ControlCall call{client_, client_, command, 0, reinterpret_cast<std::uint64_t>(parameters), size, 0};
  if (::ioctl(control_.get(), control_call, &call) != 0) return {errno, 0};
  return {0, call.status};
}

RmClient::Answer RmClient::import_piece(int fd, std::uint16_t index, RmHandle object) noexcept {
  Import import{};
  import.fd = fd;
  import.parent = device_number;
  import.objects[0] = object;
  import.count = 1;
  import.index = index;
  return control(command_import, &import, sizeof import);
}

RmClient::Imported RmClient::import_memory(int fd) {
  const RmHandle memory = next_++;
  if (const Answer answer = import_piece(fd, 0, memory); !answer.ok()) {
    return {0, say("importing the allocation", answer)};
  }
  const RmHandle second = next_++;
  if (import_piece(fd, 1, second).ok()) {
    free_object(second);
    free_object(memory);
    return {0, "importing the allocation: it consists of several pieces"};
  }
  return {memory, ""};
}

void RmClient::free_object(RmHandle object) noexcept {
  FreeCall call{client_, object == client_ ? 0 : device_number, object, 0};
  ::ioctl(control_.get(), free_call, &call);
}

}  // namespace sluice::gpu
