// SPDX-License-Identifier: Apache-2.0
// Two rows of NUMA nodes whose devices face each other; NVLinks lie between them. Everything above a device is a bar as
// wide as what hangs on it, so that all lines are upright. The thicker a line, the faster the link.
#include "topology_view/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "topology_view/tree.h"

namespace sluice::topology_view {
namespace {

using topology::Device;
using topology::Kind;
using topology::Machine;

constexpr double tile_width = 118;
constexpr double tile_height = 78;
constexpr double gap = 12;
constexpr double bar_height = 26;
constexpr double level = 58;  // from bar to bar
constexpr double margin = 28;
constexpr double padding = 18;
constexpr double panel_gap = 22;
constexpr double header = 74;
constexpr double middle = 150;

constexpr const char* style = R"(<style>
text { font-family: system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1f2933; }
.page { fill: #ffffff; }
.title { font-size: 24px; font-weight: 700; }
.under { font-size: 13px; fill: #61707f; }
.panel { fill: #f3f6fa; stroke: #d5dde6; }
.node { font-size: 13px; font-weight: 600; fill: #45535f; }
.cpu { fill: #2b3a4a; } .root { fill: #8796a8; } .switch { fill: #4d6584; }
.bar { font-size: 11.5px; fill: #ffffff; font-weight: 600; }
.gpu { fill: #e3f4d7; stroke: #5b9a2c; } .drive { fill: #fdefd2; stroke: #c88a12; } .nic { fill: #dfebfb; stroke: #2f6fc4; }
.name { font-size: 15px; font-weight: 700; } .fact { font-size: 10.5px; fill: #45535f; }
.wire { stroke: #93a3b5; } .down { stroke: #cf2f2f; stroke-dasharray: 7 4; } .alarm { fill: #cf2f2f; font-weight: 600; }
.nvlink { stroke: #76b900; } .band { fill: #76b900; } .far { stroke: #b9c4d0; stroke-dasharray: 3 5; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .page { fill: #0f151c; } .panel { fill: #18212b; stroke: #2c3947; }
  .under, .node, .fact { fill: #a9b6c4; } .cpu { fill: #5c7187; } .root { fill: #4c5a6a; } .switch { fill: #3f5c86; }
  .gpu { fill: #20381a; } .drive { fill: #3d2f12; } .nic { fill: #172c49; } .wire { stroke: #5d6d7e; }
}
</style>
)";

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '&')
      safe += "&amp;";
    else if (letter == '<')
      safe += "&lt;";
    else if (letter == '>')
      safe += "&gt;";
    else if (static_cast<unsigned char>(letter) >= ' ' && letter != '"')
      safe += letter;
  }
  return safe;
}

std::string shortened(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 2) + "..";
}

// "NVIDIA H100 80GB HBM3" is "H100 80GB HBM3".
std::string plain_model(std::string model) {
  for (const std::string_view maker : {"NVIDIA ", "Tesla ", "GeForce "}) {
    if (model.starts_with(maker)) model.erase(0, maker.size());
  }
  return model;
}

double thickness_of(double bandwidth) {
  return bandwidth <= 0 ? 1.5 : std::clamp(1.2 + std::sqrt(bandwidth) * 0.95, 1.5, 11.0);
}

class Picture {
 public:
  explicit Picture(const Machine& machine) : machine_(machine) {
    arrange();
    measure();
  }

  std::string drawn() {
    head();
    for (std::size_t half = 0; half < 2; ++half) {
      double x = margin + (inner_width() - width_of(halves_[half])) / 2;
      for (const Branch& branch : halves_[half]) {
        panel(branch, half == 1, x);
        x += width_of(branch) + panel_gap;
      }
    }
    links();
    foot();
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\">\n<title>{2}</title>\n{3}{4}</svg>\n",
        width_, height_, escaped(title_of(machine_)), style, lines_);
  }

 private:
  struct Spot {
    double x = 0;
    double y = 0;  // the end that faces the middle
    bool low = false;
  };

  // The first half of the nodes above, the others below; so that both have about as many devices.
  void arrange() {
    std::vector<Branch> branches = grow(machine_);
    std::size_t all = 0;
    for (const Branch& branch : branches) all += leaves(branch);
    std::size_t above = 0;
    for (Branch& branch : branches) {
      const bool up = above == 0 || above + leaves(branch) <= (all + 1) / 2 + 2;
      if (up) above += leaves(branch);
      halves_[up && halves_[1].empty() ? 0 : 1].push_back(std::move(branch));
    }
  }

  static std::size_t leaves(const Branch& branch) {
    std::size_t count = 0;
    for (const Twig& twig : branch.twigs) count += leaves_of(twig);
    return std::max<std::size_t>(1, count);
  }

  static double width_of(const Branch& branch) {
    return std::max(390.0, static_cast<double>(leaves(branch)) * (tile_width + gap) - gap + 2 * padding);
  }

  static double width_of(const std::vector<Branch>& half) {
    double width = 0;
    for (const Branch& branch : half) width += width_of(branch) + panel_gap;
    return std::max(0.0, width - panel_gap);
  }

  static std::size_t depth_of_half(const std::vector<Branch>& half) {
    std::size_t deepest = 1;
    for (const Branch& branch : half) {
      for (const Twig& twig : branch.twigs) deepest = std::max(deepest, depth_of(twig));
    }
    return deepest;
  }

  // Title of the panel, the processor, bars, and the tiles.
  static double height_of(const std::vector<Branch>& half) {
    if (half.empty()) return 0;
    return 40 + static_cast<double>(depth_of_half(half)) * level + tile_height + padding;
  }

  double inner_width() const { return std::max({width_of(halves_[0]), width_of(halves_[1]), 720.0}); }

  void measure() {
    joined_ = joined_of(machine_);
    gap_ = halves_[1].empty() ? (joined_.words.empty() ? 24 : 96) : (joined_.words.empty() ? 64 : middle);
    width_ = inner_width() + 2 * margin;
    notes_ = machine_.remotes.size();
    height_ = header + height_of(halves_[0]) + gap_ + height_of(halves_[1]) + 70 + static_cast<double>(notes_) * 18;
  }

  void add(const std::string& line) { lines_.append(line).append("\n"); }

  void text(double x, double y, std::string_view kind, const std::string& words, std::string_view anchor = "middle") {
    add(fmt::format(R"(<text x="{:.1f}" y="{:.1f}" class="{}" text-anchor="{}">{}</text>)", x, y, kind, anchor,
                    escaped(words)));
  }

  void box(double x, double y, double w, double h, std::string_view kind, double radius) {
    add(fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="{}" class="{}"/>)", x, y, w, h,
                    radius, kind));
  }

  void upright(double x, double from, double to, std::string_view kind, double thickness) {
    add(fmt::format(R"(<line x1="{0:.1f}" y1="{1:.1f}" x2="{0:.1f}" y2="{2:.1f}" class="{3}" stroke-width="{4:.1f}"/>)",
                    x, from, to, kind, thickness));
  }

  // Distances from the outer edge become places: the lower half stands on its head.
  double place(bool low, double from_outside, double height) const {
    if (!low) return header + from_outside;
    const double bottom = header + height_of(halves_[0]) + gap_ + height_of(halves_[1]);
    return bottom - from_outside - height;
  }

  void head() {
    box(0, 0, width_, height_, "page", 0);
    text(margin, 38, "title", machine_.board.empty() ? "This machine" : machine_.board, "start");
    const std::string title = title_of(machine_);
    const std::size_t colon = title.find(": ");
    std::string under = title.substr(colon + 2) + (machine_.guest ? "; a guest" : "");
    if (machine_.flat) under += "; the bus does not tell what is near what";
    text(margin, 58, "under", under, "start");
  }

  void panel(const Branch& branch, bool low, double x) {
    const double width = width_of(branch);
    const double height = height_of(halves_[low ? 1 : 0]);
    box(x, place(low, 0, height), width, height, "panel", 12);
    std::string name = branch.node < 0 ? "no NUMA node told" : fmt::format("NUMA node {}", branch.node);
    if (!branch.processors.empty()) name += "  ·  processors " + shortened(branch.processors, 40);
    box(x + padding, place(low, 10, bar_height), width - 2 * padding, bar_height, "cpu", 6);
    text(x + width / 2, place(low, 10, bar_height) + 17.5, "bar", name);
    const double used = static_cast<double>(leaves(branch)) * (tile_width + gap) - gap;
    double at = x + (width - used) / 2;
    for (const Twig& twig : branch.twigs) {
      draw(twig, low, at, 0);
      at += static_cast<double>(leaves_of(twig)) * (tile_width + gap);
    }
  }

  // `rank` counts bars from the outside; tiles are all in one row.
  void draw(const Twig& twig, bool low, double x, std::size_t rank) {
    const double above = 10 + static_cast<double>(rank) * level;  // of the bar that this one hangs on
    const double width = static_cast<double>(leaves_of(twig)) * (tile_width + gap) - gap;
    const double height = height_of(halves_[low ? 1 : 0]);
    const bool is_tile = twig.device != nullptr;
    const double from_outside = is_tile ? height - padding - tile_height : above + level;
    wire(twig, low, x + width / 2, above + bar_height, from_outside);
    if (is_tile) {
      tile(*twig.device, low, x, from_outside);
      return;
    }
    const double y = place(low, from_outside, bar_height);
    box(x, y, width, bar_height, twig.bridge == nullptr ? "root" : "switch", 6);
    text(x + width / 2, y + 17.5, "bar", bar_words(twig, width));
    double at = x;
    for (const Twig& below : twig.twigs) {
      draw(below, low, at, rank + 1);
      at += static_cast<double>(leaves_of(below)) * (tile_width + gap);
    }
  }

  std::string bar_words(const Twig& twig, double width) const {
    if (twig.bridge == nullptr) return width < 200 ? twig.root : "host bridge " + twig.root;
    const std::string& address = twig.bridge->place.address;
    std::string words = width < 200 ? address : (is_upper_port(*twig.bridge) ? "switch " : "port ") + address;
    const std::string link = link_words(machine_, *twig.bridge);
    if (width >= 300 && !link.empty()) words += "  ·  " + link;
    if (twig.bridge->acs == topology::Acs::on) words += width < 300 ? " ACS" : "  ·  access control on";
    return words;
  }

  void wire(const Twig& twig, bool low, double x, double from, double to) {
    double bandwidth = 0;
    bool down = false;
    std::string words;
    if (twig.device != nullptr) {
      const topology::Link& link = twig.device->place.link;
      const bool gpu = twig.device->kind == Kind::gpu;
      bandwidth = topology::bandwidth_of(gpu ? std::max(link.speed, link.most_speed) : link.speed, link.width);
      down = trained_down(machine_, *twig.device);
    } else if (twig.bridge != nullptr && !machine_.guest) {
      bandwidth = topology::bandwidth_of(twig.bridge->place.link.speed, twig.bridge->place.link.width);
      down = trained_down(machine_, *twig.bridge);
      words = link_words(machine_, *twig.bridge);
    }
    upright(x, place(low, from, 0), place(low, to, 0), down ? "down" : "wire", thickness_of(bandwidth));
    if (down && !words.empty()) text(x + 10, place(low, (from + to) / 2, 0) + 4, "fact alarm", words, "start");
  }

  void tile(const Device& device, bool low, double x, double from_outside) {
    const double y = place(low, from_outside, tile_height);
    const char* const kind = device.kind == Kind::gpu ? "gpu" : device.kind == Kind::drive ? "drive" : "nic";
    box(x, y, tile_width, tile_height, kind, 8);
    const double centre = x + tile_width / 2;
    text(centre, y + 21, "name", shortened(device.name, 12));
    const std::string fallback = device.kind == Kind::drive ? "NVMe" : device.kind == Kind::nic ? "network" : "";
    std::string facts = plain_model(about(device));
    if (facts.size() > 19 && !device.addresses.empty()) facts = device.addresses.front();
    text(centre, y + 37, "fact", shortened(facts.empty() ? fallback : facts, 19));
    text(centre, y + 52, "fact", device.place.address);
    text(centre, y + 67, trained_down(machine_, device) ? "fact alarm" : "fact",
         shortened(link_words(machine_, device), 22));
    spots_[device.place.address] = {centre, low ? y : y + tile_height, low};
  }

  void links() {
    const double top = header + height_of(halves_[0]);
    const double centre = top + gap_ / 2;
    if (joined_.words.empty()) {
      if (halves_[1].empty()) return;
      upright(width_ / 2, top + 6, top + gap_ - 6, "far", 5);
      text(width_ / 2 + 14, centre + 4, "under", "between the processors", "start");
      return;
    }
    if (!joined_.all_alike) {
      curves(top);
      text(width_ / 2, centre + (halves_[1].empty() ? 34 : 4), "under", shortened(joined_.words, 160));
      return;
    }
    constexpr double band = 34;
    double first = width_;
    double last = 0;
    for (const Device* const gpu : devices_of(machine_, Kind::gpu)) {
      const Spot& spot = spots_[gpu->place.address];
      upright(spot.x, spot.y, centre, "nvlink", 8);
      first = std::min(first, spot.x);
      last = std::max(last, spot.x);
    }
    const double least = std::max(last - first + 60, 360.0);
    const double from = std::clamp((first + last - least) / 2, 8.0, std::max(8.0, width_ - least - 8));
    box(from, centre - band / 2, least, band, "band", 17);
    text(from + least / 2, centre + 5, "bar", joined_.words);
  }

  void curves(double top) {
    for (const topology::Peer& peer : machine_.told.peers) {
      if (!peer.nvlink || !spots_.contains(peer.one) || !spots_.contains(peer.other)) continue;
      const Spot& one = spots_[peer.one];
      const Spot& other = spots_[peer.other];
      const double bend = one.low == other.low ? (one.low ? -1 : 1) * gap_ * 0.55 : 0;
      const double centre = top + gap_ / 2;
      add(fmt::format(R"(<path d="M {:.1f} {:.1f} C {:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}" fill="none" )"
                      R"(class="nvlink" stroke-width="{:.1f}"/>)",
                      one.x, one.y, one.x, bend != 0 ? one.y + bend : centre, other.x,
                      bend != 0 ? other.y + bend : centre, other.x, other.y, 1.5 + peer.links));
    }
  }

  void foot() {
    double y = height_ - 34 - static_cast<double>(notes_) * 18;
    for (const topology::Remote& remote : machine_.remotes) {
      text(margin, y, "under",
           fmt::format("{}: {} to {}{}", remote.name, remote.transport, remote.address,
                       remote.card.empty() ? "" : ", by " + remote.card),
           "start");
      y += 18;
    }
    double x = margin;
    const auto key = [&](const char* kind, const char* words, double room) {
      box(x, y - 11, 16, 14, kind, 3);
      text(x + 22, y, "under", words, "start");
      x += room;
    };
    key("gpu", "GPU", 66);
    key("drive", "NVMe drive", 110);
    key("nic", "network card", 122);
    for (const auto& [bandwidth, words] : {std::pair{63.0, "63 GB/s"}, std::pair{7.9, "8 GB/s"}}) {
      add(fmt::format(
          R"(<line x1="{0:.1f}" y1="{2:.1f}" x2="{1:.1f}" y2="{2:.1f}" class="wire" stroke-width="{3:.1f}"/>)", x,
          x + 26, y - 4, thickness_of(bandwidth)));
      text(x + 34, y, "under", words, "start");
      x += 96;
    }
    add(fmt::format(R"(<line x1="{0:.1f}" y1="{2:.1f}" x2="{1:.1f}" y2="{2:.1f}" class="down" stroke-width="4"/>)", x,
                    x + 26, y - 4));
    text(x + 34, y, "under", "less than both ends can do", "start");
  }

  const Machine& machine_;
  std::vector<Branch> halves_[2];
  Joined joined_;
  std::map<std::string, Spot> spots_;
  double gap_ = 0;
  double width_ = 0;
  double height_ = 0;
  std::size_t notes_ = 0;
  std::string lines_;
};

}  // namespace

std::string as_svg(const Machine& machine) {
  return Picture(machine).drawn();
}

}  // namespace sluice::topology_view
