// SPDX-License-Identifier: Apache-2.0
// gdsio_verify: reads a file through GPU memory and compares every byte with what plain reads give.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "common/cufile_words.h"
#include "common/driver.h"
#include "common/error.h"
#include "common/gpu.h"
#include "common/notes.h"
#include "common/text.h"
#include "common/whole_number.h"
#include "common/written.h"
#include "cufile.h"

namespace sluice::tools {
namespace {

constexpr int usage_status = 2;
constexpr unsigned char filling = 0x5A;

constexpr const char* lesson =
    "Reads SIZE bytes in COUNT transfers into GPU memory that was filled with other bytes, and compares each with a\n"
    "plain, buffered read. Nothing is written.\n"
    "\n"
    "Examples:\n"
    "  gdsio_verify -f /data/file -d 0\n"
    "  gdsio_verify -f /data/file -d 0 -o 12345 -s 100M -n 10 -g 512 -S\n"
    "  gdsio_verify -f /data/file -m 0               by cuFileReadAsync\n"
    "\n"
    "Exit status: 0; 1 when a byte differs or something failed; 2 when the command line is not understood.";

struct Wishes {
  std::string file;
  int gpu = 0;
  std::string offset = "0";
  std::string size;
  std::uint64_t count = 1;
  std::string alignment = "0";
  int sync = 1;
  bool skip_register = false;
  std::string ignored;
};

// The file twice: for cuFile by O_DIRECT where that is known, and buffered to compare with.
class Checked {
 public:
  explicit Checked(const std::string& path) : plain_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (plain_ < 0) {
      throw ToolError(fmt::format("{} cannot be opened: {}.", printable(path), system_words(errno)),
                      "Check the path and its permissions.");
    }
    direct_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
    CUfileDescr_t description{};
    description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
    description.handle.fd = direct_ >= 0 ? direct_ : plain_;
    const CUfileError_t result = cuFileHandleRegister(&handle_, &description);
    if (result.err == CU_FILE_SUCCESS) return;
    give_back();
    throw ToolError(fmt::format("{} cannot be registered with cuFile: {}.", printable(path), cufile_words(result.err)),
                    "`gdscheck -f` tells more about a file.");
  }
  Checked(const Checked&) = delete;
  Checked& operator=(const Checked&) = delete;
  ~Checked() {
    cuFileHandleDeregister(handle_);
    give_back();
  }

  int plain() const noexcept { return plain_; }
  CUfileHandle_t handle() const noexcept { return handle_; }
  std::uint64_t size() const {
    const off_t end = lseek(plain_, 0, SEEK_END);
    return end < 0 ? 0 : static_cast<std::uint64_t>(end);
  }

 private:
  void give_back() const {
    close(plain_);
    if (direct_ >= 0) close(direct_);
  }

