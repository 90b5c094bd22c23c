// SPDX-License-Identifier: Apache-2.0
#include "core/claim_folders.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "core/refusal.h"
#include "facts/read.h"

namespace sluice::csi {
namespace {

constexpr mode_t every_user = 0777;

Capability mounted() {
  Capability capability;
  capability.type = AccessType::mount;
  capability.mode = AccessMode::single_node_writer;
  return capability;
}

}  // namespace

std::string ClaimFolders::name_of(const std::string& claim, std::size_t index) {
  return fmt::format("claim-{}-{}", claim, index);
}

std::string ClaimFolders::make(const std::string& name, const std::string& drive, std::int64_t bytes) {
  const std::vector<Backend*> backends = volumes_.backends();
  const auto found = std::find_if(backends.begin(), backends.end(),
                                  [&](const Backend* backend) { return backend->drive({}) == drive; });
  if (found == backends.end())
    refuse(Code::failed_precondition,
           fmt::format("{} holds no volumes on this node. Name it in pools or drives.", drive));
  const OperationLocks::Guard guard = locks_.take("name " + name);
  VolumeRequest request;
  request.name = name;
  request.range = {bytes, 0};
  request.parameters = {{"backend", csi::name_of((*found)->kind())}, {"directPath", "off"}};
  request.parsed = parse_parameters(request.parameters, Driver::local, names_);
  const Record record = (*found)->create(request);
  StageRequest stage;
  stage.id = record.id;
  stage.path = place(name);
  stage.capability = mounted();
  stage.volume_context = request.parameters;
  (*found)->stage(stage);
  if (chmod(stage.path.c_str(), every_user) != 0) refuse_errno("opening " + stage.path + " for every user", errno);
  return stage.path;
}

void ClaimFolders::remove(const std::string& claim) {
  const std::string begin = fmt::format("claim-{}-", claim);
  for (Backend* const backend : volumes_.backends()) {
    for (const Record& record : backend->records()) {
      if (record.kind != RecordKind::volume || !record.name.starts_with(begin)) continue;
      const OperationLocks::Guard guard = locks_.take("name " + record.name);
      backend->unstage(record.id, place(record.name));
      remove_target(place(record.name));
      backend->remove(record.id);
    }
  }
}

}  // namespace sluice::csi
