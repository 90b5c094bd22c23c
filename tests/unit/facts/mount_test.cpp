// SPDX-License-Identifier: Apache-2.0
// Reading mountinfo.
#include "facts/mount.h"

#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include <string>

namespace sluice::facts {
namespace {

constexpr dev_t no_device = 0;

TEST(Unescaped, TurnsThreeOctalDigitsIntoOneByte) {
  EXPECT_EQ(unescaped("/a\\040b\\011c\\012d\\134e\\043"), "/a b\tc\nd\\e#");
  EXPECT_EQ(unescaped("\\303\\251"), "\303\251");
  EXPECT_EQ(unescaped("\\040"), " ");
}

TEST(Unescaped, LeavesWhatIsNoEscapeAlone) {
  for (const char* text : {"", "\\", "\\0", "\\04", "\\08 ", "\\400", "\\x41", "\\\\", "plain", "tail\\"}) {
    EXPECT_EQ(unescaped(text), text);
  }
}

TEST(ParseMount, TakesALineApart) {
  const auto mount = parse_mount(
      "36 35 98:7 /sub /mnt/my\\040data rw,noatime shared:1 master:2 - ext4 /dev/sda1 rw,data=ordered,errors=continue");
  ASSERT_TRUE(mount);
  EXPECT_EQ(mount->id, 36u);
  EXPECT_EQ(mount->device, makedev(98, 7));
  EXPECT_EQ(mount->root, "/sub");
  EXPECT_EQ(mount->point, "/mnt/my data");
  EXPECT_EQ(mount->options, "rw,noatime,data=ordered,errors=continue");
  EXPECT_EQ(mount->type, "ext4");
  EXPECT_EQ(mount->source, "/dev/sda1");
}

TEST(ParseMount, TakesAnyNumberOfOptionalFieldsAndEmptyOnes) {
  for (const char* optional : {"", "shared:1 ", "shared:1 master:2 propagate_from:3 unbindable "}) {
    const auto mount = parse_mount(std::string("5 1 0:9 / /t rw ") + optional + "- tmpfs  rw");
    ASSERT_TRUE(mount) << optional;
    EXPECT_EQ(mount->type, "tmpfs");
    EXPECT_EQ(mount->source, "");
    EXPECT_EQ(mount->options, "rw");
  }
}

TEST(ParseMount, LetsTheMountDecideAboutReadOnly) {
  const auto mount = parse_mount("5 1 8:1 / /t ro,relatime - xfs /dev/sda1 rw,relatime,inode64");
  ASSERT_TRUE(mount);
  EXPECT_EQ(mount->options, "ro,relatime,inode64");
}

TEST(ParseMount, KeepsLargeDeviceNumbers) {
  const auto mount = parse_mount("5 1 259:1048575 / /t rw - ext4 /dev/x rw");
  ASSERT_TRUE(mount);
  EXPECT_EQ(major(mount->device), 259u);
  EXPECT_EQ(minor(mount->device), 1048575u);
}

TEST(ParseMount, RefusesWhatIsNoMountLine) {
  for (const char* line :
       {"", " ", "36", "36 35 98:0", "x 35 98:0 / /m rw - ext4 /dev/sda1 rw", "36 35 98 / /m rw - ext4 /dev/sda1 rw",
        "36 35 98:x / /m rw - ext4 /dev/sda1 rw", "36 35 98:0 / /m rw shared:1", "36 35 98:0 / /m rw -",
        "36 35 98:0 / /m rw ext4 /dev/sda1"}) {
    EXPECT_FALSE(parse_mount(line)) << line;
  }
}

TEST(FindMount, PrefersTheIdOverTheDevice) {
  const char* mountinfo =
      "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "21 20 8:1 /home /bound rw - ext4 /dev/sda1 rw\n"
      "22 20 8:1 / /again rw - ext4 /dev/sda1 rw\n";
  const auto mount = find_mount(mountinfo, 21, makedev(8, 1));
  ASSERT_TRUE(mount);
  EXPECT_EQ(mount->point, "/bound");
  EXPECT_EQ(mount->root, "/home");
}

TEST(FindMount, FindsSubvolumesWhoseFilesHaveAnotherDevice) {
  const char* mountinfo =
      "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "30 20 0:44 /@home /home rw shared:3 - btrfs /dev/nvme0n1p3 rw,ssd,subvolid=257,subvol=/@home\n";
  const auto mount = find_mount(mountinfo, 30, makedev(0, 45));
  ASSERT_TRUE(mount);
  EXPECT_EQ(mount->type, "btrfs");
  EXPECT_EQ(mount->device, makedev(0, 44));
  EXPECT_EQ(mount->source, "/dev/nvme0n1p3");
}

TEST(FindMount, FindsTheUppermostOfMountsOverOneAnother) {
  const char* mountinfo =
      "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "21 20 8:2 / /data rw - xfs /dev/sda2 rw\n"
      "22 21 8:3 / /data rw - ext4 /dev/sda3 rw\n"
      "23 22 8:2 /x /data rw - xfs /dev/sda2 rw\n";
  EXPECT_EQ(find_mount(mountinfo, 22, makedev(8, 3))->type, "ext4");
  EXPECT_EQ(find_mount(mountinfo, 21, makedev(8, 2))->root, "/");
  EXPECT_EQ(find_mount(mountinfo, std::nullopt, makedev(8, 2))->root, "/x");
}

TEST(FindMount, FallsBackToTheDeviceWhenTheIdIsNotListed) {
  const char* mountinfo =
      "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "21 20 8:2 / /data rw - xfs /dev/sda2 rw";
  EXPECT_EQ(find_mount(mountinfo, 99, makedev(8, 2))->point, "/data");
  EXPECT_FALSE(find_mount(mountinfo, 99, makedev(8, 9)));
  EXPECT_FALSE(find_mount(mountinfo, std::nullopt, no_device));
  EXPECT_FALSE(find_mount("", 20, makedev(8, 1)));
}

TEST(FindMount, TakesLinesLongerThanAPageAndPassesBrokenOnes) {
  std::string layers = "lowerdir=";
  for (int layer = 0; layer < 2000; ++layer) layers += "/var/lib/layers/" + std::to_string(layer) + ":";
  const std::string mountinfo = "garbage\n\n20 1 0:50 / / rw,relatime - overlay overlay rw," + layers +
                                "\n21 20 8:2 / /data rw - xfs /dev/sda2 rw\n";
  const auto overlay = find_mount(mountinfo, 20, no_device);
  ASSERT_TRUE(overlay);
  EXPECT_EQ(overlay->type, "overlay");
  EXPECT_NE(overlay->options.find("/var/lib/layers/1999"), std::string::npos);
  EXPECT_EQ(find_mount(mountinfo, 21, no_device)->point, "/data");
}

TEST(MountIdInFdinfo, IsTheNumberBehindItsLabel) {
  EXPECT_EQ(mount_id_in_fdinfo("pos:\t0\nflags:\t0100002\nmnt_id:\t27\nino:\t5\n"), 27u);
  EXPECT_EQ(mount_id_in_fdinfo("mnt_id: 27"), 27u);
  EXPECT_EQ(mount_id_in_fdinfo("pos:\t0\n"), std::nullopt);
  EXPECT_EQ(mount_id_in_fdinfo("mnt_id:\t\n"), std::nullopt);
  EXPECT_EQ(mount_id_in_fdinfo(""), std::nullopt);
}

}  // namespace
}  // namespace sluice::facts
