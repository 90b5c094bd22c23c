// SPDX-License-Identifier: Apache-2.0
#include "core/quota.h"

#include <fcntl.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/quota.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"
#include "core/refusal.h"

namespace sluice::csi {
namespace {

constexpr int project_quota = 2;
constexpr std::int64_t basic_block = 512;  // what xfs counts quotas in

base::UniqueFd open_folder(const std::string& path) {
  base::UniqueFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) refuse_errno("opening " + path, errno);
  return folder;
}

// By the descriptor of any file on it: no device node is wanted, which a container may lack.
int ask_quota(int fd, int command, std::uint32_t project, void* data) {
  const auto word = (static_cast<unsigned>(command) << SUBCMDSHIFT) | project_quota;
  return static_cast<int>(syscall(SYS_quotactl_fd, fd, word, project, data));
}

bool is_enforced(int fd) {
  fs_quota_stat state{};
  if (ask_quota(fd, Q_XGETQSTAT, 0, &state) != 0) return false;
  return (state.qs_flags & FS_QUOTA_PDQ_ENFD) != 0;
}

class KernelQuota : public Quota {
 public:
  KernelQuota(base::UniqueFd folder, bool enforces) : folder_(std::move(folder)), enforces_(enforces) {}

  bool enforces() const override { return enforces_; }

  void assign(const std::string& path, std::uint32_t project, std::int64_t bytes) override {
    const base::UniqueFd folder = open_folder(path);
    fsxattr attributes{};
    if (ioctl(folder.get(), FS_IOC_FSGETXATTR, &attributes) != 0) refuse_errno("reading the project of " + path, errno);
    attributes.fsx_projid = project;
    attributes.fsx_xflags |= FS_XFLAG_PROJINHERIT;
    if (ioctl(folder.get(), FS_IOC_FSSETXATTR, &attributes) != 0) refuse_errno("setting the project of " + path, errno);
    set_limit(project, bytes);
  }

  void set_limit(std::uint32_t project, std::int64_t bytes) override {
    if (!enforces_) return;
    fs_disk_quota limits{};
    limits.d_version = FS_DQUOT_VERSION;
    limits.d_flags = FS_PROJ_QUOTA;
    limits.d_fieldmask = FS_DQ_BHARD | FS_DQ_BSOFT;
    limits.d_id = project;
    limits.d_blk_hardlimit = static_cast<std::uint64_t>(bytes / basic_block);
    limits.d_blk_softlimit = limits.d_blk_hardlimit;
    if (ask_quota(folder_.get(), Q_XSETQLIM, project, &limits) != 0) refuse_errno("setting a quota", errno);
  }

  std::int64_t used(std::uint32_t project) override {
    if (!enforces_) return 0;
    fs_disk_quota limits{};
    if (ask_quota(folder_.get(), Q_XGETQUOTA, project, &limits) != 0) {
      if (errno == ENOENT) return 0;  // nothing was written
      refuse_errno("reading a quota", errno);
    }
    return static_cast<std::int64_t>(limits.d_bcount) * basic_block;
  }

 private:
  base::UniqueFd folder_;
  bool enforces_;
};

}  // namespace

std::unique_ptr<Quota> open_quota(const std::string& folder, QuotaWish wish) {
  base::UniqueFd opened = open_folder(folder);
  const bool enforces = is_enforced(opened.get());
  if (!enforces && wish == QuotaWish::require) {
    refuse(Code::failed_precondition,
           folder +
               " lies on a file system without enforced project quotas, so that one volume could fill all. Mount it as "
               "xfs with prjquota, or start with --quota none where that is acceptable.");
  }
  return std::make_unique<KernelQuota>(std::move(opened), enforces);
}

}  // namespace sluice::csi
