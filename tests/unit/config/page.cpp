// SPDX-License-Identifier: Apache-2.0
// Markdown from rows.
#include "config/page.h"

#include <string_view>
#include <vector>

#include "config/keys.h"
#include "config/value.h"

namespace sluice::config {

namespace {

struct Section {
  std::string_view prefix;
  std::string_view title;
};

// In the order of the page; a key belongs to the first that fits.
constexpr Section sections[] = {
    {"sluice.", "Our own"},
    {"logging.", "Log"},
    {"profile.", "Profile"},
    {"execution.", "Execution"},
    {"properties.rdma", "RDMA"},
    {"properties.gds_rdma", "RDMA"},
    {"properties.allow_rdma", "RDMA"},
    {"properties.", "Properties"},
    {"fs.", "File systems"},
    {"block.", "Block devices"},
    {"sparse.", "Sparse files"},
    {"denylist.", "Denylists"},
    {"miscellaneous.", "Miscellaneous"},
};

constexpr std::string_view order[] = {"Our own",      "Log",       "Profile",      "Execution",
                                      "Properties",   "RDMA",      "File systems", "Block devices",
                                      "Sparse files", "Denylists", "Miscellaneous"};

std::string_view title_of(const Key& key) {
  for (const Section& section : sections) {
    if (key.name.substr(0, section.prefix.size()) == section.prefix) return section.title;
  }
  return {};
}

std::string code(std::string_view text) {
  return "`" + std::string(text) + "`";
}

std::string_view word_for(Effect effect) {
  switch (effect) {
    case Effect::obeyed:
      return "obeyed";
    case Effect::reported:
      return "reported";
    case Effect::accepted:
      return "accepted";
  }
  return {};
}

std::string row_of(const Key& key) {
  std::string standard = code(key.standard);
  if (!key.also_stock.empty()) standard += "; also stock: " + code(key.also_stock);
  return "| " + code(key.name) + " | " + describe_kind(key) + " | " + standard + " | " + std::string(key.meaning) +
         " | *" + std::string(word_for(key.effect)) + "* " + std::string(key.here) + " |\n";
}

}  // namespace

std::string generated_page() {
  std::string page;
  for (const std::string_view title : order) {
    page += "\n### " + std::string(title) +
            "\n\n| key | takes | default | meaning | effect here |\n|---|---|---|---|---|\n";
    for (const Key& key : keys) {
      if (title_of(key) == title) page += row_of(key);
    }
  }
  page += "\n### Other spellings\n\n| spelling | key |\n|---|---|\n";
  for (const Alias& alias : aliases) page += "| " + code(alias.name) + " | " + code(keys[alias.key].name) + " |\n";
  page += "\n### Variables\n\n| variable | key |\n|---|---|\n";
  for (const Key& key : keys) {
    if (!key.environment.empty()) page += "| " + code(key.environment) + " | " + code(key.name) + " |\n";
  }
  return page + "\n";
}

}  // namespace sluice::config
