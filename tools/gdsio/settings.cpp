// SPDX-License-Identifier: Apache-2.0
#include "gdsio/settings.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <system_error>

#include "common/error.h"
#include "common/text.h"

namespace sluice::tools {
namespace {

constexpr int status_of_usage = 2;
constexpr std::uint64_t block = 4096;
constexpr unsigned most_in_batch = 4096;

constexpr std::array<const char*, 8> transfer_names = {"GPUD",           "CPUONLY",    "CPU_GPU",   "CPU_ASYNC_GPU",
                                                       "CPU_CACHED_GPU", "GPUD_ASYNC", "GPU_BATCH", "GPU_BATCH_STREAM"};
constexpr std::array<const char*, 4> operation_names = {"READ", "WRITE", "RANDREAD", "RANDWRITE"};
constexpr std::array<const char*, 4> operation_words = {"read", "write", "randread", "randwrite"};
constexpr std::array<const char*, 5> memory_words = {"device memory", "device memory mapped by cuMemMap",
                                                     "pinned host memory", "malloc", "mmap"};

[[noreturn]] void refuse(const std::string& sentence, const std::string& usage) {
  throw ToolError(sentence, usage, status_of_usage);
}

// The last word of what is spelled: the flag itself, or of "FILE:3: rw" the key.
std::string_view name_in(std::string_view spelled) {
  const std::size_t end = spelled.rfind(": ");
  return end == std::string_view::npos ? spelled : spelled.substr(end + 2);
}

std::string range_remedy(std::string_view spelled) {
  return fmt::format("{} takes a size, as 1M, or as 64K:1M:64K sizes from 64K to 1M in steps of 64K.",
                     name_in(spelled));
}

std::uint64_t size_of(std::string_view spelled, std::string_view text) {
  const std::optional<std::uint64_t> size = parse_size(text);
  if (!size || *size > INT64_MAX) {
    refuse(fmt::format("{} wants a size, and \"{}\" is none.", spelled, printable(text)),
           "Write a number of bytes, or a number with K, M, G or T: 4096, 64K, 1.5G.");
  }
  return *size;
}

void check_target(const JobSettings& job) {
  if (!job.file.empty() && !job.folder.empty()) {
    refuse("-f and -D exclude each other: a job has one file, or a folder with a file for each thread.",
           "Use: gdsio -f FILE -w 4 ..., or: gdsio -D FOLDER -w 4 ...");
  }
  if (job.file.empty() && job.folder.empty()) {
    refuse("There is nothing to read or write.",
           "Use: gdsio -f FILE -d 0 -w 4 -i 1M -x 0 -I 0, which reads FILE; gdsio --help tells more.");
  }
}

void check_memory(const Settings& settings) {
  const Transfer transfer = settings.transfer;
  if (transfer == Transfer::cpu_only || settings.memory <= MemoryKind::mapped || uses_cufile(transfer)) return;
  refuse(fmt::format("-m {} is host memory, which -x {} has to copy to a GPU.", static_cast<int>(settings.memory),
                     static_cast<int>(transfer)),
         "Use -m 0 or -m 1, or with host memory -x 0, 5, 6 or 7.");
}

// With O_DIRECT the processor's own transfers take whole blocks only; cuFile does the rest by itself.
void check_blocks(const Settings& settings) {
  if (uses_cufile(settings.transfer) || settings.buffered || settings.transfer == Transfer::cpu_cached_gpu) return;
  const int transfer = static_cast<int>(settings.transfer);
  if (settings.unaligned) {
    refuse(fmt::format("-U does not go with -x {}, which reads and writes whole blocks by O_DIRECT.", transfer),
           "Use -O 1 as well, or -x 0.");
  }
  const auto want = [transfer](const char* flag, std::uint64_t value) {
    if (value % block == 0) return;
    refuse(fmt::format("{} is {} bytes, and -x {} takes multiples of 4096 by O_DIRECT.", flag, value, transfer),
           "Use such a multiple, or -O 1, or -x 0.");
  };
  want("-i", settings.sizes.smallest);
  want("-i", settings.sizes.step);
  want("-o", settings.offset);
  if (is_write(settings.operation)) want("-s", settings.size.value_or(0));
  want("-a", settings.alignment.value_or(0));
  for (const JobSettings& job : settings.jobs) {
    want("start_offset", job.offset.value_or(0));
    if (is_write(settings.operation)) want("size", job.size.value_or(0));
  }
}

void check_randomness(const Settings& settings) {
  if (is_random(settings.operation)) return;
  if (settings.unaligned) {
    refuse("-U is about random offsets, and -I 0 and -I 1 go straight through the file.",
           is_write(settings.operation) ? "Use -I 3 -U." : "Use -I 2 -U.");
  }
  if (settings.alignment) {
    refuse("-a is about random offsets, and -I 0 and -I 1 go straight through the file.",
           is_write(settings.operation) ? "Use -I 3 -a 4K." : "Use -I 2 -a 4K.");
  }
}

void check_batch(const Settings& settings) {
  if (settings.batch && !is_batch(settings.transfer)) {
    refuse(fmt::format("-B is the size of a batch, and -x {} makes none.", static_cast<int>(settings.transfer)),
           "Use -x 6 or -x 7 with it.");
  }
  if (settings.mixed && !is_batch(settings.transfer)) {
    refuse(
        fmt::format("-M mixes reads and writes in a batch, and -x {} makes none.", static_cast<int>(settings.transfer)),
        "Use -x 6 or -x 7 with it.");
  }
  if (settings.mixed && settings.verify) {
    refuse("-M and -V exclude each other: what is read may be being written.", "Leave one of them out.");
  }
  for (const JobSettings& job : settings.jobs) {
    if (is_batch(settings.transfer) && depth_of(settings, job) > most_in_batch) {
      refuse(fmt::format("A batch of {} is too large.", depth_of(settings, job)), "Use at most 4096.");
    }
  }
}

}  // namespace

std::uint64_t number_of(std::string_view spelled, std::string_view text, const Allowed& allowed) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string remedy = fmt::format("{} takes {}.", name_in(spelled), allowed.what);
  if (error != std::errc{} || end != text.data() + text.size() || value > allowed.most) {
    refuse(fmt::format("{} wants a number from {} to {}, and \"{}\" is none.", spelled, allowed.least, allowed.most,
                       printable(text)),
           remedy);
  }
  if (value < allowed.least) {
    refuse(fmt::format("{} is {}, and has to be {} to {}.", spelled, value, allowed.least, allowed.most), remedy);
  }
  return value;
}

