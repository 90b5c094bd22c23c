// SPDX-License-Identifier: Apache-2.0
// From /proc alone: machines that only run tests have no debugger.
#include "contract/life/hung.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "support/scratch.h"

namespace sluice::life {

namespace {

// Executable memory of the process.
struct Code {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  // in the file
  std::string file;
};

std::vector<Code> code_of(const std::string& process) {
  std::vector<Code> found;
  std::ifstream maps(process + "/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    Code code;
    char dash = 0;
    std::string rights;
    std::string device;
    std::string inode;
    std::string path;
    words >> std::hex >> code.begin >> dash >> code.end >> rights >> code.offset >> device >> inode >> path;
    if (rights.find('x') == std::string::npos || path.empty()) continue;
    code.file = path.substr(path.rfind('/') + 1);
    found.push_back(code);
  }
  return found;
}

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

struct Place {
  std::uint64_t code = 0;
  std::uint64_t stack = 0;
};

// Of a thread that the kernel does not hold anywhere: it is stopped for a look. Nothing where this process may not.
std::optional<Place> place_of_running(pid_t thread) {
  if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) return std::nullopt;
  std::optional<Place> place;
  int status = 0;
  user_regs_struct registers{};
  iovec room{&registers, sizeof registers};
  if (ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) == 0 && waitpid(thread, &status, __WALL) == thread &&
      WIFSTOPPED(status) && ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &room) == 0) {
#if defined(__x86_64__)
    place = {registers.rip, registers.rsp};
#elif defined(__aarch64__)
    place = {registers.pc, registers.sp};
#endif
  }
  ptrace(PTRACE_DETACH, thread, nullptr, nullptr);
  return place;
}

// From what the kernel says of a thread that it holds: "NUMBER 0xARGUMENT... 0xSTACK 0xCODE".
std::optional<Place> place_in(const std::string& call) {
  std::istringstream words(call);
  std::vector<std::string> parts;
  for (std::string word; words >> word;) parts.push_back(word);
  if (parts.size() < 3) return std::nullopt;
  Place place;
  std::istringstream(parts[parts.size() - 2]) >> std::hex >> place.stack;
  std::istringstream(parts.back()) >> std::hex >> place.code;
  return place;
}

std::string spot(std::uint64_t address, const std::vector<Code>& code) {
  const auto place = std::find_if(code.begin(), code.end(),
                                  [address](const Code& each) { return address >= each.begin && address < each.end; });
  if (place == code.end()) return {};
  std::ostringstream text;
  text << ' ' << place->file << "+0x" << std::hex << address - place->begin + place->offset;
  return text.str();
}

// The words of the stack above `top` that point into code: return addresses, and what else looks like one.
std::string remembered(const std::string& process, std::uint64_t top, const std::vector<Code>& code) {
  constexpr std::size_t most = 40;
  std::array<std::uint64_t, 4096> words{};
  const support::Fd memory(open((process + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t got = pread(memory.get(), words.data(), sizeof words, static_cast<off_t>(top));
  std::ostringstream text;
  std::size_t shown = 0;
  for (std::size_t i = 0; got > 0 && i < static_cast<std::size_t>(got) / sizeof words[0] && shown < most; ++i) {
    const std::string name = spot(words[i], code);
    if (name.empty()) continue;
    text << name;
    ++shown;
  }
  return text.str();
}

}  // namespace

std::string what_it_does(pid_t process) {
  const std::string folder = "/proc/" + std::to_string(process);
  const std::vector<Code> code = code_of(folder);
  std::ostringstream text;
  text << "process " << process << " hangs:\n";
  std::error_code none;
  for (const auto& task : std::filesystem::directory_iterator(folder + "/task", none)) {
    const std::string place = task.path().string();
    const std::string stat = first_line(place + "/stat");
    const std::string call = first_line(place + "/syscall");
    text << "  " << first_line(place + "/comm") << ": state "
         << stat.substr(std::min(stat.size(), stat.rfind(')') + 2), 1) << ", in " << first_line(place + "/wchan")
         << ", call " << call << "\n   ";
    const auto known = call == "running" ? place_of_running(std::stoi(task.path().filename())) : place_in(call);
    if (known) text << spot(known->code, code) << remembered(folder, known->stack, code);
    text << "\n";
  }
  return text.str();
}

}  // namespace sluice::life
