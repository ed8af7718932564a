// Where in its storage a tensor lies.

#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/DimVector.h>

namespace tidemark_torch {

/// As a subclass's that says what each kernel does.
[[nodiscard]] inline bool has_python_kernels(const at::Tensor& tensor) {
  return tensor.key_set().has(c10::DispatchKey::Python);
}

/// Whether a tensor is a storage and a place in it, and nothing else: no sparse or nested tensor, no subclass. Only of
/// such a tensor another can be made over the same bytes.
[[nodiscard]] inline bool is_plain(const at::Tensor& tensor) {
  return tensor.has_storage() && tensor.layout() == at::kStrided && !tensor.is_nested() && !has_python_kernels(tensor);
}

/// How often the bytes behind a tensor had been changed in place, as autograd counts: views share the counter, and it
/// outlives them. Keeps no bytes.
class VersionSeen {
 public:
  VersionSeen() = default;
  explicit VersionSeen(const at::Tensor& tensor) {
    if (tensor.is_inference()) return;  // is not counted
    counter_ = tensor.unsafeGetTensorImpl()->version_counter();
    seen_ = counter_.current_version();
  }
  [[nodiscard]] std::uint32_t seen() const { return seen_; }
  [[nodiscard]] std::uint32_t now() const { return counter_.enabled() ? counter_.current_version() : 0; }
  [[nodiscard]] bool is_current() const { return now() == seen_; }
  /// Changes of this tensor count with the others from now on.
  void count_in(at::Tensor& tensor) const {
    if (counter_.enabled()) tensor.unsafeGetTensorImpl()->set_version_counter(counter_);
  }

 private:
  c10::VariableVersion counter_{c10::VariableVersion::DISABLED};
  std::uint32_t seen_ = 0;
};

struct Geometry {
  c10::DimVector sizes;
  c10::DimVector strides;
  std::int64_t offset = 0;
  caffe2::TypeMeta dtype;
  c10::DispatchKeySet keys;  // conjugated and negated views are known by them

  [[nodiscard]] static Geometry of(const at::Tensor& tensor) {
    return {c10::DimVector(tensor.sizes()), c10::DimVector(tensor.strides()), tensor.storage_offset(), tensor.dtype(),
            tensor.key_set()};
  }

  /// A tensor of this geometry over another storage, without history.
  [[nodiscard]] at::Tensor over(const c10::Storage& storage) const {
    auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(storage), keys, dtype);
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
    return tensor;
  }
};

}  // namespace tidemark_torch
