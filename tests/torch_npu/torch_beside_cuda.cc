// PyTorch's wheels on PyPI have CUDA in them, which has its settings of allocators registered by names that torch_npu
// registers as well, and that ends the process; torch_npu is made for PyTorch's builds without CUDA, which are not on
// PyPI. Loaded before torch_npu, this has each name registered in a list of its own: settings of allocators in the
// environment are not checked then.

#include <string>
#include <unordered_set>

namespace c10::CachingAllocator {

struct AcceleratorAllocatorConfig {
  __attribute__((visibility("default"))) static std::unordered_set<std::string>& getMutableKeys();
};

std::unordered_set<std::string>& AcceleratorAllocatorConfig::getMutableKeys() {
  static auto* const keys = new std::unordered_set<std::string>;
  keys->clear();
  return *keys;
}

}  // namespace c10::CachingAllocator
