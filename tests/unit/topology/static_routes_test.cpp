// SPDX-License-Identifier: Apache-2.0
// Files of static routes: used as a whole, or refused as a whole.
#include "topology/static_routes.h"

#include <gmock/gmock.h>

#include "topology/drawn.h"
#include "topology/export.h"

namespace sluice::topology {
namespace {

using testing::HasSubstr;

std::string one_pair(std::string_view preference) {
  return R"({"pairs": [{"device": "0000:05:00.0", "gpu": "0000:83:00.0", "preference": )" + std::string(preference) +
         "}]}";
}

TEST(StaticRoutes, TakePreferencesFromOneTo0x7000) {
  for (const auto& [text, number] : {std::pair{"\"0x1\"", 1}, std::pair{"\"0x7000\"", 0x7000}, std::pair{"17", 17}}) {
    const StaticRoutes routes = parse_static_routes(one_pair(text));
    EXPECT_EQ(routes.error, "");
    EXPECT_EQ(routes.pairs.at({"0000:05:00.0", "0000:83:00.0"}), number);
  }
}

TEST(StaticRoutes, AreRefusedAsAWhole) {
  for (const char* const text : {"-1", "0", "\"0x7001\"", "\"-0x1\"", "\"near\"", "1.5", "true", "null", "\"0x1 \""}) {
    const StaticRoutes routes = parse_static_routes(one_pair(text));
    EXPECT_TRUE(routes.pairs.empty()) << text;
    EXPECT_THAT(routes.error, HasSubstr("line 1: preference is ")) << text;
  }
  const std::string good = R"({"device": "0000:05:00.0", "gpu": "0000:83:00.0", "preference": 1})";
  for (const auto& [text, error] :
       {std::pair{"{\"pairs\": [" + good + ",\n{\"device\": \"nvme0\"}]}", "line 2: device wants an address"},
        std::pair{"{\"pairs\": [" + good + ",\n" + good + "]}", "line 2: this pair is given twice"},
        std::pair{"{\"pairs\": [" + good + ",\n7]}", "line 2: a pair is an object"},
        std::pair{std::string("{\"pairs\": {}}"), "there is no list of \"pairs\""},
        std::pair{std::string("[]"), "there is no list of \"pairs\""},
        std::pair{std::string("{\"pairs\": ["), "line 1: "}, std::pair{std::string(), "line 1: "}}) {
    const StaticRoutes routes = parse_static_routes(text);
    EXPECT_TRUE(routes.pairs.empty()) << text;
    EXPECT_THAT(routes.error, HasSubstr(error)) << text;
  }
}

TEST(StaticRoutes, AnExportIsAFileOfThem) {
  const Machine machine = drawn_machine();
  const StaticRoutes routes = parse_static_routes(to_json(machine));
  EXPECT_EQ(routes.error, "");
  EXPECT_EQ(routes.pairs.size(), 3u * 4u);
  RoutingRules rules;
  rules.fixed = routes.pairs;
  for (const Device& device : machine.devices) {
    if (device.kind == Kind::gpu) continue;
    for (const Device* const gpu : devices_of(machine, Kind::gpu)) {
      EXPECT_EQ(preference_between(machine, device, *gpu, rules), preference_between(machine, device, *gpu, {}));
    }
  }
}

TEST(StaticRoutes, AFileThatCannotBeReadIsRefused) {
  config::Config config;
  RoutingRules rules;
  EXPECT_EQ(apply_static_routes(config, facts::Root("/no/such/tree"), rules), "") << "it is not wanted";
  config.set(config::key_at("miscellaneous.enable_static_routing"), true, config::Origin::file);
  EXPECT_EQ(apply_static_routes(config, facts::Root("/no/such/tree"), rules),
            "/etc/topology.json is not used: it cannot be read");
}

}  // namespace
}  // namespace sluice::topology
