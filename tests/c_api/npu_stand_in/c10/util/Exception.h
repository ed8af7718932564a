#pragma once
// Stands in for PyTorch's header of this name: what integrations/npu_shim uses of it, no more. The real one is used by
// the PyTorch suite (tests/pytorch/test_cuda_plug_in.py).

#include <cstdio>
#include <sstream>
#include <stdexcept>
#include <string>

namespace c10 {
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
class OutOfMemoryError : public Error {
 public:
  using Error::Error;
};

template <class... Parts>
std::string join_for_message(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}
}  // namespace c10

#define TORCH_CHECK_WITH(error, condition, ...)                                 \
  do {                                                                          \
    if (!(condition)) throw ::c10::error(::c10::join_for_message(__VA_ARGS__)); \
  } while (false)
#define TORCH_CHECK(condition, ...) TORCH_CHECK_WITH(Error, condition, __VA_ARGS__)
#define TORCH_WARN(...) std::fputs((::c10::join_for_message(__VA_ARGS__) + "\n").c_str(), stderr)
