#pragma once
// The stand-in libraries for tests: options that open our back ends on them, and their controls. Link device_stand_ins.

#include <dlfcn.h>

#include <cassert>
#include <cstdint>

#include "device/ascend_device.h"
#include "device/cuda_device.h"

namespace tidemark {

inline CudaOptions cuda_stand_in_options() {
  return {.library = TIDEMARK_CUDA_STAND_IN};
}

inline AscendOptions ascend_stand_in_options() {
  return {.library = TIDEMARK_ACL_STAND_IN, .second_library = ""};
}

/// tests/support/stand_in/controls.h of one library.
class StandInControls {
 public:
  explicit StandInControls(const char* library) : library_(dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
    assert(library_ != nullptr);
    find(fail_call, "stand_in_fail_call");
    find(set, "stand_in_set");
    find(get, "stand_in_get");
    find(reset, "stand_in_reset");
  }
  ~StandInControls() { dlclose(library_); }
  StandInControls(const StandInControls&) = delete;
  StandInControls& operator=(const StandInControls&) = delete;

  void (*fail_call)(const char* call, std::int64_t skip, int code) = nullptr;
  void (*set)(const char* key, std::int64_t value) = nullptr;
  std::int64_t (*get)(const char* key) = nullptr;
  void (*reset)() = nullptr;

  /// Any function of the library.
  template <class Function>
  void find(Function*& slot, const char* symbol) const {
    slot = reinterpret_cast<Function*>(dlsym(library_, symbol));
    assert(slot != nullptr);
  }

 private:
  void* library_;
};

}  // namespace tidemark
