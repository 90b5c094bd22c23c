// SPDX-License-Identifier: Apache-2.0
// The tables of known file systems.
#include "facts/file_system.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace sluice::facts {

namespace {

struct Known {
  std::string_view name;
  FileSystem file_system;
  Substance substance = Substance::storage;
};

constexpr auto pseudo = Substance::pseudo;

// What is not here is FileSystem::other: readable and writable, and nothing more is known.
constexpr std::array known_names = {
    Known{"ext4", FileSystem::ext4},
    Known{"xfs", FileSystem::xfs},
    Known{"btrfs", FileSystem::btrfs},

    Known{"tmpfs", FileSystem::memory},
    Known{"ramfs", FileSystem::memory},
    Known{"rootfs", FileSystem::memory},
    Known{"devtmpfs", FileSystem::memory},
    Known{"hugetlbfs", FileSystem::memory},

    Known{"overlay", FileSystem::stacked},
    Known{"overlayfs", FileSystem::stacked},
    Known{"ecryptfs", FileSystem::stacked},
    Known{"aufs", FileSystem::stacked},
    Known{"unionfs", FileSystem::stacked},
    Known{"shiftfs", FileSystem::stacked},

    Known{"fuse", FileSystem::fuse},
    Known{"fuseblk", FileSystem::fuse},
    Known{"virtiofs", FileSystem::fuse},

    Known{"nfs", FileSystem::network},
    Known{"nfs4", FileSystem::network},
    Known{"cifs", FileSystem::network},
    Known{"smb3", FileSystem::network},
    Known{"ceph", FileSystem::network},
    Known{"9p", FileSystem::network},
    Known{"afs", FileSystem::network},
    Known{"lustre", FileSystem::network},
    Known{"gpfs", FileSystem::network},
    Known{"beegfs", FileSystem::network},
    Known{"wekafs", FileSystem::network},
    Known{"scatefs", FileSystem::network},
    Known{"pvfs2", FileSystem::network},
    Known{"orangefs", FileSystem::network},
    Known{"coda", FileSystem::network},
    Known{"vboxsf", FileSystem::network},

    Known{"proc", FileSystem::other, pseudo},
    Known{"sysfs", FileSystem::other, pseudo},
    Known{"debugfs", FileSystem::other, pseudo},
    Known{"tracefs", FileSystem::other, pseudo},
    Known{"securityfs", FileSystem::other, pseudo},
    Known{"selinuxfs", FileSystem::other, pseudo},
    Known{"smackfs", FileSystem::other, pseudo},
    Known{"configfs", FileSystem::other, pseudo},
    Known{"cgroup", FileSystem::other, pseudo},
    Known{"cgroup2", FileSystem::other, pseudo},
    Known{"cpuset", FileSystem::other, pseudo},
    Known{"resctrl", FileSystem::other, pseudo},
    Known{"bpf", FileSystem::other, pseudo},
    Known{"pstore", FileSystem::other, pseudo},
    Known{"efivarfs", FileSystem::other, pseudo},
    Known{"fusectl", FileSystem::other, pseudo},
    Known{"binfmt_misc", FileSystem::other, pseudo},
    Known{"devpts", FileSystem::other, pseudo},
    Known{"mqueue", FileSystem::other, pseudo},
    Known{"autofs", FileSystem::other, pseudo},
    Known{"nsfs", FileSystem::other, pseudo},
    Known{"pidfs", FileSystem::other, pseudo},
    Known{"rpc_pipefs", FileSystem::other, pseudo},
    Known{"nfsd", FileSystem::other, pseudo},
    Known{"binder", FileSystem::other, pseudo},
    Known{"functionfs", FileSystem::other, pseudo},
    Known{"anon_inodefs", FileSystem::other, pseudo},
    Known{"secretmem", FileSystem::other, pseudo},
    Known{"dmabuf", FileSystem::other, pseudo},
};

struct Magic {
  std::uint64_t value;
  std::string_view name;
};

// Written out: <linux/magic.h> has only some of them. A memfd of huge pages is hugetlbfs, any other one is tmpfs.
constexpr std::array known_magics = {
    Magic{0xEF53, "ext4"},
    Magic{0x58465342, "xfs"},
    Magic{0x9123683E, "btrfs"},
    Magic{0x01021994, "tmpfs"},
    Magic{0x858458F6, "ramfs"},
    Magic{0x958458F6, "hugetlbfs"},
    Magic{0x794C7630, "overlay"},
    Magic{0xF15F, "ecryptfs"},
    Magic{0x61756673, "aufs"},
    Magic{0x65735546, "fuse"},
    Magic{0x6969, "nfs"},
    Magic{0xFF534D42, "cifs"},
    Magic{0xFE534D42, "smb3"},
    Magic{0x00C36400, "ceph"},
    Magic{0x01021997, "9p"},
    Magic{0x5346414F, "afs"},
    Magic{0x6B414653, "afs"},
    Magic{0x0BD00BD0, "lustre"},
    Magic{0x47504653, "gpfs"},
    Magic{0x19830326, "beegfs"},
    Magic{0x20030528, "orangefs"},
    Magic{0x73757245, "coda"},
    Magic{0x786F4256, "vboxsf"},
    Magic{0xF2F52010, "f2fs"},
    Magic{0xCA451A4E, "bcachefs"},
    Magic{0x2FC12FC1, "zfs"},
    Magic{0x4D44, "vfat"},
    Magic{0x2011BAB0, "exfat"},
    Magic{0x9660, "iso9660"},
    Magic{0x73717368, "squashfs"},
    Magic{0xE0F5E1E2, "erofs"},
    Magic{0x7461636F, "ocfs2"},
    Magic{0x01161970, "gfs2"},
    Magic{0x9FA0, "proc"},
    Magic{0x62656572, "sysfs"},
    Magic{0x64626720, "debugfs"},
    Magic{0x74726163, "tracefs"},
    Magic{0x73636673, "securityfs"},
    Magic{0xF97CFF8C, "selinuxfs"},
    Magic{0x43415D53, "smackfs"},
    Magic{0x62656570, "configfs"},
    Magic{0x0027E0EB, "cgroup"},
    Magic{0x63677270, "cgroup2"},
    Magic{0x07655821, "resctrl"},
    Magic{0xCAFE4A11, "bpf"},
    Magic{0x6165676C, "pstore"},
    Magic{0xDE5E81E4, "efivarfs"},
    Magic{0x65735543, "fusectl"},
    Magic{0x42494E4D, "binfmt_misc"},
    Magic{0x1CD1, "devpts"},
    Magic{0x19800202, "mqueue"},
    Magic{0x0187, "autofs"},
    Magic{0x6E736673, "nsfs"},
    Magic{0x50494446, "pidfs"},
    Magic{0x67596969, "rpc_pipefs"},
    Magic{0x6C6F6F70, "binder"},
    Magic{0x09041934, "anon_inodefs"},
    Magic{0x5345434D, "secretmem"},
    Magic{0x444D4142, "dmabuf"},
};

}  // namespace

FileSystemType file_system_named(std::string_view name) {
  // "fuse.sshfs" and "fuseblk.ntfs" carry the server's own name behind the dot.
  const std::string_view family = name.substr(0, name.find('.'));
  const std::string_view wanted = family == "fuse" || family == "fuseblk" ? family : name;
  const auto* known = std::find_if(known_names.begin(), known_names.end(),
                                   [wanted](const Known& entry) { return entry.name == wanted; });
  if (known == known_names.end()) return {FileSystem::other, Substance::storage, std::string(name)};
  return {known->file_system, known->substance, std::string(name)};
}

FileSystemType file_system_with_magic(std::uint64_t magic) {
  const auto* known = std::find_if(known_magics.begin(), known_magics.end(),
                                   [magic](const Magic& entry) { return entry.value == magic; });
  if (known != known_magics.end()) return file_system_named(known->name);

  std::array<char, 16> digits{};
  char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), magic, 16).ptr;
  return {FileSystem::other, Substance::storage, "type 0x" + std::string(digits.data(), end)};
}

}  // namespace sluice::facts
