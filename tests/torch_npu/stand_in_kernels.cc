// A few kernels for the stand-in for ACL, called as torch_npu's own are: through its queue of launches, by
// OpCommand::RunOpApiV2. The same arithmetic is there for the CPU, to compare bits with. With STAND_IN_LAUNCH_US the
// queue's thread takes so long for each, so that it is well behind the thread that calls them.

#include <ATen/ATen.h>
#include <torch/library.h>
#include <torch_npu/csrc/core/npu/NPUStream.h>
#include <torch_npu/csrc/framework/OpCommand.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

extern "C" int stand_in_launch(void* stream, void (*run)(void*), void* argument, const void* const* addresses,
                               const std::size_t* bytes, int count);

namespace {

int launch_us() {
  static const char* const wanted = std::getenv("STAND_IN_LAUNCH_US");
  return wanted == nullptr ? 0 : std::atoi(wanted);
}

struct Kernel {
  std::function<void()> run;
  std::vector<const void*> addresses;
  std::vector<std::size_t> bytes;
};

/// On the current stream, when its turn in the queue has come.
void call(const char* name, std::function<void()> run, const std::vector<at::Tensor>& touched) {
  auto* const kernel = new Kernel{std::move(run), {}, {}};
  for (const at::Tensor& tensor : touched) {
    kernel->addresses.push_back(tensor.const_data_ptr());
    kernel->bytes.push_back(static_cast<std::size_t>(tensor.nbytes()));
  }
  const aclrtStream stream = c10_npu::getCurrentNPUStream().stream(false);
  at_npu::native::OpCommand::RunOpApiV2(name, [kernel, stream]() -> int {
    if (launch_us() > 0) std::this_thread::sleep_for(std::chrono::microseconds(launch_us()));
    const auto done = [](void* argument) {
      auto* const own = static_cast<Kernel*>(argument);
      own->run();
      delete own;
    };
    return stand_in_launch(stream, done, kernel, kernel->addresses.data(), kernel->bytes.data(),
                           static_cast<int>(kernel->bytes.size()));
  });
}

void carry_out(const char* name, std::function<void()> run, const std::vector<at::Tensor>& touched) {
  if (touched.front().is_cpu()) return run();
  call(name, std::move(run), touched);
}

const float* in(const at::Tensor& tensor) {
  return tensor.const_data_ptr<float>();
}
float* out(const at::Tensor& tensor) {
  return tensor.mutable_data_ptr<float>();
}

/// y = x * w + 1/2, with w over and over
at::Tensor scale(const at::Tensor& x, const at::Tensor& w) {
  at::Tensor y = at::empty_like(x);
  carry_out("StandInScale",
            [n = x.numel(), m = w.numel(), x = in(x), w = in(w), y = out(y)] {
              for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * w[i % m] + 0.5F;
            },
            {x, w, y});
  return y;
}

/// For the gradient of x, with b over and over.
at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor y = at::empty_like(a);
  carry_out("StandInProduct",
            [n = a.numel(), m = b.numel(), a = in(a), b = in(b), y = out(y)] {
              for (std::int64_t i = 0; i < n; ++i) y[i] = a[i] * b[i % m];
            },
            {a, b, y});
  return y;
}

/// For the gradient of w.
at::Tensor folded(const at::Tensor& a, const at::Tensor& b, const at::Tensor& like) {
  at::Tensor y = at::empty_like(like);
  carry_out("StandInFolded",
            [n = a.numel(), m = like.numel(), a = in(a), b = in(b), y = out(y)] {
              for (std::int64_t j = 0; j < m; ++j) y[j] = 0;
              for (std::int64_t i = 0; i < n; ++i) y[i % m] += a[i] * b[i];
            },
            {a, b, y});
  return y;
}

at::Tensor total(const at::Tensor& x) {
  at::Tensor y = at::empty({}, x.options());
  carry_out("StandInTotal",
            [n = x.numel(), x = in(x), y = out(y)] {
              float sum = 0;
              for (std::int64_t i = 0; i < n; ++i) sum += x[i] * 0x1p-12F;
              *y = sum;
            },
            {x, y});
  return y;
}

at::Tensor spread(const at::Tensor& gradient, const at::Tensor& like) {
  at::Tensor y = at::empty_like(like);
  carry_out("StandInSpread",
            [n = like.numel(), g = in(gradient), y = out(y)] {
              for (std::int64_t i = 0; i < n; ++i) y[i] = *g * 0x1p-12F;
            },
            {gradient, y});
  return y;
}

void step_(const at::Tensor& w, const at::Tensor& gradient) {
  carry_out("StandInStep",
            [n = w.numel(), g = in(gradient), w = out(w)] {
              for (std::int64_t i = 0; i < n; ++i) w[i] -= g[i] * 0.25F;
            },
            {w, gradient});
}

/// Called well; the queue's thread finds that it cannot be launched.
void fail(const at::Tensor& /*where*/) {
  constexpr int kInternal = 507'000;
  at_npu::native::OpCommand::RunOpApiV2("StandInFail", []() -> int { return kInternal; });
}

template <class Library>
void add_to(Library& library) {
  library.impl("scale", &scale);
  library.impl("product", &product);
  library.impl("folded", &folded);
  library.impl("total", &total);
  library.impl("spread", &spread);
  library.impl("step_", &step_);
}

}  // namespace

TORCH_LIBRARY(stand_in, library) {
  library.def("scale(Tensor x, Tensor w) -> Tensor");
  library.def("product(Tensor a, Tensor b) -> Tensor");
  library.def("folded(Tensor a, Tensor b, Tensor like) -> Tensor");
  library.def("total(Tensor x) -> Tensor");
  library.def("spread(Tensor gradient, Tensor like) -> Tensor");
  library.def("step_(Tensor(a!) w, Tensor gradient) -> ()");
  library.def("fail(Tensor where) -> ()");
}
TORCH_LIBRARY_IMPL(stand_in, CPU, library) {
  add_to(library);
}
TORCH_LIBRARY_IMPL(stand_in, PrivateUse1, library) {
  add_to(library);
  library.impl("fail", &fail);
}
