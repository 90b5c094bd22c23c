// SPDX-License-Identifier: Apache-2.0
// The statistics that another process shows: every byte of the region may be anything.
#include <cstddef>

#include "common/text.h"
#include "gds_stats/follow.h"
#include "gds_stats/prometheus.h"
#include "gds_stats/report.h"
#include "gds_stats/sample.h"
#include "input.h"

using namespace sluice;

namespace {

// The input, over and over, as the memory of a region; of the latencies, which are all alike, three rows.
constexpr std::size_t hostile_bytes =
    offsetof(sluice_stats_region, latencies) + 3 * SLUICE_STATS_LATENCY_COUNT * sizeof(std::uint64_t);

class HostileRegion : public tools::ShownRegion {
 public:
  explicit HostileRegion(std::string_view bytes) : ShownRegion(1) {
    auto* const to = reinterpret_cast<char*>(&region_);
    for (std::size_t i = 0; i < hostile_bytes && !bytes.empty(); ++i) to[i] = bytes[i % bytes.size()];
  }
  const sluice_stats_region& read() override { return region_; }

 private:
  sluice_stats_region region_{};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::text_of(data, size);
  std::vector<std::unique_ptr<tools::ShownRegion>> earlier;
  earlier.push_back(std::make_unique<HostileRegion>(bytes.substr(0, size / 2)));
  std::vector<std::unique_ptr<tools::ShownRegion>> now;
  now.push_back(std::make_unique<HostileRegion>(bytes.substr(size / 2)));
  const tools::Sample first = tools::take_sample(earlier);
  const tools::Sample second = tools::take_sample(now);
  const unsigned level = bytes.empty() ? 1 : static_cast<unsigned char>(bytes.front()) % 3 + 1;
  for (const tools::Sample& sample : {second, tools::since(second, first, level == 1 ? 0 : 1e-9)}) {
    static_cast<void>(tools::text_of(sample, level));
    static_cast<void>(tools::known_text_of(sample, level));
    static_cast<void>(tools::json_of(sample, level).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    static_cast<void>(tools::rates_line(sample));
  }
  // Counters that are told to Prometheus never fall, whatever a process shows.
  tools::Sample total;
  tools::accumulate(total, first, {});
  const std::uint64_t before = total.sum.directions[0].bytes;
  tools::accumulate(total, second, first);
  fuzz::require(total.sum.directions[0].bytes >= before, "a counter fell\n");
  const tools::Exported exported{{{"comm", tools::printable(bytes.substr(0, 16))}}, &total};
  static_cast<void>(tools::prometheus_text({&exported, 1}, {}));
  static_cast<void>(tools::pod_of(bytes));
  return 0;
}
