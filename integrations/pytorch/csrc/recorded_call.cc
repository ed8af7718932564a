#include "integrations/pytorch/csrc/recorded_call.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/List.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <mutex>
#include <sstream>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <unordered_map>
#include <utility>

#include "integrations/pytorch/csrc/kernel_watch.h"

namespace tidemark_torch {

namespace {

/// The same bytes without a gradient function, which would keep the graph alive, and whatever the tensor's `data`
/// becomes.
at::Tensor held_of(const at::Tensor& tensor) {
  const bool is_itself = !is_plain(tensor) && tensor.grad_fn() == nullptr && !tensor.is_inference();
  return is_itself ? tensor : tensor.detach();
}

Source source_of(const at::Tensor& tensor, const Recorder& recorder) {
  const int storage = recorder.storage_of(tensor);
  const void* original = is_plain(tensor) ? tensor.storage().unsafeGetStorageImpl() : nullptr;
  const VersionSeen version(tensor);  // what is detached down here counts its changes by itself
  if (storage != kNone) return {storage, original, recorder.changes, Geometry::of(tensor), {}, version};
  return {kNone, original, recorder.changes, {}, held_of(tensor), version};
}

Argument argument_of(const c10::IValue& value, const Recorder& recorder) {
  if (value.isTensor() && value.toTensor().defined()) return source_of(value.toTensor(), recorder);
  if (!value.isTensorList() && !value.isOptionalTensorList()) return value;
  SourceList list;
  list.optional = !value.isTensorList();
  for (const c10::IValue& item : value.toListRef()) {
    if (item.isTensor() && item.toTensor().defined()) {
      list.items.emplace_back(source_of(item.toTensor(), recorder));
    } else {
      list.items.emplace_back(std::nullopt);
    }
  }
  return list;
}

at::Tensor tensor_of(const Source& source, const FindStorage& find) {
  if (source.storage != kNone) return source.geometry.over(find(source.storage));
  check_source(source, source.held.sizes());
  return source.held;
}

struct Restore {
  const FindStorage& find;

  c10::IValue operator()(const c10::IValue& value) const { return value; }
  c10::IValue operator()(const Source& source) const { return tensor_of(source, find); }
  c10::IValue operator()(const SourceList& list) const {
    if (list.optional) {
      c10::List<std::optional<at::Tensor>> out;
      for (const auto& item : list.items) {
        out.push_back(item ? std::optional(tensor_of(*item, find)) : std::nullopt);
      }
      return out;
    }
    c10::List<at::Tensor> out;
    for (const auto& item : list.items) out.push_back(item ? tensor_of(*item, find) : at::Tensor());
    return out;
  }
};

/// Of the accelerator where any argument is there: tensors in host memory may come beside it.
at::Generator generator_of(const torch::jit::Stack& stack, std::size_t count) {
  c10::Device device = c10::kCPU;
  for (auto value = stack.end() - static_cast<std::ptrdiff_t>(count); value != stack.end(); ++value) {
    if (value->isGenerator()) return value->toGenerator();
    if (!device.is_cpu()) continue;
    if (value->isDevice()) device = value->toDevice();
    if (value->isTensor() && value->toTensor().defined()) device = value->toTensor().device();
  }
  return at::globalContext().defaultGenerator(device);
}

at::Generator copy_of(at::Generator& generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.clone();
}

/// Without memory for a tensor where the CPU makes the numbers.
void set_state(at::Generator& generator, const at::Generator& state) {
  const std::lock_guard lock(generator.mutex());
  if (!generator.device().is_cpu()) return generator.set_state(state.get_state());
  auto* const to = at::check_generator<at::CPUGeneratorImpl>(generator);
  auto* const from = at::check_generator<at::CPUGeneratorImpl>(state);
  to->set_engine(from->engine());
  to->set_next_float_normal_sample(from->next_float_normal_sample());
  to->set_next_double_normal_sample(from->next_double_normal_sample());
}

/// The generator as it was at the recorded call, for a while. Putting it back takes no memory: there may be none.
class RandomState {
 public:
  explicit RandomState(const RecordedCall& call) {
    if (!call.generator) return;
    generator_ = *call.generator;
    now_ = copy_of(generator_);
    set_state(generator_, call.random_state);
  }
  RandomState(const RandomState&) = delete;
  RandomState& operator=(const RandomState&) = delete;
  ~RandomState() {
    if (now_.defined()) set_state(generator_, now_);
  }

