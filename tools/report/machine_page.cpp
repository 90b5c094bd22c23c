// SPDX-License-Identifier: Apache-2.0
#include "report/machine_page.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/text.h"
#include "doctor/doctor.h"
#include "report/charts.h"
#include "report/page.h"
#include "sluice.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string about() {
  utsname names{};
  uname(&names);
  return fmt::format("Linux {} on {} · Sluice {}", printable(names.release), printable(names.machine),
                     sluice_version());
}

std::string text(const Json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_string() ? printable(found->get<std::string>()) : std::string();
}

double number(const Json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_number() ? found->get<double>() : 0;
}

void findings(Page& page, const doctor::Report& report) {
  page.heading("What the doctor finds");
  Page::Table table{{"harm", "sign", "cause", "remedy"}, {}, {}};
  Page::Table rest = table;
  for (const doctor::Found& found : report.by_harm()) {
    const bool serious = found.row->harm != doctor::Harm::advice && found.row->harm != doctor::Harm::fine;
    (serious ? table : rest)
        .rows.push_back({std::string(doctor::name_of(found.row->harm)), printable(found.sign), printable(found.cause),
                         printable(found.remedy)});
  }
  if (table.rows.empty()) {
    page.paragraph("Nothing is wrong.");
  } else {
    page.table(table);
  }
  if (!rest.rows.empty())
    page.folded_table(fmt::format("{} pieces of advice, and what is fine", rest.rows.size()), rest);
}

void facts(Page& page, const doctor::Report& report) {
  page.heading("What is there");
  for (std::size_t i = 0; i < doctor::section_count; ++i) {
    const auto section = static_cast<doctor::Section>(i);
    const std::vector<std::string>& lines = report.facts(section);
    if (lines.empty()) continue;
    Page::Table table{{std::string(doctor::name_of(section))}, {}, {}};
    for (const std::string& line : lines) table.rows.push_back({printable(line)});
    constexpr std::size_t few = 8;
    if (lines.size() <= few) {
      page.table(table);
    } else {
      page.folded_table(fmt::format("{}: {} lines", doctor::name_of(section), lines.size()), table);
    }
  }
}

std::string speed(double gib) {
  return fmt::format("{:.2f} GiB/s", gib);
}

// An array of a profile, which may be older than it.
Json items(const Json& profile, const char* key) {
  const auto found = profile.find(key);
  return found != profile.end() && found->is_array() ? *found : Json::array();
}

void other_links(std::vector<Bar>& all, const Json& profile) {
  const Json links = items(profile, "links");
  if (links.size() < 2) return;
  for (const Json& link : links) {
    if (!link.is_object()) continue;
    for (const auto& [key, what] :
         {std::pair{"to_device_gib_per_s", "to"}, std::pair{"from_device_gib_per_s", "from"}}) {
      const double found = number(link, key);
      if (found <= 0) continue;
      all.push_back({fmt::format("link {} GPU {:.0f}", what, number(link, "gpu")), found, speed(found), 0, 0, 3});
    }
  }
}

void measured(Page& page, const Json& profile) {
  page.heading("What was measured");
  page.paragraph(fmt::format("{}, {}.", text(profile, "device"), text(profile, "date")));
  if (profile.value("soft", false)) {
    page.paragraph("This is the soft GPU: the CPU copies, and these speeds say nothing about a GPU.");
  }
  const double in = number(profile["link"], "to_device_gib_per_s");
  const double out = number(profile["link"], "from_device_gib_per_s");
  double whole = std::max(in, out);
  std::vector<Bar> all;
  if (in > 0) all.push_back({"link: host memory to device", in, speed(in), 0, 0, 3});
  if (out > 0) all.push_back({"link: device to host memory", out, speed(out), 0, 0, 3});
  other_links(all, profile);
  Page::Table ways{
      {"folder", "file system", "path (reason)", "quickest for cached reads", "for reads with O_DIRECT"}, {}, {}};
  for (const Json& folder : profile["folders"]) {
    if (!folder.is_object()) continue;
    std::string name = text(folder, "folder");
    if (name.size() > 24) name = "..." + name.substr(name.size() - 22);
    const auto add = [&](const char* key, const char* what, int colour) {
      if (const double value = number(folder, key); value > 0) {
        all.push_back({fmt::format("{}: {}", name, what), value,
                       fmt::format("{}, {:.0f} % of the link", speed(value), whole > 0 ? 100 * value / whole : 0), 0, 0,
                       colour});
      }
    };
    if (const auto cached = folder.find("cached_read_gib_per_s"); cached != folder.end() && cached->is_object()) {
      for (const auto& [way, value] : cached->items()) {
        if (!value.is_number()) continue;
        all.push_back({fmt::format("{}: cached, {}", name, printable(way)), value.get<double>(),
                       fmt::format("{}, {:.0f} % of the link", speed(value.get<double>()),
                                   whole > 0 ? 100 * value.get<double>() / whole : 0),
                       0, 0, 0});
      }
    }
    add("direct_read_gib_per_s", "O_DIRECT read", 2);
    add("write_gib_per_s", "write", 1);
    add("direct_write_gib_per_s", "O_DIRECT write", 1);
    ways.rows.push_back({text(folder, "folder"), text(folder, "file_system"),
                         fmt::format("{} ({})", text(folder, "path"), text(folder, "reason")),
                         text(folder, "best_copy"), text(folder, "best_disk_reads")});
  }
  Page::Table drives{{"drive", "reads of 1 MiB by itself, of eight threads", "median of a read of 4 KiB"}, {}, {}};
  for (const Json& drive : items(profile, "drives")) {
    if (!drive.is_object()) continue;
    const double alone = number(drive, "read_gib_per_s");
    if (alone > 0)
      all.push_back({fmt::format("drive {}: read by itself", text(drive, "drive")), alone, speed(alone), 0, 0, 2});
    drives.rows.push_back({text(drive, "drive"), alone > 0 ? speed(alone) : text(drive, "why"),
                           alone > 0 ? fmt::format("{:.0f} us", number(drive, "read_4k_us")) : std::string()});
  }
  page.picture(bars(all, 0, in),
               "Reads and writes of 16 MiB by one thread. The upright line is the link to the device.");
  if (!ways.rows.empty()) page.table(ways);
  if (!drives.rows.empty()) page.table(drives);
  Page::Table left{{"left out"}, {}, {}};
  for (const Json& what : items(profile, "left_out")) {
    if (what.is_string()) left.rows.push_back({printable(what.get<std::string>())});
  }
  if (!left.rows.empty()) page.table(left);
}

}  // namespace

std::string machine_page(const Json& profile) {
  Page page("Sluice: report of a machine", about());
  const doctor::Report report = doctor::examine("");
  if (profile.is_object()) measured(page, profile);
  findings(page, report);
  facts(page, report);
  if (!profile.is_object()) {
    page.paragraph(
        "Nothing was measured: `sluice profile -o FILE DIR...` does, and `sluice report --machine --profile FILE` "
        "shows it.");
  }
  return std::move(page).html();
}

}  // namespace sluice::tools
