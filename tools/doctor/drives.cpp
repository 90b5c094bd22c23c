// SPDX-License-Identifier: Apache-2.0
// NVMe drives and the queues in front of them.
#include <fmt/format.h>

#include "doctor/sections.h"
#include "doctor/storage.h"

namespace sluice::doctor {
namespace {

std::string queue_value(const Machine& machine, const std::string& disk, const char* name) {
  return machine.tree.value("/sys/block/" + disk + "/queue/" + name);
}

// "mq-deadline kyber [none]".
std::string chosen(const std::string& list) {
  const std::size_t open = list.find('[');
  const std::size_t close = list.find(']');
  return open == std::string::npos || close == std::string::npos ? list : list.substr(open + 1, close - open - 1);
}

void judge_link(const std::string& disk, const Card& card, Report& report) {
  if (card.link.width > 0 && card.link.most_width > card.link.width) {
    report.add(
        finding_at("storage.narrow_drive"),
        {{"drive", disk}, {"now", std::to_string(card.link.width)}, {"most", std::to_string(card.link.most_width)}});
  }
  if (card.link.speed > 0 && card.link.speed < card.link.most_speed) {
    report.add(finding_at("storage.slow_drive_link"),
               {{"drive", disk}, {"now", speed_words(card.link.speed)}, {"most", speed_words(card.link.most_speed)}});
  }
}

void judge_queue(const Machine& machine, const Drive& drive, Report& report) {
  const std::string scheduler = chosen(queue_value(machine, drive.disk, "scheduler"));
  if (!scheduler.empty() && scheduler != "none") {
    report.add(finding_at("storage.scheduler"), {{"drive", drive.disk}, {"scheduler", scheduler}});
  }
  constexpr std::int64_t fewest = 128;
  const std::optional<std::int64_t> requests = to_number(queue_value(machine, drive.disk, "nr_requests"));
  if (requests && *requests < fewest) {
    report.add(finding_at("storage.few_requests"), {{"drive", drive.disk}, {"requests", std::to_string(*requests)}});
  }
  const bool polls = machine.tree.number("/sys/module/nvme/parameters/poll_queues").value_or(0) > 0;
  if (!polls && drive.transport == "pcie" && configures(machine, "properties.use_poll_mode", "true")) {
    report.add(finding_at("storage.no_poll_queues"), {{"drive", drive.disk}});
  }
}

}  // namespace

std::string describe_mount(const MountedFs& mounted, const Machine& machine) {
  const facts::BlockFacts& block = mounted.block;
  std::string text = fmt::format("{}: {}", mounted.mount.point, mounted.mount.type);
  if (block.name.empty()) return text + " from " + mounted.mount.source + ", " + mounted.mount.options;
  text += fmt::format(" on {} ({}{}{})", block.name, block.driver.empty() ? "driver unknown" : block.driver,
                      block.transport.empty() ? "" : ", ", block.transport);
  if (!block.members.empty()) text += " over " + joined(block.members, "+");
  const std::string step = queue_value(machine, block.name, "dma_alignment");
  text += fmt::format(", O_DIRECT: offsets and lengths in steps of {}, addresses of {}",
                      block.logical_block == 0 ? "?" : std::to_string(block.logical_block),
                      step.empty() ? "?" : std::to_string(to_number(step).value_or(0) + 1));
  return text + ", " + mounted.mount.options;
}

void judge_drives(const Machine& machine, Report& report) {
  for (const Drive& drive : machine.drives) {
    if (drive.disk.empty()) continue;
    report.fact(Section::storage,
                fmt::format("{}: {}, {} of {} lanes, {} of {}, scheduler {}, {} requests a queue, node {}", drive.disk,
                            drive.transport, drive.card.link.width, drive.card.link.most_width,
                            speed_words(drive.card.link.speed), speed_words(drive.card.link.most_speed),
                            chosen(queue_value(machine, drive.disk, "scheduler")),
                            queue_value(machine, drive.disk, "nr_requests"), drive.card.node));
    if (drive.transport == "pcie") judge_link(drive.disk, drive.card, report);
    judge_queue(machine, drive, report);
  }
}

}  // namespace sluice::doctor