namespace {

// A number whose values have names: "0 (read), 1 (write), ... or 3 (randwrite)".
template <std::size_t count>
std::uint64_t one_of(std::string_view spelled, std::string_view text, const std::array<const char*, count>& names,
                     std::string what) {
  for (std::size_t i = 0; i < count; ++i) {
    what += fmt::format("{}{} ({})", i == 0 ? "" : i + 1 == count ? " or " : ", ", i, names[i]);
  }
  return number_of(spelled, text, {0, count - 1, what});
}

}  // namespace

SizeRange sizes_of(std::string_view spelled, std::string_view text) {
  const std::size_t first = text.find(':');
  if (first == std::string_view::npos) {
    const std::uint64_t size = size_of(spelled, text);
    if (size == 0)
      refuse(fmt::format("{} is 0, and transfers have to move something.", spelled),
             fmt::format("{} takes a size above 0, as 1M.", name_in(spelled)));
    return {size, size, 0};
  }
  const std::size_t second = text.find(':', first + 1);
  if (second == std::string_view::npos || text.find(':', second + 1) != std::string_view::npos) {
    refuse(fmt::format("{} takes one size, or three: \"{}\" is neither.", spelled, printable(text)),
           range_remedy(spelled));
  }
  const SizeRange range{size_of(spelled, text.substr(0, first)),
                        size_of(spelled, text.substr(first + 1, second - first - 1)),
                        size_of(spelled, text.substr(second + 1))};
  if (range.smallest == 0 || range.smallest > range.largest || (range.step == 0 && range.smallest < range.largest)) {
    refuse(fmt::format("{} {} is no range: it goes from the smallest size to the largest in steps.", spelled,
                       printable(text)),
           range_remedy(spelled));
  }
  return range;
}

Transfer transfer_of(std::string_view spelled, std::string_view text) {
  for (std::size_t i = 0; i < transfer_names.size(); ++i) {
    if (text == transfer_names[i]) return static_cast<Transfer>(i);
  }
  return static_cast<Transfer>(one_of(spelled, text, transfer_names, "a number or its name: "));
}

Operation operation_of(std::string_view spelled, std::string_view text) {
  for (std::size_t i = 0; i < operation_words.size(); ++i) {
    if (text == operation_words[i]) return static_cast<Operation>(i);
  }
  return static_cast<Operation>(one_of(spelled, text, operation_words, "a number or its name: "));
}

MemoryKind memory_of(std::string_view spelled, std::string_view text) {
  return static_cast<MemoryKind>(one_of(spelled, text, memory_words, ""));
}

double seconds_of(std::string_view spelled, std::string_view text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(seconds) || seconds <= 0 ||
      seconds > 1e6) {
    refuse(fmt::format("{} wants seconds, and \"{}\" are none.", spelled, printable(text)),
           fmt::format("{} takes seconds above 0, as 10 or 0.5.", name_in(spelled)));
  }
  return seconds;
}

bool yes_or_no(std::string_view spelled, std::string_view text) {
  if (text == "1" || text == "true" || text == "yes") return true;
  if (text == "0" || text == "false" || text == "no") return false;
  refuse(fmt::format("{} is 0 or 1, and \"{}\" is neither.", spelled, printable(text)),
         fmt::format("{} takes 0 (no) or 1 (yes).", name_in(spelled)));
}

void check_settings(const Settings& settings) {
  for (const JobSettings& job : settings.jobs) {
    check_target(job);
    if (job.size.value_or(settings.size.value_or(1)) == 0) refuse("-s is 0, which leaves nothing to do.", "Use: -s 1G");
    if (is_write(settings.operation) && !job.size && !settings.size) {
      refuse("A write has to know how large the file is to be.", "Use: -s 1G");
    }
    if (job.size.value_or(settings.size.value_or(0)) > INT64_MAX - job.offset.value_or(settings.offset)) {
      refuse("-o and -s together reach past the end of what a file can be.", "Use smaller ones.");
    }
  }
  if (settings.alignment && *settings.alignment == 0) refuse("-a is 0, which aligns nothing.", "Use: -a 4K");
  if (settings.sizes.largest > (std::uint64_t{1} << 36)) {
    refuse("-i is more than 64G, which no buffer holds.", "Use: -i 1M");
  }
  check_memory(settings);
  check_batch(settings);
  check_randomness(settings);
  check_blocks(settings);
}

unsigned depth_of(const Settings& settings, const JobSettings& job) {
  if (!is_batch(settings.transfer)) return 1;
  return settings.batch.value_or(job.threads);
}

unsigned threads_of(const Settings& settings, const JobSettings& job) {
  return is_batch(settings.transfer) && !settings.batch ? 1 : job.threads;
}

const char* transfer_name(Transfer transfer) {
  return transfer_names[static_cast<std::size_t>(transfer)];
}
const char* operation_name(Operation operation) {
  return operation_names[static_cast<std::size_t>(operation)];
}

}  // namespace sluice::tools
