// SPDX-License-Identifier: Apache-2.0
// The functions of sluice.h.
#include "sluice.h"

#include <array>
#include <cstring>

#include "fuzz/enumerators.h"
#include "fuzz/families.h"

namespace sluice::fuzz {
namespace {

void count_setting(const sluice_setting_t* setting, void* context) {
  *static_cast<std::size_t*>(context) += std::strlen(setting->key) > 0 ? 1 : 0;
}

void count_note(const char* note, void* context) {
  *static_cast<std::size_t*>(context) += std::strlen(note);
}

void ask_for_a_name(Actor& actor) {
  const int value = static_cast<int>(actor.draw(24)) - 4;
  const auto path = number_as<sluice_path_t>(value);
  const auto reason = number_as<sluice_reason_t>(value);
  const bool is_path = actor.one_in(2);
  const char* name = nullptr;
  actor.call_only(is_path ? "sluice_path_name" : "sluice_reason_name", std::to_string(value),
                  [&] { name = is_path ? sluice_path_name(path) : sluice_reason_name(reason); });
  const bool known = value >= 0 && value < (is_path ? int{SLUICE_PATH_COUNT} : int{SLUICE_REASON_COUNT});
  actor.require((name != nullptr) == known, "a name for nothing, or none for something");
  if (is_path) return;
  actor.call_only("sluice_reason_sentence", std::to_string(value), [&] { name = sluice_reason_sentence(reason); });
  actor.require((name != nullptr) == known, "a sentence for nothing, or none for something");
  actor.call_only("sluice_reason_remedy", std::to_string(value), [&] { name = sluice_reason_remedy(reason); });
  actor.require((name != nullptr) == known, "a remedy for nothing, or none for something");
}

void ask_for_counters(Actor& actor) {
  std::array<sluice_path_counter_t, 4> counters{};
  std::size_t count = 0;
  const std::size_t room = actor.draw(counters.size() + 1);
  sluice_path_counter_t* const where = actor.one_in(4) ? nullptr : counters.data();
  std::size_t* const number = actor.one_in(6) ? nullptr : &count;
  const bool possible = number != nullptr && (where != nullptr || room == 0);
  actor.expect(actor.call("sluice_path_counters", joined(where != nullptr ? "&, " : "NULL, ", room),
                          [&] { return sluice_path_counters(where, room, number); }),
               {possible ? CU_FILE_SUCCESS : CU_FILE_INVALID_VALUE});
}

void ask_for_the_configuration(Actor& actor) {
  std::size_t seen = 0;
  const bool null = actor.one_in(4);
  const int expected = null ? CU_FILE_INVALID_VALUE : CU_FILE_SUCCESS;
  if (actor.one_in(2)) {
    actor.expect(actor.call("sluice_configuration", null ? "NULL" : "&",
                            [&] { return sluice_configuration(null ? nullptr : count_setting, &seen); }),
                 {expected});
    actor.require(null || seen > 50, joined("only ", seen, " keys"));
  } else {
    actor.expect(actor.call("sluice_configuration_notes", null ? "NULL" : "&",
                            [&] { return sluice_configuration_notes(null ? nullptr : count_note, &seen); }),
                 {expected});
  }
}

void count_pair(const sluice_direct_pair_t* pair, void* context) {
  if (pair->storage != nullptr && sluice_reason_name(pair->reason) != nullptr) ++*static_cast<std::size_t*>(context);
}

void ask_for_the_pairs(Actor& actor) {
  std::size_t seen = 0;
  const bool null = actor.one_in(4);
  actor.expect(actor.call("sluice_direct_pairs", null ? "NULL" : "&",
                          [&] { return sluice_direct_pairs(null ? nullptr : count_pair, &seen); }),
               {null ? CU_FILE_INVALID_VALUE : CU_FILE_SUCCESS});
}

void ask_for_the_file(Actor& actor) {
  std::array<char, 256> path{};
  char* const where = actor.one_in(4) ? nullptr : path.data();
  const std::size_t room = actor.one_of<std::size_t>({path.size(), 1, 0});
  actor.expect(actor.call("sluice_configuration_file", joined(where != nullptr ? "&, " : "NULL, ", room),
                          [&] { return sluice_configuration_file(where, room); }),
               {where != nullptr && room > 1 ? CU_FILE_SUCCESS : CU_FILE_INVALID_VALUE});
}

}  // namespace

void explain(Actor& actor) {
  Entrance& entrance = actor.any(actor.world().entrances());
  const CUfileHandle_t handle = actor.one_in(6) ? actor.world().dead_handle(actor.draw(64)) : entrance.handle.load();
  const void* const buffer = actor.one_in(3)   ? nullptr
                             : actor.one_in(3) ? actor.garbage_address()
                                               : actor.memory().address();
  const int gpu = static_cast<int>(actor.draw(5)) - 2;
  const int opcode = actor.one_in(6) ? static_cast<int>(actor.draw(100)) - 50 : static_cast<int>(actor.draw(2));
  sluice_explanation_t explanation{};
  sluice_explanation_t* const where = actor.one_in(8) ? nullptr : &explanation;
  const CUfileError_t answer = actor.call(
      "sluice_explain", joined(entrance.name, ", opcode ", opcode, ", gpu ", gpu),
      [&] { return sluice_explain(handle, buffer, gpu, number_as<CUfileOpcode_t>(opcode), 4096, 0, where); });
  actor.expect(answer,
               {CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE, CU_FILE_HANDLE_NOT_REGISTERED, CU_FILE_DEVICE_NOT_FOUND});
  if (answer.err != CU_FILE_SUCCESS) return;
  actor.require(explanation.sentence != nullptr && explanation.remedy != nullptr, "an explanation without words");
  actor.require(std::memchr(explanation.detail, 0, sizeof explanation.detail) != nullptr, "the detail has no end");
}

void ask_sluice(Actor& actor) {
  switch (actor.draw(7)) {
    case 0: {
      const char* version = nullptr;
      actor.call_only("sluice_version", "", [&] { version = sluice_version(); });
      actor.require(version != nullptr && *version != '\0', "no version");
      break;
    }
    case 1: {
      const char* sentence = nullptr;
      actor.call_only("sluice_last_error", "", [&] { sentence = sluice_last_error(); });
      actor.require(sentence != nullptr && std::strlen(sentence) < 4096, "no sentence");
      break;
    }
    case 2:
      ask_for_a_name(actor);
      break;
    case 3:
      ask_for_counters(actor);
      break;
    case 4:
      ask_for_the_configuration(actor);
      break;
    case 5:
      ask_for_the_pairs(actor);
      break;
    default:
      ask_for_the_file(actor);
  }
}

}  // namespace sluice::fuzz
