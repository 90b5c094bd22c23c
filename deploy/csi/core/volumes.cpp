// SPDX-License-Identifier: Apache-2.0
#include "core/volumes.h"

#include <algorithm>

#include "core/refusal.h"

namespace sluice::csi {

namespace {
constexpr std::string_view token_begin = "after:";
}

Volumes::Found Volumes::find(const std::string& id) const {
  for (Backend* const backend : backends()) {
    if (std::optional<Record> record = backend->find(id)) return {backend, std::move(*record)};
  }
  return {};
}

Volumes::Found Volumes::need(const std::string& id, RecordKind kind) const {
  Found found = find(id);
  if (!found || found.record.kind != kind || found.record.state != RecordState::ready) {
    refuse(Code::not_found, std::string("There is no ") + (kind == RecordKind::volume ? "volume " : "snapshot ") + id +
                                ". It was removed, or lies on another node.");
  }
  return found;
}

Volumes::Found Volumes::find_by_name(const std::string& name, RecordKind kind) const {
  for (Backend* const backend : backends()) {
    for (Record& record : backend->records()) {
      if (record.name == name && record.kind == kind) return {backend, std::move(record)};
    }
  }
  return {};
}

std::vector<Volumes::Listed> Volumes::list(RecordKind kind) const {
  std::vector<Listed> listed;
  for (Backend* const backend : backends()) {
    for (Record& record : backend->records()) {
      if (record.kind == kind && record.state == RecordState::ready) listed.push_back({backend, std::move(record)});
    }
  }
  std::sort(listed.begin(), listed.end(), [](const auto& a, const auto& b) { return a.record.id < b.record.id; });
  return listed;
}

Page page_of(const std::vector<Volumes::Listed>& all, int most, const std::string& token) {
  if (most < 0) refuse(Code::invalid_argument, "max_entries is negative. Use 0 for all.");
  Page page;
  if (!token.empty()) {
    if (!token.starts_with(token_begin))
      refuse(Code::aborted, "starting_token is none of this driver's. Begin anew without one.");
    const std::string last = token.substr(token_begin.size());
    const auto begin = std::upper_bound(all.begin(), all.end(), last,
                                        [](const std::string& id, const auto& each) { return id < each.record.id; });
    page.begin = static_cast<std::size_t>(begin - all.begin());
  }
  page.end = most == 0 ? all.size() : std::min(all.size(), page.begin + static_cast<std::size_t>(most));
  if (page.end < all.size()) page.next = std::string(token_begin) + all[page.end - 1].record.id;
  return page;
}

}  // namespace sluice::csi
