// `sluice explain`: which way the bytes of a file go, and why, without moving any.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/driver.h"
#include "common/error.h"
#include "common/registered_file.h"
#include "common/text.h"
#include "sluice/commands.h"

namespace sluice::tools {
namespace {

struct Answer {
  std::string device;  // for people
  bool direct = false;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
  sluice_explanation_t words{};
};

Answer ask(const ExplainOptions& options) {
  Answer answer;
  answer.size = size_option("--size", options.size);
  answer.offset = size_option("--offset", options.offset);
  const bool host = options.memory == Memory::host;
  const bool write = options.transfer == Transfer::write;
  const RegisteredFile file(options.file, write ? Access::read_write : Access::read_only);
  if (!host) want_device(options.gpu);
  alignas(4096) static std::array<char, 4096> some_host_memory;
  answer.words = file.explain(host ? some_host_memory.data() : nullptr, options.gpu, write ? CUFILE_WRITE : CUFILE_READ,
                              answer.size, static_cast<off_t>(answer.offset));
  answer.direct = file.direct();
  answer.device = host ? "host memory" : fmt::format("GPU {}: {}", options.gpu, describe_device(options.gpu));
  return answer;
}

void print_text(const ExplainOptions& options, const Driver& driver, const Answer& answer) {
  fmt::print("{}: {} of {} at {}\n", printable(options.file),
             options.transfer == Transfer::write ? "a write" : "a read", format_bytes(answer.size), answer.offset);
  fmt::print("  path    {}\n", answer.words.path_name);
  fmt::print("  reason  {}: {}\n", answer.words.reason_name, answer.words.sentence);
  fmt::print("  remedy  {}\n", answer.words.remedy);
  fmt::print("  facts   {}\n", printable(answer.words.detail));
  fmt::print("  memory  {}\n", answer.device);
  if (options.memory == Memory::device && driver.kind == DriverKind::soft) {
    fmt::print("          (the soft GPU stands in: {})\n", driver.why_not_real);
  }
}

nlohmann::ordered_json as_json(const ExplainOptions& options, const Driver& driver, const Answer& answer) {
  nlohmann::ordered_json json;
  json["file"] = options.file;
  json["path"] = answer.words.path_name;
  json["reason"] = answer.words.reason_name;
  json["sentence"] = answer.words.sentence;
  json["remedy"] = answer.words.remedy;
  json["detail"] = answer.words.detail;
  json["operation"] = options.transfer == Transfer::write ? "write" : "read";
  json["size"] = answer.size;
  json["offset"] = answer.offset;
  json["direct"] = answer.direct;
  json["memory"] = options.memory == Memory::host ? "host" : "device";
  json["gpu"] = options.memory == Memory::host ? nlohmann::ordered_json() : nlohmann::ordered_json(options.gpu);
  json["device"] = answer.device;
  json["driver"] = driver_kind_name(driver.kind);
  return json;
}

}  // namespace

int explain_command(const ExplainOptions& options) {
  const Driver& driver = choose_driver();
  const Answer answer = ask(options);
  if (options.output == Output::json) {
    // Paths are bytes: what is no UTF-8 is replaced, not refused.
    fmt::print("{}\n", as_json(options, driver, answer).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    print_text(options, driver, answer);
  }
  return 0;
}

}  // namespace sluice::tools
