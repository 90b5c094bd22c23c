// SPDX-License-Identifier: Apache-2.0
// sluice_configuration*: the configuration as the library sees it.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "api/funnel.h"
#include "gpu/cuda_api.h"
#include "process/process.h"
#include "sluice.h"

using sluice::api::guarded;
using sluice::base::Failure;
using sluice::config::Key;
using sluice::config::Setting;
using sluice::process::Process;

namespace {

template <typename Visitor>
void require_visitor(Visitor visit) {
  if (visit == nullptr) throw Failure(CU_FILE_INVALID_VALUE, "the function to call is a null pointer");
}

// What a profile is worth depends on the GPU. Attached before, since the configuration only looks.
std::shared_ptr<const sluice::config::Config> configuration() {
  sluice::gpu::attach_driver();
  return Process::instance().store().current();
}

}  // namespace

extern "C" {

CUfileError_t sluice_configuration(sluice_setting_visitor_t visit, void* context) {
  return guarded("sluice_configuration", [&] {
    require_visitor(visit);
    const auto config = configuration();
    for (std::size_t i = 0; i < sluice::config::key_count; ++i) {
      const Key& key = sluice::config::keys[i];
      const Setting& setting = config->setting(i);
      const std::string value = sluice::config::to_json(setting.value);
      const sluice_setting_t shown{key.name.data(),
                                   value.c_str(),
                                   key.standard.data(),
                                   key.meaning.data(),
                                   key.here.data(),
                                   static_cast<sluice_origin_t>(setting.origin),
                                   static_cast<sluice_effect_t>(key.effect),
                                   config->binds(i) ? 1 : 0,
                                   setting.line};
      visit(&shown, context);
    }
  });
}

CUfileError_t sluice_configuration_notes(sluice_note_visitor_t visit, void* context) {
  return guarded("sluice_configuration_notes", [&] {
    require_visitor(visit);
    auto notes = configuration()->notes;
    std::stable_sort(notes.begin(), notes.end(), [](const auto& a, const auto& b) { return a.level < b.level; });
    for (const auto& note : notes) visit(note.text.c_str(), context);
  });
}

CUfileError_t sluice_configuration_file(char* path, size_t room) {
  return guarded("sluice_configuration_file", [&] {
    const std::string file = Process::instance().store().current()->file;
    if (path == nullptr || room <= file.size()) {
      throw Failure(CU_FILE_INVALID_VALUE, "no room for the name of the configuration file");
    }
    std::memcpy(path, file.c_str(), file.size() + 1);
  });
}

}  // extern "C"
