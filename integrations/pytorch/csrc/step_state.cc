#include "integrations/pytorch/csrc/step_state.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "integrations/pytorch/csrc/kernel_watch.h"
#include "integrations/pytorch/csrc/phase_bytes.h"

namespace tidemark_torch {

namespace py = pybind11;

namespace {

SetPhase set_phase = nullptr;

class InForward {
 public:
  InForward() : before_(set_phase == nullptr ? 0 : set_phase(static_cast<std::int32_t>(Phase::forward))) {}
  InForward(const InForward&) = delete;
  InForward& operator=(const InForward&) = delete;
  ~InForward() {
    if (set_phase != nullptr) set_phase(before_);
  }

 private:
  std::int32_t before_;
};

/// All bytes of a storage.
at::Tensor flat(const c10::Storage& storage) {
  const auto bytes = static_cast<std::int64_t>(storage.nbytes());
  return at::empty({0}, at::TensorOptions(storage.device()).dtype(at::kByte)).set_(storage, 0, {bytes}, {1});
}

}  // namespace

void count_phases(SetPhase function) {
  set_phase = function;
}

void check_unchanged(at::IntArrayRef sizes, const VersionSeen& version) {
  if (version.is_current()) return;
  std::ostringstream text;
  text << "a tensor of shape " << sizes
       << " needed for gradient computation has been modified in place: it is at version " << version.now()
       << ", expected version " << version.seen();
  throw std::runtime_error(text.str());
}

/// Whoever has the lock may be waiting for Python's, so that must not be held by who waits.
class StepState::Locked {
 public:
  explicit Locked(const StepState& state) : lock_(state.mutex_, std::try_to_lock) {
    if (lock_.owns_lock()) return;
    std::optional<py::gil_scoped_release> others_may_run;
    if (PyGILState_Check() != 0) others_may_run.emplace();
    lock_.lock();
  }

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

std::shared_ptr<StepState> StepState::make(std::shared_ptr<const PlannedBatch> batch, py::object host,
                                           std::shared_ptr<Counters> counters) {
  const auto destroy = [](const StepState* state) {
    const py::gil_scoped_acquire lock;
    delete state;
  };
  return {new StepState(std::move(batch), std::move(host), std::move(counters)), destroy};
}

StepState::StepState(std::shared_ptr<const PlannedBatch> batch, py::object host, std::shared_ptr<Counters> counters)
    : batch_(std::move(batch)),
      host_(std::move(host)),
      counters_(std::move(counters)),
      storages_(at(batch_->storages())),
      recorded_(at(batch_->rebuilds)),
      shared_(at(batch_->shared)) {}

int StepState::storage_of(const at::Tensor& tensor) const {
  if (!is_plain(tensor)) return kNone;
  const Locked lock(*this);
  const auto found = by_address_.find(tensor.storage().unsafeGetStorageImpl());
  return found == by_address_.end() ? kNone : found->second;
}

void StepState::take(int storage, const c10::Storage& there, bool is_original) {
  if (is_there(storage)) forget(storage);
  storages_[at(storage)].there = there;
  storages_[at(storage)].is_original = is_original;
  by_address_[there.unsafeGetStorageImpl()] = storage;
}

void StepState::forget(int storage) {
  auto& there = storages_[at(storage)].there;
  by_address_.erase(there.unsafeGetStorageImpl());
  there = {};
}

bool StepState::can_be_rebuilt(int storage) const {
  const auto& known = storages_[at(storage)];
  return known.rebuild != kNone && recorded_[at(known.rebuild)] && !known.spared;
}

void StepState::before_change(const at::Tensor& tensor, bool planned) {
  const Locked lock(*this);
  const int storage = storage_of(tensor);
  if (storage == kNone) return;
  forget_copies(storage);
  if (planned) return;
  storages_[at(storage)].spared = true;
  for (const auto& calls : recorded_) {
    if (!calls) continue;
    if (std::none_of(calls->begin(), calls->end(), [&](const auto& call) { return call.reads(storage); })) continue;
    for (const auto& call : *calls) {
      for (const int output : *call.outputs) {
        if (output == kNone || storages_[at(output)].rebuild == kNone) continue;  // a call that failed made none
        (void)get(output);
        storages_[at(output)].spared = true;
      }
    }
  }
}

void StepState::record_call(const PlannedCall& planned, const c10::OperatorHandle& op, const KernelTraits& traits,
                            const torch::jit::Stack& stack) {
  const Locked lock(*this);
  auto& calls = recorded_[at(planned.rebuild)];
  if (planned.first) calls.emplace();
  if (!calls) return;
  calls->push_back(
      record(op, traits, stack, planned.outputs, [this](const at::Tensor& tensor) { return storage_of(tensor); }));
}

void StepState::take_output(const PlannedCall& planned, int storage, const at::Tensor& tensor) {
  const Locked lock(*this);
  if (!is_plain(tensor)) {  // stays with whoever holds it, and so does all that the operation made
    if (planned.rebuild != kNone) recorded_[at(planned.rebuild)].reset();
    return;
  }
  take(storage, tensor.storage(), true);
  storages_[at(storage)].rebuild = planned.rebuild;
}

void StepState::count_save(const PlannedSave& planned) {
  const Locked lock(*this);
  ++storages_[at(planned.storage)].outstanding;
  ++shared_[at(planned.shared)];
}

void StepState::advance_to(int place) {
  const Locked lock(*this);
  const auto& instructions = batch_->instructions;
  while (next_ < instructions.size() && instructions[next_].before <= place) {
    const auto& instruction = instructions[next_++];
    const int target = instruction.target;
    switch (instruction.action) {
      case Action::run:
        rebuild(target, instruction.kept);
        break;
      case Action::drop:
        drop(instruction);
        break;
      case Action::wait:
        wait_for_copy_out(target);
        break;
      case Action::begin:
      case Action::back:
        if (is_there(target) || in_host_.count(target) == 0) break;
        begin_copy_in(target);
        if (instruction.action == Action::back) from_host(target);
        break;
    }
  }
}

void StepState::rebuild(int operation, const std::vector<int>& wanted) {
  const auto& calls = recorded_[at(operation)];
  const auto missing = [&](int storage) { return !is_there(storage); };
  if (!calls || std::none_of(wanted.begin(), wanted.end(), missing)) return;
  check_sources(*calls);
  std::optional<py::gil_scoped_release> others_may_run;
  if (PyGILState_Check() != 0) others_may_run.emplace();
  const InForward phase;
  run_again(
      *calls, [this](int storage) { return get(storage); },
      [&](int storage, const at::Tensor& tensor) {
        const bool is_wanted = std::find(wanted.begin(), wanted.end(), storage) != wanted.end();
        if (is_wanted && missing(storage)) take(storage, tensor.storage(), false);
      });
  ++counters_->recomputed;
}

/// What is rebuilt from must be as it was. The session hears of changes in forward; others may have been made since.
void StepState::check_sources(const std::vector<RecordedCall>& calls) const {
  std::vector<int> made;
  for (const auto& call : calls) {
    call.for_each_source([&](const Source& source) {
      if (source.storage == kNone || std::find(made.begin(), made.end(), source.storage) != made.end()) return;
      const auto& known = storages_[at(source.storage)];
      if (known.there && known.is_original) check_source(source, source.geometry.sizes);
    });
    made.insert(made.end(), call.outputs->begin(), call.outputs->end());
  }
}

c10::Storage StepState::get(int storage) {
  auto& known = storages_[at(storage)];
  if (known.there) return known.there;
  if (in_host_.count(storage) != 0) {
    from_host(storage);
  } else {
    ++counters_->off_plan;
    if (known.rebuild == kNone || !recorded_[at(known.rebuild)]) throw Error("a storage is gone that no call made");
    rebuild(known.rebuild, {storage});
  }
  return known.there;
}

void StepState::drop(const Instruction& instruction) {
  const int storage = instruction.target;
  const bool asked_for = storages_[at(storage)].outstanding > 0;
  if (!is_there(storage)) {
    if (instruction.last && !asked_for) forget_copies(storage);
    return;
  }
  if (instruction.to_host) {
    copy_out(storage);
  } else if (instruction.last) {
    if (asked_for) return;  // off the plan
    forget_copies(storage);
  } else if (!can_be_rebuilt(storage)) {
    return;
  }
  forget(storage);
}

at::Tensor StepState::unpack(const PlannedSave& planned, const Geometry& geometry, const VersionSeen& version) {
  const Locked lock(*this);
  const bool keeps_graph = torch::autograd::get_current_graph_task_keep_graph();
  const int storage = planned.storage;
  if (!keeps_graph) {
    --storages_[at(storage)].outstanding;
    --shared_[at(planned.shared)];
  }
  if (planned.use != kNone) advance_to(planned.use);
  check_unchanged(geometry.sizes, version);
  auto tensor = geometry.over(get(storage));
  if (planned.leaves && !keeps_graph && shared_[at(planned.shared)] == 0) leave(storage, planned.last);
  return tensor;
}

/// The running node holds it, and nobody will after that.
void StepState::leave(int storage, bool last) {
  if (last ? storages_[at(storage)].outstanding > 0 : !can_be_rebuilt(storage)) return;
  forget(storage);
}

void StepState::wait_for_copy_out(int storage) {
  const auto copy = in_host_.find(storage);
  if (copy == in_host_.end()) return;
  const py::gil_scoped_acquire lock;
  const Unseen unseen;
  host_.attr("wait")(copy->second);
}

void StepState::copy_out(int storage) {
  const py::gil_scoped_acquire lock;
  const Unseen unseen;
  if (in_host_.count(storage) == 0) in_host_[storage] = host_.attr("copy_out")(flat(storages_[at(storage)].there));
  ++counters_->swapped;
}

void StepState::begin_copy_in(int storage) {
  if (coming_.count(storage) != 0) return;
  const py::gil_scoped_acquire lock;
  const Unseen unseen;
  const InForward phase;
  coming_[storage] = host_.attr("copy_in")(in_host_.at(storage));
}

void StepState::from_host(int storage) {
  begin_copy_in(storage);
  const py::gil_scoped_acquire lock;
  const Unseen unseen;
  take(storage, coming_.at(storage).attr("wait")().cast<at::Tensor>().storage(), false);
  coming_.erase(storage);
  if (!batch_->copied_once[at(storage)]) in_host_.erase(storage);
}

void StepState::forget_copies(int storage) {
  if (in_host_.count(storage) == 0 && coming_.count(storage) == 0) return;
  const py::gil_scoped_acquire lock;
  in_host_.erase(storage);
  coming_.erase(storage);
}

}  // namespace tidemark_torch
