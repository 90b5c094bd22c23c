// SPDX-License-Identifier: Apache-2.0
// Names: of errors, and of entry points.
#include <string>

#include "fixture.h"

namespace sluice::gpu_suite {
namespace {

TEST(EntryPoints, AreAllThere) {
  std::string missing;
  for (const std::string& name : missing_calls()) missing += name + " ";
  EXPECT_EQ("", missing);
}

std::string name_of(int code) {
  const char* name = nullptr;
  EXPECT_EQ(cuda::success, cuGetErrorName(cuda::Result{code}, &name)) << code;
  return name != nullptr ? name : "";
}

TEST(ErrorNames, AreThoseOfTheHeader) {
  EXPECT_EQ("CUDA_SUCCESS", name_of(0));
  EXPECT_EQ("CUDA_ERROR_INVALID_VALUE", name_of(1));
  EXPECT_EQ("CUDA_ERROR_OUT_OF_MEMORY", name_of(2));
  EXPECT_EQ("CUDA_ERROR_NOT_INITIALIZED", name_of(3));
  EXPECT_EQ("CUDA_ERROR_NO_DEVICE", name_of(100));
  EXPECT_EQ("CUDA_ERROR_INVALID_DEVICE", name_of(101));
  EXPECT_EQ("CUDA_ERROR_INVALID_CONTEXT", name_of(201));
  EXPECT_EQ("CUDA_ERROR_INVALID_HANDLE", name_of(400));
  EXPECT_EQ("CUDA_ERROR_NOT_READY", name_of(600));
  EXPECT_EQ("CUDA_ERROR_ILLEGAL_ADDRESS", name_of(700));
  EXPECT_EQ("CUDA_ERROR_CONTEXT_IS_DESTROYED", name_of(709));
  EXPECT_EQ("CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", name_of(712));
  EXPECT_EQ("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", name_of(900));
  EXPECT_EQ("CUDA_ERROR_UNKNOWN", name_of(999));
}

TEST(ErrorNames, OfCodesThatDoNotExistAreNull) {
  const char* text = "something";
  EXPECT_EQ(cuda::error_invalid_value, cuGetErrorName(cuda::Result{123456}, &text));
  EXPECT_EQ(nullptr, text);
  text = "something";
  EXPECT_EQ(cuda::error_invalid_value, cuGetErrorString(cuda::Result{123456}, &text));
  EXPECT_EQ(nullptr, text);
}

TEST(ErrorNames, ComeWithADescription) {
  const char* text = nullptr;
  ASSERT_EQ(cuda::success, cuGetErrorString(cuda::error_out_of_memory, &text));
  EXPECT_STRNE("", text);
}

void* procedure(const char* name, int version, std::uint64_t flags = 0) {
  void* function = nullptr;
  int status = -1;
  EXPECT_EQ(cuda::success, cuGetProcAddress_v2(name, &function, version, flags, &status)) << name;
  EXPECT_EQ(function != nullptr, status == cuda::proc_found) << name;
  return function;
}

TEST(ProcAddress, FindsFunctionsThatWork) {
  auto* const get_count = reinterpret_cast<cuda::Result (*)(int*)>(procedure("cuDeviceGetCount", 12000));
  ASSERT_NE(nullptr, get_count);
  int count = 0;
  EXPECT_EQ(cuda::success, get_count(&count));
  EXPECT_GE(count, 1);
}

TEST(ProcAddress, GivesTheFormOfTheCallersVersion) {
  EXPECT_NE(nullptr, procedure("cuMemAlloc", 12000));
  EXPECT_NE(procedure("cuGetProcAddress", 11030), procedure("cuGetProcAddress", 12000));
  EXPECT_NE(procedure("cuCtxCreate", 11000), procedure("cuCtxCreate", 12050));
}

TEST(ProcAddress, GivesAnotherFormForPerThreadStreams) {
  EXPECT_NE(procedure("cuMemcpyHtoDAsync", 12000, cuda::proc_address_legacy_stream),
            procedure("cuMemcpyHtoDAsync", 12000, cuda::proc_address_per_thread_stream));
  EXPECT_EQ(procedure("cuMemAlloc", 12000, cuda::proc_address_legacy_stream),
            procedure("cuMemAlloc", 12000, cuda::proc_address_per_thread_stream));
}

TEST(ProcAddress, SaysThatANameIsUnknown) {
  void* function = &function;
  int status = -1;
  EXPECT_EQ(cuda::success, cuGetProcAddress_v2("cuNoSuchCall", &function, 12000, 0, &status));
  EXPECT_EQ(nullptr, function);
  EXPECT_EQ(cuda::proc_not_found, status);
}

TEST(ProcAddress, SaysThatACallIsYoungerThanTheCaller) {
  void* function = &function;
  int status = -1;
  EXPECT_EQ(cuda::success, cuGetProcAddress_v2("cuStreamGetId", &function, 11000, 0, &status));
  EXPECT_EQ(nullptr, function);
  EXPECT_EQ(cuda::proc_version_not_sufficient, status);
}

TEST(ProcAddress, RefusesAVersionBeyondTheDriver) {
  int version = 0;
  ASSERT_EQ(cuda::success, cuDriverGetVersion(&version));
  void* function = nullptr;
  EXPECT_EQ(cuda::error_invalid_value, cuGetProcAddress_v2("cuInit", &function, version + 1000, 0, nullptr));
}

}  // namespace
}  // namespace sluice::gpu_suite
