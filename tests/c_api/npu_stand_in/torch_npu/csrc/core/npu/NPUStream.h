#pragma once
// Stands in for torch_npu's header of this name: what integrations/npu_shim uses of it, no more.

#include <cstdint>

namespace c10 {
using DeviceIndex = std::int8_t;
}  // namespace c10

namespace c10_npu {
class NPUStream {
 public:
  explicit NPUStream(void* stream) : stream_(stream) {}
  [[nodiscard]] void* stream() const { return stream_; }
  [[nodiscard]] void* stream(bool /*need_empty*/) const { return stream_; }

 private:
  void* stream_;
};
}  // namespace c10_npu
