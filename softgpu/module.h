// SPDX-License-Identifier: Apache-2.0
// Code that a program has loaded: modules, which belong to a context, and libraries, which belong to none.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "context.h"
#include "kernels.h"
#include "ptx.h"

namespace sluice::softgpu {

// An entry point of an image together with the twin that runs in its place. Constant.
struct Code {
  PtxEntry entry;
  int target = 0;
  const KernelTwin* twin = nullptr;
};

using Image = std::vector<std::shared_ptr<const Code>>;

// Throws Refusal when the soft GPU has no twin for an entry point, or when the image is no PTX text.
Image load_image(const void* image);

class Module;

// A kernel in one context. Any thread may call.
class Function {
 public:
  Function(const Module& module, std::weak_ptr<Workspace> workspace, std::shared_ptr<const Code> code)
      : module_(module), workspace_(std::move(workspace)), code_(std::move(code)) {}

  cuda::Function handle() { return reinterpret_cast<cuda::Function>(this); }
  const Module& module() const { return module_; }  // by address only: it may be gone
  const std::weak_ptr<Workspace>& workspace() const { return workspace_; }
  const std::shared_ptr<const Code>& code() const { return code_; }

  // Both throw Refusal (invalid value) for what there is not.
  int attribute(int number) const;
  void set_attribute(int number, int value);

 private:
  const Module& module_;
  std::weak_ptr<Workspace> workspace_;
  std::shared_ptr<const Code> code_;
  std::atomic<int> dynamic_shared_bytes_{49152};
  std::atomic<int> shared_carveout_{-1};
};

// Constant after construction; the table of the machine owns it.
class Module {
 public:
  Module(const std::shared_ptr<Workspace>& workspace, const Image& image);

  cuda::Module handle() { return reinterpret_cast<cuda::Module>(this); }
  const std::weak_ptr<Workspace>& workspace() const { return workspace_; }
  const std::vector<std::shared_ptr<Function>>& functions() const { return functions_; }
  // Throws Refusal (not found).
  Function& function(std::string_view name) const;

 private:
  std::weak_ptr<Workspace> workspace_;
  std::vector<std::shared_ptr<Function>> functions_;
};

// Both keep the tables of the machine right.
cuda::Module enter(const std::shared_ptr<Module>& module);
void unload(Module& module);

class Library;

// A kernel without a context: in each it becomes a function when it is first wanted there.
struct LibraryKernel {
  std::weak_ptr<Library> library;
  std::shared_ptr<const Code> code;
};

class Library {
 public:
  static std::shared_ptr<Library> make(Image image);

  const std::vector<std::shared_ptr<LibraryKernel>>& kernels() const { return kernels_; }
  std::shared_ptr<Module> module_in(const std::shared_ptr<Workspace>& workspace);
  std::shared_ptr<Function> function_in(const std::shared_ptr<Workspace>& workspace, const LibraryKernel& kernel);
  // Whatever contexts have of it.
  std::vector<std::shared_ptr<Module>> modules() const;

 private:
  Image image_;
  std::vector<std::shared_ptr<LibraryKernel>> kernels_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Module>> modules_;  // by the life of a context
};

// The function that a handle means, which may be a library's kernel: then the one in the current context. Throws
// Refusal (invalid handle).
std::shared_ptr<Function> function_of(cuda::Function handle);

}  // namespace sluice::softgpu
