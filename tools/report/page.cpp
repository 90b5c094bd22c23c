// SPDX-License-Identifier: Apache-2.0
#include "report/page.h"

#include <fmt/format.h>

#include <utility>

namespace sluice::tools {
namespace {

// Colours are variables, so that pictures follow them. What is printed is always light.
constexpr std::string_view style = R"css(
:root{color-scheme:light dark;--paper:#fff;--text:#1f2328;--quiet:#59636e;--line:#d1d9e0;--soft:#f6f8fa;
--a:#1f6feb;--b:#bf5b04;--c:#1a7f37;--d:#8250df;--bad:#cf222e}
@media (prefers-color-scheme:dark){:root{--paper:#0d1117;--text:#e6edf3;--quiet:#9198a1;--line:#3d444d;--soft:#151b23;
--a:#58a6ff;--b:#f0883e;--c:#3fb950;--d:#bc8cff;--bad:#ff7b72}}
@media print{:root{--paper:#fff;--text:#000;--quiet:#444;--line:#bbb;--soft:#fff;--a:#0b57d0;--b:#a34700;--c:#116329;
--d:#6639ba;--bad:#a40e26}details{display:block}figure,table{break-inside:avoid}h2{break-after:avoid}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:62rem;padding:2rem 1.25rem 4rem;background:var(--paper);color:var(--text);
font:16px/1.5 system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif}
h1{font-size:1.6rem;margin:0 0 .25rem}h2{font-size:1.15rem;margin:2.5rem 0 .5rem;border-bottom:1px solid var(--line);
padding-bottom:.3rem}
p{margin:.5rem 0}.about,figcaption{color:var(--quiet)}figcaption{font-size:.875rem;margin-top:.25rem}
figure{margin:1rem 0}svg{display:block;width:100%;height:auto}svg text{font:12px system-ui,"DejaVu Sans",sans-serif;
fill:var(--text)}svg .quiet{fill:var(--quiet)}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.75rem;margin:1.25rem 0}
.figures div{background:var(--soft);border:1px solid var(--line);border-radius:8px;padding:.6rem .8rem}
.figures b{display:block;font-size:1.3rem;font-variant-numeric:tabular-nums}.figures span{color:var(--quiet);
font-size:.85rem}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.9rem;margin:.5rem 0}
th,td{text-align:left;padding:.3rem .7rem .3rem 0;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--quiet);font-weight:600}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
td{overflow-wrap:anywhere}td.n{overflow-wrap:normal}summary{cursor:pointer;color:var(--a);margin:.75rem 0}
code{font:.9em ui-monospace,"DejaVu Sans Mono",monospace}
)css";

std::string cells(const std::vector<std::string>& texts, const std::vector<bool>& numbers, const char* tag) {
  std::string row = "<tr>";
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const bool right = i < numbers.size() && numbers[i];
    row += fmt::format("<{0}{1}>{2}</{0}>", tag, right ? " class=\"n\"" : "", escaped(texts[i]));
  }
  return row + "</tr>\n";
}

std::string table_html(const Page::Table& table) {
  std::string html =
      "<div class=\"wide\"><table>\n<thead>" + cells(table.heads, table.numbers, "th") + "</thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : table.rows) html += cells(row, table.numbers, "td");
  return html + "</tbody></table></div>\n";
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += letter;
    }
  }
  return safe;
}

Page::Page(std::string_view title, std::string_view about) {
  text_ = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src "
      "data:\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n"
      "<p class=\"about\">{2}</p>\n",
      escaped(title), style, escaped(about));
}

void Page::heading(std::string_view text) {
  text_ += fmt::format("<h2>{}</h2>\n", escaped(text));
}

void Page::paragraph(std::string_view text) {
  text_ += fmt::format("<p>{}</p>\n", escaped(text));
}

void Page::picture(std::string_view svg, std::string_view caption) {
  text_ += fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n", svg, escaped(caption));
}

void Page::figures(const std::vector<std::pair<std::string, std::string>>& figures) {
  text_ += "<div class=\"figures\">\n";
  for (const auto& [number, what] : figures) {
    text_ += fmt::format("<div><b>{}</b><span>{}</span></div>\n", escaped(number), escaped(what));
  }
  text_ += "</div>\n";
}

void Page::table(const Table& table) {
  text_ += table_html(table);
}

void Page::folded_table(std::string_view summary, const Table& table) {
  text_ += fmt::format("<details><summary>{}</summary>\n{}</details>\n", escaped(summary), table_html(table));
}

std::string Page::html() && {
  return std::move(text_) + "</body>\n</html>\n";
}

}  // namespace sluice::tools