  int plain_;
  int direct_ = -1;
  CUfileHandle_t handle_ = nullptr;
};

ssize_t read_by_stream(const Gpu& gpu, CUfileHandle_t handle, void* base, std::size_t size, off_t offset, off_t into) {
  const GpuStream stream(gpu);
  ssize_t done = 0;
  const CUfileError_t result = cuFileReadAsync(handle, base, &size, &offset, &into, &done, stream.get());
  if (result.err != CU_FILE_SUCCESS) return -static_cast<ssize_t>(result.err);
  stream.wait();
  return done == -1 ? -EIO : done;
}

std::vector<char> plain_read(int file, std::uint64_t offset, std::size_t size) {
  std::vector<char> bytes(size);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = pread(file, bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

struct Plan {
  std::uint64_t offset;
  std::uint64_t size;
  std::uint64_t chunk;
  std::uint64_t shift;  // of the memory against its allocation's begin
};

Plan plan_of(const Wishes& wishes, std::uint64_t file_size) {
  Plan plan{};
  plan.offset = size_option("-o", wishes.offset);
  if (plan.offset >= file_size) {
    throw ToolError(fmt::format("The file has {}, and nothing from {} on.", format_bytes(file_size), plan.offset),
                    "Use a smaller -o, or a file that is not empty.");
  }
  plan.size = wishes.size.empty() ? file_size - plan.offset : size_option("-s", wishes.size);
  if (plan.size == 0 || plan.size > file_size - plan.offset) {
    throw ToolError(fmt::format("-s has to be 1 to {} bytes here.", file_size - plan.offset), "Leave it out for all.",
                    2);
  }
  if (wishes.count > plan.size) {
    throw ToolError(fmt::format("-n is {}, and has to be 1 to {} for {} bytes.", wishes.count, plan.size, plan.size),
                    "Use: -n 1", 2);
  }
  plan.chunk = (plan.size + wishes.count - 1) / wishes.count;
  plan.shift = size_option("-g", wishes.alignment);
  return plan;
}

void verify_chunk(const Wishes& wishes, const Gpu& gpu, const Checked& file, TransferMemory& memory, const Plan& plan,
                  std::uint64_t at) {
  const std::uint64_t size = std::min(plan.chunk, plan.size - at);
  const std::vector<char> other(size, static_cast<char>(filling));
  memory.put(plan.shift, other.data(), other.size());
  const auto offset = static_cast<off_t>(plan.offset + at);
  const auto into = static_cast<off_t>(plan.shift);
  const ssize_t count = wishes.sync == 1 ? cuFileRead(file.handle(), memory.address(), size, offset, into)
                                         : read_by_stream(gpu, file.handle(), memory.address(), size, offset, into);
  if (count != static_cast<ssize_t>(size)) {
    const std::string cause =
        count >= 0 ? fmt::format("only {} of {} bytes came", count, size) : cause_words(count == -1 ? -errno : count);
    throw ToolError(fmt::format("The read at {} failed: {}.", offset, cause), "`gdscheck -f` tells more about a file.");
  }
  const std::vector<char> right = plain_read(file.plain(), plan.offset + at, size);
  std::vector<char> found(size);
  memory.get(plan.shift, found.data(), found.size());
  const auto wrong = std::mismatch(right.begin(), right.end(), found.begin()).first;
  if (wrong == right.end() && right.size() == size) return;
  throw ToolError(fmt::format("Data Verification Failed: {} differs at offset {}.", printable(wishes.file),
                              plan.offset + at + static_cast<std::uint64_t>(wrong - right.begin())),
                  "Did another program write the file meanwhile? If not, please report it with `sluice version`.");
}

void verify(const Wishes& wishes) {
  const Driver& found = choose_driver();  // first: it may start this program anew
  if (found.kind != DriverKind::none && wishes.gpu >= found.devices) {
    throw ToolError(fmt::format("There is no GPU {}: the driver has {}, counted from 0.", wishes.gpu, found.devices),
                    found.devices == 1 ? "Use: -d 0" : fmt::format("Use: -d 0 to {}", found.devices - 1));
  }
  const Gpu gpu(wishes.gpu);
  note_soft_gpu("gdsio_verify");
  tell_unknown_keys("gdsio_verify");
  const OpenDriver driver;
  const Checked file(wishes.file);
  const Plan plan = plan_of(wishes, file.size());
  fmt::print(
      "gpu index :{},file :{}, gpu buffer alignment :{}, gpu buffer offset :{}, gpu devptr offset :0, file offset :{}, "
      "io_requested :{}, io_chunk_size :{}, bufregister :{}, sync :{}, nr ios :{},\nfsync :0,\nBatch mode: 0\n",
      wishes.gpu, printable(wishes.file), plan.shift, plan.shift, plan.offset, plan.size, plan.chunk,
      !wishes.skip_register, wishes.sync, wishes.count);
  std::fflush(stdout);
  const std::unique_ptr<TransferMemory> memory = make_memory(MemoryKind::device, &gpu, plan.shift + plan.chunk);
  if (!wishes.skip_register) {
    const CUfileError_t result = cuFileBufRegister(memory->address(), memory->size(), 0);
    if (result.err != CU_FILE_SUCCESS) {
      throw ToolError(fmt::format("The memory cannot be registered with cuFile: {}.", cufile_words(result.err)),
                      "Leave the registration out with -S.");
    }
  }
  for (std::uint64_t at = 0; at < plan.size; at += plan.chunk) verify_chunk(wishes, gpu, file, *memory, plan, at);
  if (!wishes.skip_register) cuFileBufDeregister(memory->address());
  fmt::print("Data Verification Success\n");
}

int run_gdsio_verify(int argc, char** argv) {
  Wishes wishes;
  CLI::App app("gdsio_verify: is what cuFile reads into GPU memory what the file holds?", "gdsio_verify");
  app.footer(lesson);
  app.set_version_flag("--version", "gdsio_verify (Sluice " SLUICE_VERSION ")");
  app.add_option("-f", wishes.file, "The file")->required();
  app.add_option("-d", wishes.gpu, "Whose memory; counted from 0")->default_val(0)->check(gpu_number);
  app.add_option("-o", wishes.offset, "Where in the file to begin")->default_val("0");
  app.add_option("-s", wishes.size, "How many bytes; without it all that there are");
  app.add_option("-n", wishes.count, "In how many transfers")->default_val(1)->check(count_number);
  app.add_option("-g", wishes.alignment, "Where in the GPU buffer the bytes go")->default_val("0");
  app.add_option("-m", wishes.sync, "1 cuFileRead, 0 cuFileReadAsync")->default_val(1)->check(CLI::Range(0, 1));
  app.add_flag("-S", wishes.skip_register, "Do not register the buffer");
  app.add_option("-t", wishes.ignored, "Taken for compatibility; changes nothing");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    tell("gdsio_verify: {}.\n              Use: gdsio_verify -f FILE -d 0; gdsio_verify --help tells more.\n",
         error.what());
    return usage_status;
  }
  try {
    verify(wishes);
    return 0;
  } catch (const ToolError& error) {
    std::fflush(stdout);
    tell("gdsio_verify: {}\n              {}\n", error.what(), error.remedy());
    return error.status();
  }
}

}  // namespace
}  // namespace sluice::tools

int main(int argc, char** argv) {
  sluice::tools::hold_standard_descriptors();
  try {
    return sluice::tools::finish("gdsio_verify", sluice::tools::run_gdsio_verify(argc, argv));
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return sluice::tools::finish("gdsio_verify", 1);
    std::fprintf(stderr, "gdsio_verify: %s\n", error.what());
    return 1;
  }
}
