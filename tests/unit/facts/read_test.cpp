// SPDX-License-Identifier: Apache-2.0
// The readers of small files.
#include "facts/read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "facts/tree.h"

namespace sluice::facts {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ReadText, ReturnsAFileOfAnySizeWhole) {
  Tree tree;
  for (const std::size_t size : {0u, 1u, 65535u, 65536u, 65537u, 1000003u}) {
    std::string text;
    for (std::size_t at = 0; at < size; ++at) text += static_cast<char>('a' + at % 23);
    tree.file("/text", text);
    EXPECT_EQ(read_text(tree.at("/text")), text) << "size " << size;
  }
}

TEST(ReadText, IsNothingForWhatIsMissingOrNoFile) {
  Tree tree;
  tree.folder("/folder");
  EXPECT_EQ(read_text(tree.at("/missing")), std::nullopt);
  EXPECT_EQ(read_text(tree.at("/folder")), std::nullopt);
}

TEST(ReadText, NeverWaitsForAPipeNorReadsADevice) {
  Tree tree;
  tree.folder("/dev");
  ASSERT_EQ(::mkfifo(tree.at("/dev/pipe").c_str(), 0600), 0);
  tree.link("/dev/endless", "/dev/zero");
  for (const char* path : {"/dev/pipe", "/dev/endless"}) {
    EXPECT_EQ(read_text(tree.at(path)), std::nullopt) << path;
    EXPECT_THAT(file_contains(tree.at(path), {"x"}), ElementsAre(false)) << path;
  }
}

TEST(ReadValue, IsTheFirstLineWithoutBlanks) {
  Tree tree;
  tree.file("/value", "  pcie \t\nsecond\n").file("/empty", "").file("/blank", " \n");
  EXPECT_EQ(read_value(tree.at("/value")), "pcie");
  EXPECT_EQ(read_value(tree.at("/empty")), "");
  EXPECT_EQ(read_value(tree.at("/blank")), "");
  EXPECT_EQ(read_value(tree.at("/missing")), std::nullopt);
}

TEST(FileContains, FindsTheTextWhereverThePiecesAreCut) {
  Tree tree;
  const std::string wanted = " needle\n";
  for (std::size_t place = 65536 - 20; place < 65536 + 20; ++place) {
    tree.file("/hay", std::string(place, 'x') + wanted + std::string(100000, 'y'));
    EXPECT_TRUE(file_contains(tree.at("/hay"), {wanted})[0]) << "at " << place;
  }
  tree.file("/hay", std::string(200000, 'x') + " needl");
  EXPECT_FALSE(file_contains(tree.at("/hay"), {wanted})[0]);
  EXPECT_FALSE(file_contains(tree.at("/missing"), {wanted})[0]);
}

TEST(FileContains, TellsEachTextByItself) {
  Tree tree;
  tree.file("/hay", std::string(70000, 'x') + "second" + std::string(70000, 'y') + "first");
  EXPECT_EQ(file_contains(tree.at("/hay"), {"first", "none", "second"}), (std::vector{true, false, true}));
}

TEST(ReadLink, ReturnsTheTextOfALinkAndNothingElse) {
  Tree tree;
  tree.link("/link", "../../devices/vda").file("/file", "");
  EXPECT_EQ(read_link(tree.at("/link")), "../../devices/vda");
  EXPECT_EQ(read_link(tree.at("/file")), std::nullopt);
  EXPECT_EQ(read_link(tree.at("/missing")), std::nullopt);
}

TEST(ListNames, AreSortedAndEmptyWhereThereIsNoFolder) {
  Tree tree;
  tree.file("/folder/b", "").file("/folder/a", "").folder("/folder/c");
  EXPECT_THAT(list_names(tree.at("/folder")), ElementsAre("a", "b", "c"));
  EXPECT_THAT(list_names(tree.at("/missing")), IsEmpty());
}

TEST(PathParts, SplitAtTheLastSlash) {
  EXPECT_EQ(last_component("../../block/vda"), "vda");
  EXPECT_EQ(last_component("vda"), "vda");
  EXPECT_EQ(last_component("vda/"), "");
  EXPECT_EQ(parent_path("../../block/vda"), "../../block");
  EXPECT_EQ(parent_path("vda"), "");
}

TEST(Trimmed, TakesBlanksFromBothSidesOnly) {
  EXPECT_EQ(trimmed(" \ta b\r\n"), "a b");
  EXPECT_EQ(trimmed("\n\n"), "");
  EXPECT_EQ(trimmed(""), "");
}

}  // namespace
}  // namespace sluice::facts
