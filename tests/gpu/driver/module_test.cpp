// SPDX-License-Identifier: Apache-2.0
// Loading code and finding kernels in it.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "loaded_kernel.h"

namespace sluice::gpu_suite {
namespace {

class Modules : public Driver {};

cuda::Result load(const std::string& text) {
  cuda::Module module = nullptr;
  const cuda::Result result = cuModuleLoadData(&module, text.c_str());
  if (result == cuda::success) cuModuleUnload(module);
  return result;
}

// The probe with other words in place of some of its own.
std::string probe_with(const std::string& words, const std::string& others) {
  std::string text = ptx::probe_store;
  text.replace(text.find(words), words.size(), others);
  return text;
}

TEST_F(Modules, LoadPtxThatIsOlderThanTheDevice) {
  EXPECT_EQ(cuda::success, load(ptx::probe_store));
  EXPECT_EQ(cuda::success, load(ptx::probe_hold));
}

TEST_F(Modules, TakeOptionsOfTheCompiler) {
  cuda::Module module = nullptr;
  constexpr int error_log = 5;
  constexpr int error_log_size = 6;
  char log[512] = "";
  int options[] = {error_log, error_log_size};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  ASSERT_EQ(cuda::success, cuModuleLoadDataEx(&module, ptx::probe_store, 2, options, values));
  EXPECT_EQ(cuda::success, cuModuleUnload(module));
}

TEST_F(Modules, LoadFromAFile) {
  char path[] = "/tmp/sluice-module-XXXXXX";
  const int file = ::mkstemp(path);
  ASSERT_GE(file, 0);
  const std::string text = ptx::probe_store;
  ASSERT_EQ(static_cast<ssize_t>(text.size()), ::write(file, text.data(), text.size()));
  ::close(file);
  cuda::Module module = nullptr;
  const cuda::Result loaded = cuModuleLoad(&module, path);
  ::unlink(path);
  ASSERT_EQ(cuda::success, loaded);
  EXPECT_EQ(cuda::success, cuModuleUnload(module));
  EXPECT_EQ(cuda::error_file_not_found, cuModuleLoad(&module, path));
}

TEST_F(Modules, OfNothingAreInvalid) {
  cuda::Module module = nullptr;
  EXPECT_EQ(cuda::error_invalid_value, cuModuleLoadData(&module, nullptr));
  EXPECT_EQ(cuda::error_invalid_value, cuModuleLoadData(nullptr, ptx::probe_store));
}

TEST_F(Modules, WithoutAContextCannotBeLoaded) {
  cuda::Context popped = nullptr;
  cuda::Module module = nullptr;
  ASSERT_EQ(cuda::success, cuCtxPopCurrent_v2(&popped));
  EXPECT_EQ(cuda::error_invalid_context, cuModuleLoadData(&module, ptx::probe_store));
  ASSERT_EQ(cuda::success, cuCtxPushCurrent_v2(popped));
}

TEST_F(Modules, OfANewerPtxThanTheDriverKnowsAreRefused) {
  EXPECT_EQ(cuda::error_unsupported_ptx_version, load(probe_with(".version 6.4", ".version 99.0")));
}

TEST_F(Modules, OfANewerDeviceAreNoPtxForThisOne) {
  EXPECT_EQ(cuda::error_invalid_ptx, load(probe_with("sm_60", "sm_120")));
}

TEST_F(Modules, OfOtherTextAreRefused) {
  EXPECT_EQ(cuda::error_invalid_image, load(""));
  EXPECT_EQ(cuda::error_invalid_image, load("hello, world"));
}

TEST_F(Modules, MayBeEmpty) {
  EXPECT_EQ(cuda::success, load(".version 6.4\n.target sm_60\n.address_size 64\n"));
}

TEST_F(Modules, FindTheirFunctionsByName) {
  const StoreKernel kernel;
  EXPECT_NE(nullptr, kernel.function());
  cuda::Function again = nullptr;
  ASSERT_EQ(cuda::success, cuModuleGetFunction(&again, kernel.module(), "sluice_probe_store"));
  EXPECT_EQ(kernel.function(), again);
}

TEST_F(Modules, DoNotFindOtherNames) {
  const StoreKernel kernel;
  cuda::Function function = nullptr;
  EXPECT_EQ(cuda::error_not_found, cuModuleGetFunction(&function, kernel.module(), "sluice_no_such_kernel"));
  Ptr variable = 0;
  std::size_t size = 0;
  EXPECT_EQ(cuda::error_not_found, cuModuleGetGlobal_v2(&variable, &size, kernel.module(), "sluice_no_such_variable"));
}

TEST_F(Modules, CountTheirFunctions) {
  const StoreKernel kernel;
  unsigned count = 0;
  ASSERT_EQ(cuda::success, cuModuleGetFunctionCount(&count, kernel.module()));
  EXPECT_EQ(1U, count);
}

TEST_F(Modules, CanBeLoadedTwice) {
  const StoreKernel first;
  const StoreKernel second;
  EXPECT_NE(first.module(), second.module());
  EXPECT_NE(first.function(), second.function());
}

TEST_F(Modules, TellWhatTheirFunctionsAre) {
  const StoreKernel kernel;
  const auto attribute = [&](int number) {
    int value = -7;
    EXPECT_EQ(cuda::success, cuFuncGetAttribute(&value, number, kernel.function())) << number;
    return value;
  };
  EXPECT_EQ(1024, attribute(cuda::function_max_threads_per_block));
  EXPECT_EQ(0, attribute(cuda::function_shared_size));
  EXPECT_EQ(0, attribute(cuda::function_local_size));
  EXPECT_GT(attribute(cuda::function_registers), 0);
  EXPECT_EQ(60, attribute(cuda::function_ptx_version));
  int major = 0;
  ASSERT_EQ(cuda::success, cuDeviceGetAttribute(&major, 75, 0));
  EXPECT_EQ(major, attribute(cuda::function_binary_version) / 10);
  int value = 0;
  EXPECT_EQ(cuda::error_invalid_value, cuFuncGetAttribute(&value, 9999, kernel.function()));
}

TEST_F(Modules, TakeLimitsForTheirFunctions) {
  const StoreKernel kernel;
  int value = 0;
  ASSERT_EQ(cuda::success, cuFuncSetAttribute(kernel.function(), cuda::function_max_dynamic_shared_size, 1024));
  ASSERT_EQ(cuda::success, cuFuncGetAttribute(&value, cuda::function_max_dynamic_shared_size, kernel.function()));
  EXPECT_EQ(1024, value);
  EXPECT_EQ(cuda::error_invalid_value,
            cuFuncSetAttribute(kernel.function(), cuda::function_max_dynamic_shared_size, 1 << 30));
  EXPECT_EQ(cuda::error_invalid_value, cuFuncSetAttribute(kernel.function(), cuda::function_registers, 5));
}

TEST_F(Modules, TellTheNameOfAFunction) {
  const StoreKernel kernel;
  const char* name = nullptr;
  ASSERT_EQ(cuda::success, cuFuncGetName(&name, kernel.function()));
  EXPECT_STREQ("sluice_probe_store", name);
  cuda::Module module = nullptr;
  ASSERT_EQ(cuda::success, cuFuncGetModule(&module, kernel.function()));
  EXPECT_EQ(kernel.module(), module);
}

TEST_F(Modules, TellTheParametersOfAFunction) {
  const StoreKernel kernel;
  std::size_t offset = 99;
  std::size_t size = 99;
  ASSERT_EQ(cuda::success, cuFuncGetParamInfo(kernel.function(), 0, &offset, &size));
  EXPECT_EQ(0U, offset);
  EXPECT_EQ(8U, size);
  ASSERT_EQ(cuda::success, cuFuncGetParamInfo(kernel.function(), 1, &offset, &size));
  EXPECT_EQ(8U, offset);
  EXPECT_EQ(4U, size);
  EXPECT_EQ(cuda::error_invalid_value, cuFuncGetParamInfo(kernel.function(), 2, &offset, &size));
}

TEST_F(Modules, SayHowManyBlocksFit) {
  const StoreKernel kernel;
  int threads = 0;
  ASSERT_EQ(cuda::success, cuDeviceGetAttribute(&threads, 39, 0));
  int blocks = 0;
  ASSERT_EQ(cuda::success, cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel.function(), 1024, 0));
  EXPECT_EQ(threads / 1024, blocks);
  ASSERT_EQ(cuda::success, cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel.function(), 512, 0));
  EXPECT_EQ(threads / 512, blocks);
  EXPECT_EQ(cuda::error_invalid_value, cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel.function(), 0, 0));
}

