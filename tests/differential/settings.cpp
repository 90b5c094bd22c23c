// SPDX-License-Identifier: Apache-2.0
#include "differential/settings.h"

#include <cstring>

namespace sluice::differential {
namespace {

constexpr unsigned kPollMode = 1;

}  // namespace

Settings Settings::of(const Library& library, bool open) {
  Settings found;
  found.open_ = open;
  for (std::size_t i = 0; library.get_size != nullptr && i < found.sizes_.size(); ++i) {
    library.get_size(static_cast<int>(i), &found.sizes_[i]);
  }
  for (std::size_t i = 0; library.get_bool != nullptr && i < found.switches_.size(); ++i) {
    library.get_bool(static_cast<int>(i), &found.switches_[i]);
  }
  for (std::size_t i = 0; library.get_text != nullptr && i < found.texts_.size(); ++i) {
    std::array<char, 4096> text{};
    const Error error = library.get_text(static_cast<int>(i), text.data(), static_cast<int>(text.size()));
    if (error.err == CU_FILE_SUCCESS) found.texts_[i] = text.data();
  }
  for (std::size_t i = 0; library.get_p2p != nullptr && open && i < found.p2p_.size(); ++i) {
    library.get_p2p(static_cast<int>(i), &found.p2p_[i]);
  }
  if (library.get_level != nullptr) library.get_level(&found.level_);
  if (!open || library.properties == nullptr) return found;
  CUfileDrvProps_t properties;
  std::memset(&properties, 0, sizeof properties);
  library.properties(&properties);
  found.control_ = properties.nvfs.dcontrolflags;
  found.poll_ = properties.nvfs.poll_thresh_size;
  found.direct_ = properties.nvfs.max_direct_io_size;
  found.cache_ = properties.max_device_cache_size;
  found.pinned_ = properties.max_device_pinned_mem_size;
  return found;
}

void Settings::restore(const Library& library) const {
  const Settings now = of(library, open_);
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    if (now.sizes_[i] != sizes_[i]) library.set_size(static_cast<int>(i), sizes_[i]);
  }
  for (std::size_t i = 0; i < switches_.size(); ++i) {
    if (now.switches_[i] != switches_[i]) library.set_bool(static_cast<int>(i), switches_[i]);
  }
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    if (now.texts_[i] != texts_[i]) library.set_text(static_cast<int>(i), texts_[i].c_str());
  }
  if (!open_) return;
  // NVIDIA's library does not show what these were set to.
  if (library.set_poll_mode != nullptr) library.set_poll_mode((control_ & kPollMode) != 0, poll_);
  if (library.set_max_direct != nullptr) library.set_max_direct(direct_);
  if (library.set_max_cache != nullptr) library.set_max_cache(cache_);
  if (library.set_max_pinned != nullptr) library.set_max_pinned(pinned_);
}

bool Settings::has_other_flags(const Library& library) const {
  if (library.get_p2p == nullptr || !open_) return false;
  std::array<int, 14> now{};
  for (std::size_t i = 0; i < now.size(); ++i) library.get_p2p(static_cast<int>(i), &now[i]);
  return now != p2p_;
}

void Settings::restore_statistics(const Library& library) const {
  if (library.stats_reset == nullptr || library.stats_stop == nullptr || library.set_level == nullptr) return;
  library.stats_reset();
  library.stats_stop();
  library.set_level(level_);
}

}  // namespace sluice::differential
