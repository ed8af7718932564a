// A kernel call that can be made again: its arguments, with their tensors replaced by where to find them.

#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <variant>
#include <vector>

#include "integrations/pytorch/csrc/geometry.h"
#include "integrations/pytorch/csrc/kernel_traits.h"
#include "integrations/pytorch/csrc/planned_loop.h"

namespace tidemark_torch {

/// Becomes TidemarkError.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A tensor in a storage that the session looks after, or one that is there anyway: a parameter, an input.
struct Source {
  int storage = kNone;
  const void* original = nullptr;  // the storage it was read from, for comparison
  std::int64_t changes = 0;        // made in place before it was read, by the session's count
  Geometry geometry;
  at::Tensor held;
  VersionSeen version;
};

struct SourceList {
  std::vector<std::optional<Source>> items;
  bool optional = false;  // a list of optional tensors
};

using Argument = std::variant<c10::IValue, Source, SourceList>;

struct RecordedCall {
  c10::OperatorHandle op;
  bool is_process_group_call = false;
  bool had_gradients = true;  // the mode, which kernels ask: oneDNN's LSTM makes its workspace by it
  std::vector<Argument> arguments;
  std::vector<int> outputs;  // storages by tensor returned; its own, as backward may outlive the plan of the loop
  std::optional<at::Generator> generator;
  at::Generator random_state;  // a copy; not a tensor: those count against the budget, and are asked for

  void for_each_source(const std::function<void(const Source&)>& use) const;
};

/// Throws Error where what `source` was read from has been changed in place since.
void check_source(const Source& source, at::IntArrayRef sizes);
[[noreturn]] void throw_changed(at::IntArrayRef sizes);

/// Number of the storage a tensor lies in, or kNone.
using StorageOf = std::function<int(const at::Tensor&)>;

/// What a call finds when it is recorded.
struct Recorder {
  StorageOf storage_of;
  std::int64_t changes = 0;  // as Source::changes
};

using FindStorage = std::function<c10::Storage(int)>;
/// A storage that was made.
using Made = std::function<void(int, const at::Tensor&)>;

/// Before the call is made: its arguments are the last of `stack`.
[[nodiscard]] RecordedCall record(const c10::OperatorHandle& op, const KernelTraits& traits,
                                  const torch::jit::Stack& stack, const std::vector<int>& outputs,
                                  const Recorder& recorder);

/// Makes the calls of one operation again, below autograd and autocast, as they were recorded: the same kernels on the
/// same bits. Throws Error where a tensor that should be there was changed meanwhile.
void recompute(const std::vector<RecordedCall>& calls, const FindStorage& find, const Made& made);

/// Defined tensors among the last `count` values of a stack, in order, lists flattened.
void for_each_tensor(const torch::jit::Stack& stack, std::size_t count,
                     const std::function<void(const at::Tensor&)>& use);
void for_each_tensor(const c10::IValue& value, const std::function<void(const at::Tensor&)>& use);

}  // namespace tidemark_torch
