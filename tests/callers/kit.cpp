// SPDX-License-Identifier: Apache-2.0
// Files, threads and the end of a program that plays a caller.
#include "callers/kit.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

namespace sluice::callers {

void wrong(const std::string& what) {
  throw std::runtime_error(what);
}

void require_same(std::span<const unsigned char> expected, std::span<const unsigned char> found,
                  const std::string& what) {
  if (expected.size() != found.size()) {
    wrong(what + ": " + std::to_string(found.size()) + " bytes where " + std::to_string(expected.size()) +
          " are expected");
  }
  const auto [first, other] = std::mismatch(expected.begin(), expected.end(), found.begin());
  if (first != expected.end()) {
    wrong(what + ": byte " + std::to_string(first - expected.begin()) + " is " + std::to_string(*other) + " where " +
          std::to_string(*first) + " is expected");
  }
}

void use_device(int device) {
  if (support::cuda()->context_set(support::primary_context(device)) != 0) wrong("cuCtxSetCurrent failed");
}

Fd open_file(const std::string& path, int flags) {
  Fd fd(open(path.c_str(), flags | O_CLOEXEC, 0644));
  if (!fd.valid() && errno == EINVAL && (flags & O_DIRECT) != 0) {
    throw Skipped("this file system takes no O_DIRECT, which this caller always asks for");
  }
  if (!fd.valid()) wrong("cannot open " + path + ": " + std::strerror(errno));
  return fd;
}

Bytes content_of(const std::string& path) {
  return support::content_of(path);
}

void on_pool(std::size_t threads, std::size_t count, const std::function<void(std::size_t)>& task) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr first;
  const auto work = [&] {
    try {
      use_device(0);
      for (std::size_t i = next++; i < count; i = next++) task(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (first == nullptr) first = std::current_exception();
    }
  };
  std::vector<std::thread> pool;
  for (std::size_t i = 0; i < threads; ++i) pool.emplace_back(work);
  for (std::thread& thread : pool) thread.join();
  if (first != nullptr) std::rethrow_exception(first);
}

namespace {

// Removed whichever way the caller ends.
class Folder {
 public:
  explicit Folder(const std::string& directory) : path_(directory + "/caller-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) wrong("no folder in " + directory + ": " + std::strerror(errno));
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

int play(int argc, char** argv, const std::function<void(const Place&)>& caller) {
  constexpr int skipped = 77;
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY [PART]\n", argv[0]);
    return 2;
  }
  try {
    const Folder folder(argv[1]);
    if (support::cuda() == nullptr) throw Skipped("no CUDA device");
    use_device(0);
    caller({folder.path(), argc > 2 ? argv[2] : ""});
  } catch (const Skipped& reason) {
    std::printf("skipped: %s\n", reason.what());
    return skipped;
  } catch (const std::exception& fault) {
    std::printf("wrong: %s\nSLUICE_TEST_SEED=%" PRIu64 "\n", fault.what(), support::run_seed());
    return 1;
  }
  return 0;
}

}  // namespace sluice::callers