class Libraries : public Driver {
 protected:
  void SetUp() override {
    Driver::SetUp();
    ASSERT_EQ(cuda::success, cuLibraryLoadData(&library_, ptx::probe_store, nullptr, nullptr, 0, nullptr, nullptr, 0));
  }
  void TearDown() override {
    EXPECT_EQ(cuda::success, cuLibraryUnload(library_));
    Driver::TearDown();
  }
  cuda::Library library() const { return library_; }

 private:
  cuda::Library library_ = nullptr;
};

TEST_F(Libraries, HaveKernels) {
  cuda::Kernel kernel = nullptr;
  ASSERT_EQ(cuda::success, cuLibraryGetKernel(&kernel, library(), "sluice_probe_store"));
  EXPECT_EQ(cuda::error_not_found, cuLibraryGetKernel(&kernel, library(), "sluice_no_such_kernel"));
  unsigned count = 0;
  ASSERT_EQ(cuda::success, cuLibraryGetKernelCount(&count, library()));
  EXPECT_EQ(1U, count);
}

TEST_F(Libraries, GiveAFunctionToAContext) {
  cuda::Kernel kernel = nullptr;
  ASSERT_EQ(cuda::success, cuLibraryGetKernel(&kernel, library(), "sluice_probe_store"));
  cuda::Function function = nullptr;
  ASSERT_EQ(cuda::success, cuKernelGetFunction(&function, kernel));
  cuda::Module module = nullptr;
  ASSERT_EQ(cuda::success, cuLibraryGetModule(&module, library()));
  cuda::Function by_module = nullptr;
  ASSERT_EQ(cuda::success, cuModuleGetFunction(&by_module, module, "sluice_probe_store"));
  EXPECT_EQ(function, by_module);
}

TEST_F(Libraries, AreLaunchedAsKernelsOrAsFunctions) {
  cuda::Kernel kernel = nullptr;
  cuda::Function function = nullptr;
  ASSERT_EQ(cuda::success, cuLibraryGetKernel(&kernel, library(), "sluice_probe_store"));
  ASSERT_EQ(cuda::success, cuKernelGetFunction(&function, kernel));
  const PinnedBuffer words(8);
  const Stream stream;
  const auto launch = [&](cuda::Function what, std::size_t at, std::uint32_t value) {
    Ptr address = words.at(at);
    void* parameters[] = {&address, &value};
    return cuLaunchKernel(what, 1, 1, 1, 1, 1, 1, 0, stream.get(), parameters, nullptr);
  };
  ASSERT_EQ(cuda::success, launch(reinterpret_cast<cuda::Function>(kernel), 0, 0x01010101));
  ASSERT_EQ(cuda::success, launch(function, 4, 0x02020202));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ((std::vector<std::uint8_t>{1, 1, 1, 1, 2, 2, 2, 2}),
            std::vector<std::uint8_t>(words.data(), words.data() + 8));
}

}  // namespace
}  // namespace sluice::gpu_suite
