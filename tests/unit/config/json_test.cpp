// SPDX-License-Identifier: Apache-2.0
// The reader of JSON with comments: what it takes, what it refuses, and where it says the fault lies.
#include "config/json.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::config {
namespace {

Json read(std::string_view text) {
  auto parsed = parse_json(text);
  if (const auto* const error = std::get_if<JsonError>(&parsed)) {
    ADD_FAILURE() << error->at.line << ":" << error->at.column << ": " << error->what << " in " << text;
    return {};
  }
  return std::get<Json>(parsed);
}

JsonError refused(std::string_view text) {
  auto parsed = parse_json(text);
  if (const auto* const error = std::get_if<JsonError>(&parsed)) {
    EXPECT_FALSE(error->what.empty());
    return *error;
  }
  ADD_FAILURE() << "this was taken: " << text;
  return {};
}

TEST(Json, TakesEveryKindOfValue) {
  const Json top = read(R"({"a": true, "b": false, "c": null, "d": -12, "e": "x", "f": [1, "y"], "g": {}})");
  ASSERT_EQ(top.members.size(), 7u);
  EXPECT_TRUE(top.members[0].value.boolean);
  EXPECT_EQ(top.members[1].value.kind, Json::Kind::boolean);
  EXPECT_EQ(top.members[2].value.kind, Json::Kind::null);
  EXPECT_EQ(top.members[3].value.text, "-12");
  EXPECT_EQ(top.members[4].value.text, "x");
  EXPECT_EQ(top.members[5].value.items.size(), 2u);
  EXPECT_EQ(top.members[6].value.kind, Json::Kind::object);
}

TEST(Json, SkipsBothKindsOfComments) {
  const Json top = read("// first\n{ /* a\nb */ \"a\" /**/ : // here\n 1 /* ** // */ } // last");
  ASSERT_EQ(top.members.size(), 1u);
  EXPECT_EQ(top.members[0].value.text, "1");
  EXPECT_EQ(read(R"({"a": "// no comment /* */"})").members[0].value.text, "// no comment /* */");
}

TEST(Json, RemembersLinesAndColumns) {
  const Json top = read("{\n  /* two\n lines */ \"a\": {\n\t\"b\": 7\n}}");
  EXPECT_EQ(top.members[0].at.line, 3);
  EXPECT_EQ(top.members[0].at.column, 11);
  const JsonMember& b = top.members[0].value.members[0];
  EXPECT_EQ(b.at.line, 4);
  EXPECT_EQ(b.value.at.column, 7);
}

TEST(Json, KeepsTheSpellingOfNumbers) {
  for (const char* number : {"0", "-0", "16384", "1.5", "1e9", "2E-3", "-7.25e+2", "99999999999999999999999"}) {
    EXPECT_EQ(read(number).text, number);
  }
  for (const char* number : {"01", "-", "1.", ".5", "+1", "1e", "0x10", "--1", "1e+", "NaN"}) refused(number);
}

TEST(Json, UnderstandsEscapes) {
  EXPECT_EQ(read(R"("\"\\\/\b\f\n\r\t")").text, "\"\\/\b\f\n\r\t");
  EXPECT_EQ(read(R"("\u0041\u00e4\u20AC\ud83d\ude00")").text, "A\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
  for (const char* text : {R"("\x")", R"("\u12g4")", R"("\ud83d")", R"("\ud83dx")", R"("\ude00")", R"("\u")", "\"\\"}) {
    refused(text);
  }
}

TEST(Json, LetsAByteOrderMarkPass) {
  EXPECT_EQ(read("\xef\xbb\xbf{}").kind, Json::Kind::object);
}

TEST(Json, RefusesWhatIsBrokenAndSaysWhere) {
  struct Case {
    const char* text;
    int line;
    int column;
    const char* key;
  };
  for (const Case& broken :
       {Case{"", 1, 1, ""}, Case{"  // nothing\n", 2, 1, ""}, Case{"{", 1, 2, ""}, Case{"{} x", 1, 4, ""},
        Case{"{\"a\": 1,}", 1, 8, ""}, Case{"{\"a\":\n {\"b\": [1,\n ]}}", 2, 10, "a.b"}, Case{"{\"a\" 1}", 1, 6, "a"},
        Case{"{\"a\":\n\n  nothing}", 3, 3, "a"}, Case{"{\"a\": {\"b\": \"never\n\"}}", 1, 13, "a.b"},
        Case{"{a: 1}", 1, 2, ""}, Case{"{\"a\": 1 \"b\": 2}", 1, 9, ""}, Case{"{} /* never", 1, 4, ""},
        Case{"[1 2]", 1, 4, ""}, Case{"tru", 1, 1, ""}, Case{"\"a\tb\"", 1, 3, ""}, Case{"{\"a\": 1]", 1, 8, ""}}) {
    const JsonError error = refused(broken.text);
    EXPECT_EQ(error.at.line, broken.line) << broken.text << ": " << error.what;
    EXPECT_EQ(error.at.column, broken.column) << broken.text << ": " << error.what;
    EXPECT_EQ(error.key, broken.key) << broken.text;
  }
}

TEST(Json, RefusesDeepNestingInsteadOfOverflowingTheStack) {
  EXPECT_EQ(read(std::string(32, '[') + std::string(32, ']')).kind, Json::Kind::array);
  refused(std::string(34, '[') + std::string(34, ']'));
  refused(std::string(1000000, '['));
}

TEST(Json, TakesBytesOfZeroForNoEnd) {
  using namespace std::string_view_literals;
  EXPECT_EQ(read("\"a\xc3\xa4\"").text, "a\xc3\xa4");
  refused("{\0}"sv);
  refused("[1\0]"sv);
  refused("\"\0\""sv);
}

TEST(Json, QuotesTextSoThatItReadsBack) {
  const std::string text = "a \"b\" \\ \n\t\x01 \xc3\xa4";
  EXPECT_EQ(read(config::quoted(text)).text, text);
}

TEST(Json, MakesForeignTextSafeForOneLine) {
  EXPECT_EQ(printable("a\nb\x1b[31m"), "a?b?[31m");
  EXPECT_LE(printable(std::string(5000, 'x')).size(), 403u);
}

}  // namespace
}  // namespace sluice::config
