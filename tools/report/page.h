// SPDX-License-Identifier: Apache-2.0
// A page of HTML in one file: no script, no network, light and dark as its reader has it, and fit to be printed.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::tools {

// Text from elsewhere, made safe for HTML.
std::string escaped(std::string_view text);

class Page {
 public:
  Page(std::string_view title, std::string_view about);

  // Headings, paragraphs, and what is drawn (charts.h), in this order.
  void heading(std::string_view text);
  void paragraph(std::string_view text);
  void picture(std::string_view svg, std::string_view caption);
  // Numbers that are to be seen first: (number, what it is).
  void figures(const std::vector<std::pair<std::string, std::string>>& figures);

  struct Table {
    std::vector<std::string> heads;
    std::vector<std::vector<std::string>> rows;
    std::vector<bool> numbers;  // columns that are written to the right
  };
  void table(const Table& table);
  // Folded, under a line that says what it is.
  void folded_table(std::string_view summary, const Table& table);

  // All of it. Once.
  std::string html() &&;

 private:
  std::string text_;
};

}  // namespace sluice::tools
