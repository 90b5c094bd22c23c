// SPDX-License-Identifier: Apache-2.0
#include "core/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/bytes.h"
#include "core/refusal.h"

namespace sluice::csi::parameters_test {
namespace {

using testing::HasSubstr;

const Names names;

std::string refusal_of(const Map& parameters, Driver driver, Code code = Code::invalid_argument) {
  try {
    parse_parameters(parameters, driver, names);
  } catch (const Refusal& refusal) {
    EXPECT_EQ(refusal.code(), code);
    return refusal.what();
  }
  return "taken";
}

TEST(Parameters, OfAnEmptyClassAreADirectoryThatPrefersTheDirectPath) {
  const ClassParameters parsed = parse_parameters({}, Driver::local, names);
  EXPECT_EQ(parsed.backend, BackendKind::directory);
  EXPECT_EQ(parsed.direct_path, DirectPath::prefer);
  EXPECT_EQ(parsed.gpu_affinity, GpuAffinity::any);
}

TEST(Parameters, OfTheDocumentedClassAreTaken) {
  const ClassParameters parsed = parse_parameters({{"type", "nvme-local"},
                                                   {"csi.storage.k8s.io/fstype", "xfs"},
                                                   {"directPath", "require"},
                                                   {"gpuAffinity", "root"},
                                                   {"csi.storage.k8s.io/pvc/name", "data"}},
                                                  Driver::local, names);
  EXPECT_EQ(parsed.fs_type, "xfs");
  EXPECT_EQ(parsed.direct_path, DirectPath::require);
  EXPECT_EQ(parsed.gpu_affinity, GpuAffinity::root);
}

TEST(Parameters, ThatNobodyKnowsAreRefusedWithTheListOfKnownOnes) {
  EXPECT_THAT(refusal_of({{"dirctPath", "require"}}, Driver::local), HasSubstr("directPath"));
}

TEST(Parameters, WithTheOtherDriversTypeNameThatDriver) {
  EXPECT_THAT(refusal_of({{"type", "nvme-of"}}, Driver::local), HasSubstr("nvmf.csi.sluice.dev"));
  EXPECT_THAT(refusal_of({{"type", "nvme-local"}}, Driver::fabrics), HasSubstr("provisioner csi.sluice.dev"));
}

TEST(Parameters, OfLogicalVolumesAreRefusedWithTheReason) {
  EXPECT_THAT(refusal_of({{"backend", "lvm"}}, Driver::local), HasSubstr("no direct path"));
}

TEST(Parameters, OfAPartitionMayHaveMkfsOptionsAndExt4) {
  const ClassParameters parsed =
      parse_parameters({{"backend", "partition"}, {"csi.storage.k8s.io/fstype", "ext4"}, {"mkfsOptions", "-i 8192"}},
                       Driver::local, names);
  EXPECT_EQ(parsed.mkfs_options, (std::vector<std::string>{"-i", "8192"}));
  EXPECT_THAT(refusal_of({{"mkfsOptions", "-i 8192"}}, Driver::local), HasSubstr("backend partition"));
  EXPECT_THAT(refusal_of({{"csi.storage.k8s.io/fstype", "ext4"}}, Driver::local), HasSubstr("backend partition"));
}

TEST(Parameters, OfFabricsAreAListOfAddressesAndTimes) {
  const ClassParameters parsed = parse_parameters({{"type", "nvme-of"},
                                                   {"nqn", "nqn.2014-08.org.nvmexpress:a"},
                                                   {"addresses", "10.0.0.1:4420, 10.0.1.1:4420"},
                                                   {"transport", "rdma"},
                                                   {"ctrlLossTmo", "-1"},
                                                   {"fastIoFailTmo", "15"}},
                                                  Driver::fabrics, names);
  EXPECT_EQ(parsed.fabrics.addresses, (std::vector<std::string>{"10.0.0.1:4420", "10.0.1.1:4420"}));
  EXPECT_EQ(parsed.fabrics.ctrl_loss_tmo, -1);
  EXPECT_EQ(parsed.fabrics.transport, "rdma");
  EXPECT_THAT(refusal_of({{"ctrlLossTmo", "soon"}}, Driver::fabrics), HasSubstr("number of seconds"));
  EXPECT_THAT(refusal_of({{"nqn", "a,hostnqn=b"}}, Driver::fabrics), HasSubstr("comma"));
}

TEST(Parameters, ThatCanBeModifiedAreBandwidthAndTimes) {
  EXPECT_EQ(parse_mutable({{"bandwidth", "5G"}}, Driver::local).bandwidth, 5000000000);
  EXPECT_EQ(parse_mutable({{"bandwidth", "max"}}, Driver::local).bandwidth, std::nullopt);
  EXPECT_THROW(parse_mutable({{"bandwidth", "fast"}}, Driver::local), Refusal);
  EXPECT_THROW(parse_mutable({{"ctrlLossTmo", "5"}}, Driver::local), Refusal);
  EXPECT_EQ(parse_mutable({{"ctrlLossTmo", "5"}}, Driver::fabrics).ctrl_loss_tmo, 5);
}

TEST(Capabilities, OfSeveralNodesAreRefused) {
  Capability capability{AccessType::mount, "", {}, AccessMode::multi_node_multi_writer};
  EXPECT_THROW(check_capability(capability, {}), Refusal);
  capability.mode = AccessMode::single_node_writer;
  EXPECT_NO_THROW(check_capability(capability, {}));
}

TEST(Capabilities, OfARawDeviceNeedABackendThatHasOne) {
  const Capability capability{AccessType::block, "", {}, AccessMode::single_node_writer};
  ClassParameters parsed;
  EXPECT_THROW(check_capability(capability, parsed), Refusal);
  parsed.backend = BackendKind::partition;
  EXPECT_NO_THROW(check_capability(capability, parsed));
}

TEST(Quantities, AreReadAsKubernetesWritesThem) {
  EXPECT_EQ(parse_quantity("100Gi"), std::int64_t{100} << 30);
  EXPECT_EQ(parse_quantity("4096"), 4096);
  EXPECT_EQ(parse_quantity("1k"), 1000);
  EXPECT_EQ(parse_quantity("-1"), std::nullopt);
  EXPECT_EQ(parse_quantity("1gb"), std::nullopt);
  EXPECT_EQ(parse_quantity(""), std::nullopt);
  EXPECT_EQ(parse_quantity("99999999999Pi"), std::nullopt);
}

TEST(Sizes, AreRoundedUpAndStayBelowTheLimit) {
  const SizeRule rule = {4096, mebibyte, gibibyte};
  EXPECT_EQ(size_for({}, rule), gibibyte);
  EXPECT_EQ(size_for({1, 0}, rule), mebibyte);
  EXPECT_EQ(size_for({mebibyte + 1, 0}, rule), mebibyte + 4096);
  EXPECT_EQ(size_for({0, 5 * mebibyte}, rule), 5 * mebibyte);
  EXPECT_THROW(size_for({mebibyte + 1, mebibyte + 2}, rule), Refusal);
  EXPECT_THROW(size_for({2, 1}, rule), Refusal);
  EXPECT_THROW(size_for({-1, 0}, rule), Refusal);
  EXPECT_THROW(size_for({INT64_MAX, 0}, rule), Refusal);
}

}  // namespace
}  // namespace sluice::csi::parameters_test
