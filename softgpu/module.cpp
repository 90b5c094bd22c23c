// SPDX-License-Identifier: Apache-2.0
// Loading code, which is finding the twins of its kernels.
#include "module.h"

#include <algorithm>
#include <array>
#include <utility>

#include "machine.h"
#include "refusal.h"
#include "thread_state.h"

namespace sluice::softgpu {

namespace {

constexpr int most_dynamic_shared_bytes = 232448;  // as the attribute of the device says
constexpr int architecture = 90;
constexpr int most_threads = 1024;
constexpr int registers = 32;

// Compiled code begins with bytes that no text begins with: a fat binary, the structure around one, or ELF of 64 bits.
bool is_compiled(const unsigned char* image) {
  constexpr std::array<unsigned char, 4> fat_binary{0x50, 0xed, 0x55, 0xba};
  constexpr std::array<unsigned char, 4> fat_binary_wrapper{0xb1, 0x43, 0x62, 0x46};
  constexpr std::array<unsigned char, 5> elf_64{0x7f, 'E', 'L', 'F', 2};
  const auto begins_with = [image](const auto& bytes) {
    for (std::size_t index = 0; index < bytes.size(); ++index) {
      if (image[index] != bytes[index]) return false;  // so nothing behind the end of a short text is looked at
    }
    return true;
  };
  return begins_with(fat_binary) || begins_with(fat_binary_wrapper) || begins_with(elf_64);
}

}  // namespace

Image load_image(const void* image) {
  require(image != nullptr);
  require(!is_compiled(static_cast<const unsigned char*>(image)), cuda::error_no_binary_for_gpu);
  PtxModule ptx = read_ptx(static_cast<const char*>(image));
  Image loaded;
  for (PtxEntry& entry : ptx.entries) {
    auto code = std::make_shared<Code>();
    code->twin = find_twin(entry.name);
    require(code->twin != nullptr, cuda::error_no_binary_for_gpu);
    code->entry = std::move(entry);
    code->target = ptx.target;
    loaded.push_back(std::move(code));
  }
  return loaded;
}

int Function::attribute(int number) const {
  require(number >= 0 && number < cuda::function_attributes_end);
  switch (number) {
    case cuda::function_max_threads_per_block:
      return most_threads;
    case cuda::function_registers:
      return registers;
    case cuda::function_ptx_version:
      return code_->target;
    case cuda::function_binary_version:
      return architecture;
    case cuda::function_max_dynamic_shared_size:
      return dynamic_shared_bytes_.load();
    case cuda::function_preferred_shared_carveout:
      return shared_carveout_.load();
    default:
      return 0;
  }
}

void Function::set_attribute(int number, int value) {
  switch (number) {
    case cuda::function_max_dynamic_shared_size:
      require(value >= 0 && value <= most_dynamic_shared_bytes);
      dynamic_shared_bytes_.store(value);
      return;
    case cuda::function_preferred_shared_carveout:
      require(value >= -1 && value <= 100);
      shared_carveout_.store(value);
      return;
    default:
      throw Refusal(cuda::error_invalid_value);
  }
}

Module::Module(const std::shared_ptr<Workspace>& workspace, const Image& image) : workspace_(workspace) {
  for (const auto& code : image) functions_.push_back(std::make_shared<Function>(*this, workspace, code));
}

Function& Module::function(std::string_view name) const {
  const auto found = std::find_if(functions_.begin(), functions_.end(),
                                  [name](const auto& function) { return function->code()->entry.name == name; });
  require(found != functions_.end(), cuda::error_not_found);
  return **found;
}

cuda::Module enter(const std::shared_ptr<Module>& module) {
  for (const auto& function : module->functions()) machine().functions.insert(function);
  machine().modules.insert(module);
  return module->handle();
}

void unload(Module& module) {
  for (const auto& function : module.functions()) machine().functions.remove(function.get());
  machine().modules.remove(&module);
}

std::shared_ptr<Library> Library::make(Image image) {
  auto made = std::make_shared<Library>();
  made->image_ = std::move(image);
  for (const auto& code : made->image_) {
    made->kernels_.push_back(std::make_shared<LibraryKernel>(LibraryKernel{made, code}));
  }
  return made;
}

std::shared_ptr<Module> Library::module_in(const std::shared_ptr<Workspace>& workspace) {
  const std::lock_guard lock(mutex_);
  auto& module = modules_[workspace->id()];
  if (module == nullptr) {
    module = std::make_shared<Module>(workspace, image_);
    enter(module);
  }
  return module;
}

std::shared_ptr<Function> Library::function_in(const std::shared_ptr<Workspace>& workspace,
                                               const LibraryKernel& kernel) {
  return machine().functions.find(&module_in(workspace)->function(kernel.code->entry.name));
}

std::vector<std::shared_ptr<Module>> Library::modules() const {
  std::vector<std::shared_ptr<Module>> all;
  const std::lock_guard lock(mutex_);
  for (const auto& entry : modules_) all.push_back(entry.second);
  return all;
}

std::shared_ptr<Function> function_of(cuda::Function handle) {
  if (auto function = machine().functions.find(handle)) return function;
  const auto kernel = machine().kernels.find(handle);
  require(kernel != nullptr, cuda::error_invalid_handle);
  const auto library = kernel->library.lock();
  require(library != nullptr, cuda::error_invalid_handle);
  return library->function_in(current_workspace(), *kernel);
}

}  // namespace sluice::softgpu
