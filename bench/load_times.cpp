// SPDX-License-Identifier: Apache-2.0
// How long a program waits for the library: loading it, opening the driver, registering the first file. Each figure is
// the median over fresh processes, since only a process's first time counts. Text, or JSON with --json; with --limits
// the exit status says whether loading and opening keep what the project promises (2 ms, 5 ms with a CUDA context).
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <vector>

#include "cufile.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Times {
  double load_us = 0;
  double open_us = 0;
  double register_us = 0;
  bool with_context = false;
};

double since(Clock::time_point begun) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begun).count();
}

// A context of the first device made current, by the driver that the loader finds; false when there is none.
bool make_context() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return false;
  const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  const auto retain = reinterpret_cast<int (*)(void**, int)>(::dlsym(driver, "cuDevicePrimaryCtxRetain"));
  const auto set = reinterpret_cast<int (*)(void*)>(::dlsym(driver, "cuCtxSetCurrent"));
  void* context = nullptr;
  return init != nullptr && retain != nullptr && set != nullptr && init(0) == 0 && retain(&context, 0) == 0 &&
         set(context) == 0;
}

template <typename Function>
Function* symbol(void* library, const char* name) {
  void* found = ::dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "load_times: %s has no %s\n", "the library", name);
    std::exit(1);
  }
  return reinterpret_cast<Function*>(found);
}

Times measure(const std::string& library, bool with_context) {
  Times times;
  times.with_context = with_context && make_context();
  auto begun = Clock::now();
  void* handle = ::dlopen(library.c_str(), RTLD_NOW);
  times.load_us = since(begun);
  if (handle == nullptr) {
    std::fprintf(stderr, "load_times: %s\n", ::dlerror());
    std::exit(1);
  }
  auto* const open = symbol<CUfileError_t()>(handle, "cuFileDriverOpen");
  auto* const add = symbol<CUfileError_t(CUfileHandle_t*, CUfileDescr_t*)>(handle, "cuFileHandleRegister");
  begun = Clock::now();
  const CUfileError_t opened = open();
  times.open_us = since(begun);
  if (opened.err != CU_FILE_SUCCESS) {
    std::fprintf(stderr, "load_times: cuFileDriverOpen answers %d\n", opened.err);
    std::exit(1);
  }
  CUfileDescr_t descr{};
  descr.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  descr.handle.fd = ::open("/proc/self/exe", O_RDONLY);
  CUfileHandle_t file = nullptr;
  begun = Clock::now();
  add(&file, &descr);
  times.register_us = since(begun);
  return times;
}

// One process, one measurement.
Times measure_in_child(const std::string& library, bool with_context) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) std::exit(1);
  const pid_t child = ::fork();
  if (child == 0) {
    const Times times = measure(library, with_context);
    const bool told = ::write(ends[1], &times, sizeof times) == sizeof times;
    ::_exit(told ? 0 : 1);
  }
  ::close(ends[1]);
  Times times;
  const bool heard = ::read(ends[0], &times, sizeof times) == sizeof times;
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!heard || status != 0) std::exit(1);
  return times;
}

double median(const std::vector<Times>& runs, double Times::*figure) {
  std::vector<double> values;
  values.reserve(runs.size());
  for (const Times& run : runs) values.push_back(run.*figure);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

Times summary(const std::string& library, bool with_context, int count) {
  std::vector<Times> runs;
  for (int i = 0; i < count; ++i) runs.push_back(measure_in_child(library, with_context));
  return {median(runs, &Times::load_us), median(runs, &Times::open_us), median(runs, &Times::register_us),
          runs.front().with_context};
}

int runs_of(const char* text) {
  int runs = 0;
  const char* const last = text + std::strlen(text);
  const auto [end, error] = std::from_chars(text, last, runs);
  if (error == std::errc{} && end == last && runs >= 1 && runs <= 1000000) return runs;
  std::fprintf(stderr, "load_times: --runs takes a whole number, 1 to 1000000, and \"%s\" is none\n", text);
  std::exit(2);
}

void print(const char* label, const Times& times, bool json) {
  if (json) {
    std::printf("{\"row\": \"%s\", \"load_us\": %.1f, \"open_us\": %.1f, \"register_us\": %.1f}\n", label,
                times.load_us, times.open_us, times.register_us);
  } else {
    std::printf("%-22s load %9.1f us   open %9.1f us   first registration %9.1f us\n", label, times.load_us,
                times.open_us, times.register_us);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string library = "libcufile.so.0";
  int count = 21;
  bool json = false;
  bool limits = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--json") {
      json = true;
    } else if (argument == "--limits") {
      limits = true;
    } else if (argument == "--library" && i + 1 < argc) {
      library = argv[++i];
    } else if (argument == "--runs" && i + 1 < argc) {
      count = runs_of(argv[++i]);
    } else if (argument != "--help") {
      std::fprintf(stderr, "load_times: it is not known what to do with %s; load_times --help tells more\n",
                   argument.c_str());
      return 2;
    } else {
      std::printf(
          "load_times: times loading a libcufile.so.0, opening its driver and registering a first file\n\n"
          "  --library FILE  the library (default: libcufile.so.0 as the loader finds it)\n"
          "  --runs N        fresh processes per row (default 21; the median is shown)\n"
          "  --limits        fail when load + open take over 2 ms, or over 5 ms with a CUDA context\n"
          "  --json          one JSON object a row\n");
      return 0;
    }
  }
  const Times bare = summary(library, false, count);
  print("no CUDA context", bare, json);
  bool kept = bare.load_us + bare.open_us < 2000;
  const Times with_context = summary(library, true, count);
  if (with_context.with_context) {
    print("with a CUDA context", with_context, json);
    kept = kept && with_context.load_us + with_context.open_us < 5000;
  } else {
    std::fprintf(stderr, "load_times: no CUDA driver here: the row with a context is left out\n");
  }
  if (limits && !kept) std::fprintf(stderr, "load_times: the limits are not kept\n");
  return limits && !kept ? 1 : 0;
}
