// SPDX-License-Identifier: Apache-2.0
// Project quotas: the hard limit of a volume that is a directory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace sluice::csi {

class Quota {
 public:
  Quota() = default;
  Quota(const Quota&) = delete;
  Quota& operator=(const Quota&) = delete;
  virtual ~Quota() = default;

  virtual bool enforces() const = 0;
  // A folder, and all that is made in it from then on, belongs to a project of at most so many bytes.
  virtual void assign(const std::string& folder, std::uint32_t project, std::int64_t bytes) = 0;
  virtual void set_limit(std::uint32_t project, std::int64_t bytes) = 0;
  virtual std::int64_t used(std::uint32_t project) = 0;
};

enum class QuotaWish : std::uint8_t { require, none };

// Of the xfs that this folder lies on. `require` refuses a file system that is mounted without prjquota; `none` makes
// volumes whose limit is told and not enforced.
std::unique_ptr<Quota> open_quota(const std::string& folder, QuotaWish wish);

}  // namespace sluice::csi
