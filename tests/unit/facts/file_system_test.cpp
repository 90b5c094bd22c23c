// SPDX-License-Identifier: Apache-2.0
// Knowing file systems by name and by number.
#include "facts/file_system.h"

#include <gtest/gtest.h>
#include <linux/magic.h>

#include <string>

namespace sluice::facts {
namespace {

struct Case {
  const char* name;
  FileSystem file_system;
};

TEST(FileSystemNamed, KnowsTheFamilies) {
  for (const Case& known : {Case{"ext4", FileSystem::ext4},       Case{"xfs", FileSystem::xfs},
                            Case{"btrfs", FileSystem::btrfs},     Case{"tmpfs", FileSystem::memory},
                            Case{"devtmpfs", FileSystem::memory}, Case{"hugetlbfs", FileSystem::memory},
                            Case{"overlay", FileSystem::stacked}, Case{"fuse", FileSystem::fuse},
                            Case{"fuse.sshfs", FileSystem::fuse}, Case{"fuseblk", FileSystem::fuse},
                            Case{"fuse.nfs", FileSystem::fuse},   Case{"virtiofs", FileSystem::fuse},
                            Case{"nfs", FileSystem::network},     Case{"nfs4", FileSystem::network},
                            Case{"9p", FileSystem::network},      Case{"lustre", FileSystem::network},
                            Case{"ext3", FileSystem::other},      Case{"zfs", FileSystem::other},
                            Case{"fusebox", FileSystem::other},   Case{"", FileSystem::other}}) {
    const FileSystemType type = file_system_named(known.name);
    EXPECT_EQ(type.file_system, known.file_system) << known.name;
    EXPECT_EQ(type.substance, Substance::storage) << known.name;
    EXPECT_EQ(type.name, known.name);
  }
}

TEST(FileSystemNamed, KnowsWhatIsMadeUpByTheKernel) {
  for (const char* name : {"proc", "sysfs", "debugfs", "tracefs", "cgroup", "cgroup2", "configfs", "bpf", "pstore",
                           "securityfs", "devpts", "mqueue", "fusectl", "binfmt_misc", "nsfs"}) {
    EXPECT_EQ(file_system_named(name).substance, Substance::pseudo) << name;
  }
}

TEST(FileSystemWithMagic, AgreesWithTheKernelsNumbers) {
  struct Number {
    std::uint64_t magic;
    const char* name;
  };
  for (const Number& known : {Number{EXT4_SUPER_MAGIC, "ext4"},
                              Number{XFS_SUPER_MAGIC, "xfs"},
                              Number{BTRFS_SUPER_MAGIC, "btrfs"},
                              Number{TMPFS_MAGIC, "tmpfs"},
                              Number{RAMFS_MAGIC, "ramfs"},
                              Number{HUGETLBFS_MAGIC, "hugetlbfs"},
                              Number{OVERLAYFS_SUPER_MAGIC, "overlay"},
                              Number{ECRYPTFS_SUPER_MAGIC, "ecryptfs"},
                              Number{FUSE_SUPER_MAGIC, "fuse"},
                              Number{NFS_SUPER_MAGIC, "nfs"},
                              Number{CIFS_SUPER_MAGIC, "cifs"},
                              Number{SMB2_SUPER_MAGIC, "smb3"},
                              Number{CEPH_SUPER_MAGIC, "ceph"},
                              Number{V9FS_MAGIC, "9p"},
                              Number{AFS_SUPER_MAGIC, "afs"},
                              Number{AFS_FS_MAGIC, "afs"},
                              Number{CODA_SUPER_MAGIC, "coda"},
                              Number{F2FS_SUPER_MAGIC, "f2fs"},
                              Number{MSDOS_SUPER_MAGIC, "vfat"},
                              Number{EXFAT_SUPER_MAGIC, "exfat"},
                              Number{ISOFS_SUPER_MAGIC, "iso9660"},
                              Number{SQUASHFS_MAGIC, "squashfs"},
                              Number{EROFS_SUPER_MAGIC_V1, "erofs"},
                              Number{OCFS2_SUPER_MAGIC, "ocfs2"},
                              Number{PROC_SUPER_MAGIC, "proc"},
                              Number{SYSFS_MAGIC, "sysfs"},
                              Number{DEBUGFS_MAGIC, "debugfs"},
                              Number{TRACEFS_MAGIC, "tracefs"},
                              Number{SECURITYFS_MAGIC, "securityfs"},
                              Number{SELINUX_MAGIC, "selinuxfs"},
                              Number{SMACK_MAGIC, "smackfs"},
                              Number{CGROUP_SUPER_MAGIC, "cgroup"},
                              Number{CGROUP2_SUPER_MAGIC, "cgroup2"},
                              Number{RDTGROUP_SUPER_MAGIC, "resctrl"},
                              Number{BPF_FS_MAGIC, "bpf"},
                              Number{PSTOREFS_MAGIC, "pstore"},
                              Number{EFIVARFS_MAGIC, "efivarfs"},
                              Number{BINFMTFS_MAGIC, "binfmt_misc"},
                              Number{DEVPTS_SUPER_MAGIC, "devpts"},
                              Number{AUTOFS_SUPER_MAGIC, "autofs"},
                              Number{NSFS_MAGIC, "nsfs"},
                              Number{BINDERFS_SUPER_MAGIC, "binder"},
                              Number{ANON_INODE_FS_MAGIC, "anon_inodefs"},
                              Number{SECRETMEM_MAGIC, "secretmem"},
                              Number{DMA_BUF_MAGIC, "dmabuf"}}) {
    EXPECT_EQ(file_system_with_magic(known.magic).name, known.name) << std::hex << known.magic;
  }
}

TEST(FileSystemWithMagic, NamesAnUnknownNumber) {
  const FileSystemType type = file_system_with_magic(0x1234abcd);
  EXPECT_EQ(type.name, "type 0x1234abcd");
  EXPECT_EQ(type.file_system, FileSystem::other);
  EXPECT_EQ(type.substance, Substance::storage);
}

}  // namespace
}  // namespace sluice::facts
