// SPDX-License-Identifier: Apache-2.0
// Room on the drive that a claim of dynamic resource allocation was given: a volume made when the claim is prepared,
// and removed with it. A PersistentVolume cannot be that, because the scheduler has it made before it writes down the
// drive.
#pragma once

#include <cstdint>
#include <string>

#include "core/locks.h"
#include "core/parameters.h"
#include "core/volumes.h"

namespace sluice::csi {

class ClaimFolders {
 public:
  // `folder`: where they are mounted, at a path that the host sees, too.
  ClaimFolders(Volumes& volumes, OperationLocks& locks, const Names& names, std::string folder)
      : volumes_(volumes), locks_(locks), names_(names), folder_(std::move(folder)) {}

  // A name for the claim's room, of which each of its drives has one.
  static std::string name_of(const std::string& claim, std::size_t index);

  // Made and mounted, writable for every user as an emptyDir is; its path. Once more it is the same.
  std::string make(const std::string& name, const std::string& drive, std::int64_t bytes);
  // All of the claim's, as far as they are there.
  void remove(const std::string& claim);

 private:
  std::string place(const std::string& name) const { return folder_ + "/" + name; }

  Volumes& volumes_;
  OperationLocks& locks_;
  const Names& names_;
  std::string folder_;
};

}  // namespace sluice::csi