 private:
  at::Generator generator_, now_;
};

}  // namespace

void RecordedCall::for_each_source(const std::function<void(const Source&)>& use) const {
  for (const auto& argument : arguments) {
    if (const auto* source = std::get_if<Source>(&argument)) use(*source);
    const auto* list = std::get_if<SourceList>(&argument);
    if (list == nullptr) continue;
    for (const auto& item : list->items) {
      if (item) use(*item);
    }
  }
}

void check_source(const Source& source, at::IntArrayRef sizes) {
  if (!source.version.is_current()) throw_changed(sizes);
}

void throw_changed(at::IntArrayRef sizes) {
  std::ostringstream text;
  text << "a tensor of shape " << sizes
       << " from which the plan rebuilds activations was changed in place between forward and backward; step the "
          "optimizer after backward, or plan without recomputation";
  throw Error(text.str());
}

RecordedCall record(const c10::OperatorHandle& op, const KernelTraits& traits, const torch::jit::Stack& stack,
                    const std::vector<int>& outputs, const Recorder& recorder) {
  const auto count = op.schema().arguments().size();
  const auto first = stack.end() - static_cast<std::ptrdiff_t>(count);
  RecordedCall call{op, traits.is_process_group_call, c10::GradMode::is_enabled(), {}, outputs, std::nullopt, {}};
  call.arguments.reserve(count);
  const auto& statistics = traits.running_statistics;
  const bool forgets = statistics && first[static_cast<std::ptrdiff_t>((*statistics)[2])].toBool();
  for (std::size_t i = 0; i < count; ++i) {
    if (forgets && (i == (*statistics)[0] || i == (*statistics)[1])) {
      call.arguments.emplace_back(c10::IValue());
    } else {
      call.arguments.push_back(argument_of(first[static_cast<std::ptrdiff_t>(i)], recorder));
    }
  }
  if (traits.is_random) {
    call.generator = generator_of(stack, count);
    call.random_state = copy_of(*call.generator);
  }
  return call;
}

void recompute(const std::vector<RecordedCall>& calls, const FindStorage& find, const Made& made) {
  const Unseen unseen;
  const c10::impl::ExcludeDispatchKeyGuard below_autograd(c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                                                          c10::autocast_dispatch_keyset);
  std::unordered_map<int, at::Tensor> fresh;  // what the first of several calls makes, the others change
  const FindStorage look = [&](int storage) {
    const auto found = fresh.find(storage);
    return found == fresh.end() ? find(storage) : found->second.storage();
  };
  torch::jit::Stack stack;
  for (const auto& call : calls) {
    stack.clear();
    for (const auto& argument : call.arguments) stack.push_back(std::visit(Restore{look}, argument));
    {
      const c10::AutoGradMode gradients(call.had_gradients);
      const RandomState state(call);
      call.op.callBoxed(stack);
    }
    if (call.is_process_group_call) stack.back().toCustomClass<c10d::Work>()->wait();
    std::size_t n = 0;
    for_each_tensor(stack, stack.size(), [&](const at::Tensor& tensor) {
      if (n < call.outputs.size() && call.outputs[n] != kNone) fresh.insert_or_assign(call.outputs[n], tensor);
      ++n;
    });
  }
  for (const auto& [storage, tensor] : fresh) made(storage, tensor);
}

void for_each_tensor(const c10::IValue& value, const std::function<void(const at::Tensor&)>& use) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) use(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) for_each_tensor(item, use);
  }
}

void for_each_tensor(const torch::jit::Stack& stack, std::size_t count,
                     const std::function<void(const at::Tensor&)>& use) {
  for (auto value = stack.end() - static_cast<std::ptrdiff_t>(count); value != stack.end(); ++value) {
    for_each_tensor(*value, use);
  }
}

}  // namespace tidemark_torch
