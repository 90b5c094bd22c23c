// SPDX-License-Identifier: Apache-2.0
// Entry points that load code and find functions in it.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "answer.h"
#include "entry_points.h"
#include "machine.h"
#include "thread_state.h"

namespace sluice::softgpu {

namespace {

constexpr int eager_loading = 1;

std::shared_ptr<Module> module_of(cuda::Module handle) {
  auto module = machine().modules.find(handle);
  require(module != nullptr, cuda::error_invalid_handle);
  return module;
}

cuda::Module load(const void* image) {
  const auto workspace = current_workspace();
  workspace->streams().require_no_capture_in_the_way();
  workspace->bring_to_rest();
  std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(machine().knobs.load_us));
  return enter(std::make_shared<Module>(workspace, load_image(image)));
}

std::string contents_of(const char* path) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  require(file >= 0, cuda::error_file_not_found);
  std::string contents;
  std::array<char, 4096> piece{};
  ssize_t length = 0;
  while ((length = ::read(file, piece.data(), piece.size())) > 0) {
    contents.append(piece.data(), static_cast<std::size_t>(length));
  }
  ::close(file);
  require(length == 0, cuda::error_file_not_found);
  return contents;
}

std::shared_ptr<Library> library_of(cuda::Library handle) {
  auto library = machine().libraries.find(handle);
  require(library != nullptr, cuda::error_invalid_handle);
  return library;
}

std::shared_ptr<LibraryKernel> kernel_of(cuda::Kernel handle) {
  auto kernel = machine().kernels.find(handle);
  require(kernel != nullptr, cuda::error_invalid_handle);
  return kernel;
}

}  // namespace

cuda::Result cuModuleLoad(cuda::Module* module, const char* path) {
  return answer(__func__, [&] {
    require(module != nullptr && path != nullptr);
    *module = load(contents_of(path).c_str());
  });
}

cuda::Result cuModuleLoadData(cuda::Module* module, const void* image) {
  return answer(__func__, [&] {
    require(module != nullptr);
    *module = load(image);
  });
}

cuda::Result cuModuleLoadDataEx(cuda::Module* module, const void* image, unsigned count, int* options, void** values) {
  return answer(__func__, [&] {
    // Options are for the compiler, which there is none of.
    require(module != nullptr && (count == 0 || (options != nullptr && values != nullptr)));
    *module = load(image);
  });
}

cuda::Result cuModuleLoadFatBinary(cuda::Module* module, const void* image) {
  return answer(__func__, [&] {
    require(module != nullptr);
    *module = load(image);
  });
}

cuda::Result cuModuleUnload(cuda::Module module) {
  return answer(__func__, [&] {
    current_workspace();
    unload(*module_of(module));
  });
}

cuda::Result cuModuleGetFunction(cuda::Function* function, cuda::Module module, const char* name) {
  return answer(__func__, [&] {
    require(function != nullptr && name != nullptr);
    *function = module_of(module)->function(name).handle();
  });
}

cuda::Result cuModuleGetFunctionCount(unsigned* count, cuda::Module module) {
  return answer(__func__, [&] {
    require(count != nullptr);
    *count = static_cast<unsigned>(module_of(module)->functions().size());
  });
}

cuda::Result cuModuleGetGlobal_v2(Ptr* pointer, std::size_t* size, cuda::Module module, const char* name) {
  return answer(__func__, [&] {
    require(name != nullptr && (pointer != nullptr || size != nullptr));
    module_of(module);
    throw Refusal(cuda::error_not_found);  // what we ship has no variables
  });
}

cuda::Result cuModuleGetLoadingMode(int* mode) {
  return answer(__func__, [&] {
    require(mode != nullptr);
    *mode = eager_loading;
  });
}

cuda::Result cuLibraryLoadData(cuda::Library* library, const void* image, int* jit_options, void** jit_values,
                               unsigned jit_count, int* options, void** values, unsigned count) {
  return answer(__func__, [&] {
    require(library != nullptr && (jit_count == 0 || (jit_options != nullptr && jit_values != nullptr)));
    require(count == 0 || (options != nullptr && values != nullptr));
    auto made = Library::make(load_image(image));
    for (const auto& kernel : made->kernels()) machine().kernels.insert(kernel);
    *library = reinterpret_cast<cuda::Library>(made.get());
    machine().libraries.insert(std::move(made));
  });
}

cuda::Result cuLibraryUnload(cuda::Library library) {
  return answer(__func__, [&] {
    const auto ended = machine().libraries.remove(library);
    require(ended != nullptr, cuda::error_invalid_handle);
    for (const auto& kernel : ended->kernels()) machine().kernels.remove(kernel.get());
    for (const auto& module : ended->modules()) unload(*module);
  });
}

cuda::Result cuLibraryGetKernel(cuda::Kernel* kernel, cuda::Library library, const char* name) {
  return answer(__func__, [&] {
    require(kernel != nullptr && name != nullptr);
    for (const auto& candidate : library_of(library)->kernels()) {
      if (candidate->code->entry.name != name) continue;
      *kernel = reinterpret_cast<cuda::Kernel>(candidate.get());
      return;
    }
    throw Refusal(cuda::error_not_found);
  });
}

cuda::Result cuLibraryGetKernelCount(unsigned* count, cuda::Library library) {
  return answer(__func__, [&] {
    require(count != nullptr);
    *count = static_cast<unsigned>(library_of(library)->kernels().size());
  });
}

cuda::Result cuLibraryGetModule(cuda::Module* module, cuda::Library library) {
  return answer(__func__, [&] {
    require(module != nullptr);
    *module = library_of(library)->module_in(current_workspace())->handle();
  });
}

cuda::Result cuKernelGetFunction(cuda::Function* function, cuda::Kernel kernel) {
  return answer(__func__, [&] {
    require(function != nullptr);
    kernel_of(kernel);
    *function = function_of(reinterpret_cast<cuda::Function>(kernel))->handle();
  });
}

cuda::Result cuKernelGetName(const char** name, cuda::Kernel kernel) {
  return answer(__func__, [&] {
    require(name != nullptr);
    *name = kernel_of(kernel)->code->entry.name.c_str();
  });
}

}  // namespace sluice::softgpu
