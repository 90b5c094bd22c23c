// SPDX-License-Identifier: Apache-2.0
// The configuration: reading it, and staging changes, which are refused while the driver is open.
#include <algorithm>
#include <array>
#include <cstring>

#include "fuzz/enumerators.h"
#include "fuzz/families.h"

namespace sluice::fuzz {
namespace {

int any_parameter(Actor& actor, int count) {
  return actor.one_in(8) ? actor.one_of({-1, count, 1000, 1 << 30}) : static_cast<int>(actor.draw(count));
}

bool exists(int parameter, int count) {
  return parameter >= 0 && parameter < count;
}

constexpr int kSizes = 12;
constexpr int kFlags = 12;
constexpr int kTexts = 3;

void get_text(Actor& actor) {
  const int parameter = any_parameter(actor, kTexts);
  std::array<char, 300> text{};
  text.fill('x');
  const int room = actor.one_of({300, 300, 300, 6, 5, 1, 0, -1});
  char* const where = actor.one_in(8) ? nullptr : text.data();
  const CUfileError_t answer = actor.call("cuFileGetParameterString", joined(parameter, ", ", room), [&] {
    return cuFileGetParameterString(number_as<CUFileStringConfigParameter_t>(parameter), where, room);
  });
  actor.expect(answer, {CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE});
  const bool possible = exists(parameter, kTexts) && where != nullptr && room > 0;
  actor.require(possible || answer.err != CU_FILE_SUCCESS, "it succeeded");
  if (answer.err != CU_FILE_SUCCESS) return;
  const auto end = std::find(text.begin(), text.end(), '\0');
  actor.require(end - text.begin() < room, "the text does not end in its room");
}

void set_text(Actor& actor) {
  const int parameter = any_parameter(actor, kTexts);
  const std::string folder = actor.world().folder();
  const std::string file = folder + "/a.log";
  const std::string longest(5000, 'a');
  const char* text = nullptr;
  if (parameter == CUFILE_PARAM_LOGGING_LEVEL) {
    text = actor.one_of<const char*>({"ERROR", "debug", "TRACE", "notice", "bogus", "", nullptr, longest.c_str()});
  } else if (parameter == CUFILE_PARAM_LOG_DIR) {
    text = actor.one_of<const char*>({folder.c_str(), "/no/such/folder", "", nullptr, longest.c_str()});
  } else {
    text = actor.one_of<const char*>({file.c_str(), "/no/such/folder/log", "/dev/null", "", nullptr, longest.c_str()});
  }
  const CUfileError_t answer =
      actor.call("cuFileSetParameterString", joined(parameter, ", ", text == nullptr ? "NULL" : text),
                 [&] { return cuFileSetParameterString(number_as<CUFileStringConfigParameter_t>(parameter), text); });
  actor.expect(answer, {CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE, CU_FILE_DRIVER_ALREADY_OPEN});
  const bool possible = exists(parameter, kTexts) && text != nullptr && *text != '\0';
  actor.require(possible || answer.err != CU_FILE_SUCCESS, "it succeeded");
}

}  // namespace

void get_parameter(Actor& actor) {
  std::size_t least = 0;
  std::size_t most = 0;
  bool flag = false;
  const bool null = actor.one_in(8);
  switch (actor.draw(4)) {
    case 0: {
      const int parameter = any_parameter(actor, kSizes);
      std::size_t* const where = null ? nullptr : &most;
      actor.expect(
          actor.call(
              "cuFileGetParameterSizeT", joined(parameter, null ? ", NULL" : ", &"),
              [&] { return cuFileGetParameterSizeT(number_as<CUFileSizeTConfigParameter_t>(parameter), where); }),
          {exists(parameter, kSizes) && !null ? CU_FILE_SUCCESS : CU_FILE_INVALID_VALUE});
      break;
    }
    case 1: {
      const int parameter = any_parameter(actor, kFlags);
      bool* const where = null ? nullptr : &flag;
      actor.expect(
          actor.call("cuFileGetParameterBool", joined(parameter, null ? ", NULL" : ", &"),
                     [&] { return cuFileGetParameterBool(number_as<CUFileBoolConfigParameter_t>(parameter), where); }),
          {exists(parameter, kFlags) && !null ? CU_FILE_SUCCESS : CU_FILE_INVALID_VALUE});
      break;
    }
    case 2: {
      const int parameter = any_parameter(actor, kSizes);
      std::size_t* const where = null ? nullptr : &most;
      actor.expect(
          actor.call("cuFileGetParameterMinMaxValue", joined(parameter, null ? ", &, NULL" : ", &, &"),
                     [&] {
                       return cuFileGetParameterMinMaxValue(number_as<CUFileSizeTConfigParameter_t>(parameter), &least,
                                                            where);
                     }),
          {exists(parameter, kSizes) && parameter != CUFILE_PARAM_PROFILE_STATS && !null ? CU_FILE_SUCCESS
                                                                                         : CU_FILE_INVALID_VALUE});
      actor.require(null || least <= most, "the least is more than the most");
      break;
    }
    default:
      get_text(actor);
  }
}

void set_parameter(Actor& actor) {
  switch (actor.draw(3)) {
    case 0: {
      const int parameter = any_parameter(actor, kSizes);
      const std::size_t value = actor.any_number();
      const CUfileError_t answer = actor.call("cuFileSetParameterSizeT", joined(parameter, ", ", value), [&] {
        return cuFileSetParameterSizeT(number_as<CUFileSizeTConfigParameter_t>(parameter), value);
      });
      actor.expect(answer, {CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE, CU_FILE_DRIVER_ALREADY_OPEN,
                            CU_FILE_DRIVER_UNSUPPORTED_LIMIT});
      actor.require(exists(parameter, kSizes) || answer.err == CU_FILE_INVALID_VALUE, "there is no such parameter");
      break;
    }
    case 1: {
      const int parameter = any_parameter(actor, kFlags);
      // Without the compatibility path no transfer is made here, and nothing would be left to check.
      if (parameter == CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE) return;
      const bool value = actor.one_in(2);
      const CUfileError_t answer = actor.call("cuFileSetParameterBool", joined(parameter, ", ", value), [&] {
        return cuFileSetParameterBool(number_as<CUFileBoolConfigParameter_t>(parameter), value);
      });
      actor.expect(answer, {CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE, CU_FILE_DRIVER_ALREADY_OPEN});
      actor.require(exists(parameter, kFlags) || answer.err == CU_FILE_INVALID_VALUE, "there is no such parameter");
      break;
    }
    default:
      set_text(actor);
  }
}

void use_slab_arrays(Actor& actor) {
  std::array<std::size_t, 4> sizes{};
  std::array<std::size_t, 4> counts{};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sizes[i] = actor.one_in(4) ? actor.any_number() : 4096 * (i + 1);
    counts[i] = actor.one_in(4) ? actor.any_number() : actor.draw(64);
  }
  const int length = actor.one_of({1, 2, 3, 4, 0, -1, -1000000});
  std::size_t* const first = actor.one_in(10) ? nullptr : sizes.data();
  std::size_t* const second = actor.one_in(10) ? nullptr : counts.data();
  const bool possible = length > 0 && first != nullptr && second != nullptr;
  const std::uint64_t which = actor.draw(4);
  const char* const names[] = {"cuFileSetParameterPosixPoolSlabArray", "cuFileGetParameterPosixPoolSlabArray",
                               "cuFileSetParameterGpuBounceBufferSlabArray",
                               "cuFileGetParameterGpuBounceBufferSlabArray"};
  const CUfileError_t answer = actor.call(names[which], joined("length ", length), [&] {
    switch (which) {
      case 0:
        return cuFileSetParameterPosixPoolSlabArray(first, second, length);
      case 1:
        return cuFileGetParameterPosixPoolSlabArray(first, second, length);
      case 2:
        return cuFileSetParameterGpuBounceBufferSlabArray(first, second, length);
      default:
        return cuFileGetParameterGpuBounceBufferSlabArray(first, second, length);
    }
  });
  actor.expect(answer, {CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE, CU_FILE_DRIVER_ALREADY_OPEN});
  actor.require(possible || answer.err != CU_FILE_SUCCESS, "it succeeded");
}

}  // namespace sluice::fuzz
